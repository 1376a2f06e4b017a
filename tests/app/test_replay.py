"""Replays: records as the stream file lays them out, stamps that say what the stream was like, Kafka's partitions.

The main check joins everything without a broker: what a replay publishes, decoded, merged and learned as a worker does
it, gives the predictions of `riparian evaluate`, bit for bit.
"""

import asyncio
import csv
import gzip
import json
import time

import numpy as np
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.partitioner import murmur2 as reference_murmur2
from aiokafka.structs import TopicPartition
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.written import rows_of_arrays
from riparian.app import replay
from riparian.app.cli import cli
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.instances import times_of
from riparian.app.dataset.rows import numbers, rows_of_file
from riparian.app.errors import BrokerError, DataError, SpecError
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.partitioner import murmur2, partitions_of
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.replay import FUTURE_MS, ReplayRecords, Schedule, Timeline, plan, publish
from riparian.app.stream_file.spec import build, loads
from riparian.models.streams.generators import agrawal
from riparian.topics.formats.common.json_rows import Renderer, Template, quoted
from riparian.topics.records import RawBatch, Rows

N = 900
STREAM = """
name: mixed
task: classification
features: {u: numeric, colour: nominal, v: numeric, wet: boolean}
champion: {model: hoeffding-tree, grace_period: 40, tie_threshold: 0.2}
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    rng = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("data") / "mixed.csv.gz"
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["u", "colour", "v", "wet", "extra", "label"])
        for i in range(N):
            u, v = rng.normal(), rng.choice([".5", "+3", "007", "1e-3", "-0", "", "12345678901234567890.125"])
            colour = rng.choice(["red", 'gr"een', "bläue\\", "?"])
            label = "yes" if u + (colour == "red") > 0.3 else "no"
            wet = rng.choice(["true", "0", "no", ""])
            writer.writerow([repr(float(u)), colour, v, wet, i, "" if rng.random() < 0.1 else label])
    return path


def publish_in_memory(spec, file, schedule, limit=None, size=128):
    """All messages of a replay, as each topic holds them."""
    timeline = Timeline(spec, schedule)
    features, labels = ReplayRecords([], [], []), ReplayRecords([], [], [])
    for rows in rows_of_file(file, spec, limit=limit, size=size):
        block = timeline.features(rows)
        for topic, part in ((features, block), (labels, timeline.labels(block.stamps[-1], 1000))):
            for column, more in zip(topic[:3], part[:3], strict=True):
                column.extend(more)
    while timeline.next_label is not None:
        for column, more in zip(labels[:3], timeline.labels(float("inf"), 100)[:3], strict=True):
            column.extend(more)
    return features, labels


def fold(spec, features, labels, cut=None):
    """What a worker makes of the two topics: predictions, and the learner at the end."""
    learner = PartitionLearner(spec)
    merge = PartitionGroup(limit=cut or 10_000)
    for buffer, messages in zip(merge.buffers.values(), (features, labels), strict=True):
        buffer.add(RawBatch(list(range(len(messages.keys))), messages.stamps, messages.keys, messages.values))
    p = []
    while merge.n_waiting:
        outcome = learner.step(merge.release(EVERYTHING))
        assert not any(outcome.rejected.values())
        p.append(outcome.p["champion"])
    return np.concatenate(p), learner


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("delay", [0, 1, 60, 2 * N])
def test_what_is_published_gives_the_evaluation_bit_for_bit(mixed, delay, inside):
    if inside and delay:
        pytest.skip("labels inside the feature records cannot be late")
    stream = loads(STREAM + ("topics: {labels: null}" if inside else ""))
    file = DataFile(mixed)
    spec, goal, n = spec_for(file, "hoeffding-tree", stream.models()["champion"][1], stream=loads(STREAM))
    outcomes = []
    result = evaluate(file, spec, goal, n, label_delay=delay, on_outcome=outcomes.append)
    expected = np.concatenate([outcome.p["champion"] for outcome in outcomes])
    features, labels = publish_in_memory(stream, file, Schedule(1_700_000_000_000, 1.0, delay))
    assert len(features.keys) == N
    assert len(labels.keys) == (0 if inside else result["n"])
    for cut in (10_000, 7):
        predictions, learner = fold(stream, features, labels, cut)
        assert predictions.tobytes() == expected.tobytes()
        found = learner.roles["champion"].metrics.metrics()
        assert {key: result[key] for key in found} == found


def test_synthetic_streams_can_be_published():
    stream = agrawal.source(3).take(500)
    kinds = {n: "nominal" if v else "numeric" for n, v in zip(stream.names, stream.n_values, strict=True)}
    spec = build({"name": "a", "task": "classification", "champion": "naive-bayes", "features": kinds})
    rows = list(rows_of_arrays(spec, stream.x, stream.y, prefix="a", size=200))
    assert [len(part) for part in rows] == [200, 200, 100]
    timeline = Timeline(spec, Schedule(0, 1.0, 0))
    values = [value for part in rows for value in timeline.features(part).values]
    for value, row, i in zip(values, stream.x, range(500), strict=True):
        record = json.loads(value)
        assert record["id"] == f"a{i}"
        assert [float(record["x"][name]) for name in stream.names] == row.tolist()
    assert [json.loads(v)["y"] for v in timeline.labels(1e9, 500).values] == [str(int(y)) for y in stream.y]


MAPPED = """
name: mapped
task: regression
record: {id: order.number, time: at.ms, x: "", y: null}
label: {id: "@key", time: seen, y: outcome.amount}
features:
  100%: numeric
  kind: {type: nominal, from: customer.kind}
  new: {type: boolean, from: customer.flags.new}
