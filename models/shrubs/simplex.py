"""Weights of an ensemble: the proximal step of shrub ensembles.

Kyrillidis et al. 2013: on the simplex with at most m weights above 0, keep the m greatest and project those. Wang and
Carreira-Perpiñán 2013: that projection, by sorting.
"""

from models.kernel import kernel


@kernel(inline=True)
def in_order(order, n):
    """0 … n - 1, to begin with. Mutates order."""
    for j in range(n):
        order[j] = j


@kernel
def project(w, n, m, order):
    """Project w[:n] on {w >= 0, sum w = 1, at most m above 0}; of equal weights those that come first are kept.

    order : int32, 0 … n - 1 in any order, best in that of the step before: sorting them is what takes time. Mutates
    w, order, which is then that of the weights. O(n^2), O(n) where the order has not changed.
    """
    for i in range(1, n):
        j = order[i]
        k = i
        while k > 0:
            before = order[k - 1]
            if not (w[before] < w[j] or (w[before] == w[j] and before > j)):
                break
            order[k] = before
            k -= 1
        order[k] = j
    kept = min(n, m)
    total = 0.0
    theta = 0.0
    for k in range(kept):
        total += w[order[k]]
        above = (total - 1.0) / (k + 1.0)
        if w[order[k]] > above:
            theta = above
    for k in range(n):
        j = order[k]
        w[j] = max(w[j] - theta, 0.0) if k < kept else 0.0
