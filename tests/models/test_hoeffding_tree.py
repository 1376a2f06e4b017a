"""The Hoeffding tree against its naive twin, by hand, and by its invariants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.contract import LEARN, Program, Schema
from models.hoeffding.nodes import BLOCK, PARENT, SEEN, TEST
from models.hoeffding.split import FEATURE, GINI, HELLINGER, INFO_GAIN, MERIT, SECOND, VALUE, best_split
from models.hoeffding.tree import HoeffdingTree
from models.observers import lay_out
from tests.models.hoeffding_trees import ANYWHERE, PARAMETERS, WORLDS, cuts_and_snapshots, growing, play
from tests.models.naive_hoeffding import HoeffdingTreeTwin
from tests.models.streams_of_instances import interleave, mixed, run_learns, same, snapshot

# Grows a tree of some ten nodes in a few hundred instances.
EAGER = {"grace_period": 20, "delta": 0.1, "tie_threshold": 0.4}


def tree(stream, **parameters):
    return HoeffdingTree(stream.schema, **{**EAGER, **parameters})


def twin(stream, **parameters):
    everything = {**HoeffdingTree(stream.schema).parameters(), **EAGER, **parameters}
    return HoeffdingTreeTwin(stream.schema.n_values, stream.schema.n_outputs, **everything)


def check_equal(learner, other):
    """Structure, tests and leaves exactly; sums over leaves up to rounding."""
    ours, theirs = learner.describe(), other.describe()
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        exact = {"weight", "value"} if "feature" in a else set()
        assert {k: v for k, v in a.items() if k not in exact} == {k: v for k, v in b.items() if k not in exact}
        assert a["weight"] == pytest.approx(b["weight"], rel=1e-12)
        assert a["value"] == pytest.approx(b["value"], rel=1e-12)
    state = learner.state()
    for row, node in zip(state.leaf.tolist(), other.nodes, strict=True):
        assert row == [node.seen, node.evaluated, node.mc_correct, node.nb_correct, node.unobserved][: len(row)]


def check_invariants(learner, weight):
    """Links agree, every block has one owner, nothing leaks, no number is beyond what is used, bounds are kept."""
    state = learner.state()
    links, leaves = state.links, state.links[:, TEST] < 0
    size = learner.size()
    assert size["n_nodes"] == len(links) <= learner.parameters()["max_nodes"]
    assert size["n_leaves"] == leaves.sum()
    assert size["depth"] == max(node["depth"] for node in learner.describe())
    blocks = links[leaves, BLOCK]
    assert sorted(blocks[blocks >= 0]) == list(range(len(state.stats)))
    bounds = learner.parameters()
    assert size["n_leaves"] <= (bounds["max_leaves"] or np.inf)
    assert len(state.stats) == min(size["n_leaves"], bounds["max_active_leaves"] or np.inf)
    assert np.all(links[~leaves, BLOCK] == -1)
    assert np.all(links[1:, PARENT] < np.arange(1, len(links)))
    assert state.leaf[:, SEEN].sum() == pytest.approx(weight, rel=1e-9)
    assert learner.describe()[0]["weight"] == pytest.approx(weight, rel=1e-9)
    assert np.all(state.weights >= 0.0)
    nodes = {node["id"]: node for node in learner.describe()}
    for node in nodes.values():
        if "feature" in node:
            children = node["children"]
            children = children if isinstance(children, list) else list(children.values())
            assert node["default"] in children
            assert len(set(children)) == len(children) >= 2
            assert all(nodes[child]["parent"] == node["id"] for child in children)
            assert all(nodes[child]["depth"] == node["depth"] + 1 for child in children)
            own = state.leaf[node["id"], SEEN]
            assert node["weight"] == pytest.approx(own + sum(nodes[c]["weight"] for c in children))
    # A block holds what its leaf saw, feature by feature, unless values were missing.
    for node in np.flatnonzero(links[:, BLOCK] >= 0):
        first = state.stats[links[node, BLOCK], : learner.schema.n_outputs]
        assert first.sum() <= state.leaf[node, SEEN] * (1 + 1e-9) + 1e-9


# Instances: hypothesis likes small numbers, of which no tree grows.
SIZES = [250, 400, 100, 300, 30, 1]
MODES = [
    {},
    {"leaf_prediction": "mc"},
    {"leaf_prediction": "nb", "binary_splits": True},
    {"split_criterion": "gini"},
    {"split_criterion": "gini", "binary_splits": True, "leaf_prediction": "mc"},
    {"max_nodes": 9},
    {"max_depth": 2, "n_split_points": 3, "min_branch_fraction": 0.2},
    {"delta": 1e-7, "tie_threshold": 0.0},
    {"observer": "histogram", "n_bins": 8},
    {"observer": "histogram", "n_bins": 3, "split_criterion": "hellinger", "max_leaves": 6},
    {"split_criterion": "hellinger", "binary_splits": True, "leaf_prediction": "mc", "max_active_leaves": 1},
    {"observer": "histogram", "n_bins": 40, "max_active_leaves": 3},
    {"max_active_leaves": 4, "grace_period": 8},
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: str(w["n_values"]))
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("delay", [0, 5])
def test_equals_twin(world, mode, delay):
    stream = mixed(900, seed=3, **world)
    program = interleave(stream, delay)
    learner, other = tree(stream, **mode), twin(stream, **mode)
    out = np.zeros((len(stream.y), stream.schema.n_outputs))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)
    check_invariants(learner, stream.w.sum())
    if mode in ({}, {"leaf_prediction": "mc"}):
        assert learner.size()["n_nodes"] > 5  # or else the test sees little


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    n=st.sampled_from(SIZES),
    parameters=st.fixed_dictionaries(
        {
            **PARAMETERS,
            "observer": st.sampled_from(["gaussian", "histogram"]),
            "n_bins": st.sampled_from([3, 5, 20, 300]),
            "max_leaves": st.sampled_from([None, None, None, 1, 4]),
            "max_active_leaves": st.sampled_from([None, None, 1, 2, 5]),
        }
    ),
    **ANYWHERE,
)
def test_equals_twin_anywhere(seed, n, n_values, n_classes, missing, weights, delay, parameters):
    stream = mixed(n, seed, n_values=n_values, n_classes=n_classes, missing=missing, weights=weights)
    program = interleave(stream, delay)
    learner, other = tree(stream, **parameters), twin(stream, **parameters)
    out = np.zeros((n, n_classes))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)
    check_invariants(learner, stream.w.sum())


test_cuts_and_snapshots_do_not_matter = cuts_and_snapshots(tree, SIZES, MODES)
test_growing_equals_having_had_the_room = growing(tree, SIZES, MODES)


def candidate(n_values, rows, y, criterion=INFO_GAIN, binary=False, points=10, share=0.01, bins=0, n_classes=2):
    """The best split of a leaf that saw these rows."""
    schema = Schema(n_values, n_classes, "classification")
    learner = HoeffdingTree(schema, grace_period=10**9, observer="histogram" if bins else "gaussian", n_bins=bins or 64)
    learner.learn_many(rows, y)
    post, found = np.zeros((10, n_classes)), np.zeros(4)
    stats, layout = learner.state().stats, lay_out(schema, bins)[0]
    best_split(stats, layout, 0, n_classes, float(len(y)), points, binary, criterion, share, post, found)
    return found


def test_nominal_split_by_hand():
    # 4 of class 0 at values 0 and 1, 4 of class 1 at values 1 and 2: 1 bit before, and after it half is undecided.
    x, y = [[0]] * 2 + [[1]] * 2 + [[1]] * 2 + [[2]] * 2, [0] * 4 + [1] * 4
    found = candidate((3,), x, y)
    assert found[[FEATURE, MERIT, SECOND]] == pytest.approx([0, 0.5, 0.0])
    found = candidate((3,), x, y, criterion=GINI)
    assert found[[FEATURE, MERIT]] == pytest.approx([0, 0.25])
    # against the rest: value 0 leaves 2 of class 0 and 4 of class 1 undecided; value 2 is as good, the first wins
    found = candidate((3,), x, y, binary=True)
    rest = -(2 / 6) * math.log2(2 / 6) - (4 / 6) * math.log2(4 / 6)
    assert found == pytest.approx([0, 0, 1.0 - 6 / 8 * rest, 0.0])


def test_numeric_split_by_hand():
    # ranges 0..1 and 10..11 do not overlap: thresholds between them separate perfectly, the least of them is taken
    x = [[0.0], [1.0], [10.0], [11.0]]
    found = candidate((0,), x, [0, 0, 1, 1])
    assert found[[FEATURE, VALUE, MERIT]] == pytest.approx([0, 1.0, 1.0])
    # one threshold, in the middle of two equal Gaussians with means 1 and 2: Phi(+-0.5 / deviation) of each on a side
    x = [[0.0], [1.0], [2.0], [1.0], [2.0], [3.0]]
    found = candidate((0,), x, [0, 0, 0, 1, 1, 1], points=1)
    p = 0.5 * (1 + math.erf(0.5 / math.sqrt(2.0)))
    assert found[[VALUE, MERIT]] == pytest.approx([1.5, 1 + p * math.log2(p) + (1 - p) * math.log2(1 - p)])


def test_histogram_split_by_hand():
    # class 1 in the middle, where a Gaussian cannot see an edge: 3 of 4 below or at 2 are pure, 0.8113 bits in the rest
    x = [[0.0], [1.0], [2.0], [2.0], [5.0], [6.0], [6.0], [7.0]]
    found = candidate((0,), x, [0, 0, 0, 0, 1, 1, 1, 0], bins=64)
    rest = -(1 / 4) * math.log2(1 / 4) - (3 / 4) * math.log2(3 / 4)
    before = -(3 / 8) * math.log2(3 / 8) - (5 / 8) * math.log2(5 / 8)
    assert found == pytest.approx([0, 2.0, before - rest / 2, 0.0])
    # nothing is lost when keys become one: counts up to every key are those of the stream
    values = np.random.default_rng(3).normal(size=500)
    found = candidate((0,), values[:, None], (values > 0.3).astype(float), bins=10)
    assert found[VALUE] in values
    assert found[MERIT] == pytest.approx(gain_of(values, values > 0.3, found[VALUE]), rel=1e-12)


def gain_of(values, y, threshold):
    """Information gain of a threshold, from the rows themselves."""

    def bits(part):
        shares = [share for share in (part.mean(), 1 - part.mean()) if share > 0.0]
        return -sum(share * math.log2(share) for share in shares)

    up = values <= threshold
    return bits(y) - up.mean() * bits(y[up]) - (~up).mean() * bits(y[~up])


def test_hellinger_distance_by_hand():
    # shares over the two branches: class 0 all left; class 1 a quarter left
    x, y = [[0]] * 4 + [[0]] + [[1]] * 3, [0] * 4 + [1] * 4
    distance = math.sqrt((1.0 - math.sqrt(1 / 4)) ** 2 + (3 / 4))
    found = candidate((2,), x, y, criterion=HELLINGER)
    assert found[MERIT] == pytest.approx(distance)
    # how frequent a class is does not matter
    assert candidate((2,), x[:4] * 25 + x[4:], [0] * 100 + [1] * 4, criterion=HELLINGER)[MERIT] == pytest.approx(
        distance
    )
    # full separation: sqrt(2), and for one of three classes as well
    x, y = [[0], [0], [1], [2]], [0, 1, 2, 2]
    assert candidate((3,), x[1:], y[1:], criterion=HELLINGER, n_classes=3)[MERIT] == pytest.approx(math.sqrt(2.0))
    assert candidate((3,), x, y, criterion=HELLINGER, n_classes=3)[MERIT] == pytest.approx(math.sqrt(2.0))
    assert candidate((2,), [[0], [1]], [0, 0], criterion=HELLINGER)[FEATURE] == -1.0


def test_no_split_is_a_candidate():
    x, y = [[0], [0], [1], [1]], [0, 1, 0, 1]
    assert candidate((2,), x, y)[FEATURE] == -1.0  # gains nothing
    assert candidate((0,), [[1.0]] * 4, y)[FEATURE] == -1.0  # a constant cannot be split
    assert candidate((2,), x[:2], y[:2])[FEATURE] == -1.0  # one branch only


def test_missing_values_lessen_the_merit():
    x = [[0, 0], [0, 0], [1, 1], [1, 1], [np.nan, 0], [np.nan, 0], [np.nan, 1], [np.nan, 1]]
    found = candidate((2, 2), x, [0, 0, 1, 1] * 2)
    assert found == pytest.approx([1, 0, 1.0, 0.5])  # feature 0 separates as well, but half of it is missing


def test_light_branches_are_no_branches():
    x, y = [[0]] * 99 + [[1]], [0] * 99 + [1]
    assert candidate((2,), x, y, share=0.001)[FEATURE] == 0.0
    assert candidate((2,), x, y, share=0.02)[FEATURE] == -1.0


def test_the_bound_decides():
    """One separating feature: merit 1 bit, second best 0; the leaf splits once sqrt(log(1 / delta) / 2n) < 1."""
    for delta in (1e-3, 1e-7, 1e-20):
        learner = HoeffdingTree(Schema((2,), 2, "classification"), grace_period=1, delta=delta, tie_threshold=0.0)
        n = 0
        while learner.size()["n_nodes"] == 1:
            learner.learn_many([[n % 2]], [n % 2])
            n += 1
        assert n == math.ceil(math.log(1.0 / delta) / 2.0)


def test_ties_are_split_at_the_threshold():
    """Two equal features: no difference ever, so the tie threshold decides."""
    learner = HoeffdingTree(Schema((2, 2), 2, "classification"), grace_period=1, delta=1e-3, tie_threshold=0.5)
    n = 0
    while learner.size()["n_nodes"] == 1:
        learner.learn_many([[n % 2, n % 2]], [n % 2])
        n += 1
    assert n == math.floor(math.log(1e3) / 2.0 / 0.5**2) + 1
    assert learner.describe()[0]["feature"] == 0


def grown(binary=False):
    """A root that tests nominal feature 0, of which values 0 (light) and 2 (heavy) were seen."""
    learner = HoeffdingTree(
        Schema((5, 0), 2, "classification"), grace_period=30, binary_splits=binary, leaf_prediction="mc"
    )
    learner.learn_many([[0, 0.0]] * 10 + [[2, 0.0]] * 20, [0] * 10 + [1] * 20)
    assert learner.size() == {"n_nodes": 3, "n_leaves": 2, "depth": 1}
    return learner


def test_unseen_values_get_a_branch_when_learned():
    learner = grown()
    assert learner.describe()[0]["children"] == {0: 1, 2: 2}
    before = snapshot(learner)
    for value in (1.0, 3.0, 4.0, np.nan):  # the way of the heaviest
        assert learner.predict_many([[value, 0.0]])[0].tolist() == [0.0, 1.0]
    assert same(snapshot(learner), before)
    learner.learn_many([[4, 0.0]], [0])
    learner.learn_many([[1, 0.0]], [0])
    assert learner.describe()[0]["children"] == {0: 1, 1: 4, 2: 2, 4: 3}
    assert learner.predict_many([[4, 0.0], [1, 0.0]]).tolist() == [[1.0, 0.0]] * 2
    learner.learn_many([[np.nan, 0.0]], [0])
    assert learner.describe()[2]["value"] == [1.0, 20.0]
    check_invariants(learner, 33.0)


def test_an_unseen_value_opens_its_branch_right_after_its_prediction():
    learner = grown()
    program = Program(
        np.array([0, 1, 0], np.int8), np.array([0, 0, 1], np.int32), np.array([np.nan, 0.0, np.nan]), np.ones(3)
    )
    out = np.zeros((2, 2))
    learner.run(program, np.array([[4.0, 0.0], [4.0, 0.0]]), out)
    assert out.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert learner.describe()[0]["children"] == {0: 1, 2: 2, 4: 3}


def test_maps_of_values_move_and_leave_zeros():
    n = 40
    learner = HoeffdingTree(Schema((n,), 2, "classification"), grace_period=30, leaf_prediction="mc")
    learner.learn_many([[0]] * 10 + [[1]] * 20, [0] * 10 + [1] * 20)
    for value in range(2, n):
        learner.learn_many([[value]], [value % 2])
    learner.learn_many([[0]], [0])
    assert learner.size()["n_nodes"] == n + 1
    assert learner.describe()[0]["children"] == {value: value + 1 for value in range(n)}
    assert learner.predict_many([[v] for v in range(2, n)])[:, 0].tolist() == [1.0, 0.0] * (n // 2 - 1)
    # Maps of 2, 4, 8, 16, 32 and 64 places: all but the last one are left behind, zeroed.
    assert learner.state().child_of_value.tolist() == [0] * 62 + list(range(1, n + 1)) + [-1] * (64 - n)


def test_a_new_value_is_news_to_all_leaves():
    """Laplace's estimate knows how many values there are: learning one in a leaf moves the predictions of another."""
    learner = HoeffdingTree(Schema((2, 5), 2, "classification"), grace_period=40, leaf_prediction="nb")
    x = [[0, 0], [0, 1], [1, 0], [1, 1]] * 20
    learner.learn_many(x, [0, 0, 1, 1] * 20)
    learner.learn_many([[0, 0], [0, 1], [0, 0], [1, 0]], [0, 0, 1, 0])
    before = learner.predict_many([[0, 0]])[0]
    learner.learn_many([[1, 4]], [1])
    after = learner.predict_many([[0, 0]])[0]
    resumed = HoeffdingTree(Schema((2, 5), 2, "classification"), **learner.parameters())
    resumed.restore(snapshot(learner))
    assert after.tolist() == resumed.predict_many([[0, 0]])[0].tolist()
    assert after.tolist() != before.tolist()


