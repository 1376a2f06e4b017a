"""What a leaf observes where it keeps histograms: the other kind of block beside that of models.observers.gaussians.

A numeric feature has the weight of each class, the number of keys, the keys, and for each the weight of every class
(models.observers.histogram): n_classes + 1 + n_bins (1 + n_classes) numbers. Naive Bayes takes log((n_bc + 1 / n) /
(n_c + 1)) for the bin b of a value, n being the number of keys: as if the class had one more instance, spread over all
bins (Laplace's one in every bin costs 1 point on elec). Nominal features are as in models.observers.gaussians. There is
no cache.

A learner that has both kinds compiles its loop for each (`binned`, a constant to the compiler): with a test inside, the
loop of a Hoeffding tree with Gaussians takes 1.4 times as long on Agrawal.
"""

import math

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.observers.gaussians import log_plus
from riparian.models.observers.histogram import first_not_below, place_of


@kernel
def observe_bins(block, known, layout, n_classes, x, r, c, w):
    """Learn row `r` of x, of class `c` and weight `w` > 0, into a block. Mutates block, known. O(d log n_bins), and
    O(n_bins n_classes) for a new key."""
    n_bins = layout.bins[0]
    for f in range(len(layout.n_values)):
        n_values = layout.n_values[f]
        value = x[r, f]
        i = np.int64(layout.offset[f])
        if n_values > 0:
            if not (value >= 0.0 and value < n_values):
                continue
            code = layout.code[f] + np.uint64(value)
            if known.values[code] == 0:
                known.values[code] = 1
                known.n_seen[f] += 1
            block[i + (1 + np.int64(value)) * n_classes + c] += w
        else:
            if value - value != 0.0:  # NaN or infinite
                continue
            keys = i + n_classes + 1
            place = place_of(block, keys - 1, n_bins, n_classes, n_classes, value)
            block[keys + n_bins + place * n_classes + c] += w
        block[i + c] += w


@kernel
def score_bins(block, class_weights, n_seen, layout, x, r, joint):
    """Naive Bayes as models.observers.gaussians.score. Mutates joint. O(d (log n_bins + n_classes)), logarithms from a
    table."""
    k = len(class_weights)
    for c in range(k):
        joint[c] = log_plus(class_weights[c], 0.0) if class_weights[c] > 0.0 else -math.inf
    for f in range(len(layout.n_values)):
        n_values = layout.n_values[f]
        value = x[r, f]
        i = np.int64(layout.offset[f])
        share = 1.0  # counts are compared with share instances more, each with 1; log(share) is the same in all classes
        if n_values > 0:
            if not (value >= 0.0 and value < n_values):
                continue
            more = float(n_seen[f])
            at = i + (1 + np.int64(value)) * k
        else:
            if value - value != 0.0:
                continue
            more = 1.0
            keys = i + k + 1
            n = max(1, int(block[keys - 1]))
            share = float(n)
            at = keys + layout.bins[0] + k * first_not_below(block, keys, n, value)
        for c in range(k):
            if block[i + c] > 0.0:
                joint[c] += log_plus(share * block[at + c], 1.0) - log_plus(block[i + c], more)
            else:
                joint[c] = -math.inf
    best = -1
    most = -math.inf
    for c in range(k):
        if joint[c] > most:
            most = joint[c]
            best = c
    return best
