"""A prediction looked up by its id: what was said, what came of it, and why. For the page and `riparian explain`.

Why is told of trees: the tests from the root to the leaf, as the model was at that moment
(`app.state.audit.moment`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app import inspection
from riparian.app.errors import RiparianError, StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import reading
from riparian.app.page import values
from riparian.app.page.outcomes import KeptPrediction
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.predictions.reasons import asked_about, keys_of
from riparian.app.partition.records.decoder import PartitionDecoder
from riparian.app.state.audit.finding import FoundPrediction, find, know_predictions, label_of
from riparian.app.state.audit.moment import Moment, moment_of
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Bags, Floats, Learner
from riparian.models.explanation.shapley import contributions
from riparian.topics.names import CHAMPION
from riparian.topics.records import ANOMALY, MULTI_INSTANCE, VALUES
from riparian.topics.vocabulary import canonical

MOST_TREES = 10  # trees of an ensemble whose paths are shown, at most
Progress = Callable[[str, int, int], None]


async def explained(
    spec: Spec,
    connection: Connection,
    id_: str,
    *,
    since: int | None = None,
    on_progress: Progress = lambda what, done, total: None,
    on_found: Callable[[dict[str, Any]], None] = lambda said: None,
) -> dict[str, Any]:
    """The newest prediction of an id, or the one that its label scores, JSON-serialisable.

    Parameters
    ----------
    since : int, optional
        ms since 1970: how far back to look.
    on_progress : callable
        Given what is done ("looking", "folding"), how much of it, and how much there is.
    on_found : callable
        Given what was said, as soon as that is found: what came of it and why take longer.

    Raises
    ------
    StateError
        There is no such prediction.
    """

    def looking(done: int, total: int) -> None:
        on_progress("looking", done, total)

    async def remade() -> tuple[Moment | None, str | None]:
        try:
            return await moment_of(
                spec, connection, found, lambda done, total: on_progress("folding", done, total)
            ), None
        except RiparianError as error:
            return None, str(error)

    found = await find(spec, connection, id_, since=since, on_progress=looking)
    on_found(_prediction(spec, found))
    moment, why_not = await remade()
    inside = None if moment is None else _label_inside(moment, found)
    while moment is not None and moment.waits:  # an update of an earlier record, which is the one that a label scores
        try:
            found = await find(spec, connection, id_, since=since, before=found, on_progress=looking)
        except StateError:  # it is not kept any more
            break
        on_found(_prediction(spec, found))
        moment, why_not = await remade()
        earlier = None if moment is None else _label_inside(moment, found)
        if earlier is not None and (inside is None or spec.label.on_repeat != "correct"):  # the first label counts
            inside = earlier
    learner = PartitionLearner(spec, found.partition) if moment is None else moment.learner
    answer, n_read = await label_of(spec, connection, found, learner, moment is not None and moment.label_waits)
    label = inside if answer is None else answer._asdict()
    models = _models(spec, found, label)
    return _prediction(spec, found) | {
        "said": models,
        "label": label,
        "labels_read": n_read if spec.label.of is None else None,
        "silence": class_of_silence(spec),
        "predictions_read": found.n_read,
        "why": None if moment is None else _why(spec, moment, models),
        "why_not": why_not,
    }


def _prediction(spec: Spec, found: FoundPrediction) -> dict[str, Any]:
    """What was predicted, and where that stands."""
    return {
        "stream": spec.name,
        "id": found.sent["id"],
        "task": spec.task,
        "topic": spec.topics.predictions,
        "partition": found.partition,
        "position": found.position,
        "time": found.time,
        "offset": found.sent["offset"],
        "label_offset": found.sent["label_offset"],
        "record": dict(found.sent),
        "said": _models(spec, found, None),
    }


def _label_inside(moment: Moment, found: FoundPrediction) -> dict[str, Any] | None:
    """The label that came with the features."""
    y, classes = moment.features.y, moment.learner.classes
    if y is None or math.isnan(y[0]):
        return None
    named = y[0] if classes is None else classes.texts[int(y[0])]
    return {"offset": found.sent["offset"], "time": moment.timestamp, "y": named}


def class_of_silence(spec: Spec) -> str | None:
    """As what an instance is learned whose label does not come, and when; None where it is not."""
    given = spec.join.unlabelled
    if given is None or given.is_ is None:
        return None
    return f"{canonical(given.is_)} {format_duration(given.after)} after it"


async def record_at(
    spec: Spec, connection: Connection, partition: int, position: int, index: int = 0
) -> dict[str, Any]:
    """A prediction by its place in the predictions topic, and its feature record; nothing is made again.

    Parameters
    ----------
    position, index : of its record, and which prediction of that.

    Returns
    -------
    dict
        "prediction": its fields. "time": ms, of its record. "x": features by name, None where missing. "keys": name of
        a key -> what stands in the record. "record": the feature record as text, None where it is no text. Of features
        that are not kept any more x and keys are empty.

    Raises
    ------
    StateError
        There is no such prediction.
    """
    await know_predictions(spec)
    decoder = PartitionDecoder(spec, partition)
    async with reading(connection, spec.topics.predictions, partition) as sent:
        sent.seek(position)
        records = await sent.read(position + 1) if sent.first <= position < sent.end else []
    try:
        made = decoder.codec.read_prediction(decoder.codec.split_predictions(records[0].value)[index])
        place = msgspec.convert(made, KeptPrediction)
    except (IndexError, ValueError):
        raise StateError(f"no prediction is at offset {position:,} of partition {partition} any more") from None
    (found,) = await values.read(spec, connection, partition, [(place.offset, place.index or 0)])
    return {"prediction": made, "time": records[0].timestamp, **found}


def _models(spec: Spec, found: FoundPrediction, label: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """What each model said, the champion first, and whether it was right."""
    rows = []
    for role, part in {CHAMPION: found.sent, **(found.sent.get("challengers") or {})}.items():
        y, p = part.get("y"), part.get("p")
        row: dict[str, Any] = {"role": role, "learner": found.sent.get("model") if role == CHAMPION else None}
        row |= {"y": y, "p": dict(sorted(p.items(), key=lambda one: -one[1])) if isinstance(p, dict) else p}
        if "alert" in part:
            row["alert"] = part["alert"]
        if label is not None and None not in (label["y"], y):
            if spec.task in VALUES:
                row["error"] = float(y) - float(label["y"]) if isinstance(y, int | float) else None
            else:
                row["right"] = canonical(y) == canonical(label["y"])  # true, 1.0 and "1": as JSON writes them, or texts
        rows.append(row)
    return rows


def _why(spec: Spec, moment: Moment, said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The paths of the models' trees, and from where the state was made again. said : what `_models` gives."""
    learner, answers = moment.learner, {row["role"]: row["y"] for row in said}
    keys = keys_of(moment.features.ids[:1])
    whole = inspection.Names(learner.spec, learner)
    row = [float(value) for value in moment.features.x[0]] if len(moment.features.x) else []
    models = []
    for role, nodes in moment.described.items():
        names = inspection.Names(learner.spec, learner, role)
        known = moment.x[0, names.columns].tolist() if row else []
        named = {node["id"]: inspection.named(node, names) for node in nodes}
        members, own = believed(nodes)
        trees = [] if spec.task == MULTI_INSTANCE else [path_of(root, nodes, named, known) for root in roots_of(own)]
        most = 1 if members else MOST_TREES
        model = {
            "role": role,
            "learner": moment.learner.roles[role].learner_name,
            "members": members,
            "trees": trees[:most],
            "more_trees": max(0, len(trees) - most),
        }
        if spec.task == ANOMALY:
            model["outside"] = outside(nodes, known, names.features)
        elif len(moment.features.x):
            x = np.ascontiguousarray(moment.x[:, names.columns])
            slab = Bags.of([len(x)], x) if spec.task == MULTI_INSTANCE else x[:1]
            model["added"] = _added(learner.roles[role].model, slab, names, keys, answers.get(role))
        models.append(model)
    return {
        "checkpoint": moment.sequence,
        "checkpoint_offset": moment.offset,
        "folded": moment.n_folded,
        "same": moment.same,
        "features": {} if spec.task == MULTI_INSTANCE else values.named_row(whole.features, whole.values, row),
        "models": models,
    }


