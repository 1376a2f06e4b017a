"""Where a leaf could split: one candidate test a feature, from the statistics of models.observers.gaussians.

Domingos and Hulten 2000, section 2. Numeric candidates from Gaussians, after Pfahringer, Holmes and Kirkby 2008:
n_points thresholds at equal distances between the least and greatest value, with each class's weight on both sides from
its Gaussian. From histograms: every key but the greatest, with the weights counted up to it.

The merit of a test is what it gains over not splitting, so that "no split" has merit 0, times the share of weight whose
value is known (Quinlan 1993): the decrease of entropy (bits) or of the Gini impurity, or the Hellinger distance between
the distributions of two classes over the branches (Cieslak and Chawla 2008), which does not depend on how frequent the
classes are:

    d(c, rest) = sqrt(sum over branches j of (sqrt(n_jc / n_c) - sqrt((n_j - n_jc) / (n - n_c)))^2)   in 0 .. sqrt(2).

With more than two classes it is the greatest distance of one class from the rest. A test needs at least two branches
with more than min_branch_fraction of the weight.

Deviations from MOA: impurity before the split is taken over the weight that the feature observed, as after it (MOA
adds inherited estimates, so chance can look like a gain); not splitting has merit 0 (in MOA -inf for the information
gain: it never wins); ties go to the first feature, not the last; Hellinger distances are between classes over branches,
as in the paper (MOA: between two branches over classes).
"""

import math

import numpy as np

from riparian.models.kernels.elementary import LN_2, erf, log
from riparian.models.kernels.kernel import kernel

INFO_GAIN = 0
GINI = 1
HELLINGER = 2

SQRT_2 = math.sqrt(2.0)

# Columns of the candidate array that best_split fills in.
FEATURE, VALUE, MERIT, SECOND = 0, 1, 2, 3


@kernel
def hoeffding_bound(class_weights, settings):
    """sqrt(R^2 log(1 / delta) / 2n), R the range of the merit; -1 where only one class is there."""
    n_present = 0
    total = 0.0
    for c in range(len(class_weights)):
        total += class_weights[c]
        if class_weights[c] > 0.0:
            n_present += 1
    if n_present < 2:
        return -1.0
    span = log(float(n_present)) / LN_2
    if settings.criterion == GINI:
        span = 1.0
    elif settings.criterion == HELLINGER:
        span = SQRT_2
    return math.sqrt(span * span * settings.log_delta / (2.0 * total))


@kernel
def impurity(post, j, n_classes, weight, criterion):
    """Entropy in bits, or Gini impurity, of the class weights post[j, :], which sum to `weight` > 0."""
    result = 0.0
    if criterion == GINI:
        for c in range(n_classes):
            share = post[j, c] / weight
            result += share * share
        return 1.0 - result
    for c in range(n_classes):
        share = post[j, c] / weight
        if share > 0.0:
            result -= share * log(share)
    return result / LN_2


@kernel
def hellinger(post, n_branches, n_classes, total):
    """The greatest Hellinger distance of one class from the rest over branches post[:n_branches], whose sum is in
    post[n_branches] and adds up to `total`; 0 where there is one class only."""
    greatest = 0.0
    for c in range(n_classes):
        n = post[n_branches, c]
        if not (n > 0.0 and n < total):
            continue
        squares = 0.0
        for j in range(n_branches):
            weight = 0.0
            for other in range(n_classes):
                weight += post[j, other]
            difference = math.sqrt(post[j, c] / n) - math.sqrt(max(0.0, weight - post[j, c]) / (total - n))
            squares += difference * difference
        greatest = max(greatest, math.sqrt(squares))
    return greatest


@kernel
def merit(post, n_branches, n_classes, observed, criterion, min_branch_fraction):
    """The gain of a split into branches with class weights post[:n_branches]; -inf where it is not allowed.

    observed : weight of all instances of the leaf, known or missing. Mutates post[n_branches]: the sum of the branches.
    """
    total = 0.0
    for c in range(n_classes):
        post[n_branches, c] = 0.0
    for j in range(n_branches):
        for c in range(n_classes):
            post[n_branches, c] += post[j, c]
    for c in range(n_classes):
        total += post[n_branches, c]
    if not total > 0.0:
        return -math.inf
    after = 0.0
    n_large = 0
    for j in range(n_branches):
        weight = 0.0
        for c in range(n_classes):
            weight += post[j, c]
        if weight > min_branch_fraction * total:
            n_large += 1
        if weight > 0.0 and criterion != HELLINGER:
            after += weight / total * impurity(post, j, n_classes, weight, criterion)
    if n_large < 2:
        return -math.inf
    if criterion == HELLINGER:
        return hellinger(post, n_branches, n_classes, total) * min(1.0, total / observed)
    gain = impurity(post, n_branches, n_classes, total, criterion) - after
    return gain * min(1.0, total / observed)


