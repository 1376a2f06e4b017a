"""Values of any unit brought into (0, 1), where the detectors' bounds hold."""

import math

from models.kernel import kernel


@kernel
def standardise(x, scaled, totals):
    """Write 1 / (1 + exp(-z)) of each value into `scaled`, z being its distance from the mean of the values so far (and
    itself) in their standard deviations; 0.5 where all are equal.

    totals : (3,) float64, mutated: number, mean and summed squared deviation (West 1979), in order. O(1) a value.
    """
    for i in range(len(x)):
        totals[0] += 1.0
        deviation = x[i] - totals[1]
        totals[1] += deviation / totals[0]
        totals[2] += deviation * (x[i] - totals[1])
        z = 0.0
        if totals[2] > 0.0:
            z = (x[i] - totals[1]) / (totals[2] / totals[0]) ** 0.5
        scaled[i] = 1.0 / (1.0 + math.exp(-z))
