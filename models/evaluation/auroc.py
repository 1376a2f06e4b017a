"""AUROC of scores that are all there: the chance that a label of a class has a greater score than one of another class,
ties counted half (Hanley and McNeil: The meaning and use of the area under a receiver operating characteristic (ROC)
curve. Radiology 143, 1982). The score is the probability that was predicted for the class.
"""

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel


def areas(y: NDArray[np.int64], p: Floats, w: Floats) -> dict[int, float]:
    """Class code -> AUROC against all others, of the first m classes: those of which there is a label, and one of
    others. O(m n log n).

    y : (n,) class codes. p : (n, m) scores. w : (n,) weights > 0.

    Examples
    --------
    >>> areas(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.ones(3))
    {0: 1.0, 1: 1.0}
    """
    found = {}
    for k, scores in enumerate(np.ascontiguousarray(p.T)):  # NumPy sorts such rows some times as fast as a kernel does
        own = y == k
        if own.any() and not own.all():
            found[k] = _area(np.argsort(scores, kind="stable"), own, scores, w)
    return found


def mean(found: dict[int, float], n_classes: int | None = None) -> float | None:
    """One figure of `areas`: for two classes that of the second, which both have, else the mean of all; None without
    any. n_classes : that occur, where some are beyond the first m."""
    if not found:
        return None
    two = (len(found) if n_classes is None else n_classes) == 2
    return found[max(found)] if two else float(np.mean(list(found.values())))


@kernel
def _area(order, own, scores, w):
    """AUROC of the labels `own` against all others, of which both there are. order : of ascending scores. O(n)."""
    n = len(order)
    pairs, all_own, below, i = 0.0, 0.0, 0.0, 0
    while i < n:
        score, here, others = scores[order[i]], 0.0, 0.0
        while True:  # once at least: a score that is no number is equal to none
            if own[order[i]]:
                here += w[order[i]]
            else:
                others += w[order[i]]
            i += 1
            if i == n or scores[order[i]] != score:
                break
        pairs += here * (below + 0.5 * others)
        all_own += here
        below += others
    return pairs / (all_own * below)
