"""Results of several runs side by side: means with standard errors, in order, the best one marked."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from riparian.app.errors import SpecError
from riparian.app.evaluation.figures.pareto_front import mark
from riparian.app.evaluation.measures.measures import AS_GIVEN, MEASURES, from_first, quality
from riparian.app.evaluation.sweep import Candidate


def summarise(
    chosen: Sequence[Candidate], results: Sequence[dict[str, Any]], sort: str | None = None
) -> list[dict[str, Any]]:
    """One entry per candidate, the best one first.

    Parameters
    ----------
    results : of `app.evaluation.sweep.run`, the repeats of a candidate one after the other.
    sort : str, optional
        A measure, or "given": in the order of `chosen`. By default accuracy or MAE, which tells the best one, too,
        where the order is as given.

    Returns
    -------
    list of dict
        model, parameters (as given), label, best, front (whether nothing beats it in accuracy, or MAE, and bytes:
        `app.evaluation.figures.pareto_front.mark`), repeats, mean and standard_error by measure. A measure is there
        where all repeats have it, its standard error where there are several; with late labels it is of the rows from
        the first label on. drifts, where detectors watched: name of the detector ->
        mean number of drifts.
    """
    by = quality(results[0]["task"]) if sort in (None, AS_GIVEN) else sort
    repeats = len(results) // len(chosen)
    entries = [_entry(c, results[i * repeats : (i + 1) * repeats]) for i, c in enumerate(chosen)]
    mark(entries, quality(results[0]["task"]))
    able = [entry for entry in entries if by in entry["mean"]]
    if not able and sort in (None, AS_GIVEN):  # no label was scored
        return entries
    if not able:
        raise SpecError(f"none of the runs has {by!r} to sort by: use {', '.join(entries[0]['mean'])}")
    sign = -1.0 if MEASURES[by].greater else 1.0
    ranked = sorted(able, key=lambda entry: sign * float(entry["mean"][by]))
    ranked[0]["best"] = True
    return entries if sort == AS_GIVEN else ranked + [entry for entry in entries if by not in entry["mean"]]


def _entry(candidate: Candidate, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = list(map(from_first, runs))
    values = {key: [run[key] for run in runs] for key in MEASURES if all(run.get(key) is not None for run in runs)}
    n = len(runs)
    errors = {key: statistics.stdev(found) / math.sqrt(n) for key, found in values.items()} if n > 1 else {}
    watched: dict[str, Any] = {}
    if "changes" in runs[0]:
        drifts = [change["detector"] for run in runs for change in run["changes"] if change["level"] == "drift"]
        watched = {"drifts": {name: drifts.count(name) / n for name in runs[0]["detectors"]}}
    return {
        "model": candidate.model,
        "parameters": dict(candidate.parameters),
        "label": candidate.label,
        "best": False,
        "front": False,
        "repeats": n,
        "mean": {key: statistics.fmean(found) for key, found in values.items()},
        "standard_error": errors,
        **watched,
    }
