"""How even classes are among the labels: by this measure learners by gradient descent shorten their steps.

A normalised step (Adam's, or one that is divided by the root of its mean square) grows with how much a gradient is
above the usual one. Of a class that is one label in 500 it is hundreds of times the usual one: each of its labels moves
weights as far as many labels of even classes would.
"""

import math

from riparian.models.kernels.kernel import kernel


@kernel
def evenness(class_counts):
    """The root of the Gini impurity of the labels, over the most that so many classes can have: 1 for even classes.

    class_counts : (n_outputs,), the weight of the labels of each class, of which only those above 0 count. 1.0 until
    there are two, 0.0 where a weight's square is beyond float64. O(n_outputs).
    """
    n_seen, total, squares = 0, 0.0, 0.0
    for c in range(len(class_counts)):
        n_seen += class_counts[c] > 0.0
        total += class_counts[c]
        squares += class_counts[c] ** 2
    if n_seen < 2:
        return 1.0
    pure = squares / total**2
    return math.sqrt((1.0 - pure) * n_seen / (n_seen - 1)) if pure < 1.0 else 0.0
