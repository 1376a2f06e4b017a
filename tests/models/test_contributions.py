"""What features add to predictions, against a twin that walks through the nodes that models describe."""

import importlib

import numpy as np
import pytest

from models.contract import Schema
from models.opinion_pool.contributions import add_opinions, to_pooled
from models.registry import create
from models.score_contributions import to_probability
from tests.models import naive_contributions
from tests.models.contract.worlds import rows, schema_of
from tests.models.naive_contributions import contributions, roots

GROWS = {"grace_period": 50, "delta": 0.05}
LEAVES = {"classification": {"leaf_prediction": "mc"}, "regression": {"leaf_prediction": "mean"}}
TREES = [
    ("hoeffding-tree", "classification", {}),
    ("hoeffding-tree", "classification", {"binary_splits": False}),
    ("hoeffding-adaptive-tree", "classification", {}),
    ("extremely-fast-decision-tree", "classification", {"binary_splits": False}),
    ("fimt-dd", "regression", {}),
    ("hoeffding-regression-tree", "regression", {}),
]
FORESTS = [
    ("online-bagging", "classification", {"n_models": 3}),
    ("online-bagging", "regression", {"n_models": 3}),
    ("leveraging-bagging", "classification", {"n_models": 3}),
    ("online-boosting", "classification", {"n_models": 3}),
    ("adaptive-random-forest", "classification", {"n_models": 3, "vote": "weighted"}),
    ("adaptive-random-forest", "regression", {"n_models": 3, "vote": "weighted"}),
    ("streaming-random-patches", "classification", {"n_models": 3}),
    ("streaming-random-patches", "regression", {"n_models": 3}),
]
SDT, SDF, SGT, SHRUBS = (
    "streaming-decision-tree",
    "streaming-decision-forest",
    "stochastic-gradient-tree",
    "shrub-ensemble",
)
STREAMING = [
    (SDT, {}),
    (SDF, {"n_trees": 5, "vote": "average"}),
    (SDF, {"n_trees": 5, "leaf_values": "overwrite", "window": 0, "bootstrap": True, "vote": "average"}),
    (SDF, {"n_trees": 5}),
]
SMALL = {"window": 200, "n_trees": 6}
SHRUB_CASES = [
    ("classification", {**SMALL}),
    ("classification", {**SMALL, "n_windows": 1, "splits": "best", "train_share": 0.5, "max_depth": 4}),
    ("classification", {**SMALL, "weighting": "equal"}),
    ("regression", {**SMALL}),
    ("regression", {**SMALL, "n_windows": 1, "max_features": "subspace"}),
]
EAGER = {"delta": 0.2, "node_cost": 0.0}
BOOSTED = {"preset": "boosted", "n_stages": 3, **EAGER}
GRADIENT = [
    ("classification", {**EAGER}),
    ("classification", {**EAGER, "linear_rate": 0.0, "multiway": True}),
    ("classification", {**EAGER, "preset": "paper", "grace_period": 50}),
    ("classification", {**EAGER, "outputs": "one-tree"}),
    ("classification", {**BOOSTED}),
    ("classification", {**BOOSTED, "outputs": "one-tree", "linear_rate": 0.0}),
    ("regression", {**EAGER}),
    ("regression", {**BOOSTED, "loss": "huber"}),
    ("regression", {**EAGER, "loss": "poisson"}),
]
OTHERS = [
    *((name, "classification", parameters) for name, parameters in STREAMING),
    *((SHRUBS, *case) for case in SHRUB_CASES),
    *((SGT, *case) for case in GRADIENT),
    ("mondrian-forest", "classification", {"n_trees": 3}),
    ("mondrian-forest", "classification", {"n_trees": 3, "aggregation": False}),
    ("mondrian-forest", "regression", {"n_trees": 3}),
]


