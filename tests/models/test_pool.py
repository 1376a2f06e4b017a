"""The model pool against its naive twin, its two ways against each other, and what its candidates may be."""

import numpy as np
import pytest

import riparian.models.soft.model_pool
from riparian.models.contract import Schema
from riparian.models.kernels.randomness import below, seeded
from riparian.models.registry import create, validate
from riparian.models.soft.candidates import parse
from riparian.models.soft.model_pool import ModelPool
from tests.models.naive_pool import PoolTwin
from tests.models.streams_of_instances import interleave, mixed, played

SOFT = "alpha=0.2,0.9; learning_rate=0.02,0.1; grace_period=20; tie_threshold=0.4; max_depth=3"
POOLS = [
    ("classification", {"candidates": SOFT}),
    ("classification", {"candidates": SOFT, "learning_share": 0.3, "n_explored": 1, "fading": 0.9}),
    ("classification", {"of": "soft-tree", "candidates": "depth=0,2,3; n_trees=2; learning_rate=0.05"}),
    ("regression", {"of": "soft-tree", "candidates": "depth=0,2,3; learning_rate=0.05,0.2", "n_explored": 1}),
]


class One:
    """A learner of the registry as the twin takes it."""

    def __init__(self, learner):
        self.learner = learner

    def predict(self, x):
        return self.learner.predict_many(np.array([x]))[0].tolist()

    def learn(self, x, y, w):
        self.learner.learn_many(np.array([x]), np.array([y]), np.array([w]))


def world(task, n=500):
    stream = mixed(n, seed=2, weights="fractions")
    if task == "regression":
        y = 5.0 * stream.y + np.nan_to_num(stream.x[:, 0])
        y[n // 2] = 1e6  # a wrong one
        return stream._replace(schema=Schema(stream.schema.n_values, 1, task), y=y)
    return stream


def twin(pool, seed):
    schema, p = pool.schema, pool.parameters()
    n = len(pool._candidates)
    n_learning = int(np.ceil(p["learning_share"] * n))
    alone = [One(create(pool._of, schema, seed=seed, **candidate)) for candidate in pool._candidates]
    random = seeded(seed)
    n_explored = min(p["n_explored"], n_learning - 1)
    return PoolTwin(alone, schema.n_outputs, n_learning, n_explored, p["fading"], lambda m: int(below(random, m)))


@pytest.mark.parametrize(("task", "parameters"), POOLS)
@pytest.mark.parametrize("delay", [0, 7])
def test_both_ways_equal_the_twin(task, parameters, delay, monkeypatch):
    """Bit for bit: the kernel over stacked arrays, the candidates one by one, and the twin over learners."""
    stream = world(task)
    program = interleave(stream, delay)
    expected = played(twin(ModelPool(stream.schema, **parameters), seed=3), program, stream.x, stream.schema.n_outputs)
    learners = []
    for stacked in (True, False):
        if not stacked:
            monkeypatch.setattr(riparian.models.soft.model_pool, "stackable", lambda *_: False)
        learner, out = ModelPool(stream.schema, seed=3, **parameters), np.zeros(expected.shape)
        assert (learner._models is not None) == stacked
        learner.run(program, stream.x, out)
        assert out.tobytes() == expected.tobytes()
        learners.append(learner)
    first, second = learners
    assert first.describe()[: len(first._candidates) + 1] == second.describe()[: len(first._candidates) + 1]
    assert first.size() == second.size()
    assert first._pool.learned.tolist() == second._pool.learned.tolist()
    n_labels = int(first._pool.state[1])
    assert n_labels == (stream.w > 0.0).sum() > first._pool.learned.min() > 100


def test_around_any_model():
    stream = mixed(600, seed=4)
    pool = ModelPool(
        stream.schema, of="hoeffding-tree", candidates="grace_period=50,1000; leaf_prediction=mc,nb", n_explored=1
    )
    program = interleave(stream, 3)
    out = np.zeros((600, 3))
    expected = played(twin(pool, seed=0), program, stream.x, 3)
    pool.run(program, stream.x, out)
    assert out.tobytes() == expected.tobytes()
    nodes = pool.describe()
    ids = {node["id"] for node in nodes}
    assert len(ids) == len(nodes)
    for node in nodes:
        children = node.get("children", [])
        below_it = children.values() if isinstance(children, dict) else children
        assert {*below_it, node.get("default", 0)} <= ids


def test_combinations():
    assert parse("a=1,2; b = x , y") == [{"a": a, "b": b} for a in "12" for b in "xy"]
    assert parse("a=1;") == [{"a": "1"}]
    assert parse("") == [{}]


@pytest.mark.parametrize(
    ("task", "given", "message"),
    [
        ("classification", {"of": "soft-hoeffding"}, "parameter 'of' of model 'model-pool': unknown model 'soft-hoeff"),
        ("classification", {"of": "fimt-dd"}, "parameter 'of' of model 'model-pool': model 'fimt-dd' does not"),
        ("classification", {"of": "model-pool"}, "a pool holds no pools"),
        ("classification", {"of": "naive-bayes"}, "'candidates' of model 'model-pool' is 'auto', and naive-bayes has"),
        ("classification", {"candidates": "alpha"}, "'alpha' is not a parameter with values: write for instance"),
        ("classification", {"candidates": "alpha=0.1,"}, "'alpha=0.1,' is not a parameter with values"),
        ("classification", {"candidates": "alpha=0.1; alpha=0.2"}, "'alpha' comes twice"),
        ("classification", {"candidates": "alpha=0.1,0.1"}, "'alpha=0.1,0.1' has a value twice"),
        ("classification", {"candidates": "alhpa=0.1"}, "has no parameter 'alhpa': did you mean 'alpha'?"),
        ("classification", {"candidates": "alpha=2"}, "'alpha' of model 'soft-hoeffding-tree' is '2': give"),
        (
            "classification",
            {"candidates": "beta1=" + ",".join(f"0.{i}1" for i in range(101))},
            "101 combinations: give",
        ),
    ],
)
def test_errors_name_the_parameter_and_the_cure(task, given, message):
    with pytest.raises(ValueError) as caught:
        validate("model-pool", task, given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