def test_unseen_values_share_a_branch_at_the_bound():
    learner = HoeffdingTree(Schema((5,), 2, "classification"), grace_period=30, max_nodes=3, leaf_prediction="mc")
    learner.learn_many([[0]] * 10 + [[2]] * 20, [0] * 10 + [1] * 20)
    learner.learn_many([[4]] * 5, [0] * 5)
    assert learner.size()["n_nodes"] == 3
    assert learner.describe()[2]["value"] == [5.0, 20.0]


def test_no_more_leaves_than_allowed():
    stream = mixed(3000, seed=6)
    learner = tree(stream, max_leaves=8, binary_splits=True)
    learner.learn_many(stream.x, stream.y)
    assert learner.size()["n_leaves"] == 8
    assert learner.size()["n_nodes"] == 15
    # a new value has no branch at the bound, as at max_nodes
    learner = HoeffdingTree(Schema((5,), 2, "classification"), grace_period=30, max_leaves=2, leaf_prediction="mc")
    learner.learn_many([[0]] * 10 + [[2]] * 20 + [[4]] * 5, [0] * 10 + [1] * 20 + [0] * 5)
    assert learner.size()["n_leaves"] == 2
    assert learner.describe()[2]["value"] == [5.0, 20.0]


def test_the_poorest_leaf_is_deactivated_until_it_promises_more():
    """Value 0: 30 % are not of the majority, value 1: none, then half."""
    learner = HoeffdingTree(
        Schema((2, 0), 2, "classification"), grace_period=100, max_active_leaves=1, delta=0.5, max_depth=1
    )
    rng = np.random.default_rng(2)

    def learn(value, share, n):
        y = (np.arange(n) % 10 < 10 * share).astype(float)
        learner.learn_many(np.column_stack([np.full(n, float(value)), rng.normal(y, 0.1)]), 1.0 - y if value else y)

    for _ in range(10):
        learn(0, 0.3, 10)
        learn(1, 0.0, 10)
    learn(0, 0.3, 10)
    assert "active" not in learner.describe()[1]
    poor = learner.describe()[2]
    assert (poor["active"], poor["predictor"]) == (False, "mc")
    assert learner.predict_many([[1.0, 0.0]]).tolist() == [[p / sum(poor["value"]) for p in poor["value"]]]
    assert len(learner.state().stats) == 1
    learn(1, 0.5, 50)
    assert learner.describe()[2]["active"] is False  # its grace period has not ended
    learn(1, 0.5, 200)
    assert "active" not in learner.describe()[2]
    assert learner.describe()[1]["active"] is False
    check_invariants(learner, 460.0)
    # it observes from then on: a clear feature makes naive Bayes right
    learn(1, 0.5, 100)
    assert learner.describe()[2]["predictor"] == "nb"
    assert learner.predict_many([[1.0, 0.0], [1.0, 1.0]]).argmax(axis=1).tolist() == [1, 0]


