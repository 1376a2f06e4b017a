"""Partitions that learn one model: each label once in their log, every prediction by the records, equal replicas."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from aiokafka.structs import TopicPartition

from app.control import ask, command
from app.errors import StateError
from app.kafka.connection import Connection
from app.kafka.reading import read_to_end
from app.partition.learner import PartitionLearner
from app.partition.merge import Merge
from app.state.audit import audit
from app.state.changelog import n_partitions
from app.state.checkpoint import Encoder
from app.state.loading import Loaded
from app.stream_file.spec import Spec
from app.worker.learned import read_reached
from models.contract import Program
from models.opinion_pool.learner import OpinionPool
from tests.app.shared_world import lacked
from tests.broker.harness import (
    PATIENCE,
    Sent,
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
from tests.broker.test_changes import check
from tests.broker.test_misbehaviour import append, delete_before, delete_topic
from tests.broker.test_state import riparian
from tests.chaos.checks import check_replicas
from topics.learned import LearnedRecord, write
from topics.names import LEARNED
from topics.records import RawBatch

pytestmark = pytest.mark.broker

PARTITIONS, N, REST, LAST, MOST_BEHIND = 3, 6000, 600, 60, 48
NB, TREE = {"model": "naive-bayes"}, {"model": "hoeffding-tree", "grace_period": 50}
SETTINGS = {
    "drift": {"detectors": {"adwin": {}}, "on_drift": "replace", "features": ["a"], "distributions": {"window": 100}},
    "metrics": {"window": 100},
    "join": {"max_pending": 500},
    "promotion": None,
}
FILE = {
    "champion": {},
    "challengers": {"nb": NB, "late": {**TREE, "grace_period": 20}},
    "settings": SETTINGS,
    "file": "f",
}


def spread(broker: str, spec: Spec, features: list[Sent], labels: list[Sent]) -> None:
    """To partitions in turn, little by little."""
    topics = ((spec.topics.features, features), (spec.topics.labels or "", labels))
    with ThreadPoolExecutor(2 * PARTITIONS) as pool:
        for topic, records in topics:
            for p in range(PARTITIONS):
                pool.submit(send, broker, topic, records[p::PARTITIONS], partition=p, pause=0.05, chunk=20)


def ready(workers: list[Worker]) -> None:
    while not all("Worker ready" in worker.output for worker in workers):
        assert all(worker.process.poll() is None for worker in workers), workers[-1].output[-3000:]
        time.sleep(0.1)


def settled(broker: str, spec: Spec, n: int, workers: list[Worker]) -> None:
    """Wait until all partitions have learned all n labels, and their states say so."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found = [stored(broker, spec, p) for p in range(PARTITIONS)]
        except Exception:  # a chunk is on its way
            found = []
        learned = [one.sharing.n if one is not None and one.sharing is not None else 0 for one in found]
        if learned == [n] * PARTITIONS:
            return
        dead = [worker for worker in workers if worker.process.poll() is not None]
        if dead or time.monotonic() > deadline:
            said = "\n".join(worker.output[-3000:] for worker in dead or workers)
            raise AssertionError(f"{learned} of {n} labels are learned\n{said}")
        time.sleep(0.3)


def test_a_log_that_was_cut_or_made_anew_is_a_sentence(broker: str, tmp_path: Path, topic_name: str) -> None:
    """Before anything is learned: a state that stood at offset 2 of three."""
    _, spec = stream_file(tmp_path, topic_name, partitions=2, learning="shared")
    topic, connection = str(spec.topics.learned), Connection(broker)
    create_topics(spec, broker)
    row, y, at = np.zeros(3).tobytes(), np.zeros(1).tobytes(), np.zeros(1, np.int64).tobytes()
    for i in range(3):
        values = [None, None, ["v"]]
        record = LearnedRecord(1, 1, i, {"features": i + 1, "labels": i + 1}, 7, row, y, at, values, ["p"], {})
        append(broker, topic, None, write(record))
    learner = PartitionLearner(spec, 1)
    merge = Merge(learner.buffers())

    def take(_: TopicPartition, records: list[Any]) -> None:
        merge.buffers[LEARNED].add(RawBatch.of(records[:2]))

    asyncio.run(read_to_end(connection, {TopicPartition(topic, 0): 0}, take))
    learner.step(merge.release())
    encoded = msgspec.msgpack.encode(learner.snapshot().meta)
    restored = PartitionLearner(spec, 1)
    restored.restore(learner.snapshot()._replace(meta=msgspec.msgpack.decode(encoded)))
    for one in (learner, restored):
        loaded = [Loaded(one, Encoder(spec.name, 1), None, [])]
        reached = asyncio.run(read_reached(spec, connection, loaded))
        assert (reached[1].n, reached[1].places) == (3, {"features": 3, "labels": 3})
    delete_before(broker, topic, 2)
    assert asyncio.run(read_reached(spec, connection, loaded))[1].n == 3
    delete_before(broker, topic, 3)
    with pytest.raises(StateError, match=r"begins at offset 3, and the state of partition 1 has learned it up to 2: "):
        asyncio.run(read_reached(spec, connection, loaded))
    delete_topic(broker, topic)
    create_topics(spec, broker)
    append(broker, topic, None, write(record))
    with pytest.raises(StateError, match=r"has learned .* up to offset 2, and the topic ends at 1: the topic was del"):
        asyncio.run(read_reached(spec, connection, loaded))
    append(broker, topic, None, write(record))
    with pytest.raises(StateError, match=r"the record at offset 1 of .* is not the one that the state of partition 1"):
        asyncio.run(read_reached(spec, connection, loaded))


