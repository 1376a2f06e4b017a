"""Values of any unit brought into (0, 1), where the detectors' bounds hold, by a scale that stays.

A detector compares older values with newer ones, so all that it remembers has to be on one scale: with the mean so far
as the unit, an error that never changes seems to grow as long as a bad beginning weighs in that mean. Here the scale is
measured on the first values, and looked at again after each block of them. Only where it has become a wrong one by far
is it measured anew; the caller's detectors begin anew then, at that value. So a scale forgets, and never moves under a
detector that remembers. A rise is left to the detectors for half a block at least.

- An error e becomes 1 - exp(-e / width), width being the mean of a block without its highest twentieth.
- A value x becomes 1 / (1 + exp(-z)), z = (x - centre) / width, by mean and standard deviation of a block.

A scale is an array of 3 + BLOCK float64: values in the present block, centre, width (0: not known yet), the block.
"""

import math

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.elementary import exp, expm1
from riparian.models.kernels.kernel import kernel

FIRST = 100  # values that the first scale is measured on; they are not scaled themselves
BLOCK = 500  # values between two looks
FOLD = 4.0  # a scale is wrong where half of a block lies beyond so many widths, or the width is so many times too great

IN_BLOCK, CENTRE, WIDTH, VALUES = range(4)

LEAST = np.finfo(np.float64).tiny


def new_scale() -> NDArray[np.float64]:
    """A scale that knows nothing."""
    return np.zeros(VALUES + BLOCK)


@kernel
def sort(x):
    """Sort in place (Shell 1959). O(n^1.5)."""
    gap = len(x) // 2
    while gap > 0:
        for i in range(gap, len(x)):
            value, j = x[i], i
            while j >= gap and x[j - gap] > value:
                x[j] = x[j - gap]
                j -= gap
            x[j] = value
        gap //= 2


@kernel
def is_wrong(scale, errors):
    """Whether the scale has become a wrong one; to be asked before each value, and it is measured anew then. Mutates
    scale. O(1), and O(BLOCK^1.5) where a block is full."""
    n = int(scale[IN_BLOCK])
    if n != BLOCK and (n != FIRST or scale[WIDTH] > 0.0):
        return False
    scale[IN_BLOCK] = 0.0
    block = scale[VALUES : VALUES + n]
    old_centre, old_width = scale[CENTRE], scale[WIDTH]
    centre = 0.0
    if errors:
        sort(block)
        kept = n - n // 20
        width = 0.0
        for i in range(kept):
            width += block[i] / kept
    else:
        for i in range(n):
            centre += (block[i] - block[0]) / n
        centre += block[0]
        width = 0.0
        for i in range(n):
            width += (block[i] - centre) * (block[i] - centre) / n
        width = math.sqrt(width)
        for i in range(n):
            block[i] = abs(block[i] - old_centre)
        sort(block)
    if not (abs(centre) < np.inf and width < np.inf):
        centre, width = 0.0, 0.0  # numbers whose squares overflow: look at others
    elif width < LEAST:
        width = LEAST
    if old_width == 0.0:
        scale[CENTRE], scale[WIDTH] = centre, width
        return False
    if block[n // 2] <= FOLD * old_width and width >= old_width / FOLD:
        return False
    scale[CENTRE], scale[WIDTH] = centre, width
    return True


@kernel
def take(value, scale, errors):
    """Take a finite value into the block; what it is on the scale, NaN while that is not known. Mutates scale. O(1)."""
    scale[VALUES + int(scale[IN_BLOCK])] = value
    scale[IN_BLOCK] += 1.0
    if scale[WIDTH] == 0.0:
        return np.nan
    z = (value - scale[CENTRE]) / scale[WIDTH]
    return -expm1(-z) if errors else 1.0 / (1.0 + exp(-z))


@kernel
def bring(x, scaled, start, scale, errors):
    """Write what finite values x[start:] are on the scale into `scaled`, up to the first one before which the scale was
    measured anew; its index, or len(x). From there on detectors begin anew. Mutates scaled, scale. O(1) a value."""
    for i in range(start, len(x)):
        if is_wrong(scale, errors):
            return i
        scaled[i] = take(x[i], scale, errors)
    return len(x)
