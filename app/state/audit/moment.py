"""A partition's learner as it was at the moment of a prediction: folded again from the checkpoint nearest before it, in
the order that the predictions recorded (`app.state.audit.audit`)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import PartitionReader, reading, reading_logs
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.state.audit.audit import _asking, _Audit, checkpoints, reach, sent_before
from riparian.app.state.audit.finding import FoundPrediction
from riparian.app.state.audit.proof import Proof, SentRecords
from riparian.app.state.checkpoint import Stored
from riparian.app.state.portable import restore
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Floats
from riparian.topics.names import FEATURES, PREDICTIONS
from riparian.topics.places import offset_of
from riparian.topics.records import Features, RawBatch

MOST_FOLDED = 500_000  # predictions between a checkpoint and the moment


class Moment(NamedTuple):
    """What a prediction was made from.

    Attributes
    ----------
    learner : right before the prediction, but with the values and classes of its record.
    features : its record, decoded, with the features over the past of its keys.
    x : these features as the models had them: a value that they had not seen is missing.
    timestamp : of that record, ms.
    described : role -> nodes of the model as it was.
    label_waits : whether a label of its id came before it.
    waits : whether an earlier record of its id waits for a label.
    sequence, offset : of the checkpoint from which it was folded; 0 for the beginning of the topics.
    n_folded : predictions that were made again on the way.
    same : whether all of them, and this one, are what was sent, to the last bit.
    """

    learner: PartitionLearner
    features: Features
    x: Floats
    timestamp: int
    described: Mapping[str, list[dict[str, Any]]]
    label_waits: bool
    waits: bool
    sequence: int
    offset: int
    n_folded: int
    same: bool


async def moment_of(
    spec: Spec, connection: Connection, found: FoundPrediction, on_progress: Callable[[int, int], None]
) -> Moment:
    """The learner at the moment of a prediction.

    Raises
    ------
    StateError
        No checkpoint before it is kept whose records are there, or it is too far away.
    """
    kept = await checkpoints(spec, connection, found.partition)
    async with (
        reading(connection, spec.topics.predictions, found.partition) as sent,
        reading_logs(connection, spec.logs(found.partition)) as inputs,
    ):
        learner = PartitionLearner(spec, found.partition)
        begin = _nearest(learner, kept, found, sent, inputs)
        start = sent.first
        if begin is not None:
            learner = await asyncio.to_thread(restore, spec, begin)
            start = begin.manifest.outputs.get(PREDICTIONS, 0)
        if found.position - start > MOST_FOLDED:
            raise StateError(
                f"the checkpoint before it is {found.position - start:,} predictions away, and at most {MOST_FOLDED:,} "
                "are made again: riparian audit goes the whole way"
            )
        sent.seek(start)
        for role, reader in inputs.items():
            reader.seek(learner.offsets[role])
        began = learner.offsets[FEATURES]
        asking = await _asking(spec, connection, found.partition, inputs)
        made = list[Floats]()  # features over the past of keys, of the last prediction

        def keep(outcome: Outcome) -> None:
            if outcome.made is not None and len(outcome.made):
                made[:] = [outcome.made[-1]]

        proof = Proof(learner, inputs[FEATURES].end, keep)
        fold = _Audit(proof, sent, inputs, asking)
        place, stops = found.places[0], dict(zip(learner.rules, found.places, strict=False))
        while records := await sent.read(found.position + 1):
            proof.expect(SentRecords([r.offset for r in records], [r.key for r in records], [r.value for r in records]))
            script = proof.script(place)
            if len(script.offsets) and records[-1].offset < found.position:
                reached = {role: int(ends[-1]) for role, ends in script.next_offsets.items()}
                await fold._fold({**reached, FEATURES: int(script.offsets[-1]) + 1})
            on_progress(sent.position - start, found.position + 1 - start)
        await fold._fold(stops)
        described = {name: role.model.describe() for name, role in learner.roles.items()}
        label_waits = bool(learner.pending.early([found.sent["id"]])[0])
        waits = bool(learner.pending.wait([found.sent["id"]])[0])
        await fold._fold({**stops, FEATURES: place + 1})
        known = np.array([np.nan if known is None else len(known) for known in learner.vocabularies])
        features, timestamp = await _record(learner, connection, spec, found)
        if made:
            features.x[:, learner.past.columns] = made[0]
        x = np.where(features.x >= known, np.nan, features.x)
    made_from = learner, features, x, timestamp, described
    sequence = 0 if begin is None else begin.manifest.sequence
    same = proof.holds and proof.n_compared > 0
    return Moment(*made_from, label_waits, waits, sequence, began, proof.n_compared, same)


def _nearest(
    learner: PartitionLearner,
    kept: list[Stored],
    found: FoundPrediction,
    sent: PartitionReader,
    inputs: Mapping[str, PartitionReader],
) -> Stored | None:
    """The last checkpoint before a prediction from which one can fold; None for the beginning of the topics."""

    def reached(one: Stored | None) -> bool:
        return sent.first <= sent_before(one) <= found.position and reach(inputs, one)

    before = [
        one for one in kept if learner.logs.place_in(one.manifest.meta, FEATURES) <= found.places[0] and reached(one)
    ]
    if before:
        return before[-1]
    if reached(None):
        return None
    raise StateError(
        "the model of that moment cannot be made again: no checkpoint before it is kept, and the topics do not reach "
        "back to their beginning"
    )


async def _record(
    learner: PartitionLearner, connection: Connection, spec: Spec, found: FoundPrediction
) -> tuple[Features, int]:
    """The record of a prediction, decoded by a learner that has folded it: it knows all of its values. And the
    record's timestamp, ms."""
    bits = learner.bits[FEATURES]
    offset = offset_of(found.places[0], bits)
    async with reading(connection, spec.topics.features, found.partition) as features:
        features.seek(offset)
        batch = learner.codec.unpack(FEATURES, RawBatch.of(await features.read(offset + 1)))
    i = list(batch.offsets).index(found.places[0])
    decoded = learner.decoder.features(batch.part(i, i + 1), learner.vocabularies, learner.classes)
    return decoded, int(batch.timestamps[i])
