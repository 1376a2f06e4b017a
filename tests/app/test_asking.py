"""Schemas are asked for before records are folded: when a record waits, when it is rejected, and what is sure of it."""

import asyncio
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from riparian.app.errors import RegistryError, StateError, UnreachableError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, Release
from riparian.app.registry.asking import Asking, readied
from riparian.app.registry.client import MOST_ASKED
from riparian.app.registry.questions import Questions
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.records import RawBatch, Unknown
from riparian.topics.schemas import AVRO, MOST_KNOWN, Key, RegisteredSchema
from riparian.topics.slices import Slices

FEATURES = RegisteredSchema(AVRO, json.dumps({"type": "record", "name": "F", "fields": [
    {"name": "id", "type": "string"}, {"name": "x", "type": {"type": "record", "name": "X", "fields": [
        {"name": "a", "type": "double"}]}},
]}))  # fmt: skip
LABELS = RegisteredSchema(AVRO, json.dumps({"type": "record", "name": "L", "fields": [
    {"name": "id", "type": "string"}, {"name": "y", "type": "string"},
]}))  # fmt: skip


class Answers:
    """A registry that says what the test has put into it: a schema, None for "there is none", or nothing at all."""

    def __init__(self, **known: Any) -> None:
        self.known: dict[Key, RegisteredSchema | None] = {}
        self.asked: list[list[Key]] = []
        self.reachable = True

    async def schemas(self, keys: list[Key]) -> dict[Key, RegisteredSchema | None]:
        self.asked.append(list(keys))
        await asyncio.sleep(0)
        if not self.reachable:
            raise UnreachableError("nobody is there")
        told, size = dict[Key, RegisteredSchema | None](), 0
        for key in keys:  # of large ones only the first, as a registry's client does
            if size < MOST_ASKED:
                told[key] = schema = self.known.get(key)
                size += 0 if schema is None else schema.size
        return told


def spec_of(max_wait: str = "0s") -> Spec:
    return build({
        "name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label", "codec": "avro",
        "registry": {"url": "http://127.0.0.1:1", "max_wait": max_wait},
    }, "s")  # fmt: skip


