"""The audit of a partition: its retained topics read again, folded, and held against what was sent and stored.

Everything is read in pieces, so memory does not grow with the topics: predictions first, which say how far the input
topics were applied, then these up to there. What ends the audit is read at its start, so a worker may run meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiokafka.structs import ConsumerRecord

from app.errors import StateError
from app.inspection import held_against
from app.partition.learner import PartitionLearner
from app.partition.merge import EVERYTHING, Merge
from app.state import checkpoint
from app.state.changelog import ATTEMPTS, PAUSE_SECONDS, check_partition
from app.state.changes import Changes, next_origin
from app.state.moving import Version, versions
from app.state.proof import Difference, Proof, Sent, differing_parts
from app.state.proof_of_drift import DriftProof
from app.stream_file.spec import Spec
from app.worker.reading import Reader, reading
from topics.names import DRIFT, PREDICTIONS
from topics.records import RawBatch


class Compared(NamedTuple):
    """A checkpoint and what the fold gives at its offsets. parts : of the state that differ."""

    sequence: int
    offset: int
    label_offset: int
    digest: str
    folded: str
    parts: list[str]

    @property
    def equal(self) -> bool:
        return self.digest == self.folded


class Report(NamedTuple):
    """What an audit of a partition found.

    begin : sequence, offset and label offset where it began (sequence 0: the beginning of the topics). end : the same
    where it ended (sequence 0: at the last prediction). n_predictions : compared. counts : kind of difference -> how
    many. first : the difference with the lowest source offset. listed : kind -> differences, the first 1,000.
    drift : the events of drift, compared.
    """

    partition: int
    begin: tuple[int, int, int]
    end: tuple[int, int, int]
    n_predictions: int
    checkpoints: list[Compared]
    counts: dict[str, int]
    first: Difference | None
    listed: dict[str, list[Difference]]
    drift: DriftProof

    @property
    def holds(self) -> bool:
        return not any(self.counts.values()) and all(one.equal for one in self.checkpoints) and self.drift.holds

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
            "drift": {
                "events": self.drift.n_compared,
                "counts": dict(self.drift.counts),
                "differences": [one.plain() for one in self.drift.listed],
            },
        }


async def checkpoints(spec: Spec, broker: str, partition: int) -> list[Version]:
    """The checkpoints that a changelog holds, in the order of their offsets (a rollback goes back in them)."""
    for _ in range(ATTEMPTS):
        last, found = await versions(spec, broker, partition)
        if last is None or (found and found[0].manifest.sequence == last.sequence):
            break
        await asyncio.sleep(PAUSE_SECONDS)  # a worker may have cut off the front while it was being read
    else:
        raise StateError(
            f"the last checkpoint of partition {partition} is not whole: riparian state verify says what is missing"
        )

    def place(version: Version) -> tuple[int, int, int]:
        meta = version.manifest.meta
        return meta["feature_offset"], meta["label_offset"], version.manifest.sequence

    return sorted(found, key=place)


class _Audit:
    """One run over a partition.

    Parameters
    ----------
    proof : Proof
    sent, features, labels : readers at their starts; labels may be None.
    """

    def __init__(self, proof: Proof, sent: Reader, features: Reader, labels: Reader | None) -> None:
        self.proof, self.sent, self.features, self.labels = proof, sent, features, labels

    async def run(
        self,
        left: list[Version],
        stop: int | None,
        on_progress: Callable[[int, int], None],
    ) -> list[Compared]:
        """Fold to the last prediction, or to the last of the checkpoints `left` where `stop` is its offset."""
        proof, compared = self.proof, list[Compared]()
        begin = self.sent.position
        held: list[ConsumerRecord] = []
        more = True
        while more and (stop is None or left):
            records = await self.sent.read(self.sent.end)
            more = bool(records)
            # The last one waits for those after it: whether it is out of order shows only then.
            records, held = [*held, *records[:-1]], records[-1:]
            proof.expect(Sent([r.offset for r in records], [r.key for r in records], [r.value for r in records]))
            while (
                left
                and len(offsets := proof.script().offsets)
                and offsets[-1] >= left[0].manifest.meta["feature_offset"]
            ):
                compared.append(await self._compare(left.pop(0)))
            script = proof.script(stop)
            if len(script.offsets):
                await self._fold(int(script.offsets[-1]) + 1, int(script.label_offsets[-1]))
            on_progress(self.sent.position - begin, self.sent.end - begin)
        while left:
            compared.append(await self._compare(left.pop(0)))
        proof.settle(stop)
        return compared

    async def _fold(self, offset: int, label_offset: int) -> None:
        """Fold all features and labels below these offsets, in the recorded order.

        What comes after the last prediction there may go in any order: these features were rejected, for a prediction
        is sent of every other, and so the labels have only each other to be in order with.
        """
        proof = self.proof
        merge = Merge(proof.features, proof.labels, proof.script(offset))
        while True:
            release = merge.release(EVERYTHING)
            if len(release.features.offsets) or len(release.labels.offsets):
                await asyncio.to_thread(proof.step, release)
            elif not (
                # What waits in memory waits for labels: more features would only take room.
                (not len(proof.features) and await self._fill(self.features, offset))
                or (self.labels is not None and await self._fill(self.labels, label_offset))
                or await self._fill(self.features, offset)
            ):
                if merge.script is None:
                    return
                merge.script = None  # the rest of it points to records that are not there

    async def _fill(self, reader: Reader, stop: int) -> bool:
        """Read on below `stop`; whether there was anything."""
        records = await reader.read(stop)
        if records:
            buffer = self.proof.features if reader is self.features else self.proof.labels
            columns = zip(*((r.offset, r.timestamp, r.key, r.value) for r in records), strict=True)
            buffer.add(RawBatch(*map(list, columns)))
        return bool(records)

    async def _compare(self, version: Version) -> Compared:
        meta = version.manifest.meta
        await self._fold(meta["feature_offset"], meta["label_offset"])
        self.proof.settle(meta["feature_offset"])
        return await asyncio.to_thread(self._held_against, version)

    def _held_against(self, version: Version) -> Compared:
        fold, meta = self.proof.learner, version.manifest.meta
        stored = _restored(fold.spec, version)
        one, two = stored.digest(), fold.digest()
        parts = [] if one == two else differing_parts(stored, fold)
        return Compared(version.manifest.sequence, meta["feature_offset"], meta["label_offset"], one, two, parts)


def _restored(spec: Spec, version: Version) -> PartitionLearner:
    """The learner of a checkpoint."""
    learner = PartitionLearner(spec, version.manifest.partition)
    learner.restore(checkpoint.decode(version.manifest, version.chunks))
    return learner


def _quiet(done: int, total: int) -> None:
    """Progress for nobody."""


async def audit(
    spec: Spec,
    broker: str,
    partition: int,
    *,
    start: int | None = None,
    until: int | None = None,
    on_progress: Callable[[int, int], None] = _quiet,
) -> Report | None:
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
        It cannot be done: the state is damaged, the topics do not reach back so far, there is no such checkpoint.
    """
    check_partition(spec, partition)
    # In this order: predictions reach beyond every checkpoint and drift event, and inputs beyond every prediction.
    kept = await checkpoints(spec, broker, partition)
    topics = spec.topics
    async with (
        reading(broker, topics.drift, partition) as told,
        reading(broker, topics.predictions, partition) as sent,
        reading(broker, topics.features, partition) as features,
        reading(broker, topics.labels, partition) as labels,
    ):
        assert told is not None
        assert sent is not None
        assert features is not None
        if not kept and sent.first == sent.end:
            return None
        last = None if until is None else _named(spec, partition, kept, until)
        last = last or max(kept, key=lambda one: one.manifest.sequence, default=None)
        begin = _begin(spec, partition, kept, start, last, sent, features, labels)
        sequences = [one.manifest.sequence for one in kept]
        first = 0 if begin is None else sequences.index(begin.manifest.sequence) + 1
        left = kept[first : None if until is None else sequences.index(until) + 1]
        if until is not None and not left:
            raise StateError(f"checkpoint {until} does not come after checkpoint {start}: audit up to a later one")
        if begin is None:
            learner = PartitionLearner(spec, partition)
        else:
            learner = await asyncio.to_thread(_restored, spec, begin)
            sent.seek(begin.manifest.outputs.get(PREDICTIONS, 0))
            told.seek(max(told.first, begin.manifest.outputs.get(DRIFT, 0)))
        # A rollback can have left others behind.
        left = [one for one in left if one.manifest.meta.get("origin") == learner.origin]
        features.seek(learner.feature_offset)
        if labels is not None:
            labels.seek(learner.label_offset)
        began = (0 if begin is None else begin.manifest.sequence, learner.feature_offset, learner.label_offset)
        events = await _all(told)
        whole = told.first == 0 or begin is not None
        drift = DriftProof(events, learner.drift.n_events, whole=whole)
        proof = Proof(learner, features.end, drift.step)
        stop = None if until is None else int(left[-1].manifest.meta["feature_offset"])
        compared = await _Audit(proof, sent, features, labels).run(left, stop, on_progress)
    drift.settle()
    return Report(
        partition,
        began,
        (until or 0, learner.feature_offset, learner.label_offset),
        proof.n_compared,
        compared,
        dict(proof.counts),
        proof.first,
        {kind: found for kind, found in proof.listed.items() if found},
        drift,
    )


