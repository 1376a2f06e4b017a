"""What features add to the prediction of a logarithmic pool. Exact: what is left is what members leave.

A logarithmic pool is a softmax of the sum of w_m log p_m(c). On the straight way from where a member begins, b, to what
it voted, p, what a feature adds to p it adds to log p in proportion: (log p - log b) / (p - b) times as much, with
probabilities below a class's floor counted as that, as the pool does. From there to the pooled probability is as of
scores in models.score_contributions. What a member leaves (its leaf says more than its value), and all that a member
said which says no contributions, goes the same way, as one more feature which nobody is told of.
"""

import math

from models.kernel import kernel
from models.score_contributions import to_probability


@kernel
def add_opinions(found, votes, weight, floors, scores, known, told):
    """Add what a member's features add to the scores of all classes. O(n classes d).

    found : (n classes, d + 1), the member's contributions to each class in turn; NaN in the last column where there are
    none. votes : (n, classes); zeros where it knew nothing. floors : (classes,). Mutates scores : (n, d + 2, classes),
    of each feature, then what is left, then where they begin; known : (n, classes), above 0 where a class has a
    probability; told : (n,), whether a member said contributions.
    """
    n, k = votes.shape
    d = found.shape[1] - 1
    for i in range(n):
        total = 0.0
        for c in range(k):
            total += votes[i, c]
        if not total > 0.0:
            continue
        for c in range(k):
            p = votes[i, c]
            end = max(p, floors[c])
            known[i, c] = max(known[i, c], p)
            at = i * k + c
            begin = found[at, d]
            if math.isnan(begin):
                scores[i, d, c] += weight * math.log(end)
                continue
            told[i] = True
            start = max(begin, floors[c])
            change = math.log1p((end - start) / start)  # exact of small ones, which features may cancel to
            if p != begin:
                slope = change / (p - begin)
            else:
                slope = 1.0 / p if p > floors[c] else 0.0
            rest = change
            for f in range(d):
                added = slope * found[at, f]
                scores[i, f, c] += weight * added
                rest -= added
            scores[i, d, c] += weight * rest
            scores[i, d + 1, c] += weight * math.log(start)


@kernel
def add_shares(found, share, mean, known):
    """Add what a member says, by its share in a pool that adds up predictions. O(n d).

    found : (n, d + 1), NaN in the last column where the member knows nothing. Mutates mean : (n, d + 1), and
    known : (n,), whether somebody said something.
    """
    d = found.shape[1] - 1
    for i in range(len(found)):
        said = not math.isnan(found[i, d])
        known[i] |= said
        for f in range(d + said):
            mean[i, f] += share * found[i, f]


@kernel
def to_pooled(scores, known, told, about, before, after, whole, out):
    """Write what each feature adds to the pooled probability of the class asked about, and where that begins; NaN
    there where no member said. O(n classes d).

    scores, known, told : as of add_opinions. before, after : (classes,), whole : (d + 2,), scratch, of the last one
    what is left stands before where it begins. Mutates those and out : (n, d + 1).
    """
    d = out.shape[1] - 1
    for i in range(len(about)):
        whole[:] = 0.0
        if told[i]:
            to_probability(scores[i], known[i], about[i], before, after, whole)
        else:
            whole[d + 1] = math.nan
        for f in range(d):
            out[i, f] = whole[f]
        out[i, d] = whole[d + 1]
