"""What a leaf of a regression tree predicts: the mean of its targets, a linear model, or what erred less there.

The linear model is the perceptron without a threshold of Ikonomovska, Gama and Džeroski 2011, section 4.4, trained by
the delta rule with a rate that decays, w += eta (y - prediction) z. Inputs z: the constant 1; numeric features as
(x - mean) / (3 standard deviations) over the whole stream so far, kept within -1 .. 1, and 0 where missing; each value
of a nominal feature as 0 or 1. A child begins with its parent's model.

Deviations: the target is not normalised, for the delta rule is linear in it, and weights begin at 0, the constant at
the first target, so that nothing is random. A step is cut where it would overshoot the instance's own target: with
many features the rule diverges otherwise.
"""

import math

import numpy as np

from riparian.models.contract import LARGEST_TARGET
from riparian.models.kernels.kernel import kernel
from riparian.models.regression.observers import HEAD, observe
from riparian.models.running_scale import held

MEAN_LEAF, MODEL_LEAF, ADAPTIVE_LEAF = 0, 1, 2
LEAF_PREDICTIONS = {"mean": MEAN_LEAF, "model": MODEL_LEAF, "adaptive": ADAPTIVE_LEAF}

# The first numbers of a block: weight that the leaf learned, the same at its last split attempt, mean of the targets
# and weight behind it (with what it inherited), weight that the model learned, errors of mean and model (faded sums of
# |y - prediction|), and what the observers' sums are differences from.
SEEN, EVALUATED, N, MEAN, AGE, MEAN_ERROR, MODEL_ERROR, ORIGIN = range(HEAD)

# Rows of `scales`, whose column f is of feature f, the last of the target: weight, mean, sum of squared deviations, and
# 1 / (3 standard deviations), 0 where there is none.
WEIGHT, CENTRE, M2, PER_WIDTH = range(4)
LEAST_VARIANCE = 1e-300


@kernel(inline=True)
def learnable(y, w):
    """Whether a label teaches: finite, not beyond LARGEST_TARGET, of a weight above 0."""
    return abs(y) <= LARGEST_TARGET and w > 0.0 and w < math.inf


@kernel(inline=True)
def counted(scales, last, y):
    """What a target counts as, by the mean and the deviation of those before. last : its column of `scales`."""
    far = y - scales[CENTRE, last]
    n = scales[WEIGHT, last]
    square = held(far * far, scales[M2, last] / n, n) if n > 0.0 else far * far
    return y if square == far * far else scales[CENTRE, last] + math.copysign(math.sqrt(square), far)


@kernel(inline=True)
def widen_all(scales, n_values, x, r, y, w):
    """Learn row r of x and its target into `scales` (weighted Welford); missing values and nominal features are left
    out. Mutates scales. Without branches, so that it runs on several features at once: it takes a third of the time.
    """
    last = len(n_values)
    for f in range(last):
        value = x[r, f]
        known = value - value == 0.0 and n_values[f] == 0
        before = scales[WEIGHT, f]
        mean = scales[CENTRE, f]
        squares = scales[M2, f]
        n = before + w
        moved = mean + (value - mean) * (w / n)
        m2 = squares + w * (value - mean) * (value - moved)
        inverse = math.sqrt(n / m2) / 3.0
        inverse = inverse if m2 > LEAST_VARIANCE * n else 0.0
        scales[WEIGHT, f] = n if known else before
        scales[CENTRE, f] = moved if known else mean
        scales[M2, f] = m2 if known else squares
        scales[PER_WIDTH, f] = inverse if known else scales[PER_WIDTH, f]
    n = scales[WEIGHT, last] + w
    mean = scales[CENTRE, last]
    moved = mean + (y - mean) * (w / n)
    m2 = scales[M2, last] + w * (y - mean) * (y - moved)
    scales[WEIGHT, last] = n
    scales[CENTRE, last] = moved
    scales[M2, last] = m2
    scales[PER_WIDTH, last] = math.sqrt(n / m2) / 3.0 if m2 > LEAST_VARIANCE * n else 0.0


