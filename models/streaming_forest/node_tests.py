"""The best test on one feature for a few rows, as kernels: Breiman, Friedman, Olshen and Stone 1984.

Tests, missing values and ties as in models.shrubs.cart: numeric x <= value at midpoints, nominal x == value, a missing
value (infinity) goes right, and where some are missing "known" is a candidate (value KNOWN). That module hands all
features of a window down from node to node in order. Here a node looks at few features: its values are found in the
order of the window that many trees share (models.streaming_forest.false_roots), or sorted where a node is small or
trees are few, and nominal ones are counted.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.shrubs.splits import between

RUN = 16  # values that are sorted by insertion


@kernel(allocates=True)
def sort_values(values, places, n, other_values, other_places):
    """Sort values[:n], equal ones in the order they came, and places[:n] with them. Mutates all. O(n log n).

    places, other_places : int32. The other two are scratch.
    """
    for start in range(0, n, RUN):
        for k in range(start + 1, min(start + RUN, n)):
            value = values[k]
            place = places[k]
            j = k
            while j > start and values[j - 1] > value:
                values[j] = values[j - 1]
                places[j] = places[j - 1]
                j -= 1
            values[j] = value
            places[j] = place
    width = RUN
    while width < n:
        for start in range(0, n, 2 * width):
            middle = min(start + width, n)
            end = min(start + 2 * width, n)
            i = start
            j = middle
            for k in range(start, end):
                if j >= end or (i < middle and values[i] <= values[j]):
                    other_values[k] = values[i]
                    other_places[k] = places[i]
                    i += 1
                else:
                    other_values[k] = values[j]
                    other_places[k] = places[j]
                    j += 1
        values[:n] = other_values[:n]
        places[:n] = other_places[:n]
        width *= 2


@kernel(inline=True)
def best_threshold(values, places, n, y, w, total, weight, squares, part):
    """Best test on a numeric feature: score (-inf: all values are the same), value. Ties to the lowest value.

    values : sorted, missing ones last. places : where each row's class and weight are, in y (int) and w. total : (K,),
    weight of each class; weight, squares : their sum, and the sum of their squares. Mutates part : (K,). O(n).
    The score is the greater, the lower is the weighted Gini impurity after the test.
    """
    best = -np.inf
    value = 0.0
    left_weight = 0.0
    left_squares = 0.0
    right_squares = squares
    part[:] = 0.0
    for k in range(n - 1):
        here = values[k]
        if here == np.inf:
            break
        c = y[places[k]]
        more = w[places[k]]
        left_weight += more
        left_squares += more * (2.0 * part[c] + more)
        right_squares -= more * (2.0 * (total[c] - part[c]) - more)
        part[c] += more
        following = values[k + 1]
        if following == here:
            continue
        score = left_squares / left_weight + right_squares / (weight - left_weight)
        if score > best:
            best = score
            value = between(here, following)
    return best, value


@kernel(inline=True)
def best_category(column, n_values, rows, start, end, y, w, total, weight, table, seen):
    """Best test on a nominal feature of rows[start:end]: score (-inf: all values are the same), code.

    Ties to the lowest code. column : by row. y, w : by place from `start`. Mutates table : (codes, K), seen : (codes,).
    O(rows + n_values K).
    """
    n_classes = len(total)
    table[:n_values] = 0.0
    seen[:n_values] = 0
    for k in range(start, end):
        value = column[rows[k]]
        if value < n_values:
            code = np.int64(value)
            table[code, y[k - start]] += w[k - start]
            seen[code] += 1
    best = -np.inf
    found = 0.0
    for code in range(n_values):
        if seen[code] == 0 or seen[code] == end - start:
            continue
        left_weight = 0.0
        left_squares = 0.0
        right_squares = 0.0
        for c in range(n_classes):
            left = table[code, c]
            right = total[c] - left
            left_weight += left
            left_squares += left * left
            right_squares += right * right
        score = left_squares / left_weight + right_squares / (weight - left_weight)
        if score > best:
            best = score
            found = np.float64(code)
    return best, found
