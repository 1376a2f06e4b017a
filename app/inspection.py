"""Shows what a partition's last checkpoint holds (app/state/loading.py), and its models, to people.

A model describes itself as nodes or parts with indices and codes, which are replaced here by the names from the stream
file and the records.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from riparian.app import rules
from riparian.app.errors import SpecError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.lineup.model_slot import REACTIONS
from riparian.app.state.loading import State
from riparian.app.stream_file.spec import Spec
from riparian.models.explanation.importance import importance
from riparian.topics.names import place_field
from riparian.topics.records import REGRESSION, VALUES

SHOWN_CLASSES = 3  # classes shown of a node, the most frequent ones
SHOWN_FEATURES = 8  # the most important ones


def summary(state: State, role: str) -> dict[str, Any]:
    """What is known besides the nodes: JSON-serialisable."""
    manifest, learner = state.manifest, state.learner
    model, metrics = learner.roles[role].model, learner.roles[role].metrics
    return {
        "stream": manifest.stream,
        "partition": manifest.partition,
        "sequence": manifest.sequence,
        "created": manifest.created_ms,
        "age_seconds": round(max(0.0, time.time() - manifest.created_ms / 1000.0), 3),
        **{place_field(role): offset for role, offset in learner.offsets.items()},
        "instances": learner.n_instances,
        "labels": learner.n_labels,
        "waiting": learner.pending.n_waiting,
        "counters": dict(learner.pending.counts),
        "checkpoint_bytes": state.n_bytes,
        "model": role,
        "learner": learner.roles[role].learner_name,
        "parameters": model.parameters(),
        **model.size(),
        "state_bytes": model.n_bytes,
        "metrics": metrics.metrics(),
        "recent": metrics.windowed(),
        "fading": metrics.fading,
        # Weight of labels whose predictions knew no class, as before the first label came: they count as wrong.
        "unknown": 0.0 if metrics.task in VALUES else float(metrics.counts()[:, 0].sum()),
        "drift": [
            {"signal": signal, "detector": detector, "level": level, "events": n, "last": last}
            for owner, signal, detector, level, n, last in learner.drift.events()
            if owner in (role, "") and n
        ],
        "reactions": dict(zip(REACTIONS, learner.roles[role].reactions.tolist(), strict=True)),
    }


class Names:
    """Names for the indices and codes of a model's description. Without a role: of all features.

    columns : of the features, among those of the stream
    """

    def __init__(self, spec: Spec, learner: PartitionLearner, role: str | None = None) -> None:
        known = None if role is None else learner.roles[role].columns
        self.columns = list(range(len(spec.features))) if known is None else known
        features, vocabularies = list(spec.features), learner.vocabularies
        self.features = [features[j] for j in self.columns]
        self.values = [None if v is None else list(v.texts) for v in (vocabularies[j] for j in self.columns)]
        self.classes = None if learner.classes is None else list(learner.classes.texts)

    def value(self, feature: int, code: int) -> str:
        """A nominal value's text; its code where no record had it yet."""
        known = self.values[feature] or []
        return known[code] if code < len(known) else f"#{code}"

    def by_class(self, value: Sequence[float]) -> dict[str, float] | list[float]:
        """A vector with one entry per class as a mapping, classes without a name (capacity) left out."""
        if self.classes is None or len(value) < len(self.classes):
            return list(value)
        return dict(zip(self.classes, value, strict=False))


def named(node: dict[str, Any], names: Names) -> dict[str, Any]:
    """A node with feature, nominal values and classes by name."""
    result = dict(node)
    feature = node.get("feature")
    if feature is not None:
        result["feature"] = names.features[feature]
        if "equals" in node:
            result["equals"] = names.value(feature, node["equals"])
        if isinstance(node.get("children"), dict):
            result["children"] = {names.value(feature, int(code)): child for code, child in node["children"].items()}
    if "gate" in node:
        result["gate"] = rules.named_gate(node["gate"], names.features, names.value)
    if "class" in node and names.classes is not None:
        code = node["class"]
        result["class"] = names.classes[code] if code < len(names.classes) else f"#{code}"
    if isinstance(node.get("value"), list) and node.get("unit") != "score":
        result["value"] = names.by_class(node["value"])
    for field in ("mean", "deviation"):
        if isinstance(node.get(field), list):
            result[field] = names.by_class(node[field])
    if feature is not None and isinstance(node.get("values"), list) and names.classes is not None:
        result["values"] = {
            name: {names.value(feature, code): weight for code, weight in enumerate(weights)}
            for name, weights in zip(names.classes, node["values"], strict=False)
        }
    return result


