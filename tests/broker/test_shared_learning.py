"""Partitions that learn one model: each label once in their log, every prediction by the records, equal replicas."""

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec
import numpy as np
import pytest
from aiokafka.structs import TopicPartition

from riparian.app.errors import StateError
from riparian.app.kafka.command_client import ask, command
from riparian.app.kafka.reading import read_to_end
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import PartitionGroup
from riparian.app.partition.shared.shared_lineup import STATE
from riparian.app.state.changelog import n_partitions
from riparian.app.state.checkpoint import Encoder
from riparian.app.state.loading import Loaded
from riparian.app.state.log import StateLog
from riparian.app.worker.shared.training_log import read_reached
from riparian.models.contract import Program
from riparian.models.opinion_pool.opinion_pool import OpinionPool
from riparian.topics.names import LEARNED, changelog_topic
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedRecord, write
from riparian.topics.training_log import read as read_record
from tests.app.shared_world import lacked
from tests.broker.clients import append, delete_before, send
from tests.broker.crashing import APPENDING, EXIT_CODE, SHARING
from tests.broker.harness import PATIENCE, Rows, Stream, Worker, follow, instances, state_log
from tests.broker.test_misbehaviour import delete_topic
from tests.chaos.checks import check_replicas
from tests.processes import until

pytestmark = pytest.mark.broker

PARTITIONS, N, REST, LAST, MOST_BEHIND = 3, 1800, 450, 60, 48
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


def spread(s: Stream, rows: Rows) -> None:
    """To partitions in turn, little by little."""
    topics = ((s.spec.topics.features, rows[0]), (str(s.spec.topics.labels), rows[1]))
    with ThreadPoolExecutor(2 * PARTITIONS) as pool:
        for topic, records in topics:
            for p in range(PARTITIONS):
                pool.submit(send, s.broker, topic, records[p::PARTITIONS], partition=p, pause=0.1, chunk=20)


def ready(*workers: Worker) -> None:
    for worker in workers:
        worker.wait_for("Worker ready")


def settled(s: Stream, n: int, *workers: Worker) -> None:
    """Wait until all partitions have learned all n labels, and their states say so."""
    for p in range(PARTITIONS):
        log = StateLog(p)

        def done(records: list[Any], log: StateLog = log) -> bool:
            log.take(None, records)
            return log.manifest is not None and log.manifest.meta[STATE]["n"] == n

        follow(s.broker, changelog_topic(s.name), done, *workers, partition=p)


def test_a_log_that_was_cut_or_made_anew_is_a_sentence(stream: Any) -> None:
    """Before anything is learned: a state that stood at offset 2 of three."""
    s = stream(partitions=2, learning="shared")
    topic = str(s.spec.topics.learned)
    row, y, at = np.zeros(3).tobytes(), np.zeros(1).tobytes(), np.zeros(1, np.int64).tobytes()
    for i in range(3):
        values = [None, None, ["v"]]
        record = LearnedRecord(2, 1, i, {"features": i + 1, "labels": i + 1}, 7, row, y, at, values, ["p"], {})
        append(s.broker, topic, None, write(record))
    learner = PartitionLearner(s.spec, 1)
    merge = PartitionGroup(learner.buffers())

    def take(_: TopicPartition, records: list[Any]) -> None:
        merge.buffers[LEARNED].add(RawBatch.of(records[:2]))

    asyncio.run(read_to_end(s.connection, {TopicPartition(topic, 0): 0}, take))
    learner.step(merge.release())
    encoded = msgspec.msgpack.encode(learner.snapshot().meta)
    restored = PartitionLearner(s.spec, 1)
    restored.restore(learner.snapshot()._replace(meta=msgspec.msgpack.decode(encoded)))

    def reached(one: PartitionLearner) -> Any:
        return asyncio.run(read_reached(s.spec, s.connection, [Loaded(one, Encoder(s.name, 1), None, [])]))[1]

    for one in (learner, restored):
        assert (reached(one).n, reached(one).places) == (3, {"features": 3, "labels": 3})
    delete_before(s.broker, topic, 2)
    assert reached(restored).n == 3
    delete_before(s.broker, topic, 3)
    with pytest.raises(StateError, match=r"begins at offset 3, and the state of partition 1 has learned it up to 2: "):
        reached(restored)
    delete_topic(s.broker, topic)
    s.create_topics()
    append(s.broker, topic, None, write(record))
    with pytest.raises(StateError, match=r"has learned .* up to offset 2, and the topic ends at 1: the topic was del"):
        reached(restored)
    append(s.broker, topic, None, write(record))
    with pytest.raises(StateError, match=r"the record at offset 1 of .* is not the one that the state of partition 1"):
        reached(restored)