def _added(
    model: Learner, slab: Floats | Bags, names: inspection.Names, keys: NDArray[np.uint64], y: Any
) -> dict[str, Any] | None:
    """What features added to a prediction (docs/build/confidence.md), the largest first; None where it knows none.

    slab : the instance, or the bag. keys : as `keys_of` gives them. y : what was predicted. "of": what it is added to,
    the probability of a class or the value. "begin": that of an instance without values; with "features" it adds up to
    "prediction".
    """
    if y is None:
        return None
    out = model.predict_many(slab)
    code = None if names.classes is None else names.classes.index(canonical(y))
    about = asked_about(out, None if code is None else np.array([code], float))
    *added, begin = contributions(model, slab, np.zeros(1, np.int32), about, keys)[0].tolist()
    prediction = float(out[0, about[0]])
    if not math.isfinite(prediction + begin + math.fsum(added)):
        return None
    largest = sorted(zip(names.features, added, strict=True), key=lambda one: -abs(one[1]))
    return {
        "of": None if names.classes is None else names.classes[int(about[0])],
        "begin": begin,
        "features": {feature: value for feature, value in largest if value},
        "prediction": prediction,
    }


def outside(
    nodes: Sequence[Mapping[str, Any]], row: Sequence[float], features: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Of an anomaly's features those that lie outside of what the model has of the last instances: value, low, high."""
    found = {}
    for node in nodes:
        if "feature" in node and len(node["value"]) == 2:
            (low, high), value = node["value"], row[node["feature"]]
            if not low <= value <= high and not math.isnan(value):
                found[features[node["feature"]]] = {"value": value, "low": low, "high": high}
    return found


def believed(nodes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], Sequence[Mapping[str, Any]]]:
    """Member of a pool -> its weight, the greatest first, and the nodes of that one; no members, and all nodes, of
    another model."""
    roots = [i for i, node in enumerate(nodes) if node.keys() >= {"member", "share"}]
    if not roots:
        return {}, nodes
    roots.append(len(nodes))
    parts = [nodes[start:end] for start, end in pairwise(roots)]
    parts.sort(key=lambda part: -part[0]["share"])
    return {part[0]["member"]: part[0]["share"] for part in parts}, parts[0]