def described(state: State, role: str) -> tuple[list[dict[str, Any]], dict[str, float] | None]:
    """The nodes of a model by name, and the share of each feature in what its splits do, the largest first
    (`models.explanation.importance`)."""
    spec, raw = state.learner.spec, state.learner.roles[role].model.describe()
    names = Names(spec, state.learner, role)
    nodes, shares = [named(node, names) for node in raw], importance(raw, len(names.features), spec.task == REGRESSION)
    if shares is None:
        return nodes, None
    return nodes, dict(sorted(zip(names.features, shares, strict=True), key=lambda one: -one[1]))


# text -----------------------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value - round(value)) < 1e-9 and abs(value) < 1e15 else f"{value:,.4g}"


def distribution(value: Any) -> str:
    """`UP 61 % · DOWN 39 %`, or a predicted value."""
    if isinstance(value, dict):
        total = sum(value.values())
        if total <= 0.0:
            return "no labels yet"
        ranked = sorted(value.items(), key=lambda item: -item[1])
        shown = [f"{name} {weight / total:.0%}" for name, weight in ranked[:SHOWN_CLASSES] if weight > 0.0]
        rest = sum(weight > 0.0 for _, weight in ranked[SHOWN_CLASSES:])
        return " · ".join(shown) + (f" · {rest} more" if rest else "")
    return ", ".join(map(_number, value)) if isinstance(value, list) else str(value)


def _content(node: dict[str, Any]) -> str:
    """A leaf or part in one line."""
    if "loss" in node:
        return rules.standing(node)
    parts = [distribution(node["value"])] if node.get("value", []) != [] else []
    if node.get("unit") == "score":
        parts[0] = f"score {parts[0]}"
    parts.append(f"weight {_number(node.get('weight', 0.0))}")
    if "windows" in node:
        parts += [f"window of {window['size']:,} {window['share']:.1%}" for window in node["windows"]]
    if "scale" in node:
        parts.append(f"scale {node['scale']:.4g}")
    if "predictor" in node:
        parts.append(f"by {node['predictor']}")
    if node.get("active") is False:
        parts.append("not observing")
    if isinstance(node.get("mean"), dict):
        deviation = node.get("deviation", {})
        parts = [f"{name} {mean:.4g} ± {deviation.get(name, 0.0):.4g}" for name, mean in node["mean"].items()]
    elif isinstance(node.get("values"), dict):
        # The share of each value within a class, the most frequent first.
        parts = []
        for name, weights in node["values"].items():
            parts.append(f"{name}: {distribution(weights)}")
    return ", ".join(parts)


def _title(part: dict[str, Any]) -> str:
    """What a part is called that hangs on its parent without a condition: a candidate of a pool, a tree by its stage
    and class or by its share of the vote, others by their feature or number."""
    if "loss" in part:
        return rules.candidate(part)
    if "stage" in part:
        of = f", class {part['class']}" if "class" in part else ""
        return f"stage {part['stage'] + 1}{of}"
    if "share" in part:
        window = f", window of {part['window']:,}" if "window" in part else ""
        return f"tree, {part['share']:.1%} of the vote{window}"
    return "tree" if "gate" in part else str(part.get("feature", part["id"]))


