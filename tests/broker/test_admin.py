"""Topics and lag on a real Kafka: what is missing is made, what does not fit is said."""

import asyncio
import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import GroupLoadInProgressError
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import TopicPartition

from riparian.app.errors import BrokerError, TopicError
from riparian.app.kafka import admin
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics import creating, topic_warnings
from riparian.app.kafka.topics.lag import lag
from riparian.app.state import growing
from riparian.app.state.changelog import ensure_changelog
from riparian.app.stream_file.spec import load
from riparian.topics import names
from riparian.topics.names import CHECKPOINT, INPUTS, OUTPUTS, TIMESTAMP_AFTER, Topics, changelog_topic, group_id
from tests.broker.clients import administer, make_topics
from tests.broker.harness import here, invoke, stream_file

pytestmark = pytest.mark.broker


def default_topics(name: str) -> Topics:
    return Topics(*(names.topic_name(name, role) for role in (*INPUTS, *OUTPUTS)))


def stream(name: str, **changes: Any) -> Any:
    """What of a stream file matters to topics."""
    fields = {"name": name, "partitions": 1, "replication": None, "retention": None, "topics": default_topics(name)}
    fields |= {"min_insync_replicas": None, "create_topics": "missing", "group": group_id(name)}
    fields["make_codec"] = lambda: SimpleNamespace(read_place=None)  # there are no predictions to read
    return SimpleNamespace(**{**fields, "sources": {}, "copied": {}, "of_all": (), **changes})


def names_of(spec: Any) -> set[str]:
    """All topics of a stream, without those that it does not have."""
    return set(spec.topics) - {None}


async def grow(client: AIOKafkaAdminClient, topics: list[str], n: int) -> None:
    await client.create_partitions({topic: NewPartitions(n) for topic in topics})
    while {len(t["partitions"]) for t in await client.describe_topics(topics)} != {n}:
        await asyncio.sleep(0.02)


def listed(broker: str) -> set[str]:
    return set(administer(broker, lambda client: client.list_topics()))


def configs(broker: str, topic: str) -> dict[str, str]:
    where = [ConfigResource(ConfigResourceType.TOPIC, topic)]
    answers = administer(broker, lambda client: client.describe_configs(where))
    return {row[0]: row[1] for row in answers[0].resources[0][4]}


def ensure(broker: str, spec: Any) -> admin.TopicsReport:
    return asyncio.run(admin.ensure_topics(spec, Connection(broker)))


def lags(broker: str, spec: Any) -> Any:
    return asyncio.run(lag(spec, Connection(broker)))


def test_missing_topics_are_made_as_the_stream_file_says(broker: str, topic_name: str) -> None:
    spec = stream(topic_name, partitions=3, retention=3600.0)
    names = names_of(spec)

    before = asyncio.run(admin.check_topics(spec, Connection(broker)))
    assert (before.partitions, set(before.missing)) == ({}, names)

    made = ensure(broker, spec)
    assert made.partitions == dict.fromkeys(names, 3)
    assert set(made.created) == names
    assert made.missing == ()

    again = ensure(broker, spec)
    assert (again.partitions, again.created) == (made.partitions, ())

    of_features = configs(broker, spec.topics.features)
    assert of_features["retention.ms"] == "3600000"
    assert of_features["cleanup.policy"] == "delete"
    assert of_features["message.timestamp.type"] == "CreateTime"
    inputs = [spec.topics.features, spec.topics.labels]
    assert [configs(broker, name)[TIMESTAMP_AFTER] for name in inputs] == ["60000"] * 2
    assert asyncio.run(topic_warnings.warnings(spec, Connection(broker), inputs)) == []
    # A worker's clock must not keep it from writing.
    assert configs(broker, spec.topics.predictions)[TIMESTAMP_AFTER] != "60000"
    of_dead = configs(broker, spec.topics.deadletters)
    assert int(of_dead["max.message.bytes"]) == creating.DEADLETTER_BYTES > int(of_features["max.message.bytes"])