def grown(name, task, parameters, n=3000):
    own = {}
    if (name, task, parameters) not in OTHERS:
        own = {**GROWS, **LEAVES["classification" if "n_models" in parameters else task]}
    learner = create(name, schema_of(task), seed=1, **own, **parameters)
    x, y = rows(n, task)
    if parameters.get("loss") == "poisson":
        y = np.round(np.exp(y / 15.0))
    learner.learn_many(x, y)
    return learner


def asked(learner, x):
    """What was predicted, what it is asked about, and what the model says."""
    said = learner.predict_many(x)
    about = np.full(len(x), -1) if said.shape[1] == 1 else said.argmax(axis=1)
    told = learner.contributions(x, np.arange(len(x), dtype=np.int32), about)
    return said[np.arange(len(x)), np.maximum(about, 0)], about, told


@pytest.mark.parametrize(("name", "task", "parameters"), TREES)
def test_contributions_equal_their_twin_and_add_up(name, task, parameters):
    learner = grown(name, task, parameters)
    x = rows(200, task, seed=5)[0]
    said, about, told = asked(learner, x)
    nodes = learner.describe()
    expected = [contributions(nodes, 0, row, c) for row, c in zip(x.tolist(), about.tolist(), strict=True)]
    np.testing.assert_allclose(told[:, :-1], [added for added, _ in expected], atol=1e-9)
    np.testing.assert_allclose(told[:, -1], [begin for _, begin in expected], rtol=1e-9)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=1e-9, atol=1e-12)
    assert (np.abs(told[:, :-1]).max(axis=0) > 0.0).sum() >= 2


@pytest.mark.parametrize(("name", "task", "parameters"), FORESTS)
def test_contributions_of_a_forest_are_those_of_its_trees(name, task, parameters):
    learner = grown(name, task, parameters)
    x = rows(100, task, seed=5)[0]
    said, about, told = asked(learner, x)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=1e-9, atol=1e-12)
    if parameters.get("vote") or "boosting" in name or "patches" in name:
        return  # its weights are its own: the sum says that they are these
    nodes, expected = learner.describe(), []
    for row, c in zip(x.tolist(), about.tolist(), strict=True):
        expected.append(np.mean([contributions(nodes, root, row, c)[0] for root in roots(nodes)], axis=0))
    np.testing.assert_allclose(told[:, :-1], expected, atol=1e-9)


@pytest.mark.parametrize(("name", "task", "parameters"), OTHERS)
def test_nothing_is_left_where_leaves_say_no_more_than_their_values(name, task, parameters):
    learner = grown(name, task, parameters)
    x = rows(200, task, seed=5)[0]
    said, _, told = asked(learner, x)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=1e-9, atol=1e-10)
    assert (np.abs(told[:, :-1]).max(axis=0) > 0.0).sum() >= 2
    if task == "classification":  # what is added to all classes is nothing together
        row = np.arange(200, dtype=np.int32)
        total = sum(learner.contributions(x, row, np.full(200, c)) for c in range(3))
        np.testing.assert_allclose(total[:, :-1], 0.0, atol=1e-9)
        np.testing.assert_allclose(total[:, -1], 1.0, rtol=1e-9)


@pytest.mark.parametrize(("name", "parameters"), STREAMING)
def test_contributions_of_a_streaming_forest_equal_their_twin(name, parameters):
    learner = grown(name, "classification", parameters)
    x = rows(100, "classification", seed=5)[0]
    _, about, told = asked(learner, x)
    nodes = learner.describe()
    majority = learner.parameters().get("vote") == "majority"
    of_tree = naive_contributions.votes if majority else contributions
    for row, c, found in zip(x.tolist(), about.tolist(), told, strict=True):
        trees = [of_tree(nodes, root, row, c) for root in roots(nodes)]
        expected = np.mean([[*added, begin] for added, begin in trees], axis=0)
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(("task", "parameters"), SHRUB_CASES)
def test_contributions_of_shrubs_equal_their_twin(task, parameters):
    learner = grown(SHRUBS, task, parameters)
    x = rows(100, task, seed=5)[0]
    _, about, told = asked(learner, x)
    nodes = learner.describe()
    trees = [node for node in nodes if node.get("part") == "tree"]
    assert len(trees) > 3
    for row, c, found in zip(x.tolist(), about.tolist(), told, strict=True):
        expected = np.zeros(len(row) + 1)
        for root in trees:
            added, begin = naive_contributions.contributions_of_window(nodes, root["id"], row, c)
            expected += root["share"] * np.array([*added, begin])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("task", "parameters"), GRADIENT)
