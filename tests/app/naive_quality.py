"""The figures of *Quality*, one prediction at a time: slow, and obvious."""

import math


def confusion(named, label, most):
    """Rows of counts by true class, and the classes; the last row and column of all others."""
    times = {}
    for code in label:
        if code >= 0:
            times[code] = times.get(code, 0) + 1
    kept = sorted(sorted(times, key=lambda code: (-times[code], code))[:most])
    counts = [[0] * (len(kept) + 1) for _ in range(len(kept) + 1)]
    for y, code in zip(named, label, strict=True):
        i = kept.index(code) if code in kept else len(kept)
        j = kept.index(y) if y in kept else len(kept)
        counts[i][j] += 1
    return [int(code) for code in kept], counts


def at_threshold(score, own, threshold):
    """Precision, recall and the share of alerts where every score from a threshold on is an alert."""
    alerts = [is_own for value, is_own in zip(score, own, strict=True) if value >= threshold]
    return sum(alerts) / len(alerts), sum(alerts) / sum(own), len(alerts) / len(score)


def average_precision(score, own):
    total, before = 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        precision, recall, _ = at_threshold(score, own, threshold)
        total += (recall - before) * precision
        before = recall
    return total


def cost(score, own, threshold, missed, false):
    """The mean cost of a prediction."""
    total = 0.0
    for value, is_own in zip(score, own, strict=True):
        if is_own and value < threshold:
            total += missed
        elif not is_own and value >= threshold:
            total += false
    return total / len(score)


def wilson(k, n, z=1.959964):
    """Both shares p with |k/n - p| = z sqrt(p (1 - p) / n), by bisection."""

    def outside(p):
        return abs(k / n - p) > z * math.sqrt(p * (1 - p) / n)

    def edge(inside, out):
        for _ in range(200):
            middle = (inside + out) / 2
            inside, out = (inside, middle) if outside(middle) else (middle, out)
        return inside

    return edge(k / n, 0.0), edge(k / n, 1.0)


def outcome(prediction, labels, about, clock, matures, assumed):
    """What came of a prediction: partition, id, alert, time. labels : (partition, id, class), in order."""
    partition, id_, alert, time = prediction
    known = [y for p, other, y in labels if (p, other) == (partition, id_)]
    if known and known[0] is None:
        return "no label"
    y = known[0] if known else assumed if matures is not None and time + matures <= clock else None
    if y is None:
        return "waiting"
    if alert:
        return "right" if y == about else "wrong"
    return "missed" if y == about else "passed"


def average_over_time(time, score, own, spans, least):
    """Spans of equal numbers of labels of the class, label by label: (from, to, average precision, share)."""
    rows = sorted(zip(time, range(len(time)), score, own, strict=True), key=lambda row: row[:2])
    total = sum(own)
    spans = min(spans, total // least)
    if spans < 2:
        return []
    parts, part, seen = [], [], 0
    for row in rows:
        seen += row[3]
        part_of = sum(seen * spans > total * k for k in range(1, spans))
        while len(parts) < part_of:
            parts.append(part)
            part = []
        part.append(row)
    parts.append(part)
    found = []
    for one in parts:
        _, _, scores, owns = zip(*one, strict=True)
        value = average_precision(scores, owns)
        found.append((one[0][0], one[-1][0], value, sum(owns) / len(owns)))
    return found
