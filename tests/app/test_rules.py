"""Soft trees and pools as people see them: rules in words, candidates by their parameters."""

import json

import numpy as np
import pytest

from riparian.app import inspection, rules
from riparian.app.page import models
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import Piece, Release
from riparian.app.state import loading
from riparian.app.stream_file.spec import Spec, loads
from riparian.topics.records import RawBatch
from tests.app.test_inspection import orchard
from tests.golden.make import items_of

STREAM = """
name: orchard
task: classification
partitions: 2
learning: partition
features: {size: numeric, colour: nominal, ripe: boolean}
champion: {model: soft-hoeffding-tree, max_depth: 2}
challengers:
  pool: {model: model-pool, candidates: "alpha=0.3,1; max_depth=2"}
  pair: {model: soft-tree, n_trees: 2, depth: 1}
"""
GATE = {
    "alpha": 0.7,
    "bias": -0.1,
    "weights": [
        {"feature": "size", "weight": -4.0},
        {"feature": "colour", "equals": "blue", "weight": 1.5},
        *({"feature": f"x{i}", "weight": 0.01 * i} for i in range(4)),
    ],
    "importance": {"size": 0.7, "colour": 0.3, "x0": 0.0},
    "important": 1,
}


@pytest.fixture(scope="module")
def spec() -> Spec:
    return loads(STREAM)


@pytest.fixture(scope="module")
def state(spec: Spec) -> loading.State:
    learner = PartitionLearner(spec, 1)
    values = [json.dumps(row).encode() for row in orchard(1500)]
    offsets = np.arange(len(values))
    raw = RawBatch(offsets.tolist(), offsets.tolist(), [None] * len(values), values)
    learner.step(Release({"features": Piece(raw, offsets, offsets)}, {}))
    return loading.restore(spec, 1, items_of(learner.snapshot(), "orchard", 1))


def test_a_rule_in_words() -> None:
    form = "−4 size + 1.5 [colour = blue] + 0.03 x3 + 0.02 x2 + … 2 more − 0.1"
    matters = "1 of 3 features matter: size 70 %, colour 30 %"
    assert rules.rule({"gate": GATE}) == f"S({form}); {matters}"
    tested = {"gate": GATE, "feature": "size", "threshold": 0.5}
    assert rules.rule(tested) == f"0.3 [size ≤ 0.5] + 0.7 S({form}); {matters}"
    assert rules.rule(tested | {"gate": GATE | {"alpha": 1.0}}).startswith("S(−4")
    equals = {"gate": GATE, "feature": "colour", "equals": "blue"}
    assert rules.rule(equals).startswith("0.3 [colour = blue] + 0.7 S(")


def test_a_candidate_in_words() -> None:
    part = {"parameters": {"alpha": 0.2, "max_depth": 5}, "loss": 0.25, "weight": 1200.0}
    assert rules.candidate(part) == "alpha=0.2, max_depth=5"
    assert rules.standing(part | {"best": True}) == "loss 0.25, learned 1,200, predicts"
    assert rules.candidate({"parameters": {}}) == "as by default"


def test_soft_nodes_are_shown_with_names(state: loading.State) -> None:
    shown = inspection.text(state, "champion")
    assert "├─ 0.3 [size ≤ 0.4" in shown
    assert "└─ the rest" in shown
    nodes = json.loads(inspection.as_json(state, "champion"))["nodes"]
    gate = nodes[0]["gate"]
    assert set(gate["importance"]) == {"size", "colour", "ripe"}
    assert sum(gate["importance"].values()) == pytest.approx(1.0)
    assert {term["equals"] for term in gate["weights"] if term["feature"] == "ripe"} == {"false", "true"}
    assert max(gate["importance"], key=gate["importance"].get) == "size"
    assert set(gate["variance"]) == {"size", "colour", "ripe"}
    assert max(gate["variance"], key=gate["variance"].get) == "size"


@pytest.mark.parametrize("role", ["champion", "pool", "pair"])
def test_the_importance_of_features_is_shown_as_text_json_and_on_the_page(state: loading.State, role: str) -> None:
    shown = json.loads(inspection.as_json(state, role))["importance"]
    assert sum(shown.values()) == pytest.approx(1.0)
    assert list(shown)[-1] == "ripe"
    assert shown["ripe"] < 0.1
    first = next(iter(shown))
    assert f"\nimportance: {first} {shown[first]:.1%}, " in inspection.text(state, role)
    described = models.described(state, role)
    page = described["importance"]
    assert dict(page) == shown
    weights = getattr(state.learner.roles[role].model, "weights", {})
    assert list(described["members"].items()) == sorted(weights.items(), key=lambda one: -one[1])
    assert page[0][0] == first


def test_trees_of_a_sum_are_numbered(state: loading.State) -> None:
    lines = inspection.text(state, "pair").splitlines()
    assert [line for line in lines if line.startswith("tree")] == ["tree 1", "tree 2"]


def test_a_pool_shows_its_candidates_and_the_best_ones_nodes(state: loading.State) -> None:
    shown = inspection.text(state, "pool")
    assert "─ alpha=0.3: loss " in shown
    assert "─ alpha=1.0: loss " in shown
    assert shown.count("predicts") == 1
    assert shown.count("─ tree") == 1
    graph = inspection.dot(state, "pool")
    assert 'label="alpha=0.3: loss ' in graph
    assert graph.count("{") == graph.count("}") == 1