def test_contributions_of_gradient_trees_equal_their_twin(task, parameters):
    learner = grown(SGT, task, parameters)
    x = rows(60, task, seed=5)[0]
    _, about, told = asked(learner, x)
    nodes, state, n_outputs = learner.describe(), learner.state(), learner.schema.n_outputs
    whole = learner._effective
    shrinkage = whole["shrinkage"] if whole["n_stages"] > 1 else 1.0
    centre, spread = state.target[3:5] if task == "regression" else (0.0, 1.0)
    unscored = [node for node in nodes[1:] if "unit" not in node]  # of a single tree, in units of the target
    for node in unscored:
        node["value"] = [(node["value"][0] - centre) / spread]
    n_inner = 0
    for row, c, found in zip(x.tolist(), about.tolist(), told, strict=True):
        deviations = []
        for f, value in enumerate(row):
            weight, mean, squares = state.scales[f] if len(state.scales) else (0.0, 0.0, 0.0)
            known = learner.schema.n_values[f] == 0 and squares > 0.0 and value == value
            deviations.append(min(max((value - mean) / np.sqrt(squares / weight), -3.0), 3.0) if known else 0.0)
        added = naive_contributions.scores(
            nodes, row, deviations, n_outputs, shrinkage, parameters.get("outputs") == "one-tree"
        )
        n_inner += sum("children" in node for node in nodes)
        if task == "classification":
            features, begin = naive_contributions.by_score(added, c)
        elif parameters.get("loss") == "poisson":
            change = sum(one[0] for one in added[:-1])
            begin, end = np.exp(centre + added[-1][0]), np.exp(centre + added[-1][0] + change)
            features = [one[0] * (end - begin) / change if change else 0.0 for one in added[:-1]]
        else:
            features, begin = [spread * one[0] for one in added[:-1]], centre + spread * added[-1][0]
        np.testing.assert_allclose(found, [*features, begin], rtol=1e-7, atol=1e-9)
    assert n_inner > 0


@pytest.mark.parametrize(("name", "family"), [(SGT, "gradient"), ("random-forest", "batch")])
def test_kernels_run_before_there_is_a_model(name, family, monkeypatch):
    """Whoever warms up has them compiled, and the stream does not wait for it."""
    module, calls = importlib.import_module(f"models.{family}.contributions"), []
    monkeypatch.setattr(module, "contribute", lambda *given: calls.append(given))
    learner = create(name, Schema((0, 3), 2, "classification"))
    learner.contributions(np.zeros((1, 2)), np.zeros(1, np.int32), np.zeros(1, np.int64))
    assert len(calls) == 1


def test_of_two_classes_probability_is_shared_out_as_the_score_is():
    learner = create(SGT, schema_of("classification", n_classes=2), seed=1, **EAGER)
    x, y = rows(3000, "regression")
    learner.learn_many(x, (y > 0.0).astype(float))
    others = rows(50, "regression", seed=5)[0]
    row = np.arange(50, dtype=np.int32)
    one, other = (learner.contributions(others, row, np.full(50, c))[:, :-1] for c in (0, 1))
    np.testing.assert_allclose(one, -other, atol=1e-12)
    assert np.abs(other).max() > 0.2