def test_all_partitions_learn_one_model_through_kills(stream: Any) -> None:
    drift = {"detectors": {"hddm-w": {"drift_confidence": 0.2, "warning_confidence": 0.4}}, "on_drift": "reset"}
    tree = TREE  # models that say reasons may be champion
    fields = {"learning": {"max_behind": MOST_BEHIND}, "drift": drift, "predictions": {"reasons": 2}, "control": True}
    fields["decision"] = {"class": "yes", "recall": 0.9}
    fields["metrics"] = {"every": "1s", "segments": ["c"]}
    fields["challengers"] = {"nb": "naive-bayes", "tree": tree}
    asked = [
        command("promote", model="tree"),
        command("add", model="late", definition=tree),
        command("apply", **FILE),
    ]
    s = stream(partitions=PARTITIONS, **fields)
    features, labels = instances(N)
    answering = list[Any]()
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        workers = [stack.enter_context(s.worker(name=f"before-{i}")) for i in range(2)]
        ready(*workers)
        sending = pool.submit(spread, s, (features[:-REST], labels[:-REST]))
        for life in range(3):
            s.predicted((life + 1) * 100, *workers)
            answering.append(pool.submit(asyncio.run, ask(s.spec, s.connection, asked[life], PATIENCE)))
            workers[0].kill()
            workers = [workers[1], stack.enter_context(s.worker(name=f"after-{life}"))]
        sending.result()
        ready(*workers)
        spread(s, (features[-REST:-LAST], labels[-REST:-LAST]))
        for answers in answering:  # before an instance of partition 0 that came after the command
            assert {p: one.event for p, one in answers.result().items()} == {0: "applied"}
        # A partition obeys right before an instance, too, and makes no checkpoint until then. All of the others' may
        # have been predicted while nobody had partition 0, which brings the command.
        spread(s, (features[-LAST:], labels[-LAST:]))
        settled(s, N, *workers)
        for worker in workers:
            assert worker.stop() == 0, worker.output[-3000:]
    assert check_replicas(s.broker, s.spec) == []
    log = {record.offset: record.value for record in s.read("learned")}
    versions = set()
    for p in range(PARTITIONS):
        fold = s.check(s.stored(p))
        assert fold.figures().overall["champion"]["n"] == N  # scores are of all partitions
        assert set(fold.roles) == {"champion", "nb", "late"}
        assert (fold.spec.metrics.window, fold.spec.join.max_pending) == (100, 500)
        sent = s.predictions(p)
        assert s.holds(p).n_predictions == len(sent) == N // PARTITIONS
        versions |= {one["learned_offset"] for one in sent}
        given = ([r.value for r in s.read(role, p)] for role in ("features", "labels"))
        assert 0 < max(lacked(p, *given, sent, log)) <= MOST_BEHIND
        assert any(one["reasons"] for one in sent)
        assert any(one["y"] != max(one["p"], key=one["p"].get) for one in sent if one["p"])
    assert len(versions) > 10
    place, topic = fold.places[LEARNED], str(s.spec.topics.learned)
    shown = s.riparian("check")
    assert f"{topic}: offsets 0 to " in shown
    assert f"checkpoints go on at {place:,}" in shown
    append(s.broker, topic, None, b"nobody has learned it")
    delete_before(s.broker, topic, -1)  # all that is there
    said = f"has learned it up to {place:,}: what stood in between was deleted"
    assert f"and the state of partition 0 {said}" in s.riparian("check", code=2)
    assert said in s.fails()


def test_a_backlog_is_predicted_as_if_it_came_in_the_order_of_its_records(stream: Any) -> None:
    """One partition after the other was filled. At each prediction the model has learned about what had been labelled
    before, in all partitions: it lacks no more than a turn of each, and is no more ahead."""
    late, span = 60, PARTITIONS * 256
    s = stream(partitions=PARTITIONS, champion="naive-bayes")
    rows = instances(N, delay=late)
    where = np.random.default_rng(3).integers(0, PARTITIONS, N)
    for p in range(PARTITIONS):
        features, labels = ([one for one, at in zip(column, where, strict=True) if at == p] for column in rows)
        s.give((features, labels), partition=p)
    with s.worker() as worker:
        settled(s, N, worker)
        assert worker.stop() == 0, worker.output[-3000:]
    records = s.read("learned")
    offsets = [record.offset for record in records]
    learned = np.cumsum([0, *(read_record(record.value).n for record in records)])  # type: ignore[union-attr]
    for p in range(PARTITIONS):
        for one in s.predictions(p):
            i = int(one["id"])
            n = learned[np.searchsorted(offsets, one["learned_offset"])]
            assert abs(n - max(0, i - late)) <= span
            assert one["p"] or i < 2 * late
        assert s.holds(p).n_predictions == np.count_nonzero(where == p)
    assert check_replicas(s.broker, s.spec) == []


