"""Quality by the value of a feature (`metrics.segments`): what each value adds to a change of it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from riparian.app.partition.predictions.by_segment import loss_of
from riparian.app.stream_file.spec import Spec
from riparian.models.evaluation.segments import MISSED, MISTAKES
from riparian.topics.records import SegmentFigures

TITLES = {MISTAKES: "Accuracy", MISSED: "Recall"}

Segments = Mapping[str, Mapping[str, list[SegmentFigures]]]


def by_value(figures: Iterable[SegmentFigures]) -> Segments:
    """Feature -> value -> what each partition knows of it."""
    found: dict[str, dict[str, list[SegmentFigures]]] = defaultdict(lambda: defaultdict(list))
    for one in figures:
        found[one.feature][one.shown].append(one)
    return found


def tables(spec: Spec, figures: Iterable[SegmentFigures]) -> list[dict[str, Any]]:
    """Of each feature its values, those first that lower quality most.

    value : as a text. share : of the labels now. now, before : accuracy or recall; mean cost or absolute error. adds :
    what it adds to the change of that, share times rate now less before. since : when it was found to be surely worse,
    ms, or 0.
    """
    share = loss_of(spec) in TITLES
    found = []
    for feature, values in by_value(figures).items():
        every = [one for known in values.values() for one in known]
        n, n_before = sum(one.n for one in every), sum(one.n_before for one in every)
        if not n > 0.0 or not n_before > 0.0:
            continue
        rows = list[dict[str, Any]]()
        for value, known in values.items():
            here, there = sum(one.n for one in known), sum(one.n_before for one in known)
            lost, lost_before = sum(one.loss for one in known), sum(one.loss_before for one in known)
            now, before = (here - lost, there - lost_before) if share else (lost, lost_before)
            rows.append(
                {
                    "value": value,
                    "share": here / n,
                    "now": now / here if here > 0.0 else None,
                    "before": before / there if there > 0.0 else None,
                    "adds": now / n - before / n_before,
                    "since": min((one.since for one in known if one.since), default=0),
                }
            )
        rows.sort(key=lambda row: row["adds"] if share else -row["adds"])
        found.append({"feature": feature, "share": share, "values": rows})
    return found
