"""What stochastic gradient trees keep besides nodes and bins, the task, and scratch: tuples as kernels take them."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.drift.adwin import empty
from riparian.models.gradient.bins import MOMENTS
from riparian.models.gradient.losses import LOSSES
from riparian.models.joined import zeros
from riparian.models.kernels.randomness import below

# Places in LearnerState.counts: labels learned (with those of the warm-up), labels in the buffer, whether the warm-up
# is over, and the number of labels at which bins are due.
LEARNED, BUFFERED, READY, NEXT_BINS = range(4)

# Of LearnerState.target: weight, mean and squared deviations of the targets learned (faded after the warm-up), the mean
# and deviation that scores are relative to, and the deviation that detectors take errors in.
WEIGHT, MEAN, SQUARES, CENTRE, SPREAD, UNIT = range(6)

CROSS_ENTROPY = -1  # of GradientTask.loss


class LearnerState(NamedTuple):
    """What the learner knows besides trees and bins.

    counts : (4,) int64, see above.
    known : (n_classes,) float64, weight of each class, or (1,), of all labels.
    target : (6,) float64, see above.
    scales : (d, 3) float64, weight, mean and squared deviations of numeric features, for linear leaves.
    buffer : (warm_up or sample, d + 2) float64: rows, labels and weights.
    rng : (4,) uint64.
    """

    counts: NDArray[np.int64]
    known: Floats
    target: Floats
    scales: Floats
    buffer: Floats
    rng: NDArray[np.uint64]


class StageDetectors(NamedTuple):
    """A detector (models.drift.adwin) of each stage's errors, or nothing where stages are not reset.

    watch_counts : (stages, 3) int64.
    watch_sums : (stages, 2) float64.
    watch_filled : (stages, 48) int64.
    watch_totals, watch_spreads : (stages, 48, 6) float64.
    """

    watch_counts: NDArray[np.int64]
    watch_sums: Floats
    watch_filled: NDArray[np.int64]
    watch_totals: Floats
    watch_spreads: Floats


def no_watch(n_stages: int) -> StageDetectors:
    """Detectors that have seen nothing."""
    return StageDetectors(*empty((n_stages,)))


class GradientTask(NamedTuple):
    """What is learned, and how, as kernels take it.

    loss : CROSS_ENTROPY, or a regression's.
    parameter : of the loss.
    one_tree : whether one tree has all outputs.
    poisson : whether stages learn an instance Poisson(1) times.
    sample : rows of the buffer that are kept for quantiles after the warm-up, in turn.
    linear : whether leaves are.
    reset_delta : of the detectors, 0 for none.
    """

    loss: int
    parameter: float
    one_tree: bool
    shrinkage: float
    poisson: bool
    sample: int
    linear: bool
    reset_delta: float


class GradientScratch(NamedTuple):
    """What kernels write though it is no state. n : classes, or 1.

    cells : (d,) int64.
    z : (d,) float64.
    leaves : (stages, trees) int32, -1 for none.
    scores : (stages, n) float64.
    sums, point, p, gradient, hessian : (n,) float64.
    due : leaves with their stages, (stages trees, 2) int32.
    error, level : (1,), in and out of a detector.
    drifted : (stages,) bool.
    """

    cells: NDArray[np.int64]
    z: Floats
    leaves: NDArray[np.int32]
    scores: Floats
    sums: Floats
    point: Floats
    p: Floats
    gradient: Floats
    hessian: Floats
    due: NDArray[np.int32]
    error: Floats
    level: NDArray[np.int8]
    drifted: NDArray[np.bool_]


def task_of(schema: Schema, p: dict[str, Any]) -> GradientTask:
    """p : all parameters."""
    classes = schema.task != "regression"
    sampled = p["binning"] == "quantiles" and p["rebin_period"] > 0
    return GradientTask(
        CROSS_ENTROPY if classes else LOSSES[p["loss"]],
        p["quantile"] if p["loss"] == "quantile" else p["loss_threshold"],
        classes and p["outputs"] == "one-tree",
        p["shrinkage"] if p["n_stages"] > 1 else 1.0,
        p["poisson"],
        max(p["warm_up"], 4 * p["n_bins"]) if sampled else 0,
        p["linear_rate"] > 0.0,
        p["reset_delta"],
    )


def shape_of(schema: Schema, task: GradientTask) -> tuple[int, int]:
    """Trees of a stage, and outputs of a tree."""
    if schema.task == "regression":
        return 1, 1
    return (1, schema.n_outputs - 1) if task.one_tree else (schema.n_outputs - 1, 1)


def nodes_in(n_bytes: int, schema: Schema, p: dict[str, Any]) -> int:
    """How many nodes fit, half of them leaves (all but one in many, where nominal tests have a branch for each value).

    It must not depend on values and classes that the schema makes room for: when room grows depends on how batches were
    cut. A feature is reckoned to have as many values as a numeric one has bins, one tree for all to have ten classes.
    """
    d = schema.n_features
    n_outputs = 9 if schema.task == "classification" and p["outputs"] == "one-tree" else 1
    cell = 1 + MOMENTS * n_outputs
    leaf = 8 * cell * (p["n_bins"] + 1) * d
    node = 4 * 10 + 8 * (3 + 2 * n_outputs + cell + (n_outputs * d if p["linear_rate"] > 0.0 else 0))
    share = 1.0 if p["multiway"] and any(schema.n_values) else 0.5
    return max(1, int(n_bytes / (node + share * leaf)))


def new_learner_state(schema: Schema, task: GradientTask, warm_up: int, rng: NDArray[np.uint64]) -> LearnerState:
    d = schema.n_features
    shapes = 4, schema.n_outputs, 6, (d if task.linear else 0, 3), (warm_up, d + 2), 4
    return zeros(LearnerState, *shapes)._replace(rng=rng)


def scratch_for(schema: Schema, n_stages: int, n_trees: int) -> GradientScratch:
    d, n = schema.n_features, schema.n_outputs
    due = n_stages * n_trees, 2
    return zeros(GradientScratch, d, d, (n_stages, n_trees), (n_stages, n), n, n, n, n, n, due, 1, 1, n_stages)


def choose(rng: NDArray[np.uint64], n_stages: int, d: int, share: float) -> NDArray[np.int32]:
    """The features that each stage looks at, ascending: a sample of `share` of them, at least one. Mutates rng."""
    m = max(1, math.ceil(share * d - 1e-9))
    chosen = np.empty((n_stages, m), np.int32)
    for s in range(n_stages):
        features = list(range(d))
        while len(features) > m:
            features.pop(below(rng, len(features)))
        chosen[s] = features
    return chosen
