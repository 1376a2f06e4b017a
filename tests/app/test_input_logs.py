"""A third input log, of commands, goes the way of the other two: merged, recorded, read back, and replayed to the bit.

Everything between is the workers' own: merge, predictions, tail, proof, audit, continuity, checkpoints.
"""

import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from aiokafka.structs import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import Bounds
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.inputs import mark
from riparian.app.partition.records.partition_group import EVERYTHING, Ends, PartitionGroup, RecordQueue, Release
from riparian.app.state import checkpoint
from riparian.app.state.audit.audit import _Audit
from riparian.app.state.audit.proof import Proof
from riparian.app.state.checkpoint import Stored
from riparian.app.state.loading import Loaded
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.task import continuity, uncommitted_outputs
from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs
from riparian.topics.commands import OF_A_MODEL, EventRecord
from riparian.topics.names import CONTROL, FEATURES, LABELS
from riparian.topics.records import RawBatch
from tests.app.test_audit import Reader, Row

BAD = b"{"
CHANGES = ("features added: b", "features added: c", "features dropped: a", "a model knows it as it was")
C = {"type": "nominal", "max_values": 5}
FILES: list[dict[str, Any]] = [
    *({"a": "numeric", "b": "numeric"}, {"c": C, "a": "numeric"}, {"a": "numeric"}),
    *({"b": "numeric", "c": C}, {"a": "nominal"}),
]


SPEC = Spec.model_validate(
    {
        "name": "s",
        "task": "classification",
        "features": {"a": "numeric"},
        "classes": ["p", "q"],
        "champion": {"model": "hoeffding-tree", "grace_period": 5, "delta": 0.1},
        "challengers": {"nb": {"model": "naive-bayes"}},
        "drift": {"detectors": {"page-hinkley": {"threshold": 2, "min_values": 5}}, "on_drift": "reset"},
        "control": True,
    }
)
PLAIN = Spec.model_validate(SPEC.model_dump(mode="json", exclude_unset=True, exclude={"topics", "control"}))


def command(rng: np.random.Generator, number: int) -> bytes:
    """One of a few that can be obeyed, that cannot, that is no command, or that was asked before."""
    name = str(rng.choice(["champion", "nb", "nb", "nb", "hoeffding-tree", "hoeffding-tree", "second"]))
    what = str(
        rng.choice(["promote", "promote", "promote", "demote", "freeze", "thaw", "reset", "add", "drop", "apply"])
    )
    asked: dict[str, Any] = {"id": str(number - (rng.random() < 0.1)), "command": what, "by": "me", "asked": number}
    if what in OF_A_MODEL:
        asked["model"] = name
    if what == "add":
        asked["definition"] = {"model": "naive-bayes", "on_drift": str(rng.choice(["alert", "replace"]))}
    if what == "apply":
        tree, parameters = SPEC.models()["champion"]
        asked |= {"champion": {"model": tree, **parameters}, "file": f"{number % 3}"}
        asked["challengers"] = {name: {"model": "majority-class"}} if name != "champion" else {}
        if number % 3:  # features come, go, and come back
            asked |= {"champion": {}, "settings": SPEC.running(), "features": FILES[number % len(FILES)]}
            asked["challengers"] |= {"tree": {"model": tree, **parameters}} if number % 2 else {}
    return b"[" if rng.random() < 0.1 else json.dumps(asked).encode()


class World(NamedTuple):
    """What the three topics hold, by role."""

    records: dict[str, RawBatch]

    def piece(self, role: str, start: int, stop: int) -> RawBatch:
        return self.records[role].part(start, stop)

    def rows(self, role: str) -> list[Row]:
        made = self.records[role]
        columns = made.offsets, made.timestamps, made.keys, made.values
        return [Row(*row) for row in zip(*columns, strict=True)]


def features(i: int, a: float) -> bytes:
    """With fields that only some stream files read, and of which they reject some."""
    more: dict[str, Any] = {"b": "x" if i % 13 == 5 else i * 7 % 10 / 10, "c": "uvw"[i % 3]}
    return json.dumps({"id": i, "x": {"a": a, **({} if i % 4 == 1 else more)}}).encode()


