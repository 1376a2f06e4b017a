"""With which weights a regression predicts where labels come in blocks: those after the last label of a block, or their
mean over it.

Labels of a day that come at once are learned one after the other, and the weights after the last one suit the evening.
The next day is predicted with them from its morning on. So a pool judges both, by the votes that were cast for the next
block: as they come, it sums the errors that each would have had, faded. It predicts with the mean, and goes on from
there, while that has erred by a fiftieth less.

Of a block are labels in a row that come late, and whose instances were predicted after the same label. That is the vote
which `last-label` cast for them. So it follows from the labels and from what waits beside them, whatever is predicted
in between. Without such a member, or with labels at once, each label is a block of its own, and both weights are the
same.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel

SUM, LAST, MEAN = 0, 1, 2  # rows of the weights of blocks
LENGTH, SAID, BEFORE, ERRED, MEAN_ERRED = 0, 1, 2, 3, 4  # what is known of blocks
BETTER = 0.98  # of the error of the weights after the last label, below which their mean is better
REMEMBERED = 0.9999  # share of the sums of errors that a label leaves


@kernel
def goes_on(planes, at, now, said, block):
    """Whether a label is of the block of the one before.

    at, now : rows of the votes that were cast, and of those before the label, or -1. said : what the last label was
    when its instance was predicted, infinity where there was none; NaN where nobody tells.
    """
    late = False
    if now >= 0 and said == block[SAID]:
        for j in range(planes.shape[0]):
            one, other = planes[j, at, 0], planes[j, now, 0]
            late = late or (one != other and (np.isfinite(one) or np.isfinite(other)))
    return late


@kernel
def use(weights, weights_of_blocks, block, found):
    """Write into `found` the weights to predict with: `weights`, or their mean over the block so far."""
    mean = block[LENGTH] > 1.0 and block[MEAN_ERRED] < BETTER * block[ERRED]
    for j in range(len(weights)):
        found[j] = weights_of_blocks[SUM, j] / block[LENGTH] if mean else weights[j]


@kernel
def end(weights, weights_of_blocks, block, awake, found):
    """Note both weights of a block whose labels have all come, and go on from those that have predicted since, of
    members that are awake. Mutates weights, weights_of_blocks and block; found : scratch."""
    if block[LENGTH] == 0.0:
        return
    use(weights, weights_of_blocks, block, found)
    total, moved = 0.0, False
    for j in range(len(weights)):
        weights_of_blocks[LAST, j] = weights[j]
        weights_of_blocks[MEAN, j] = weights_of_blocks[SUM, j] / block[LENGTH]
        weights_of_blocks[SUM, j] = 0.0
        total += found[j] if awake[j] else 0.0
        moved = moved or found[j] != weights[j]
    if moved and total > 0.0:
        for j in range(len(weights)):
            weights[j] = found[j] / total if awake[j] else 0.0
    block[BEFORE], block[LENGTH] = block[LENGTH], 0.0


@kernel
def note(block, share, error, mean_error):
    """Note the errors, of an instance, of the weights of the block before: of those after its last label, and of their
    mean. Mutates block."""
    block[ERRED] = REMEMBERED * block[ERRED] + share * error
    block[MEAN_ERRED] = REMEMBERED * block[MEAN_ERRED] + share * mean_error


@kernel
def count(weights, weights_of_blocks, block, said):
    """Count a label to its block. weights : those after it. Mutates weights_of_blocks and block."""
    block[LENGTH] += 1.0
    block[SAID] = said
    for j in range(len(weights)):
        weights_of_blocks[SUM, j] += weights[j]