def ends(s: Any, n: int) -> None:
    """A worker takes what there is of n instances, which are then held."""
    with s.worker() as worker:
        settled(s, n, worker)
        assert worker.stop() == 0, worker.output[-3000:]
    holds_all(s, n)


def holds_all(s: Any, n: int) -> None:
    """Replicas are equal, and each partition has predicted its share of n instances once."""
    assert check_replicas(s.broker, s.spec) == []
    for p in range(PARTITIONS):
        s.check(s.stored(p))
        assert s.holds(p).n_predictions == len(s.predictions(p)) == n // PARTITIONS


def test_a_backlog_goes_on_where_a_worker_died_in_a_turn_of_all_partitions(stream: Any) -> None:
    """What it had appended counts, also where its predictions were not sent."""
    n = 12_000
    s = stream(partitions=PARTITIONS, champion=TREE, checkpoint={"every": "300ms"})
    features, labels = instances(n, delay=60)
    for p in range(PARTITIONS):
        s.give((features[p::PARTITIONS], labels[p::PARTITIONS]), partition=p)
    unsent = 0
    for point in SHARING:
        armed = s.folder / point.replace(" ", "-")
        armed.touch()
        with s.worker(entry=("tests.broker.crashing", point, str(armed)), name=point.replace(" ", "-")) as worker:
            assert worker.process.wait(PATIENCE) == EXIT_CODE, f"{point}: {worker.output[-3000:]}"
        told = [one for one in (read_record(r.value) for r in s.read("learned")) if isinstance(one, LearnedRecord)]
        for p in range(PARTITIONS):
            place = max((one.places["features"] for one in told if one.partition == p), default=0)
            unsent += place > len(s.predictions(p))
    assert unsent >= 2
    ends(s, n)


def test_live_records_go_on_where_a_worker_died_that_appended_for_all(stream: Any) -> None:
    s, n = stream(partitions=PARTITIONS, champion=TREE, checkpoint={"every": "300ms"}), 0
    for point in APPENDING:
        armed = s.folder / point.replace(" ", "-")
        armed.touch()
        with s.worker(entry=("tests.broker.crashing", point, str(armed)), name=point.replace(" ", "-")) as worker:
            ready(worker)
            while worker.process.poll() is None:
                for p in range(PARTITIONS):
                    s.give(instances(10, n), partition=p)
                    n += 10
            assert worker.process.wait(PATIENCE) == EXIT_CODE, f"{point}: {worker.output[-3000:]}"
    ends(s, n)


