"""Soft trees against their naive twin, by finite differences, by hand, and by their invariants."""

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.evenness import evenness
from riparian.models.soft.forest import (
    BLOCK,
    DEPTH,
    FEATURE,
    FIRST,
    FIRST_MOMENT,
    GATE,
    PARENT,
    REACH,
    S_ALPHA,
    S_RATE,
    SCALE_INVERSE,
    SCALE_MEAN,
    SCALE_N,
    SCALE_SIZE,
    SCALE_VARIANCE,
    SEEN,
    SHARE,
    VALUE,
    WEIGHT,
)
from riparian.models.soft.passes.backward import rate_of
from riparian.models.soft.passes.forward import smooth_step, smooth_step_slope
from riparian.models.soft.soft_hoeffding_tree import SoftHoeffdingTree
from riparian.models.soft.soft_tree import SoftTree
from riparian.models.soft.transparency import count
from tests.models.naive_soft import BIAS, Node, SoftTwin, Weights
from tests.models.streams_of_instances import in_pieces, interleave, mixed, played
from tests.models.test_hoeffding_trees import WORLDS

EAGER = {"grace_period": 20, "delta": 0.3, "tie_threshold": 0.4, "learning_rate": 0.05, "max_depth": 4}
EAGER["significance"] = 1.0
MODES = [
    {},
    {"alpha": 1.0, "learning_rate": 0.01},
    {"alpha": 0.0, "gamma": 0.5},
    {"alpha": 0.2, "beta1": 0.9, "min_reach": 0.05},
    {"max_depth": 1, "min_reach": 1.0, "grace_period": 1},
    {"delta": 1e-7, "tie_threshold": 0.0},
    {"significance": 0.3},
]


def tree(stream, **parameters):
    return SoftHoeffdingTree(stream.schema, **{**EAGER, **parameters})


def twin(stream, **parameters):
    p = tree(stream, **parameters).parameters()
    growth = {
        name: p.pop(name)
        for name in ("max_depth", "min_reach", "grace_period", "delta", "tie_threshold", "significance")
    }
    return SoftTwin(stream.schema.n_values, stream.schema.n_outputs, [Node(0, Weights())], growth=growth, **p)


