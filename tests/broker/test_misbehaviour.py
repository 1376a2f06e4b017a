"""When Kafka misbehaves, or those who run it: records deleted unread, topics deleted and created again, records
refused, a changelog damaged, foreign records in the outputs. A worker goes on, or ends with one sentence
and exit code 2, and loses nothing that it did not say."""

import asyncio
import signal
import urllib.request

import pytest
from aiokafka.admin import NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from riparian.app.kafka.admin import partition_counts
from riparian.app.kafka.local_broker.ports import free_port
from riparian.app.state import checkpoint
from riparian.app.state.changelog import ensure_changelog
from riparian.topics.names import changelog_topic
from tests import batches
from tests.broker.clients import administer, append, delete_before, produce, read
from tests.broker.harness import PATIENCE, instances, state_log
from tests.processes import until

pytestmark = pytest.mark.broker


def delete_topic(broker, topic):
    administer(broker, lambda client: client.delete_topics([topic]))
    until(lambda: not administer(broker, lambda client: partition_counts(client, [topic])))


def configure(broker, topic, **config):
    named = {key.replace("_", "."): value for key, value in config.items()}
    administer(broker, lambda c: c.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, named)]))


def test_records_deleted_unread_stop_the_worker_or_are_skipped_and_counted(stream):
    s = stream()
    rows = instances(1000)
    features, labels = s.spec.topics.features, s.spec.topics.labels

    def lose(worker, start, stop, first_feature, first_label):
        """While the worker is stopped, records come in small batches; most are deleted before it runs again."""
        worker.process.send_signal(signal.SIGSTOP)
        s.give(rows, start, stop, chunk=20)
        kept = s.read("features"), s.read("labels")
        delete_before(s.broker, features, first_feature)
        delete_before(s.broker, labels, first_label)
        worker.process.send_signal(signal.SIGCONT)
        return kept

    s.give(rows, 0, 200)
    with s.worker(name="stops") as worker:
        s.reach(200, worker=worker)
        kept = lose(worker, 200, 600, 500, 450)
        said = worker.sentence()
        assert f" to {499 if features in said else 449}) deleted before they were learned: write lost: skip" in said
    # What had arrived when the rest was deleted was learned, at the latest by the last checkpoint.
    first = s.stored()
    lost_features, lost_labels = range(first.offsets["features"], 500), range(first.offsets["labels"], 450)
    said = s.fails(name="refuses")
    assert f"{len(lost_features)} records of {features}[0] (offsets {lost_features[0]} to 499)" in said
    assert s.stored().digest() == first.digest()

    s.change(lost="skip")
    port = free_port()
    with s.worker(name="skips", web_port=port) as worker:
        s.reach(600, worker=worker)
        more = lose(worker, 600, 1000, 900, 900)
        learner = s.reach(1000, worker=worker)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            metrics = page.read().decode()
    seen = {p["offset"] for p in s.predictions()}
    skipped = [i for i in range(1000) if i not in seen]
    assert set(lost_features) < set(skipped)
    assert skipped[len(lost_features) :] == list(range(skipped[len(lost_features)], 900))
    counted = state_log(s.broker, s.spec).manifest.lost
    assert counted["features"] == (len(skipped), 900)
    for topic, (n, _) in ((features, counted["features"]), (labels, counted["labels"])):
        assert f'riparian_lost_records_total{{partition="0",stream="{s.name}",topic="{topic}"}} {n}.0' in metrics
    # The fold of what was there when the workers read comes to the same.
    joined = learner.pending.counts["joined"]
    n_late = counted["labels"][0] - len(lost_labels)
    gone = {*lost_labels, *range(900 - n_late, 900)}
    s.check(
        learner,
        [r for r in (*kept[0], *more[0][600 - 500 :]) if r.offset in seen],
        [r for r in (*kept[1], *more[1][600 - 450 :]) if r.offset not in gone],
    )
    assert joined == sum(i not in gone for i in seen)


