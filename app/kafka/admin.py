"""Requests to Kafka besides reading and writing: whether it answers, whether the topics fit, what a consumer group has
committed.

Every function opens a client, asks, and closes it; none keeps a connection.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupIdNotFound,
    GroupLoadInProgressError,
    InvalidConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NotCoordinatorForGroupError,
    TopicAlreadyExistsError,
    for_code,
)
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from riparian.app.errors import AccessError, BrokerError, TopicError
from riparian.app.kafka.access.refusal import quiet, refusal, start
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.creating import not_ours, planned
from riparian.topics.names import INPUTS, LEARNED, OUTPUTS, STEERING, TIMESTAMP_AFTER, changelog_topic, topic_name

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

Answer = TypeVar("Answer")

BROKER_SECONDS = 30.0  # how long a command waits for an absent broker
FIRST_PAUSE_SECONDS = 0.2  # pause between the first two tries; it doubles
LONGEST_PAUSE_SECONDS = 5.0  # longest pause between two tries
REQUEST_SECONDS = 10.0  # longest wait for an answer
LEADER_SECONDS = 15.0  # longest wait until each partition of a created topic has a leader
COORDINATOR_SECONDS = 15.0  # longest wait for a group's coordinator
BATCH_BYTES = 1_048_588  # largest batch that Kafka takes in a topic, by default


class TopicsReport(NamedTuple):
    """What was found, and made.

    partitions : topic -> its number of partitions, for every topic of the stream that is there now
    created : topics that were missing and have been made
    missing : topics that are missing still (`check_topics` makes none)
    sources : topic of `rekey` -> its number of partitions, of those that are there
    state : the changelog's number of partitions; None where there is none
    """

    partitions: dict[str, int]
    created: tuple[str, ...]
    missing: tuple[str, ...]
    sources: Mapping[str, int] = {}
    state: int | None = None


# the broker ----------------------------------------------------------------------------------------------------------


_KEPT: ContextVar[tuple[Connection, list[Any]] | None] = ContextVar("_KEPT", default=None)  # see `one_client`


@contextlib.asynccontextmanager
async def one_client(connection: Connection) -> AsyncIterator[None]:
    """Within the block all admin clients of a connection are one, made when it is asked for. What is raised there
    passes."""
    kept = list[Any]()
    token = _KEPT.set((connection, kept))
    try:
        yield
    finally:
        _KEPT.reset(token)
        for client in kept:
            await client.close()


@contextlib.asynccontextmanager
async def admin_client(connection: Connection) -> AsyncIterator[Any]:
    """An admin client; an error of Kafka that is not handled inside becomes a BrokerError."""
    around = _KEPT.get()
    kept = around[1] if around is not None and around[0] is connection else None
    with quiet():
        timeout_ms = int(1000 * REQUEST_SECONDS)
        client = kept[0] if kept else connection.admin(request_timeout_ms=timeout_ms, client_id="riparian-admin")
        try:
            if not kept:
                await start(client, connection)  # which finds out by itself why it is not let in
                if kept is not None:
                    kept.append(client)
            try:
                yield client
            except (NodeNotReadyError, KafkaTimeoutError, KafkaConnectionError, OSError) as error:
                reason = await refusal(connection)
                if reason is not None:
                    raise AccessError(reason) from error
                raise
        except (KafkaError, OSError) as error:
            raise BrokerError(
                f"Kafka at {connection} did not do what was asked ({_reason(error)}): see that it runs, "
                f"or name another by --broker HOST:PORT."
            ) from error
        finally:
            if client not in (kept or ()):
                await client.close()


def _reason(error: BaseException) -> str:
    """An error in a few words, without the client's prefixes: `[Error 38] InvalidReplicationFactorError`."""
    return str(error).strip() or type(error).__name__


async def wait_for_broker(
    connection: Connection, timeout_seconds: float = BROKER_SECONDS, on_wait: Callable[[str], None] | None = None
) -> None:
    """Return when a broker answers a metadata request; try again with growing pauses until then.

    Parameters
    ----------
    timeout_seconds : float
        How long to go on trying. 0 tries once. A broker that is there has `REQUEST_SECONDS` to answer, whatever this
        is: a busy one may be slow.
    on_wait : callable, optional
        Told, in one line, that the broker is absent and when it is tried again.

    Raises
    ------
    AccessError
        One is there, and does not let us in: at once.
    BrokerError
        It is still absent.
    """
    began = time.monotonic()
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            async with admin_client(connection):
                return
        except AccessError:
            raise
        except BrokerError:
            seconds = time.monotonic() - began
            left = timeout_seconds - seconds
            if left <= 0:
                waited = f" within {seconds:.0f} s" if timeout_seconds > 0 else ""
                raise BrokerError(
                    f"Expected Kafka at {connection}, found no broker that answers{waited}: start one "
                    f"(riparian broker start), or name yours by --broker HOST:PORT (or --kafka-config FILE)."
                ) from None
        pause = min(pause, left)
        if on_wait is not None:
            on_wait(f"No Kafka answers at {connection}: trying again in {pause:.1f} s …")
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


