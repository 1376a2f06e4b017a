"""Weights of an ensemble: the proximal step of shrub ensembles.

Kyrillidis et al. 2013: on the simplex with at most m weights above 0, keep the m greatest and project those. Wang and
Carreira-Perpiñán 2013: that projection, by sorting.
"""

from models.kernel import kernel


@kernel
def project(w, n, m, order):
    """Project w[:n] on {w >= 0, sum w = 1, at most m above 0}; of equal weights those that come first are kept.

    Mutates w, order (scratch, (n,) int32 or longer). O(n^2): n is small, and nearly sorted from step to step.
    """
    for j in range(n):
        k = j
        while k > 0 and w[order[k - 1]] < w[j]:
            order[k] = order[k - 1]
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
