"""From what features add to scores to what they add to a probability, or to a rate.

Both are functions of scores that are not linear, so the change from where the scores begin to the prediction is shared
out. If scores s change by ds, the probability of class a changes by p_a (ds_a - sum over c of p_c ds_c). Put for each p
there the logarithmic mean of that at the beginning and that at the end, (p - q) / log(p / q), and scale the weights in
the sum to 1: then what all features add is p_a - q_a exactly, whatever the order in which they are taken, and a change
of all scores alike adds nothing. Of two classes it is in proportion to what features add to the score.

This is how indices of energy are decomposed: B. W. Ang, F. Q. Zhang and K.-H. Choi: Factorizing changes in energy and
environmental indicators through decomposition. Energy 23, 1998.
"""

import math

from models.kernel import kernel


@kernel(inline=True)
def logarithmic_mean(a, b, difference):
    """Of a and b = a exp(difference)."""
    if difference > 0.0:
        return b * (-math.expm1(-difference) / difference)
    return a * (math.expm1(difference) / difference) if difference < 0.0 else a


@kernel(inline=True)
def _to_logarithms(scores, known):
    """Scores to the logarithms of the probabilities of the classes that are known. Mutates scores."""
    top = -math.inf
    for c in range(len(known)):
        if known[c] > 0.0 and scores[c] > top:
            top = scores[c]
    total = 0.0
    for c in range(len(known)):
        if known[c] > 0.0:
            total += math.exp(scores[c] - top)
    for c in range(len(known)):
        scores[c] -= top + math.log(total)


@kernel
def to_probability(added, known, about, before, after, out):
    """Write what each feature adds to the probability of class `about`, and in the last place where it begins.

    added : (d + 1, classes), what each feature adds to the scores, and in the last row where these begin. known :
    (classes,), above 0 where the class has a probability. before, after : (classes,), scratch. Mutates those and out :
    (d + 1,), which is 0. O(d classes).
    """
    last = len(out) - 1
    if not known[about] > 0.0:
        return
    for c in range(len(known)):
        before[c] = added[last, c]
        after[c] = added[last, c]
        for f in range(last):
            after[c] += added[f, c]
    _to_logarithms(before, known)
    _to_logarithms(after, known)
    total = 0.0
    for c in range(len(known)):
        if known[c] > 0.0:
            start = math.exp(before[c])
            if c == about:
                out[last] = start
            after[c] = logarithmic_mean(start, math.exp(after[c]), after[c] - before[c])
            total += after[c]
    for f in range(last):
        mean = 0.0
        for c in range(len(known)):
            if known[c] > 0.0:
                mean += after[c] / total * added[f, c]
        out[f] = after[about] * (added[f, about] - mean)


@kernel
def to_rate(added, centre, most, out):
    """Write what each feature adds to exp(centre + score), and in the last place where it begins.

    added : (d + 1, 1). most : the logarithm of the greatest rate. Mutates out : (d + 1,). O(d).
    """
    last = len(out) - 1
    difference = 0.0
    for f in range(last):
        difference += added[f, 0]
    before = centre + added[last, 0]
    after = before + difference
    slope = logarithmic_mean(math.exp(min(before, most)), math.exp(min(after, most)), difference)
    if max(before, after) > most:
        change = math.exp(min(after, most)) - math.exp(min(before, most))
        slope = change / difference if difference != 0.0 else 0.0
    for f in range(last):
        out[f] = slope * added[f, 0]
    out[last] = math.exp(min(before, most))