def gate_by_name(learner, node):
    """The weights of a gate as the twin has them."""
    weights = learner.state().gates[learner.state().links[node, GATE], WEIGHT]
    place = 0
    dense = 4 * ((sum(n == 0 for n in learner.schema.n_values) + 4) // 4)
    named, nominal = {}, dense
    for f, n in enumerate(learner.schema.n_values):
        if n == 0:
            named[f] = weights[place]
            place += 1
        else:
            named |= {(f, v): weights[nominal + v] for v in range(n)}
            nominal += n
    return named | {BIAS: weights[place]}


def check_node(learner, node, other):
    """Equality of a subtree with the twin's."""
    state = learner.state()
    first = state.links[node, FIRST]
    assert state.weights[node, REACH] == pytest.approx(other.reach, rel=1e-6, abs=1e-9)
    assert (first < 0) == (other.children is None)
    if first < 0:
        assert state.weights[node, SEEN] == pytest.approx(other.seen, rel=1e-9)
        expected = [other.leaf.get(c, 0.0) for c in range(learner.schema.n_outputs)]
        assert state.leaves[node, WEIGHT].tolist() == pytest.approx(expected, abs=1e-5)
        return
    for name, weight in gate_by_name(learner, node).items():
        assert weight == pytest.approx(other.gate.get(name, 0.0), abs=1e-5), name
    for side, child in enumerate(other.children):
        check_node(learner, int(first) + side, child)


def check_scales(learner, other, stream):
    """Equality of the normalisation with the twin's, and of the weights of nominal values with the stream's."""
    seen = [stream.w[stream.x[:, f] == v].sum() for f, n in enumerate(stream.schema.n_values) for v in range(n)]
    assert learner.state().values[0].tolist() == pytest.approx(seen, rel=1e-9)
    for f, scale in enumerate(other.scales):
        expected = [scale.n, scale.mean, scale.variance, scale.size]
        found = learner.state().scales[0, f, [SCALE_N, SCALE_MEAN, SCALE_VARIANCE, SCALE_SIZE]]
        assert found.tolist() == pytest.approx(expected, rel=1e-9)


def check_rows(learner):
    """What holds for the arrays at any time."""
    state = learner.state()
    links = state.links
    for node, link in enumerate(links.tolist()):
        if link[FIRST] >= 0:
            assert link[FIRST] > node
            assert link[BLOCK] == -1
            assert links[link[FIRST] : link[FIRST] + 2, PARENT].tolist() == [node, node]
            assert links[link[FIRST] : link[FIRST] + 2, DEPTH].tolist() == [link[DEPTH] + 1] * 2
        else:
            assert link[GATE] == -1
        if link[BLOCK] >= 0:
            assert state.owners[link[BLOCK]] == node
    inner, with_block = links[links[:, FIRST] >= 0], links[links[:, BLOCK] >= 0]
    assert sorted(inner[:, GATE]) == list(range(len(state.gates)))
    assert sorted(with_block[:, BLOCK]) == list(range(len(state.blocks)))


def compare(stream, delay=0, tolerance=1e-5, **parameters):
    program, other = interleave(stream, delay), twin(stream, **parameters)
    learner, out = in_pieces(lambda: tree(stream, **parameters), program, stream.x)
    expected = played(other, program, stream.x, stream.schema.n_outputs)
    assert out == pytest.approx(expected, abs=tolerance, nan_ok=True)
    check_node(learner, 0, other.trees[0])
    check_scales(learner, other, stream)
    check_rows(learner)
    assert learner.describe()[0]["weight"] == pytest.approx(stream.w.sum(), rel=1e-9)
    return learner


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_equals_twin(mode, task):
    for world in WORLDS if mode == {} else [WORLDS[MODES.index(mode) % 4]]:
        stream = mixed(700, seed=3, **world)
        if task == "regression":
            learner = compare(values(stream), delay=5, tolerance=1e-2, **mode)
        else:
            learner = compare(stream, delay=5, **mode)
        if mode == {}:
            assert learner.size()["n_nodes"] > 7  # or else the test sees little


def with_rare(stream, shares, seed=4):
    """The same rows with labels of which few are not of class 0."""
    return stream._replace(y=np.random.default_rng(seed).choice(len(shares), len(stream.y), p=shares).astype(float))


@pytest.mark.parametrize(
    ("shares", "low", "high"), [([0.9, 0.09, 0.01], 0.3, 0.9), ([0.997, 0.003], 0.2, 0.2), ([0.5, 0.3, 0.2], 1.0, 1.0)]
)
def test_where_a_class_is_rare_steps_are_shorter_as_the_definition_says(shares, low, high):
    stream = with_rare(mixed(700, seed=3), shares)
    learner, other = compare(stream, delay=5), twin(stream)
    known = learner.state().known[0]
    other.known = {c: weight for c, weight in enumerate(known.tolist()) if weight > 0.0}
    assert len(other.known) == len(shares)
    assert low <= other.shorter() <= high
    assert rate_of(learner._models.settings[0], known) == pytest.approx(EAGER["learning_rate"] * other.shorter())


def test_evenness():
    assert evenness(np.zeros(3)) == evenness(np.array([7.0, 0.0, 0.0])) == 1.0
    assert evenness(np.array([4.0, 4.0, 0.0, 4.0])) == pytest.approx(1.0)
    assert evenness(np.array([99.0, 1.0])) == pytest.approx(np.sqrt(2.0 * (1.0 - 0.9802)))
    assert evenness(np.array([1e20, 1.0])) == evenness(np.array([1e300, 1.0])) == 0.0


def values(stream, seed=1):
    """The same rows with targets: what the class says, a linear part, and noise."""
    noise = np.random.default_rng(seed).normal(size=len(stream.y))
    y = 1000.0 + 50.0 * stream.y + 20.0 * np.nan_to_num(stream.x[:, 0]) + 10.0 * noise
    y[len(y) // 2] = 1e6  # a wrong one
    return stream._replace(schema=Schema(stream.schema.n_values, 1, "regression"), y=y)


def random_tree(rng, n_values, depth, k=3, alpha=0.6, n_trees=1):
    """A learner whose trees have random tests, gates, leaves, normalisation and known classes; no step of Adam yet."""
    schema = Schema(n_values, k, "classification")
    learner = SoftTree(schema, depth=depth, n_trees=n_trees, gamma=1.5, beta1=0.0)
    forest = learner.state()
    learner._models.settings[0, S_ALPHA] = alpha
    forest.gates[:, WEIGHT] = rng.normal(0.0, 0.6, forest.gates[:, WEIGHT].shape)
    forest.leaves[:, WEIGHT] = rng.normal(0.0, 1.0, forest.leaves[:, WEIGHT].shape)
    inner = forest.links[:, FIRST] >= 0
    forest.links[inner, FEATURE] = rng.integers(0, len(n_values), inner.sum())
    forest.tests[:, VALUE] = rng.integers(0, 2, len(forest.tests))
    forest.tests[:, SHARE] = 0.3
    forest.scales[0, :, SCALE_MEAN] = rng.normal(size=len(n_values))
    forest.scales[0, :, SCALE_INVERSE] = rng.uniform(0.2, 0.5, len(n_values))
    forest.known[:] = 1.0
    return learner


def loss(learner, x, y, w):
    if learner.schema.task == "regression":
        variance = learner.state().targets[0, 2]
        return 0.5 * w * (learner.predict_many(x)[0, 0] - y[0]) ** 2 / variance
    return -w * np.log(learner.predict_many(x)[0, int(y[0])])


def learned(model, task, n_values, seed, **parameters):
    """A learner that has seen some of a stream."""
    stream = mixed(400, seed=seed, n_values=n_values, missing=0.0)
    stream = values(stream) if task == "regression" else stream
    learner = model(stream.schema, **parameters)
    learner.learn_many(stream.x, stream.y)
    return learner, stream


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (SoftHoeffdingTree, {"alpha": 0.6, "gamma": 1.0, "grace_period": 20, "significance": 1.0}),
        (SoftTree, {"depth": 4, "n_trees": 2, "learning_rate": 0.05}),
    ],
    ids=["soft-hoeffding-tree", "soft-tree"],
)
def test_gradients_by_the_input_equal_finite_differences(model, parameters, task):
    learner, stream = learned(model, task, (0, 3, 0, 0), seed=1, **parameters)
    before = {name: array.tobytes() for name, array in learner.state()._asdict().items()}
    x, y = stream.x[:60].copy(), stream.y[:60]
    x[:, [0, 2, 3]] += 1e-3  # beside the thresholds, which are values that were seen
    x[0, 0] = np.nan
    x[1, 2] = 1e6  # clipped
    at_outputs = learner.loss_gradients(x, y)
    found = learner.input_gradients(x, at_outputs)
    assert found[0, 0] == found[1, 2] == 0.0
    assert not found[:, 1].any()  # nominal
    for i in range(2, 60):
        for f in (0, 2, 3):
            around = []
            for step in (1e-6, -1e-6):
                row = x[i : i + 1].copy()
                row[0, f] += step
                around.append(loss(learner, row, y[i : i + 1], 1.0))
            assert found[i, f] == pytest.approx((around[0] - around[1]) / 2e-6, abs=1e-5)
    assert (np.abs(found[:, [0, 2, 3]]) > 1e-3).sum() > 30  # or else the test sees little
    assert before == {name: array.tobytes() for name, array in learner.state()._asdict().items()}