def test_all_partitions_learn_one_model_through_kills(broker: str, tmp_path: Path, topic_name: str) -> None:
    drift = {"detectors": {"hddm-w": {"drift_confidence": 0.2, "warning_confidence": 0.4}}, "on_drift": "reset"}
    tree = TREE  # models that say reasons may be champion
    fields = {"learning": {"max_behind": MOST_BEHIND}, "drift": drift, "predictions": {"reasons": 2}, "control": True}
    fields["decision"] = {"class": "yes", "recall": 0.9}
    fields["challengers"] = {"nb": "naive-bayes", "tree": tree}
    asked = [
        command("promote", model="tree"),
        command("add", model="late", definition=tree),
        command("apply", **FILE),
    ]
    path, spec = stream_file(tmp_path, topic_name, partitions=PARTITIONS, **fields)
    create_topics(spec, broker)
    features, labels = instances(N)
    answering = list[Any]()
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        workers = [stack.enter_context(Worker(path, broker, tmp_path, name=f"{topic_name}-{i}")) for i in range(2)]
        ready(workers)
        sending = pool.submit(spread, broker, spec, features[:-REST], labels[:-REST])
        for life in range(3):
            time.sleep(2.0)
            answering.append(pool.submit(asyncio.run, ask(spec, Connection(broker), asked[life], PATIENCE)))
            workers[0].kill()
            after = Worker(path, broker, tmp_path, name=f"{topic_name}-after-{life}")
            workers = [workers[1], stack.enter_context(after)]
        sending.result()
        ready(workers)
        spread(broker, spec, features[-REST:-LAST], labels[-REST:-LAST])
        for answers in answering:  # before an instance of partition 0 that came after the command
            assert {p: one.event for p, one in answers.result().items()} == {0: "applied"}
        # A partition obeys right before an instance, too, and makes no checkpoint until then. All of the others' may
        # have been predicted while nobody had partition 0, which brings the command.
        spread(broker, spec, features[-LAST:], labels[-LAST:])
        settled(broker, spec, N, workers)
        for worker in workers:
            assert worker.stop() == 0, worker.output[-3000:]
    assert check_replicas(broker, spec) == []
    log = {record.offset: record.value for record in read(broker, str(spec.topics.learned))}
    versions = set()
    for p in range(PARTITIONS):
        fold = check_against_oracle(broker, spec, stored(broker, spec, p) or PartitionLearner(spec, p))
        assert fold.figures().overall["champion"]["n"] == N  # scores are of all partitions
        assert set(fold.roles) == {"champion", "nb", "late"}
        assert (fold.spec.metrics.window, fold.spec.join.max_pending) == (100, 500)
        report = asyncio.run(audit(spec, Connection(broker), p))
        assert report is not None
        assert report.holds
        sent = predictions(broker, spec, p)
        assert report.n_predictions == len(sent) == N // PARTITIONS
        versions |= {one["learned_offset"] for one in sent}
        given = ([r.value for r in read(broker, t, p)] for t in (spec.topics.features, str(spec.topics.labels)))
        assert 0 < max(lacked(p, *given, sent, log)) <= MOST_BEHIND
        assert any(one["reasons"] for one in sent)
        assert any(one["y"] != max(one["p"], key=one["p"].get) for one in sent if one["p"])
    assert len(versions) > 10
    place, topic = fold.places[LEARNED], str(spec.topics.learned)
    shown = check(broker, path)
    assert f"{topic}: offsets 0 to " in shown
    assert f"checkpoints go on at {place:,}" in shown
    append(broker, topic, None, b"nobody has learned it")
    delete_before(broker, topic, -1)  # all that is there
    said = f"and the state of partition 0 has learned it up to {place:,}: what stood in between was deleted"
    assert said in check(broker, path, code=2)
    with Worker(path, broker, tmp_path) as worker:
        assert worker.process.wait(PATIENCE) == 2
        assert f"has learned it up to {place:,}: what stood in between was deleted" in worker.output


