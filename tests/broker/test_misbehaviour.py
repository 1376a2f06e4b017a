"""When Kafka misbehaves, or those who run it: records deleted unread, topics deleted and created again, records
refused, a changelog damaged, foreign records in the outputs, a full disk. A worker goes on, or ends with one sentence
and exit code 2, and loses nothing that it did not say."""

import asyncio
import resource
import signal
import threading
import time
import urllib.request

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import TopicPartition

from app.kafka.broker import LocalBroker
from app.kafka.connection import Connection
from app.kafka.ports import free_port
from app.state import checkpoint
from app.state.changelog import ensure_changelog
from app.state.log import StateLog
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    read,
    send,
    stored,
    stream_file,
    wait_for_state,
)
from topics.names import changelog_topic

pytestmark = pytest.mark.broker


def administer(broker, action):
    """Await `action(admin client)`."""

    async def run():
        client = AIOKafkaAdminClient(bootstrap_servers=broker)
        await client.start()
        try:
            return await action(client)
        finally:
            await client.close()

    return asyncio.run(run())


def delete_topic(broker, topic):
    administer(broker, lambda client: client.delete_topics([topic]))
    while any(entry["topic"] == topic for entry in administer(broker, lambda client: client.describe_topics())):
        time.sleep(0.05)


def delete_before(broker, topic, offset):
    administer(broker, lambda client: client.delete_records({TopicPartition(topic, 0): RecordsToDelete(offset)}))


def configure(broker, topic, **config):
    named = {key.replace("_", "."): value for key, value in config.items()}
    administer(broker, lambda c: c.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, named)]))


def append(broker, topic, key, value):
    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=broker, max_request_size=2_000_000)
        await producer.start()
        try:
            await producer.send_and_wait(topic, value, key=key, partition=0)
        finally:
            await producer.stop()

    asyncio.run(run())


def ended(worker):
    """The sentence with which a worker ends by itself."""
    assert worker.process.wait(PATIENCE) == 2, worker.output[-3000:]
    assert "Traceback" not in worker.output
    last = worker.output.strip().splitlines()[-1]
    assert last.startswith("riparian: ")
    return last


def send_both(broker, spec, data, start, stop, **how):
    for topic, records in zip((spec.topics.features, spec.topics.labels), data, strict=True):
        send(broker, topic, records[start:stop], **how)


def manifest(broker, spec):
    log = StateLog(0)
    log.take(None, read(broker, changelog_topic(spec.name)))
    return log.manifest