def test_outputs_are_what_is_predicted():
    for task in ("classification", "regression"):
        learner, stream = learned(SoftHoeffdingTree, task, (0, 3, 0), seed=2, grace_period=20)
        outputs, predicted = learner.outputs(stream.x), learner.predict_many(stream.x)
        if task == "classification":
            odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            assert predicted == pytest.approx(odds / odds.sum(axis=1, keepdims=True))
        else:
            _, mean, variance = learner.state().targets[0]
            assert predicted == pytest.approx(mean + np.sqrt(variance) * outputs)


@pytest.mark.parametrize("seed", range(6))
def test_gradients_equal_finite_differences(seed):
    """With beta1 = 0 the first moment is the gradient of the last label."""
    rng = np.random.default_rng(seed)
    n_values = [(0, 0, 0), (0, 3, 0, 2)][seed % 2]
    learner = random_tree(rng, n_values, depth=4, alpha=[1.0, 0.6, 0.3][seed % 3], n_trees=1 + seed % 2)
    x = np.array([[rng.normal() if n == 0 else rng.integers(0, n) for n in n_values]])
    if seed == 3:
        x[0, 1] = np.nan
    y, w = rng.integers(0, 3, 1).astype(float), 1.7
    forest = learner.state()
    learner._models.settings[0, S_RATE] = 0.0  # weights stay
    before = forest.scales.copy()
    learner.learn_many(x, y, np.array([w]))
    forest.scales[:] = before
    checked = []
    for array in (forest.gates, forest.leaves):
        for i, j in np.ndindex(len(array), array.shape[2]):
            weight, around = array[i, WEIGHT, j], []
            for step in (1e-5, -1e-5):
                array[i, WEIGHT, j] = weight + step
                around.append(loss(learner, x, y, w))
            array[i, WEIGHT, j] = weight
            assert array[i, FIRST_MOMENT, j] == pytest.approx((around[0] - around[1]) / 2e-5, abs=1e-6)
        checked.append((np.abs(array[:, FIRST_MOMENT]) > 1e-3).sum())
    assert min(checked) > 2  # or else the test sees little


