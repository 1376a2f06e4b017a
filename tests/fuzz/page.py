"""Hostile records in the output topics, as the live page reads them: it takes each or counts it, goes on, stays small,
says what is there as JSON, and finds all of it again after a restart.

A case is what `Watch` is given, as JSON: of each record the role of its topic, its value and headers (latin-1), its
timestamp and its partition.
"""

import json
import math
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from riparian.app.kafka.connection import Connection
from riparian.app.page import summary
from riparian.app.page.history import TIERS
from riparian.app.page.server import as_columns
from riparian.app.page.store import Store
from riparian.app.page.view import EVENTS, LETTERS, OTHERS, StreamView
from riparian.app.page.watch import Watch
from riparian.app.retries import mark
from riparian.app.stream_file.spec import build
from riparian.topics import names
from riparian.topics.commands import EventRecord
from riparian.topics.records import DriftRecord, MetricsRecord, PartitionRecord, Shift
from tests.fuzz import mutate
from tests.fuzz.mutate import Random, pick
from tests.fuzz.target import Target

NOW = 1_790_000_000_000
_PARTITIONS = 2
_SPEC = {
    "name": "fuzz",
    "task": "classification",
    "partitions": _PARTITIONS,
    "features": {"a": "numeric"},
    "champion": "last-label",
    "challengers": {"nb": "majority-class"},
}
_TIMES = (NOW, NOW - 5000, NOW - 3_600_000, NOW - 8 * 86_400_000, 0, -1, -(2**63), NOW + 10**6, 2**62, 2**63 - 1)
_MODELS = ("champion", "nb", "second", "", "\x1b[31m", "x" * 300)
_NUMBERS = (
    *("1" + "0" * 400, "9" * 5000, "1e400", "1e308", "-1e308", "1e-308", "5e-324", "-1", "0", "0.0", "null"),
    *(str(2**63), str(2**63 - 1), str(-(2**63)), str(2**53), str(2**50), str(2**31), str(2**62), "1e15", '"7"'),
)
_NUMBER = re.compile(rb"(?<=[:,\[])-?[0-9][0-9.e-]*")
_MOST_LENGTH = 1_000_000  # of a status


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    key: bytes | None = None


def _report(rng: Random) -> Any:
    time, partition = NOW - 1000 * int(rng.integers(60)), int(rng.integers(_PARTITIONS))
    n = int(rng.integers(10**6))
    if rng.random() < 0.5:
        started = NOW - 10**6 - int(rng.integers(2))
        return PartitionRecord(
            "fuzz", partition, time, started, "here:6066", "1", n, n, n, n, n, 0, {"features": 0}, 1000, 1.0, 1.0, 0.01,
            0.02, 0.5, {"not-json": 1}, ["champion"],
        )  # fmt: skip
    role = pick(rng, _MODELS)
    compared = {
        **{"labels": n, "since": 0, "difference": 0.1, "low": 0.05, "high": 0.15, "champion": 0.2, "confidence": 0.95},
        **{"reach": 1.0, "error": 0.05, "total_labels": n, "total_difference": 0.1, "total_variance": 0.1},
        **{"total_champion": 0.2, "total_begun": 1},
    }
    return MetricsRecord(
        "fuzz", partition, time, role, "last-label", n, n, n, {"accuracy": 0.9}, {"accuracy": 0.8, "kappa": None},
        counters={"expired": 3}, size={"n_nodes": 3, "n_bytes": 100}, estimated={"accuracy": 0.7, "error": 0.1},
        comparison=None if role == "champion" else compared,
    )  # fmt: skip


def _drift(rng: Random) -> Any:
    shift = Shift("values", 1e-9, 0.3, 0.8, [5, 4], [4, 5], 0.5, [0.0, 1.0], ["a", 1])
    return DriftRecord(
        "fuzz", int(rng.integers(_PARTITIONS)), 3, "error", "adwin", 5, 5, NOW, 90, pick(rng, (*_MODELS, None)),
        pick(rng, ("drift", "warning", None)), pick(rng, ("reset", "replaced", None)), 0.1, 0.3,
        shift=shift if rng.random() < 0.3 else None,
    )  # fmt: skip


def _event(rng: Random) -> Any:
    what = pick(rng, ("promote", "pause", "resume", "demote"))
    return EventRecord(
        "fuzz", int(rng.integers(_PARTITIONS)), 0, pick(rng, ("applied", "refused", "proposed")), what, 3, 3, NOW,
        "it was done", {"champion": "last-label"}, "id", 4, "me", NOW, pick(rng, _MODELS),
    )  # fmt: skip


def _hostile(rng: Random, value: Any) -> bytes:
    """A worker's record, as it is, or with one thing in it that no worker writes."""
    data, kind = msgspec.json.encode(value), rng.random()
    if kind < 0.5:  # a number, some of which JSON alone can hold
        places = [found.span() for found in _NUMBER.finditer(data)]
        start, stop = places[int(rng.integers(len(places)))]
        return data[:start] + pick(rng, _NUMBERS).encode() + data[stop:]
    if kind < 0.7:
        found = mutate.of_value(rng, msgspec.json.decode(data))
        return json.dumps(found).encode("utf-8", "surrogatepass")
    return mutate.of_bytes(rng, data) if kind < 0.8 else data