def edges(node: dict[str, Any]) -> list[tuple[str, int]]:
    """(condition, child id) of an inner node; the branch of missing values says so."""
    if "children" not in node:
        return []
    if "gate" in node:
        return [(rules.rule(node), node["children"][0]), ("the rest", node["children"][1])]
    name, children, default = node["feature"], node["children"], node.get("default")
    name = f"mean target of {name}" if node.get("target_mean") else name
    if isinstance(children, dict):
        found = [(f"{name} = {value}", child) for value, child in children.items()]
    elif node.get("known"):
        return [(f"{name} is known", children[0]), (f"{name} is missing", children[1])]
    elif "threshold" in node:
        found = [
            (f"{name} ≤ {node['threshold']:.6g}", children[0]),
            (f"{name} > {node['threshold']:.6g}", children[1]),
        ]
    else:
        found = [(f"{name} = {node['equals']}", children[0]), (f"{name} ≠ {node['equals']}", children[1])]
    shown = [(f"{text}, or missing" if child == default else text, child) for text, child in found]
    if (
        default is not None
        and default not in children
        and default not in (children.values() if isinstance(children, dict) else ())
    ):
        shown.append((f"{name} otherwise, or missing", default))
    return shown


def beside(node: dict[str, Any]) -> list[tuple[str, int]]:
    """(what it is, root) of another tree for the instances that reach a node."""
    names = {"alternate": "alternate tree", "option": "another option"}
    return [(text, node[key]) for key, text in names.items() if key in node]


def _heading(root: dict[str, Any], number: int | None) -> str:
    """The line of a root. number : of one among several. Members of ensembles have their own."""
    if root.get("background"):
        title = "growing in the background"
    elif "member" in root:
        title = f"member {root['member']}" + "".join(f", {how}" for how in ("frozen", "resting") if root.get(how))
        title += f", weight {root['share']:.3f} in the pool" if "share" in root else ""
        title += f", {root['accuracy']:.1%} right" if "accuracy" in root else ""
        title += f", error {root['error']:.4g}" if "error" in root else ""
    elif edges(root):
        return "" if number is None else f"tree {number}"
    else:
        return _content(root)
    return title if edges(root) else f"{title}: {_content(root)}"


def tree_lines(nodes: list[dict[str, Any]]) -> Iterator[str]:
    """The nodes of a model (named) as an indented tree, or its parts as a list. Iterative: trees may be deep."""
    if not nodes:
        yield "(nothing yet)"
        return
    by_id = {node["id"]: node for node in nodes}
    parts: dict[Any, list[dict[str, Any]]] = {}
    for node in nodes:
        parts.setdefault(node.get("parent"), []).append(node)
    # (line, node, prefix of the lines below)
    roots = parts.get(None, [])
    stack = [(_heading(root, i if len(roots) > 1 else None), root, "") for i, root in enumerate(roots, 1)][::-1]
    while stack:
        line, node, prefix = stack.pop()
        if line:
            yield line
        branches = edges(node) + beside(node)
        if branches:
            below = [(text, by_id[child]) for text, child in branches]
        else:
            below = [(_title(part), part) for part in parts.get(node["id"], [])]
        rows = []
        for i, (text, child) in enumerate(below):
            last = i == len(below) - 1
            content = "" if edges(child) else f": {_content(child)}"
            rows.append(
                (f"{prefix}{'└─ ' if last else '├─ '}{text}{content}", child, prefix + ("   " if last else "│  "))
            )
        stack.extend(reversed(rows))


def _drift(found: Mapping[str, Any]) -> list[str]:
    """What detectors saw, one line per signal, and what was done."""
    lines = []
    for signal in dict.fromkeys(entry["signal"] for entry in found["drift"]):
        entries = [entry for entry in found["drift"] if entry["signal"] == signal]
        counts = ", ".join(f"{entry['events']:,} × {entry['level']} ({entry['detector']})" for entry in entries)
        last = datetime.fromtimestamp(max(entry["last"] for entry in entries) / 1000.0, UTC)
        lines.append(f"drift of the {signal}: {counts}, last at {last:%Y-%m-%d %H:%M:%S} UTC")
    done = ", ".join(f"{n:,} × {action}" for action, n in found["reactions"].items() if n)
    return [*lines, *([f"fresh models: {done}"] if done else [])]