@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_soft_trees_equal_twin(task, n_trees):
    stream = mixed(400, seed=1)
    k = 3 if task == "classification" else 1
    schema = Schema(stream.schema.n_values, k, task)
    y = stream.y if k == 3 else 10.0 * stream.y + np.nan_to_num(stream.x[:, 0])
    learner = SoftTree(schema, depth=3, n_trees=n_trees, learning_rate=0.02, seed=7)
    other = SoftTwin(
        schema.n_values, k, [node_of(learner, int(root)) for root in learner.state().roots[0]],
        alpha=1.0, gamma=1.0, learning_rate=0.02, beta1=0.5, beta2=0.999,
    )  # fmt: skip
    program = interleave(stream._replace(y=y), 3)
    out = np.zeros((400, k))
    learner.run(program, stream.x, out)
    assert out == pytest.approx(played(other, program, stream.x, k), abs=1e-4, nan_ok=True)
    for root, tree_of_twin in zip(learner.state().roots[0], other.trees, strict=True):
        check_node(learner, int(root), tree_of_twin)


def node_of(learner, node):
    """A subtree of fixed depth as the twin has it."""
    state = learner.state()
    first = int(state.links[node, FIRST])
    leaf = Weights(enumerate(state.leaves[node, WEIGHT].tolist()))
    other = Node(int(state.links[node, DEPTH]), leaf)
    if first >= 0:
        other.gate = Weights(gate_by_name(learner, node))
        other.children = [node_of(learner, first), node_of(learner, first + 1)]
    return other


def grown(n=1200, seed=5, **parameters):
    stream = mixed(n, seed, n_values=(0, 3, 0), n_classes=2, missing=0.0, drift=False)
    return tree(stream, **parameters), stream


