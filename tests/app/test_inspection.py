"""A model read back from its changelog, with names: the tree that is shown is the tree that predicts."""

import json
import re
from typing import Any

import numpy as np
import pytest

from riparian.app import inspection
from riparian.app.errors import SpecError
from riparian.app.kafka.connection import Connection
from riparian.app.page import models
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import Piece, Release
from riparian.app.state import loading
from riparian.app.stream_file.spec import Spec, loads
from riparian.topics.records import RawBatch
from tests.golden.make import items_of

STREAM = """
name: orchard
task: classification
partitions: 2
learning: partition
features:
  size: numeric
  colour: nominal
  ripe: boolean
champion: {model: hoeffding-tree, grace_period: 50, leaf_prediction: mc, delta: 0.05}
challengers:
  nb: {model: naive-bayes}
  last: {model: last-label}
  boosted: {model: stochastic-gradient-tree, n_stages: 2}
"""
COLOURS = ["red", 'deep "green"', "blue"]


def orchard(n: int = 3000) -> list[dict[str, Any]]:
    """Fruit that a tree has to split on a number and on a colour."""
    draw = np.random.default_rng(7)
    rows = []
    for i in range(n):
        size, colour = float(draw.uniform()), COLOURS[draw.integers(3)]
        y = "apple" if size > 0.5 or colour == "blue" else "plum"
        if draw.uniform() < 0.02:
            y = "pear"
        rows.append({"id": str(i), "x": {"size": size, "colour": colour, "ripe": bool(i % 2)}, "y": y})
    return rows


def learned(spec: Spec, partition: int, rows: list[dict[str, Any]]) -> PartitionLearner:
    learner, offsets = PartitionLearner(spec, partition), np.arange(len(rows))
    values: list[bytes | None] = [json.dumps(row).encode() for row in rows]
    raw = RawBatch(offsets.tolist(), offsets.tolist(), [None] * len(values), values)
    learner.step(Release({"features": Piece(raw, offsets, offsets)}, {}))
    return learner


@pytest.fixture(scope="module")
def spec() -> Spec:
    return loads(STREAM)


@pytest.fixture(scope="module")
def trained(spec: Spec) -> PartitionLearner:
    return learned(spec, 1, orchard())


@pytest.fixture(scope="module")
def items(trained: PartitionLearner) -> dict[bytes, bytes]:
    """The partition's changelog after one checkpoint."""
    return items_of(trained.snapshot(), "orchard", 1, sequence=4)


@pytest.fixture(scope="module")
def state(spec: Spec, items: dict[bytes, bytes]) -> loading.State:
    return loading.restore(spec, 1, items)


def descend(nodes: list[dict[str, Any]], x: dict[str, Any]) -> dict[str, Any]:
    """The leaf of an instance, by what the JSON says alone."""
    by_id = {node["id"]: node for node in nodes}
    node = nodes[0]
    while "children" in node:
        value, children = x[node["feature"]], node["children"]
        if isinstance(children, dict):
            node = by_id[children[str(value).lower() if isinstance(value, bool) else value]]
        elif "threshold" in node:
            node = by_id[children[0 if value <= node["threshold"] else 1]]
        else:
            node = by_id[children[0 if value == node["equals"] else 1]]
    return node


def test_the_tree_that_is_shown_is_the_tree_that_predicts(trained: PartitionLearner, state: loading.State) -> None:
    shown = json.loads(inspection.as_json(state, "champion"))
    assert set(shown["importance"]) == {"size", "colour", "ripe"}
    assert min(shown["importance"]["size"], shown["importance"]["colour"]) > 0.2
    assert shown["importance"]["ripe"] < 0.01
    nodes = shown["nodes"]
    assert shown["n_nodes"] == len(nodes) > 4
    assert {"size", "colour"} <= {node["feature"] for node in nodes if "children" in node}
    rows = orchard(300)
    raw = [json.dumps({"id": r["id"], "x": r["x"]}).encode() for r in rows]
    batch = RawBatch(list(range(300)), [0] * 300, [None] * 300, list(raw))
    decoded = trained.codec.decode_features(batch, trained.vocabularies, trained.classes)
    predicted = trained.roles["champion"].model.predict_many(decoded.x)
    assert trained.classes is not None
    for row, p in zip(rows, predicted, strict=True):
        value = descend(nodes, row["x"])["value"]
        total = sum(value.values())
        expected = [value[name] / total for name in trained.classes.texts]
        assert p[: len(expected)] == pytest.approx(expected)


