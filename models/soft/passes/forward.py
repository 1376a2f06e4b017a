"""The way of an instance through soft trees: normalisation, gates, the nodes it reaches, and what they sum up to.

Köbschall, Hartung and Kramer, Eq. 1 to 3. A gate sends the share

    alpha S(<w, z> + bias) + (1 - alpha) [the split test passes]

of an instance to its first child. S is the smooth-step function of Hazimeh et al. 2020, which is exactly 0 and 1 beyond
gamma / 2, so nodes that are not reached cost nothing (conditional computation): neither here nor in the gradient, whose
factor S' is 0 there as well. The output is the sum of the leaves' vectors, each times the probability to reach it.

All models of a pool go down together, level by level: the gates of one level, a dozen a model, do not wait for each
other, where those of one tree wait for their parents.

Deviations: the running normalisation (z = (x - mean) / 3 deviations, as in the paper's code, where the paper has batch
normalisation) is clipped; a bias; a missing value is 0, the mean, for the linear form, and passes a split test by the
share of the weight that passed when the leaf was split.
"""

import math

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import each, load, magnitude, of_four, spread, square_root, store, where_less
from riparian.models.soft.forest import (
    FEATURE,
    FIRST,
    GATE,
    S_ALPHA,
    S_PER_GAMMA,
    SCALE_INVERSE,
    SCALE_MEAN,
    SCALE_N,
    SCALE_SIZE,
    SCALE_VARIANCE,
    SHARE,
    VALUE,
    WEIGHT,
)

CLIP = 3.0
HUGE = 1e100  # largest value whose squares do not overflow: beyond it one is missing


@kernel(inline=True)
def normalised(value, scales, f):
    """A value of numeric feature f, clipped to +-CLIP; 0, the mean, where it is missing or too large to square."""
    if not abs(value) < HUGE:
        return 0.0
    return min(max((value - scales[f, SCALE_MEAN]) * scales[f, SCALE_INVERSE], -CLIP), CLIP)


@kernel(inline=True)
def read_row(n_values, place, numeric, offset, n_classes, x, r, row, numbers, active, cells):
    """What of row r of x all models share. Returns how many indicators are 1. Mutates row, numbers, active and cells.

    offset : of the features' statistics in a block (models.observers.gaussians).
    """
    n_active = 0
    for f in range(len(n_values)):
        value = x[r, f]
        n = n_values[f]
        if n > 0:
            if value >= 0.0 and value < n:
                active[n_active] = place[f] + int(value)
                cells[n_active, 0] = offset[f]
                cells[n_active, 1] = offset[f] + (np.uint64(value) + np.uint64(1)) * n_classes
                n_active += 1
            else:
                value = math.nan
        row[f] = value
    for j in range(np.uint64(len(numeric))):
        numbers[0, j] = row[np.uint64(numeric[j])]
    return n_active


@kernel(inline=True)
def four_features(numeric, j):
    """Four places of `numeric` from j on."""
    return (
        np.uint64(numeric[j]),
        np.uint64(numeric[j + np.uint64(1)]),
        np.uint64(numeric[j + np.uint64(2)]),
        np.uint64(numeric[j + np.uint64(3)]),
    )


@kernel(inline=True)
def column(scales, features, what):
    """Of four features, as lanes."""
    a, b, c, d = features
    return of_four(scales[a, what], scales[b, what], scales[c, what], scales[d, what])


@kernel(inline=True)
def set_column(scales, features, what, values):
    """Mutates scales. A feature that comes twice gets the same number twice."""
    a, b, c, d = features
    scales[a, what], scales[b, what], scales[c, what], scales[d, what] = each(values)