def test_a_broker_that_does_not_know_how_to_refuse_the_future_makes_topics_all_the_same(
    broker: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (admin, creating):
        monkeypatch.setattr(module, "TIMESTAMP_AFTER", "message.timestamp.unheard.of.max.ms")
    spec = stream(topic_name)
    made = ensure(broker, spec)
    assert set(made.created) == set(made.partitions) == names_of(spec)
    assert configs(broker, spec.topics.labels)["retention.ms"] == "-1"


def test_topics_that_somebody_else_creates_are_missed_with_the_commands(broker: str, topic_name: str) -> None:
    given = {"partitions": 2, "retention": 3600.0, "min_insync_replicas": 1}
    ours = stream(f"{topic_name}-ours", **given)
    ensure(broker, ours)
    asyncio.run(ensure_changelog(ours, Connection(broker)))

    theirs = stream(f"{topic_name}-theirs", **given, create_topics="never")
    state = changelog_topic(theirs.name)
    with pytest.raises(TopicError, match="says create_topics: never") as error:
        ensure(broker, theirs)
    said, *lines = str(error.value).splitlines()
    assert all(name in said for name in names_of(theirs))
    with pytest.raises(TopicError, match=f"The topic {state} of the stream"):
        asyncio.run(ensure_changelog(theirs, Connection(broker)))
    assert not {*theirs.topics, state} & set(listed(broker))

    for line in lines:
        _create(broker, shlex.split(line))
    assert ensure(broker, theirs).missing == ()
    asyncio.run(ensure_changelog(theirs, Connection(broker)))
    both = zip((*ours.topics, changelog_topic(ours.name)), (*theirs.topics, state), strict=True)
    for one, other in (pair for pair in both if None not in pair):
        assert configs(broker, one) == configs(broker, other)


def _create(broker: str, words: list[str]) -> None:
    """What kafka-topics.sh does with these words."""
    assert words[:5] == ["kafka-topics.sh", "--bootstrap-server", broker, "--create", "--if-not-exists"]
    pairs = list(zip(words[5::2], words[6::2], strict=True))
    given, own = dict(pairs), dict(value.split("=") for name, value in pairs if name == "--config")
    assert "--replication-factor" not in given
    make_topics(broker, {given["--topic"]: int(given["--partitions"])}, **own)


def test_check_warns_of_topics_that_take_records_of_the_future(broker: str, tmp_path: Path, topic_name: str) -> None:
    for i, (changes, how) in enumerate(
        (
            ({}, "up to 1h ahead"),
            ({"message_timestamp_after_max_ms": str(2**63 - 1)}, "with any time ahead"),
            ({"message_timestamp_after_max_ms": "60001"}, "up to 60001ms ahead"),
            ({"message_timestamp_after_max_ms": "60000"}, None),
            ({"message_timestamp_type": "LogAppendTime"}, None),
        )
    ):
        path, spec = stream_file(tmp_path, f"{topic_name}-{i}")
        make_topics(broker, {spec.topics.features: 1}, **changes)
        ensure(broker, spec)
        shown = here("check", path, "--broker", broker)
        found = json.loads(here("check", path, "--broker", broker, "--json"))["warnings"]
        if how is None:
            assert (found, "warning" in shown) == ([], False)
            continue
        cure = f"--entity-name {spec.name}.features --add-config message.timestamp.after.max.ms=60000"
        assert [(how in sentence, cure in sentence) for sentence in found] == [(True, True)]
        assert f"warning: {found[0]}\n" in invoke("check", path, "--broker", broker).output


def test_topics_that_are_there_are_used_and_only_the_others_made(broker: str, topic_name: str) -> None:
    """Without retention they keep records for ever; a stream whose labels come along has no topic of them."""
    theirs = f"{topic_name}-orders"
    make_topics(broker, {theirs: 2})
    spec = stream(topic_name, partitions=2, topics=default_topics(topic_name)._replace(features=theirs, labels=None))
    made = ensure(broker, spec)
    assert set(made.created) == names_of(spec) - {theirs}
    assert made.partitions[theirs] == 2
    assert configs(broker, spec.topics.predictions)["retention.ms"] == "-1"
    found = asyncio.run(admin.check_topics(stream(topic_name, partitions=2), Connection(broker)))
    assert f"{topic_name}.labels" not in found.partitions


def test_four_workers_that_create_at_once_agree(broker: str, topic_name: str) -> None:
    spec = stream(topic_name, partitions=2)

    async def race() -> list[admin.TopicsReport]:
        return await asyncio.gather(*(admin.ensure_topics(spec, Connection(broker)) for _ in range(4)))

    assert [report.partitions for report in asyncio.run(race())] == [dict.fromkeys(names_of(spec), 2)] * 4


@pytest.mark.parametrize(
    ("present", "wanted", "sentence"),
    [
        (
            {"features": 4, "labels": 4},
            1,
            r"Expected 1 partition in every topic of the stream S .*, found 4 partitions in S\.features and S\.labels: "
            r'write "partitions: 4" in the stream file\.',
        ),
        (
            {"features": 4, "labels": 4, "drift": 1},
            1,
            r'found 4 partitions .*: write "partitions: 4" in the stream file, and delete S\.drift or name another',
        ),
        (
            {"features": 4, "labels": 2},
            4,
            r"Expected 4 partitions .*, found 2 partitions in S\.labels: recreate S\.labels with 4 partitions, or "
            r"let workers copy the features and labels by id: rekey: \{features: S\.features, labels: S\.labels\} and ",
        ),
        (
            {"features": 2, "labels": 2, "predictions": 1, "metrics": 3},
            2,
            r"found 1 partition in S\.predictions and 3 partitions in S\.metrics: "
            r"recreate S\.metrics and S\.predictions with 2 partitions",
        ),
    ],
    ids=["file-too-low", "and-an-output-too", "labels-differ", "outputs-differ"],
)
def test_unequal_partitions_say_which_topic_has_how_many_and_create_nothing(
    broker: str, topic_name: str, present: dict[str, int], wanted: int, sentence: str
) -> None:
    spec = stream(topic_name, partitions=wanted)
    theirs = {f"{topic_name}.{role}": n for role, n in present.items()}
    make_topics(broker, theirs)
    with pytest.raises(TopicError, match=sentence.replace("S", topic_name)):
        ensure(broker, spec)
    with pytest.raises(TopicError, match=r"Expected \d partition"):
        asyncio.run(admin.check_topics(spec, Connection(broker)))
    assert {name for name in listed(broker) if name.startswith(topic_name)} == set(theirs)


@pytest.mark.parametrize("said", [1, 4])
def test_a_stream_has_the_partitions_of_its_predictions_and_grows_with_its_inputs(
    broker: str, topic_name: str, tmp_path: Path, said: int
) -> None:
    """Whatever the stream file says. All topics have got three more partitions, the changelog none."""
    file = tmp_path / "stream.yaml"
    file.write_text(STREAM.format(name=topic_name))
    declared, connection = load(file), Connection(broker)
    ensure(broker, declared)
    asyncio.run(ensure_changelog(declared, connection))
    topics = list(admin.stream_topics(declared).values())
    administer(broker, lambda client: grow(client, topics, 4))
    file.write_text(STREAM.format(name=topic_name) + f"partitions: {said}\nlearning: partition\n")
    warning = "the features and labels have 4 partitions, the stream 1: it grows with a worker"
    assert warning in json.loads(here("check", file, "--broker", broker, "--json"))["warnings"]
    spec = asyncio.run(growing.sized(load(file), connection))
    assert spec.partitions == 1
    grown, in_vain, told = asyncio.run(growing.grow(spec, connection))
    assert (grown.partitions, in_vain) == (4, (0, 0))
    assert str(told).endswith("have 4 partitions, and the stream 1: it goes on with 4")
    counts = administer(
        broker, lambda client: admin.partition_counts(client, [*topics, changelog_topic(declared.name)])
    )
    assert set(counts.values()) == {4}
    assert asyncio.run(growing.grow(grown, connection)) == (grown, (0, 0), None)
    assert asyncio.run(growing.sized(load(file), connection)).partitions == 4


def test_a_broker_that_is_there_may_be_slow_to_answer(broker: str) -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1.5)
        far_reader, far_writer = await asyncio.open_connection(*Connection(broker).addresses[0])
        far_writer.write(await reader.read(65536))
        writer.write(await far_reader.read(65536))
        far_writer.write(await reader.read(65536))
        writer.write(await far_reader.read(65536))

    async def run() -> None:
        server = await asyncio.start_server(late, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await admin.wait_for_broker(Connection(f"127.0.0.1:{port}"), 0.5)
        server.close()

    asyncio.run(run())


def test_a_refused_topic_is_one_sentence(broker: str, topic_name: str) -> None:
    with pytest.raises(TopicError, match=r'refuses to create the topic ".*" with 1 partition and replication 3 \(.*1'):
        ensure(broker, stream(topic_name, replication=3))


async def fill(broker: str, topic: str, partition: int, n_records: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker)
    await producer.start()
    try:
        for _ in range(n_records):
            await producer.send(topic, b"{}", partition=partition)
    finally:
        await producer.stop()


async def commit(broker: str, group: str, offsets: dict[TopicPartition, int], metadata: str = CHECKPOINT) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(list(offsets))
        await consumer.commit({tp: (offset, metadata) for tp, offset in offsets.items()})
    finally:
        await consumer.stop()


def test_lag_is_what_the_group_has_not_committed(broker: str, topic_name: str) -> None:
    spec = stream(topic_name, partitions=2)
    ensure(broker, spec)
    asyncio.run(fill(broker, spec.topics.features, 1, 7))

    fresh = lags(broker, spec)
    assert (fresh.group, fresh.workers) == (f"riparian-{topic_name}", 0)
    assert [(row.topic, row.partition) for row in fresh.rows] == [
        (topic, k) for topic in (spec.topics.features, spec.topics.labels) for k in (0, 1)
    ]
    assert [row.end for row in fresh.rows] == [0, 7, 0, 0]
    assert all(row.committed is None and row.lag is None for row in fresh.rows)

    asyncio.run(commit(broker, fresh.group, {TopicPartition(spec.topics.features, 1): 5}))
    row = lags(broker, spec).rows[1]
    assert (row.start, row.end, row.committed, row.lag) == (0, 7, 5, 2)
    # Workers go on from their state, whatever somebody sets the group's offsets to.
    asyncio.run(commit(broker, fresh.group, {TopicPartition(spec.topics.features, 1): 7}, ""))
    row = lags(broker, spec).rows[1]
    assert (row.committed, row.lag, row.foreign) == (None, None, 7)


@pytest.mark.parametrize("request_", [OffsetFetchRequest, DescribeGroupsRequest])
def test_a_group_that_is_loading_is_asked_again(
    broker: str, topic_name: str, monkeypatch: pytest.MonkeyPatch, request_: Any
) -> None:
    """As in the first moments of a broker: the client takes its answer for a group that has committed nothing."""
    spec = stream(topic_name)
    ensure(broker, spec)
    asyncio.run(commit(broker, spec.group, {TopicPartition(spec.topics.features, 0): 5}))
    asked, real = list[int](), AIOKafkaAdminClient._send_request

    async def loading(client: Any, request: Any, *rest: Any) -> Any:
        answer = await real(client, request, *rest)
        if isinstance(request, request_):
            asked.append(1)
            if len(asked) < 3 and request_ is OffsetFetchRequest:
                answer.error_code, answer.topics = GroupLoadInProgressError.errno, []
            elif len(asked) < 3:
                answer.groups = [(GroupLoadInProgressError.errno, *answer.groups[0][1:])]
        return answer

    monkeypatch.setattr(AIOKafkaAdminClient, "_send_request", loading)
    assert lags(broker, spec).rows[0].committed == 5
    assert len(asked) == 3


def test_lag_of_a_stream_without_topics_names_them(broker: str, topic_name: str) -> None:
    with pytest.raises(TopicError, match=rf"{topic_name}\.features and {topic_name}\.labels .* found none"):
        lags(broker, stream(topic_name))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:kafka", ":9092", "a:1,b", "127.0.0.1:99999", "a:²", ""])
def test_an_address_that_is_none_is_one_sentence(address: str) -> None:
    with pytest.raises(BrokerError, match="Expected --broker as HOST:PORT"):
        Connection(address)


STREAM = """
name: {name}
task: classification
features: {{a: numeric}}
classes: [u, d]
champion: {{model: majority-class}}
"""


def test_the_command_lag_prints_a_table_and_json(broker: str, topic_name: str, tmp_path: Path) -> None:
    file, other, absent = (tmp_path / f"{name}.yaml" for name in ("stream", "other", "absent"))
    file.write_text(STREAM.format(name=topic_name))
    declared = load(file)
    ensure(broker, declared)
    asyncio.run(fill(broker, declared.topics.features, 0, 3))
    arguments = ["lag", file, "--broker", broker]

    assert "No worker has processed anything yet" in here(*arguments).replace("\n", " ")
    found = json.loads(here(*arguments, "--json"))
    assert (found["lag"], found["partitions"][0]["end"]) == (None, 3)

    group = group_id(topic_name)
    offsets = {TopicPartition(topic, 0): 0 for topic in (declared.topics.features, declared.topics.labels)}
    asyncio.run(commit(broker, group, offsets))
    assert "3 records behind" in here(*arguments)
    found = json.loads(here(*arguments, "--json"))
    assert (found["stream"], found["group"], found["lag"]) == (topic_name, group, 3)
    assert found["partitions"][0] == {
        **{"topic": declared.topics.features, "partition": 0, "start": 0, "end": 3},
        **{"processed": 0, "committed": 0, "lag": 3, "copied": False, "foreign": None},
    }

    other.write_text(STREAM.format(name=f"{topic_name}-2"))
    ensure(broker, load(other))
    both = invoke("lag", other, absent, file, "--broker", broker, "--json")
    assert (both.exit_code, str(both.exception).startswith(f"{absent}: ")) == (1, True), both.output
    assert [json.loads(line)["stream"] for line in both.stdout.splitlines()] == [f"{topic_name}-2", topic_name]