def test_the_summary_is_that_of_the_checkpoint(
    trained: PartitionLearner, items: dict[bytes, bytes], state: loading.State
) -> None:
    assert json.loads(inspection.as_json(state, "last"))["importance"] is None
    assert "importance" not in inspection.text(state, "last")
    assert models.described(state, "last")["importance"] == []
    shown = json.loads(inspection.as_json(state, "nb"))
    assert shown["importance"]["ripe"] < 0.01
    assert (shown["stream"], shown["partition"], shown["sequence"]) == ("orchard", 1, 4)
    assert (shown["offset"], shown["label_offset"], shown["instances"]) == (3000, 0, 3000)
    assert (shown["model"], shown["learner"]) == ("nb", "naive-bayes")
    metrics = trained.roles["nb"].metrics
    assert (shown["metrics"], shown["recent"]) == (metrics.metrics(), metrics.windowed())
    text = inspection.text(state, "nb")
    assert f"on the last 1,000 labels: accuracy {metrics.windowed()['accuracy']:.4f}, " in text
    assert f"on all 3,000 labels: accuracy {metrics.metrics()['accuracy']:.4f}, " in text
    assert shown["fading"] is None
    # Of the first step no label had come yet.
    assert f"of all, {shown['unknown']:,.0f} were predicted when no class was known yet, and count as wrong" in text
    assert 0 < shown["unknown"] < 1000
    assert shown["checkpoint_bytes"] == sum(map(len, items.values()))
    assert shown["age_seconds"] > 1e9


def test_figures_of_a_past_that_fades_are_not_said_to_be_of_the_last_labels() -> None:
    faded = loads(STREAM + "metrics: {fading: 0.99}\n")
    learner = learned(faded, 1, orchard(600))
    text = inspection.text(loading.restore(faded, 1, items_of(learner.snapshot(), "orchard", 1, sequence=4)), "nb")
    metrics = learner.roles["nb"].metrics
    assert "on the last" not in text
    assert f"on labels with the past fading by 0.99: accuracy {metrics.windowed()['accuracy']:.4f}, " in text
    assert f"on all 600 labels: accuracy {metrics.metrics()['accuracy']:.4f}, " in text


def test_a_committee_is_shown_as_trees_by_stage_and_class(state: loading.State) -> None:
    nodes = json.loads(inspection.as_json(state, "boosted"))["nodes"]
    roots = [(node["stage"], node["class"]) for node in nodes if "stage" in node]
    assert roots[0][0] == 0
    assert sorted(roots) == sorted((stage, name) for stage in (0, 1) for name in ("plum", "pear"))
    assert sum(nodes[0]["value"].values()) == nodes[0]["weight"] == 3000
    text = inspection.text(state, "boosted")
    assert re.search(r"─ stage 1, class plum\n", text)
    assert re.search(r"─ (size|colour) .*: score -?[0-9.]+, weight [0-9,.]+", text)
    dot = inspection.dot(state, "boosted")
    assert 'n0 -> n1 [label="stage 1, class' in dot


def test_text_names_features_values_and_classes(state: loading.State) -> None:
    text = inspection.text(state, "champion")
    assert "\nimportance: " in text
    assert "champion is a hoeffding-tree" in text
    assert "3,000 instances, 3,000 learned, 0 waiting" in text
    assert re.search(r"size ≤ 0\.\d+", text)
    assert 'colour = deep "green"' in text
    assert "apple" in text
    assert "plum" in text
    n_leaves = sum("weight" in line for line in text.splitlines())
    assert n_leaves == state.learner.roles["champion"].model.size()["n_leaves"]


