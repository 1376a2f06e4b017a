"""Folds the retained records of a partition with other models, in the order that its predictions recorded.

Nothing is compared and nothing is sent: what comes out is how these models would have done. After the last prediction,
and where the topics have lost what the predictions tell of, timestamps decide, as in a worker.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from riparian.app.errors import SpecError
from riparian.app.evaluation.measures.measured import by_name, decided_classes
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import PartitionReader, reading, reading_logs
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Figures
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder
from riparian.app.registry.asking import readied
from riparian.app.state.audit.audit import ASK_SECONDS, _asking
from riparian.app.state.audit.proof import longest_ascent, possible
from riparian.app.state.changelog import check_partition
from riparian.app.stream_file.sections.keys import spread_keys
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.names import CHAMPION, FEATURES, LEARNED, STEERING
from riparian.topics.places import offset_of
from riparian.topics.records import RawBatch

Model = tuple[str, dict[str, Any]]


class Backtest(NamedTuple):
    """What models would have done in a partition.

    partition : its number
    first : role of an input topic -> the first offset that it holds
    n_recorded : records whose order a prediction told
    n_rejected : records that could not be read
    learner : after all records
    figures : its scores, by role (`roles`)
    """

    partition: int
    first: Mapping[str, int]
    n_recorded: int
    n_rejected: int
    learner: PartitionLearner
    figures: Figures


def classes_of(found: Backtest, role: str) -> dict[str, dict[str, float]]:
    """Of a model in a partition: name of a class -> n, recall, precision and f1; nothing where the stream has no
    decision."""
    names = decided_classes(found.learner)
    return {} if names is None else by_name(found.learner.roles[role].metrics, names)


def roles(models: Sequence[Model]) -> list[str]:
    """The names that models have in a fold: the first is its champion; they all see the same."""
    return [CHAMPION, *(f"model-{i}" for i in range(2, len(models) + 1))]


def of_models(spec: Spec, models: Sequence[Model]) -> Spec:
    """The stream with these models. SpecError where one is none of its task, or features are known to all partitions
    alone."""
    if spec.shares and (spread := spread_keys(spec)):
        raise SpecError(
            f"keys.{spread[0]}: expected a key whose records all come to one partition, since a backtest folds each "
            f"partition by itself, found one whose labels come to {spec.partitions}; evaluate a file of the records "
            "instead (riparian evaluate DATA --stream)"
        )
    without = ("champion", "challengers", "control", "promotion")
    fields: dict[str, Any] = {name: getattr(spec, name) for name in spec.model_fields_set if name not in without}
    fields["topics"] = spec.topics.model_copy(update=dict.fromkeys((*STEERING, LEARNED)))
    fields["learning"] = "partition"
    fields["predictions"] = spec.predictions.model_copy(update={"reasons": None})  # nothing is sent
    made = [{"model": name, **parameters} for name, parameters in models]
    fields |= {"champion": made[0], "challengers": dict(zip(roles(models)[1:], made[1:], strict=True))}
    return build(fields, spec.name)


async def backtest(
    spec: Spec,
    models: Sequence[Model],
    connection: Connection,
    partition: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    recorded: bool = True,
    limit: int | None = None,
) -> Backtest:
    """Fold a partition with these models.

    Parameters
    ----------
    models : sequence of (str, dict)
        Names of learners, with their parameters.
    on_progress : callable
        Given how many records of the inputs were read, and how many there are.
    recorded : bool
        Whether there is a topic of predictions, which tell an order.
    limit : int, optional
        How many records of the features to take, from the first that the topic holds.

    Raises
    ------
    SpecError
        A model is none of the stream's task.
    KafkaError
        The broker does not answer.
    """
    if not models:
        raise SpecError("--model: expected a learner, found none; name one, such as --model naive-bayes")
    check_partition(spec, partition)
    given = of_models(spec, models)
    learner = PartitionLearner(given, partition)
    async with (
        reading(connection, spec.topics.predictions, partition) if recorded else nullcontext() as sent,
        reading_logs(connection, given.logs(partition)) as inputs,
    ):
        if limit is not None:
            inputs[FEATURES].end = min(inputs[FEATURES].end, inputs[FEATURES].first + limit)
        script = (
            RecordedOrder() if sent is None else await _recorded(spec, sent, list(learner.rules), inputs[FEATURES].end)
        )
        asking = await _asking(given, connection, partition, inputs, writes=False)
        first = {role: reader.first for role, reader in inputs.items()}
        total = sum(reader.end - reader.first for reader in inputs.values())
        merge, n_rejected, whole = PartitionGroup(learner.buffers(), script), 0, False
        await asyncio.to_thread(learner.warm_up)
        while True:
            release = merge.release(EVERYTHING if whole else None)
            if release.n:
                async for part in readied(asking, release, ASK_SECONDS):
                    outcome = await asyncio.to_thread(learner.step, part)
                    n_rejected += sum(map(len, outcome.rejected.values()))
                on_progress(sum(one.position for one in inputs.values()) - sum(first.values()), total)
                continue
            if whole and merge.script is None:
                break
            if whole:
                merge.script = None  # what is left of it tells of records that do not exist
                continue
            whole = not await _fill(merge, inputs)
    n = len(script.offsets)
    return Backtest(partition, first, n, n_rejected, learner, learner.figures())


async def _fill(merge: PartitionGroup, inputs: Mapping[str, PartitionReader]) -> bool:
    """Read on where least is in memory; whether there was anything."""
    for role in sorted(inputs, key=lambda role: len(merge.buffers[role])):
        records = await inputs[role].read(inputs[role].end)
        if records:
            merge.buffers[role].add(RawBatch.of(records))
            return True
    return False


async def _recorded(spec: Spec, sent: PartitionReader, wanted: Sequence[str], features_end: int) -> RecordedOrder:
    """The order that the predictions of a partition tell of the logs `wanted`. Records that are none tell nothing, and
    neither do places behind the end of the features; of those that run backwards as few as possible are left out."""
    learner, places = PartitionLearner(spec), list[list[int]]()
    codec, known = learner.codec, list(learner.rules)
    bits = codec.index_bits
    at = [known.index(role) for role in wanted]
    while records := await sent.read(sent.end):
        for record in records:
            try:
                values = codec.split_predictions(record.value)
                found = [codec.read_place(value).places(bits) for value in values]
            except ValueError:
                continue
            places += [[place[i] for i in at] for place in found if offset_of(place[0], bits.features) < features_end]
    if not places:
        return RecordedOrder()
    script = RecordedOrder.of(wanted, places)
    kept = longest_ascent(script.offsets, strict=True)
    return RecordedOrder(
        script.offsets[kept], {role: possible(found[kept]) for role, found in script.next_offsets.items()}
    )


def pooled(found: Sequence[Backtest], role: str) -> dict[str, float]:
    """A model's scores over partitions: `n` is their sum, the others are means by n of those that are means
    themselves."""
    scores = [one.figures.overall[role] for one in found]
    if len(scores) == 1:
        return dict(scores[0])
    n = sum(score.get("n", 0) for score in scores)
    means = ("accuracy", "log_loss", "cost", "alert_rate", "mae", "mse")
    kept = [name for name in means if n and all(name in score for score in scores if score.get("n", 0))]
    return {"n": n} | {
        name: sum(score[name] * score["n"] for score in scores if score.get("n", 0)) / n for name in kept
    }
