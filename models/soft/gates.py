"""The way of an instance through soft trees: normalisation, gates, the nodes it reaches, and what they sum up to.

Köbschall, Hartung and Kramer, Eq. 1 to 3. A gate sends the share

    alpha S(<w, z> + bias) + (1 - alpha) [the split test passes]

of an instance to its first child. S is the smooth-step function of Hazimeh et al. 2020, which is exactly 0 and 1 beyond
gamma / 2, so nodes that are not reached cost nothing (conditional computation): neither here nor in the gradient, whose
factor S' is 0 there as well. The output is the sum of the leaves' vectors, each times the probability to reach it.

Deviations: the running normalisation (z = (x - mean) / 3 deviations, as in the paper's code, where the paper has batch
normalisation) is clipped; a bias; a missing value is 0, the mean, for the linear form, and passes a split test by the
share of the weight that passed when the leaf was split.
"""

import math

import numpy as np

from models.kernel import kernel
from models.soft.forest import (
    FEATURE,
    FIRST,
    GATE,
    S_ALPHA,
    S_GAMMA,
    SCALE_INVERSE,
    SCALE_MEAN,
    SCALE_N,
    SCALE_SIZE,
    SCALE_VARIANCE,
    SHARE,
    VALUE,
    WEIGHT,
)

# Columns of Scratch.visits: the node, and where its children are among the visits, -1 for one that is not reached.
NODE, LEFT, RIGHT = range(3)
# Columns of Scratch.figures: probability to reach the node, share that goes to the first child, its derivative by the
# linear form, and the node's output in the direction of the loss's gradient.
PROBABILITY, PASSES, SLOPE, ALONG = range(4)

CLIP = 3.0
HUGE = 1e100  # beyond it, squares would overflow: taken as missing


@kernel(inline=True)
def normalised(value, scales, f):
    """A value of numeric feature f, clipped to +-CLIP; 0, the mean, where it is missing or too large to square."""
    if not abs(value) < HUGE:
        return 0.0
    return min(max((value - scales[f, SCALE_MEAN]) * scales[f, SCALE_INVERSE], -CLIP), CLIP)


@kernel(inline=True)
def encode_row(n_values, place, bias, scales, x, r, z, active):
    """Row r of x as the vector that gates weigh. Mutates z (dense part) and active (places of indicators, -1: none)."""
    n_nominal = 0
    for f in range(len(n_values)):
        value = x[r, f]
        n = n_values[f]
        if n > 0:
            active[n_nominal] = place[f] + int(value) if value >= 0.0 and value < n else -1
            n_nominal += 1
        else:
            z[place[f]] = normalised(value, scales, f)
    z[bias] = 1.0