@kernel(inline=True)
def scale(value, centre, per_width):
    """The model's input of a value of a numeric feature."""
    scaled = (value - centre) * per_width
    return min(max(scaled, -1.0), 1.0) if scaled == scaled else 0.0


@kernel(inline=True)
def standardise(scales, n_values, x, r, z):
    """z[f] : the model's input of every numeric feature of row r. Mutates z."""
    for f in range(len(n_values)):
        z[f] = scale(x[r, f], scales[CENTRE, f], scales[PER_WIDTH, f]) if n_values[f] == 0 else 0.0


@kernel(inline=True)
def apply_model(block, n_values, weight, z, x, r):
    """The linear model's prediction. weight : of Layout. O(d)."""
    result = block[HEAD]
    for f in range(len(n_values)):
        if n_values[f] == 0:
            result += block[weight[f]] * z[f]
        else:
            value = x[r, f]
            if value >= 0.0 and value < n_values[f]:
                result += block[weight[f] + np.int64(value)]
    return result


@kernel(inline=True)
def train_model(block, n_values, weight, z, x, r, error, rate):
    """One step of the delta rule; no further than to the target. error : y - prediction. Mutates block. O(d)."""
    squared = 1.0
    for f in range(len(n_values)):
        if n_values[f] == 0:
            squared += z[f] * z[f]
        elif x[r, f] >= 0.0 and x[r, f] < n_values[f]:
            squared += 1.0
    step = min(rate, 1.0 / squared) * error
    block[HEAD] += step
    for f in range(len(n_values)):
        if n_values[f] == 0:
            block[weight[f]] += step * z[f]
        else:
            value = x[r, f]
            if value >= 0.0 and value < n_values[f]:
                block[weight[f] + np.int64(value)] += step


@kernel(inline=True)
def uses_model(block, leaf_prediction):
    """Whether a leaf predicts by its model."""
    if leaf_prediction == ADAPTIVE_LEAF:
        return block[MODEL_ERROR] <= block[MEAN_ERROR]
    return leaf_prediction == MODEL_LEAF


@kernel(inline=True)
def predict_leaf(block, n_values, weight, leaf_prediction, z, x, r):
    """A leaf's prediction for row r; z : its standardised inputs."""
    if uses_model(block, leaf_prediction):
        return apply_model(block, n_values, weight, z, x, r)
    return block[MEAN]


@kernel(inline=True)
def learn_target(block, n_values, weight, settings, z, x, r, y, w):
    """Learn row r into a leaf's mean and model; what the leaf predicted before. Mutates block. O(d)."""
    if not block[N] > 0.0:  # the first leaf of all: every other inherits
        block[MEAN] = y
        block[HEAD] = y
        block[ORIGIN] = y
    mean = block[MEAN]
    prediction = mean
    if settings.leaf_prediction != MEAN_LEAF:
        model = apply_model(block, n_values, weight, z, x, r)
        if uses_model(block, settings.leaf_prediction):
            prediction = model
        block[MEAN_ERROR] = settings.error_fading * block[MEAN_ERROR] + w * abs(y - mean)
        block[MODEL_ERROR] = settings.error_fading * block[MODEL_ERROR] + w * abs(y - model)
        rate = w * settings.learning_rate / (1.0 + settings.learning_rate_decay * block[AGE])
        train_model(block, n_values, weight, z, x, r, y - model, rate)
        block[AGE] += w
    block[SEEN] += w
    block[N] += w
    block[MEAN] = mean + (y - mean) * (w / block[N])
    return prediction


@kernel
def learn_leaf(block, n_values, weight, offset, n_bins, settings, z, places, x, r, y, w):
    """Learn row r into a leaf's block; what the leaf predicted before. Mutates block. O(d log n_bins)."""
    prediction = learn_target(block, n_values, weight, settings, z, x, r, y, w)
    observe(block, n_values, offset, n_bins, places, x, r, y - block[ORIGIN], w)
    return prediction