def world(seed: int, n: int, n_commands: int | None = None) -> World:
    """Features, some of which are rejected, labels that come later, and some commands."""
    rng = np.random.default_rng(seed)
    a = rng.random(n).round(3)
    values = {
        FEATURES: [BAD if rng.random() < 0.15 else features(i, a[i]) for i in range(n)],
        LABELS: [json.dumps({"id": i, "y": "pq"[int(a[i] > 0.5)]}).encode() for i in range(n)],
        CONTROL: [command(rng, i) for i in range(n // 2 if n_commands is None else n_commands)],
    }
    stamps = np.cumsum(rng.integers(0, 5, n))
    late = {FEATURES: 0, LABELS: 20, CONTROL: 0}
    return World(
        {
            role: RawBatch(
                list(range(len(kind))),
                (1000 + late[role] + stamps[: len(kind)] - 2 * (rng.random(len(kind)) < 0.1)).tolist(),
                [None] * len(kind),
                kind,
            )
            for role, kind in values.items()
        }
    )


class Lived(NamedTuple):
    """What a worker did: the predictions that it sent, its checkpoints, its learner at the end, its answers to
    commands, and offsets of records that are none."""

    sent: list[bytes]
    checkpoints: list[Stored]
    learner: PartitionLearner
    events: list[EventRecord]
    letters: list[int]


def stored(learner: PartitionLearner, sequence: int, n_sent: int) -> Stored:
    """A checkpoint, by way of the bytes of its manifest."""
    columns = [(name, feature.type) for name, feature in learner.spec.features.items()]
    encoder = checkpoint.Encoder("s", 0, columns, SPEC.input_topics.values())
    encoder.take(learner.snapshot())
    encoded = encoder.encode(sequence=sequence, created_ms=0, outputs={"predictions": n_sent})
    return Stored(checkpoint.decode_manifest(encoded.data), encoded.new)


def live(made: World, seed: int) -> Lived:
    """Pieces come in any order and size, now and then a checkpoint is made, and the logs end at the end."""
    rng = np.random.default_rng([seed, 1])
    learner, sent, kept = PartitionLearner(SPEC), list[bytes](), list[Stored]()
    events, letters = list[EventRecord](), list[int]()
    merge = PartitionGroup(learner.buffers(), limit=int(rng.integers(1, 30)))
    n = {role: len(batch.offsets) for role, batch in made.records.items()}
    at = dict.fromkeys(n, 0)
    while at != n or merge.n_waiting:
        for role, buffer in merge.buffers.items():
            stop = min(n[role], at[role] + int(rng.integers(0, 5 if role == CONTROL else 12)))
            buffer.add(made.piece(role, at[role], stop))
            at[role] = stop
        ends = Ends({role: int(rng.integers(0, 2 * n[role])) for role in (FEATURES, LABELS)})
        outcome = learner.step(merge.release(EVERYTHING if at == n else ends))
        sent += learner.encode(outcome)
        events += outcome.events
        letters += [one.offset for one in outcome.rejected.get(CONTROL, ())]
        if rng.random() < 0.2:
            kept.append(stored(learner, len(kept) + 1, len(sent)))
    return Lived(sent, kept, learner, events, letters)


def recorded(sent: list[bytes], offsets: dict[str, int]) -> list[tuple[str, int]]:
    """The order that predictions tell of, record by record, up to the next offsets at the end."""
    at, order = dict.fromkeys(offsets, 0), list[tuple[str, int]]()

    def up_to(role: str, stop: int) -> None:
        order.extend((role, offset) for offset in range(at[role], stop))
        at[role] = max(at[role], stop)

    for fields in map(json.loads, sent):
        up_to(FEATURES, fields["offset"])  # were rejected
        up_to(LABELS, fields["label_offset"])
        up_to(CONTROL, fields["control_offset"])
        up_to(FEATURES, fields["offset"] + 1)
    for role, stop in offsets.items():
        up_to(role, stop)
    return order


def one_by_one(made: World, order: list[tuple[str, int]]) -> Lived:
    """The slow twin: every record is a step, every command is obeyed where it stands."""
    learner, sent = PartitionLearner(SPEC), list[bytes]()
    events, letters = list[EventRecord](), list[int]()
    for i, (role, offset) in enumerate(order):
        buffer = RecordQueue(offset)
        buffer.add(made.piece(role, offset, offset + 1))
        piece = buffer.take(1)
        if role == CONTROL:
            place = next(offset for role, offset in order[i:] if role == FEATURES)
            said, wrong = learner.promotion.obey(learner.lineup, [piece], place)
            events, letters = [*events, *said], [*letters, *(one.offset for one in wrong)]
            learner.logs.take(CONTROL, piece)
            continue
        features = {} if role == FEATURES else {FEATURES: piece.part(0, 0)}
        before = {other: np.zeros(int(role == FEATURES), np.int64) for other in (LABELS, CONTROL)}
        pieces = {LABELS: piece.part(0, 0), CONTROL: piece.part(0, 0), **features, role: piece}
        sent += learner.encode(learner.step(Release(pieces, before)))
    return Lived(sent, [], learner, events, letters)


def restored(version: Stored) -> PartitionLearner:
    learner = PartitionLearner(SPEC)
    learner.restore(checkpoint.decode(version.manifest, version.chunks), SPEC.input_topics)
    return learner


def test_a_dead_letter_was_dealt_with_up_to_the_record_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = [("riparian-topic", b"s.features"), ("riparian-offset", b"7"), ("riparian-reason", b"malformed")]

    async def read_to_end(connection: Any, starts: Any, take: Any, **options: Any) -> Any:
        take(TopicPartition("s.deadletters", 0), [SimpleNamespace(offset=0, value=b"{", headers=headers)])
        return {tp: Bounds(0, 1) for tp in starts}

    monkeypatch.setattr(uncommitted_outputs, "read_to_end", read_to_end)
    loaded = Loaded(PartitionLearner(SPEC), checkpoint.Encoder("s", 0), None, [])
    (found,) = asyncio.run(uncommitted_outputs.read_tails(SPEC, Connection("broker:9092"), [loaded]))
    assert found.rejected == {"s.features": 8}


def read_back(monkeypatch: pytest.MonkeyPatch, loaded: Loaded, sent: list[bytes]) -> UncommittedOutputs:
    """The tail of the predictions, as the next owner reads it."""

    async def read_to_end(connection: Any, starts: Any, take: Any, **options: Any) -> Any:
        for tp, start in starts.items():
            if tp.topic == "s.predictions":
                rows = [SimpleNamespace(offset=i, value=sent[i], headers=[]) for i in range(start, len(sent))]
                take(TopicPartition(*tp), rows)
        return {tp: Bounds(0, len(sent)) for tp in starts}

    monkeypatch.setattr(uncommitted_outputs, "read_to_end", read_to_end)
    (found,) = asyncio.run(uncommitted_outputs.read_tails(SPEC, Connection("broker:9092"), [loaded]))
    return found


def lived_as_recorded(made: World, seed: int) -> Lived:
    """What a worker did, which is what the slow twin does by the order that its predictions record."""
    lived = live(made, seed)
    twin = one_by_one(made, recorded(lived.sent, lived.learner.offsets))
    assert twin.sent == lived.sent
    assert twin.learner.digest() == lived.learner.digest()
    assert (twin.events, twin.letters) == (lived.events, lived.letters)
    return lived


seeds = st.integers(0, 10**6)


@settings(max_examples=12, deadline=None)
@given(seeds, seeds, st.integers(10, 90), st.data())
def test_what_predictions_record_is_repeated_from_any_checkpoint_however_batches_are_cut_and_audited(
    seed: int, other: int, n: int, data: st.DataObject
) -> None:
    made = world(seed, n)
    lived = lived_as_recorded(made, seed)
    assert [event.number for event in lived.events] == list(range(len(lived.events)))
    repeat(made, lived, data.draw(st.sampled_from(lived.checkpoints)) if lived.checkpoints else None, other)
    audited(made, lived, seed, data.draw(st.integers(0, len(lived.checkpoints))))


def test_a_reset_before_anything_waits_repeats_from_a_checkpoint() -> None:
    """The first that waits in a store is number 0 there, and was another number before the restart."""
    made = world(393532, 76)
    lived = live(made, 393532)
    repeat(made, lived, lived.checkpoints[0], 0)


def repeat(made: World, lived: Lived, version: Stored | None, other: int, limit: int = 30) -> None:
    """Fold again from a checkpoint, or from the beginning, and compare."""
    learner, n_sent, manifest = PartitionLearner(SPEC), 0, None
    if version is not None:
        learner, manifest, n_sent = restored(version), version.manifest, version.manifest.outputs["predictions"]
    with pytest.MonkeyPatch.context() as patch:
        found = read_back(patch, Loaded(learner, None, manifest, []), lived.sent)  # type: ignore[arg-type]
    # Where the state stands in the log of commands, as it does in the others.
    position = continuity._positions(SPEC, Loaded(learner, None, manifest, []), found)[CONTROL]  # type: ignore[arg-type]
    offset = learner.offsets[CONTROL]
    told = [json.loads(value)["control_offset"] for value in lived.sent[n_sent:]]
    assert position.topic == "s.control"
    assert position.seen == max([offset, *told])
    if offset:
        row = made.rows(CONTROL)[offset - 1]
        assert position.mark == mark(row.offset, row.timestamp, row.key, row.value)
        assert position.wanted == offset
    # In other pieces, and with other limits.
    rng = np.random.default_rng([other, 2])
    merge, sent = PartitionGroup(learner.buffers(), found.script, limit=int(rng.integers(1, limit))), list[bytes]()
    events, first = list[EventRecord](), learner.promotion.n_events
    stops = {role: lived.learner.offsets[role] for role in merge.buffers}
    while any(buffer.next_offset < stops[role] for role, buffer in merge.buffers.items()) or merge.n_waiting:
        role = str(rng.choice(list(stops)))
        start = merge.buffers[role].next_offset
        merge.buffers[role].add(made.piece(role, start, min(stops[role], start + int(rng.integers(1, limit // 3 - 1)))))
        whole = all(buffer.next_offset == stops[role] for role, buffer in merge.buffers.items())
        outcome = learner.step(merge.release(EVERYTHING if whole else None))
        sent += learner.encode(outcome)
        events += outcome.events
        if rng.random() < 0.1:  # killed right after a checkpoint, within what is repeated
            version = stored(learner, 1, n_sent)
            assert version.manifest.meta["control_offset"] == learner.offsets[CONTROL]
            assert version.manifest.topics == ["s.features", "s.labels", "s.control"]
            learner = restored(version)
            left = found.script.part(int(np.searchsorted(found.script.offsets, learner.offsets[FEATURES])))
            merge = PartitionGroup(learner.buffers(), left, limit=int(rng.integers(1, limit)))
    assert sent == lived.sent[n_sent:]
    assert events == lived.events[first:]
    assert learner.digest() == lived.learner.digest()


def audited(made: World, lived: Lived, seed: int, begin: int) -> None:
    """An audit holds from a checkpoint, or from the beginning, to each that follows."""
    learner = restored(lived.checkpoints[begin - 1]) if begin else PartitionLearner(SPEC)
    inputs = {role: Reader(made.rows(role), seed) for role in made.records}
    sent = Reader([Row(i, 0, None, value) for i, value in enumerate(lived.sent)], seed)
    for role, reader in inputs.items():
        reader.position = learner.offsets[role]
    sent.position = lived.checkpoints[begin - 1].manifest.outputs["predictions"] if begin else 0
    proof = Proof(learner, len(made.records[FEATURES].offsets) + 1)
    left = lived.checkpoints[begin:]
    compared = asyncio.run(_Audit(proof, sent, inputs).run(list(left), None, lambda n, total: None))  # type: ignore[arg-type]
    assert proof.holds, proof.first
    assert len(compared) == len(left)
    assert all(one.equal for one in compared), [one.parts for one in compared]


@pytest.mark.parametrize(("action", "seed", "reaction"), [("replace", 0, 1), ("replace", 3, 2), ("reset", 1, 0)])
def test_commands_come_between_trials_resets_and_the_votes_of_pools(
    monkeypatch: pytest.MonkeyPatch, action: str, seed: int, reaction: int
) -> None:
    """reaction : which of `REACTIONS` there is one of, so that this says something."""
    pool = {"model": "opinion-pool", "members": {"tree": "hoeffding-tree", "last": "last-label"}}
    fields = {
        **SPEC.model_dump(mode="json", exclude_unset=True, exclude={"topics"}),
        "challengers": {"nb": "naive-bayes", "pool": pool, "second": "last-label"},
        "drift": {
            "detectors": {"page-hinkley": {"threshold": 1, "min_values": 5}},
            "on_drift": action,
            "window": 100,
            "patience": 300,
            "features": "all",
        },
        "predictions": {"challengers": True},
    }
    monkeypatch.setitem(globals(), "SPEC", Spec.model_validate(fields))
    made = world(seed, 1000, 30)
    labels = made.records[LABELS].values
    turned = [value.translate(bytes.maketrans(b"pq", b"qp")) for value in labels[450:]]  # type: ignore[union-attr]
    labels[450:] = turned
    lived = lived_as_recorded(made, seed)
    assert sum(role.reactions[reaction] for role in lived.learner.roles.values())
    for version in lived.checkpoints[:: max(1, len(lived.checkpoints) // 2)][:2]:
        repeat(made, lived, version, seed, limit=300)


def test_a_command_in_another_place_is_found() -> None:
    made = world(6, 90)
    lived = live(made, 6)
    fields = list(map(json.loads, lived.sent))
    i = next(i for i in range(1, len(fields)) if fields[i]["model"] != fields[i - 1]["model"])  # another champion
    sent = list(lived.sent)
    sent[i] = json.dumps(
        {**fields[i], "control_offset": fields[i - 1]["control_offset"]}, separators=(",", ":")
    ).encode()
    inputs = {role: Reader(made.rows(role), 1) for role in made.records}
    proof, rows = Proof(PartitionLearner(SPEC), 91), [Row(i, 0, None, value) for i, value in enumerate(sent)]
    asyncio.run(_Audit(proof, Reader(rows, 1), inputs).run([], None, lambda n, total: None))  # type: ignore[arg-type]
    assert not proof.holds


def test_these_worlds_have_commands_between_labels_and_before_rejected_features() -> None:
    """Otherwise what is said above would say little."""
    in_gaps = rejected = 0
    said = Counter[str]()
    for seed in range(20):
        made = world(seed, 90)
        lived = live(made, seed)
        said.update(f"{event.command} {event.event}" for event in lived.events)
        said.update(what for event in lived.events for what in CHANGES if what in event.sentence)
        order = recorded(lived.sent, {role: len(batch.offsets) for role, batch in made.records.items()})
        for i, (role, _) in enumerate(order[1:-1], 1):
            in_gaps += role == CONTROL and order[i - 1][0] == LABELS
        rejected += made.records[FEATURES].values.count(BAD)
    assert in_gaps > 20
    assert rejected > 20
    assert min(said[what] for what in CHANGES) > 5, said
    wanted = {f"{what} {how}" for what in (*OF_A_MODEL, "demote", "apply") for how in ("applied", "refused")}
    assert wanted <= set(said)


def test_states_and_predictions_of_two_logs_are_as_they_were() -> None:
    """And a log that is new to a stream begins at its beginning."""
    learner = PartitionLearner(PLAIN)
    assert "steering" not in learner.snapshot().meta
    assert list(learner.snapshot().meta)[2:6] == ["feature_offset", "label_offset", "feature_time", "label_time"]
    assert learner.codec.read_place(b'{"offset": 3, "label_offset": 1, "control_offset": 9}').label_offset == 1
    learner.places |= {FEATURES: 7, LABELS: 3}
    newer = PartitionLearner(SPEC)
    newer.restore(learner.snapshot())
    assert newer.offsets == {FEATURES: 7, LABELS: 3, CONTROL: 0}


def test_an_offset_of_a_further_log_that_is_none_is_refused() -> None:
    learner = PartitionLearner(SPEC)
    encoder = checkpoint.Encoder("s", 0)
    for wrong in ("far", -1, 2**70):
        found = learner.snapshot()
        encoder.take(found._replace(meta={**found.meta, "control_offset": wrong if wrong != 2**70 else 2.0**70}))
        data = encoder.encode(sequence=1, created_ms=0, outputs={}).data
        with pytest.raises(StateError, match="manifest is damaged"):
            checkpoint.decode_manifest(data)


def test_predictions_in_avro_have_no_place_for_a_further_log() -> None:
    stream = {"name": "s", "task": "classification", "control": True, "features": {"a": "numeric"}}
    more = {"registry": {"url": "http://127.0.0.1:1"}, "codec": "avro"}
    with pytest.raises(ValueError, match=r"codec.predictions: expected json, since .* in control, found avro"):
        Spec.model_validate({**stream, **more})
    Spec.model_validate({**stream, **more, "codec": {"features": "avro", "labels": "avro"}})
