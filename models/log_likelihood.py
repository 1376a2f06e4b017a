"""Naive Bayes once more, as sums of logarithms: what each feature adds, for reasons.

models.likelihood multiplies likelihoods, since a prediction needs nothing but their product, and models.blocks adds the
logarithms of histograms up. A reason asks for the addends: with w_c the weight of class c,

    log p(c | x) = log w_c + sum over the features of log P(x_f | c) - log of the sum over the classes.

So the way from the shares of the classes to what naive Bayes says is one of scores, and what each feature adds to a
probability is as models.score_contributions has it. A feature that rules a class out adds -inf. A class that a feature
was never seen with has likelihood 0, too, as one that a leaf inherited and has not seen: there no value of the feature
would say anything else, and what rules it out is no feature's.
"""

import math

from models.histogram import first_not_below
from models.kernel import kernel
from models.likelihood import count_plus, known_weight, precision
from models.observers import log_plus

HALF_LOG_PI = 0.5 * math.log(math.pi)


@kernel(inline=True)
def log_density(n, mean, m2, value):
    """Of a Gaussian, up to a constant, as models.likelihood has it: of values that are all the same 1 there."""
    a = precision(n, m2)
    apart = value - mean
    if a > 0.0:
        return 0.5 * math.log(a) - a * apart * apart
    return HALF_LOG_PI if a < 0.0 and apart == 0.0 else -math.inf


@kernel
def add_logarithms(block, class_weights, n_seen, layout, x, r, added):
    """Write log P(x_f | c) of row r of x, up to what all classes share; then a row for what is no feature's, -inf of a
    class that is ruled out so; and in the last row log w_c.

    block : of models.observers, or of models.blocks where layout.bins says so. Returns whether some class is possible:
    else naive Bayes says nothing. Mutates added : (d + 2, n_classes). O(d (log n_bins + n_classes)).
    """
    k = len(class_weights)
    d = len(layout.n_values)
    n_bins = layout.bins[0]
    for c in range(k):
        added[d, c] = 0.0
    for f in range(d):
        n_values = layout.n_values[f]
        value = x[r, f]
        i = int(layout.offset[f])
        if value - value != 0.0 or (n_values > 0 and not (value >= 0.0 and value < n_values)):
            for c in range(k):
                added[f, c] = 0.0
        elif n_values == 0 and n_bins == 0:
            for c in range(k):
                added[f, c] = 0.0
                if block[i + c] > 0.0:
                    added[f, c] = log_density(block[i + c], block[i + k + c], block[i + k + k + c], value)
                else:
                    added[d, c] = -math.inf
        else:
            share = 1.0
            more = 1.0
            at = i + (1 + int(value)) * k if n_values > 0 else 0
            if n_values > 0:
                more = float(n_seen[f])
            else:
                keys = i + k + 1
                n = max(1, int(block[keys - 1]))
                share = float(n)
                at = keys + n_bins + k * first_not_below(block, keys, n, value)
            for c in range(k):
                seen = block[i + c]
                added[f, c] = 0.0
                if seen > 0.0:
                    above = log_plus(count_plus(share * block[at + c], 1.0), 0.0)
                    added[f, c] = above - log_plus(count_plus(seen, more), 0.0)
                else:
                    added[d, c] = -math.inf
    some = False
    for c in range(k):
        added[d + 1, c] = 0.0
        if class_weights[c] > 0.0:
            added[d + 1, c] = math.log(known_weight(class_weights[c]))
            possible = True
            for f in range(d + 1):
                possible = possible and added[f, c] > -math.inf
            some = some or possible
    return some