def _quality(found: Mapping[str, Any]) -> Iterator[str]:
    """What labels said of the predictions: of the last ones, or with the past fading, and of all."""
    recent, whole, fading = found["recent"], found["metrics"], found["fading"]
    lately = f"the last {recent['n']:,} labels" if fading is None else f"labels with the past fading by {fading:g}"
    for which, figures in ((lately, recent), (f"all {whole['n']:,} labels", whole)):
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in figures.items() if name != "n")
        if shown:
            yield f"on {which}: {shown}"
    if found["unknown"]:
        yield f"of all, {found['unknown']:,.0f} were predicted when no class was known yet, and count as wrong"


def _shares(goes_by: Mapping[str, float]) -> str:
    shown = [f"{name} {share:.1%}" for name, share in list(goes_by.items())[:SHOWN_FEATURES] if share > 0.0]
    rest = sum(share > 0.0 for share in list(goes_by.values())[SHOWN_FEATURES:])
    return ", ".join(shown) + (f", {rest} more" if rest else "")


def text(state: State, role: str) -> str:
    """A summary and the model as a tree."""
    found = summary(state, role)
    nodes, goes_by = described(state, role)
    given = ", ".join(f"{name}={value}" for name, value in found["parameters"].items())
    size = (
        f"{found['n_nodes']:,} nodes, {found['n_leaves']:,} leaves, depth {found['depth']}, "
        if found["n_nodes"]
        else ""
    )
    article = "an" if found["learner"][0] in "aeiou" else "a"
    lines = [
        f"{found['stream']}, partition {found['partition']}: {role} is {article} {found['learner']}",
        *([given] if given else []),
        f"checkpoint {found['sequence']:,}, {found['age_seconds']:,.0f} s old, {found['checkpoint_bytes']:,} bytes: "
        f"next feature offset {found['offset']:,}, next label offset {found['label_offset']:,}",
        f"{found['instances']:,} instances, {found['counters']['joined']:,} learned, {found['waiting']:,} waiting",
        f"{size}{found['state_bytes']:,} bytes of state",
        *_quality(found),
        *([f"importance: {_shares(goes_by)}"] if goes_by else []),
        *_drift(found),
        "",
        *tree_lines(nodes),
    ]
    return "\n".join(lines)


# json and dot --------------------------------------------------------------------------------------------------------


def as_json(state: State, role: str) -> str:
    """Summary and nodes as one JSON object."""
    nodes, goes_by = described(state, role)
    return json.dumps({**summary(state, role), "importance": goes_by, "nodes": nodes})


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def dot(state: State, role: str) -> str:
    """The model as a Graphviz digraph: `riparian inspect … --format dot | dot -Tsvg`."""
    nodes, _ = described(state, role)
    found = summary(state, role)
    title = f"{found['stream']}, partition {found['partition']}: {role} ({found['learner']}) at {found['offset']}"
    lines = [
        f"digraph {_quoted(found['stream'])} {{",
        f"  label={_quoted(title)};",
        '  node [shape=box, fontname="sans"];',
    ]
    linked: set[int] = set()
    for node in nodes:
        branches = edges(node)
        label = str(node.get("feature", "gate")) if branches else _content(node)
        if "loss" in node:
            label = f"{_title(node)}: {label}"
        elif not branches and "feature" in node:
            label = f"{node['feature']}: {label}"
        shape = "" if branches else ", style=rounded"
        lines.append(f"  n{node['id']} [label={_quoted(label)}{shape}];")
        for condition, child in branches:
            linked.add(child)
            lines.append(f"  n{node['id']} -> n{child} [label={_quoted(condition)}];")
        for text, root in beside(node):
            linked.add(root)
            lines.append(f"  n{node['id']} -> n{root} [label={_quoted(text)}, style=dashed];")
    for node in nodes:  # parts hang on their root without a condition; a tree says which one it is
        if node.get("parent") is not None and node["id"] not in linked:
            label = f" [label={_quoted(_title(node))}]" if "stage" in node else ""
            lines.append(f"  n{node['parent']} -> n{node['id']}{label};")
    return "\n".join([*lines, "}"])


def check_role(spec: Spec, role: str, known: Iterable[str]) -> None:
    """SpecError unless a model of this name is known."""
    if role not in known:
        raise SpecError(f"the stream {spec.name} has no model {role!r}: give one of {', '.join(known)}")
