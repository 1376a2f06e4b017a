"""What the page says of quality by the value of a feature (`metrics.segments`): what each value adds to a fall, and
which one surely broke. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from riparian.app.page.view import StreamView
from riparian.app.partition.predictions.by_segment import loss_of
from riparian.models.evaluation.segments import MISSED, MISTAKES
from riparian.topics.names import CHAMPION
from riparian.topics.records import SegmentFigures

TITLES = {MISTAKES: "Accuracy", MISSED: "Recall"}
MOST_NAMED = 3

Segments = Mapping[str, Mapping[str, list[SegmentFigures]]]


def _known(view: StreamView, partition: int | None) -> Segments:
    """Feature -> value -> what each partition knows of it."""
    found: dict[str, dict[str, list[SegmentFigures]]] = defaultdict(lambda: defaultdict(list))
    for record in view.of_role(CHAMPION, partition):
        for one in record.segments:
            found[one.feature][one.shown].append(one)
    return found


def by_feature(view: StreamView, partition: int | None = None) -> list[dict[str, Any]]:
    """Of each feature its values, those first that lower quality most.

    value : as a text. share : of the labels now. now, before : accuracy or recall; mean cost or absolute error. adds :
    what it adds to the change of that, share times rate now less before. since : when it was found to be surely worse,
    ms, or 0.
    """
    share = loss_of(view.spec) in TITLES
    tables = []
    for feature, values in _known(view, partition).items():
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
        tables.append({"feature": feature, "share": share, "values": rows})
    return tables


def broken(view: StreamView) -> tuple[str, int] | None:
    """A sentence that names the values which are surely worse, and since when, ms; None where there are none."""
    worse = [
        max((one for one in known if one.since), key=lambda one: one.rise)
        for values in _known(view, None).values()
        for known in values.values()
        if any(one.since for one in known)
    ]
    if not worse:
        return None
    worse.sort(key=lambda one: -one.rise)
    title, names = TITLES.get(loss_of(view.spec)), []
    for one in worse[:MOST_NAMED]:
        name = f"{one.feature} {one.shown}"
        if title is not None:
            name += f", from {100 * (1 - one.usual):.0f} to {100 * (1 - one.usual - one.rise):.0f} %"
        names.append(name)
    more = f"; and {len(worse) - MOST_NAMED} more" if len(worse) > MOST_NAMED else ""
    what = "The loss rose" if title is None else f"{title} fell"
    return f"{what} for {'; '.join(names)}{more}.", min(one.since for one in worse)
