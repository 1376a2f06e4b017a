"""The columns of a stream whose features have changed while it ran. Pure.

A feature keeps its column for good: models know features by their places. One that the stream file names no more is
*gone*, and missing in every record from there on; a new one is appended. So a state knows more features than the file
may name, in an order of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from pydantic import ValidationError

from riparian.app.stream_file.lineup import digest
from riparian.app.stream_file.sections.base import Section
from riparian.app.stream_file.sections.keys import KeySpec
from riparian.app.stream_file.sections.record import FeatureSpec, name_keys
from riparian.app.stream_file.spec_errors import sentence
from riparian.topics import records

F = TypeVar("F", bound=Section)

MOST_COLUMNS = 100_000  # columns that a stream may come to have
KEPT = "features do not change while a stream with {} runs: give the new features to a stream of another name"


class Columns(msgspec.Struct):
    """The features that a state has, once a command has changed them.

    features : name -> as a stream file has it, in the order of the columns. gone : those that no file names any more
    files : `digest_of` the stream files that these take the place of, the stream's first one first
    knows : role of a model -> columns that it knows; left out where it knows all
    keys : all that there have been, name -> as a stream file has it
    """

    features: dict[str, dict[str, Any]]
    gone: list[str]
    files: list[str]
    knows: dict[str, list[int]] = {}
    keys: dict[str, dict[str, Any]] = {}


def _written(one: Section) -> dict[str, Any]:
    return one.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)


def _valid(kind: type[F], field: str, given: Mapping[str, Any]) -> dict[str, F]:
    """Entries of a field of the stream file. ValueError where one is none."""
    found = {}
    for name, one in given.items():
        try:
            found[name] = kind.model_validate(one)
        except ValidationError as error:
            raise ValueError(f"{field}.{name}: {sentence(error, kind)}") from None
    return found


def plain_keys(keys: Mapping[str, KeySpec]) -> dict[str, dict[str, Any]]:
    """Keys as a stream file may say them; `read_keys` takes it."""
    return {name: _written(one) for name, one in keys.items()}


def read_keys(given: Mapping[str, Any]) -> dict[str, KeySpec]:
    """Keys that a command or a state describes. ValueError where they are none."""
    return _valid(KeySpec, "keys", given)


def plain(features: Mapping[str, FeatureSpec]) -> dict[str, dict[str, Any]]:
    """Features as a stream file may say them; `read` takes it."""
    return {name: {"type": one.type, **_written(one)} for name, one in features.items()}


def read(given: Mapping[str, Any]) -> dict[str, FeatureSpec]:
    """Features that a command or a state describes. ValueError where they are none."""
    name_keys(given)
    found = _valid(FeatureSpec, "features", given)
    if not 1 <= len(found) <= MOST_COLUMNS:
        raise ValueError(f"features: expected 1 to {MOST_COLUMNS:,}, found {len(found):,}; name some")
    return found


def digest_of(features: Mapping[str, FeatureSpec]) -> str:
    """Of their names and types, whatever their order."""
    return digest({name: one.type for name, one in features.items()})


def hash_of(features: Iterable[tuple[str, FeatureSpec]]) -> str:
    """Of their names and types, in order."""
    return digest([[name, one.type] for name, one in features])


def unfit(spec: Any, was: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Why features cannot change so while a stream runs; None where they can. was, now : name -> type."""
    if spec.task == records.MULTI_INSTANCE:
        return KEPT.format(f"task: {spec.task}")
    for name in was:
        if now.get(name, was[name]) != was[name]:
            return f"features.{name} was {was[name]}, is {now[name]}: a model knows it as it was; give it another name"
    return None