def roots_of(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The roots of the trees among a model's nodes: those that split, and that no other node leads to."""
    led = {child for node in nodes for child in _children(node)}
    beside = {child for node in nodes for _, child in inspection.beside(dict(node))}
    return [node for node in nodes if _children(node) and node["id"] not in led | beside]


def _children(node: Mapping[str, Any]) -> list[int]:
    found = node.get("children", [])
    return [*(found.values() if isinstance(found, dict) else found), *([node["default"]] if "default" in node else [])]


def path_of(
    root: Mapping[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    named: Mapping[Any, Mapping[str, Any]],
    row: Sequence[float],
) -> dict[str, Any]:
    """The tests of a tree that an instance passes, from the root to its leaf.

    Parameters
    ----------
    root, nodes : as `Learner.describe` gives them. named : id -> the same with names.
    row : the features, NaN where missing.

    Returns
    -------
    dict
        "steps": each with its condition "if" ("" for the root), the node's "weight", and what it says of the classes
        or the value ("said"). "whole": whether the last of them is a leaf; a soft test has no single branch.
    """
    by_id = {node["id"]: node for node in nodes}
    steps: list[dict[str, Any]] = []
    node, condition = root, ""
    while True:
        value = named[node["id"]].get("value")
        said = "" if value is None else inspection.distribution(value)
        steps.append({"if": condition, "weight": node.get("weight"), "said": said})
        if not _children(node):
            return {"steps": steps, "whole": True}
        child = branch_of(node, row)
        if child is None or child not in by_id:
            return {"steps": steps, "whole": False}
        condition = next((text for text, other in inspection.edges(dict(named[node["id"]])) if other == child), "")
        node = by_id[child]


def branch_of(node: Mapping[str, Any], row: Sequence[float]) -> int | None:
    """The child that an instance goes to; None where it goes to several, or to none."""
    if node.get("feature") is None or "gate" in node:
        return None
    value, children, default = row[node["feature"]], node["children"], node.get("default")
    if node.get("known"):
        return int(children[1 if math.isnan(value) else 0])
    if math.isnan(value):
        return default
    if isinstance(children, dict):
        found = {int(code): child for code, child in children.items()}
        return found.get(int(value), default)
    if "threshold" in node:
        return int(children[0 if value <= node["threshold"] else 1])
    return int(children[0 if value == node["equals"] else 1])
