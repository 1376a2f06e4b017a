"""Figures of the predictions whose labels came, for the page's *Quality*. Pure: arrays go in, what is drawn comes out.

Each has a slow twin in tests/app/naive_quality.py.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.evaluation.measures.objective import wilson
from riparian.app.page.outcomes import Outcomes, prices
from riparian.topics.records import ANOMALY, REGRESSION

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
MOST_SHOWN = 12  # classes of a confusion matrix; the rest are one
POINTS = 120  # of a curve
BINS = 40  # of a histogram
EDGE = 9.2  # log odds of 0.01 % and 99.99 %
GROUPS = 10  # of a calibration
SPANS, LEAST_SPAN = 24, 25  # of average precision over time: how many at most, and labels of the class in each
LEAST = 10  # labels, and of each side, from which on figures are shown


def confusion(named: Floats, label: Floats, most: int = MOST_SHOWN) -> tuple[list[int], list[list[int]]]:
    """How often each class was named where each was true.

    Parameters
    ----------
    named, label : (n,) codes of classes; NaN or below 0 of none, as which "named" may stand.
    most : classes that are told apart, the most frequent labels first; the others are one.

    Returns
    -------
    tuple
        The codes that are told apart, and rows of counts by true class. The last row and column are of other classes,
        or of none.

    Examples
    --------
    >>> confusion(np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0]))
    ([0, 1], [[1, 1, 0], [0, 1, 0], [0, 0, 0]])
    """
    codes, counts = np.unique(label[label >= 0], return_counts=True)
    shown = np.sort(codes[np.argsort(-counts, kind="stable")][:most])
    k = len(shown)

    def place(values: Floats) -> NDArray[np.int64]:
        at = np.minimum(np.searchsorted(shown, np.nan_to_num(values, nan=-1.0)), max(k - 1, 0))
        return np.where(shown[at] == values, at, k) if k else np.zeros(len(values), np.int64)

    matrix = np.bincount(place(label) * (k + 1) + place(named), minlength=(k + 1) ** 2).reshape(k + 1, k + 1)
    return [int(code) for code in shown], matrix.tolist()


def precision_recall(score: Floats, own: Bools, points: int = POINTS) -> dict[str, list[float]]:
    """Precision and recall where alerts are all predictions from a threshold on, by thresholds from high to low.

    Parameters
    ----------
    score : (n,). own : (n,) whether the label is the class.
    points : how many thresholds at most; equal steps of recall and of alerts, and always the ends.

    Returns
    -------
    dict
        "threshold", "precision", "recall" and "alerts" (share of the predictions), the same length each. Empty lists
        where no label is of the class.
    """
    order = np.argsort(-score, kind="stable")
    scores, hits = score[order], np.cumsum(own[order])
    if not len(hits) or not hits[-1]:
        return {"threshold": [], "precision": [], "recall": [], "alerts": []}
    last = np.flatnonzero(np.append(np.diff(scores) != 0.0, True))  # of equal scores: all are alerts, or none
    n, found = last + 1, hits[last]
    recall, alerts = found / hits[-1], n / len(score)
    if len(last) > points:
        steps = np.linspace(0.0, 1.0, points // 2)
        kept = np.concatenate((np.searchsorted(recall, steps), np.searchsorted(alerts, steps)))
        keep = np.unique(np.append(np.minimum(kept, len(last) - 1), (0, len(last) - 1)))
        last, n, found, recall, alerts = last[keep], n[keep], found[keep], recall[keep], alerts[keep]
    columns = {"threshold": scores[last], "precision": found / n, "recall": recall, "alerts": alerts}
    return {name: np.asarray(values, float).tolist() for name, values in columns.items()}


def average_precision(score: Floats, own: Bools) -> float | None:
    """The mean precision over the labels of a class, ranked by score; equal scores count as one step. None without
    any."""
    curve = precision_recall(score, own, points=len(score) + 1)
    steps = np.diff(np.concatenate(([0.0], curve["recall"])))
    return float(np.sum(steps * np.array(curve["precision"]))) if len(steps) else None


def average_over_time(time: NDArray[np.int64], score: Floats, own: Bools, spans: int = SPANS) -> dict[str, list[float]]:
    """Average precision of consecutive spans of time, of equal numbers of labels of the class, at least LEAST_SPAN.

    Parameters
    ----------
    time : (n,) ms. score, own : (n,) as `precision_recall` has them.

    Returns
    -------
    dict
        "from" and "to" (ms, of the span's first and last prediction), "value", and "chance" (share of the class), of
        each span; empty lists with fewer labels of the class than two spans have.
    """
    spans = min(spans, int(own.sum()) // LEAST_SPAN)
    found: dict[str, list[float]] = {name: [] for name in ("from", "to", "value", "chance")}
    if spans < 2:
        return found
    order = np.argsort(time, kind="stable")
    cuts = np.searchsorted(np.cumsum(own[order]), own.sum() * np.arange(1, spans) / spans, side="right")
    for part in np.split(order, cuts):
        value = average_precision(score[part], own[part])
        if value is not None:
            each = (int(time[part].min()), int(time[part].max()), value, float(own[part].mean()))
            for name, one in zip(found, each, strict=True):
                found[name].append(one)
    return found


def edges_of(score: Floats, odds: bool, bins: int = BINS) -> Floats:
    """(bins + 1,) edges of a histogram: of probabilities equal in log odds, from 0 to 1; else equal from the least to
    the greatest score."""
    if odds:
        inner = 1.0 / (1.0 + np.exp(-np.linspace(-EDGE, EDGE, bins - 1)))
        return np.concatenate(([0.0], inner, [1.0]))
    low, high = (float(score.min()), float(score.max())) if len(score) else (0.0, 1.0)
    return np.linspace(low, high if high > low else low + 1.0, bins + 1)


def histogram(score: Floats, edges: Floats) -> list[int]:
    """How many scores lie in each bin; one on an inner edge lies above it."""
    return [int(n) for n in np.histogram(score, edges)[0]]


def calibration(score: Floats, own: Bools, groups: int = GROUPS) -> dict[str, list[float]]:
    """How often the label was the class, by what was said of it.

    Equal numbers of labels of the class, not of predictions, make the groups: a rare class would have none in most.

    Returns
    -------
    dict
        "said" (mean score), "came" (share of labels), "low" and "high" (its interval of 95 %), and "n", of each group.
    """
    order = np.argsort(score, kind="stable")
    scores, owns = score[order], own[order].astype(float)
    total = owns.sum()
    groups = int(max(1, min(groups, total // LEAST)))
    cuts = np.searchsorted(np.cumsum(owns), total * np.arange(1, groups) / groups, side="right")
    if len(scores):  # equal scores are in one group
        cuts = np.searchsorted(scores, scores[np.minimum(cuts, len(scores) - 1)])
    parts = [part for part in np.split(np.arange(len(scores)), np.unique(cuts)) if len(part)]
    n = np.array([len(part) for part in parts], float)
    k = np.array([owns[part].sum() for part in parts])
    said = np.array([scores[part].mean() for part in parts])
    low, high = wilson(k / n, n) if len(n) else (n, n)
    columns = {"said": said, "came": k / n if len(n) else n, "low": low, "high": high, "n": n}
    return {name: values.tolist() for name, values in columns.items()}


def costs(curve: dict[str, list[float]], share: float, missed: float, false: float) -> list[float]:
    """The mean cost of a prediction at each threshold of a curve.

    share : of the labels that are of the class. missed, false : what a missed one and a false alert cost.
    """
    recall, alerts, precision = (np.array(curve[name], float) for name in ("recall", "alerts", "precision"))
    found: list[float] = (missed * share * (1.0 - recall) + false * alerts * (1.0 - precision)).tolist()
    return found


def errors(said: Floats, came: Floats, bins: int = BINS) -> dict[str, Any]:
    """How predicted values were off (predicted minus label): a histogram between the 1st and 99th percentile, and what
    came by tenths of what was said.

    Returns
    -------
    dict
        "edges", "counts" (those beyond count in the bins at the ends), "mae", "bias", and "by": the mean of what was
        said and of what came, of each tenth.
    """
    off = said - came
    low, high = np.percentile(off, [1.0, 99.0])
    edges = edges_of(np.array([low, high]), False, bins)
    order = np.argsort(said, kind="stable")
    parts = [part for part in np.array_split(order, GROUPS) if len(part)]
    by = {"said": [float(said[p].mean()) for p in parts], "came": [float(came[p].mean()) for p in parts]}
    counts = histogram(np.clip(off, edges[0], edges[-1]), edges)
    mae, bias = float(np.abs(off).mean()), float(off.mean())
    return {"edges": edges.tolist(), "counts": counts, "mae": mae, "bias": bias, "by": by}


def figures(outcomes: Outcomes, threshold: float | None, partition: int | None, early: bool = False) -> dict[str, Any]:
    """Everything that *Quality* draws.

    Parameters
    ----------
    threshold : float, optional
        Of the decision, as the metrics tell it.
    early : bool
        Whether labels that came before the rest of their time count, too: where `join.unlabelled` waits, those of one
        class come first.
    """
    spec = outcomes.spec
    _, rows = outcomes.rows(partition)
    said = ~np.isnan(rows["y"])
    came = ~np.isnan(rows["label"]) & said
    kept = came if early else came & outcomes.matured(rows)
    found: dict[str, Any] = {
        "predictions": int(said.sum()),
        "empty": int((~said).sum()),
        "labels": None if spec.label.of is not None else int(came.sum()),  # which no topic has
        "matured": None if outcomes.matures is None else int(np.sum(came & outcomes.matured(rows))),
        "n": int(kept.sum()),
        "from": int(rows["time"].min()) if len(rows) else None,
        "to": int(rows["time"].max()) if len(rows) else None,
        "class": outcomes.about,
    }
    scores = rows["score"][~np.isnan(rows["score"])]
    rows = rows[kept]
    odds = spec.task != ANOMALY
    if spec.task == REGRESSION:
        return found | ({"errors": errors(rows["y"], rows["label"])} if len(rows) >= LEAST else {})
    if len(scores):
        edges = edges_of(scores, odds)
        found["scores"] = {"edges": edges.tolist(), "all": histogram(scores, edges), "odds": odds}
    if spec.task != ANOMALY and len(rows):
        codes, matrix = confusion(rows["y"], rows["label"])
        found["confusion"] = {"classes": [outcomes.classes[code] for code in codes], "counts": matrix}
    if outcomes.about is None:
        sure = rows[~np.isnan(rows["sure"])]
        if len(sure) >= LEAST:
            found["calibration"] = calibration(sure["sure"], sure["y"] == sure["label"])
        return found
    own = rows["label"] == outcomes.code(outcomes.about)
    alert, n_own = rows["alert"], int(own.sum())
    hits, n_alerts = int(np.sum(own & alert)), int(alert.sum())
    found["decided"] = {
        "hits": hits, "missed": n_own - hits, "false": n_alerts - hits, "passed": len(rows) - n_own - n_alerts + hits,
        "threshold": threshold,
        "accuracy": None if spec.task == ANOMALY or not len(rows) else float(np.mean(rows["y"] == rows["label"])),
    }  # fmt: skip
    for name, k, n in (("recall", hits, n_own), ("precision", hits, n_alerts)):
        if n:
            low, high = wilson(k / n, n)
            found["decided"] |= {name: k / n, f"{name}_low": float(low), f"{name}_high": float(high)}
    scored = ~np.isnan(rows["score"])
    rows, own = rows[scored], own[scored]
    if min(int(own.sum()), int((~own).sum())) < LEAST:
        return found
    curve = precision_recall(rows["score"], own)
    found["curve"] = curve | {"average": average_precision(rows["score"], own), "share": float(own.mean())}
    found["average"] = average_over_time(rows["time"], rows["score"], own)
    edges = np.array(found["scores"]["edges"])
    found["scores"] |= {"own": histogram(rows["score"][own], edges), "other": histogram(rows["score"][~own], edges)}
    if odds:
        found["calibration"] = calibration(rows["score"], own)
    given = prices(spec, outcomes.classes)
    if given is not None:
        found["costs"] = {"missed": given[0], "false": given[1], "cost": costs(curve, float(own.mean()), *given)}
    return found