def changed(
    spec: Any, given: Mapping[str, FeatureSpec], keys: Mapping[str, KeySpec], known_keys: Mapping[str, KeySpec]
) -> Any:
    """The stream whose file names these features and keys from here on; keys that it has go on by its own bounds.
    known_keys : that there have been. ValueError where that cannot be while it runs."""
    known: dict[str, FeatureSpec] = spec.features
    other = next((name for name, key in keys.items() if known_keys.get(name, key).from_ != key.from_), None)
    if other is not None:
        raise ValueError(f"keys.{other} stood elsewhere: what models know is of what it was; give it another name")
    why = unfit(spec, {n: one.type for n, one in known.items()}, {n: one.type for n, one in given.items()})
    if why is not None:
        raise ValueError(why)
    columns = dict(known)
    for name, one in given.items():
        before = known.get(name)
        if before is None:
            columns[name] = one
        elif before.written() != one.written():
            raise ValueError(
                f"features.{name} was otherwise over its key's past, and a model knows it as it was; give it another "
                "name"
            )
        elif name in spec.gone and (before.values, before.max_values) != (one.values, one.max_values):
            raise ValueError(
                f"features.{name} had other values when it was dropped; restore them, or give it another name"
            )
        elif name in spec.gone:
            columns[name] = one
    if len(columns) > MOST_COLUMNS:
        raise ValueError(
            f"features: expected {MOST_COLUMNS:,} at most, with those that were dropped; use another stream"
        )
    return spec.with_columns(columns, frozenset(known.keys() - given.keys()), {**keys, **spec.keys})


def remembered(
    spec: Any, left: Mapping[str, Any], by_commands: bool = False
) -> tuple[dict[str, FeatureSpec], frozenset[str], dict[str, KeySpec]] | None:
    """The columns of a state, which are gone, and its keys, for a stream file that says them as they are now, or that
    they take the place of, or where commands alone change them; None for one that says others. left : a state's
    `Columns`, plain. by_commands : whether commands alone do. ValueError where it is none."""
    found = msgspec.convert(left, Columns)
    columns, gone = read(found.features), frozenset(found.gone)
    there = {name: one for name, one in columns.items() if name not in gone}
    if not there or not gone <= columns.keys():
        raise ValueError("the columns of its features are damaged")
    now: Mapping[str, FeatureSpec] = spec.features
    if digest_of(there) == digest_of(now):  # the file's own words count: paths, values
        return {name: now.get(name, one) for name, one in columns.items()}, gone, spec.keys
    keys = {**read_keys(found.keys), **spec.keys}
    return (columns, gone, keys) if by_commands or digest_of(now) in found.files else None


def beyond_types(features: Mapping[str, FeatureSpec]) -> dict[str, dict[str, Any]]:
    """Of features what a stream file may say besides their types, where it says more."""
    return {name: one for name, one in plain(features).items() if len(one) > 1}


def not_yet_applied(spec: Any, was: Mapping[str, str], left: Mapping[str, Any] | None) -> dict[str, FeatureSpec] | None:
    """The features of a state, where this stream file has others, which no command has applied yet; None where it has
    the same, or not all of them are known. was : name -> type. left : a state's `beyond_types`."""
    now: Mapping[str, FeatureSpec] = spec.features
    kept = {name: now[name] for name, kind in was.items() if name in now and now[name].type == kind}
    if list(kept) == list(now) or (len(kept) < len(was) and left is None):
        return None
    further = {name: (left or {}).get(name, {"type": kind}) for name, kind in was.items() if name not in kept}
    known = kept | (read(further) if further else {})
    return {name: known[name] for name in was} or None


def of_state(spec: Any, was: Mapping[str, str]) -> tuple[dict[str, FeatureSpec], frozenset[str], Mapping[str, KeySpec]]:
    """Those that a state would have once this stream file is applied to it. was : its columns, name -> type."""
    now: Mapping[str, FeatureSpec] = spec.features
    columns = {name: now.get(name) or FeatureSpec.model_validate({"type": kind}) for name, kind in was.items()}
    return (
        columns | {name: one for name, one in now.items() if name not in was},
        frozenset(was.keys() - now.keys()),
        spec.keys,
    )


def known_columns(knows: Mapping[str, Sequence[int]], role: str | None, n: int) -> list[int] | None:
    """Which of n columns a state's model knows; None: all. ValueError where they are not columns in order."""
    found = None if role is None else knows.get(role)
    if found is None:
        return None
    if not found or sorted({*found}) != [*found] or not 0 <= found[0] <= found[-1] < n:
        raise ValueError(f"the columns that {role} knows are not those of {n} features")
    return [*found]
