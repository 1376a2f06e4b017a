"""Audits a partition: reads its retained records again, folds them, and compares the result with what was sent and
stored.

Everything is read in pieces, so memory does not grow with the topics: first the predictions, which say how far the
input topics were applied, then the input topics up to there. The end of the audit is determined at its start, so a
worker may run meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Any, NamedTuple

from aiokafka.structs import ConsumerRecord

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import PartitionReader, reading, reading_logs
from riparian.app.partition.changes import Changes, next_origin
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.registry.asking import Asking, readied
from riparian.app.registry.client import Registry
from riparian.app.registry.stream_schemas import predictions
from riparian.app.state.audit.drift_proof import DriftProof
from riparian.app.state.audit.proof import Difference, Proof, SentRecords, differing_parts
from riparian.app.state.changelog import ATTEMPTS, PAUSE_SECONDS, check_partition
from riparian.app.state.checkpoint import Stored
from riparian.app.state.loading import compare_with_stream_file
from riparian.app.state.portable import restore
from riparian.app.state.transfer import versions
from riparian.app.stream_file.columns import digest_of
from riparian.app.stream_file.spec import Spec
from riparian.topics.commands import read_event
from riparian.topics.names import (
    DRIFT,
    EVENTS,
    FEATURES,
    HEADER_OFFSET,
    HEADER_REASON,
    HEADER_TOPIC,
    LABELS,
    PREDICTIONS,
    state_field,
)
from riparian.topics.places import begun
from riparian.topics.records import UNKNOWN_SCHEMA, RawBatch

ASK_SECONDS = 30.0  # how long a schema registry may not answer


class CheckpointComparison(NamedTuple):
    """A checkpoint and what the fold gives at its offsets.

    sequence : number of the checkpoint
    offset, label_offset : where it stands
    digest, folded : of its state, and of the fold's
    parts : of the state that differ
    """

    sequence: int
    offset: int
    label_offset: int
    digest: str
    folded: str
    parts: list[str]

    @property
    def equal(self) -> bool:
        return self.digest == self.folded


class AuditReport(NamedTuple):
    """What an audit of a partition found.

    partition : its number
    begin : sequence, offset and label offset where it began (sequence 0: the beginning of the topics)
    end : the same where it ended (sequence 0: at the last prediction)
    n_predictions : number of predictions compared
    checkpoints : compared
    counts : kind of difference -> how many
    first : the difference with the lowest source offset
    listed : kind -> differences, the first 1,000
    drift : the events of drift, compared
    answers : what became of commands, compared; None where the stream takes none
    """

    partition: int
    begin: tuple[int, int, int]
    end: tuple[int, int, int]
    n_predictions: int
    checkpoints: list[CheckpointComparison]
    counts: dict[str, int]
    first: Difference | None
    listed: dict[str, list[Difference]]
    drift: DriftProof
    answers: DriftProof | None = None

    @property
    def holds(self) -> bool:
        return not any(self.counts.values()) and all(one.equal for one in self.checkpoints) and self._drift_holds

    @property
    def _drift_holds(self) -> bool:
        return self.drift.holds and (self.answers is None or self.answers.holds)

    def plain(self) -> dict[str, Any]:
        """JSON-serialisable."""
        place = ("sequence", "offset", "label_offset")
        return {
            "partition": self.partition,
            "holds": self.holds,
            "from": dict(zip(place, self.begin, strict=True)),
            "until": dict(zip(place, self.end, strict=True)),
            "predictions": self.n_predictions,
            "checkpoints": [{**one._asdict(), "equal": one.equal} for one in self.checkpoints],
            "counts": self.counts,
            "first": None if self.first is None else self.first.plain(),
            "differences": {kind: [one.plain() for one in found] for kind, found in self.listed.items()},
            "drift": _events(self.drift),
        } | ({} if self.answers is None else {"commands": _events(self.answers)})


def _events(proof: DriftProof) -> dict[str, Any]:
    return {
        "events": proof.n_compared,
        "counts": dict(proof.counts),
        "differences": [one.plain() for one in proof.listed],
    }


async def checkpoints(spec: Spec, connection: Connection, partition: int) -> list[Stored]:
    """The checkpoints that a changelog holds, in the order of their offsets (offsets go back at a rollback)."""
    for _ in range(ATTEMPTS):
        last, found = await versions(spec, connection, partition)
        if last is None or (found and found[0].manifest.sequence == last.sequence):
            break
        await asyncio.sleep(PAUSE_SECONDS)  # a worker may have truncated the log while it was being read
    else:
        raise StateError(
            f"the last checkpoint of partition {partition} is incomplete: riparian state verify says what is missing"
        )

    def place(version: Stored) -> tuple[int, ...]:
        meta = version.manifest.meta
        fields = ("feature_offset", "feature_index", "label_offset", "label_index")
        return (*(meta.get(field, 0) for field in fields), version.manifest.sequence)

    return sorted(found, key=place)


class _Audit:
    """One run over a partition.

    Parameters
    ----------
    sent : Reader
        Of the predictions, at its start.
    inputs : mapping of str to Reader
        Of each input log by role, at their starts.
    """

    def __init__(
        self, proof: Proof, sent: PartitionReader, inputs: Mapping[str, PartitionReader], asking: Asking | None = None
    ) -> None:
        self.proof, self.sent, self.inputs, self.asking = proof, sent, inputs, asking
        self._begun: dict[str, list[ConsumerRecord]] = {}  # the last record of a log, of whose instances some are left

    async def run(
        self,
        left: list[Stored],
        stop: int | None,
        on_progress: Callable[[int, int], None],
    ) -> list[CheckpointComparison]:
        """Fold to the last prediction, or to the last of the checkpoints `left` where `stop` is its offset."""
        proof, compared = self.proof, list[CheckpointComparison]()
        begin = self.sent.position
        held: list[ConsumerRecord] = []
        more = True
        while more and (stop is None or left):
            records = await self.sent.read(self.sent.end)
            more = bool(records)
            # The last one waits for those after it: whether it is out of order shows only then.
            records, held = [*held, *records[:-1]], records[-1:]
            proof.expect(SentRecords([r.offset for r in records], [r.key for r in records], [r.value for r in records]))
            while (
                left
                and len(offsets := proof.script().offsets)
                and offsets[-1] >= proof.learner.logs.place_in(left[0].manifest.meta, FEATURES)
            ):
                compared.append(await self._compare(left.pop(0)))
            script = proof.script(stop)
            if len(script.offsets):
                stops = {role: int(found[-1]) for role, found in script.next_offsets.items()}
                await self._fold({**stops, FEATURES: int(script.offsets[-1]) + 1})
            on_progress(self.sent.position - begin, self.sent.end - begin)
        while left:
            compared.append(await self._compare(left.pop(0)))
        proof.settle(stop)
        return compared

    async def _fold(self, stops: Mapping[str, int]) -> None:
        """Fold all records of the input logs below these places, by role, in the recorded order.

        After the last prediction the order between the topics does not matter: features there were rejected, since
        every other one has a prediction, so only the order of the labels among themselves counts.
        """
        proof = self.proof
        merge = PartitionGroup(proof.buffers, proof.script(stops[FEATURES]))
        while True:
            release = merge.release(EVERYTHING)
            if release.n:
                async for part in readied(self.asking, release, ASK_SECONDS):
                    await asyncio.to_thread(proof.step, part)
                continue
            # Features in memory wait for other logs: more of them would only take memory.
            order = [role for role in self.inputs if role != FEATURES]
            order.insert(len(order) if len(proof.buffers[FEATURES]) else 0, FEATURES)
            for role in order:
                if await self._fill(role, stops[role]):
                    break
            else:
                if merge.script is None:
                    return
                merge.script = None  # the others refer to records that do not exist

    async def _fill(self, role: str, stop: int) -> bool:
        """Read on in an input log, below the place `stop`; whether there was anything."""
        buffer, reader = self.proof.buffers[role], self.inputs[role]
        before, found = buffer.next_offset, await reader.read(begun(stop, buffer.bits))
        records = [*self._begun.pop(role, ()), *found]
        if records:
            buffer.add(RawBatch.of(records), stop)
            if buffer.fetch_offset <= records[-1].offset:
                self._begun[role] = records[-1:]
        return bool(found) or buffer.next_offset > before

    async def _compare(self, version: Stored) -> CheckpointComparison:
        meta = version.manifest.meta
        places = {role: self.proof.learner.logs.place_in(meta, role) for role in self.inputs}
        await self._fold(places)
        self.proof.settle(places[FEATURES])
        return await asyncio.to_thread(self._compare_states, version)

    def _compare_states(self, version: Stored) -> CheckpointComparison:
        fold, meta = self.proof.learner, version.manifest.meta
        stored = restore(fold.spec, version)
        one, two = stored.digest(), fold.digest()
        parts = [] if one == two else differing_parts(stored, fold)
        return CheckpointComparison(
            version.manifest.sequence, meta["feature_offset"], meta["label_offset"], one, two, parts
        )


async def audit(
    spec: Spec,
    connection: Connection,
    partition: int,
    *,
    start: int | None = None,
    until: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> AuditReport | None:
    """Fold a partition again and compare; None where nothing has been predicted or stored yet.

    Parameters
    ----------
    start, until : int, optional
        Sequences of checkpoints: where to begin (default: the beginning of the topics), and where to end (default:
        the last prediction).
    on_progress : callable
        Given how many records of the predictions topic were read, and how many there are.

    Raises
    ------
    StateError
        It is not possible: the state is damaged, the topics do not reach back far enough, or there is no such
        checkpoint.
    """
    check_partition(spec, partition)
    # In this order: predictions reach beyond every checkpoint and drift event, and inputs beyond every prediction.
    kept = await checkpoints(spec, connection, partition)
    topics = spec.topics
    async with (
        reading(connection, topics.drift, partition) as events,
        nullcontext() if topics.events is None else reading(connection, topics.events, partition) as answered,
        reading(connection, topics.predictions, partition) as sent,
        reading_logs(connection, spec.logs(partition)) as inputs,
    ):
        if not kept and sent.first == sent.end:
            return None
        last = None if until is None else _named(spec, partition, kept, until)
        last = last or max(kept, key=lambda one: one.manifest.sequence, default=None)
        begin = _begin(spec, partition, kept, start, last, sent, inputs)
        sequences = [one.manifest.sequence for one in kept]
        first = 0 if begin is None else sequences.index(begin.manifest.sequence) + 1
        left = kept[first : None if until is None else sequences.index(until) + 1]
        if until is not None and not left:
            raise StateError(f"checkpoint {until} does not come after checkpoint {start}: audit up to a later one")
        if begin is None:
            learner = PartitionLearner(spec, partition)
        else:
            learner = await asyncio.to_thread(restore, spec, begin)
            sent.seek(begin.manifest.outputs.get(PREDICTIONS, 0))
            events.seek(max(events.first, begin.manifest.outputs.get(DRIFT, 0)))
            if answered is not None:
                answered.seek(max(answered.first, begin.manifest.outputs.get(EVENTS, 0)))
        # A rollback can have left others behind.
        left = [one for one in left if one.manifest.meta.get("origin") == learner.origin]
        for role, reader in inputs.items():
            reader.seek(learner.offsets[role])
        began = (0 if begin is None else begin.manifest.sequence, learner.offsets[FEATURES], learner.offsets[LABELS])
        asking = await _asking(spec, connection, partition, inputs)

        async def proof_of(reader: PartitionReader, first: int, **how: Any) -> DriftProof:
            whole = reader.first == 0 or begin is not None
            return DriftProof(await _all(reader), first, whole=whole, bits=learner.bits[FEATURES], **how)

        drift = await proof_of(events, learner.drift.n_events)
        answers = None
        if answered is not None:
            of_answers = {"read": read_event, "of": attrgetter("events")}
            answers = await proof_of(answered, learner.promotion.n_events, **of_answers)
        proofs = [one for one in (drift, answers) if one is not None]

        def step(outcome: Outcome) -> None:
            for one in proofs:
                one.step(outcome)

        proof = Proof(learner, inputs[FEATURES].end, step)
        stop = None if until is None else learner.logs.place_in(left[-1].manifest.meta, FEATURES)
        compared = await _Audit(proof, sent, inputs, asking).run(left, stop, on_progress)
    for one in proofs:
        one.settle()
    return AuditReport(
        partition,
        began,
        (until or 0, learner.offsets[FEATURES], learner.offsets[LABELS]),
        proof.n_compared,
        compared,
        dict(proof.counts),
        proof.first,
        {kind: found for kind, found in proof.listed.items() if found},
        drift,
        answers,
    )


async def _asking(
    spec: Spec, connection: Connection, partition: int, inputs: Mapping[str, PartitionReader], writes: bool = True
) -> Asking | None:
    """What asks for the schemas of the records, by what the dead letters say of those that the registry did not know.

    All others were decoded, and have to be once more. None where the stream has no registry. writes : whether
    predictions are made anew, and so need their schema."""
    registry = Registry.of(spec)
    if registry is None:
        return None
    if writes:
        await predictions(registry, spec)
    roles = {topic: role for role, topic, _ in spec.inputs}
    refused: dict[str, list[int]] = {role: [] for role in inputs}
    async with reading(connection, spec.topics.deadletters, partition) as letters:
        while records := await letters.read(letters.end):
            for headers in (dict(record.headers) for record in records):
                if headers.get(HEADER_REASON) == UNKNOWN_SCHEMA.encode():
                    role = roles.get(headers[HEADER_TOPIC].decode())
                    if role is not None:  # otherwise of a topic that the stream no longer reads
                        refused[role].append(int(headers[HEADER_OFFSET]))
    return Asking(registry, spec, partition, refused, {role: reader.end for role, reader in inputs.items()})


async def _all(reader: PartitionReader) -> SentRecords:
    """Every record of a topic that has few."""
    found = SentRecords([], [], [])
    while records := await reader.read(reader.end):
        found.positions.extend(r.offset for r in records)
        found.keys.extend(r.key for r in records)
        found.values.extend(r.value for r in records)
    return found


def sent_before(one: Stored | None) -> int:
    """The offset of the first prediction after a checkpoint; None: after the beginning."""
    return 0 if one is None else int(one.manifest.outputs.get(PREDICTIONS, 0))


def reach(inputs: Mapping[str, PartitionReader], one: Stored | None) -> bool:
    """Whether input topics, by role, still hold all records after a checkpoint; None: after the beginning."""
    meta = {} if one is None else one.manifest.meta
    return all(reader.first <= meta.get(state_field(role, "offset"), 0) for role, reader in inputs.items())


def _begin(
    spec: Spec,
    partition: int,
    kept: Sequence[Stored],
    start: int | None,
    last: Stored | None,
    sent: PartitionReader,
    inputs: Mapping[str, PartitionReader],
) -> Stored | None:
    """The checkpoint to begin at, None for the beginning; StateError where a fold from there cannot lead to `last`."""

    def reached(one: Stored | None) -> bool:
        return sent.first <= sent_before(one) and reach(inputs, one)

    def leads(one: Stored | None) -> bool:
        return (None if one is None else _start(spec, one)[0]) == origin and (one is not None or first)

    origin, first = None, True  # whether the stream began with this file
    if last is not None:
        left, runs = last.manifest.meta.get("steering") or {}, spec.runs_by(last.manifest.meta)
        if runs is not None:
            left, first = {"features": left.get("features", {})}, list(runs["files"][0]) == spec.digests()
        for files, own in (
            (left.get("files"), spec.models_digest()),
            (left.get("applied", {}).get("files"), spec.running_digest()),
            (left.get("features", {}).get("files"), digest_of(spec.features)),
        ):
            first = first and (not files or files[0] == own)
        origin, changes = _start(spec, last)
        if changes.found:
            raise StateError(
                f"checkpoint {last.manifest.sequence} was made with another stream file "
                f"({changes.found[0].sentence}): audit with that one, or start a worker with this one first"
            )
    wanted = None if start is None else _named(spec, partition, kept, start)
    if start is None and origin is not None and not any(origin[:2]):
        # Nothing was folded before: the partition was added to a stream that had learned, or has an imported state.
        wanted = next((one for one in kept if reached(one) and leads(one)), None)
    if start is None and kept and "grown" in kept[0].manifest.meta and not kept[0].manifest.meta["feature_offset"]:
        wanted = kept[0]  # of an added partition, which stands behind commands that wait for an instance in a fold
    if reached(wanted) and leads(wanted):
        return wanted
    possible = [one.manifest.sequence for one in kept if reached(one) and leads(one)]
    cure = (
        f"begin at checkpoint {possible[0]}, with --from {possible[0]}"
        if possible
        else "there is no checkpoint to begin at"
    )
    beginning = "the beginning" if wanted is None else f"checkpoint {wanted.manifest.sequence}"
    if reached(wanted):
        at = "" if origin is None else f" at offset {origin[0]:,}"
        raise StateError(
            f"the state of partition {partition} does not follow from its records from {beginning} on: after it"
            f"{at} the stream file was changed, the state was imported, or models were rolled back; {cure}"
        )
    named = {role: topic for role, topic, _ in spec.logs(partition)}
    readers = {**{named[role]: reader for role, reader in inputs.items()}, spec.topics.predictions: sent}
    where = ", ".join(f"{topic} begins at {reader.first:,}" for topic, reader in readers.items())
    raise StateError(f"the topics of partition {partition} do not reach back to {beginning} ({where}): {cure}")


def _start(spec: Spec, version: Stored) -> tuple[list[int] | None, Changes]:
    """The origin of a state that goes on from a checkpoint with this stream file, and what this changes."""
    changes = compare_with_stream_file(spec, version.manifest, version.chunks)
    meta = version.manifest.meta
    return next_origin(meta) if changes.found else meta.get("origin"), changes


def _named(spec: Spec, partition: int, kept: Sequence[Stored], sequence: int) -> Stored:
    for one in kept:
        if one.manifest.sequence == sequence:
            return one
    numbers = sorted(one.manifest.sequence for one in kept)
    there = ", ".join(map(str, numbers)) if len(numbers) < 10 else f"{len(numbers)} from {numbers[0]} to {numbers[-1]}"
    raise StateError(
        f"partition {partition} of stream {spec.name} has no checkpoint {sequence} to begin or end with: the changelog "
        f"holds {there or 'none'}"
    )