def test_members_of_an_ensemble_have_headings() -> None:
    leaf = {"parent": None, "depth": 0, "weight": 7.0, "value": {"UP": 7.0}}
    split = leaf | {"feature": "colour", "equals": "red", "children": [2, 3], "default": 2}
    nodes = [
        leaf | {"id": 0, "member": 4, "accuracy": 0.915},
        split | {"id": 1, "background": True},
        leaf | {"id": 2, "parent": 1},
        leaf | {"id": 3, "parent": 1},
        leaf | {"id": 4, "member": 5, "error": 0.25},
        {
            "id": 5,
            "parent": None,
            "depth": 0,
            "weight": 7.0,
            "value": [],
            "member": "a",
            "share": 0.25,
            "resting": True,
        },
    ]
    lines = list(inspection.tree_lines(nodes))
    assert lines[:2] == ["member 4, 91.5% right: UP 100%, weight 7", "growing in the background"]
    assert [line[:3] for line in lines[2:4]] == ["├─ ", "└─ "]
    assert lines[4:] == [
        "member 5, error 0.25: UP 100%, weight 7",
        "member a, resting, weight 0.250 in the pool: weight 7",
    ]


def test_dot_has_every_node_and_edge_once_and_quotes_text(state: loading.State) -> None:
    for role in ("champion", "nb", "last"):
        lines = inspection.dot(state, role).splitlines()
        nodes = state.learner.roles[role].model.describe()
        assert lines[0] == 'digraph "orchard" {'
        assert lines[-1] == "}"
        assert sum(bool(re.match(r"  n\d+ \[", line)) for line in lines) == len(nodes)
        targets = [found[1] for line in lines if (found := re.match(r"  n\d+ -> (n\d+)", line))]
        assert sorted(targets) == sorted(f"n{node['id']}" for node in nodes[1:])
        for line in lines:  # every quote is closed, every inner one escaped
            assert len(re.findall(r'(?<!\\)"', line)) % 2 == 0


def test_partitions_and_models_that_are_not_there(spec: Spec) -> None:
    with pytest.raises(SpecError, match="--partition is 2, and the stream orchard has 2: give 0 to 1"):
        loading.load(spec, Connection("127.0.0.1:1"), 2)
    with pytest.raises(SpecError, match="no model 'tree': give one of champion, nb, last"):
        inspection.check_role(spec, "tree", spec.models())


BESIDE = """
name: orchard
task: classification
features:
  size: numeric
  colour: nominal
  ripe: boolean
champion:
  model: hoeffding-adaptive-tree
  grace_period: 50
  drift_delta: 0.5
  least_window: 100000
"""


def test_alternate_trees_are_shown_beside_their_node() -> None:
    spec = loads(BESIDE)
    rows = orchard()
    for row in rows[1500:]:  # the fruit are turned round
        row["y"] = {"apple": "plum", "plum": "apple"}.get(row["y"], row["y"])
    state = loading.restore(spec, 0, items_of(learned(spec, 0, rows).snapshot(), "orchard", 0, sequence=1))
    nodes = json.loads(inspection.as_json(state, "champion"))["nodes"]
    beside = [node["alternate"] for node in nodes if "alternate" in node]
    assert beside
    text = inspection.text(state, "champion")
    assert text.count("alternate tree") == len(beside)
    # every leaf is shown, those of the alternate trees too
    assert sum(" by " in line for line in text.splitlines()) == sum("predictor" in node for node in nodes)
    dot = inspection.dot(state, "champion")
    assert dot.count("style=dashed") == len(beside)
    assert all(re.search(rf"-> n{root} .*alternate tree", dot) for root in beside)


def test_shrubs_are_shown_with_windows_shares_and_whether_a_value_is_known() -> None:
    nodes = [
        {"id": 0, "parent": None, "depth": 0, "weight": 30.0, "value": {"a": 0.5, "b": 0.5},
         "windows": [{"size": 1024, "share": 0.75}, {"size": 256, "share": 0.25}]},
        {"id": 1, "parent": 0, "depth": 1, "weight": 30.0, "value": {"a": 0.5, "b": 0.5}, "share": 0.75, "window": 1024,
         "feature": "size", "known": True, "children": [2, 3], "default": 3},
        {"id": 2, "parent": 1, "depth": 2, "weight": 20.0, "value": {"a": 1.0, "b": 0.0}},
        {"id": 3, "parent": 1, "depth": 2, "weight": 10.0, "value": {"a": 0.0, "b": 1.0}},
    ]  # fmt: skip
    lines = list(inspection.tree_lines(nodes))
    assert "window of 1,024 75.0%, window of 256 25.0%" in lines[0]
    assert lines[1] == "└─ tree, 75.0% of the vote, window of 1,024"
    assert lines[2].startswith("   ├─ size is known: a 100%")
    assert lines[3].startswith("   └─ size is missing: b 100%")