def test_a_file_is_applied_at_one_place_and_workers_go_on_with_it(broker: str, tmp_path: Path, topic_name: str) -> None:
    """Partition 2 rests when the file is applied, and when workers are started with it: it takes the command, too.
    Members of a pool come, go and are frozen by it."""
    pool = {"model": "opinion-pool", "members": {"last": "last-label", "most": "majority-class"}}
    members = {"tree": TREE, "last": {"model": "last-label", "frozen": True}}
    fields: dict[str, Any] = {
        "partitions": PARTITIONS,
        "control": True,
        "challengers": {"nb": "naive-bayes", "pool": pool},
    }
    path, spec = stream_file(tmp_path, topic_name, **fields)
    create_topics(spec, broker)
    features, labels = instances(60_000)  # more than come
    at = 0

    def come(partitions: tuple[int, ...], n: int = 100) -> None:
        nonlocal at
        for p in partitions:
            send(broker, spec.topics.features, features[at : at + n], partition=p)
            send(broker, str(spec.topics.labels), labels[at : at + n], partition=p)
            at += n

    forest = {"model": "adaptive-random-forest", "n_models": 3}
    new = {**fields, "challengers": {"forest": forest, "pool": {**pool, "members": members}}}
    with Worker(path, broker, tmp_path) as worker, ThreadPoolExecutor(1) as thread:
        come((0, 1, 2))
        for p in range(PARTITIONS):
            wait_for_state(broker, spec, 100, 100, p, worker)
        more = {"features": {"a": "numeric", "b": "numeric", "c": {"type": "nominal"}, "d": "numeric"}}
        wider, _ = stream_file(tmp_path, topic_name, **fields, **more)
        said = riparian(broker, "apply", wider, code=2)
        assert "the features have changed: d is new; restore it in the stream file, or give the stream a new" in said
        path, spec = stream_file(
            tmp_path, topic_name, **new, metrics={"every": "1s", "window": 50}, drift=SETTINGS["drift"]
        )
        answer = thread.submit(riparian, broker, "apply", path)
        while not answer.done():
            come((0, 1), 10)
        said = answer.result()
        assert said.startswith(
            "partition 0: applied: dropped: nb; added: forest; with other parameters: pool (go on: last; begin: tree; "
            "dropped: most; frozen from here on: last); changed: metrics.window, "
        ), said
        assert worker.stop() == 0, worker.output[-3000:]
    said = check(broker, path)
    models = "champion hoeffding-tree, nb naive-bayes, pool opinion-pool"
    assert f"the state goes on with its models ({models}), and not the stream fi" in said
    with Worker(path, broker, tmp_path) as worker:
        ready([worker])
        come((0, 1))
        while "forest" not in (stored(broker, spec, 2) or PartitionLearner(spec, 2)).roles:
            come((0, 1, 2), 10)
            time.sleep(0.1)
        settled(broker, spec, at, [worker])
        assert worker.stop() == 0
        assert "keeps models of its own" not in worker.output
    assert check_replicas(broker, spec) == []
    assert "steered" not in check(broker, path)
    before, _ = stream_file(tmp_path, topic_name, **fields)
    for p in range(PARTITIONS):
        learner = stored(broker, spec, p)
        assert learner is not None
        assert set(learner.roles) == {"champion", "forest", "pool"}
        opinions = learner.roles["pool"].model
        assert isinstance(opinions, OpinionPool)
        assert {root["member"]: root.get("frozen", False) for root in opinions.describe() if "member" in root} == {
            "last": True,
            "tree": False,
        }
        assert (learner.origin, learner.spec.metrics.window) == (None, 50)
        assert "compared: all equal" in riparian(broker, "audit", before, "--partition", p)


def arrays_of(learner: PartitionLearner) -> dict[str, Any]:
    return {name: array for role in learner.roles.values() for name, array in role.learned_state().items()}


def assert_begun(broker: str, spec: Spec, source: PartitionLearner) -> None:
    """All partitions have the models of `source`, with its values and classes, and have seen nothing."""
    for p in range(spec.partitions):
        learner = stored(broker, spec, p)
        assert learner is not None
        assert learner.n_instances == learner.figures().overall["champion"]["n"] == 0
        assert learner.classes.values == source.classes.values  # type: ignore[union-attr]
        models = {name: a for name, a in arrays_of(source).items() if name.startswith("models/")}
        assert {name for name in arrays_of(learner) if name.startswith("models/")} == models.keys()
        for name, array in models.items():
            np.testing.assert_array_equal(arrays_of(learner)[name], array, name)


