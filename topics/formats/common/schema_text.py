"""The text of a registry's schema within bounds, before anything is made of it.

Whoever may register a schema chooses its text. How long it is, how many parts it has and how deep these lie is counted
in the text, so that what a parser does with it is bounded whatever it holds, and the same wherever it is parsed.
"""

import json
from typing import Any

from riparian.topics.formats.common.json_text import MAX_DEPTH, too_deep
from riparian.topics.schemas import MAX_SCHEMA, RegisteredSchema, UnusableError

MOST_PARTS = 100_000  # fields, types, names and values of a JSON text


def check(schema: RegisteredSchema, kind: str) -> None:
    """UnusableError where a schema is not of this kind, or too large with what it refers to."""
    if schema.flaw:
        raise UnusableError(schema.flaw)
    if schema.kind != kind:
        raise UnusableError(f"it is a schema of {schema.kind}, not of {kind}")
    if schema.size > MAX_SCHEMA:
        beside = " with what it refers to" if schema.references else ""
        raise UnusableError(f"it has {schema.size} characters{beside}, at most {MAX_SCHEMA:,}")


def content(text: str) -> Any:
    """The JSON of a schema. UnusableError where it is none, or too much."""
    parts = text.count(",") + text.count("[") + text.count("{")
    if parts > MOST_PARTS:
        raise UnusableError(f"it has {parts:,} parts, at most {MOST_PARTS:,}")
    if too_deep(text.encode("utf-8", "surrogatepass")):
        raise UnusableError(f"it is nested too deeply, more than {MAX_DEPTH} levels")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"it is no JSON ({str(error)[:100]})") from None