def test_codes_beyond_the_capacity_are_missing():
    for binary in (False, True):
        learner = grown(binary)
        for value in (-1.0, 5.0, 1e9, np.inf):
            run_learns(learner, np.array([[value, 0.0]]), [0.0])
        assert learner.size()["n_nodes"] == 3
        check_invariants(learner, 34.0)


def test_binary_test_of_a_nominal_feature():
    root, equal, rest = grown(binary=True).describe()
    assert root["feature"] == 0
    assert root["equals"] == 0
    assert root["children"] == [1, 2]
    assert (equal["value"], rest["value"]) == ([10.0, 0.0], [0.0, 20.0])


def test_labels_and_weights_that_teach_nothing():
    learner = grown()
    before = snapshot(learner)
    for y, w in ((np.nan, 1.0), (-1.0, 1.0), (2.0, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, np.nan), (0.0, np.inf)):
        run_learns(learner, np.array([[4, 0.0]]), [y], [w])
    assert same(snapshot(learner), before)


def test_adaptive_leaves_take_what_was_right_more_often():
    rng = np.random.default_rng(1)
    y = (rng.random(2000) < 0.3).astype(float)
    informative = rng.normal(3.0 * y, 1.0)
    x = np.column_stack([informative, rng.normal(size=2000)])
    learner = HoeffdingTree(Schema((0, 0), 2, "classification"), max_nodes=1)
    learner.learn_many(x, y)
    assert learner.describe()[0]["predictor"] == "nb"
    # A mixture that Gaussians cannot tell apart: naive Bayes is wrong where the majority is right.
    x = np.where(y == 1.0, 0.0, rng.choice([-1.0, 1.0], 2000))[:, None] + rng.normal(0.0, 3.0, (2000, 6))
    y[:] = rng.random(2000) < 0.3
    learner = HoeffdingTree(Schema((0,) * 6, 2, "classification"), max_nodes=1)
    learner.learn_many(x, y)
    assert learner.describe()[0]["predictor"] == "mc"
    assert learner.predict_many(x[:1])[0].tolist() == [1.0 - y.mean(), y.mean()]


