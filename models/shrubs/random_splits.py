"""Tests drawn at random: of a feature one threshold between its least and greatest value, or one of its nominal values.

Where all features are tried, four of them are at once (models.kernels.simd). They must come to what they come to one
after the other, and the random numbers are one sequence: a feature that is as good as the best one before draws whose
test is taken, and only then comes the next feature's threshold. Such a tie is rare where there are more than a few
rows. So four thresholds are drawn as if there were none; after a tie those behind it are drawn anew.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import advanced, below, in_unit, uniform
from riparian.models.kernels.simd import WIDTH, load, select, spread, store, where_less
from riparian.models.shrubs.splits import SHARES, TWO, one_moment
from riparian.models.shrubs.trees import KNOWN

FEW = 8  # rows; of fewer, tests tie so often that one feature after the other takes less time
# Rows of `lanes`. MOST is GREATEST, or infinity where a value is missing. NUMERIC is 1, or 0 of a nominal feature.
LEAST, GREATEST, MOST, VALUE, NUMERIC, SCORE = range(6)


@kernel(inline=True)
def random_on(f, nominal, rows, start, end, x, y, w, kind, weight, moment, total, part, column, random):
    """One random test on one feature: score (-inf: all rows have the same value), value.

    column : (size,) scratch. Mutates part, column, random. O(rows)."""
    least = np.inf
    greatest = -np.inf
    missing = False
    for k in range(start, end):
        here = x[rows[k], f]
        column[k] = here
        least = here if here < least else least
        missing = missing or here == np.inf
        greatest = here if here > greatest and here < np.inf else greatest
    if least == np.inf or (least == greatest and not missing):
        return -np.inf, 0.0
    if nominal:
        value = np.inf
        while value == np.inf:
            value = column[start + below(random, end - start)]
    elif least < greatest:
        value = least + uniform(random) * (greatest - least)
        if not value < greatest:
            value = least
    else:
        value = KNOWN
    left_weight = 0.0
    if kind == SHARES:
        part[:] = 0.0
        for k in range(start, end):
            here = column[k]
            if (here == value) if nominal else (here <= value):
                i = rows[k]
                left_weight += w[i]
                part[np.uint32(y[i])] += w[i]
        left_squares = 0.0
        right_squares = 0.0
        for c in range(len(total)):
            left_squares += part[c] * part[c]
            right_squares += (total[c] - part[c]) * (total[c] - part[c])
        return left_squares / left_weight + right_squares / (weight - left_weight), value
    left = 0.0
    for k in range(start, end):
        i = rows[k]
        here = column[k]
        inside = (here == value) if nominal else (here <= value)
        own = w[i] if inside else 0.0  # selected, not branched to: which side is a toss-up
        left_weight += own
        left += own * y[i]
    return one_moment(left_weight, left, kind) + one_moment(weight - left_weight, moment - left, kind), value


@kernel(inline=True)
def takes_place(score, best, best_feature, n_equal, random):
    """Whether a feature's test takes the place of the best one, and how many were as good. Mutates random."""
    if score == best and best_feature >= 0:
        return below(random, n_equal + 1) == 0, n_equal + 1
    return score > best, 1 if score > best else n_equal


@kernel(inline=True)
def _bounds(four, rows, start, end, x, lanes):
    """The least and greatest values of four features. Mutates lanes."""
    nowhere = spread(-np.inf)
    least = spread(np.inf)
    greatest = nowhere
    most = nowhere
    for k in range(start, end):
        here = load(x[rows[k]], four)
        known = where_less(here, spread(np.inf), here, nowhere)
        least = where_less(here, least, here, least)
        greatest = where_less(greatest, known, known, greatest)
        most = where_less(most, here, here, most)
    store(lanes[LEAST], 0, least)
    store(lanes[GREATEST], 0, greatest)
    store(lanes[MOST], 0, most)


@kernel(inline=True)
def _score(four, rows, start, end, x, y, w, kind, weight, moment, total, parts, lanes):
    """The scores of four tests. Mutates parts, lanes. O(rows), and O(classes)."""
    value = load(lanes[VALUE], 0)
    numeric = load(lanes[NUMERIC], 0)
    nothing = spread(0.0)
    left_weight = nothing
    if kind == SHARES:
        parts[:, :] = 0.0
        for k in range(start, end):
            i = rows[k]
            here = load(x[i], four)
            own = where_less(value, here, nothing, where_less(here, value, numeric * w[i], spread(w[i])))
            left_weight = left_weight + own
            part = parts[np.uint32(y[i])]
            store(part, 0, load(part, 0) + own)
        left_squares = nothing
        right_squares = nothing
        for c in range(len(total)):
            inside = load(parts[c], 0)
            outside = total[c] - inside
            left_squares = left_squares + inside * inside
            right_squares = right_squares + outside * outside
        store(lanes[SCORE], 0, left_squares / left_weight + right_squares / (weight - left_weight))
        return
    left = nothing
    for k in range(start, end):
        i = rows[k]
        here = load(x[i], four)
        own = where_less(value, here, nothing, where_less(here, value, numeric * w[i], spread(w[i])))
        left_weight = left_weight + own
        left = left + own * y[i]
    right_weight = weight - left_weight
    right = moment - left
    if kind == TWO:
        inside = left_weight - left
        outside = right_weight - right
        score = (left * left + inside * inside) / left_weight + (right * right + outside * outside) / right_weight
    else:
        score = left * left / left_weight + right * right / right_weight
    store(lanes[SCORE], 0, score)


