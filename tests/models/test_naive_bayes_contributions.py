"""What naive Bayes, alone and in the leaves of trees, adds to contributions, against a twin that goes small steps."""

import numpy as np
import pytest

from models.contract import Schema
from models.hoeffding.adaptive import HoeffdingAdaptiveTree
from models.hoeffding.error_window import WIDTH
from models.hoeffding.subspace_tree import SubspaceTree
from models.registry import create
from models.score_contributions import to_probability
from tests.models import naive_contributions
from tests.models.naive_efdt import EfdtTwin
from tests.models.naive_forests import SubspaceTreeTwin
from tests.models.naive_hat import HatTwin
from tests.models.naive_hoeffding import HoeffdingTreeTwin, NaiveBayesTwin
from tests.models.streams_of_instances import mixed

GROWS = {"grace_period": 40, "delta": 0.2}
BINS = {"observer": "histogram", "n_bins": 12}
CASES = [
    ("naive-bayes", NaiveBayesTwin, {}),
    ("hoeffding-tree", HoeffdingTreeTwin, {**GROWS}),
    ("hoeffding-tree", HoeffdingTreeTwin, {**GROWS, "leaf_prediction": "nb", "binary_splits": False}),
    ("hoeffding-tree", HoeffdingTreeTwin, {**GROWS, **BINS}),
    ("hoeffding-tree", HoeffdingTreeTwin, {**GROWS, "max_active_leaves": 3}),
    ("hoeffding-adaptive-tree", HatTwin, {**GROWS, "alternate_trees": False}),
    ("extremely-fast-decision-tree", EfdtTwin, {**GROWS, "leaf_prediction": "nb"}),
    ("extremely-fast-decision-tree", EfdtTwin, {**GROWS, **BINS}),
    ("subspace-tree", SubspaceTreeTwin, {**GROWS, "leaf_prediction": "nb", "n_chosen": 2}),
    ("subspace-tree", SubspaceTreeTwin, {**GROWS, **BINS, "n_chosen": 2, "per_leaf": False}),
]
WORLDS = {
    "mixed": {"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3},
    "two features": {"n_values": (0, 0), "n_classes": 2, "missing": 0.0},
    "forty classes": {"n_values": (0, 0, 4), "n_classes": 40},
    "light": {"n_values": (4, 0, 6), "n_classes": 4, "weights": "fractions"},
    "mostly missing": {"n_values": (0, 3, 0), "n_classes": 2, "missing": 0.8},
}
ASKED = 25


def learner_of(name, schema, parameters):
    if name == "subspace-tree":
        return SubspaceTree(schema, seed=7, **parameters)
    return create(name, schema, seed=7, **parameters)


def expected(learner, twin, row, about):
    """What features add, where it begins, and what is left, by the twins: on the way down, and from there on."""
    row = row.tolist()
    if isinstance(twin, NaiveBayesTwin):
        total = sum(twin.weights.values())
        *added, left = naive_contributions.of_naive_bayes(twin.weights, twin.observers, row, twin.known, about)
        return [*added, twin.weights.get(about, 0.0) / total, left]
    added, begin = naive_contributions.contributions(learner.describe(), 0, row, about)
    leaf = twin.leaf(row, learning=False)
    mode, left = learner.parameters()["leaf_prediction"], 0.0
    if leaf.observers is not None and (mode == "nb" or leaf.nb_correct >= leaf.mc_correct):
        *more, left = naive_contributions.of_naive_bayes(leaf.weights, leaf.observers, row, twin.known, about)
        added = [a + b for a, b in zip(added, more, strict=True)]
    return [*added, begin, left]


def added_up(learner, x, exactly=True):
    """What is told of the likeliest class. It adds up to the prediction, whichever class is asked about, but for what
    classes lose that were not seen; and what is added to all classes together is nothing."""
    said, row = learner.predict_many(x), np.arange(len(x), dtype=np.int32)
    k = said.shape[1]
    told = learner.contributions(x, np.repeat(row, k), np.tile(np.arange(k), len(x)))
    assert np.all(np.isfinite(told))
    if exactly:
        np.testing.assert_allclose(told.sum(axis=1).reshape(-1, k), said, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(told.reshape(len(x), k, -1).sum(axis=1)[:, :-1], 0.0, atol=1e-9)
    about = said.argmax(axis=1)
    assert told[row * k + about].tobytes() == learner.contributions(x, row, about).tobytes()
    return told[row * k + about]


@pytest.mark.parametrize("world", list(WORLDS))
@pytest.mark.parametrize(("name", "of_twin", "parameters"), CASES)
def test_contributions_equal_their_twin_and_add_up(name, of_twin, parameters, world):
    stream = mixed(400, seed=3, **WORLDS[world])
    learner = learner_of(name, stream.schema, parameters)
    whole, own = learner.parameters(), {}
    if name == "subspace-tree":
        own = {"seed": 7, "n_chosen": whole.pop("n_chosen"), "per_leaf": whole.pop("per_leaf")}
    twin = of_twin(stream.schema.n_values, stream.schema.n_outputs, **own, **whole)
    learner.learn_many(stream.x, stream.y, stream.w)
    for x, y, w in zip(stream.x.tolist(), stream.y.tolist(), stream.w.tolist(), strict=True):
        twin.learn(x, y, w)
    x, row = mixed(ASKED, seed=4, **WORLDS[world]).x, np.arange(ASKED, dtype=np.int32)
    told, said = added_up(learner, x, exactly=False), learner.predict_many(x)
    about, n_exact = said.argmax(axis=1), 0
    for c in (0, 1):  # the likeliest, and one that is not
        asked = (about + c) % stream.schema.n_outputs
        found = learner.contributions(x, row, asked)
        twins = [expected(learner, twin, of_row, one) for of_row, one in zip(x, asked.tolist(), strict=True)]
        np.testing.assert_allclose(found, np.array(twins)[:, :-1], rtol=1e-3, atol=1e-3)
        left = said[row, asked] - found.sum(axis=1)
        for one, of_twin_left in zip(left.tolist(), [one[-1] for one in twins], strict=True):
            assert one == pytest.approx(of_twin_left, abs=1e-3 if of_twin_left else 1e-9)
            n_exact += not of_twin_left
    assert n_exact > ASKED // 5 or world == "forty classes"
    assert (np.abs(told[:, :-1]).max(axis=0) > 0.0).sum() >= 2


def test_each_feature_alone_tells_its_likelihood():
    """By brute force, of the model alone: a missing value is left out, so of one value alone the rest follows."""
    stream = mixed(500, seed=1, n_values=(0, 3, 0, 5), n_classes=2)
    learner = create("naive-bayes", stream.schema)
    learner.learn_many(stream.x, stream.y)
    x = mixed(50, seed=2, n_values=(0, 3, 0, 5), n_classes=2).x
    log_odds = np.zeros((50, 5))
    for f in range(5):
        alone = np.full_like(x, np.nan)
        alone[:, f : f + 1] = x[:, f : f + 1]
        log_odds[:, f] = np.subtract(*np.log(learner.predict_many(alone)).T)
    added = log_odds[:, :4] - log_odds[:, 4:]
    said = learner.predict_many(x)[:, 0]
    told = learner.contributions(x, np.arange(50, dtype=np.int32), np.zeros(50, np.int64))
    slope = (said - told[:, -1]) / added.sum(axis=1)  # of two classes it is in proportion
    np.testing.assert_allclose(told[:, :-1], slope[:, None] * added, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_ruled_out_is_the_limit_of_ever_lower_scores(seed):
    rng = np.random.default_rng(seed)
    added, known = rng.normal(size=(6, 5)), np.ones(5)
    known[4] = 0.0
    lower = added.copy()
    for f, c in ((0, 1), (3, 1), (3, 2))[seed == 0 :]:
        added[f, c], lower[f, c] = -np.inf, -1e12
    for c in range(5):
        found, limit = np.zeros(6), np.zeros(6)
        to_probability(added, known, c, np.zeros(5), np.zeros(5), found)
        to_probability(lower, known, c, np.zeros(5), np.zeros(5), limit)
        np.testing.assert_allclose(found, limit, atol=1e-9)
        begin = np.exp(added[5, :4]) / np.exp(added[5, :4]).sum()
        end = np.exp(added[:, :4].sum(axis=0)) / np.exp(added[:, :4].sum(axis=0)).sum()
        if c < 4:
            assert found.sum() == pytest.approx(end[c], abs=1e-12)
            assert found[5] == pytest.approx(begin[c])
    to_probability(added, known, 1, np.zeros(5), np.zeros(5), found := np.zeros(6))
    share = begin[1] * np.array([[0.0, 1.0], [0.5, 0.5]][seed > 0])
    np.testing.assert_allclose(found, [-share[0], 0.0, 0.0, -share[1], 0.0, begin[1]], atol=1e-12)


@pytest.mark.parametrize("parameters", [{}, BINS], ids=["gaussian", "histogram"])
@pytest.mark.parametrize("name", ["naive-bayes", "hoeffding-tree", "subspace-tree", "extremely-fast-decision-tree"])
def test_odd_worlds(name, parameters):
    if name == "naive-bayes" and parameters:
        pytest.skip("it has no histograms")
    parameters = {} if name == "naive-bayes" else {"leaf_prediction": "nb", **GROWS, **parameters}
    rng = np.random.default_rng(1)
    schema = Schema((0, 0, 3), 3, "classification")
    x = np.column_stack([rng.normal(size=300), np.full(300, 7.0), rng.integers(0, 2, 300)])
    y = (x[:, 0] > 0.0).astype(float)
    asked = np.vstack([x[:20], [[0.1, 8.0, 1.0]], [[np.nan] * 3], [[np.inf, 7.0, 2.0]], [[1e9, 7.0, 2.0]]])

    def fresh():
        return learner_of(name, schema, parameters)

    nothing = fresh().contributions(asked, np.arange(24, dtype=np.int32), np.zeros(24, np.int64))
    assert np.isnan(nothing[:, -1]).all()
    assert not nothing[:, :-1].any()
    two = fresh()  # of three classes; a constant column says nothing, and where it has another value all are ruled out
    two.learn_many(x, y)
    told = added_up(two, asked)
    np.testing.assert_allclose(told[:20, 1], 0.0, atol=1e-12)
    one = fresh()
    one.learn_many(x, np.full(300, 2.0))
    np.testing.assert_allclose(added_up(one, asked), [[0.0, 0.0, 0.0, 1.0]] * 24, atol=1e-12)
    light = fresh()
    light.learn_many(x, y, np.full(300, 0.001))
    added_up(light, asked)
    rare = fresh()  # a class of one instance has likelihood 1 there, and 0 elsewhere
    rare.learn_many(np.vstack([x, [[0.5, 7.0, 0.0]]]), np.append(y, 2.0))
    told = added_up(rare, np.vstack([asked, [[0.5, 7.0, 0.0]]]))
    assert np.abs(told[:, 0]).max() > 0.1


def test_members_with_naive_bayes_in_their_leaves_leave_nothing_in_a_pool():
    members = {
        "tree": {"model": "hoeffding-tree", "max_depth": 0},
        "patches": {"model": "streaming-random-patches", "n_models": 3, "max_depth": 0},
        "bayes": "naive-bayes",
    }
    stream = mixed(600, seed=3)
    x = mixed(30, seed=4).x
    for pool in ("logarithmic", "leader"):
        learner = create("opinion-pool", stream.schema, seed=1, members=members, pool=pool)
        learner.learn_many(stream.x, stream.y)
        added_up(learner, x)


def contributions_of(nodes, root, row, about):
    """Their twin, as learners write it; children by branches."""
    lists = [{**node, "children": list(node["children"].values())} if "threshold" in node or "equals" in node else node
             for node in nodes]  # fmt: skip
    added, begin = naive_contributions.contributions(lists, root, row, about)
    return [*added, begin]


def as_it_predicts(learner):
    """The nodes, with alternate trees that predict early in the places of the nodes beside which they grow."""
    nodes = {node["id"]: node for node in learner.describe()}

    def instead(i):
        beside = nodes[i].get("alternate")
        if beside is None or not learner.parameters()["early_prediction"] or learner._windows[beside, WIDTH] <= 10:
            return i
        errs = nodes[beside].get("error_rate", 0.0) < nodes[i].get("error_rate", 0.0)
        return instead(beside) if errs else i

    for node in list(nodes.values()):
        if "children" in node:
            children = node["children"]
            places = children.items() if isinstance(children, dict) else enumerate(children)
            node["children"] = {place: instead(child) for place, child in places}
            node["default"] = instead(node["default"])
    return list(nodes.values()), instead(0)


@pytest.mark.parametrize("leaf_prediction", ["mc", "nba"])
@pytest.mark.parametrize("early", [True, False])
def test_an_alternate_tree_that_predicts_is_on_the_way(leaf_prediction, early):
    stream = mixed(900, seed=1)
    eager = {"drift_delta": 0.5, "switch_delta": 1e-6, "least_window": 300, "early_prediction": early}
    learner = HoeffdingAdaptiveTree(
        stream.schema, seed=7, leaf_prediction=leaf_prediction, grace_period=20, delta=0.3, tie_threshold=0.3, **eager
    )
    x = mixed(30, seed=4).x
    n_beside = 0
    for start in range(0, 900, 60):
        learner.learn_many(stream.x[start : start + 60], stream.y[start : start + 60])
        told = added_up(learner, x, exactly=leaf_prediction == "mc")
        nodes, root = as_it_predicts(learner)
        n_beside += root != 0
        if leaf_prediction == "mc":
            about = learner.predict_many(x).argmax(axis=1).tolist()
            twins = [contributions_of(nodes, root, row, c) for row, c in zip(x.tolist(), about, strict=True)]
            np.testing.assert_allclose(told, twins, atol=1e-9)
    assert n_beside > 3 or not early
