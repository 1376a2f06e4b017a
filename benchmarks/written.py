"""Schemas by which the records of a stream can be written, in every format of a registry: for what measures or tests
all of them. And rows for such a stream."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.dataset.files.data import BLOCK, Floats
from riparian.app.dataset.rows import numbers
from riparian.app.stream_file.spec import Spec
from riparian.topics import records as r
from riparian.topics.codecs import REGISTERED, Formats
from riparian.topics.records import BOOLEAN, CLASSIFICATION, NUMERIC, VALUES, Mapping, Path, Rows
from riparian.topics.schemas import AVRO, JSON, PROTOBUF, RegisteredSchema, Schemas, Written

_TYPES = {r.NUMERIC: "number", r.NOMINAL: "text", r.BOOLEAN: "truth"}


def tell(schemas: Schemas, formats: Formats, mapping: Mapping) -> None:
    """What a registry would tell of a stream's records: schemas that have all that it maps, and may be null."""
    label = "number" if mapping.task in r.VALUES else "text"
    features = {feature.path: _TYPES[feature.type] for feature in mapping.features}
    kinds: dict[str, dict[Path, str]] = {
        "features": _places((mapping.id, "text"), (mapping.time, "time"), (mapping.y, label)) | features,
        "labels": _places((mapping.label_id, "text"), (mapping.label_time, "time"), (mapping.label_y or None, label)),
    }
    for number, (role, places) in enumerate(kinds.items(), 1):
        codec = getattr(formats, role)
        if codec in REGISTERED:
            schema = _MADE[codec](_tree(places))
            schemas.known[number] = schema
            schemas.written[role] = Written(number, schema)


def _places(*named: tuple[Path | None, str]) -> dict[Path, str]:
    return {path: kind for path, kind in named if path is not None}


def _tree(places: dict[Path, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, kind in places.items():
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = kind
    return tree


def _avro(tree: dict[str, Any]) -> RegisteredSchema:
    types: dict[str, Any] = {"number": "double", "text": "string", "truth": "boolean", "time": "long"}

    def record(fields: dict[str, Any], name: str) -> Any:
        def of(field: str, kind: Any) -> Any:
            return record(kind, f"{name}_{field}") if isinstance(kind, dict) else types[kind]

        made = [{"name": field, "type": ["null", of(field, kind)]} for field, kind in fields.items()]
        return {"type": "record", "name": name, "fields": made}

    return RegisteredSchema(AVRO, json.dumps(record(tree, "R")))


def _json_schema(tree: dict[str, Any]) -> RegisteredSchema:
    types = {"number": "number", "text": "string", "truth": "boolean", "time": "integer"}

    def record(fields: dict[str, Any]) -> Any:
        made = {n: record(k) if isinstance(k, dict) else {"type": ["null", types[k]]} for n, k in fields.items()}
        return {"type": "object", "properties": made}

    return RegisteredSchema(JSON, json.dumps(record(tree)))


def _protobuf(tree: dict[str, Any]) -> RegisteredSchema:
    types = {"number": "double", "text": "string", "truth": "bool", "time": "int64"}

    def message(fields: dict[str, Any], name: str) -> str:
        inner = "".join(message(kind, f"M_{field}") for field, kind in fields.items() if isinstance(kind, dict))
        lines = "".join(
            f" optional {f'M_{field}' if isinstance(kind, dict) else types[kind]} {field} = {i};"
            for i, (field, kind) in enumerate(fields.items(), 1)
        )
        return f"message {name} {{ {inner}{lines} }}\n"

    return RegisteredSchema(PROTOBUF, f'syntax = "proto3";\n{message(tree, "R")}')


_MADE = {"avro": _avro, "json-schema": _json_schema, "protobuf": _protobuf}


def rows_of_arrays(spec: Spec, x: Floats, y: NDArray[Any], prefix: str = "", size: int = BLOCK) -> Iterator[Rows]:
    """Instances from arrays, such as models.streams makes them; codes of nominal values and classes as texts."""
    kinds = [feature.type for feature in spec.mapping().features]
    for first in range(0, len(x), size):
        part, labels = x[first : first + size], y[first : first + size].tolist()
        features = [
            numbers(part[:, j]) if kind == NUMERIC else _coded(part[:, j].tolist(), kind)
            for j, kind in enumerate(kinds)
        ]
        coded = _coded(labels, CLASSIFICATION) if spec.task not in VALUES else numbers(np.array(labels))
        ids = [f"{prefix}{i}" for i in range(first, first + len(part))]
        yield Rows(first, ids, features, [None if text == "null" else text for text in coded])


def _coded(codes: list[float], kind: str) -> list[str]:
    if kind == BOOLEAN:
        return ["null" if code != code else "true" if code else "false" for code in codes]
    return ["null" if code != code else f'"{int(code)}"' for code in codes]
