"""Weights of an ensemble: the proximal step of shrub ensembles.

Kyrillidis et al. 2013: on the simplex with at most m weights above 0, keep the m greatest and project those. Wang and
Carreira-Perpiñán 2013: that projection, by sorting.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import select

ONE = np.uint64(1)  # indices are unsigned: numba asks of signed ones whether they count from the end


@kernel(inline=True)
def in_order(order, n):
    """0 … n - 1, to begin with. Mutates order."""
    for j in range(n):
        order[j] = j


@kernel
def project(w, n, m, order):
    """Project w[:n] on {w >= 0, sum w = 1, at most m above 0}; of equal weights those that come first are kept.

    order : uint32, 0 … n - 1 in any order, best in that of the step before: sorting them is what takes time. Mutates
    w, order, which is then that of the weights. O(n^2), O(n) where the order has not changed.
    """
    ahead = w[order[0]]
    for i in range(np.uint64(1), np.uint64(n)):
        j = order[i]
        own = w[j]
        if own < ahead or (own == ahead and order[i - ONE] < j):  # the rule: nothing to do
            ahead = own
            continue
        k = i
        while k > np.uint64(0):
            before = order[k - ONE]
            if not (w[before] < own or (w[before] == own and before > j)):
                break
            order[k] = before
            k -= ONE
        order[k] = j
        ahead = w[order[i]]
    kept = np.uint64(min(n, m))
    total = 0.0
    theta = 0.0
    count = 0.0
    for k in range(kept):
        count += 1.0
        own = w[order[k]]
        total += own
        above = (total - 1.0) / count
        theta = select(own > above, above, theta)
    for k in range(kept):
        j = order[k]
        w[j] = max(w[j] - theta, 0.0)
    for k in range(kept, np.uint64(n)):
        w[order[k]] = 0.0
