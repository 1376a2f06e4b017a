"""The members of a shrub ensemble: what they say about the window, and the gradient of their weights.

For the squared error a gradient step needs only products of the members' predictions, summed over the window (the Gram
matrix), and of predictions and labels: both are kept up to date as items come and go, so a step costs members^2
whatever the window is. They are summed anew each time the window has been filled once more, so rounding does not pile
up.

A member that is not judged by an item (it grew on it) says nothing there: 0. Then each entry of the Gram matrix is a
mean over the items that judge both members, and `together` and `alone` hold their weights.

Members are in the order of their age, the oldest first. Each has a slot, its row in all other arrays.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.kernel import kernel
from models.shrubs.simplex import project

MSE, CROSS_ENTROPY = 0, 1
LEAST_PROBABILITY = 0.01  # below it the gradient of the cross-entropy is that at this probability
LEAST_WEIGHT = 1e-12  # what rounding leaves of 0 in the projection


class Members(NamedTuple):
    """The members, and what their weights follow from.

    slots : (n + 1,) int32, the tree of each member, then the free ones.
    weights : (n + 1,), of the members.
    said : (slots, n_outputs, size), predictions for the window.
    judged : (slots, size) uint8, 1 where an item judges, or (slots, 0) where all do.
    gram : (slots, slots), products of predictions.
    labels : (slots,), products with the label.
    together, alone : as gram and labels, weights of the items summed there; empty where all items judge all members.
    matrix, target, gradient, order, row, shadow : scratch.
    """

    slots: NDArray[np.int32]
    weights: Floats
    said: Floats
    judged: NDArray[np.uint8]
    gram: Floats
    labels: Floats
    together: Floats
    alone: Floats
    matrix: Floats
    target: Floats
    gradient: Floats
    order: NDArray[np.int32]
    row: Floats
    shadow: Floats


def room_for_members(n_trees: int, size: int, n_outputs: int, out_of_bag: bool) -> Members:
    slots = n_trees + 1
    judging = slots if out_of_bag else 0
    return Members(
        np.arange(slots, dtype=np.int32),
        np.zeros(slots),
        np.zeros((slots, n_outputs, size)),
        np.zeros((slots, size if out_of_bag else 0), np.uint8),
        np.zeros((slots, slots)),
        np.zeros(slots),
        np.zeros((judging, judging)),
        np.zeros(judging),
        np.zeros((slots, slots)),
        np.zeros(slots),
        np.zeros(slots),
        np.zeros(slots, np.int32),
        np.zeros((slots, n_outputs)),
        np.zeros((n_outputs, size)),
    )


@kernel(inline=True)
def weigh_item(i, sign, window, members, m, classes):
    """Add item i of the window to the sums of all members (sign 1), or take it out (-1). Mutates members. O(m^2 C)."""
    n_outputs = members.said.shape[1]
    weight = sign * window.w[i]
    row = members.row
    for j in range(m):
        a = members.slots[j]
        for c in range(n_outputs):
            row[j, c] = members.said[a, c, i]
        if classes:
            members.labels[a] += weight * row[j, np.int64(window.y[i])]
        else:
            members.labels[a] += weight * row[j, 0] * window.y[i]
        for l in range(j + 1):
            product = 0.0
            for c in range(n_outputs):
                product += row[j, c] * row[l, c]
            b = members.slots[l]
            total = members.gram[a, b] + weight * product
            members.gram[a, b] = total
            members.gram[b, a] = total
    if len(members.alone) == 0:
        return
    for j in range(m):
        a = members.slots[j]
        if members.judged[a, i] == 0:
            continue
        members.alone[a] += weight
        for l in range(j + 1):
            b = members.slots[l]
            if members.judged[b, i]:
                members.together[a, b] += weight
                members.together[b, a] = members.together[a, b]


@kernel
def weigh_all(n, window, members, m, classes):
    """The sums of all members over the whole window, anew. Mutates members. O(n m^2 C)."""
    for j in range(m):
        a = members.slots[j]
        members.labels[a] = 0.0
        for l in range(m):
            members.gram[a, members.slots[l]] = 0.0
        if len(members.alone) > 0:
            members.alone[a] = 0.0
            for l in range(m):
                members.together[a, members.slots[l]] = 0.0
    for i in range(n):
        weigh_item(i, 1.0, window, members, m, classes)


@kernel(inline=True)
def _product(a, b, n):
    """The sum of a * b over the first n items. Output by output, so that classes that never came change no bit; four
    sums side by side, for a processor does four at a time."""
    total = 0.0
    whole = n - n % 4
    for c in range(len(a)):
        one = 0.0
        two = 0.0
        three = 0.0
        four = 0.0
        for i in range(0, whole, 4):
            one += a[c, i] * b[c, i]
            two += a[c, i + 1] * b[c, i + 1]
            three += a[c, i + 2] * b[c, i + 2]
            four += a[c, i + 3] * b[c, i + 3]
        for i in range(whole, n):
            one += a[c, i] * b[c, i]
        total += (one + two) + (three + four)
    return total


@kernel(allocates=True)
def weigh_newest(n, window, members, m, classes):
    """The sums of the newest member with all. Mutates members. O(n m C)."""
    n_outputs = members.said.shape[1]
    a = members.slots[m - 1]
    shadow = members.shadow
    for c in range(n_outputs):
        for i in range(n):
            shadow[c, i] = window.w[i] * members.said[a, c, i]
    label = 0.0
    for i in range(n):
        label += shadow[np.int64(window.y[i]), i] if classes else shadow[0, i] * window.y[i]
    members.labels[a] = label
    for l in range(m):
        b = members.slots[l]
        total = _product(shadow, members.said[b], n)
        members.gram[a, b] = total
        members.gram[b, a] = total
    if len(members.alone) == 0:
        return
    for l in range(m):
        b = members.slots[l]
        total = 0.0
        for i in range(n):
            total += window.w[i] * (members.judged[a, i] & members.judged[b, i])
        members.together[a, b] = total
        members.together[b, a] = total
    members.alone[a] = members.together[a, a]


@kernel(inline=True)
def _slope_of_squares(m, members):
    """The gradient of the mean squared error, but for its factor. Mutates members.gradient. O(m^2)."""
    gradient = members.gradient
    for j in range(m):
        gradient[j] = -members.target[j]
    for l in range(m):
        weight = members.weights[l]
        if weight > 0.0:
            for j in range(m):
                gradient[j] += weight * members.matrix[l, j]


@kernel(inline=True)
def _slope_of_entropy(n, total, window, members, m):
    """The gradient of the mean cross-entropy. Mutates members.gradient. O(n m)."""
    gradient = members.gradient
    gradient[:m] = 0.0
    for i in range(n):
        c = np.int64(window.y[i])
        p = 0.0
        for j in range(m):
            p += members.weights[j] * members.said[members.slots[j], c, i]
        p = max(p, LEAST_PROBABILITY)
        for j in range(m):
            gradient[j] -= window.w[i] * members.said[members.slots[j], c, i] / p
    for j in range(m):
        gradient[j] /= total


@kernel
def spread(n, y, w):
    """Variance of the targets in the window; 1 where there is none."""
    total = 0.0
    mean = 0.0
    squares = 0.0
    for i in range(n):
        total += w[i]
        step = y[i] - mean
        mean += step * w[i] / total
        squares += w[i] * step * (y[i] - mean)
    return squares / total if squares > 0.0 else 1.0


@kernel
def descend(n, window, members, m, n_classes, settings):
    """`burn_in` + 1 proximal gradient steps (Algorithm 1, lines 9 to 11). n_classes : seen so far, the C of the mean in
    equation 4. Mutates members.weights and scratch. MSE: O(m^2) a step; cross-entropy: O(n m)."""
    total = 0.0
    for i in range(n):
        total += window.w[i]
    for j in range(m):
        a = members.slots[j]
        own = total if len(members.alone) == 0 else members.alone[a]
        members.target[j] = members.labels[a] / own if own > 0.0 else 0.0
        for l in range(m):
            b = members.slots[l]
            shared = total if len(members.alone) == 0 else members.together[a, b]
            members.matrix[j, l] = members.gram[a, b] / shared if shared > 0.0 else 0.0
    unit = n_classes if settings.classes else spread(n, window.y, window.w)
    factor = 2.0 / unit if settings.loss == MSE else 1.0 / n_classes
    for _ in range(settings.burn_in + 1):
        if settings.loss == MSE:
            _slope_of_squares(m, members)
        else:
            _slope_of_entropy(n, total, window, members, m)
        for j in range(m):
            slope = factor * members.gradient[j] + 2.0 * settings.ridge * members.weights[j]
            members.weights[j] -= settings.step * slope
        project(members.weights, m, settings.n_trees, members.order)


@kernel
def forget(members, m, gone):
    """Take member `gone` out; its slot is free. Mutates members."""
    slot = members.slots[gone]
    for j in range(gone, m - 1):
        members.slots[j] = members.slots[j + 1]
        members.weights[j] = members.weights[j + 1]
    members.slots[m - 1] = slot
    members.weights[m - 1] = 0.0


@kernel
def prune(members, m):
    """Forget the members without weight (line 12). Returns how many are left. Mutates members."""
    for j in range(m - 1, -1, -1):
        if not members.weights[j] > LEAST_WEIGHT:
            forget(members, m, j)
            m -= 1
    return m
