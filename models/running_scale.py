"""Running means of sizes (squares, errors), which are divided by or compared: one value does not make a scale.

Labels have missing codes (99999) among values of 1 to 20, and what is squared remembers one of them for tens of
thousands of labels. So a value counts as no more than lifts the mean by a half, or as a hundred means where the mean
remembers few. A scale that has really changed comes with each label: 1e5 times as large, it is followed within sixty
labels (1.5^57 is the square of that).
"""

from riparian.models.kernels.kernel import kernel

LIFT = 0.5  # share of a mean by which one value lifts it
MEANS = 100.0  # means that a value may count as, however few the mean remembers


@kernel(inline=True)
def held(value, mean, n):
    """What a value >= 0 counts as in a running mean of about n values: itself while the mean is 0."""
    return min(value, mean * max(MEANS, LIFT * n)) if mean > 0.0 else value