champion: last-label
"""


def test_records_are_laid_out_as_the_stream_file_says():
    spec = loads(MAPPED)
    renderer = Renderer(spec.mapping())
    rows = Rows(0, ["7", 'a"b'], [["1.5", "null"], ['"x"', '"y"'], ["true", "null"]], ["2.5", None])
    first, second = map(json.loads, renderer.features(rows, [10, 11]))
    assert first == {
        "order": {"number": "7"},
        "at": {"ms": 10},
        "100%": 1.5,
        "customer": {"kind": "x", "flags": {"new": True}},
    }
    assert second["order"]["number"] == 'a"b'
    assert second["100%"] is None
    assert [json.loads(v) for v in renderer.labels(["7"], ["2.5"], [99])] == [{"seen": 99, "outcome": {"amount": 2.5}}]


@given(st.lists(st.floats(allow_infinity=False), min_size=1, max_size=20))
@settings(deadline=None)
def test_numbers_read_back_to_the_same_bits(values):
    array = np.array(values)
    back = [np.nan if text == "null" else float(text) for text in numbers(array)]
    assert len(back) == len(values)
    assert np.array_equal(np.array(back).view(np.uint64)[~np.isnan(array)], array.view(np.uint64)[~np.isnan(array)])
    assert all(text == "null" for text, value in zip(numbers(array), values, strict=True) if np.isnan(value))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=10))
@settings(deadline=None)
def test_strings_are_quoted(values):
    assert [json.loads(text) for text in quoted(values)] == values


def test_template_escapes_percent_signs():
    template = Template([("a%", "%s"), ("b",)])
    assert template.fill([["1"], ['"50%"']], 1) == [b'{"a%":{"%s":1},"b":"50%"}']


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_partitions_are_those_of_kafkas_partitioner(keys, n_partitions):
    assert murmur2(keys).tolist() == [reference_murmur2(key) for key in keys]
    expected = [(reference_murmur2(key) & 0x7FFFFFFF) % n_partitions for key in keys]
    assert partitions_of(keys, n_partitions).tolist() == expected


def test_labels_wait_until_they_are_due():
    spec = loads(STREAM)
    timeline = Timeline(spec, Schedule(1000, 2.0, 5))
    columns = [["1"] * 4, ['"red"'] * 4, ["2"] * 4, ["true"] * 4]
    features = timeline.features(Rows(0, list("abcd"), columns, ['"u"', None, '"v"', '"w"']))
    assert features.stamps == [1000, 1002, 1004, 1006]
    assert timeline.next_label == 1005
    assert timeline.labels(1004, 10).keys == []
    assert timeline.labels(1009, 10) == ReplayRecords(
        [b"a", b"c"], [b'{"id":"a","y":"u"}', b'{"id":"c","y":"v"}'], [1005, 1009]
    )
    assert timeline.labels(2000, 0).keys == []
    assert timeline.labels(2000, 10).stamps == [1011]
    assert timeline.next_label is None


@given(st.integers(0, 10**13), st.floats(0.001, 5000), st.floats(-10, 100_000))
@settings(deadline=None)
def test_what_is_due_has_a_stamp_that_has_come(start, rate, later):
    schedule = Schedule(start, 1000.0 / rate, 0)
    now = start + later
    n = schedule.n_due(now)
    assert n == 0 or schedule.stamp(n - 1) <= now
    assert schedule.stamp(n) > now


def test_plans():
    spec = loads(STREAM)
    now = plan(spec, 0).start
    ending = plan(spec, 0, n=10_000, label_delay=2.0)
    assert abs(ending.start + 12_000 - now) < 5_000
    assert ending.delay_ms == 2000
    assert ending.step_ms == 1.0
    later = plan(spec, now + 30_000, n=10_000)
    assert later.start == now + 30_001  # never before what the topics hold
    paced = plan(spec, 0, rate=50.0, n=10_000)
    assert paced.start >= now
    assert paced.step_ms == 20.0
    with pytest.raises(DataError, match="more than a minute ahead, which Kafka refuses: begin 1,000 s later"):
        plan(spec, int(time.time() * 1000), n=FUTURE_MS + 1_000_300)


def test_rows_keep_their_own_times():
    spec, week = loads(STREAM), 7 * 86_400_000
    times = [1_522_540_800_000, 1_522_540_800_000, 1_522_540_800_000 + week]
    schedule = plan(spec, times[0], label_delay=2.0, n=3, times=times)
    assert [schedule.stamp(i) for i in range(3)] == times
    assert schedule.delay_ms == 2000
    with pytest.raises(DataError, match="hold records of a later time than the first row"):
        plan(spec, times[0] + 1, times=times)
    with pytest.raises(DataError, match="the last row, or its label, has a time that is more than a minute ahead"):
        plan(spec, 0, label_delay=61.0, times=[0, int(time.time() * 1000)])


def test_times_of_a_column(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("at,x\n2018-04-01T00:00:01Z,1\n2018-04-01T00:00:00Z,2\n1522540802.5,3\n")
    base = 1_522_540_800_000
    assert times_of(DataFile(path), "at") == [base + 1000, base + 1000, base + 2500]
    assert times_of(DataFile(path), "at", 1) == [base + 1000]
    with pytest.raises(DataError, match="has no column 'then' for the time of a row"):
        times_of(DataFile(path), "then")


def test_labels_inside_the_features_cannot_be_late():
    spec = loads(STREAM + "topics: {labels: null}")
    for late, option in (({"label_delay": 1.0}, "delay"), ({"times": [0], "due": [1]}, "time")):
        with pytest.raises(SpecError, match=f"leave --label-{option} out"):
            asyncio.run(publish(spec, [], Connection("127.0.0.1:1"), **late))


def test_command_says_what_is_wrong(mixed, tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "BROKER_SECONDS", 0.0)
    stream = tmp_path / "s.yaml"
    stream.write_text(STREAM)

    def invoke(*arguments):
        return CliRunner().invoke(cli, ["replay", *map(str, arguments), "--broker", "127.0.0.1:1"])

    assert isinstance(invoke(stream, tmp_path / "absent.csv").exception, DataError)
    assert isinstance(invoke(stream, mixed, "--label", "u").exception, DataError)
    assert "so it excludes --rate" in invoke(stream, mixed, "--time", "x", "--rate", "5").output
    assert "expected a duration such as 30s" in invoke(stream, mixed, "--label-delay", "30").output
    assert isinstance(invoke(tmp_path / "absent.yaml", mixed).exception, SpecError)
    assert isinstance(invoke(stream, mixed).exception, BrokerError)


async def read(broker, topic, n_partitions):
    """Every record of a topic, a list a partition."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, p) for p in range(n_partitions)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning()
        found = {tp: [] for tp in partitions}
        while any(len(found[tp]) < ends[tp] for tp in partitions):
            for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                found[tp].extend(records)
        return [found[tp] for tp in partitions]
    finally:
        await consumer.stop()