@pytest.mark.parametrize("seed", range(3))
def test_from_scores_to_probabilities(seed):
    """Of small changes the derivative, of any the sum; a change of all scores alike is none, nor is the unknown's."""
    rng = np.random.default_rng(seed)
    known, before, after, out = np.ones(4), np.zeros(4), np.zeros(4), np.zeros(6)
    known[2] = 0.0
    for size in (1e-7, 1.0, 400.0):
        added = size * rng.normal(size=(6, 4))
        added[5] = rng.normal(size=4)
        added[4] = 3.0
        for about in (0, 1, 3):
            out[:] = 0.0
            to_probability(added, known, about, before, after, out)
            p, q = np.zeros(4), np.zeros(4)
            seen = [0, 1, 3]
            p[seen] = naive_contributions.probabilities(added[5, seen].tolist())
            q[seen] = naive_contributions.probabilities(added[:, seen].sum(axis=0).tolist())
            assert out.sum() == pytest.approx(q[about], rel=1e-9, abs=1e-12)
            assert out[5] == pytest.approx(p[about])
            assert out[4] == pytest.approx(0.0, abs=1e-12)
            if size < 1.0:
                slope = p[about] * (added[:5, about] - added[:5] @ p)
                np.testing.assert_allclose(out[:5], slope, rtol=1e-5, atol=1e-13)
    out[:] = 0.0
    to_probability(added, known, 2, before, after, out)
    assert not out.any()


@pytest.mark.parametrize("name", ["mondrian-forest", SDF, SGT, SHRUBS])
def test_forty_classes_two_features_one_class_and_no_split(name):
    rng = np.random.default_rng(1)
    x = rng.random((1500, 2))
    y = np.floor(40.0 * x[:, 0])
    row = np.arange(1500, dtype=np.int32)
    many, one = (create(name, Schema((0, 0), 40, "classification"), seed=1) for _ in range(2))
    many.learn_many(x, y)
    said, _, told = asked(many, x)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=1e-9, atol=1e-10)
    assert np.abs(told[:, 0]).mean() > np.abs(told[:, 1]).mean()
    one.learn_many(x, np.full(1500, 7.0))
    told = one.contributions(x, row, np.full(1500, 7))
    np.testing.assert_allclose(told[:, :2], 0.0, atol=1e-9)
    np.testing.assert_allclose(told[:, 2], 1.0, rtol=1e-9)
    told = one.contributions(x, row, np.full(1500, 3))  # which nobody has seen
    np.testing.assert_allclose(told, 0.0, atol=1e-9)
    none = create(name, Schema((0, 0), 2, "classification"), seed=1)
    none.learn_many(np.full((40, 2), 0.5), np.arange(40) % 2)
    said, _, told = asked(none, x[:3])
    assert not told[:, :2].any()
    np.testing.assert_allclose(told[:, 2], said, rtol=1e-9)


@pytest.mark.parametrize(
    ("task", "pool"), [("classification", "linear"), ("classification", "leader"), ("regression", "linear")]
)
def test_contributions_of_a_pool_are_those_of_its_members_by_their_weights(task, pool):
    trees = {
        "classification": {"a": "hoeffding-tree", "b": "extremely-fast-decision-tree"},
        "regression": {"a": "fimt-dd", "b": "hoeffding-regression-tree"},
    }[task]
    own = {name: {"model": model, **LEAVES[task], **GROWS} for name, model in trees.items()}
    learner = create("opinion-pool", schema_of(task), seed=1, members=own, pool=pool)
    x, y = rows(1500, task)
    learner.learn_many(x, y)
    others = rows(50, task, seed=5)[0]
    said, about, told = asked(learner, others)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=0.02 if pool == "linear" else 1e-9)
    if pool == "linear":
        share = np.array(list(learner.weights.values())) / sum(learner.weights.values())
        row = np.arange(50, dtype=np.int32)
        parts = [member.contributions(others, row, about) for member in learner.members.values()]
        np.testing.assert_allclose(told, share[0] * parts[0] + share[1] * parts[1], atol=1e-12)


SAYING = {
    "tree": {"model": "hoeffding-tree", **LEAVES["classification"], **GROWS},
    "mondrian": {"model": "mondrian-forest", "n_trees": 3},
    "gradient": {"model": SGT, **EAGER},
}
BESIDES = {"bayes": {"model": "hoeffding-tree", **GROWS}, "last": "last-label"}  # leaves some; says nothing


