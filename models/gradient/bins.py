"""Bins of numeric features, and the layout of what leaves observe of them.

Section 3.2 of the paper: a numeric feature is cut into bins, known from a sample of the stream, and every boundary
between bins is a possible threshold. Bins are ascending edges, whether of equal width or quantiles; a value up to edge
b and above the one before is in bin b, and beyond the last edge in the last bin, so values outside of the sample's
range are clipped. A threshold is a value, not the number of a bin: bins may change below a grown tree.

A leaf has one *block*, a row of `stats`. Feature after feature it holds a cell for each bin (nominal: each value) and
one for missing values; a cell holds the weight, then for each output of the tree the weighted sums of g, h, g^2, gh and
h^2, where g and h are gradient and Hessian.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.kernels.kernel import kernel

# Of a cell: the weight, and the places of an output's sums after the one before.
WEIGHT, MOMENTS = 0, 5
G, H, GG, GH, HH = range(1, 6)


class BinLayout(NamedTuple):
    """Where the sums of a feature stand in a block.

    n_values : (d,) int32, 0 for numeric.
    offset : (d,) int64, a feature's first number in a block.
    n_cells : (d,) int64, bins or values; the cell of missing values comes after them.
    size : (1,) int64, numbers in a cell.
    """

    n_values: NDArray[np.int32]
    offset: NDArray[np.int64]
    n_cells: NDArray[np.int64]
    size: NDArray[np.int64]


class Bins(NamedTuple):
    """The cells of numeric features.

    edges : (d, n_bins - 1) float64, ascending.
    n_edges : (d,) int64, how many there are.
    pace : (d,) float64, edges a unit where they are of equal width, else 0.
    ranges : (d, 2) float64, least and greatest finite value that was learned; infinite the other way round before there
        is one.
    """

    edges: Floats
    n_edges: NDArray[np.int64]
    pace: Floats
    ranges: Floats


def lay_out(schema: Schema, n_bins: int, n_outputs: int) -> tuple[BinLayout, int]:
    """Layout and width of a block of a tree with so many outputs."""
    n_values = np.array(schema.n_values, dtype=np.int32)
    n_cells = np.where(n_values == 0, n_bins, n_values).astype(np.int64)
    size = 1 + MOMENTS * n_outputs
    ends = np.cumsum((n_cells + 1) * size)
    offset = np.concatenate(([0], ends[:-1])).astype(np.int64)
    return BinLayout(n_values, offset, n_cells, np.array([size], np.int64)), int(ends[-1])


def no_bins(n_features: int, n_bins: int) -> Bins:
    ranges = np.empty((n_features, 2))
    ranges[:] = np.inf, -np.inf
    return Bins(np.zeros((n_features, n_bins - 1)), np.zeros(n_features, np.int64), np.zeros(n_features), ranges)


def equal_width(low: float, high: float, n_bins: int) -> Floats:
    """Edges between `n_bins` bins of equal width; fewer where the width is no longer a number."""
    if not low < high:
        return np.zeros(0)
    share = np.arange(1, n_bins) / n_bins
    edges: Floats = np.unique(low * (1.0 - share) + high * share)  # high - low may overflow
    kept: Floats = edges[(edges >= low) & (edges < high)]
    return kept


def quantiles(values: Floats, n_bins: int) -> Floats:
    """Edges that cut the sorted `values` into up to `n_bins` parts of about equal size, half way between neighbours.

    With at most n_bins different values each gets a bin of its own: ordinal features are treated as such.
    """
    different = np.unique(values)
    if len(different) < 2:
        return np.zeros(0)
    if len(different) > n_bins:
        ranks = np.arange(1, n_bins) * len(values) // n_bins
        ordered = np.sort(values)
        at = np.unique(np.searchsorted(different, ordered[ranks - 1]))
        at = at[at < len(different) - 1]
    else:
        at = np.arange(len(different) - 1)
    edges: Floats = np.unique(0.5 * different[at] + 0.5 * different[at + 1])
    kept: Floats = edges[edges < different[-1]]
    return kept


@kernel(inline=True)
def bin_of(edges, n, value):
    """The number of edges below `value`, by bisection: its bin. O(log n)."""
    low = 0
    while n > 0:
        half = n >> 1
        if edges[low + half] < value:
            low += half + 1
            n -= half + 1
        else:
            n = half
    return low


@kernel(inline=True)
def _bin_near(edges, n, pace, value):
    """Find a bin (`bin_of`) from where the bin must be if all are as wide. O(1) where they are, but for rounding."""
    guess = (value - edges[0]) * pace
    low = 0
    if guess >= n:
        low = n
    elif guess > 0.0:
        low = int(guess)
    while low < n and edges[low] < value:
        low += 1
    while low > 0 and not edges[low - 1] < value:
        low -= 1
    return low


@kernel(inline=True)
def find_cells(bins, layout, x, r, cells):
    """The first number of the cell in a block to which each feature of row r belongs, into `cells`, (d,) int64.

    O(d log n_bins).
    """
    size = layout.size[0]
    for f in range(len(cells)):
        value = x[r, f]
        n = layout.n_values[f]
        if value != value:
            cell = layout.n_cells[f]
        elif n == 0:
            if bins.pace[f] > 0.0:
                cell = np.int64(_bin_near(bins.edges[f], bins.n_edges[f], bins.pace[f], value))
            else:
                cell = np.int64(bin_of(bins.edges[f], bins.n_edges[f], value))
        elif value >= 0.0 and value < n:
            cell = np.int64(value)
        else:
            cell = layout.n_cells[f]
        cells[f] = layout.offset[f] + cell * size


@kernel(inline=True)
def widen_ranges(ranges, n_values, x, r):
    """Let the ranges of numeric features include row r of x. Mutates `ranges`. O(d)."""
    for f in range(len(n_values)):
        value = x[r, f]
        if n_values[f] == 0 and value - value == 0.0:  # finite
            if value < ranges[f, 0]:
                ranges[f, 0] = value
            if value > ranges[f, 1]:
                ranges[f, 1] = value


@kernel
def move_cells(stats, n_blocks, offset, size, old, n_old, edges, n_edges, low, high, part):
    """Put what the first `n_blocks` blocks hold of a feature's old bins into new ones. O(n_blocks n_bins).

    A bin's sums go as a whole to the new bin of its middle; the first and last bin end at `low` and `high`. part :
    scratch for n_bins cells. Mutates stats, part.
    """
    for block in range(n_blocks):
        row = stats[block]
        n = (n_old + 1) * size
        for i in range(n):
            part[i] = row[offset + i]
            row[offset + i] = 0.0
        for b in range(n_old + 1):
            below = low if b == 0 else old[b - 1]
            above = high if b == n_old else old[b]
            target = offset + bin_of(edges, n_edges, 0.5 * below + 0.5 * above) * size
            for i in range(size):
                row[target + i] += part[b * size + i]


def refit(bins: Bins, layout: BinLayout, stats: Floats, n_blocks: int, n_bins: int, rows: Floats | None) -> None:
    """New bins from the ranges, or from quantiles of `rows`; what the blocks of `stats` hold moves into them."""
    size = int(layout.size[0])
    part = np.zeros(n_bins * size)
    for f, n_values in enumerate(layout.n_values.tolist()):
        low, high = bins.ranges[f].tolist()
        if n_values or not low < high:
            continue
        pace = 0.0
        if rows is None:
            share = 1 / n_bins
            if bins.n_edges[f] == n_bins - 1 and bins.edges[f, 0] == low * (1.0 - share) + high * share:
                share = (n_bins - 1) / n_bins
                if bins.edges[f, n_bins - 2] == low * (1.0 - share) + high * share:
                    continue  # the range is what it was
            edges = equal_width(low, high, n_bins)
            if len(edges) == n_bins - 1 > 1 and 0.0 < edges[-1] - edges[0] < np.inf:
                pace = (len(edges) - 1) / float(edges[-1] - edges[0])
        else:
            edges = quantiles(rows[np.isfinite(rows[:, f]), f], n_bins)
        n_old = int(bins.n_edges[f])
        old = bins.edges[f, :n_old].copy()
        if np.array_equal(edges, old):
            continue
        bins.edges[f] = 0.0
        bins.edges[f, : len(edges)] = edges
        bins.n_edges[f] = len(edges)
        bins.pace[f] = pace
        start = int(layout.offset[f])
        move_cells(stats, n_blocks, start, size, old, n_old, bins.edges[f], len(edges), low, high, part)


def transfer(stats: Floats, old: tuple[BinLayout, int], new: tuple[BinLayout, int]) -> Floats:
    """Copy statistics into blocks of a larger schema: the cells of missing values move behind new values, and cells
    hold zeros for new outputs."""
    moved = np.zeros((len(stats), new[1]))
    (_, starts, n_cells, (size,)), (_, targets, more_cells, (wide,)) = old[0], new[0]
    for f in range(len(starts)):
        n, m = int(n_cells[f]), int(more_cells[f])
        source = stats[:, starts[f] : starts[f] + (n + 1) * size].reshape(-1, n + 1, size)
        target = moved[:, targets[f] : targets[f] + (m + 1) * wide].reshape(-1, m + 1, wide)
        target[:, :n, :size] = source[:, :n]
        target[:, m, :size] = source[:, n]
    return moved