@kernel(inline=True)
def random_on_few(n_values, rows, start, end, x, y, w, kind, weight, moment, total, part, lanes, few, random):
    """Draw tests (random_on_all) on fewer than FEW rows.

    One feature after the other, but what chance decides is selected and not branched to: whether a test ties, whether
    it is then taken, on which side a row is. So the random numbers are in registers, and the one that a tie would need
    is drawn always, and given back where there is none.

    few : (3, FEW) scratch. Mutates part, lanes, few, random. O(d rows)."""
    n = np.uint64(end - start)
    weights, labels, values = few[0], few[1], few[2]
    for k in range(n):
        i = rows[np.uint64(start) + k]
        weights[k] = w[i]
        labels[k] = y[i]
    s0, s1, s2, s3 = random[0], random[1], random[2], random[3]
    best = -np.inf
    best_feature = -1
    best_value = 0.0
    n_equal = 0
    for f in range(np.uint64(len(n_values))):
        lane = f % np.uint64(WIDTH)
        if lane == np.uint64(0):
            _bounds(f, rows, start, end, x, lanes)
        least = lanes[LEAST, lane]
        if not least < lanes[MOST, lane]:  # all rows have the same value
            continue
        for k in range(n):
            values[k] = x[rows[np.uint64(start) + k], f]
        nominal = n_values[f] > 0
        value = KNOWN
        if nominal:
            value = np.inf
            while value == np.inf:
                bits, s0, s1, s2, s3 = advanced(s0, s1, s2, s3)
                value = values[np.uint64(in_unit(bits) * n)]
        elif least < lanes[GREATEST, lane]:
            bits, s0, s1, s2, s3 = advanced(s0, s1, s2, s3)
            value = least + in_unit(bits) * (lanes[GREATEST, lane] - least)
            value = select(value < lanes[GREATEST, lane], value, least)
        lowest = value if nominal else -np.inf
        left_weight = 0.0
        if kind == SHARES:
            for c in range(len(total)):
                part[c] = 0.0
            for k in range(n):
                own = select((values[k] <= value) & (values[k] >= lowest), weights[k], 0.0)
                left_weight += own
                part[np.uint32(labels[k])] += own
            left_squares = 0.0
            right_squares = 0.0
            for c in range(len(total)):
                left_squares += part[c] * part[c]
                right_squares += (total[c] - part[c]) * (total[c] - part[c])
            score = left_squares / left_weight + right_squares / (weight - left_weight)
        else:
            left = 0.0
            for k in range(n):
                own = select((values[k] <= value) & (values[k] >= lowest), weights[k], 0.0)
                left_weight += own
                left += own * labels[k]
            score = one_moment(left_weight, left, kind) + one_moment(weight - left_weight, moment - left, kind)
        bits, t0, t1, t2, t3 = advanced(s0, s1, s2, s3)
        tie = (score == best) & (best_feature >= 0)
        s0 = select(tie, t0, s0)
        s1 = select(tie, t1, s1)
        s2 = select(tie, t2, s2)
        s3 = select(tie, t3, s3)
        more = score > best
        takes = more | (tie & (in_unit(bits) * (n_equal + 1) < 1.0))
        n_equal = select(tie, n_equal + 1, select(more, 1, n_equal))
        best = select(takes, score, best)
        best_feature = select(takes, np.int64(f), best_feature)
        best_value = select(takes, value, best_value)
    random[0], random[1], random[2], random[3] = s0, s1, s2, s3
    return best_feature, best_value


@kernel(inline=True)
def random_on_all(n_values, rows, start, end, x, y, w, kind, weight, moment, total, parts, lanes, states, random):
    """The best of one random test a feature: feature (-1: none), value. As random_on, feature by feature.

    x : (size, d and more), a whole number of lanes. parts : (outputs, WIDTH). lanes : (6, WIDTH). states : (WIDTH, 4)
    uint64. Mutates these three, random. O(d rows)."""
    d = len(n_values)
    best = -np.inf
    best_feature = -1
    best_value = 0.0
    n_equal = 0
    for first in range(0, d, WIDTH):
        four = np.uint64(first)
        n = min(WIDTH, d - first)
        _bounds(four, rows, start, end, x, lanes)
        at = 0
        while at < n:
            for lane in range(at, n):
                f = first + lane
                least = lanes[LEAST, lane]
                lanes[NUMERIC, lane] = 0.0 if n_values[f] > 0 else 1.0
                value = KNOWN
                if n_values[f] > 0:
                    if least < lanes[MOST, lane]:
                        value = np.inf
                        while value == np.inf:
                            value = x[rows[start + below(random, end - start)], f]
                elif least < lanes[GREATEST, lane]:
                    value = least + uniform(random) * (lanes[GREATEST, lane] - least)
                    if not value < lanes[GREATEST, lane]:
                        value = least
                lanes[VALUE, lane] = value
                for word in range(4):
                    states[lane, word] = random[word]
            _score(four, rows, start, end, x, y, w, kind, weight, moment, total, parts, lanes)
            while at < n:
                lane = at
                at += 1
                if not lanes[LEAST, lane] < lanes[MOST, lane]:  # all rows have the same value
                    continue
                tie = lanes[SCORE, lane] == best and best_feature >= 0
                if tie:
                    for word in range(4):
                        random[word] = states[lane, word]
                takes, n_equal = takes_place(lanes[SCORE, lane], best, best_feature, n_equal, random)
                if takes:
                    best = lanes[SCORE, lane]
                    best_feature = first + lane
                    best_value = lanes[VALUE, lane]
                if tie:
                    break
    return best_feature, best_value