def test_another_topic_under_the_same_name_is_refused_and_the_same_records_are_not(stream):
    s = stream()
    rows, other = instances(500), instances(500, seed=1)
    topic = s.spec.topics.features

    def create_again(records):
        delete_topic(s.broker, topic)
        s.create_topics()
        s.give((records, []))

    s.give(rows, 0, 300)
    with s.worker(name="notices") as worker:
        before = s.reach(300, worker=worker)
        worker.process.send_signal(signal.SIGSTOP)
        create_again(other[0][:100])
        worker.process.send_signal(signal.SIGCONT)
        said = worker.sentence()
        assert f"has seen {topic}[0] up to offset 300, and the topic ends at 100: the topic was deleted" in said
    create_again(other[0])  # beyond where the state stands
    said = s.fails(name="refuses")
    assert f"the record at offset 299 of {topic}[0] is not the one that the state of partition 0 was" in said
    assert s.stored().digest() == before.digest()
    # A topic that holds the same is as good: from a backup, say.
    create_again(rows[0])
    s.give(([], rows[1][300:]))
    port = free_port()
    with s.worker(name="goes-on", web_port=port) as worker:
        s.check(s.reach(500, worker=worker))
        administer(s.broker, lambda client: client.create_partitions({s.spec.topics.labels: NewPartitions(3)}))
        until(lambda: f"partitions 1 and 2 of {s.spec.topics.labels} are not read" in worker.output)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            metrics = page.read().decode()
        assert f'riparian_unread_partitions{{stream="{s.name}",topic="{s.spec.topics.labels}"}} 2.0' in metrics
        delete_topic(s.broker, topic)
        assert f"the topic {topic} was deleted while the worker ran" in worker.sentence()


def test_without_its_changelog_a_state_is_made_anew_from_the_retained_records(stream):
    s = stream()
    rows = instances(400)
    s.give(rows, 0, 300)
    with s.worker(name="first") as worker:
        s.reach(300, worker=worker)
        delete_topic(s.broker, changelog_topic(s.name))
        asyncio.run(ensure_changelog(s.spec, s.connection))
        s.give(rows, 300)
        said = worker.sentence()
        assert "the changelog of partition 0 went back from offset" in said
        assert "was deleted and created again while a worker ran; start the worker again" in said
    with s.worker(name="anew", place="w") as worker:
        learner = s.reach(400, worker=worker)
        worker.kill()
    s.check(learner)  # so nothing was sent again
    delete_topic(s.broker, changelog_topic(s.name))
    delete_before(s.broker, s.spec.topics.features, 100)
    said = s.fails(name="refuses", place="w")
    assert f"100 records of {s.spec.topics.features}[0] (offsets 0 to 99) deleted before" in said
    assert state_log(s.broker, s.spec).manifest is None


def test_what_kafka_refuses_or_others_wrote_ends_the_worker_and_loses_nothing(stream):
    s = stream()
    rows, changelog = instances(800), changelog_topic(s.name)
    s.give(rows, 0, 400)
    with s.worker(name="first") as worker:
        s.reach(400, worker=worker)
        configure(s.broker, changelog, cleanup_policy="delete", max_message_bytes="300")
        s.give(rows, 400)
        said = worker.sentence()
        assert f"Kafka refuses what is written to {changelog} (MessageSizeTooLargeError): set" in said
    assert s.stored().offsets["features"] == 400
    configure(s.broker, changelog, cleanup_policy="delete", max_message_bytes="1000000")
    with s.worker(name="goes-on", place="w") as worker:
        learner = s.reach(800, worker=worker)
        worker.kill()
    s.check(learner)

    # A chunk of the last checkpoint is altered.
    key = checkpoint.chunk_key(0, sorted(state_log(s.broker, s.spec).manifest.chunks())[0])
    sound = [record.value for record in read(s.broker, changelog) if record.key == key][-1]
    append(s.broker, changelog, key, sound[:-1] + bytes([sound[-1] ^ 1]))
    held = [(record.key, record.value) for record in read(s.broker, changelog)]
    said = s.fails(name="damaged", place="w")
    assert "is damaged: a chunk of " in said
    assert "was altered in the changelog topic; go back to an older checkpoint (riparian rollback" in said
    assert [(record.key, record.value) for record in read(s.broker, changelog)] == held
    append(s.broker, changelog, key, sound)

    # Somebody else writes into the predictions.
    append(s.broker, s.spec.topics.predictions, None, b"hello")
    said = s.fails(name="foreign", place="w")
    at = s.read("predictions")[-1].offset
    assert f"the record at offset {at:,} of {s.spec.topics.predictions}[0] is none that a worker" in said
    assert s.stored().digest() == learner.digest()


