"""Topics that get more partitions while workers run: the stream goes on with as many."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewPartitions
from aiokafka.structs import TopicPartition

from riparian.app.kafka.sending import close, fenced_producer
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.state import growing
from riparian.topics import commands
from riparian.topics.names import changelog_topic
from tests.broker.clients import Sent, administer, make_topics, send, wait_on
from tests.broker.crashing import STOP
from tests.broker.harness import Stream, instances, state_log
from tests.broker.test_ui import Ui
from tests.processes import PATIENCE, until

pytestmark = pytest.mark.broker


def grow(s: Stream, n: int, *topics: str) -> None:
    for topic in topics or (s.spec.topics.features, str(s.spec.topics.labels)):
        administer(s.broker, lambda client, topic=topic: client.create_partitions({topic: NewPartitions(n)}))


def by_key(s: Stream, topic: str, records: Sequence[Sent], n: int) -> list[int]:
    """Send records to the partitions of their keys; how many came to each of four."""
    where = partitions_of([r.key for r in records], n)  # type: ignore[misc]
    for p in range(n):
        send(s.broker, topic, [r for r, at in zip(records, where, strict=True) if at == p], partition=p)
    return [int((where == p).sum()) for p in range(4)]


@pytest.mark.parametrize("kind", ["shared", "partition"])
def test_a_stream_goes_on_with_the_partitions_that_its_topics_get(stream: Any, kind: str) -> None:
    """The file says 2 all the time. Labels of 200 records come when their keys go elsewhere. One worker is started, and
    so begins again, as those of users do."""
    s = stream(partitions=2, learning=kind, control=True)
    features, labels = instances(1200)
    of_features, of_labels = s.spec.topics.features, str(s.spec.topics.labels)
    promote = commands.write(commands.Command(id="1", command="promote", model="nb"))
    for p in s.spec.commanded:
        send(s.broker, str(s.spec.topics.control), [Sent(promote, features[0].time)], partition=p)
    with s.worker(forked=kind == "shared") as worker:
        before = by_key(s, of_features, features[:600], 2)
        known = by_key(s, of_labels, labels[:400], 2)
        for p in range(2):
            s.reach(before[p], known[p], worker=worker, partition=p)
        grow(s, 4, of_features)
        worker.wait_for("partitions 2 and 3 of ")  # are not read: the stream has 2, and it has them, too, as soon as
        grow(s, 4, of_labels)
        after = by_key(s, of_features, features[600:], 4)
        later = by_key(s, of_labels, labels[400:], 4)
        worker.wait_for("it goes on with 4")
        total = [a + b for a, b in zip(before, after, strict=True)]
        moved = partitions_of([one.key for one in labels[400:600]], 4)  # type: ignore[misc]
        for p in range(4):
            handed = int((moved == p + 2).sum())
            s.predicted(total[p], worker, partition=p)
            s.reach(total[p], known[p] + later[p] + handed, worker=worker, partition=p)
        assert worker.stop() == 0, worker.output[-3000:]
    assert "Traceback" not in worker.output
    s.spec = s.spec.with_partitions(4)
    for p in range(4):
        assert s.holds(p).n_predictions == total[p]
    assert sum(s.stored(p).pending.counts["joined"] for p in range(4)) == 1200
    for p in (2, 3):
        assert any(s.predictions(p)[0]["p"].values())  # the models of the others
    assert "4 partitions" in s.riparian("check")


def test_a_stream_whose_topics_others_make_goes_on_once_they_have(stream: Any) -> None:
    """The changelog first, for checkpoints of the new partitions to stand in it before these have outputs."""
    fields = {"partitions": 1, "learning": "partition"}
    s = stream(**fields)
    rows = instances(300)
    s.change(**fields, create_topics="never")
    make_topics(s.broker, {changelog_topic(s.name): 1})
    with s.worker() as worker:
        s.give(rows, 0, 200)
        s.reach(200, worker=worker)
        grow(s, 2)
        s.give(rows, 200, 250, partition=1)
        worker.wait_for("those from 1 on are not read; add them to topics of the stream:")
        s.give(rows, 250, 300)
        s.reach(250, worker=worker)  # by the worker that has begun again
        for first, last in ((changelog_topic(s.name), changelog_topic(s.name)), (s.spec.topics.metrics, "")):
            until(lambda first=first: f"--topic {first} --partitions 2" in worker.output)
            asked = re.findall(r"--alter --topic (\S+) --partitions 2", worker.output.rpartition("not read;")[2])
            assert asked[-1] == (last or s.spec.topics.predictions)
            grow(s, 2, *asked)
        s.predicted(50, worker, partition=1)
        s.reach(50, worker=worker, partition=1)
        assert worker.stop() == 0, worker.output[-3000:]
    s.spec = s.spec.with_partitions(2)
    assert [s.holds(0).n_predictions, s.holds(1).n_predictions] == [250, 50]
    assert s.stored(1).grown is not None
    assert any(s.predictions(1)[0]["p"].values())


def test_a_stream_that_asks_goes_on_by_a_command(stream: Any) -> None:
    s = stream(partitions=1, grow="ask")
    assert "there is nothing to do" in json.loads(s.riparian("grow", "--json"))["said"]
    rows = instances(150)
    with s.worker() as worker, Ui(s.folder, s.broker, s.path) as page:
        s.give(rows, 0, 100)
        s.reach(100, worker=worker)
        grow(s, 2)
        s.give(rows, 100, 150, partition=1)
        worker.wait_for("the stream file says grow: ask, so run riparian grow")
        assert "the stream file says grow: ask, so run riparian grow" in s.riparian("check")
        with s.worker() as other:  # one that starts meanwhile
            other.wait_for("are not read; the stream file says grow: ask, so run riparian grow")
            assert "goes on with 2 partitions" in s.riparian("grow")
            for one in (worker, other):  # by then there are the outputs; a signal during a start would end it
                until(lambda one=one: "Worker ready" in one.output.partition("the worker begins again")[2])
            s.predicted(50, worker, other, partition=1)
            until(lambda: len(page.status(s.name)["partitions"]) == 2)
            assert other.stop() == worker.stop() == 0
    assert worker.output.count("the worker begins again") == 1
    s.spec = s.spec.with_partitions(2)
    assert s.holds(0).n_predictions == 100
    assert s.stored(1).grown is not None
    assert "there is nothing to do" in s.riparian("grow")


def test_workers_that_keep_their_place_in_the_group_read_new_partitions_too(stream: Any) -> None:
    """Kafka gives a static member that comes again what it had."""
    s = stream(partitions=2)
    rows = instances(400)
    with s.worker(place="a", session_timeout=45.0) as one, s.worker(place="b", session_timeout=45.0) as other:
        for p in range(2):
            s.give(rows, 100 * p, 100 * p + 100, partition=p)
        for p in range(2):
            s.reach(100, worker=one, partition=p)
        grow(s, 4)
        for p in (2, 3):
            s.give(rows, 100 * p, 100 * p + 100, partition=p)
            s.predicted(100, one, other, partition=p)
        assert one.stop() == other.stop() == 0


def test_a_worker_that_is_stopped_while_it_is_about_to_begin_again_ends(stream: Any, tmp_path: Path) -> None:
    s, armed = stream(partitions=1), tmp_path / "armed"
    armed.write_text(STOP)
    s.give(instances(100))
    with s.worker(entry=("tests.broker.crashing", "before it begins again", str(armed))) as worker:
        s.reach(100, worker=worker)
        grow(s, 2)
        assert worker.process.wait(PATIENCE) == 0, worker.output[-3000:]
    assert "goes on with 2 partitions" in worker.output
    assert "the worker begins again" not in worker.output


def test_a_first_checkpoint_that_was_not_finished_is_made_again(stream: Any) -> None:
    """Whoever has fenced a new partition of the changelog, and ended, has left a marker in it."""
    s = stream(partitions=1, learning="partition")
    rows = instances(200)
    s.give(rows)
    s.run(200)
    grow(s, 2)
    grow(s, 2, changelog_topic(s.name))
    tp = TopicPartition(changelog_topic(s.name), 1)

    async def fence() -> None:
        await close(await fenced_producer(s.connection, s.name, [tp]))

    wait_on(fence())
    spec = wait_on(growing.sized(s.spec, s.connection))
    assert spec.partitions == 1
    assert wait_on(growing.grow(spec, s.connection))[0].partitions == 2
    s.spec = s.spec.with_partitions(2)
    assert s.stored(1).grown is not None


def test_ids_that_are_places_stay_those_of_one_record_each(stream: Any) -> None:
    """Through a topic that grows, and a state that goes back: labels come inside the records."""
    fields = {"record": {"id": "@offset", "y": "y"}, "topics": {"labels": None}, "challengers": {}, "partitions": 1}
    s = stream(**fields, checkpoint={"every": "100ms", "keep": 3, "keep_every": "0s"})
    features, labels = instances(600)
    rows = [
        Sent(json.dumps({**json.loads(x.value), "id": "the same", **json.loads(y.value)}).encode(), x.time, x.key)
        for x, y in zip(features, labels, strict=True)
    ]
    topic = s.spec.topics.features
    with s.worker() as worker:
        for at in (0, 100):
            send(s.broker, topic, rows[at : at + 100])
            s.reach(at + 100, 0, worker)
        grow(s, 2, topic)
        worker.wait_for("it goes on with 2")
        for p in range(2):
            send(s.broker, topic, rows[200 + 200 * p : 400 + 200 * p], partition=p)
        for p, n in enumerate((400, 200)):
            s.reach(n, 0, worker, partition=p)
        assert worker.stop() == 0, worker.output[-3000:]
    s.spec = s.spec.with_partitions(2)
    learners = [s.stored(p) for p in range(2)]
    _, *older = json.loads(s.riparian("rollback", "--partition", 0, "--json"))["versions"]
    chosen = next(row for row in older if row["offset"] < 400)
    s.riparian("rollback", "--partition", 0, "--to", chosen["sequence"])
    again = s.run(400, 0, beyond=state_log(s.broker, s.spec).position, name="again")
    assert again.digest() == learners[0].digest()
    assert [s.holds(0).n_predictions, s.holds(1, start=1).n_predictions] == [400, 200]
    ids = [one["id"] for p in range(2) for one in s.predictions(p)]
    assert ids == [f"{p}@{i}" for p, n in enumerate((400, 200)) for i in range(n)]