@kernel(inline=True)
def normalise(numeric, bias, scales, numbers, z):
    """The dense part of the vector that gates weigh, of one model. Mutates z."""
    low = spread(-CLIP)
    high = spread(CLIP)
    for four in range(np.uint64(len(numeric) // 4)):
        j = four * np.uint64(4)
        features = four_features(numeric, j)
        value = load(numbers[0], j)
        scaled = (value - column(scales, features, SCALE_MEAN)) * column(scales, features, SCALE_INVERSE)
        scaled = where_less(scaled, low, low, scaled)
        scaled = where_less(high, scaled, high, scaled)
        store(z, j, where_less(magnitude(value), spread(HUGE), scaled, spread(0.0)))
    z[bias] = 1.0
    for j in range(bias + 1, len(z)):
        z[j] = 0.0


@kernel(inline=True)
def rescale(place, numeric, dense, scales, values, numbers, active, n_active, z, w):
    """Learn the current row into a model's normalisation, with weight w. Mutates scales and values. O(d)."""
    for a in range(n_active):
        values[np.uint64(active[a] - dense)] += w
    for four in range(np.uint64(len(numeric) // 4)):
        j = four * np.uint64(4)
        features = four_features(numeric, j)
        value = load(numbers[0], j)
        size = magnitude(value)
        known = spread(HUGE)
        n = column(scales, features, SCALE_N)
        mean = column(scales, features, SCALE_MEAN)
        before = column(scales, features, SCALE_VARIANCE)
        mean_size = column(scales, features, SCALE_SIZE)
        total = n + w
        step = w / total
        delta = value - mean
        variance = (1.0 - step) * (before + step * delta * delta)
        inverse = where_less(spread(0.0), variance, 1.0 / (3.0 * square_root(variance)), spread(0.0))
        a, b, c, d = features  # a feature that comes twice stands once in z
        scaled = of_four(z[place[a]], z[place[b]], z[place[c]], z[place[d]])
        moved_size = mean_size + step * (magnitude(scaled) - mean_size)
        set_column(scales, features, SCALE_N, where_less(size, known, total, n))
        set_column(scales, features, SCALE_MEAN, where_less(size, known, mean + step * delta, mean))
        set_column(scales, features, SCALE_VARIANCE, where_less(size, known, variance, before))
        inverse = where_less(size, known, inverse, column(scales, features, SCALE_INVERSE))
        set_column(scales, features, SCALE_INVERSE, inverse)
        set_column(scales, features, SCALE_SIZE, where_less(size, known, moved_size, mean_size))


@kernel(inline=True)
def smooth_step(u):
    """S(t), Eq. 1, with u = t / gamma. Exactly 0 and 1 beyond +-1/2."""
    u = min(max(u, -0.5), 0.5)
    return (1.5 - 2.0 * u * u) * u + 0.5


@kernel(inline=True)
def smooth_step_slope(u):
    """gamma S'(t), with u = t / gamma. Exactly 0 beyond +-1/2."""
    u = min(max(u, -0.5), 0.5)
    return 1.5 - 6.0 * u * u


@kernel(inline=True)
def linear_form(weights, z, active, n_active):
    """<w, z> of one gate, as four sums of every fourth term, first of the dense part and then of the indicators:
    (1st + 3rd) + (2nd + 4th)."""
    dense = spread(0.0)
    for four in range(np.uint64(len(z) // 4)):
        j = four * np.uint64(4)
        dense = dense + load(weights, j) * load(z, j)
    a, b, c, d = each(dense)
    for four in range(np.uint64(n_active // 4)):
        j = four * np.uint64(4)
        a += weights[np.uint64(active[j])]
        b += weights[np.uint64(active[j + np.uint64(1)])]
        c += weights[np.uint64(active[j + np.uint64(2)])]
        d += weights[np.uint64(active[j + np.uint64(3)])]
    rest = np.uint64(n_active - n_active % 4)
    if n_active % 4 > 0:
        a += weights[np.uint64(active[rest])]
    if n_active % 4 > 1:
        b += weights[np.uint64(active[rest + np.uint64(1)])]
    if n_active % 4 > 2:
        c += weights[np.uint64(active[rest + np.uint64(2)])]
    return (a + c) + (b + d)


@kernel(inline=True)
def split_test(links, tests, n_values, node, row):
    """Whether the current row passes the test of a node, as 1 or 0; a share in between where the value is missing."""
    f = np.uint64(links[node, FEATURE])
    value = row[f]
    tested = tests[node, VALUE]
    below = 1.0 if value <= tested else 0.0
    equal = 1.0 if value == tested else 0.0
    passed = equal if n_values[f] > 0 else below
    return passed if value == value else tests[node, SHARE]


@kernel(inline=True)
def visit(links, visits, child, model, probability, reached, inner, leaves):
    """Note a child at the end of its list, and make that longer if it is reached. Where it is, and the lists' new ends.

    Without branches: which children are reached, and which are leaves, is hard to predict. Mutates visits.
    """
    is_leaf = links[child, FIRST] < 0
    at = leaves if is_leaf else inner
    visits.node[at] = child
    visits.model[at] = model
    visits.probability[at] = probability
    more = np.uint64(reached)
    more_leaves = more * np.uint64(is_leaf)
    return np.int32(at) if reached else np.int32(0), inner + (more - more_leaves), leaves - more_leaves


@kernel(inline=True)
def forward(
    links, tests, leaves, gates, roots, settings, n_values, row, active, n_active, z, visits, reached, logits,
    first_model, end_model,
):  # fmt: skip
    """All nodes that the current row reaches in some models: inner ones from 1 on, parents first, leaves from the end.

    Mutates visits (not `along`), reached and logits. O(nodes reached x p).
    """
    # Unsigned: a signed index costs a test for "from the end".
    one = np.uint64(1)
    k = np.uint64(logits.shape[1])
    begin = one
    end = one
    top = np.uint64(len(visits.node)) - one
    low = top
    for model in range(np.uint64(first_model), np.uint64(end_model)):
        for tree in range(np.uint64(roots.shape[1])):
            _, end, low = visit(links, visits, np.uint64(roots[model, tree]), model, 1.0, True, end, low)
        for c in range(k):
            logits[model, c] = 0.0
    while begin < end:
        for i in range(begin, end):
            node = np.uint64(visits.node[i])
            model = np.uint64(visits.model[i])
            alpha = settings[model, S_ALPHA]
            per_gamma = settings[model, S_PER_GAMMA]
            form = linear_form(gates[np.uint64(links[node, GATE]), WEIGHT], z[model], active, n_active)
            u = per_gamma * form
            passes = alpha * smooth_step(u)
            if alpha < 1.0:
                passes += (1.0 - alpha) * split_test(links, tests, n_values, node, row)
            visits.passes[i] = passes
            visits.slope[i] = alpha * per_gamma * smooth_step_slope(u)
        level = end
        for i in range(begin, level):
            model = visits.model[i]
            child = np.uint64(links[np.uint64(visits.node[i]), FIRST])
            reach = visits.probability[i]
            passes = visits.passes[i]
            visits.left[i], end, low = visit(links, visits, child, model, reach * passes, passes > 0.0, end, low)
            visits.right[i], end, low = visit(
                links, visits, child + one, model, reach * (1.0 - passes), passes < 1.0, end, low
            )
        begin = level
    for back in range(top - low):
        at = top - back
        node = np.uint64(visits.node[at])
        model = np.uint64(visits.model[at])
        probability = visits.probability[at]
        for c in range(k):
            logits[model, c] += probability * leaves[node, WEIGHT, c]
    reached[0] = end - one
    reached[1] = top - low