async def _all(reader: Reader) -> Sent:
    """Every record of a topic that has few."""
    found = Sent([], [], [])
    while records := await reader.read(reader.end):
        found.positions.extend(r.offset for r in records)
        found.keys.extend(r.key for r in records)
        found.values.extend(r.value for r in records)
    return found


def _begin(
    spec: Spec,
    partition: int,
    kept: Sequence[Version],
    start: int | None,
    last: Version | None,
    sent: Reader,
    features: Reader,
    labels: Reader | None,
) -> Version | None:
    """The checkpoint to begin at, None for the beginning; StateError where a fold from there cannot lead to `last`."""

    def reached(one: Version | None) -> bool:
        offset = label_offset = outputs = 0
        if one is not None:
            offset, label_offset = one.manifest.meta["feature_offset"], one.manifest.meta["label_offset"]
            outputs = one.manifest.outputs.get(PREDICTIONS, 0)
        return features.first <= offset and (labels is None or labels.first <= label_offset) and sent.first <= outputs

    def leads(one: Version | None) -> bool:
        return (None if one is None else _start(spec, one)[0]) == origin

    origin = None
    if last is not None:
        origin, changes = _start(spec, last)
        if changes.found:
            raise StateError(
                f"checkpoint {last.manifest.sequence} was made with another stream file "
                f"({changes.found[0].sentence}): audit with that one, or start a worker with this one first"
            )
    wanted = None if start is None else _named(spec, partition, kept, start)
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
            f"the state of partition {partition} is not the fold from {beginning} on: after it{at} the stream file was "
            f"changed, the state was imported, or models were rolled back; {cure}"
        )
    where = ", ".join(
        f"{name} begins at {reader.first:,}"
        for name, reader in (
            (spec.topics.features, features),
            (spec.topics.labels, labels),
            (spec.topics.predictions, sent),
        )
        if reader is not None
    )
    raise StateError(f"the topics of partition {partition} do not reach back to {beginning} ({where}): {cure}")


def _start(spec: Spec, version: Version) -> tuple[list[int] | None, Changes]:
    """The origin of a state that goes on from a checkpoint with this stream file, and what this changes."""
    changes = held_against(spec, version.manifest, version.chunks)
    meta = version.manifest.meta
    return next_origin(meta) if changes.found else meta.get("origin"), changes


def _named(spec: Spec, partition: int, kept: Sequence[Version], sequence: int) -> Version:
    for one in kept:
        if one.manifest.sequence == sequence:
            return one
    numbers = sorted(one.manifest.sequence for one in kept)
    there = ", ".join(map(str, numbers)) if len(numbers) < 10 else f"{len(numbers)} from {numbers[0]} to {numbers[-1]}"
    raise StateError(
        f"partition {partition} of stream {spec.name} has no checkpoint {sequence} to begin or end with: the changelog "
        f"holds {there or 'none'}"
    )
