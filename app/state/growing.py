"""Partitions that were added to a stream's topics: the stream goes on with as many.

Features and labels are grown by whoever owns them. The stream's own topics follow: first the changelog, then in each
new partition of it a first checkpoint with the models of the stream, then the outputs, the predictions last. So a
stream has as many partitions as its predictions have, and each of them has a state. Whoever is interrupted, or is not
the only one, does again what is not done yet: a checkpoint that is there is not written a second time.
"""

import time
from collections.abc import Mapping

from aiokafka.admin import NewPartitions
from aiokafka.errors import (
    BrokerResponseError,
    InvalidPartitionsError,
    KafkaError,
)

from riparian.app.errors import BrokerError, StateError, TopicError
from riparian.app.kafka.admin import admin_client, led_partitions, partition_counts, stream_topics
from riparian.app.kafka.connection import Connection
from riparian.app.state import checkpoint, portable
from riparian.app.state.changelog import n_partitions, read_whole, write
from riparian.app.state.checkpoint import Stored
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import INPUTS, LEARNED, changelog_topic, state_field

ASK = "the stream file says grow: ask, so run riparian grow"


async def sized(spec: Spec, connection: Connection) -> Spec:
    """The stream with as many partitions as it has in Kafka; with those of its file where it has not begun.

    Raises
    ------
    TopicError
        It has more than its features over keys, or its labels, allow.
    """
    own = own_topics(spec)
    async with admin_client(connection) as client:
        found = await partition_counts(client, own)
    if own[0] not in found:
        return spec
    try:
        return spec.with_partitions(min(found.values()))
    except ValueError as error:
        n = min(found.values())
        raise TopicError(
            f"the topics of the stream {spec.name} have {n} partitions, and its file {spec.partitions}: {error}; with "
            f"partitions: {n} in the file it goes on all the same"
        ) from error


def own_topics(spec: Spec) -> list[str]:
    """The topics with which a stream grows, in that order: the changelog first, the predictions last."""
    names = stream_topics(spec)
    not_ours = {*(names[role] for role in INPUTS if role in names), *spec.of_all, spec.topics.predictions}
    outputs = [name for name in names.values() if name not in not_ours]
    return [changelog_topic(spec.name), *outputs, spec.topics.predictions]


def prospect(spec: Spec, counts: Mapping[str, int]) -> str | None:
    """What a worker that starts would do about partitions that were added; None where there is nothing. spec : `sized`.
    counts : topic -> its partitions."""
    names = stream_topics(spec)
    inputs = {names[role]: counts.get(names[role], 0) for role in INPUTS if role in names}
    wanted = min(inputs.values())
    if wanted > spec.partitions:
        cure = "it grows with a worker" if spec.grow == "follow" else ASK
        return f"the features and labels have {wanted} partitions, the stream {spec.partitions}: {cure}" + _unmet(
            spec.partitions, wanted
        )
    more = [f"{topic} has {n} partitions" for topic, n in inputs.items() if n > spec.partitions]
    return f"{more[0]}, the stream {spec.partitions}: give the other input as many" if more else None


def _unmet(before: int, after: int) -> str:
    """What to say of labels that are not handed on: where keys move between partitions that there were."""
    if after % before == 0:
        return ""
    return (
        f"; {after} is no multiple of {before}, so labels of keys that move from one old partition to another do not "
        "meet their instances: riparian_unmatched_labels_total counts them"
    )


