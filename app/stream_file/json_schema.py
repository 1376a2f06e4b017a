"""The JSON Schema of a stream file, made from the classes that validate it: `riparian check --schema` prints it."""

from typing import Any

from riparian.app.stream_file.sections.models import AUTO
from riparian.app.stream_file.sections.record import PASTS
from riparian.app.stream_file.spec import Spec
from riparian.models.auto import auto
from riparian.models.drift import DETECTORS
from riparian.models.entry import Parameter
from riparian.models.registry import REGISTRY

_JSON_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", dict: "object"}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a stream file, with the parameters of every learner."""
    schema = Spec.model_json_schema(by_alias=True)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Riparian stream file",
    }
    definitions = schema["$defs"]
    definitions["ModelSpec"] = _model_schema(definitions["ModelSpec"])
    del schema["properties"]["learning"]["default"]  # it depends on other fields
    champion = schema["properties"]["champion"]
    champion["default"] = AUTO
    of_auto = {p.name: _parameter_schema(p) for p in auto.PARAMETERS}
    properties = {"model": {"const": AUTO}, "on_drift": True, **of_auto}
    chosen = {"type": "object", "properties": properties, "required": ["model"], "additionalProperties": False}
    champion["anyOf"] = [{"const": AUTO}, chosen, {"$ref": champion.pop("$ref")}]
    formats = definitions["CodecSpec"]["properties"]["features"]["enum"]
    definitions["CodecSpec"] = {
        "anyOf": [{"enum": formats}, definitions["CodecSpec"]],
        "description": definitions["CodecSpec"].pop("description"),
    }
    feature = definitions["FeatureSpec"]["anyOf"][-1]
    feature["anyOf"] = [{"required": [kind]} for kind in (*feature.pop("required"), *PASTS)]
    trust = schema["properties"]["trust"]
    trust["anyOf"] = [trust["items"], {"type": trust.pop("type"), "items": trust.pop("items")}]
    definitions["DriftSpec"] = _drift_schema(definitions["DriftSpec"])
    return schema


def _drift_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """ "none", or what watches and how."""
    detectors = schema["properties"]["detectors"]
    given = {
        entry.name: {
            "type": ["object", "null"],
            "properties": {p.name: _parameter_schema(p) for p in entry.parameters},
            "additionalProperties": False,
        }
        for entry in DETECTORS.values()
    }
    names = {"enum": list(DETECTORS)}
    schema["properties"]["detectors"] = {
        "description": detectors["description"],
        "default": detectors["default"],
        "anyOf": [
            names,
            {"type": "array", "items": names},
            {"type": "object", "properties": given, "additionalProperties": False},
        ],
    }
    schema["properties"]["distributions"]["anyOf"].append({"type": "boolean"})
    return {"description": schema.pop("description"), "anyOf": [{"const": "none"}, schema]}


def _model_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A learner's name, or its name and parameters: which these are depends on the name."""
    names, whole = list(REGISTRY), schema["anyOf"][-1]["properties"]
    properties = {**whole, "model": {**whole["model"], "enum": names}}
    common = dict.fromkeys(properties, True)
    choices = [
        {
            "if": {"properties": {"model": {"const": entry.name}}},
            "then": {
                "properties": {**common, **{p.name: _parameter_schema(p) for p in entry.parameters}},
                "additionalProperties": False,
            },
        }
        for entry in REGISTRY.values()
    ]
    return {
        "description": schema["description"],
        "anyOf": [
            {"enum": names},
            {"type": "object", "properties": properties, "required": ["model"], "allOf": choices},
        ],
    }


def _parameter_schema(parameter: Parameter) -> dict[str, Any]:
    kind: Any = _JSON_TYPES[parameter.type]
    schema: dict[str, Any] = {
        "type": [kind, "null"] if parameter.default is None else kind,
        "default": parameter.default,
        "description": parameter.text,
    }
    if parameter.low is not None:
        schema["minimum"] = parameter.low
    if parameter.high is not None:
        schema["maximum"] = parameter.high
    if parameter.choices:
        schema["enum"] = [*parameter.choices, *([None] if parameter.default is None else [])]
    return schema
