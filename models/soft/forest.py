"""Soft trees as arrays: one or several models, each a sum of one or several trees, with room to grow.

All nodes lie in one pool, so that a learner with many candidates has as few arrays as one with a single tree. A model
has its own normalisation of the inputs, the classes it has seen and its own parameters (`Settings`); only a pool of
models has more than one. Invariants:

- nodes are appended and never move; the children of a node are neighbours, FIRST and FIRST + 1, and come after it;
- an inner node has a row of `gates`; a leaf that may still split has a row of `blocks`, and no other node has one;
- weights lie beside the moments that Adam keeps of them: growth touches neither of any other node.

The vector that a gate weighs: numeric features, normalised, then a constant 1 (the bias), then zeros up to a multiple
of four (dense part); then one indicator a value of every nominal feature, of which only those that are 1 are touched.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Schema
from riparian.models.joined import enlarge, grown, zeros
from riparian.models.kernels.randomness import seeded, uniform
from riparian.models.observers import gaussians as observers
from riparian.models.regression.observers import lay_out as lay_out_values
from riparian.models.regression.observers import transfer as transfer_values

Ints = NDArray[np.int32]

# Columns of SoftForest.links.
FIRST, FEATURE, PARENT, DEPTH, GATE, BLOCK = range(6)
# Columns of SoftForest.tests: threshold or value, and the share of the weight that passed.
VALUE, SHARE = range(2)
# Columns of SoftForest.weights.
REACH, SEEN, EVALUATED = range(3)
# Rows of a gate or a leaf.
WEIGHT, FIRST_MOMENT, SECOND_MOMENT = range(3)
# Columns of SoftForest.scales. INVERSE: 1 / (3 standard deviations). SIZE: mean of |z|.
SCALE_N, SCALE_MEAN, SCALE_VARIANCE, SCALE_INVERSE, SCALE_SIZE = range(5)
# Places in SoftForest.counts.
N_NODES, N_GATES, N_BLOCKS = range(3)

# Columns of the settings of a model.
(
    S_DEPTH,
    S_ALPHA,
    S_GAMMA,
    S_RATE,
    S_BETA1,
    S_BETA2,
    S_MIN_REACH,
    S_GRACE,
    S_LOG_DELTA,
    S_TIE,
    S_GROWS,
    S_REGRESSION,
    S_PER_GAMMA,
    S_CRITICAL,
) = range(14)

INITIAL = 0.01
N_BINS = 32  # thresholds that a leaf of a regression keeps of a numeric feature


class SoftForest(NamedTuple):
    """The arrays of soft trees; M models of R trees, k outputs, p weights a gate, V values of nominal features.

    links : (n_nodes, 6) int32. FIRST: the child that the test sends to, -1 for a leaf. FEATURE: of the split test, -1
        without one. PARENT, -1 for a root; DEPTH; GATE and BLOCK: rows of `gates` and `blocks`, or -1.
    tests : (n_nodes, 2) float64. VALUE: a numeric feature passes up to it, a nominal one if equal. SHARE: of the weight
        in the leaf that passed when it was split; a missing value passes by this share.
    weights : (n_nodes, 3) float64. REACH: of all instances learned while the node was a leaf, weight times probability
        to reach it; SEEN: weight of those in its statistics; EVALUATED: the same at the last split attempt.
    powers : (n_nodes, 2) float64, beta1^t and beta2^t after t steps of Adam; 0 below 1e-9.
    leaves : (n_nodes, 3, k) float64, logits of a leaf (or its value) and their two moments; of an inner node as it was
        split.
    classes : (n_nodes, k) float64, weight of each class in the statistics of a leaf; of an inner node as it was split.
        0 in a regression.
    gates : (n_gates, 3, p) float64, weights of a gate and their two moments.
    blocks : (n_blocks, width) float64, statistics of models.observers.gaussians; of leaves of a regression, those of
        models.regression.observers, without linear models.
    owners : (n_blocks,) int32, their leaves.
    roots : (M, R) int32.
    scales : (M, d, 5) float64, of each numeric feature: weight, mean, variance, 1 / (3 deviations), mean of |z|.
    known : (M, k) float64, weight of the classes learned.
    values : (M, V) float64, of the nominal values.
    targets : (M, 3) float64, weight, mean and variance of a regression's targets.
    residuals : (M, 2) float64, faded sums of squared errors in deviations of the targets, and of ones.
    counts : (3,) int64, nodes, gates, blocks.
    """

    links: Ints
    tests: Floats
    weights: Floats
    powers: Floats
    leaves: Floats
    classes: Floats
    gates: Floats
    blocks: Floats
    owners: Ints
    roots: Ints
    scales: Floats
    known: Floats
    values: Floats
    targets: Floats
    residuals: Floats
    counts: NDArray[np.int64]


BY_NODE = ("links", "tests", "weights", "powers", "leaves", "classes")
BY_BLOCK = ("blocks", "owners")


class Encoding(NamedTuple):
    """Where the features are in the vector that gates weigh.

    n_values : (d,) int32, 0 for numeric.
    place : (d,) int32, of a numeric feature in the dense part, of a nominal feature's value 0 in the whole vector.
    numeric : int32, the numeric features in the order of their places, the last one again up to a multiple of four.
    dense : (1,) int32, length of the dense part.
    bias : (1,) int32, its place.
    """

    n_values: Ints
    place: Ints
    numeric: Ints
    dense: Ints
    bias: Ints


def encode(schema: Schema) -> tuple[Encoding, int]:
    """The encoding of a schema, and p, the length of the vector."""
    numeric = [f for f, n in enumerate(schema.n_values) if n == 0]
    n_numeric = len(numeric)
    numeric += numeric[-1:] * (-n_numeric % 4)
    dense = 4 * math.ceil((n_numeric + 1) / 4)
    place, at, nominal = [], 0, dense
    for n in schema.n_values:
        place.append(at if n == 0 else nominal)
        at += n == 0
        nominal += n
    as_ints = (np.array(column, np.int32) for column in (schema.n_values, place, numeric, [dense], [n_numeric]))
    return Encoding(*as_ints), nominal


class Visits(NamedTuple):
    """The nodes that a row reaches, of all models together: (V,) arrays, int32 and float64.

    Place 0 is of none and stays 0, inner nodes follow from 1 on, leaves come from the end.

    node, model : which.
    left, right : where the children are among the visits, 0 for one that is not reached.
    probability : to reach it.
    passes : the share that goes to the first child.
    slope : its derivative by the linear form.
    along : the node's output in the direction of the loss's gradient.
    """

    node: Ints
    model: Ints
    left: Ints
    right: Ints
    probability: Floats
    passes: Floats
    slope: Floats
    along: Floats


class SoftScratch(NamedTuple):
    """What a kernel writes and nothing remembers.

    row : (d,) float64, the current row, NaN where a nominal value is none.
    numbers : (1, n) float64, its numeric features as in Encoding.numeric.
    active : (nominal features,) int32, places of its indicators.
    cells : (nominal features, 2) uint64, where a block counts all values and this one, of class 0.
    z : (M, dense) float64, the dense part as each model normalises it.
    logits, probabilities, gradient : (M, k).
    reached : (2,) int64, how many of the visits are inner nodes and leaves.
    learned, stepped : (V,) int32, the leaves and the inner nodes among them that learn.
    post, found : of models.hoeffding.splitting.candidates.
    places, sides : of models.regression.observers.
    rates : (M,) float64, of the current label's step of Adam.
    counted : (M,) float64, what its target counts as.
    cached : what models.observers.gaussians.observe writes of a cache that is out of date: nothing.
    """

    row: Floats
    numbers: Floats
    active: Ints
    cells: NDArray[np.uint64]
    z: Floats
    logits: Floats
    probabilities: Floats
    gradient: Floats
    visits: Visits
    reached: NDArray[np.int64]
    learned: Ints
    stepped: Ints
    post: Floats
    found: Floats
    cached: Floats
    places: NDArray[np.int64]
    sides: Floats
    rates: Floats
    counted: Floats


def scratch_of(schema: Schema, n_models: int, n_trees: int, depth: int) -> SoftScratch:
    """depth : of the deepest tree."""
    encoding, _ = encode(schema)
    k = schema.n_outputs
    n_visits = n_models * n_trees * (2 ** (depth + 1) - 1) + 2  # that of none; one that is not reached is written, too
    d, n_nominal, visits = schema.n_features, sum(n > 0 for n in schema.n_values), zeros(Visits, *8 * [n_visits])
    return zeros(
        SoftScratch, d, (1, len(encoding.numeric)), n_nominal, (n_nominal, 2), (n_models, int(encoding.dense[0])),
        (n_models, k), (n_models, k), (n_models, k), visits, 2, n_visits, n_visits,
        (max(2, *schema.n_values, 2) + 1, k), 4, 1, (2, d), 4, n_models, n_models,
    )  # fmt: skip


def width_of(schema: Schema, grows: bool) -> int:
    """Of a block."""
    if grows and schema.task == "regression":
        return lay_out_values(schema, N_BINS)[1]
    return observers.lay_out(schema)[1]


def plant(schema: Schema, settings: Floats, n_trees: int, seed: int) -> SoftForest:
    """New models, one a row of `settings`: of trees that grow a leaf each, of others whole trees.

    Weights of whole trees are drawn from U(-INITIAL, INITIAL), for each model from the same random numbers, so that a
    model in a pool is what it would be alone.
    """
    _, p = encode(schema)
    k, n_models = schema.n_outputs, len(settings)
    forest = zeros(
        SoftForest, (0, 6), (0, 2), (0, 3), (0, 2), (0, 3, k), (0, k), (0, 3, p),
        (0, width_of(schema, bool(settings[0, S_GROWS]))), 0, (n_models, n_trees), (n_models, schema.n_features, 5),
        (n_models, k), (n_models, sum(schema.n_values)), (n_models, 3), (n_models, 2), 3,
    )  # fmt: skip
    whole = [2 ** (int(s[S_DEPTH]) + 1) - 1 for s in settings if not s[S_GROWS]]
    n_leaves = n_trees * (n_models - len(whole))
    n_gates = n_trees * sum(n // 2 for n in whole)
    forest = make_room(forest, n_leaves + n_trees * sum(whole), n_gates, n_leaves)
    for model in range(n_models):
        random = seeded(seed)
        for tree in range(n_trees):
            forest.roots[model, tree] = forest.counts[N_NODES]
            _plant_tree(forest, settings[model], random)
    return forest


def _plant_tree(forest: SoftForest, settings: Floats, random: NDArray[np.uint64]) -> None:
    """Append a leaf with a block, or a whole tree level by level, whose leaves are drawn as gates are."""
    links, counts = forest.links, forest.counts
    start = int(counts[N_NODES])
    grows = bool(settings[S_GROWS])
    depth = 0 if grows else int(settings[S_DEPTH])
    for i in range(2 ** (depth + 1) - 1):
        node = start + i
        links[node] = -1
        links[node, DEPTH] = (i + 1).bit_length() - 1
        forest.powers[node] = 1.0
        if i:
            links[node, PARENT] = start + (i - 1) // 2
        if links[node, DEPTH] < depth:
            links[node, [FIRST, GATE]] = start + 2 * i + 1, counts[N_GATES]
            forest.gates[counts[N_GATES], WEIGHT] = _drawn(forest.gates.shape[2], random)
            counts[N_GATES] += 1
        elif not grows:
            forest.leaves[node, WEIGHT] = _drawn(forest.leaves.shape[2], random)
        elif settings[S_DEPTH] > 0:
            links[node, BLOCK] = counts[N_BLOCKS]
            forest.owners[counts[N_BLOCKS]] = node
            counts[N_BLOCKS] += 1
        counts[N_NODES] += 1


def _drawn(n: int, random: NDArray[np.uint64]) -> Floats:
    return np.array([INITIAL * (2.0 * uniform(random) - 1.0) for _ in range(n)])


def make_room(forest: SoftForest, nodes: int, gates: int, blocks: int) -> SoftForest:
    """Capacity for so many more; capacities double."""
    counts = forest.counts
    wanted = dict.fromkeys(BY_NODE, int(counts[N_NODES]) + nodes)
    wanted |= {"gates": int(counts[N_GATES]) + gates} | dict.fromkeys(BY_BLOCK, int(counts[N_BLOCKS]) + blocks)
    return forest._replace(**{name: enlarge(getattr(forest, name), n) for name, n in wanted.items()})


def used(forest: SoftForest) -> SoftForest:
    """Views of what is in use."""
    counts = forest.counts
    ends = dict.fromkeys(BY_NODE, counts[N_NODES]) | {"gates": counts[N_GATES]}
    ends |= dict.fromkeys(BY_BLOCK, counts[N_BLOCKS])
    return forest._replace(**{name: getattr(forest, name)[: int(end)] for name, end in ends.items()})


def transfer(forest: SoftForest, old: Schema, new: Schema, grows: bool) -> SoftForest:
    """Copy models for a larger schema; zero where that has more classes or values. grows : whether trees do."""
    moved: dict[str, Any] = {}
    for name in ("leaves", "classes", "known"):
        array = getattr(forest, name)
        moved[name] = grown(array, *array.shape[:-1], new.n_outputs)
    if grows and new.task == "regression":
        moved["blocks"] = transfer_values(forest.blocks, old, new, N_BINS)
    else:
        moved["blocks"], _ = observers.transfer(forest.blocks, observers.know_nothing(old), old, new)
    before, after, p = encode(old)[0], *encode(new)
    dense = int(before.dense[0])
    moved["gates"] = np.zeros((*forest.gates.shape[:2], p))
    moved["gates"][..., :dense] = forest.gates[..., :dense]
    moved["values"] = np.zeros((len(forest.values), sum(new.n_values)))
    for f, n in enumerate(old.n_values):
        source, target = int(before.place[f]), int(after.place[f])
        if n:
            moved["gates"][..., target : target + n] = forest.gates[..., source : source + n]
            moved["values"][:, target - dense : target - dense + n] = forest.values[
                :, source - dense : source - dense + n
            ]
    return forest._replace(**moved)
