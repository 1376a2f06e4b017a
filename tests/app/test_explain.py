"""The way of an instance through a tree, in words: the leaf at its end is the one that predicts."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from riparian.app import inspection
from riparian.app.cli.operate.explain import _reasons, lines
from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.page import models, predictions
from riparian.app.page.predictions import _models, _why, branch_of, class_of_silence, path_of, roots_of
from riparian.app.partition.learner import PartitionLearner
from riparian.app.state.audit import finding
from riparian.app.state.audit.finding import FoundPrediction
from riparian.app.stream_file import spec as stream_file
from riparian.checks import Case, learn, make, predict, rows
from riparian.models.registry import REGISTRY

TREES = (
    ("hoeffding-tree", {"leaf_prediction": "mc", "grace_period": 50, "delta": 0.05}),
    ("hoeffding-tree", {"leaf_prediction": "mc", "grace_period": 50, "delta": 0.05, "split_criterion": "gini"}),
    ("hoeffding-adaptive-tree", {"leaf_prediction": "mc", "grace_period": 50, "delta": 0.05}),
    ("extremely-fast-decision-tree", {"leaf_prediction": "mc", "grace_period": 50, "delta": 0.05}),
)


@pytest.mark.parametrize(("name", "parameters"), TREES)
def test_the_leaf_at_the_end_of_a_path_is_the_one_that_predicts(name, parameters):
    learner = make(REGISTRY[name].load(), "classification", Case(parameters))
    x, y = rows(4000, "classification")
    learn(learner, x, y)
    others = rows(300, "classification", seed=5)[0]
    nodes = learner.describe()
    by_id = {node["id"]: node for node in nodes}
    (root,) = roots_of(nodes)
    found = []
    for row in others.tolist():
        node = root
        while (child := branch_of(node, row)) is not None:
            node = by_id[child]
        found.append(np.array(node["value"]) / sum(node["value"]))
    assert len({tuple(one) for one in found}) > 3
    np.testing.assert_allclose(np.array(found), predict(learner, others), rtol=1e-6)


NODES = [
    {"id": 0, "weight": 9.0, "feature": 0, "threshold": 0.5, "default": 2, "children": [1, 2], "value": [6.0, 3.0]},
    {"id": 1, "weight": 5.0, "value": [5.0, 0.0]},
    {"id": 2, "weight": 4.0, "feature": 1, "children": {"0": 3, "1": 4}, "default": 4, "value": [1.0, 3.0]},
    {"id": 3, "weight": 1.0, "value": [1.0, 0.0]},
    {"id": 4, "weight": 3.0, "value": [0.0, 3.0]},
]


@pytest.mark.parametrize(
    ("row", "conditions"),
    [
        ([0.5, 1.0], ["", "size ≤ 0.5"]),
        ([0.6, 0.0], ["", "size > 0.5, or missing", "colour = red"]),
        ([np.nan, 1.0], ["", "size > 0.5, or missing", "colour = blue, or missing"]),
        ([0.7, 9.0], ["", "size > 0.5, or missing", "colour = blue, or missing"]),
    ],
)
def test_a_path_says_its_conditions(row, conditions):
    names = inspection.Names.__new__(inspection.Names)
    names.features, names.values, names.classes = ["size", "colour"], [None, ["red", "blue"]], ["no", "yes"]
    named = {node["id"]: inspection.named(node, names) for node in NODES}
    found = path_of(NODES[0], NODES, named, row)
    assert [step["if"] for step in found["steps"]] == conditions
    assert found["whole"]
    assert found["steps"][0]["said"] == "no 67% · yes 33%"


def test_a_soft_test_has_no_single_branch():
    gate = {"id": 0, "feature": None, "gate": {}, "children": [1, 2]}
    assert branch_of(gate, [1.0]) is None


def test_of_a_pool_the_members_are_named_and_the_path_is_of_the_most_believed(monkeypatch):
    members = {f"bayes{i}": "naive-bayes" for i in range(5)} | {
        "forest": {"model": "adaptive-random-forest", "n_models": 3, "grace_period": 50, "delta": 0.05},
        "tree": {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.05},
    }
    spec = stream_file.build(
        {
            "name": "s", "task": "classification", "classes": ["a", "b"], "features": {"u": "numeric", "v": "numeric"},
            "champion": {"model": "opinion-pool", "members": members},
        },
        "s.yaml",
    )  # fmt: skip
    learner = PartitionLearner(spec)
    pool = learner.roles["champion"].model
    x = np.random.default_rng(0).normal(size=(2000, 2))
    pool.learn_many(x, (x[:, 0] * x[:, 1] > 0.0).astype(float))
    features = SimpleNamespace(x=x[:1], ids=["1"])
    moment = SimpleNamespace(
        x=x[:1],
        learner=learner, features=features, described={"champion": pool.describe()}, sequence=0, offset=0, n_folded=9,
        same=True,
    )  # fmt: skip
    why = _why(spec, moment, [{"role": "champion", "y": None}])
    (model,) = why["models"]
    assert model["members"] == dict(sorted(pool.weights.items(), key=lambda one: -one[1]))
    best = max(pool.weights, key=pool.weights.get)
    shown = _reasons(why)
    assert any(f"members by weight: {best} " in line and f", and 2 more; of {best}:" in line for line in shown)
    assert len(model["trees"]) == 1
    own = pool.members[best].describe()
    assert model["more_trees"] == len(roots_of(own)) - 1
    assert model["trees"][0]["steps"][0]["weight"] == roots_of(own)[0]["weight"]
    # The page's model draws the same trees.
    monkeypatch.setattr(models.inspection, "summary", lambda state, role: {})
    page = models.described(SimpleNamespace(learner=learner), "champion")
    assert list(page["members"].items()) == list(model["members"].items())
    assert len(page["trees"]) == len(roots_of(own))


def test_what_strangers_wrote_is_no_command_to_the_terminal(monkeypatch):
    found = {
        "id": "\x1b[31m<b>", "topic": "t", "partition": 0, "position": 3, "time": 0, "offset": 3, "label_offset": 1,
        "said": [{"role": "champion", "learner": "tree", "y": "\x1b]0;", "p": {"\x07": 1.0}}],
        "label": None, "labels_read": 0, "why": None, "why_not": "no checkpoint",
    }  # fmt: skip
    from riparian.app.errors import safe

    shown = "\n".join(map(safe, lines(found)))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b[31m<b>" in shown


@pytest.mark.parametrize("is_", ["ok", None])
def test_a_record_without_a_label_is_said_to_be_learned_as_what_silence_is(is_):
    unlabelled = {"after": "14d"} | ({} if is_ is None else {"is": is_})
    spec = stream_file.build({
        "name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label",
        "classes": ["ok", "fraud"], "join": {"horizon": "20d", "unlabelled": unlabelled},
    })  # fmt: skip
    found = {
        "id": "1", "topic": "t", "partition": 0, "position": 3, "time": 0, "offset": 3, "label_offset": 1,
        "said": [{"role": "champion", "learner": "last-label", "y": "ok", "p": None}], "label": None,
        "labels_read": 0, "silence": class_of_silence(spec), "why": None, "why_not": "no checkpoint",
    }  # fmt: skip
    learned = "" if is_ is None else ": without one it is learned as ok 14d after it"
    assert f"  no label has come (0 labels were read after it){learned}" in lines(found)


@pytest.mark.parametrize(
    ("said", "text", "label", "right"),
    [(False, "false", "false", True), (1.0, "1", "1", True), (True, "true", "false", False)],
)
def test_a_class_that_is_no_text_is_right_where_its_label_says_the_same(tmp_path, said, text, label, right):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\ntask: classification\nfeatures: {a: numeric}\nchampion: last-label\n")
    sent = {"y": said, "model": "last-label", "challengers": {"nb": {"y": None}}}
    rows = _models(stream_file.load(path), FoundPrediction(0, 0, 0, (0, 0), sent, 1), {"y": label})
    assert [row.get("right") for row in rows] == [right, None]
    found = {
        "id": "1", "topic": "t", "partition": 0, "position": 3, "time": 0, "offset": 3, "label_offset": 1, "said": rows,
        "label": {"y": label, "time": 0, "offset": 0}, "labels_read": 0, "why": None, "why_not": "no checkpoint",
    }  # fmt: skip
    shown = lines(found)
    assert shown[0].startswith(f"1: {text} by last-label")
    assert f"  champion: {text}: {'right' if right else 'wrong'}" in shown
    assert "  nb: nothing" in shown


def reads(monkeypatch, values, since=0):
    """Every reading is of records of these values, the i-th of them at since + i."""
    records = [
        SimpleNamespace(offset=i, timestamp=since + i, key=None, value=value, headers=())
        for i, value in enumerate(values)
    ]

    class Reader:
        first, end, at = 0, len(records), 0

        def seek(self, offset):
            self.at = offset

        async def read(self, stop):
            at, self.at = self.at, stop
            return records[at:stop]

    @contextlib.asynccontextmanager
    async def reading(*_):
        yield Reader()

    monkeypatch.setattr(finding, "reading", reading)


@pytest.mark.parametrize(
    ("of", "said"),
    [({"task": "classification", "classes": ["ok", "fraud"]}, "fraud"), ({"task": "regression"}, 2.5)],
)
def test_a_null_label_is_named_and_nobody_was_right(monkeypatch, of, said):
    reads(monkeypatch, [b'{"id": "17", "y": null}'], 1000)
    spec = stream_file.build({"name": "s", "features": {"a": "numeric"}, **of}, "s")
    found = FoundPrediction(0, 0, 0, (0, 0), {"id": "17", "y": said, "model": "last-label"}, 1)
    label, n_read = asyncio.run(finding.label_of(spec, None, found, PartitionLearner(spec)))
    assert (label, n_read) == ((0, 1000, None), 1)
    models = _models(spec, found, label._asdict())
    assert {"right", "error"}.isdisjoint(models[0])
    shown = lines({
        "id": "17", "topic": "t", "partition": 0, "position": 3, "time": 0, "offset": 3, "label_offset": 1,
        "said": models, "label": label._asdict(), "labels_read": 1, "why": None, "why_not": "no checkpoint",
    })  # fmt: skip
    assert shown[2].startswith("  label null (none will come) at ")
    assert shown[3] == f"  champion: {said}"


@pytest.mark.parametrize(("waited", "offset"), [(False, 6), (True, 4)])
def test_the_label_of_a_prediction_is_the_first_after_it_or_the_last_that_waited_for_it(monkeypatch, waited, offset):
    """That of a record that was rejected, and retried, is there already."""

    ids = {0: "17", 4: "17", 6: "17", 7: "17"}
    reads(monkeypatch, [f'{{"id": "{ids.get(i, "x")}", "y": {i}}}'.encode() for i in range(9)])
    spec = stream_file.build({"name": "s", "features": {"a": "numeric"}, "task": "regression"}, "s")
    found = FoundPrediction(0, 0, 0, (0, 5), {"id": "17", "y": 1.0, "model": "last-label"}, 1)
    label, _ = asyncio.run(finding.label_of(spec, None, found, PartitionLearner(spec), waited))
    assert label == (offset, offset, offset)


@pytest.mark.parametrize(("id_", "what"), [("id", "the one of the features"), ("@offset", "offset, such as 0@17")])
def test_an_id_that_is_not_found_is_said_to_be_what_ids_are(monkeypatch, id_, what):
    reads(monkeypatch, [])
    spec = stream_file.build({
        "name": "s", "task": "regression", "features": {"a": "numeric"}, "record": {"id": id_},
        "label": {"of": "a", "ahead": "1h"},
    })  # fmt: skip
    with pytest.raises(StateError, match=f"the id is .*{what}, and its record may be"):
        asyncio.run(finding.find(spec, None, "7"))


@pytest.mark.parametrize(
    "of",
    [{"y": 10**400}, {"p": {"a": "x"}}, {"challengers": {"b": {"y": [1]}}}, {"offset": 2**63}],
)
def test_a_prediction_that_no_worker_sends_is_somebody_else_s(of):
    good = {"id": "a", "offset": 1, "label_offset": 1, "y": 3, "p": {"a": 0.5}, "challengers": {"b": {"y": None}}}
    msgspec.convert(good, finding.Sent)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | of, finding.Sent)


def test_a_label_that_came_with_the_features_has_the_time_of_their_record(monkeypatch):
    spec = stream_file.build(
        {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}
    )
    found = FoundPrediction(0, 0, 5000, (0, 0), {"id": "1", "y": None, "offset": 3, "label_offset": 1}, 1)
    known = SimpleNamespace(classes=SimpleNamespace(texts=["ok", "fraud"]))
    moment = SimpleNamespace(
        features=SimpleNamespace(y=[1.0]), timestamp=4000, learner=known, label_waits=False, waits=False
    )
    for name, answer in (("find", found), ("moment_of", moment), ("label_of", (None, 0))):

        async def answered(*_: Any, answer: Any = answer, **__: Any) -> Any:
            return answer

        monkeypatch.setattr(predictions, name, answered)
    monkeypatch.setattr(predictions, "_why", lambda *_: None)
    explained = asyncio.run(predictions.explained(spec, Connection("h:1"), "1"))
    assert explained["label"] == {"offset": 3, "time": 4000, "y": "fraud"}
    assert explained["time"] == 5000
    moment.features.y = None
    for label, sentence in (
        ({}, "  no label has come (0 labels were read after it)"),
        ({"label": {"of": "a", "ahead": "1h"}}, "  its label is a later value of the stream, and is not read here"),
    ):
        spec = stream_file.build(
            {"name": "s", "task": "regression", "features": {"a": "numeric"}, "champion": "last-label", **label}
        )
        explained = asyncio.run(predictions.explained(spec, Connection("h:1"), "1"))
        assert sentence in lines(explained | {"why_not": ""})


@pytest.mark.parametrize(
    ("inside", "on_repeat", "y"),
    [
        ([None, None], "ignore", None),
        ([None, 1.0, None], "ignore", "fraud"),
        ([None, 1.0, 0.0], "ignore", "fraud"),
        ([None, 1.0, 0.0, None], "correct", "ok"),
        ([1.0, 0.0], "ignore", "fraud"),
    ],
)
def test_of_updates_the_record_that_waits_is_explained_by_the_label_that_counts(monkeypatch, inside, on_repeat, y):
    """inside : the labels in the records of the id, the oldest first."""
    spec = stream_file.build({
        "name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label",
        "topics": {"labels": None}, "label": {"on_repeat": on_repeat},
    })  # fmt: skip
    learner = SimpleNamespace(classes=SimpleNamespace(texts=["ok", "fraud"]), bits={"labels": 0})

    async def find(*_: Any, before: FoundPrediction | None = None, **__: Any) -> FoundPrediction:
        at = (len(inside) if before is None else before.position) - 1
        return FoundPrediction(0, at, 0, (at, 0), {"id": "1", "y": None, "offset": at, "label_offset": 0}, 1)

    async def moment_of(_: Any, __: Any, found: FoundPrediction, ___: Any) -> Any:
        label = inside[found.position]
        features = SimpleNamespace(y=[np.nan if label is None else label])
        return SimpleNamespace(
            features=features, timestamp=0, learner=learner, label_waits=False, waits=found.position > 0
        )

    monkeypatch.setattr(predictions, "find", find)
    monkeypatch.setattr(predictions, "moment_of", moment_of)
    monkeypatch.setattr(predictions, "_why", lambda *_: None)
    explained = asyncio.run(predictions.explained(spec, Connection("h:1"), "1"))
    assert explained["offset"] == 0
    assert (explained["label"] or {"y": None})["y"] == y


def test_the_prediction_before_another_may_stand_in_its_record(monkeypatch):
    pa = pytest.importorskip("pyarrow")

    def record(*rows: dict[str, Any]) -> bytes:
        common = {"y": "a", "p": None, "model": "last-label", "label_offset": 0, "label_index": 0}
        sink, table = pa.BufferOutputStream(), pa.Table.from_pylist([row | common for row in rows])
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    places = [[(0, 3)], [(0, 7), (1, 0), (1, 2)]]
    reads(monkeypatch, [record(*({"id": "17", "offset": at, "index": i} for at, i in one)) for one in places])
    spec = stream_file.build({
        "name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label",
        "codec": {"features": "arrow", "labels": "arrow", "predictions": "arrow"},
    })  # fmt: skip
    found, seen = None, []
    with contextlib.suppress(StateError):
        while True:
            found = asyncio.run(finding.find(spec, Connection("h:1"), "17", before=found))
            seen.append((found.position, found.sent["offset"], found.sent["index"]))
    assert seen == [(1, 1, 2), (1, 1, 0), (1, 0, 7), (0, 0, 3)]