# topics --------------------------------------------------------------------------------------------------------------


def stream_topics(spec: "Spec") -> dict[str, str]:
    """The topics of a stream: role -> name, inputs first; without labels where these come in the feature record."""
    named = {role: getattr(spec.topics, role) for role in (*INPUTS, *OUTPUTS, *STEERING, LEARNED)}
    return {role: name for role, name in named.items() if name is not None}


async def check_topics(spec: "Spec", connection: Connection) -> TopicsReport:
    """Compare the topics that are there with the stream file, and with the state; create none.

    Raises
    ------
    TopicError
        A topic has another number of partitions than the stream file says, or than the state has.
    """
    names, state = stream_topics(spec), changelog_topic(spec.name)
    async with admin_client(connection) as client:
        present = await partition_counts(client, {*names.values(), state, *spec.sources})
    sources = {topic: present.pop(topic) for topic in spec.sources if topic in present}
    n_state = present.pop(state, None)
    check_state(spec, names, present, n_state)
    _check_partitions(spec, names, present, n_state is not None)
    missing = tuple(name for name in dict.fromkeys(names.values()) if name not in present)
    return TopicsReport(present, (), missing, sources, n_state)


def check_sources(spec: "Spec", report: TopicsReport) -> None:
    """TopicError where a topic of `rekey` is missing: it is for its producers to create, with their partitions."""
    for topic, role in spec.sources.items():
        if topic not in report.sources:
            raise TopicError(
                f"Expected the topic {topic} of rekey.{role} in the stream {spec.name}, found none: create it with the "
                "partitions that its producers need, or correct its name"
            )


async def ensure_topics(spec: "Spec", connection: Connection) -> TopicsReport:
    """Create the stream's missing topics, and check those that are there.

    Nothing is created when a topic that is there does not fit, nor where the stream file says `create_topics: never`.

    Raises
    ------
    TopicError
        A topic has another number of partitions, is missing and not for us to create, or the broker refuses that.
    """
    report = await check_topics(spec, connection)
    check_sources(spec, report)
    if not report.missing:
        return report
    if spec.create_topics == "never":
        raise not_ours(spec, report.missing, str(connection), changelog_topic(spec.name))
    names = stream_topics(spec)
    async with admin_client(connection) as client:
        await create_topics(client, spec, report.missing)
        present = await led_partitions(client, {*names.values()})
    _check_partitions(spec, names, present, report.state is not None)
    return TopicsReport(present, report.missing, (), report.sources, report.state)


async def create_topics(client: Any, spec: "Spec", names: Collection[str]) -> None:
    """Create topics of a stream as they are planned, unless another worker is quicker. TopicError where the broker
    refuses that."""
    wanted = {one.name: one.new() for one in planned(spec) if one.name in names}
    refused = await _create(client, wanted.values())
    again = [wanted[name] for name, (error, _) in refused.items() if error is InvalidConfigurationError]
    again = [new for new in again if new.topic_configs.pop(TIMESTAMP_AFTER, None)]  # unknown before Kafka 3.6
    if again:
        refused = {name: why for name, why in refused.items() if wanted[name] not in again}
        refused |= await _create(client, again)
    for name, (_, reason) in refused.items():
        raise TopicError(
            f'Kafka refuses to create the topic "{name}" with {_count(spec.partitions)} and '
            f"{'its default replication' if spec.replication is None else f'replication {spec.replication}'} "
            f"({reason.rstrip('.')}): change partitions, replication, "
            "min_insync_replicas or retention in the stream file, or create it yourself."
        )


async def _create(client: Any, topics: Iterable[Any]) -> dict[str, tuple[type[KafkaError], str]]:
    """Topic -> why it was not created, and in words, of those that were not."""
    answer = await client.create_topics(list(topics), timeout_ms=int(1000 * REQUEST_SECONDS))
    refused = {}
    for name, code, *detail in answer.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            refused[name] = error, (detail[0] if detail else None) or error.description or error.__name__
    return refused