def visited(learner, row):
    """The nodes that a row reaches."""
    learner.predict_many(row[None])
    scratch = learner._models._scratch
    n_inner, n_leaves = scratch.reached
    n = len(scratch.visits.node)
    return scratch.visits.node[[*range(1, 1 + n_inner), *range(n - n_leaves, n)]].tolist()


def test_only_what_is_reached_is_computed():
    learner, stream = grown(alpha=0.5, gamma=0.1)
    learner.learn_many(stream.x, stream.y)
    n_nodes = learner.size()["n_nodes"]
    assert n_nodes > 9
    counts = [len(visited(learner, row)) for row in stream.x[:50]]
    assert max(counts) <= n_nodes
    assert np.mean(counts) < 0.8 * n_nodes
    state = learner.state()
    rows = stream.x[:1]
    nodes = visited(learner, rows[0])
    before = state.leaves.copy(), state.gates.copy()
    learner.learn_many(rows, stream.y[:1])
    moved = {int(n) for n in np.unique(np.nonzero(learner.state().leaves[: len(before[0])] != before[0])[0])}
    assert moved
    assert moved <= set(nodes)


def test_smooth_step():
    assert [smooth_step(u) for u in (-9.0, -0.5, 0.0, 0.5, 9.0)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert [smooth_step_slope(u) for u in (-9.0, -0.5, 0.5, 9.0)] == [0.0, 0.0, 0.0, 0.0]
    assert smooth_step(0.25) == pytest.approx(0.5 + 0.375 - 0.03125)
    for u in np.linspace(-0.49, 0.49, 9):
        numeric = (smooth_step(u + 1e-6) - smooth_step(u - 1e-6)) / 2e-6
        assert smooth_step_slope(u) == pytest.approx(numeric, abs=1e-6)


def test_count_of_important_features():
    of_features = np.array([[6.0, 3.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert count(of_features, 1.0).tolist() == [2, 4, 0]  # Eq. 4
    assert count(of_features, 0.5).tolist() == [1 + 1, 0 + 1, 0 + 1]  # .3, .15, .05 and .5 against .25
    assert count(of_features, 0.8).tolist() == [1, 0, 0]  # the test's .2 is too little


def test_important_features_and_description_agree():
    """Where all rows are typical, |z| = its mean, both count the same."""
    learner = random_tree(np.random.default_rng(1), (0, 0, 0, 0), 3)
    forest = learner.state()
    forest.scales[0, :, SCALE_N] = 1.0
    x = np.random.default_rng(2).normal(size=(1, 4))
    z = np.clip((x - forest.scales[0, :, SCALE_MEAN]) * forest.scales[0, :, SCALE_INVERSE], -3.0, 3.0)
    forest.scales[0, :, SCALE_SIZE] = np.abs(z[0])
    gates = [node["gate"] for node in learner.describe() if "gate" in node]
    assert learner.important_features(x) == pytest.approx(np.mean([g["important"] for g in gates]) / 4)
    for gate in gates:
        assert sum(gate["importance"]) == pytest.approx(1.0)


@pytest.mark.parametrize("learner", [SoftHoeffdingTree, SoftTree])
def test_absurd_weights_do_no_lasting_harm_to_what_is_finite(learner):
    stream = mixed(600, seed=1)
    model = learner(stream.schema)
    model.learn_many(stream.x[:300], stream.y[:300], np.full(300, 1e300))
    model.learn_many(stream.x[300:], stream.y[300:])
    assert np.isfinite(model.predict_many(stream.x)).all()
    assert all(np.isfinite(array).all() for array in model.state()._replace(blocks=np.zeros(0)))


def test_trees_of_too_many_leaves_are_refused():
    with pytest.raises(ValueError, match="300 trees of depth 10 have more than 262,144 leaves"):
        SoftTree(Schema((0,), 2, "classification"), n_trees=300, depth=10)