@pytest.mark.broker
@pytest.mark.parametrize("n_partitions", [1, 3])
def test_replays_on_kafka(broker, topic_name, mixed, n_partitions):
    spec = loads(STREAM.replace("name: mixed", f"name: {topic_name}") + f"partitions: {n_partitions}")
    file = DataFile(mixed)
    ends = []

    async def run():
        for delay in (0.0, 0.2):
            sent = []
            done = await publish(
                spec,
                rows_of_file(file, spec, prefix=f"{delay}-", size=100),
                Connection(broker),
                n=N,
                label_delay=delay,
                on_progress=sent.append,
            )
            assert sent[-1] == done.features == N
            assert sent == sorted(sent)
            ends.append(done)
        return await read(broker, spec.topics.features, n_partitions), await read(
            broker, spec.topics.labels, n_partitions
        )

    features, labels = asyncio.run(run())
    expected = [
        publish_in_memory(spec, file, Schedule(done.start, 1.0, d)) for done, d in zip(ends, (0, 200), strict=True)
    ]
    assert ends[1].start > ends[0].end
    assert sum(map(len, labels)) == ends[0].labels + ends[1].labels == 2 * len(expected[0][1].keys)
    for position, topic in enumerate((features, labels)):
        stamps = {}
        for replayed, prefix in zip(expected, ("0.0-", "0.2-"), strict=True):
            keys, _, times, _ = replayed[position]
            stamps |= {prefix.encode() + key: stamp for key, stamp in zip(keys, times, strict=True)}
        for partition, records in enumerate(topic):
            assert all(record.timestamp == stamps.pop(record.key) for record in records)
            assert [record.timestamp for record in records] == sorted(record.timestamp for record in records)
            assert set(partitions_of([record.key for record in records], n_partitions)) <= {partition}
            assert all(json.loads(record.value)["id"].encode() == record.key for record in records)
        assert not stamps