@kernel
def branch(stats, layout, block, n_classes, f, value, binary, post):
    """Fill in post[j, c], the class weights of the branches of a test on feature f; the number of branches.

    Numeric: x <= value, x > value. Nominal, binary: x == value, x != value. Nominal otherwise: one branch a value,
    of weight 0 where it was not seen. Mutates post.
    """
    i = np.int64(layout.offset[f])
    n_values = layout.n_values[f]
    if n_values > 0 and not binary:
        for v in range(n_values):
            for c in range(n_classes):
                post[v, c] = stats[block, i + (1 + v) * n_classes + c]
        return n_values
    if n_values == 0 and layout.bins[0] > 0:
        keys = i + n_classes + 1
        sums = keys + layout.bins[0]
        post[0, :n_classes] = 0.0
        for p in range(int(stats[block, keys - 1])):
            if stats[block, keys + p] > value:
                break
            for c in range(n_classes):
                post[0, c] += stats[block, sums + p * n_classes + c]
        for c in range(n_classes):
            post[1, c] = max(0.0, stats[block, i + c] - post[0, c])
        return 2
    for c in range(n_classes):
        n = stats[block, i + c]
        left = 0.0
        if n_values > 0:
            left = stats[block, i + (1 + int(value)) * n_classes + c]
        elif n > 0.0 and value >= stats[block, i + 4 * n_classes + c]:
            left = n
        elif n > 1.0 and value >= stats[block, i + 3 * n_classes + c]:
            deviation = math.sqrt(stats[block, i + 2 * n_classes + c] / (n - 1.0))
            if deviation > 0.0:
                z = (value - stats[block, i + n_classes + c]) / deviation
                left = n * 0.5 * (1.0 + erf(z / SQRT_2))
            elif value >= stats[block, i + n_classes + c]:
                left = n
        elif n > 0.0 and value >= stats[block, i + n_classes + c]:
            left = n
        post[0, c] = left
        post[1, c] = max(0.0, n - left)
    return 2


@kernel
def best_split(
    stats, layout, block, n_classes, observed, n_points, binary, criterion, min_branch_fraction, post, found
):
    """Find the best candidate of all features, ties to the first. O(d (n_points or n_bins or V) n_classes).

    Mutates post (scratch) and found: FEATURE (-1: not splitting is best), VALUE (threshold or value), MERIT, SECOND
    (the merit of the best candidate of another feature, or 0 for not splitting).
    """
    found[FEATURE] = -1.0
    found[VALUE] = 0.0
    found[MERIT] = 0.0
    found[SECOND] = 0.0
    for f in range(len(layout.n_values)):
        best = -math.inf
        best_value = 0.0
        n_values = layout.n_values[f]
        if n_values > 0:
            for v in range(n_values if binary else 1):
                n = branch(stats, layout, block, n_classes, f, float(v), binary, post)
                gain = merit(post, n, n_classes, observed, criterion, min_branch_fraction)
                if gain > best:
                    best = gain
                    best_value = float(v)
        elif layout.bins[0] > 0:
            i = np.int64(layout.offset[f])
            keys = i + n_classes + 1
            sums = keys + layout.bins[0]
            for p in range(int(stats[block, keys - 1]) - 1):
                if p == 0:
                    branch(stats, layout, block, n_classes, f, stats[block, keys], binary, post)
                else:  # as `branch` would, but for what it has added up already
                    for c in range(n_classes):
                        post[0, c] += stats[block, sums + p * n_classes + c]
                        post[1, c] = max(0.0, stats[block, i + c] - post[0, c])
                gain = merit(post, 2, n_classes, observed, criterion, min_branch_fraction)
                if gain > best:
                    best = gain
                    best_value = stats[block, keys + p]
        else:
            i = np.int64(layout.offset[f])
            least = math.inf
            greatest = -math.inf
            for c in range(n_classes):
                if stats[block, i + c] > 0.0:
                    least = min(least, stats[block, i + 3 * n_classes + c])
                    greatest = max(greatest, stats[block, i + 4 * n_classes + c])
            for p in range(1, n_points + 1):
                value = least + (greatest - least) * (p / (n_points + 1.0))
                if not (value > least and value < greatest):
                    continue
                n = branch(stats, layout, block, n_classes, f, value, binary, post)
                gain = merit(post, n, n_classes, observed, criterion, min_branch_fraction)
                if gain > best:
                    best = gain
                    best_value = value
        if best > found[MERIT]:
            found[SECOND] = found[MERIT]
            found[FEATURE] = f
            found[VALUE] = best_value
            found[MERIT] = best
        elif best > found[SECOND]:
            found[SECOND] = best
