"""What a share of labels brings, of each key that a draft proposes: the first rows of its file, predicted with and
without it by a tree. The second half of them counts, since a share is of labels that have come."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from riparian.app.dataset.files.arrow import open_data
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.app.stream_file.draft import Draft, of_labels, proposed, write
from riparian.app.stream_file.spec import build
from riparian.app.stream_file.strict_yaml import parse_yaml
from riparian.topics.records import CLASSIFICATION, REGRESSION

ROWS = 200_000  # at most
SECONDS = 20.0  # of all trees together, without what compiles their kernels
MODELS = {CLASSIFICATION: "hoeffding-tree", REGRESSION: "fimt-dd"}


def brought(draft: Draft, data: Path, on_progress: Callable[[int], None]) -> list[str]:
    """A sentence for each such feature; none of a file without times, by which the past fades. on_progress : rows done.
    Labels come at once, since a file need not say when they did."""
    features, keys = proposed(draft)
    names = of_labels(features)
    if not names or draft.moments is None:
        return []
    rare = features[names[0]].get("share")
    half = max(1, open_data(data).count(ROWS) // 2)
    runs = [_whole(draft, data, half)]
    for name in names:
        key = features[name]["by"]
        runs.append(_whole(draft, data, half, features={name: features[name]}, keys={key: keys[key]}))
    for run in runs:
        run.learner.warm_up()
    rows, end = 0, time.monotonic() + SECONDS
    for steps in zip(*(run.outcomes() for run in runs), strict=True):
        rows += len(steps[0][1].offsets)
        on_progress(rows)
        if time.monotonic() > end:
            break
    without, *others = [_figure(run, rare) for run in runs]
    measure = "a mean absolute error" if rare is None else f"an AUROC of {rare!r}"
    over = f"over the last {min(half, rows):,} of the first {rows:,} rows, labelled at once"
    return [
        f"{name}: {over}, {MODELS[draft.task]} has {measure} of {found:.3f} with it, and of {without:.3f} without."
        for name, found in zip(names, others, strict=True)
        if found is not None and without is not None
    ]


def _whole(draft: Draft, data: Path, half: int, **more: dict[str, Any]) -> Whole:
    fields = parse_yaml(write(draft)[0], draft.name) | {"champion": MODELS[draft.task], "metrics": {"window": half}}
    fields |= {"classes": list(draft.classes)} if draft.classes else {}
    fields["features"] |= more.pop("features", {})
    stream = build(fields | more, draft.name)
    return Whole(Setup(data=data, stream=stream, target=draft.label, clock=draft.moments, limit=ROWS))


def _figure(run: Whole, rare: str | None) -> float | None:
    """The AUROC of a class against the rest, or the mean absolute error. None of too few labels."""
    figures = run.learner.figures()
    if rare is None:
        return figures.recent["champion"].get("mae")
    return figures.by_class.get("champion", {}).get(rare, {}).get("auroc")