@pytest.mark.broker
def test_paced_replays_on_kafka(broker, topic_name, mixed):
    spec = loads(STREAM.replace("name: mixed", f"name: {topic_name}"))
    rows = rows_of_file(DataFile(mixed), spec, limit=100, size=30)
    done = asyncio.run(publish(spec, rows, Connection(broker), rate=500.0, label_delay=0.05))
    (features,) = asyncio.run(read(broker, spec.topics.features, 1))
    (labels,) = asyncio.run(read(broker, spec.topics.labels, 1))
    stamps = {record.key: record.timestamp for record in features}
    assert list(stamps.values()) == [done.start + 2 * i for i in range(100)]
    assert all(record.timestamp == stamps[record.key] + 50 for record in labels)
    assert len(labels) == done.labels


@pytest.mark.broker
def test_command_publishes(broker, topic_name, mixed, tmp_path):
    stream = tmp_path / "s.yaml"
    stream.write_text(STREAM.replace("name: mixed", f"name: {topic_name}"))
    arguments = ["replay", str(stream), str(mixed), "--broker", broker, "--limit", "50", "--label-delay", "10ms"]
    found = CliRunner().invoke(cli, [*arguments, "--json"])
    assert found.exit_code == 0, found.output
    summary = json.loads(found.stdout)
    assert summary["features"] == 50
    assert summary["end"] >= summary["start"] + 49
    again = CliRunner().invoke(cli, arguments)
    assert f"50 features to {topic_name}.features" in again.stdout


@pytest.mark.broker
def test_a_file_without_labels_goes_to_a_stream_that_has_none(broker, topic_name, tmp_path):
    stream, data = tmp_path / "s.yaml", tmp_path / "pumps.csv"
    data.write_text("u,kind\n" + "".join(f"{i}.5,{'ab'[i % 2]}\n" for i in range(40)))
    lines = ["task: anomaly", "topics: {labels: null}", "record: {y: null}", "features: {u: numeric, kind: nominal}"]
    stream.write_text("\n".join([f"name: {topic_name}", *lines]))
    arguments = [str(stream), str(data), "--broker", broker]
    found = CliRunner().invoke(cli, ["replay", *arguments])
    assert found.exit_code == 0, found.output
    (records,) = asyncio.run(read(broker, loads(stream.read_text()).topics.features, 1))
    assert [json.loads(record.value) for record in records[:2]] == [
        {"id": "0", "x": {"u": 0.5, "kind": "a"}},
        {"id": "1", "x": {"u": 1.5, "kind": "b"}},
    ]
    found = CliRunner().invoke(cli, ["replay", *arguments, "--label", "kind"])
    assert found.exit_code == 2
    assert "has none: leave it out" in found.output
    found = CliRunner().invoke(cli, ["evaluate", str(data), "--stream", str(stream)])
    assert "has no labels, so there is nothing to score" in str(found.exception)