@pytest.mark.parametrize("floor", [0.01, 0.2])
@pytest.mark.parametrize("members", [SAYING, SAYING | BESIDES], ids=["all-say", "some-say"])
def test_contributions_of_a_logarithmic_pool_equal_their_twin_and_add_up(members, floor):
    learner = create("opinion-pool", schema_of("classification"), seed=1, members=members, floor=floor)
    learned, labels = rows(1500, "classification")
    learner.learn_many(learned, labels)
    x = rows(12, "classification", seed=5)[0]
    said, about, told = asked(learner, x)
    counts = np.bincount(labels.astype(np.int64), minlength=learner.schema.n_outputs)
    floors = [max(floor**2, floor * (n + 1) / (counts.max() + 1)) for n in counts.tolist()]
    row, k = np.arange(12, dtype=np.int32), learner.schema.n_outputs
    each = []
    for name, member in learner.members.items():
        found = [member.contributions(x, row, np.full(12, c)) for c in range(k)] if member.tells_why else None
        each.append((learner.weights[name], member.predict_many(x), found))
    for i, c in enumerate(about.tolist()):
        of_row = [
            (weight, votes[i].tolist(), found and [(one[i, :-1].tolist(), one[i, -1]) for one in found])
            for weight, votes, found in each
        ]
        (*features, left), begin = naive_contributions.of_pool(of_row, floors, c)
        np.testing.assert_allclose(told[i], [*features, begin], rtol=1e-3, atol=2e-4)
        assert told[i].sum() + left == pytest.approx(said[i], abs=2e-4)
    if members is SAYING:
        np.testing.assert_allclose(told.sum(axis=1), said, rtol=1e-9)
    total = sum(learner.contributions(x, row, np.full(12, c)) for c in range(k))
    np.testing.assert_allclose(total[:, :-1], 0.0, atol=1e-12)
    one_by_one = [learner.contributions(x, row[i : i + 1], about[i : i + 1]) for i in range(12)]
    assert told.tobytes() == np.concatenate(one_by_one).tobytes()


@pytest.mark.parametrize("rest", [0.0, 1e-17, 6e-17, -1e-12])
def test_features_that_cancel_out_still_count_in_a_logarithmic_pool(rest):
    """Then the way from where a member begins to its vote is a matter of rounding, and its quotient still 1 / p."""
    found = np.array([[0.2, -0.2, 0.3], [-0.2, 0.2, 0.7]])
    votes = np.array([[0.3 + rest, 0.7 - rest]])
    scores, known, told, out = np.zeros((1, 4, 2)), np.zeros((1, 2)), np.zeros(1, np.bool_), np.zeros((1, 3))
    whole = np.zeros(4)
    add_opinions(found, votes, 1.0, np.full(2, 0.01), scores, known, told)
    to_pooled(scores, known, told, np.zeros(1, np.int64), np.zeros(2), np.zeros(2), whole, out)
    np.testing.assert_allclose(whole, [0.2, -0.2, 0.0, 0.3], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(out[0], [0.2, -0.2, 0.3], rtol=1e-9, atol=1e-11)


def test_who_has_learned_nothing_says_so_and_who_cannot_say_it():
    x, about = np.zeros((2, 2)), np.zeros(2, np.int64)
    row = np.arange(2, dtype=np.int32)
    for name in ("hoeffding-tree", "extremely-fast-decision-tree", "online-bagging"):
        told = create(name, Schema((0, 0), 2, "classification")).contributions(x, row, about)
        assert np.isnan(told[:, -1]).all()
        assert not told[:, :-1].any()
    schema = Schema((0, 0), 1, "regression")
    assert np.isnan(create("fimt-dd", schema).contributions(x, row, about - 1)[:, -1]).all()
    assert not create("online-bagging", Schema((0, 0), 2, "classification"), vote="majority").tells_why
    with pytest.raises(NotImplementedError, match="last-label does not say"):
        create("last-label", schema).contributions(x, row, about)
