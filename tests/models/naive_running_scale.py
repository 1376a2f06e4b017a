"""What a value counts as in a running mean, from the rule of models.running_scale."""

import math


def held(value, mean, n):
    """A value lifts a running mean of n values by a half at most; of few values it may be a hundred means."""
    return min(value, mean * max(100.0, n / 2.0)) if mean > 0.0 else value


def near(y, mean, variance, n):
    """A target no farther from the mean than its square may be."""
    square = held((y - mean) * (y - mean), variance, n)
    return y if square == (y - mean) * (y - mean) else mean + math.copysign(math.sqrt(square), y - mean)
