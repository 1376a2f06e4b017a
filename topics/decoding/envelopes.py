"""Envelopes: records in which the row stands inside of what change data capture, Kafka Connect or CloudEvents write.

The paths of a stream file begin at the row; `@envelope:source.ts_ms` is a field of what stands around it. `placed`
makes of both a path from the top of the record, so that everything behind it knows plain paths only.

- `debezium`: `{"before", "after", "op", …}`, also as the `payload` beside a `schema`. Created, read and updated rows
  are instances. Deletes, tombstones and events that are about no row are passed over.
- `connect`: `{"schema", "payload"}`, as Kafka Connect's JsonConverter writes it. Tombstones are passed over.
- `cloudevents`: an event with its `data`, or data with the event in headers (`ce_id`, `ce_time`, …).
"""

from typing import NamedTuple

from riparian.topics import records as r
from riparian.topics.records import HEADER, Path

DEBEZIUM, CONNECT, CLOUDEVENTS = "debezium", "connect", "cloudevents"
ENVELOPES = (DEBEZIUM, CONNECT, CLOUDEVENTS)
AROUND = "@envelope:"

OP, SPECVERSION = ("op",), ("specversion",)  # without these it is no such envelope
ROW: dict[str, Path] = {DEBEZIUM: ("after",), CONNECT: (), CLOUDEVENTS: ("data",)}
_INSTANCES = frozenset(("c", "r", "u"))
_NO_ROWS = {"t": "the table was truncated", "m": "a message that is about no row"}


class Ignored(NamedTuple):
    """Why a record is no instance and no mistake either, in place of a reason for rejection."""

    reason: str
    detail: str


def placed(path: Path, envelope: str | None) -> Path:
    """A path of the stream file as a path from the top of the record. ValueError where there is no such place."""
    if not path or not path[0].startswith(AROUND):
        in_header = bool(path) and path[0].startswith(HEADER)
        return path if envelope is None or in_header else (*ROW[envelope], *path)
    name = path[0][len(AROUND) :]
    if envelope is None or envelope == CONNECT:
        raise ValueError(
            f'expected a path into the row, found "{".".join(path)}"; only the envelopes {DEBEZIUM} and {CLOUDEVENTS} '
            "have fields of their own"
        )
    found = (name, *path[1:])
    below_text = len(found) > 1 and found[:1] in (OP, SPECVERSION)
    if name in ("", "payload", "schema") or below_text or found == ROW[envelope]:
        raise ValueError(f'expected a field of the envelope, found "{".".join(path)}"; write {AROUND}NAME')
    return found


def ignores_tombstones(envelope: str | None) -> bool:
    """Whether a record without a value is a row's end, and no mistake."""
    return envelope in (DEBEZIUM, CONNECT)


def judged(op: str | None, has_row: bool) -> Ignored | tuple[str, str] | None:
    """Why a change of Debezium's is no instance, or is none of Debezium's; None where it is one."""
    if op == "d":
        return Ignored(r.DELETE, "the row was deleted")
    if op in _NO_ROWS:
        return Ignored(r.NO_ROW, _NO_ROWS[op])
    if op is not None and op not in _INSTANCES:
        return r.WRONG_ENVELOPE, f"op: expected c, r, u, d, t or m, found {op[:40]!r}"
    if not has_row:
        return r.WRONG_ENVELOPE, "after: the row is missing"
    return None
