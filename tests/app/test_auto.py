"""`model: auto`: what it stands for follows from the stream file, fits its budget, and stays what a state has."""

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from app.cli.check import command
from app.cli.worker import remarks
from app.errors import SpecError, StateError
from app.partition.changes import reconcile
from app.partition.learner import PartitionLearner
from app.stream_file import spec as spec_module
from app.stream_file.reference import json_schema
from app.stream_file.spec import Spec, build
from models import auto
from models.auto import Resolved, resolve
from models.contract import Schema
from models.registry import REGISTRY, create, validate
from tests.models.contract.worlds import learn, rows

STREAM: dict[str, Any] = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "b": {"type": "nominal", "values": ["x", "y", "z"]}, "c": "boolean"},
    "classes": ["n", "y"],
}
WIDE = [0] * 60 + [4] * 60


def test_a_stream_without_a_champion_has_a_forest_and_what_to_hold_it_against() -> None:
    spec = build(STREAM)
    assert {role: name for role, (name, _) in spec.models().items()} == {
        "champion": "adaptive-random-forest",
        "tree": "hoeffding-adaptive-tree",
        "naive-bayes": "naive-bayes",
        "last-label": "last-label",
    }
    assert spec.models() == build({**STREAM, "champion": "auto"}).models()
    assert spec.on_drift() == dict.fromkeys(spec.models(), "alert")
    found = resolve("classification", [0, 3, 2], 2, {})
    assert spec.resolved() == found
    expected = validate(found.model, "classification", found.parameters)
    assert spec.models()["champion"] == (found.model, expected)
    PartitionLearner(spec)


def test_challengers_that_are_named_are_the_only_ones() -> None:
    assert list(build({**STREAM, "challengers": {}}).models()) == ["champion"]
    assert list(build({**STREAM, "challengers": {"nb": "naive-bayes"}}).models()) == ["champion", "nb"]
    named = build({**STREAM, "champion": "naive-bayes"})
    assert list(named.models()) == ["champion"]
    assert named.resolved() is None


@pytest.mark.parametrize("task", ["classification", "regression", "multi-instance"])
def test_everything_that_is_chosen_exists_and_does_the_task(task: str) -> None:
    n_classes = 1 if task == "regression" else 2
    found = resolve(task, [0, 0], n_classes, {})
    assert validate(found.model, task, found.parameters)
    chosen = {role: validate(name, task, {}) for role, name in auto.challengers(task, found.model).items()}
    assert chosen
    assert found.model == ("stochastic-gradient-tree" if task == "multi-instance" else "adaptive-random-forest")
    fields = {**STREAM, "task": task}
    if task == "regression":
        del fields["classes"]
    assert list(build(fields).models()) == ["champion", *chosen]


@pytest.mark.parametrize(
    ("n_values", "n_classes", "budget", "expected"),
    [
        ([0] * 8, 2, {}, ("adaptive-random-forest", 10)),
        ([0] * 8, 2, {"max_microseconds": 100}, ("adaptive-random-forest", 25)),
        ([0] * 8, 2, {"max_microseconds": "10"}, ("adaptive-random-forest", 5)),
        ([0] * 8, 2, {"max_microseconds": 3}, ("hoeffding-adaptive-tree", None)),
        ([0] * 16, 10, {}, ("adaptive-random-forest", 10)),
        (WIDE, 20, {"max_microseconds": 15}, ("adaptive-random-forest", 3)),
        (WIDE, 20, {"max_bytes": 10_000_000}, ("adaptive-random-forest", 5)),
        (WIDE, 20, {"max_bytes": 10_000_000, "max_microseconds": 10}, ("hoeffding-adaptive-tree", None)),
    ],
)
def test_a_budget_decides_how_many_trees(n_values: Any, n_classes: int, budget: Any, expected: Any) -> None:
    found = resolve("classification", n_values, n_classes, budget)
    assert (found.model, found.parameters.get("n_models")) == expected
    assert found.n_bytes <= int(budget.get("max_bytes", 64_000_000))
    if found.model == auto.FOREST:
        assert found.microseconds <= float(budget.get("max_microseconds", 25))
    smaller = resolve("classification", n_values, n_classes, {**budget, "max_bytes": found.n_bytes - 1})
    assert smaller.n_bytes < found.n_bytes


def of_codes(n: int, n_values: list[int], n_classes: int) -> tuple[Any, Any]:
    """Rows of nominal features and numbers, whose class or value follows the first feature and the first number."""
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.integers(k, size=n) if k else rng.random(n) for k in n_values]).astype(float)
    y = x[:, 0] + np.floor(2.0 * x[:, n_values.index(0)])
    return x, y % n_classes if n_classes > 1 else y


@pytest.mark.parametrize("n_values", [[0, 0, 4, 0, 2], [12, 30, 0, 3]], ids=["numeric", "nominal"])
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("model", ["forest", "single"])
def test_a_model_at_its_bound_takes_no_more_than_was_reckoned(task: str, model: str, n_values: list[int]) -> None:
    n_classes = 3 if task == "classification" else 1
    budget = {"max_bytes": 2_000_000, "max_microseconds": 25 if model == "forest" else 2}
    found = resolve(task, n_values, n_classes, budget)
    small = {**found.parameters, "max_nodes": 31}
    if model == "forest":
        assert found.model == "adaptive-random-forest"
        small["n_models"] = 3
    learner = create(found.model, Schema(tuple(n_values), n_classes, task), **small, grace_period=50, tie_threshold=0.5)
    learn(learner, *(of_codes(6000, n_values, n_classes) if n_values[0] else rows(6000, task)))
    d = len(n_values)
    looked_at = int(auto.SHARE * d) + 1 if model == "forest" else d
    n_trees = 3 if model == "forest" else 1
    node_bytes = auto.NODE_BYTES if model == "forest" else auto.SINGLE[task].node_bytes
    most = auto.SLOTS * n_trees * auto.tree_bytes(task, n_values, looked_at, n_classes, 31, node_bytes)
    assert learner.size()["n_nodes"] > 20 * n_trees
    assert most / 6 < learner.n_bytes <= most


