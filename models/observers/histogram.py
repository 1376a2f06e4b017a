"""Sorted keys of a numeric feature, each with sums of what was seen up to it: a bounded search tree as an array.

Ikonomovska, Gama and Džeroski 2011, section 4.2, keep every distinct value in a search tree (E-BST). Here the first
`n_bins` distinct values become the keys, sorted, and each sums up what had values from above the key before it up to
itself. So up to n_bins values it is exact, and beyond it the keys are a random sample: about equally frequent. A value
below all keys or above them becomes a key as well, for which the two lightest neighbours (but the least and the
greatest) become one: a feature that only grows, as time does, is followed. Whatever the keys, the sums up to each are
exact: a histogram is short of thresholds, never of counts.

Within a block, from column `offset` on: the number of keys, the keys (n_bins), and for each its n_sums sums, of which
the first n_weights add up to its weight.
"""

import math

import numpy as np

from riparian.models.kernels.kernel import kernel


@kernel(inline=True)
def first_not_below(block, keys, n, value):
    """The first of n >= 1 sorted keys that is not below value; n - 1 if all are. O(log n), without branches."""
    low = keys
    while n > 1:
        half = n >> 1
        low += half if block[low + half - 1] < value else 0
        n -= half
    return low - keys


@kernel
def insert(block, offset, n_bins, n_sums, n_weights, value):
    """Make `value` a key; its place. Where all keys are taken, the two lightest neighbours become one: the least and
    greatest key stay, so a new one beyond them counts from its first instance on. Mutates block. O(n_bins n_sums).
    """
    n = int(block[offset])
    keys = offset + 1
    sums = keys + n_bins
    if n == n_bins:
        lightest = 1
        least = math.inf
        for i in range(1, n - 2):
            weight = 0.0
            for j in range(n_weights):
                weight += block[sums + n_sums * i + j]
            for j in range(n_weights):
                weight += block[sums + n_sums * (i + 1) + j]
            if weight < least:
                least = weight
                lightest = i
        for j in range(n_sums):
            block[sums + n_sums * (lightest + 1) + j] += block[sums + n_sums * lightest + j]
        for i in range(lightest, n - 1):
            block[keys + i] = block[keys + i + 1]
            for j in range(n_sums):
                block[sums + n_sums * i + j] = block[sums + n_sums * (i + 1) + j]
        n -= 1
    place = n
    while place > 0 and block[keys + place - 1] > value:
        block[keys + place] = block[keys + place - 1]
        for j in range(n_sums):
            block[sums + n_sums * place + j] = block[sums + n_sums * (place - 1) + j]
        place -= 1
    block[keys + place] = value
    for j in range(n_sums):
        block[sums + n_sums * place + j] = 0.0
    block[offset] = n + 1
    return place


@kernel(inline=True)
def place_of(block, offset, n_bins, n_sums, n_weights, value):
    """The place of the key that counts `value`, which becomes a key if there is room or it is beyond all keys."""
    keys = offset + 1
    n = np.int64(block[offset])
    if n > 0:
        place = first_not_below(block, keys, n, value)
        key = block[keys + place]
        if key == value or (n == n_bins and key > value and place > 0):
            return np.int64(place)
    return np.int64(insert(block, offset, n_bins, n_sums, n_weights, value))