def run(path: Path, spec: Spec, broker: str, folder: Path, at: int, n: int) -> None:
    """A worker learns n more instances of all partitions, and stops."""
    features, labels = instances(n, at)
    with Worker(path, broker, folder, name=spec.name) as worker:
        ready([worker])
        for p in range(spec.partitions):
            send(broker, spec.topics.features, features[p :: spec.partitions], partition=p)
            send(broker, str(spec.topics.labels), labels[p :: spec.partitions], partition=p)
        for p in range(spec.partitions):
            wait_for_state(broker, spec, n // spec.partitions, n // spec.partitions, p, worker)
        if spec.shares:
            settled(broker, spec, n, [worker])
        assert worker.stop() == 0, worker.output[-3000:]


def test_a_stream_that_has_outgrown_its_partition_goes_on_in_three_and_back(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    one_path, one = stream_file(tmp_path, f"{topic_name}-one")
    path, spec = stream_file(tmp_path, topic_name, partitions=PARTITIONS)
    own_path, own = stream_file(tmp_path, f"{topic_name}-own", partitions=2, learning="partition")
    assert (one.learning.kind, spec.learning.kind, own.learning.kind) == ("partition", "shared", "partition")
    create_topics(one, broker)
    create_topics(own, broker)
    run(one_path, one, broker, tmp_path, 0, 900)
    source = stored(broker, one) or PartitionLearner(one)
    file = tmp_path / "one.state"
    riparian(broker, "export", one_path, file)
    said = riparian(broker, "import", path, file, code=2)
    assert "learning: partition to go on as before" in said
    assert "import --models-only" in said
    assert "leave out --partition" in riparian(broker, "import", path, file, "--models-only", "--partition", 0, code=2)
    said = riparian(broker, "import", path, file, "--models-only")
    assert said == f"{spec.name}: all partitions begin with the models of {file}\n"
    assert_begun(broker, spec, source)
    assert "has a state already" in riparian(broker, "import", path, file, "--models-only", code=2)
    riparian(broker, "import", path, file, "--models-only", "--replace")

    run(path, spec, broker, tmp_path, 900, 900)
    assert check_replicas(broker, spec) == []
    first = predictions(broker, spec)[0]
    assert first["learned_offset"] == 0
    asked = RawBatch([0], [0], [None], [instances(1, 900)[0][0].value])
    made, again = np.zeros((1, 2)), Program(np.zeros(1, np.int8), np.zeros(1, np.int32), np.full(1, np.nan), np.ones(1))
    source.roles["champion"].model.run_with(again, source.decode_features(asked).x, made, [])
    known = source.classes.values if source.classes is not None else []
    assert [first["p"].get(name, 0.0) for name in known] == made[0].tolist()
    for p in range(PARTITIONS):
        report = asyncio.run(audit(spec, Connection(broker), p, start=2))
        assert report is not None
        assert report.holds
        assert report.n_predictions == 300
    assert "has begun already" in riparian(broker, "import", path, file, "--models-only", "--replace", code=2)

    riparian(broker, "export", path, file, "--partition", 1)
    riparian(broker, "import", own_path, file, "--models-only")
    assert_begun(broker, own, stored(broker, spec, 1) or PartitionLearner(spec, 1))
    run(own_path, own, broker, tmp_path, 1800, 200)
    for p in range(2):
        report = asyncio.run(audit(own, Connection(broker), p, start=1))
        assert report is not None
        assert report.holds
        assert report.n_predictions == 100


def test_a_stream_that_ran_with_models_of_its_own_stops_before_anything_is_made(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    """The file said nothing of learning, when that meant a model for each partition."""
    before = stream_file(tmp_path, topic_name, partitions=PARTITIONS, learning="partition")
    create_topics(before[1], broker)
    run(*before, broker, tmp_path, 0, 60)
    path, spec = stream_file(tmp_path, topic_name, partitions=PARTITIONS)
    assert spec.topics.learned is not None
    said = "learning was partition, is shared, the default from two partitions on: models of single partitions are not"
    assert f"{said} one model; write learning: partition to go on as before, or" in check(broker, path, code=2)
    with Worker(path, broker, tmp_path) as worker:
        assert worker.process.wait(PATIENCE) == 2
        assert said in worker.output
    assert asyncio.run(n_partitions(Connection(broker), spec.topics.learned)) == 0
    before = stream_file(tmp_path, topic_name, partitions=PARTITIONS, learning="partition")
    with Worker(before[0], broker, tmp_path) as worker:
        ready([worker])
        assert worker.stop() == 0
