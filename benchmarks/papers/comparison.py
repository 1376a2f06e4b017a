"""Results of `riparian evaluate --json` on several data sets, compared: mean ranks, and tests of every pair."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers import significance
from riparian.app.errors import DataError, SpecError
from riparian.app.evaluation.measures.measures import MEASURES, quality
from riparian.models.contract import Floats

KEYS = ("data", "task", "repeats", "shuffled", "runs")
IDENTITY = (
    "data",
    "rows",
    "generated",
    "label_delay",
    "clock",
    "folds",
    "shuffled",
)  # what makes a data set another one


class Trials(NamedTuple):
    """What one model has on one data set.

    mean : of the repeats
    each : what can be paired with another model's: (seed, fold or 0) -> value
    """

    mean: float
    each: Mapping[tuple[int, int], float]


class Sets(NamedTuple):
    """What was found on each data set.

    trials : name of a data set -> label of a model -> its trials
    ratio : name -> that of `benchmarks.papers.significance.corrected_t`, None where it is not known
    measure : of which the trials are
    """

    trials: Mapping[str, Mapping[str, Trials]]
    ratio: Mapping[str, float | None]
    measure: str


def read(paths: Sequence[Path], measure: str | None = None, ratio: float | None = None) -> Sets:
    """The results of several files. Those of the same data are one data set, such as several models in a file each.

    Parameters
    ----------
    measure : str, optional
        Accuracy or MAE by default.
    ratio : float, optional
        Test rows for each training row of a resample, for results of shuffled rows.

    Raises
    ------
    DataError
        A file is not what `riparian evaluate --json` prints; tasks differ; a model is there twice.
    SpecError
        None of the models has the measure.
    """
    found: dict[str, dict[str, Trials]] = {}
    ratios: dict[str, float | None] = {}
    origin: dict[str, tuple[str, Path]] = {}
    first: tuple[str, Path] | None = None
    for path in paths:
        result = _load(path)
        if first is not None and result["task"] != first[0]:
            raise DataError(f"{path} is of a {result['task']}, {first[1]} of a {first[0]}: compare one task at a time")
        first = first or (result["task"], path)
        by = measure or quality(result["task"])
        what = json.dumps([result.get(key) for key in IDENTITY])
        name = next((name for name, (known, _) in origin.items() if known == what), None)
        if name is None:
            name = result["data"] if result["data"] not in origin else f"{result['data']} ({path.stem})"
            origin[name] = what, path
            found[name] = {}
            ratios[name] = _ratio(result, ratio)
        for label, trials in _trials(result, by).items():
            if label in found[name]:
                raise DataError(f"{path} and {origin[name][1]} both have {label!r} on {name}: leave one of them out")
            found[name][label] = trials
    if not any(found.values()):
        raise SpecError(f"none of the results has {measure!r}: choose another --measure")
    return Sets(found, ratios, measure or quality(first[0] if first else ""))


def compare(sets: Sets, alpha: float = 0.05) -> dict[str, Any]:
    """Compare all models that are on every data set.

    Returns
    -------
    dict
        JSON-serialisable: measure, alpha, data (names), models (labels, by mean rank), left_out (models that are not on
        all data sets), values (a row per data set, in the order of models), ranks (mean rank of each model), best (on
        how many data sets it is, ties shared), friedman (`significance.Friedman`; with three models or more),
        critical_difference, and pairs: a and b (a ranks better), wins, ties and losses of a, wilcoxon (p), holm (that
        corrected for all pairs), nemenyi (whether their ranks differ by more than the critical difference), and t,
        tests on single data sets: data, and `significance.TTest`.

    Raises
    ------
    DataError
        There are fewer than two data sets, or fewer than two models on all of them.
    """
    names = list(sets.trials)
    everyone = list(dict.fromkeys(label for name in names for label in sets.trials[name]))
    labels = [label for label in everyone if all(label in sets.trials[name] for name in names)]
    left_out = [label for label in everyone if label not in labels]
    if len(names) < 2:
        raise DataError(f"the results are of one data set, {', '.join(names)}: give those of two or more")
    if len(labels) < 2:
        rest = f", and {left_out[0]!r} is not on all" if left_out else ""
        raise DataError(f"{len(labels)} model is on all data sets{rest}: give results of the same two models or more")
    greater = MEASURES[sets.measure].greater
    values = np.array([[sets.trials[name][label].mean for label in labels] for name in names])
    ranks = significance.ranks(values, greater)
    order = np.argsort(ranks.mean(axis=0), kind="stable")
    labels, values, ranks = [labels[i] for i in order], values[:, order], ranks[:, order]
    first = ranks == ranks.min(axis=1, keepdims=True)
    result: dict[str, Any] = {"measure": sets.measure, "alpha": alpha, "data": names, "models": labels}
    result |= {"left_out": left_out, "values": values.tolist(), "ranks": ranks.mean(axis=0).tolist()}
    result["best"] = (first / first.sum(axis=1, keepdims=True)).sum(axis=0).tolist()
    if len(labels) > 2:
        result["friedman"] = significance.friedman(values)._asdict()
    limit = significance.critical_difference(len(labels), len(names), alpha)
    result["critical_difference"] = limit
    result["pairs"] = _pairs(sets, labels, values, result["ranks"], limit)
    return result


def _pairs(sets: Sets, labels: Sequence[str], values: Floats, ranks: Sequence[float], limit: float) -> list[Any]:
    sign = 1.0 if MEASURES[sets.measure].greater else -1.0
    pairs = list(combinations(range(len(labels)), 2))
    p = [significance.wilcoxon(values[:, i], values[:, j]) for i, j in pairs]
    found = []
    for (i, j), one, corrected in zip(pairs, p, significance.holm(p), strict=True):
        better = sign * (values[:, i] - values[:, j])
        wins = {"wins": int((better > 0).sum()), "ties": int((better == 0).sum()), "losses": int((better < 0).sum())}
        tests = {"wilcoxon": one, "holm": corrected, "nemenyi": bool(ranks[j] - ranks[i] > limit)}
        found.append({"a": labels[i], "b": labels[j], **wins, **tests, "t": _single(sets, labels[i], labels[j])})
    return found


def _single(sets: Sets, a: str, b: str) -> list[dict[str, Any]]:
    """t-tests of two models on each data set where they have at least two trials that are pairs."""
    found = []
    for name, trials in sets.trials.items():
        ours, others, ratio = trials[a].each, trials[b].each, sets.ratio[name]
        both = [key for key in ours if key in others]
        if ratio is not None and len(both) > 1:
            test = significance.corrected_t([ours[key] - others[key] for key in both], ratio)
            finite = {key: value if np.isfinite(value) else None for key, value in test._asdict().items()}
            found.append({"data": name, **finite})
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}): check the path") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(key in found for key in KEYS):
        raise DataError(f"{path} is no result: write one by riparian evaluate … --json > {path.name}")
    return found


def _ratio(result: Mapping[str, Any], given: float | None) -> float | None:
    if result.get("folds"):
        return 1.0 / (int(result["folds"]) - 1)
    return given if result["shuffled"] else 0.0


def _trials(result: Mapping[str, Any], measure: str) -> dict[str, Trials]:
    """Label -> what it has of the measure, where it has it in all repeats."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for run in result["runs"]:
        runs.setdefault(run["label"], []).append(run)
    found = {}
    for label, mine in runs.items():
        if any(run.get(measure) is None for run in mine):
            continue
        each: dict[tuple[int, int], float] = {}
        for run in mine:
            of_folds = run.get("by_fold", {}).get(measure, [run[measure]])
            each |= {(run["seed"], k): value for k, value in enumerate(of_folds) if value is not None}
        found[label] = Trials(float(np.mean([run[measure] for run in mine])), each)
    return found