def feature(number: int, i: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + bytes([2 * len(str(i))]) + b"%d" % i + np.float64(i).tobytes()


def label(number: int, i: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + bytes([2 * len(str(i))]) + b"%d" % i + b"\2y"


def release_of(numbers: list[int], label_numbers: list[int]) -> Release:
    """Features at 0, 10, 20 … ms, labels at 5, 15, …; record i of schema numbers[i]."""
    merge = PartitionGroup()
    for role, made, ids, late in (("features", feature, numbers, 0), ("labels", label, label_numbers, 5)):
        buffer = merge.buffers[role]
        n = len(ids)
        values: list[bytes | None] = [made(number, i) for i, number in enumerate(ids)]
        stamps = [1000 + 10 * i + late for i in range(n)]
        buffer.add(RawBatch(list(range(n)), stamps, [None] * n, Slices.of(values), [()] * n))  # as they are fetched
    return merge.release(EVERYTHING)


def asking(spec: Spec, registry: Any, **more: Any) -> Asking:
    return Asking(registry, spec, 0, more.get("refused", {}), more.get("taken", {}))


async def settled(one: Asking, release: Release, turns: int = 30) -> tuple[int, int, Release]:
    """How many features and labels go, and what is left, once nothing more changes."""
    n_f = n_l = 0
    for _ in range(turns):
        ready, release = one.ready(release)
        n_f, n_l = n_f + len(ready.piece("features").offsets), n_l + len(ready.piece("labels").offsets)
        await one.wait(0.02)
    return n_f, n_l, release


async def parts_of(one: Asking, release: Release, seconds: float) -> list[Release]:
    return [part async for part in readied(one, release, seconds)]


def test_what_comes_before_an_unknown_schema_goes_on() -> None:
    async def run() -> None:
        spec, registry = spec_of(), Answers()
        registry.known, registry.reachable = {1: FEATURES, 2: LABELS, 3: FEATURES}, False
        spec.schemas.known.update({1: FEATURES, 2: LABELS})
        one = asking(spec, registry)
        n_f, n_l, rest = await settled(one, release_of([1, 1, 3, 1], [2, 2, 2, 2]))
        assert (n_f, n_l) == (2, 2)
        assert isinstance(one.error, RegistryError)
        registry.reachable = True
        for part in await parts_of(one, rest, 60):
            n_f, n_l = n_f + len(part.piece("features").offsets), n_l + len(part.piece("labels").offsets)
        assert (n_f, n_l) == (4, 4)
        n_f, n_l, rest = await settled(asking(spec, registry), release_of([1, 1, 1, 1], [2, 9, 2, 2]), 1)
        assert (n_f, n_l) == (2, 1)  # the label at 15 ms comes after the feature at 10
        assert rest.before["labels"].tolist() == [1, 2]

    asyncio.run(run())


def test_only_an_answer_rejects() -> None:
    async def run() -> None:
        spec, registry = spec_of(), Answers()
        registry.known = {1: FEATURES, 2: LABELS}
        registry.reachable = False
        one = asking(spec, registry)
        n_f, n_l, rest = await settled(one, release_of([7, 1], [2, 2]))
        assert (n_f, n_l) == (0, 0)
        registry.reachable = True
        parts = await parts_of(one, rest, 60)
        values = [value for part in parts for value in part.piece("features").raw.values]
        assert [type(value) for value in values] == [Unknown, bytes]
        outcomes = [PartitionLearner(spec).step(part) for part in parts]
        assert [r.reason for o in outcomes for r in o.rejected["features"]] == ["unknown-schema"]
        assert outcomes[0].rejected["features"][0].value == feature(7, 0)  # as it came
        # What was given up is asked for again with the next record.
        registry.known[7] = FEATURES
        parts = await parts_of(one, release_of([7], []), 60)
        assert [type(value) for part in parts for value in part.piece("features").raw.values] == [bytes]

    asyncio.run(run())


def test_a_schema_that_comes_within_the_time_is_waited_for() -> None:
    async def run() -> None:
        spec, registry = spec_of("1h"), Answers()
        registry.known = {2: LABELS}
        one = asking(spec, registry)
        _, _, rest = await settled(one, release_of([7], [2]), 3)
        assert len(rest.piece("features").offsets) == 1
        registry.known[7] = FEATURES
        (part,) = await parts_of(one, rest, 60)
        assert type(part.piece("features").raw.values[0]) is bytes

    asyncio.run(run())


def test_what_was_decided_is_not_decided_anew() -> None:
    """A record that was rejected stays so, though its schema is there by now; one that was decoded must be again."""

    async def run() -> None:
        spec, registry = spec_of(), Answers()
        registry.known = {1: FEATURES, 2: LABELS, 7: FEATURES}
        one = asking(spec, registry, refused={"features": [1], "labels": [0]}, taken={"features": 3, "labels": 2})
        parts = await parts_of(one, release_of([7, 7, 7], [2, 2]), 60)
        assert [type(v) for part in parts for v in part.piece("features").raw.values] == [bytes, Unknown, bytes]
        assert [type(v) for part in parts for v in part.piece("labels").raw.values] == [Unknown, bytes]
        gone = asking(spec, registry, taken={"features": 2})
        with pytest.raises(
            StateError, match=r"does not know schema 8 any more, by which the record at offset 1 of s\.feat"
        ):
            await parts_of(gone, release_of([1, 8], [2]), 60)
        later = await parts_of(gone, release_of([1, 1, 8], [2]), 60)
        assert type(later[-1].piece("features").raw.values[-1]) is Unknown

    asyncio.run(run())


def test_floods_of_unknown_schemas_wait_once_and_are_asked_for_once(caplog: pytest.LogCaptureFixture) -> None:
    """More than 10,000 in one release were never released, and each release waited by itself."""

    async def run() -> None:
        spec, registry = spec_of("300ms"), Answers()
        registry.known = {1: FEATURES, 2: LABELS}
        one = asking(spec, registry)
        turns = [[*range(1000 + 20_000 * turn, 6500 + 20_000 * turn), 1] for turn in range(2)]
        for release in [release_of(ids, [i + 8000 for i in ids[:-1]]) for ids in turns]:
            parts = await parts_of(one, release, 60)
            values = [value for part in parts for value in part.piece("features").raw.values]
            assert [type(value) for value in values] == [Unknown] * 5500 + [bytes]
        asked = Counter(key for keys in registry.asked for key in keys)
        assert sum(n > 2 for n in asked.values()) <= 1
        said = [line.getMessage() for line in caplog.records if "does not know" in line.getMessage()]
        assert len(said) <= 3
        one.stop()

    asyncio.run(run())


def test_a_wait_begins_anew_after_a_release_in_which_nothing_waits() -> None:
    questions = Questions(10.0)
    questions.wait(0.0)
    assert questions.next([7, 8], 0.0) == [7, 8]
    assert questions.answered({7, 8}, 0.0, 0.1) == set()
    assert questions.next([7, 8], 0.2) == []
    assert questions.next([7, 8], 0.4) == [7]  # what all others wait for
    assert questions.next([7, 8, 9], 0.4) == [9]
    for second in range(11):
        questions.wait(second)
    assert questions.next([7, 8], 10.1) == [7, 8]
    assert questions.answered({7, 8}, 10.1, 10.2) == {7, 8}
    assert questions.remembered([7, 9], 20.0) == {7}
    assert questions.remembered([7, 9], 20.2) == set()
    # What was there all the while does not wait again; what comes later does, but for an id that was refused.
    questions.wait(10.9)
    assert questions.answered({11}, 10.9, 10.9) == {11}
    questions.wait(30.0)
    assert questions.answered({12, 7}, 30.0, 30.0) == {7}
    questions.passed()
    assert questions.answered({13}, 31.0, 31.0) == set()
    # While the registry does not answer, the first one alone is asked for, and no time is counted.
    questions.failed(32.0)
    assert questions.next([13, 14], 39.0) == [13]
    assert questions.answered({13}, 39.0, 39.0) == set()
    assert questions.next([13, 14], 39.1) == [14]
    assert questions.answered({13}, 48.9, 48.9) == set()
    assert questions.answered({13}, 49.0, 49.0) == {13}


def test_known_schemas_are_bounded_and_what_is_about_to_be_read_stays() -> None:
    """A schema a record, of 1 MB each: what was used least recently is forgotten, with what was made of it."""

    async def run() -> None:
        spec, registry = spec_of(), Answers()
        text = FEATURES.text[:-1] + ', "doc": "' + "x" * 400_000 + '"}'
        registry.known = {number: RegisteredSchema(AVRO, text) for number in range(100, 160)} | {2: LABELS}
        one, learner, n = asking(spec, registry), PartitionLearner(spec), 0
        async for part in readied(one, release_of([*range(100, 160), *range(100, 160)], [2]), 60):
            outcome = learner.step(part)
            n += len(outcome.ids)
            assert sum(schema.size for schema in spec.schemas.known.values()) < 2 * MOST_KNOWN
        assert n == 120
        assert sum(schema.size for schema in spec.schemas.known.values()) <= MOST_KNOWN

    asyncio.run(run())


def test_an_offline_fold_gives_up_on_a_registry_that_is_away() -> None:
    async def run() -> None:
        registry = Answers()
        registry.reachable = False
        with pytest.raises(RegistryError, match="nobody is there"):
            await parts_of(asking(spec_of(), registry), release_of([1], [2]), 0.0)

    asyncio.run(run())


def test_a_wait_ends_however_slow_the_process_is() -> None:
    """Rounds of more than the idle second began the wait anew, each time."""
    questions, late, now = Questions(5.0), set[Any](), 0.0
    while not late and now < 60.0:
        questions.wait(now)
        if questions.next([7], now):
            late = questions.answered({7}, now, now + 1.0)
        now += 2.0
    assert late == {7}
    assert now < 12.0
    questions.settled()
    questions.wait(now + 10.0)
    assert questions.answered({8}, now + 10.0, now + 10.0) == set()  # held up by nothing