async def described(client: Any, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Topic -> what Kafka says of it, of those that are there."""
    return {one["topic"]: one for one in await client.describe_topics(list(names)) if one["error_code"] == 0}


async def partition_counts(client: Any, names: Collection[str]) -> dict[str, int]:
    """Topic -> number of partitions, for those that are there."""
    return {topic: len(one["partitions"]) for topic, one in (await described(client, names)).items()}


async def configs_of(client: Any, topics: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Topic -> its settings by their names; none where these are not ours to read."""
    answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
    return {
        topic: {entry[0]: entry[1] for entry in entries}
        for answer in answers
        for _, _, _, topic, entries in answer.resources
    }


async def largest_batches(connection: Connection, topics: Sequence[str]) -> dict[str, int]:
    """max.message.bytes of each topic; Kafka's own default where that is not ours to read.

    Raises
    ------
    KafkaError
        The broker does not answer.
    """
    client = connection.admin()
    try:
        await client.start()
        found = await configs_of(client, topics)
    finally:
        await client.close()
    return {topic: int(found.get(topic, {}).get("max.message.bytes") or BATCH_BYTES) for topic in topics}


async def led_partitions(client: Any, names: Collection[str], least: int = 1) -> dict[str, int]:
    """Topic -> number of partitions, once there are so many and each has a leader: a moment after they are created."""
    deadline = time.monotonic() + LEADER_SECONDS
    while True:
        found = {topic: one["partitions"] for topic, one in (await described(client, names)).items()}
        enough = {topic: parts for topic, parts in found.items() if len(parts) >= least}
        led = {topic for topic, parts in enough.items() if all(part["leader"] >= 0 for part in parts)}
        if led == {*names}:
            return {topic: len(parts) for topic, parts in found.items()}
        if time.monotonic() > deadline:
            raise BrokerError(
                f"Expected a leader for every partition of {listing(sorted({*names} - led))}, and at least "
                f"{_count(least)}, within {LEADER_SECONDS:.0f} s, found fewer: see the broker's log."
            )
        await asyncio.sleep(0.05)


def check_state(spec: "Spec", names: dict[str, str], present: dict[str, int], n_state: int | None) -> None:
    """TopicError where the state (None: there is none) has more partitions than the input topics have, or would get.

    names : role -> topic. present : topic -> its partitions.
    """
    inputs = {names[role]: present.get(names[role], spec.partitions) for role in INPUTS if role in names}
    if n_state is None or not (odd := {name: n for name, n in inputs.items() if n < n_state}):
        return
    found = " and ".join(
        f"{_count(n)} in {listing(sorted(name for name in odd if odd[name] == n))}" for n in sorted(set(odd.values()))
    )
    raise TopicError(
        f"Expected {_count(n_state)} in the features and labels, as many as the state of the stream {spec.name} has "
        f"({changelog_topic(spec.name)}), found {found}: a state belongs to its number of partitions, since Kafka "
        "distributes keys differently over another number. Give the stream a new name, which starts afresh, and name "
        f"the features and labels under topics, or let these have {_count(n_state)}, too (kafka-topics.sh --alter)."
    )


def _check_partitions(spec: "Spec", names: dict[str, str], present: dict[str, int], begun: bool) -> None:
    """TopicError unless every topic that is there has the stream's number of partitions; one of a stream that has begun
    may have grown (`app.state.growing`).

    Partition k of the predictions, metrics, drift and dead letters belongs to learner k as much as partition k of the
    features does.
    """
    wanted = spec.partitions
    for shared in spec.of_all:
        if present.get(shared, 1) != 1 and not begun:
            raise TopicError(
                f"Expected 1 partition of {shared}, which all partitions of the stream {spec.name} read in one order, "
                f"found {present[shared]}: recreate it with 1, or name another topic under topics.learned"
            )
    present = {name: n for name, n in present.items() if name not in spec.of_all}
    odd = {name: n for name, n in present.items() if n < wanted or (n > wanted and not begun)}
    if not odd:
        return
    counts = Counter(present.values())
    inputs = {present[names[role]] for role in INPUTS if names.get(role) in present}
    found = " and ".join(
        f"{_count(n)} in {listing(sorted(k for k in odd if odd[k] == n))}" for n in sorted(set(odd.values()))
    )
    if len(counts) == 1:
        advice = f'write "partitions: {next(iter(counts))}" in the stream file'
    elif len(inputs) > 1 and not spec.copied:
        advice = f"recreate {listing(sorted(odd))} with {_count(wanted)}"
        advice += f", or let workers copy the features and labels by id: {rekey_lines(spec)}"
    elif len(inputs) == 1 and inputs != {wanted}:
        n = inputs.pop()
        others = sorted(name for name, found_n in present.items() if found_n != n)
        advice = (
            f'write "partitions: {n}" in the stream file, and delete {listing(others)} or name '
            f"{'another' if len(others) == 1 else 'others'} under topics"
        )
    else:
        advice = f"recreate {listing(sorted(odd))} with {_count(wanted)}, or name other topics under topics"
    raise TopicError(
        f"Expected {_count(wanted)} in every topic of the stream {spec.name} (partitions in the stream file), "
        f"found {found}: {advice}."
    )


def rekey_lines(spec: "Spec", *roles: str) -> str:
    """What to write in a stream file so that the present topics of these roles (of all, if none is named) are copied,
    and the copies have names of their own."""
    given = roles or tuple(role for role in INPUTS if getattr(spec.topics, role) is not None)
    sources = ", ".join(f"{role}: {getattr(spec.topics, role)}" for role in given)
    copies = ", ".join(f"{role}: {topic_name(spec.name, role)}.copied" for role in given)
    return f"rekey: {{{sources}}} and topics: {{{copies}}}"


def _count(n_partitions: int) -> str:
    return f"{n_partitions} partition{'' if n_partitions == 1 else 's'}"


def listing(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


# consumer groups ------------------------------------------------------------------------------------------------------


async def ensure_coordinator(spec: "Spec", connection: Connection) -> None:
    """Wait until Kafka has a coordinator for the stream's consumer group.

    A broker creates its offsets topic at the first request about a group: a worker that starts on a fresh broker would
    log its absence as an error.
    """
    async with admin_client(connection) as client:
        await coordinator(client, spec.group)


async def coordinator(client: Any, group: str) -> int:
    """The node that coordinates a group; a KafkaError where none does after `COORDINATOR_SECONDS`."""

    async def itself(node: int) -> int:
        return node

    return await _of_group(client, group, itself)


async def group_offsets(
    client: Any, group: str, parts: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group has committed: of all partitions, or of `parts` only, with offset -1 where there is nothing.

    The client's own methods drop the error of a whole group, so that one which is loading, or of which we may not ask,
    would seem to have committed nothing.

    Raises
    ------
    GroupAuthorizationFailedError
        We may not ask.
    KafkaError
        Another refusal; that the group is loading only after `COORDINATOR_SECONDS`.
    """
    topics: dict[str, list[int]] = {}
    for part in parts or ():
        topics.setdefault(part.topic, []).append(part.partition)
    request = OffsetFetchRequest(group, None if parts is None else list(topics.items()))

    async def ask(node: int) -> dict[TopicPartition, OffsetAndMetadata]:
        answer = await client._send_request(request, node)
        _raise_for(answer.error_code, f"the offsets of the group {group}")
        found = {}
        for topic, partitions in answer.topics:
            for partition, offset, metadata, code in partitions:
                _raise_for(code, f"the offset of {topic}[{partition}] in the group {group}")
                found[TopicPartition(topic, partition)] = OffsetAndMetadata(offset, metadata)
        return found

    return await _of_group(client, group, ask)


async def group_members(client: Any, group: str) -> int:
    """How many members a group has now; 0 where there is no such group. It raises what `group_offsets` does."""

    async def ask(node: int) -> int:
        answer = await client._send_request(DescribeGroupsRequest([group]), node)
        described = answer.to_object()["groups"][0]
        if for_code(described["error_code"]) is not GroupIdNotFound:
            _raise_for(described["error_code"], f"the members of the group {group}")
        return len(described["members"])

    return await _of_group(client, group, ask)


def _raise_for(code: int, what: str) -> None:
    if code:
        raise for_code(code)(f"Kafka does not say {what}: {for_code(code).__name__}")


async def _of_group(client: Any, group: str, ask: Callable[[int], Awaitable[Answer]]) -> Answer:
    """Ask a group's coordinator, again and again while the group moves to another broker or is loaded."""
    deadline = time.monotonic() + COORDINATOR_SECONDS
    while True:
        try:
            return await ask(await client.find_coordinator(group))
        except (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