async def grow(spec: Spec, connection: Connection) -> tuple[Spec, tuple[int, int], str | None]:
    """Let a stream have as many partitions as its features and labels. spec : `sized`.

    Returns
    -------
    The stream with them; how many of them it cannot have, and how many its changelog has then, else zeros; and what was
    done, or why nothing could be.

    Raises
    ------
    BrokerError
        The broker does not answer, or another worker does the same at this moment.
    """
    names, changelog, before = stream_topics(spec), changelog_topic(spec.name), spec.partitions
    async with admin_client(connection) as client:
        found = await partition_counts(client, [*names.values(), changelog])
    wanted = min(found.get(names[role], 0) for role in INPUTS if role in names)
    if changelog not in found or wanted <= before:
        return spec, (0, 0), None
    what = f"the features and labels of {spec.name} have {wanted} partitions, and the stream {before}: "
    own = own_topics(spec)
    # The others are not to have them before each has its first checkpoint.
    asked = [topic for topic in own if found.get(topic, wanted) < wanted]
    asked = asked[:1] if asked[:1] == own[:1] else asked
    tool = f"kafka-topics.sh --bootstrap-server {connection} --alter"
    commands = "\n".join(f"{tool} --topic {topic} --partitions {wanted}" for topic in asked)
    try:
        grown = spec.with_partitions(wanted)
        if spec.grow == "ask" and spec.create_topics != "never" and found[changelog] < wanted:
            raise TopicError(ASK)
        if spec.create_topics != "never":
            await _make(connection, own[:1], wanted, commands)
        await _begin(grown, connection, range(before, min(wanted, await n_partitions(connection, changelog))))
        if spec.create_topics == "never":
            raise TopicError(f"add them to topics of the stream:\n{commands}")
        await _make(connection, own, wanted, commands)
    except KafkaError as error:
        raise BrokerError(f"the stream {spec.name} has not got its partitions yet ({error!r})") from error
    except (ValueError, TopicError, StateError) as error:
        return spec, (wanted, found[changelog]), f"{what}those from {before} on are not read; {error}"
    return grown, (0, 0), f"{what}it goes on with {wanted}{_unmet(before, wanted)}"


async def allow(spec: Spec, connection: Connection) -> str:
    """Give the changelog of a stream whose file says `grow: ask` the partitions that its features and labels have:
    workers do the rest. spec : `sized`. Returns what was done."""
    names, own = stream_topics(spec), own_topics(spec)[:1]
    async with admin_client(connection) as client:
        found = await partition_counts(client, [*names.values(), *own])
    wanted = min(found.get(names[role], 0) for role in INPUTS if role in names)
    if own[0] not in found or wanted <= spec.partitions:
        return f"{spec.name} has {spec.partitions} partitions, its features and labels {wanted}: there is nothing to do"
    try:
        spec.with_partitions(wanted)
    except ValueError as error:
        raise TopicError(f"the stream {spec.name} stays as it is: {error}") from error
    await _make(connection, own, wanted, f"kafka-topics.sh --alter --topic {own[0]} --partitions {wanted}")
    return f"{spec.name} goes on with {wanted} partitions: its workers begin again within half a minute"


async def _make(connection: Connection, topics: list[str], n: int, commands: str) -> None:
    """Give those of these topics that have fewer n partitions, one after the other. TopicError where Kafka refuses it:
    these commands are to be run by somebody who may."""
    async with admin_client(connection) as client:
        found = await partition_counts(client, topics)
        for topic in [topic for topic in topics if found.get(topic, n) < n]:
            try:
                await client.create_partitions({topic: NewPartitions(n)})
            except InvalidPartitionsError:  # another worker was quicker
                continue
            except BrokerResponseError as error:
                if error.retriable:
                    raise
                raise TopicError(
                    f"Kafka does not let this client add them to {topic} ({type(error).__name__}): grant the ACL Alter "
                    f"on the topics of the stream and start the worker again, or run\n{commands}"
                ) from error
        await led_partitions(client, topics, n)  # a broker tells of them a moment after it has them


async def _begin(spec: Spec, connection: Connection, partitions: range) -> None:
    """Give new partitions a first checkpoint, with the models of the partition that has learned most."""
    source: Stored | None = None
    times = [int(1000 * time.time())]
    for partition in range(partitions.start) if partitions else ():
        log, findings = await read_whole(connection, spec.name, partition)
        if findings.manifest is None or not findings.sound:
            continue
        times += [int(findings.manifest.meta[state_field(role, "time")]) for role in INPUTS]
        if source is None or _learned(findings.manifest) > _learned(source.manifest):
            source = Stored(findings.manifest, checkpoint.chunks_of(log.items, partition))
    if source is None:
        return  # nothing was learned: they begin as the others did
    for partition in partitions:
        if (await read_whole(connection, spec.name, partition))[1].manifest is not None:
            continue  # another worker was quicker
        learner = portable.added(spec, source, partition)
        learner.grown = partitions.start, max(times) + int(1000 * spec.join.horizon)
        _, manifest_data, chunks = portable.encoded(spec, learner, 1)
        await write(spec, connection, partition, chunks, manifest_data, once=True)


def _learned(manifest: checkpoint.Manifest) -> tuple[int, int]:
    """By how much a partition has learned: of the log of all partitions, then of its own labels."""
    return int(manifest.meta.get(state_field(LEARNED, "offset"), 0)), int(manifest.meta["n_labels"])