def test_a_prediction_that_its_topic_does_not_take_is_a_dead_letter_and_the_stream_goes_on(stream):
    s = stream()
    features, labels = instances(400)
    # The prediction repeats the key and the id: with 16,000 and 1,000 bytes it does not fit, with 3,000 it does.
    large = {i: 16_000 if i % 100 == 0 else 3_000 for i in range(0, 400, 50)}
    for i, n in large.items():
        short, long = b'"%07d"' % i, b'"%s"' % f"{i:07d}".ljust(1000, "x").encode()
        features[i] = features[i]._replace(key=b"k" * n, value=features[i].value.replace(short, long))
        labels[i] = labels[i]._replace(value=labels[i].value.replace(short, long))
    configure(s.broker, s.spec.topics.predictions, max_message_bytes="16500")
    s.give((features, labels), 0, 200)
    with s.worker(name="first", place="w") as worker:
        s.reach(200, worker=worker)
        s.give((features, labels), 200, 300)
        s.reach(300, worker=worker)
        worker.kill()
    s.give((features, labels), 300)
    assert s.run(400, name="second", place="w").pending.counts["joined"] == 400  # learned all the same
    letters = s.letters()
    refused = [i for i, n in large.items() if n == 16_000]
    assert [int(one["riparian-offset"]) for one in letters] == refused
    assert {one["riparian-reason"] for one in letters} == {"prediction-too-large"}
    assert [p["offset"] for p in s.predictions()] == [i for i in range(400) if i not in refused]


def test_batches_that_no_client_writes_lose_no_record_and_end_no_worker(stream):
    """Offsets within a batch that jump, go back or repeat, and attributes: Kafka takes them, and counts the records."""
    s = stream(control=True)
    rows = instances(400)

    def odd(topic, records, aheads, attributes=0, **about):
        made = [
            batches.record(ahead, one.value, one.key, one.time - records[0].time, (), attributes)
            for ahead, one in zip(aheads, records, strict=True)
        ]
        produce(s.broker, topic, batches.batch(made, first=records[0].time, greatest=records[-1].time))

    def give(start, aheads, attributes=0):
        stop = start + len(aheads)
        for topic, records in zip((s.spec.topics.features, s.spec.topics.labels), rows, strict=True):
            odd(topic, records[start:stop], aheads, attributes)

    give(0, [3 * i for i in range(40)])  # 78 records of others would be passed over
    s.give(rows, 40, 140)
    give(140, [0] * 20)
    give(160, [-i for i in range(20)])
    command = batches.record(2**31 - 1, b"no command", attributes=200)
    produce(s.broker, s.spec.topics.control, batches.batch([command], first=rows[0][0].time))
    give(180, [0, 2**31 - 1], attributes=128)
    s.run(182)
    s.give(rows, 182, 400)
    learner = s.check(s.run(400))
    assert learner.pending.counts["joined"] == 400
    assert [one["offset"] for one in s.predictions()] == list(range(400))
    assert [letter["riparian-topic"] for letter in s.letters()] == [s.spec.topics.control]
    s.holds()
