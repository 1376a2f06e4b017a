"""One sentence for each mistake in a stream file: the field, what was expected, what was found, and what to change."""

import difflib
import json
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any

from pydantic import BaseModel, ValidationError

# What pydantic calls a mistake -> what was expected. {…} are from the error's context.
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "fields of its own",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "fields of its own",
    "model_attributes_type": "fields of its own",
    "string_type": "a text",
    "string_too_short": "a text",
    "tuple_type": "a list",
    "finite_number": "a number",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "too_short": "at least {min_length} of them",
    "literal_error": "{expected}",
}
_CURES = {
    "bool_type": "write true or false",
    "int_type": "write digits only",
    "float_type": "write digits, such as 0.5",
    "list_type": "write it in brackets, such as [a, b]",
    "greater_than": "raise it",
    "greater_than_equal": "raise it",
    "less_than": "lower it",
    "less_than_equal": "lower it",
    "string_type": "put it in quotes",
    "too_short": "add them",
    "model_type": "write them below it, indented",
    "dict_type": "write them below it, indented",
}


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake of a validation, unknown fields before all others: a misspelt field is missing as well."""
    mistakes = error.errors(include_url=False)
    first = next((m for m in mistakes if m["type"] == "extra_forbidden"), mistakes[0])
    kind, context = first["type"], first.get("ctx", {})
    parts = [part for part in first["loc"] if part not in ("[key]", "[cost]")]
    where = ".".join(str(part) or '""' for part in parts)
    if kind == "extra_forbidden":
        wrong = str(parts[-1])
        return f'{where}: expected {_known(model, parts[:-1])}, found "{wrong}"; {_cure(model, parts)}'
    if kind == "missing":
        return f"{where}: expected {_wanted(model, parts)}, found nothing; add the field"
    if kind == "value_error":
        text = str(context["error"])
        return f"{where}: {text}" if where else text
    if first["loc"] and first["loc"][-1] == "[key]":
        where = ".".join(str(part) or '""' for part in parts[:-1])
        return f"{where}: expected a name, found {found(first['input'])}; put it in quotes"
    expected = _EXPECTED.get(kind, first["msg"]).format_map(_Plain(context))
    cure = _CURES.get(kind, "change it")
    if kind == "literal_error":
        expected = expected.replace("'", '"')
        close = difflib.get_close_matches(str(first["input"]), expected.split('"')[1::2], n=1)
        cure = f'did you mean "{close[0]}"?' if close else f"write {expected}"
    shown = str(context["actual_length"]) if kind == "too_short" else found(first["input"])
    if first["input"] is None and kind in ("string_type", "int_type", "float_type", "bool_type", "list_type"):
        cure = "write it, or remove the line"
    return f"{where}: ".removeprefix(": ") + f"expected {expected}, found {shown}; {cure}"


class _Plain(dict[str, Any]):
    """Context of an error, with whole floats written as integers."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return int(value) if isinstance(value, float) and value.is_integer() else value


def found(value: Any) -> str:
    """A value as a sentence shows it."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "fields of its own" if value else "no fields"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= 60 else shown[:57] + "…"


def _fields(model: type[BaseModel], parts: list[Any]) -> dict[str, Any]:
    """The fields of the model that `parts` leads to, by the name that the file uses."""
    annotation: Any = model
    for part in parts:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            by_name = {f.alias or name: f for name, f in annotation.model_fields.items()}
            annotation = by_name[str(part)].annotation
            if isinstance(annotation, UnionType):  # a part that may be null
                annotation = next(kind for kind in annotation.__args__ if kind is not type(None))
            continue
        # A dict of models: the value's type, whatever the name.
        annotation = getattr(annotation, "__args__", (None,))[-1]
    return {f.alias or name: f for name, f in annotation.model_fields.items()}


def _known(model: type[BaseModel], parts: list[Any]) -> str:
    names = list(_fields(model, parts))
    return "one of the fields " + ", ".join(names) if len(names) < 8 else "a field of a stream file"


def _cure(model: type[BaseModel], parts: list[Any]) -> str:
    names = list(_fields(model, parts[:-1]))
    close = difflib.get_close_matches(str(parts[-1]).lower(), names, n=1)
    if close:
        return f'did you mean "{close[0]}"?'
    return "remove it" if len(names) < 8 else f"use {', '.join(names[:-1])} or {names[-1]}"


def _wanted(model: type[BaseModel], parts: list[Any]) -> str:
    field = _fields(model, parts[:-1]).get(str(parts[-1]))
    text = (field.description or "") if field is not None else ""
    words = re.split("[:.,]", text)[0]
    return f"the {words[0].lower()}{words[1:]}" if words else "a value"