def _headers(rng: Random) -> list[tuple[str, bytes | None]]:
    if rng.random() < 0.2:
        return [(names.HEADER_RETRIED, pick(rng, (mark([3, 4, 9]), b"9-3", b"5," * 30_000, b"\xff", None)))]
    reason = pick(rng, ("not-json", "wrong-type", "made up", "", "r" * 5000))
    found: list[tuple[str, bytes | None]] = [
        (names.HEADER_TOPIC, b"fuzz.features"),
        (names.HEADER_PARTITION, b"1"),
        (names.HEADER_OFFSET, b"12"),
        (names.HEADER_REASON, reason.encode()),
        (names.HEADER_DETAIL, b"why"),
    ]
    for _ in range(int(rng.integers(3))):
        i = int(rng.integers(len(found)))
        strange = (None, b"", b"\xff", b"-1", str(2**63).encode(), b"9" * 5000, b"1e9", b"x" * 3000)
        found[i] = found[i][0], pick(rng, strange)
    return found


class Page(Target):
    """The topics that a page follows."""

    seconds, megabytes, budget = 5.0, 300, 40

    def prepare(self) -> None:
        self.spec = build(_SPEC, "fuzz")
        self.steered = build(_SPEC | {"control": True}, "fuzz")
        self.run(b"[]")

    def make(self, rng: Random) -> bytes:
        records = []
        for _ in range(int(rng.integers(1, 40))):
            role = pick(rng, (names.METRICS, names.METRICS, names.DRIFT, names.DEADLETTERS, names.EVENTS))
            timestamp = int(pick(rng, _TIMES)) if rng.random() < 0.5 else NOW
            headers: list[tuple[str, bytes | None]] = []
            if role == names.DEADLETTERS:
                value, headers = pick(rng, (b"{", b"\xff" * 500, None)), _headers(rng)
            else:
                made = {names.METRICS: _report, names.DRIFT: _drift, names.EVENTS: _event}[role](rng)
                value = _hostile(rng, made) if rng.random() < 0.9 else pick(rng, (None, b"", b"[" * 100_000))
            text = None if value is None else value.decode("latin-1")
            told = [[name, None if one is None else one.decode("latin-1")] for name, one in headers]
            records.append([role, text, told, timestamp, int(rng.integers(_PARTITIONS))])
            if rng.random() < 0.02:  # a flood of names
                flood = (str(text).replace("nb", f"m{k}").replace("second", f"m{k}") for k in range(200))
                records += [[role, one, told, timestamp + k, 0] for k, one in enumerate(flood)]
        return json.dumps(records).encode()

    def run(self, case: bytes) -> None:
        warnings.simplefilter("error")
        records = json.loads(case)
        for spec in (self.spec, self.steered):
            topics = spec.outputs
            given = [
                Record(topics[role], partition, i, time, _bytes(value), tuple((n, _bytes(v)) for n, v in headers))
                for i, (role, value, headers, time, partition) in enumerate(records)
                if role in topics
            ]
            with tempfile.TemporaryDirectory() as folder:
                self._page(spec, given, Path(folder))

    def _page(self, spec: Any, given: list[Record], folder: Path) -> None:
        view = StreamView(spec, clock=lambda: NOW)
        with Store(folder / "a.sqlite") as store:
            watch = Watch([view], Connection("127.0.0.1:9"), store)
            watch.progress = None
            for record in given:
                watch._take(record)
            _look(view)
            watch.save()
            again = StreamView(spec, clock=lambda: NOW)
            Watch([again], Connection("127.0.0.1:9"), store).restore(again)
            _look(again)
            assert again.models.keys() == view.models.keys()
            assert again.partitions.keys() == view.partitions.keys()

    def shrink(self, case: bytes) -> Iterator[bytes]:
        records = json.loads(case)
        for fewer in mutate.smaller(records):
            yield json.dumps(fewer).encode()
        for i, (role, text, *more) in enumerate(records):
            for less in mutate.shorter((text or "").encode("latin-1")):
                yield json.dumps([*records[:i], [role, less.decode("latin-1"), *more], *records[i + 1 :]]).encode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1", "replace")


def _look(view: StreamView) -> None:
    """Everything that a browser can ask of a stream, and its bounds."""
    n_models = len(view.spec.models()) + OTHERS
    assert len({role for role, _ in view.models}) <= n_models
    assert len(view.series) <= _PARTITIONS * (3 * n_models + 9)
    assert len(view.events) <= EVENTS
    assert len(view.letters) <= LETTERS
    assert view.newest <= NOW + 600_000
    for partition in (None, *range(_PARTITIONS)):
        told = msgspec.json.encode(summary.status(view, NOW, "fuzz.yaml", partition))
        assert len(told) < _MOST_LENGTH
        json.loads(told)
        msgspec.json.encode(summary.comparison(view, partition))
        msgspec.json.encode(summary.distances(view, partition))
        for tier in TIERS:
            found = view.history(NOW - tier.n * tier.width, NOW, 100, partition)
            columns = [as_columns(name, one) for name, one in found.items()]
            msgspec.json.encode(columns)
            assert not any(math.isinf(value) for one in columns for value in one["mean"] if value is not None)
    msgspec.json.encode([*view.events, *view.letters])
    msgspec.json.encode([list(view.letters_since(0).items()), view.alike()])


TARGETS = {"page": Page()}
