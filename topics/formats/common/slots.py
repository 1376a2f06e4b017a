"""What a stream maps of records that have schemas: a slot for each field, and where a schema does not fit."""

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from riparian.topics import records as r
from riparian.topics.decoding.envelopes import DEBEZIUM, OP, ROW
from riparian.topics.decoding.paths import dotted
from riparian.topics.records import Mapping, Path

# What a slot holds; in brackets what it may be in a record.
ID = "a text or a whole number"
TIME = "a time, a number or a text"
SCALAR = "a text, an enum, a number or a boolean"
NUMBER = "a number"  # a numeric feature
TARGET = "a number "  # the label of a regression
FLAG = "a boolean"
OBJECT = "a record or a map"  # holds True where it is there
BAG = "a list of records"

IN_TEXT = "`text: true` takes numbers that are texts"  # where a text stands for a number
TEXTS = ("a string", "a text")  # as sentences call them

MOST_NAMES = 500  # names of a schema that are looked at for a hint
_MOST_NAME = 64  # characters: how alike two are takes time in proportion to the product
_MOST_WRONG = 5  # types in a sentence


class Slot(NamedTuple):
    """owner : the field of the stream file that maps it. reason : why a record is rejected where it is of a wrong
    type. in_text : as in `Feature`."""

    owner: str
    path: Path
    kind: str
    reason: str = r.WRONG_TYPE
    in_text: bool = False

    @property
    def takes_decimals(self) -> bool:
        return self.in_text or self.kind in (NUMBER, TARGET)


class SchemaMismatch(NamedTuple):
    """Where a schema does not fit a stream file. missing : the field is not there at all; otherwise its type is wrong,
    in some records at least if `partly`."""

    slot: Slot
    missing: bool
    partly: bool
    sentence: str

    @property
    def optional(self) -> bool:
        """Whether records can do without the field."""
        return self.slot.owner.startswith("features.") or self.slot.owner in ("record.time", "record.y", "label.time")


def in_text(slot: Slot, *found: str) -> str:
    """What a sentence adds where texts, as `found` calls what is there, may be numbers."""
    return f"; {IN_TEXT}" if slot.kind == NUMBER and not set(found).isdisjoint(TEXTS) else ""


def lacks_all(slots: Sequence[Slot], found: Sequence[Collection[str]]) -> bool:
    """Whether a type has none of the features, though it has the object that they stand in: an event of another kind.
    found : of each slot, as in `problem`."""
    features = [types for slot, types in zip(slots, found, strict=True) if slot.owner.startswith("features.")]
    objects = [types for slot, types in zip(slots, found, strict=True) if slot.owner == "record.x"]
    return bool(features) and not any(features) and all(objects)


class RejectedRecordError(Exception):
    """A record that cannot be used: reason and detail."""


NO_FEATURES = "none of the features is in {}, so it is a record of another kind"
_KINDS = {r.NUMERIC: NUMBER, r.BOOLEAN: FLAG}


def of_labels(mapping: Mapping) -> list[Slot]:
    """The slots of label records."""
    slots = _named(("label.id", mapping.label_id, ID), ("label.time", mapping.label_time, TIME))
    return [*slots, _label("label.y", mapping, mapping.label_y)] if mapping.label_y else slots


def of_features(mapping: Mapping) -> tuple[list[Slot], list[Slot] | None]:
    """The slots of feature records, and those of each instance where these are bags."""
    slots = _named(("record.id", mapping.id, ID), ("record.time", mapping.time, TIME))
    if mapping.y is not None:
        slots.append(_label("record.y", mapping, mapping.y))
    kinds = [SCALAR if f.is_scalar else _KINDS[f.type] for f in mapping.features]
    features = [
        Slot(f"features.{f.name}", f.path, kind, in_text=f.in_text)
        for f, kind in zip(mapping.features, kinds, strict=True)
    ]
    if mapping.task == r.MULTI_INSTANCE:
        return [*slots, Slot("record.x", mapping.x, BAG)], features
    n = len(mapping.x)
    holds = n > 0 and any(feature.path[:n] == mapping.x for feature in mapping.features)
    return [*slots, *([Slot("record.x", mapping.x, OBJECT)] if holds else []), *features], None


def of_envelope(owner: str, envelope: str | None, slots: Sequence[Slot]) -> list[Slot]:
    """What has to be read besides to see whether a record is an instance. owner : "record" or "label"."""
    if envelope != DEBEZIUM:
        return []
    there = {slot.path for slot in slots}
    asked = ((OP, SCALAR), (ROW[DEBEZIUM], OBJECT))
    return [Slot(f"{owner}.envelope", path, kind, r.WRONG_ENVELOPE) for path, kind in asked if path not in there]


def _named(*owned: tuple[str, Path | None, str]) -> list[Slot]:
    reasons = {TIME: r.WRONG_TIME}
    return [Slot(owner, path, kind, reasons.get(kind, r.WRONG_TYPE)) for owner, path, kind in owned if path is not None]


def _label(owner: str, mapping: Mapping, path: Path) -> Slot:
    return Slot(owner, path, TARGET if mapping.task in r.VALUES else SCALAR, r.WRONG_LABEL)


def hint(name: str, names: Sequence[str]) -> str:
    """What may be meant by a name that is not there; "" where none of these is like it."""
    likely = [one for one in names[:MOST_NAMES] if len(one) <= _MOST_NAME]
    close = difflib.get_close_matches(name, likely, n=1) if len(name) <= _MOST_NAME else []
    return f'did you mean "{close[0]}"?' if close else ""


def names_in(top: Any, of: Callable[[Any], tuple[Iterable[str], Iterable[Any]]]) -> list[str]:
    """Names of the fields of a type, some levels deep. of : a type -> names of its fields, and the types in it."""
    names, left = list[str](), [(top, 0)]
    while left and len(names) < MOST_NAMES:
        one, depth = left.pop()
        if depth < 6:
            fields, inner = of(one)
            names += islice(fields, MOST_NAMES - len(names))
            left += [(each, depth + 1) for each in inner]
    return names


def problem(slot: Slot, found: set[str], name: str, names: Callable[[], Sequence[str]]) -> list[SchemaMismatch]:
    """What is wrong about a slot, if anything is.

    Parameters
    ----------
    found : the types that the schema has there, as a sentence calls them; "" for one that fits. Empty: no such field.
    name : of the schema.
    names : gives names of fields of the schema, for a hint.
    """
    path, wrong = dotted(slot.path), sorted(found - {""})[:_MOST_WRONG]
    if not found:
        cure = hint(slot.path[-1], names()) if slot.path else ""
        cure = cure or "name a field that it has"
        return [
            SchemaMismatch(
                slot, True, False, f'{slot.owner}: expected the field "{path}" in {name}, found none; {cure}'
            )
        ]
    if not wrong:
        return []
    some = f"; records with {'that' if len(wrong) == 1 else 'these'} are rejected" if "" in found else ""
    cure = "map another field"
    if slot.kind in (NUMBER, FLAG):
        cure = "declare the feature of another type, or map another field by from" + in_text(slot, *wrong)
    sentence = (
        f'{slot.owner}: expected {slot.kind.strip()} at "{path}" of {name}, found {" and ".join(wrong)}{some}; {cure}'
    )
    return [SchemaMismatch(slot, False, "" in found, sentence)]