def test_records_deleted_unread_stop_the_worker_or_are_skipped_and_counted(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    data = instances(1000)
    features, labels = spec.topics.features, spec.topics.labels

    def lose(worker, start, stop, first_feature, first_label):
        """While the worker is stopped, records come in small batches; most are deleted before it runs again."""
        worker.process.send_signal(signal.SIGSTOP)
        send_both(broker, spec, data, start, stop, chunk=20)
        kept = read(broker, features), read(broker, labels)
        delete_before(broker, features, first_feature)
        delete_before(broker, labels, first_label)
        worker.process.send_signal(signal.SIGCONT)
        return kept

    send_both(broker, spec, data, 0, 200)
    with Worker(path, broker, tmp_path, name="stops") as worker:
        wait_for_state(broker, spec, 200, 200, worker=worker)
        kept = lose(worker, 200, 600, 500, 450)
        said = ended(worker)
        assert f" to {499 if features in said else 449}) deleted before they were learned: write lost: skip" in said
    # What had arrived when the rest was deleted was learned, at the latest by the last checkpoint.
    first = stored(broker, spec)
    lost_features, lost_labels = range(first.offsets["features"], 500), range(first.offsets["labels"], 450)
    with Worker(path, broker, tmp_path, name="refuses") as worker:
        assert f"{len(lost_features)} records of {features}[0] (offsets {lost_features[0]} to 499)" in ended(worker)
    assert stored(broker, spec).digest() == first.digest()

    path, spec = stream_file(tmp_path, topic_name, lost="skip")
    port = free_port()
    with Worker(path, broker, tmp_path, name="skips", web_port=port) as worker:
        wait_for_state(broker, spec, 600, 600, worker=worker)
        more = lose(worker, 600, 1000, 900, 900)
        learner = wait_for_state(broker, spec, 1000, 1000, worker=worker)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            metrics = page.read().decode()
    seen = {p["offset"] for p in predictions(broker, spec)}
    skipped = [i for i in range(1000) if i not in seen]
    assert set(lost_features) < set(skipped)
    assert skipped[len(lost_features) :] == list(range(skipped[len(lost_features)], 900))
    counted = manifest(broker, spec).lost
    assert counted["features"] == (len(skipped), 900)
    for topic, (n, _) in ((features, counted["features"]), (labels, counted["labels"])):
        assert f'riparian_lost_records_total{{partition="0",stream="{spec.name}",topic="{topic}"}} {n}.0' in metrics
    # The fold of what was there when the workers read comes to the same.
    joined = learner.pending.counts["joined"]
    n_late = counted["labels"][0] - len(lost_labels)
    gone = {*lost_labels, *range(900 - n_late, 900)}
    check_against_oracle(
        broker,
        spec,
        learner,
        [r for r in (*kept[0], *more[0][600 - 500 :]) if r.offset in seen],
        [r for r in (*kept[1], *more[1][600 - 450 :]) if r.offset not in gone],
    )
    assert joined == sum(i not in gone for i in seen)


def test_another_topic_under_the_same_name_is_refused_and_the_same_records_are_not(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    data, other = instances(500), instances(500, seed=1)
    topic = spec.topics.features

    def create_again(records):
        delete_topic(broker, topic)
        create_topics(spec, broker)
        send(broker, topic, records)

    send_both(broker, spec, data, 0, 300)
    with Worker(path, broker, tmp_path, name="notices") as worker:
        before = wait_for_state(broker, spec, 300, 300, worker=worker)
        worker.process.send_signal(signal.SIGSTOP)
        create_again(other[0][:100])
        worker.process.send_signal(signal.SIGCONT)
        said = ended(worker)
        assert f"has seen {topic}[0] up to offset 300, and the topic ends at 100: the topic was deleted" in said
    create_again(other[0])  # beyond where the state stands
    with Worker(path, broker, tmp_path, name="refuses") as worker:
        said = ended(worker)
        assert f"the record at offset 299 of {topic}[0] is not the one that the state of partition 0 was" in said
    assert stored(broker, spec).digest() == before.digest()
    # A topic that holds the same is as good: from a backup, say.
    create_again(data[0])
    send(broker, spec.topics.labels, data[1][300:])
    with Worker(path, broker, tmp_path, name="goes-on") as worker:
        learner = wait_for_state(broker, spec, 500, 500, worker=worker)
        check_against_oracle(broker, spec, learner)
        delete_topic(broker, topic)
        assert f"the topic {topic} was deleted while the worker ran" in ended(worker)


def test_without_its_changelog_a_state_is_made_anew_from_the_retained_records(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    data = instances(400)
    send_both(broker, spec, data, 0, 300)
    with Worker(path, broker, tmp_path, name="first") as worker:
        wait_for_state(broker, spec, 300, 300, worker=worker)
        delete_topic(broker, changelog_topic(spec.name))
        asyncio.run(ensure_changelog(spec, Connection(broker)))
        send_both(broker, spec, data, 300, 400)
        said = ended(worker)
        assert "the changelog of partition 0 went back from offset" in said
        assert "was deleted and created again while a worker ran; start the worker again" in said
    with Worker(path, broker, tmp_path, name="anew") as worker:
        learner = wait_for_state(broker, spec, 400, 400, worker=worker)
        worker.kill()
    check_against_oracle(broker, spec, learner)  # so nothing was sent again
    delete_topic(broker, changelog_topic(spec.name))
    delete_before(broker, spec.topics.features, 100)
    with Worker(path, broker, tmp_path, name="refuses") as worker:
        assert f"100 records of {spec.topics.features}[0] (offsets 0 to 99) deleted before" in ended(worker)
    assert stored(broker, spec) is None


def test_what_kafka_refuses_or_others_wrote_ends_the_worker_and_loses_nothing(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    data, changelog = instances(800), changelog_topic(spec.name)
    send_both(broker, spec, data, 0, 400)
    with Worker(path, broker, tmp_path, name="first") as worker:
        wait_for_state(broker, spec, 400, 400, worker=worker)
        configure(broker, changelog, cleanup_policy="delete", max_message_bytes="300")
        send_both(broker, spec, data, 400, 800)
        said = ended(worker)
        assert f"Kafka refuses what is written to {changelog} (MessageSizeTooLargeError): set" in said
    assert stored(broker, spec).offsets["features"] == 400
    configure(broker, changelog, cleanup_policy="delete", max_message_bytes="1000000")
    with Worker(path, broker, tmp_path, name="goes-on") as worker:
        learner = wait_for_state(broker, spec, 800, 800, worker=worker)
        worker.kill()
    check_against_oracle(broker, spec, learner)

    # A chunk of the last checkpoint is altered.
    key = checkpoint.chunk_key(0, sorted(manifest(broker, spec).chunks())[0])
    sound = [record.value for record in read(broker, changelog) if record.key == key][-1]
    append(broker, changelog, key, sound[:-1] + bytes([sound[-1] ^ 1]))
    held = [(record.key, record.value) for record in read(broker, changelog)]
    with Worker(path, broker, tmp_path, name="damaged") as worker:
        said = ended(worker)
        assert "is damaged: a chunk of " in said
        assert "was altered in the changelog topic; go back to an older checkpoint (riparian rollback" in said
    assert [(record.key, record.value) for record in read(broker, changelog)] == held
    append(broker, changelog, key, sound)

    # Somebody else writes into the predictions.
    append(broker, spec.topics.predictions, None, b"hello")
    with Worker(path, broker, tmp_path, name="foreign") as worker:
        said = ended(worker)
        at = read(broker, spec.topics.predictions)[-1].offset
        assert f"the record at offset {at:,} of {spec.topics.predictions}[0] is none that a worker" in said
    assert stored(broker, spec).digest() == learner.digest()


def test_a_full_disk_stops_the_broker_and_costs_nothing(tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    data = instances(4000)
    with LocalBroker(tmp_path / "kafka") as local:
        address = local.bootstrap
        create_topics(spec, address)
        with Worker(path, address, tmp_path, name="waits") as worker:
            send_both(address, spec, data, 0, 1000)
            wait_for_state(address, spec, 1000, 1000, worker=worker)
            # No file may grow beyond this: to Kafka, the same as a full disk.
            largest = max(file.stat().st_size for file in (tmp_path / "kafka").rglob("*.log"))
            resource.prlimit(local.pid, resource.RLIMIT_FSIZE, (largest + 30_000, largest + 30_000))
            senders = [
                threading.Thread(target=send, args=(address, topic, records[1000:]), kwargs={"chunk": 200})
                for topic, records in zip((spec.topics.features, spec.topics.labels), data, strict=True)
            ]
            for sender in senders:
                sender.start()
            while local.alive:
                time.sleep(0.1)
            assert "have failed" in (tmp_path / "kafka" / "logs" / "server.log").read_text()
            assert worker.process.poll() is None, worker.output[-3000:]
            local.start()
            for sender in senders:
                sender.join()
            learner = wait_for_state(address, spec, 4000, 4000, worker=worker)
            check_against_oracle(address, spec, learner)
            # Without a broker, a worker that is told to stop does.
            local.kill()
            assert worker.stop() == 0


def test_a_prediction_that_its_topic_does_not_take_is_a_dead_letter_and_the_stream_goes_on(
    broker, tmp_path, topic_name
):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    features, labels = instances(400)
    # The prediction repeats the key and the id: with 16,000 and 1,000 bytes it does not fit, with 3,000 it does.
    large = {i: 16_000 if i % 100 == 0 else 3_000 for i in range(0, 400, 50)}
    for i, n in large.items():
        short, long = b'"%07d"' % i, b'"%s"' % f"{i:07d}".ljust(1000, "x").encode()
        features[i] = features[i]._replace(key=b"k" * n, value=features[i].value.replace(short, long))
        labels[i] = labels[i]._replace(value=labels[i].value.replace(short, long))
    configure(broker, spec.topics.predictions, max_message_bytes="16500")
    send_both(broker, spec, (features, labels), 0, 200)
    with Worker(path, broker, tmp_path, name="first") as worker:
        wait_for_state(broker, spec, 200, 200, worker=worker)
        send_both(broker, spec, (features, labels), 200, 300)
        wait_for_state(broker, spec, 300, 300, worker=worker)
        worker.kill()
    with Worker(path, broker, tmp_path, name="second") as worker:
        send_both(broker, spec, (features, labels), 300, 400)
        learner = wait_for_state(broker, spec, 400, 400, worker=worker)
        assert worker.stop() == 0, worker.output[-3000:]
    assert learner.pending.counts["joined"] == 400  # learned all the same
    letters = [dict(record.headers) for record in read(broker, spec.topics.deadletters)]
    refused = [i for i, n in large.items() if n == 16_000]
    assert [int(one["riparian-offset"]) for one in letters] == refused
    assert {one["riparian-reason"] for one in letters} == {b"prediction-too-large"}
    assert [p["offset"] for p in predictions(broker, spec)] == [i for i in range(400) if i not in refused]