def test_what_is_not_named_is_reckoned_as_ten() -> None:
    named = {**STREAM, "classes": [str(i) for i in range(10)]}
    named["features"] = {"a": "numeric", "b": {"type": "nominal", "values": list(range(10))}}
    learned = {**named, "features": {"a": "numeric", "b": "nominal"}}
    del learned["classes"]
    assert build(learned).resolved() == build(named).resolved()
    few = build({**learned, "max_classes": 3}).resolved()
    assert few is not None
    assert few.n_bytes != build(named).resolved().n_bytes  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"champion": {"model": "auto", "max_byte": 5}},
            "champion: model 'auto' has no parameter 'max_byte': did you m",
        ),
        (
            {"champion": {"model": "auto", "max_bytes": 5}},
            "champion: parameter 'max_bytes' of model 'auto' is 5: give a",
        ),
        ({"challengers": {"b": "auto"}}, 'challengers.b: expected a model, found "auto", which only a champion can be'),
        (
            {"features": {f"f{i}": "numeric" for i in range(200)}, "champion": {"model": "auto", "max_bytes": 100_000}},
            "champion: max_bytes is 100,000, and a tree of 31 nodes takes 576,000: raise it",
        ),
    ],
)
def test_mistakes_are_one_sentence(fields: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        build({**STREAM, **fields})
    assert message in str(caught.value)


def fold(spec: Spec) -> PartitionLearner:
    learner = PartitionLearner(spec)
    learner.roles["champion"].model.learn_many([[0.0, 1.0, 0.0], [1.0, 2.0, 1.0]], [0, 1])
    return learner


def test_a_state_keeps_what_was_chosen_by_the_same_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = build({**STREAM, "champion": {"model": "auto", "max_microseconds": 10}, "challengers": {}})
    before = fold(spec)
    cut = before.snapshot()
    later = Resolved("adaptive-random-forest", {"n_models": 3, "max_nodes": 63}, 1, 1.0)
    monkeypatch.setattr(auto, "resolve", lambda *_: later)
    newer = build({**STREAM, "champion": {"model": "auto", "max_microseconds": 10}, "challengers": {}})
    assert newer.models() != spec.models()
    assert PartitionLearner(newer).roles["champion"].model.parameters()["n_models"] == 3
    known = [None if v is None else v.state() for v in before.vocabularies]
    assert not reconcile(newer, cut.meta, known).found
    learner = PartitionLearner(newer)
    assert learner.restore(cut) == []
    assert learner.digest() == before.digest()
    assert learner.spec.models() == spec.models()
    assert learner.snapshot().meta["auto"] == {"max_microseconds": 10}
    other = build({**STREAM, "champion": {"model": "auto", "max_microseconds": 11}, "challengers": {}})
    with pytest.raises(StateError, match=r"champion was adaptive-random-forest .*, is adaptive-random-forest"):
        PartitionLearner(other).restore(cut)


def test_a_state_of_a_named_champion_says_nothing_of_auto() -> None:
    assert "auto" not in fold(build({**STREAM, "champion": "naive-bayes"})).snapshot().meta
    spec = build({**STREAM, "challengers": {}})
    name, parameters = spec.models()["champion"]
    named = build({**STREAM, "champion": {"model": name, **parameters}, "challengers": {}})
    cut = fold(spec).snapshot()
    learner = PartitionLearner(named)
    learner.restore(cut)  # writing down what was chosen keeps the state
    assert learner.digest() == fold(named).digest()


def test_check_says_what_it_is(tmp_path: Any) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: s\ntask: regression\nfeatures: {a: numeric}\n")
    said = CliRunner().invoke(command, [str(file)]).output
    found = resolve("regression", [0], 1, {})
    assert f"champion: auto is adaptive-random-forest, estimated to take {found.n_bytes / 1e6:.1f} MB and" in said
    told = json.loads(CliRunner().invoke(command, ["--json", str(file)]).output)
    assert told["auto"] == found._asdict()
    assert told["models"]["champion"]["parameters"]["max_nodes"] == found.parameters["max_nodes"]


def test_the_schema_knows_auto() -> None:
    champion = json_schema()["properties"]["champion"]
    assert champion["default"] == "auto"
    assert set(champion["anyOf"][1]["properties"]) == {"model", "on_drift", "max_bytes", "max_microseconds"}
    assert "champion" not in json_schema()["required"]
    assert set(auto.SINGLE) == {"classification", "regression", "multi-instance"}
    assert "auto" not in REGISTRY
    assert spec_module.AUTO == auto.AUTO
    assert np.all(np.diff(auto.NODES) < 0)


def test_a_worker_says_what_auto_is_and_what_is_slow() -> None:
    spec = build({**STREAM, "trust": ["code", "pickles"], "challengers": {"theirs": "external", "nb": "naive-bayes"}})
    assert remarks(spec) == [
        "champion: auto is adaptive-random-forest; riparian check tells its size",
        "theirs (external) is slow: it learns in Python, an instance at a time, and the champion waits for it",
    ]
    assert remarks(build({**STREAM, "champion": "naive-bayes"})) == []