def test_a_worker_that_was_stopped_while_it_appended_for_all_corrupts_nothing(stream: Any) -> None:
    """Another one has all partitions, and appends for all, before it wakes up."""
    s, n = stream(partitions=PARTITIONS, champion=TREE, checkpoint={"every": "300ms"}), 1200
    features, labels = instances(n, delay=20)
    for_all = f"all partitions append to {s.spec.topics.learned} by one producer"
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        first = stack.enter_context(s.worker(name="first"))
        ready(first)
        sending = pool.submit(spread, s, (features[: n // 2], labels[: n // 2]))
        first.wait_for(for_all)
        first.process.send_signal(signal.SIGSTOP)
        sending.result()
        second = stack.enter_context(s.worker(name="second"))
        spread(s, (features[n // 2 :], labels[n // 2 :]))
        second.wait_for(for_all)
        first.process.send_signal(signal.SIGCONT)
        settled(s, n, first, second)
        assert [worker.stop() for worker in (first, second)] == [0, 0]
    holds_all(s, n)


def test_a_file_is_applied_at_one_place_and_workers_go_on_with_it(stream: Any) -> None:
    """Partition 2 rests when the file is applied, and when workers are started with it: it takes the command, too.
    Members of a pool come, go and are frozen by it."""
    pool = {"model": "opinion-pool", "members": {"last": "last-label", "most": "majority-class"}}
    members = {"tree": TREE, "last": {"model": "last-label", "frozen": True}}
    fields: dict[str, Any] = {
        "partitions": PARTITIONS,
        "control": True,
        "challengers": {"nb": "naive-bayes", "pool": pool},
    }
    s = stream(**fields)
    at = 0

    def come(partitions: tuple[int, ...], n: int = 100) -> None:
        nonlocal at
        for p in partitions:
            s.give(instances(n, at), partition=p)
            at += n

    forest = {"model": "adaptive-random-forest", "n_models": 3}
    new = {**fields, "challengers": {"forest": forest, "pool": {**pool, "members": members}}}
    with s.worker() as worker, ThreadPoolExecutor(1) as thread:
        come((0, 1, 2))
        for p in range(PARTITIONS):
            s.reach(100, worker=worker, partition=p)
        s.change(**new, metrics={"every": "1s", "window": 50}, drift=SETTINGS["drift"])
        answer = thread.submit(s.riparian, "apply")
        while not answer.done():
            come((0, 1), 10)
        said = answer.result()
        assert said.startswith(
            "partition 0: applied: dropped: nb; added: forest; with other parameters: pool (go on: last; begin: tree; "
            "dropped: most; frozen from here on: last); changed: metrics.window, "
        ), said
        assert worker.stop() == 0, worker.output[-3000:]
    models = "champion hoeffding-tree, nb naive-bayes, pool opinion-pool"
    assert f"the state goes on with its models ({models}), and not the stream fi" in s.riparian("check")
    with s.worker() as worker:
        ready(worker)
        come((0, 1))
        while "forest" not in s.stored(2).roles:
            come((0, 1, 2), 10)
        settled(s, at, worker)
        assert worker.stop() == 0
        assert "keeps models of its own" not in worker.output
    assert check_replicas(s.broker, s.spec) == []
    assert "steered" not in s.riparian("check")
    learners = [s.stored(p) for p in range(PARTITIONS)]
    s.change(**fields)
    for p, learner in enumerate(learners):
        assert set(learner.roles) == {"champion", "forest", "pool"}
        opinions = learner.roles["pool"].model
        assert isinstance(opinions, OpinionPool)
        assert {root["member"]: root.get("frozen", False) for root in opinions.describe() if "member" in root} == {
            "last": True,
            "tree": False,
        }
        assert (learner.origin, learner.spec.metrics.window) == (None, 50)
        assert "compared: all equal" in s.riparian("audit", "--partition", p)


def test_features_are_added_and_dropped_through_kills(stream: Any) -> None:
    """Workers are started with a file before it is applied, and after. A model that knows what is new is promoted."""
    fields: dict[str, Any] = {"partitions": PARTITIONS, "control": True, "challengers": {"nb": "naive-bayes"}}
    nominal = {"type": "nominal"}
    begun = {**fields, "features": {"a": "numeric", "c": nominal}}
    files = [
        {"features": {"b": "numeric", "a": "numeric", "c": nominal}, "challengers": {"nb": NB, "wide": TREE}},
        {"features": {"b": "numeric", "a": "numeric"}, "challengers": {"hoeffding-tree": TREE}},
    ]
    s = stream(**begun)
    at, said = 0, list[str]()
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        workers = [stack.enter_context(s.worker(name=f"before-{i}")) for i in range(2)]
        ready(*workers)

        def come(n: int = 20) -> None:
            nonlocal at
            for p in range(PARTITIONS):
                s.give(instances(n, at), partition=p)
                at += n

        for life, more in enumerate(files):
            come(100)
            s.predicted(at // PARTITIONS, *workers)
            until(lambda: all(state_log(s.broker, s.spec, p).manifest is not None for p in range(PARTITIONS)))
            s.change(**{**fields, **more})
            answer = pool.submit(s.riparian, "apply", "--wait", 100)
            come()
            workers[0].kill()
            workers = [workers[1], stack.enter_context(s.worker(name=f"after-{life}"))]
            for further in (None, command("promote", model="wide")):
                if further is not None and life == 0:
                    answer = pool.submit(asyncio.run, ask(s.spec, s.connection, further, PATIENCE))
                while not answer.done():
                    come()
                    time.sleep(0.1)
                said.append(str(answer.result()))
        come()
        settled(s, at, *workers)
        for worker in workers:
            assert worker.stop() == 0, worker.output[-3000:]
    assert said[0].startswith("partition 0: applied: added: wide; ")
    assert "features added: b" in said[0]
    assert "'applied'" in said[1]
    assert "features dropped: c" in said[2]
    assert check_replicas(s.broker, s.spec) == []
    s.change(**begun)
    for p in range(PARTITIONS):
        learner = s.check(s.stored(p))
        assert (list(learner.spec.features), learner.spec.gone) == (["a", "c", "b"], {"c"})
        known = {name: role.columns for name, role in learner.roles.items()}
        assert known == {"champion": None, "hoeffding-tree": [0, 1]}
        assert s.holds(p).n_predictions == len(s.predictions(p)) == at // PARTITIONS
        assert "compared: all equal" in s.riparian("audit", "--partition", p)


def arrays_of(learner: PartitionLearner) -> dict[str, Any]:
    return {name: array for role in learner.roles.values() for name, array in role.state().items()}


def assert_begun(s: Stream, source: PartitionLearner) -> None:
    """All partitions have the models of `source`, with its values and classes, and have seen nothing."""
    for p in range(s.spec.partitions):
        learner = s.stored(p)
        assert learner.n_instances == learner.figures().overall["champion"]["n"] == 0
        assert learner.classes.values == source.classes.values  # type: ignore[union-attr]
        models = {name: a for name, a in arrays_of(source).items() if name.startswith("models/")}
        assert {name for name in arrays_of(learner) if name.startswith("models/")} == models.keys()
        for name, array in models.items():
            np.testing.assert_array_equal(arrays_of(learner)[name], array, name)


def run(s: Stream, at: int, n: int) -> None:
    """A worker learns n more instances of all partitions, and stops."""
    features, labels = instances(n, at)
    k = s.spec.partitions
    with s.worker(name=s.name) as worker:
        ready(worker)
        for p in range(k):
            s.give((features[p::k], labels[p::k]), partition=p)
        for p in range(k):
            s.reach(n // k, worker=worker, partition=p)
        if s.spec.shares:
            settled(s, n, worker)
        assert worker.stop() == 0, worker.output[-3000:]


def test_a_stream_that_has_outgrown_its_partition_goes_on_in_three_and_back(stream: Any) -> None:
    s = stream(topics_made=False, partitions=PARTITIONS)
    one = Stream(s.broker, s.folder, f"{s.name}-one")
    own = Stream(s.broker, s.folder, f"{s.name}-own", partitions=2, learning="partition")
    assert [x.spec.learning.kind for x in (one, s, own)] == ["partition", "shared", "partition"]
    run(one, 0, 900)
    source, file = one.stored(), s.folder / "one.state"
    one.riparian("export", file)
    said = s.riparian("import", file, code=2)
    assert "learning: partition to go on as before" in said
    assert "import --models-only" in said
    assert "leave out --partition" in s.riparian("import", file, "--models-only", "--partition", 0, code=2)
    said = s.riparian("import", file, "--models-only")
    assert said == f"{s.name}: all partitions begin with the models of {file}\n"
    assert_begun(s, source)
    assert "has a state already" in s.riparian("import", file, "--models-only", code=2)
    s.riparian("import", file, "--models-only", "--replace")

    run(s, 900, 900)
    assert check_replicas(s.broker, s.spec) == []
    first = s.predictions()[0]
    assert first["learned_offset"] == 0
    asked = RawBatch([0], [0], [None], [instances(1, 900)[0][0].value])
    made, again = np.zeros((1, 2)), Program(np.zeros(1, np.int8), np.zeros(1, np.int32), np.full(1, np.nan), np.ones(1))
    source.roles["champion"].model.run_with(again, source.decoder.features(asked).x, made, [])
    known = source.classes.values if source.classes is not None else []
    assert [first["p"].get(name, 0.0) for name in known] == made[0].tolist()
    assert [s.holds(p, start=2).n_predictions for p in range(PARTITIONS)] == [300] * PARTITIONS
    assert "has begun already" in s.riparian("import", file, "--models-only", "--replace", code=2)

    s.riparian("export", file, "--partition", 1)
    own.riparian("import", file, "--models-only")
    assert_begun(own, s.stored(1))
    run(own, 1800, 200)
    assert [own.holds(p, start=1).n_predictions for p in range(2)] == [100, 100]


def test_a_stream_that_ran_with_models_of_its_own_stops_before_anything_is_made(stream: Any) -> None:
    """The file said nothing of learning, when that meant a model for each partition."""
    s = stream(partitions=PARTITIONS, learning="partition")
    run(s, 0, 60)
    s.change(partitions=PARTITIONS)
    assert s.spec.topics.learned is not None
    said = "learning was partition, is shared, the default from two partitions on: models of single partitions are not"
    shown = s.riparian("check", code=2)
    assert f"{said} one model; write learning: partition to go on as before, or" in shown
    assert said in s.fails()
    assert asyncio.run(n_partitions(s.connection, s.spec.topics.learned)) == 0
    s.change(partitions=PARTITIONS, learning="partition")
    with s.worker() as worker:
        ready(worker)
        assert worker.stop() == 0
