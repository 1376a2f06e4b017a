"""The members of a shrub ensemble: what they predict about the window, and the gradient of their weights.

For the squared error a gradient step needs only products of the members' predictions, summed over the window (the Gram
matrix), and of predictions and labels: both are kept up to date as items come and go, so a step costs members^2
whatever the window is. They are summed anew each time the window has been filled once more, so rounding does not pile
up.

A member that is not judged by an item (it grew on it) adds nothing there: 0. Then each entry of the Gram matrix is a
mean over the items that judge both members, and `together` and `alone` hold their weights.

Predictions and targets are less an origin (models.shrubs.window), or their products would be all that fits into a
float. Weights sum to 1, so they are those of the targets as they are.

Members are in the order of their age, the oldest first. Each has a slot, its place among the trees and in
`predictions`. Sums are of pairs, so the later of the two members has them in its row. Vectors of members
(models.kernels.simd) are as long as a whole number of them: what stands beyond the members is rubbish.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.joined import zeros
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import WIDTH, load, spread, store
from riparian.models.shrubs.simplex import in_order, project

MSE, CROSS_ENTROPY = 0, 1
LEAST_PROBABILITY = 0.01  # probability below which the gradient of the cross-entropy stays
FEW_CLASSES = 2  # of more, most leaves give nothing to most, and what is 0 is not multiplied
LEAST_WEIGHT = 1e-12  # rounding of 0 in the projection


class Members(NamedTuple):
    """The members, and what their weights follow from. n: slots, one more than members may stay.

    slots : (n,) int32, the tree of each member, then the free ones.
    weights : (n,), of the members.
    predictions : (size, n_outputs, n and more), predictions for the window, by slot.
    judged : (n, size) uint8, by slot, 1 where an item judges, or (n, 0) where all do.
    gram : (n, n and more), products of the predictions of a member and of those no younger.
    labels : (n,), products with the label.
    together, alone : as gram and labels, weights of the items summed there; empty where all items judge all members.
    leaves : (n,) int32, of each member for the instance that was predicted last.
    matrix, target, gradient, heavy, order, row, sums, partial, shadow : scratch.
    """

    slots: NDArray[np.int32]
    weights: Floats
    predictions: Floats
    judged: NDArray[np.uint8]
    gram: Floats
    labels: Floats
    together: Floats
    alone: Floats
    leaves: NDArray[np.int32]
    matrix: Floats
    target: Floats
    gradient: Floats
    heavy: NDArray[np.uint32]
    order: NDArray[np.uint32]
    row: Floats
    sums: Floats
    partial: Floats
    shadow: Floats


def room_for_members(n_trees: int, size: int, n_outputs: int, out_of_bag: bool) -> Members:
    slots = n_trees + 1
    judging = slots if out_of_bag else 0
    lanes, fours = (-(-slots // width) * width for width in (WIDTH, 4 * WIDTH))
    members = zeros(
        Members, slots, slots, (size, n_outputs, lanes), (slots, size if out_of_bag else 0), (slots, lanes), slots,
        (judging, judging), judging, slots, (slots, fours), fours, fours, slots + 1, slots, (n_outputs, lanes), lanes,
        (4 * n_outputs if n_outputs > FEW_CLASSES else 0, lanes), (n_outputs, size),
    )  # fmt: skip
    return members._replace(slots=np.arange(slots, dtype=np.int32))


@kernel(inline=True)
def weigh_item(i, sign, window, members, m, classes):
    """Add item i of the window to the sums of all members (sign 1), or take it out (-1). Mutates members. O(m^2 C)."""
    n_outputs = members.predictions.shape[1]
    weight = sign * window.w[i]
    row = members.row
    for c in range(n_outputs):
        for j in range(m):
            row[c, j] = members.predictions[i, c, members.slots[j]]
    if classes:
        c = np.int64(window.above[i])
        for j in range(m):
            members.labels[j] += weight * row[c, j]
    else:
        for j in range(m):
            members.labels[j] += weight * row[0, j] * window.above[i]
    for j in range(np.uint64(m)):
        sums = members.gram[j]
        for four in range(j // np.uint64(WIDTH) + np.uint64(1)):
            l = four * np.uint64(WIDTH)
            product = load(row[0], l) * row[0, j]
            for c in range(1, n_outputs):
                product = product + load(row[c], l) * row[c, j]
            store(sums, l, load(sums, l) + product * weight)
    if len(members.alone) == 0:
        return
    for j in range(m):
        a = members.slots[j]
        if members.judged[a, i] == 0:
            continue
        members.alone[j] += weight
        for l in range(j + 1):
            if members.judged[members.slots[l], i]:
                members.together[j, l] += weight


@kernel
def weigh_all(n, window, members, m, classes):
    """The sums of all members over the whole window, anew. Mutates members. O(n m^2 C)."""
    members.labels[:m] = 0.0
    for j in range(m):
        for l in range(j + 1):
            members.gram[j, l] = 0.0
        if len(members.alone) > 0:
            members.alone[j] = 0.0
            for l in range(j + 1):
                members.together[j, l] = 0.0
    for i in range(n):
        weigh_item(i, 1.0, window, members, m, classes)


@kernel(inline=True)
def _products(shadow, predictions, n, at):
    """The sums of shadow * predictions over the first n items, of four slots. Output by output, so that classes that
    never came change no bit; each as four sums side by side, of every fourth item, for one waits for its last
    addition."""
    total = spread(0.0)
    whole = np.uint64(n - n % 4)
    for c in range(len(shadow)):
        one = spread(0.0)
        two = spread(0.0)
        three = spread(0.0)
        four = spread(0.0)
        for i in range(np.uint64(0), whole, np.uint64(4)):
            one = one + load(predictions[i, c], at) * shadow[c, i]
            two = two + load(predictions[i + np.uint64(1), c], at) * shadow[c, i + np.uint64(1)]
            three = three + load(predictions[i + np.uint64(2), c], at) * shadow[c, i + np.uint64(2)]
            four = four + load(predictions[i + np.uint64(3), c], at) * shadow[c, i + np.uint64(3)]
        for i in range(whole, np.uint64(n)):
            one = one + load(predictions[i, c], at) * shadow[c, i]
        total = total + ((one + two) + (three + four))
    return total


@kernel(inline=True)
def _products_of_few(window, members, n, a, n_fours):
    """Multiply as `_products` does slot `a` with the first 4 n_fours slots, where classes are many: item by item, and
    of each only those that this member gives a share, one or two of them. Mutates members.sums, members.partial."""
    partial, sums = members.partial, members.sums
    nothing = spread(0.0)
    n_outputs = np.uint64(members.predictions.shape[1])
    for four in range(n_fours):
        store(sums, four * np.uint64(WIDTH), nothing)
        for place in range(n_outputs * np.uint64(4)):
            store(partial[place], four * np.uint64(WIDTH), nothing)
    whole = np.uint64(n - n % 4)
    for i in range(np.uint64(n)):
        lane = i % np.uint64(4) if i < whole else np.uint64(0)
        for c in range(n_outputs):
            own = members.predictions[i, c, a]
            if own != 0.0:
                own *= window.w[i]
                predictions = members.predictions[i, c]
                into = partial[np.uint64(4) * c + lane]
                for four in range(n_fours):
                    at = four * np.uint64(WIDTH)
                    store(into, at, load(into, at) + load(predictions, at) * own)
    for c in range(n_outputs):
        first = np.uint64(4) * c
        for four in range(n_fours):
            at = four * np.uint64(WIDTH)
            one, two = load(partial[first], at), load(partial[first + np.uint64(1)], at)
            three, last = load(partial[first + np.uint64(2)], at), load(partial[first + np.uint64(3)], at)
            store(sums, at, load(sums, at) + ((one + two) + (three + last)))


@kernel
def weigh_newest(n, window, members, m, classes):
    """The sums of the newest member with all. Mutates members. O(n m C)."""
    n_outputs = members.predictions.shape[1]
    a = members.slots[m - 1]
    shadow = members.shadow
    last = 0
    for j in range(m):
        last = max(last, members.slots[j])
    for c in range(n_outputs):
        for i in range(n):
            shadow[c, i] = window.w[i] * members.predictions[i, c, a]
    label = 0.0
    for i in range(n):
        label += shadow[np.int64(window.above[i]), i] if classes else shadow[0, i] * window.above[i]
    members.labels[m - 1] = label
    n_fours = np.uint64(last // WIDTH + 1)
    if n_outputs > FEW_CLASSES:
        _products_of_few(window, members, n, np.uint64(a), n_fours)
    else:
        for four in range(n_fours):
            at = four * np.uint64(WIDTH)
            store(members.sums, at, _products(shadow, members.predictions, n, at))
    for l in range(m):
        members.gram[m - 1, l] = members.sums[members.slots[l]]
    if len(members.alone) == 0:
        return
    for l in range(m):
        b = members.slots[l]
        total = 0.0
        for i in range(n):
            total += window.w[i] * (members.judged[a, i] & members.judged[b, i])
        members.together[m - 1, l] = total
    members.alone[m - 1] = members.together[m - 1, m - 1]


@kernel(inline=True)
def _slope_of_squares(m, members):
    """The gradient of the mean squared error, but for its factor. Mutates members.gradient, heavy. O(m^2).

    Sixteen members at a time: a sum waits for its last addition."""
    gradient, target, heavy = members.gradient, members.target, members.heavy
    n_heavy = np.uint64(0)
    for l in range(np.uint64(m)):
        heavy[n_heavy] = l
        n_heavy += np.uint64(members.weights[l] > 0.0)
    j = np.uint64(0)
    while j < np.uint64(m):
        at = j + np.uint64(WIDTH)
        one = load(target, j) * -1.0
        two = load(target, at) * -1.0
        if np.uint64(m) - j <= np.uint64(2 * WIDTH):
            for k in range(n_heavy):
                row = members.matrix[heavy[k]]
                weight = members.weights[heavy[k]]
                one = one + load(row, j) * weight
                two = two + load(row, at) * weight
        else:
            three = load(target, at + np.uint64(WIDTH)) * -1.0
            four = load(target, at + np.uint64(2 * WIDTH)) * -1.0
            for k in range(n_heavy):
                row = members.matrix[heavy[k]]
                weight = members.weights[heavy[k]]
                one = one + load(row, j) * weight
                two = two + load(row, at) * weight
                three = three + load(row, at + np.uint64(WIDTH)) * weight
                four = four + load(row, at + np.uint64(2 * WIDTH)) * weight
            store(gradient, at + np.uint64(WIDTH), three)
            store(gradient, at + np.uint64(2 * WIDTH), four)
        store(gradient, j, one)
        store(gradient, at, two)
        j += np.uint64(4 * WIDTH)


@kernel(inline=True)
def _slope_of_entropy(n, total, window, members, m):
    """The gradient of the mean cross-entropy. Mutates members.gradient. O(n m)."""
    gradient = members.gradient
    gradient[:m] = 0.0
    for i in range(n):
        predictions = members.predictions[i, np.int64(window.above[i])]
        p = 0.0
        for j in range(m):
            p += members.weights[j] * predictions[members.slots[j]]
        p = max(p, LEAST_PROBABILITY)
        for j in range(m):
            gradient[j] -= window.w[i] * predictions[members.slots[j]] / p
    for j in range(m):
        gradient[j] /= total


@kernel
def variance(n, y, w):
    """Of the targets in the window; 1 where there is none."""
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
    matrix = members.matrix
    for j in range(m):
        own = total if len(members.alone) == 0 else members.alone[j]
        members.target[j] = members.labels[j] / own if own > 0.0 else 0.0
        if len(members.alone) == 0:
            for four in range(np.uint64(j // WIDTH + 1)):
                l = four * np.uint64(WIDTH)
                store(matrix[j], l, load(members.gram[j], l) / total)
        else:
            for l in range(j + 1):
                shared = members.together[j, l]
                matrix[j, l] = members.gram[j, l] / shared if shared > 0.0 else 0.0
        for l in range(np.uint64(j)):
            matrix[l, np.uint64(j)] = matrix[j, l]
    unit = n_classes if settings.classes else variance(n, window.above, window.w)
    factor = 2.0 / unit if settings.loss == MSE else 1.0 / n_classes
    in_order(members.order, m)
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
def enter(members, m):
    """A slot for the newest of m members, the lowest that is free: then those in use lie close together. Mutates
    members."""
    least = m - 1
    for j in range(m, len(members.slots)):
        if members.slots[j] < members.slots[least]:
            least = j
    slot = members.slots[least]
    members.slots[least] = members.slots[m - 1]
    members.slots[m - 1] = slot
    members.weights[m - 1] = 0.0
    return slot


@kernel
def prune(members, m):
    """Forget the members without weight (line 12). Returns how many are left. Mutates members. O(m^2)."""
    kept = members.order
    n = 0
    for j in range(m):
        if not members.weights[j] > LEAST_WEIGHT:
            continue
        kept[n] = j
        if n < j:
            slot = members.slots[n]
            members.slots[n] = members.slots[j]
            members.slots[j] = slot
            members.weights[n] = members.weights[j]
            members.labels[n] = members.labels[j]
            for l in range(n + 1):
                members.gram[n, l] = members.gram[j, kept[l]]
            if len(members.alone) > 0:
                members.alone[n] = members.alone[j]
                for l in range(n + 1):
                    members.together[n, l] = members.together[j, kept[l]]
        n += 1
    return n