@kernel(inline=True)
def rescale(n_values, place, scales, values, dense, x, r, z, w):
    """Learn row r, encoded as z, into the normalisation, with weight w. Mutates scales and values. O(d)."""
    for f in range(len(n_values)):
        value = x[r, f]
        n = n_values[f]
        if n > 0:
            if value >= 0.0 and value < n:
                values[place[f] - dense + int(value)] += w
            continue
        if not abs(value) < HUGE:
            continue
        total = scales[f, SCALE_N] + w
        step = w / total
        delta = value - scales[f, SCALE_MEAN]
        variance = (1.0 - step) * (scales[f, SCALE_VARIANCE] + step * delta * delta)
        scales[f, SCALE_N] = total
        scales[f, SCALE_MEAN] += step * delta
        scales[f, SCALE_VARIANCE] = variance
        scales[f, SCALE_INVERSE] = 1.0 / (3.0 * math.sqrt(variance)) if variance > 0.0 else 0.0
        scales[f, SCALE_SIZE] += step * (abs(z[place[f]]) - scales[f, SCALE_SIZE])


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
def dense_form(gates, g, z):
    """<w, z> of the dense part of gate g, in the order of four sums that advance together: as one it takes twice the
    time."""
    a = 0.0
    b = 0.0
    c = 0.0
    d = 0.0
    for four in range(np.uint64(len(z) // 4)):
        j = four * np.uint64(4)
        a += gates[g, WEIGHT, j] * z[j]
        b += gates[g, WEIGHT, j + np.uint64(1)] * z[j + np.uint64(1)]
        c += gates[g, WEIGHT, j + np.uint64(2)] * z[j + np.uint64(2)]
        d += gates[g, WEIGHT, j + np.uint64(3)] * z[j + np.uint64(3)]
    return (a + c) + (b + d)


@kernel(inline=True)
def linear_forms(links, visits, figures, gates, i, end, z, active):
    """<w, z> of the gates of up to four visits from i on, into column SLOPE; where they end.

    Indicators are added one after the other: four sums that do not wait for each other take a third of the time.
    """
    if end - i < np.uint64(4):
        g = np.uint64(links[np.uint64(visits[i, NODE]), GATE])
        total = dense_form(gates, g, z)
        for j in range(len(active)):
            if active[j] >= 0:
                total += gates[g, WEIGHT, np.uint64(active[j])]
        figures[i, SLOPE] = total
        return i + np.uint64(1)
    ga = np.uint64(links[np.uint64(visits[i, NODE]), GATE])
    gb = np.uint64(links[np.uint64(visits[i + np.uint64(1), NODE]), GATE])
    gc = np.uint64(links[np.uint64(visits[i + np.uint64(2), NODE]), GATE])
    gd = np.uint64(links[np.uint64(visits[i + np.uint64(3), NODE]), GATE])
    a = dense_form(gates, ga, z)
    b = dense_form(gates, gb, z)
    c = dense_form(gates, gc, z)
    d = dense_form(gates, gd, z)
    for j in range(len(active)):
        if active[j] >= 0:
            place = np.uint64(active[j])
            a += gates[ga, WEIGHT, place]
            b += gates[gb, WEIGHT, place]
            c += gates[gc, WEIGHT, place]
            d += gates[gd, WEIGHT, place]
    figures[i, SLOPE] = a
    figures[i + np.uint64(1), SLOPE] = b
    figures[i + np.uint64(2), SLOPE] = c
    figures[i + np.uint64(3), SLOPE] = d
    return i + np.uint64(4)


@kernel(inline=True)
def split_test(links, tests, n_values, node, x, r):
    """Whether row r passes the test of a node, as 1 or 0; a share in between where the value is missing."""
    f = np.uint64(links[node, FEATURE])
    value = x[np.uint64(r), f]
    n = n_values[f]
    if value != value or (n > 0 and not (value >= 0.0 and value < n)):
        return tests[node, SHARE]
    if n > 0:
        return 1.0 if value == tests[node, VALUE] else 0.0
    return 1.0 if value <= tests[node, VALUE] else 0.0


@kernel(inline=True)
def visit(links, visits, figures, child, probability, reached, inner, leaves):
    """Note a child at the end of its list, and make that longer if it is reached. Where it is, and the lists' new ends.

    Without branches: which children are reached, and which are leaves, is hard to predict. Mutates visits and figures.
    """
    is_leaf = links[child, FIRST] < 0
    at = leaves if is_leaf else inner
    visits[at, NODE] = child
    figures[at, PROBABILITY] = probability
    more = np.uint64(reached)
    more_leaves = more * np.uint64(is_leaf)
    return np.int32(at) if reached else np.int32(-1), inner + (more - more_leaves), leaves - more_leaves


@kernel(inline=True)
def forward(
    links, tests, leaves, gates, roots, settings, n_values, x, r, z, active, visits, figures, start, span, logits
):
    """All nodes that row r reaches: inner ones from `start` on, parents first, leaves from `start + span - 1` down.

    Returns how many of both. Mutates visits, figures (not ALONG) and logits. O(nodes reached x p).
    """
    # Unsigned: a signed index costs a test for "from the end".
    k = np.uint64(len(logits))
    for c in range(k):
        logits[c] = 0.0
    i = np.uint64(start)
    end = i
    top = np.uint64(start + span - 1)
    low = top
    for tree in range(len(roots)):
        _, end, low = visit(links, visits, figures, np.uint64(roots[tree]), 1.0, True, end, low)
    alpha = settings[S_ALPHA]
    per_gamma = 1.0 / settings[S_GAMMA]
    ready = i
    while i < end:
        if i == ready:
            ready = linear_forms(links, visits, figures, gates, i, end, z, active)
        node = np.uint64(visits[i, NODE])
        reach = figures[i, PROBABILITY]
        first = np.uint64(links[node, FIRST])
        u = per_gamma * figures[i, SLOPE]
        passes = alpha * smooth_step(u)
        if alpha < 1.0:
            passes += (1.0 - alpha) * split_test(links, tests, n_values, node, x, r)
        figures[i, PASSES] = passes
        figures[i, SLOPE] = alpha * per_gamma * smooth_step_slope(u)
        visits[i, LEFT], end, low = visit(links, visits, figures, first, reach * passes, passes > 0.0, end, low)
        visits[i, RIGHT], end, low = visit(
            links, visits, figures, first + np.uint64(1), reach * (1.0 - passes), passes < 1.0, end, low
        )
        i += np.uint64(1)
    for back in range(top - low):
        at = top - back
        node = np.uint64(visits[at, NODE])
        for c in range(k):
            logits[c] += figures[at, PROBABILITY] * leaves[node, WEIGHT, c]
    return np.int64(end) - start, np.int64(top - low)


@kernel(inline=True)
def softmax(logits, known, probabilities):
    """Probabilities over the classes with known[c] > 0; all 0 where none is. Mutates probabilities."""
    highest = -math.inf
    for c in range(len(logits)):
        if known[c] > 0.0 and logits[c] > highest:
            highest = logits[c]
    total = 0.0
    for c in range(len(logits)):
        p = math.exp(logits[c] - highest) if known[c] > 0.0 else 0.0
        probabilities[c] = p
        total += p
    if total > 0.0:
        for c in range(len(logits)):
            probabilities[c] /= total