def test_cold_leaves_keep_their_bytes():
    """Learning in one leaf changes no other's row: what a checkpoint cuts into chunks stays the same."""
    stream = mixed(2000, seed=5, missing=0.0)
    learner = tree(stream, max_nodes=20)
    learner.learn_many(stream.x, stream.y)
    before = snapshot(learner)
    learner.learn_many(stream.x[:1], stream.y[:1])
    after = snapshot(learner)
    for name in ("stats", "leaf", "weights"):
        assert np.any(before[name] != after[name], axis=1).sum() == 1
    for name in ("links", "test", "child_of_value", "values", "n_values"):
        assert before[name].tobytes() == after[name].tobytes()


def test_state_does_not_grow_beyond_what_is_used():
    stream = mixed(3000, seed=6)
    learner = tree(stream)
    learner.learn_many(stream.x, stream.y)
    state = learner.state()
    assert len(state.links) == len(state.test) == len(state.weights) == len(state.leaf) == learner.size()["n_nodes"]
    assert len(state.stats) == learner.size()["n_leaves"]
    assert learner.n_bytes == sum(array.nbytes for array in state)


def test_repeated_rows_do_not_reuse_an_old_score():
    """Predict r, learn s, learn r: the second label meets another state than the prediction did."""
    stream = mixed(300, seed=7)
    steps = []
    for i in range(0, 300, 2):
        steps += [(0, i), (1, i + 1), (1, i), (1, i)]
    op, row = (np.array(column) for column in zip(*steps, strict=True))
    y = np.where(op == LEARN, stream.y[row], np.nan)
    program = Program(op.astype(np.int8), row.astype(np.int32), y, np.ones(len(op)))
    learner, other = tree(stream), twin(stream)
    out = np.zeros((300, 3))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grace_period", 0),
        ("delta", 0.0),
        ("delta", 1.5),
        ("delta", float("nan")),
        ("tie_threshold", -1.0),
        ("split_criterion", "entropy"),
        ("leaf_prediction", "nbc"),
        ("n_split_points", 0),
        ("min_branch_fraction", 0.6),
        ("max_nodes", 0),
        ("max_depth", -1),
        ("observer", "quantiles"),
        ("n_bins", 2),
        ("max_leaves", 0),
        ("max_active_leaves", 0),
    ],
)
def test_parameters_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"parameter '{name}'"):
        HoeffdingTree(Schema((0,), 2, "classification"), **{name: value})


def test_classification_only():
    with pytest.raises(ValueError, match="classification"):
        HoeffdingTree(Schema((0,), 1, "regression"))
