"""What the tests on real Kafka share: worker processes, streams, and the in-memory oracle.

The oracle folds the retained topics in the order that the predictions record, in this process, and must come to the
same predictions and to the same state, to the bit, as the workers did.
"""

import asyncio
import io
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from aiokafka.structs import ConsumerRecord
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from riparian.app.cli import cli, main
from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.ports import free_port
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder, RecordQueue
from riparian.app.state import checkpoint
from riparian.app.state.audit.audit import audit
from riparian.app.state.log import StateLog
from riparian.app.stream_file.spec import Spec, load
from riparian.topics.names import CONTROL, INPUTS, LEARNED, changelog_topic, place_field
from riparian.topics.records import DriftRecord, RawBatch, place_type
from tests import forkserver
from tests.broker.clients import Reader, Sent, create_topics, has_loop, read, send, wait_on
from tests.processes import PATIENCE, until

ROOT = Path(__file__).resolve().parents[2]
SESSION = 3.0  # seconds for which a worker that was killed blocks its partitions (`tests.shared.PROPERTIES`)


class Worker:
    """`riparian worker` as a process of its own; killed at the end of the test whatever happens.

    web_port : None for the one that it takes by itself. entry : the module that stands for `riparian`, and arguments
    that come before `worker`. place : its instance id, by which the next one of that place takes its partitions over at
    once; without one they are free when the session of a killed worker ends. n_files : how many it may have open.
    options : more options of `worker`. forked : from the fork server; else started as users start it.
    """

    process: "forkserver.Process | subprocess.Popen[bytes]"

    def __init__(
        self,
        stream: Path,
        broker: str,
        folder: Path,
        *,
        web_port: int | None = 0,
        name: str = "w",
        entry: Sequence[str] = ("riparian.app.cli",),
        place: str | None = None,
        session_timeout: float = SESSION,
        n_files: int | None = None,
        options: Sequence[object] = (),
        forked: bool = True,
    ) -> None:
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        command = [*entry, "worker", str(stream), "--broker", broker]
        command += [] if web_port is None else ["--port", str(web_port)]
        command += ["--data-dir", str(folder / f"data-{time.monotonic_ns()}")]
        command += ["--session-timeout", str(session_timeout), "--log-level", "info", *map(str, options)]
        command += [] if place is None else ["--instance-id", place]
        with self.log.open("wb") as log:
            if forked:
                self.process = forkserver.Process(command, stdout=log.fileno(), stderr=log.fileno(), n_files=n_files)
            else:
                command = [sys.executable, "-m", *command]
                self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def sentence(self) -> str:
        """That with which it ends by itself."""
        assert self.process.wait(PATIENCE) == 2, self.output[-3000:]
        assert "Traceback" not in self.output
        last = self.output.strip().splitlines()[-1]
        assert last.startswith("riparian: ")
        return last

    def wait_for(self, text: str) -> None:
        """Wait until the output holds `text`."""
        until(lambda: text in self.output or self.process.poll() is not None)
        assert text in self.output, self.output[-3000:]


def riparian(*arguments: object, code: int = 0, cwd: Path = ROOT) -> str:
    """Run a command: what it prints, or with `code` 2 its sentence."""
    done = forkserver.run(["riparian.app.cli", *arguments], cwd=cwd, timeout=PATIENCE)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code == 2 else done.stdout


def here(*arguments: object, code: int = 0) -> str:
    """The same in this process, a fraction of the time; where this is no place for it, in one of its own."""
    if threading.current_thread() is not threading.main_thread() or has_loop():
        return riparian(*arguments, code=code)
    given, out, err, ended = sys.argv, io.StringIO(), io.StringIO(), 0
    sys.argv = ["riparian", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        ended = int(end.code or 0)
    finally:
        sys.argv = given
    assert ended == code, out.getvalue() + err.getvalue()
    assert "Traceback" not in err.getvalue()
    return (err if code == 2 else out).getvalue()


def invoke(*arguments: object) -> Result:
    """The same in this process, where it may have been patched; what is wrong is raised, or is `exception`."""
    return CliRunner().invoke(cli, [*map(str, arguments)])


def engine_of(spec: Spec, folder: Path) -> Any:
    """An assignment that no broker feeds."""
    from riparian.app.worker.application import create_app
    from riparian.app.worker.exposition.metrics import Metrics

    return create_app(spec, Connection("127.0.0.1:1"), web=None, data_dir=folder, observer=Metrics(spec))[1]


def stream_file(folder: Path, name: str, **fields: Any) -> tuple[Path, Spec]:
    """Write a stream file of a small classification stream, with `fields` put over it."""
    content: dict[str, Any] = {
        "name": name,
        "task": "classification",
        "features": {"a": "numeric", "b": "numeric", "c": {"type": "nominal"}},
        "champion": {"model": "hoeffding-tree", "grace_period": 50},
        "challengers": {"nb": "naive-bayes", "last": "last-label"},
        "checkpoint": {"every": "300ms"},
        "metrics": {"every": "1s"},
        "join": {"max_wait": "30s"},
    }
    content.update(fields)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path, load(path)


Rows = tuple[list[Sent], list[Sent]]  # features and labels


def instances(n: int, start: int = 0, *, seed: int = 0, delay: int = 5) -> Rows:
    """n features and their labels: a concept on three features, stamps 1 ms apart, labels `delay` ms later."""
    rng = np.random.default_rng([seed, start])
    now = int(time.time() * 1000) - 3_600_000 + start
    features, labels = [], []
    for i in range(n):
        a, b, c = rng.random(), rng.random(), "xyz"[rng.integers(3)]
        y = (a > 0.5) != (c == "x" and b > 0.3)
        id_ = f"{start + i:07d}"
        record = {"id": id_, "x": {"a": round(a, 4), "b": round(b, 4), "c": c}}
        features.append(Sent(json.dumps(record).encode(), now + i, id_.encode()))
        label = json.dumps({"id": id_, "y": "yes" if y else "no"}).encode()
        labels.append(Sent(label, now + i + delay, id_.encode()))
    return features, labels


async def _follow(
    broker: str,
    topic: str,
    partition: int,
    done: Callable[[list[ConsumerRecord]], bool],
    workers: Sequence[Worker],
) -> None:
    deadline = time.monotonic() + PATIENCE
    async with Reader(broker, topic, partition) as reader:
        records: list[ConsumerRecord] = []
        while not done(records):
            late = time.monotonic() >= deadline
            if late or any(worker.process.poll() is not None for worker in workers):
                said = [f"{topic} did not get so far"] if late else []
                raise AssertionError("\n".join([*said, *(worker.output[-3000:] for worker in workers)]))
            if await reader.is_there():
                records = await reader.more(0.2)
            else:
                await asyncio.sleep(0.1)


def follow(
    broker: str, topic: str, done: Callable[[list[ConsumerRecord]], bool], *workers: Worker, partition: int = 0
) -> None:
    """Read a partition from its beginning on until `done`, which is given the records that have come; while the workers
    run."""
    wait_on(_follow(broker, topic, partition, done, workers))


def wait_for_records(
    broker: str, topic: str | None, n: int, *workers: Worker, partition: int = 0
) -> list[ConsumerRecord]:
    """The first n records of a partition, and what came along, as soon as they are there."""
    found: list[ConsumerRecord] = []

    def done(records: list[ConsumerRecord]) -> bool:
        found.extend(records)
        return len(found) >= n

    follow(broker, str(topic), done, *workers, partition=partition)
    return found


def predictions(broker: str, spec: Spec, partition: int = 0) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in read(broker, spec.topics.predictions, partition)]


def drifts(broker: str, spec: Spec, partition: int = 0) -> list[DriftRecord]:
    return [msgspec.json.decode(r.value, type=DriftRecord) for r in read(broker, spec.topics.drift, partition)]


def state_log(broker: str, spec: Spec, partition: int = 0) -> StateLog:
    """The changelog of a partition."""
    log = StateLog(partition)
    for record in read(broker, changelog_topic(spec.name), partition):
        log.append(record.offset, record.key, record.value)
    return log


def stored(broker: str, spec: Spec, partition: int = 0) -> PartitionLearner | None:
    """The learner that the changelog holds."""
    log = state_log(broker, spec, partition)
    if log.manifest is None:
        return None
    learner = PartitionLearner(spec, partition)
    learner.restore(checkpoint.decode(log.manifest, log.chunks))
    return learner


def wait_for_state(
    broker: str,
    spec: Spec,
    n_features: int,
    n_labels: int,
    partition: int = 0,
    worker: Worker | None = None,
    beyond: int = 0,
) -> PartitionLearner:
    """Wait until the changelog's manifest stands behind all records; the learner that it holds.

    beyond : offset of the changelog below which no manifest counts: one that stood behind all records may have been
    rolled back.
    """
    log, held = StateLog(partition), list[PartitionLearner]()

    def done(records: list[ConsumerRecord]) -> bool:
        for record in records:
            log.append(record.offset, record.key, record.value)
        if log.manifest is None or not records or log.position <= beyond:
            return False
        meta = log.manifest.meta
        if meta["feature_offset"] < n_features or meta["label_offset"] < n_labels:
            return False
        try:
            snapshot = checkpoint.decode(log.manifest, log.chunks)
        except StateError:  # a chunk is on its way
            return False
        held.append(PartitionLearner(spec, partition))
        held[0].restore(snapshot)
        return True

    follow(broker, changelog_topic(spec.name), done, *([] if worker is None else [worker]), partition=partition)
    return held[0]


def _known(prediction: dict[str, Any]) -> dict[str, Any]:
    """A class may be listed with probability 0 or not at all, depending on what else was in the batch."""
    p = {name: value for name, value in (prediction.get("p") or {}).items() if value}
    return {**prediction, "p": p}


def check_against_oracle(
    broker: str,
    spec: Spec,
    learner: PartitionLearner,
    features: Sequence[ConsumerRecord] | None = None,
    labels: Sequence[ConsumerRecord] | None = None,
) -> PartitionLearner:
    """Fold the retained topics in the recorded order: every prediction and every drift event once, in order, equal to
    the bit, and the state that the workers left equal to that of the fold. Returns the fold's learner.

    features, labels : what the workers saw, where the topics do not hold it any more.
    """
    partition = learner.partition
    held = state_log(broker, spec, partition).manifest
    told = drifts(broker, spec, partition)
    sent = predictions(broker, spec, partition)
    offsets = [p["offset"] for p in sent]
    oracle = PartitionLearner(spec, partition)
    bits = oracle.codec.index_bits
    further = [place_field(role) for role in oracle.rules if role not in INPUTS]
    kind, fields = place_type(further), ("offset", "label_offset", "index", "label_index", *further)
    places = [kind(**{field: p.get(field, 0) for field in fields}).places(bits) for p in sent]
    script = RecordedOrder.of(list(oracle.rules), places)
    merge = PartitionGroup({role: RecordQueue() for role in INPUTS} | oracle.buffers(), script, limit=777)
    merge.buffers["features"].add(
        RawBatch.of(features if features is not None else read(broker, spec.topics.features, partition))
    )
    if spec.topics.labels is not None:
        merge.buffers["labels"].add(
            RawBatch.of(labels if labels is not None else read(broker, spec.topics.labels, partition))
        )
    if CONTROL in oracle.rules:
        merge.buffers[CONTROL].add(RawBatch.of(read(broker, spec.input_topics[CONTROL], partition)))
    if spec.topics.learned is not None:
        merge.buffers[LEARNED].add(RawBatch.of(read(broker, spec.topics.learned)), learner.places[LEARNED])
    made: list[dict[str, Any]] = []
    found: list[DriftRecord] = []
    while merge.n_waiting:
        outcome = oracle.step(merge.release(EVERYTHING))
        found += outcome.drifts
        made += [json.loads(value) for value in oracle.encode(outcome)]
    assert offsets == [p["offset"] for p in made], "a prediction is missing, repeated or out of order"
    assert list(map(_known, sent)) == list(map(_known, made))
    # The last ones may stand in the manifest still: they are sent after it.
    told += [record for record in held.events if record.number >= len(told)] if held is not None else []
    assert told == found, "a drift event is missing, repeated or another"
    assert oracle.digest() == learner.digest()
    return oracle


class Page:
    """A worker's web server, on a free port unless one is given."""

    def __init__(self, port: int | None = None) -> None:
        self.port = free_port() if port is None else port

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
            assert answer.status == 200
            text: str = answer.read().decode()
            return text

    def values(self, name: str, **labels: str) -> list[float]:
        lines = (line for line in self.get("/metrics").splitlines(keepends=True) if name in line)  # of hundreds
        families = text_string_to_metric_families("".join(lines))
        samples = [sample for family in families for sample in family.samples]
        return [s.value for s in samples if s.name == name and labels.items() <= s.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        """One sample, once the worker has it: a counter of a model appears with the first page after its first step."""
        found = list[float]()
        until(lambda: found.extend(self.values(name, **labels)) or found)
        return found[0]

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/health"))
        return found

    def wait_for_partitions(self, n: int) -> None:
        """Until it has so many, from before it answers on."""

        def there() -> bool:
            with suppress(OSError):
                return len(self.health()["partitions"]) == n
            return False

        until(there)

    def wait_for(self, name: str, expected: list[float], **labels: str) -> None:
        last = list[float]()

        def there() -> bool:
            last[:] = self.values(name, **labels)
            return last == expected

        until(there, lambda: f"{name} {labels} is {last}, not {expected}")


class Stream:
    """A stream of a test, on a broker: its file, its topics, its workers, and what they made of its records.

    folder : of the stream file, and of the workers' logs. fields : of the stream file (`stream_file`).
    """

    def __init__(self, broker: str, folder: Path, name: str, *, topics_made: bool = True, **fields: Any) -> None:
        self.broker, self.folder, self.name = broker, folder, name
        self.change(**fields)
        if topics_made:
            self.create_topics()

    def create_topics(self) -> None:
        create_topics(self.spec, self.broker)

    def change(self, **fields: Any) -> None:
        """Another stream file of the same name."""
        self.path, self.spec = stream_file(self.folder, self.name, **fields)

    def load(self) -> None:
        """Read the file again, which a test has written."""
        self.spec = load(self.path)

    @property
    def connection(self) -> Connection:
        return Connection(self.broker)

    def give(self, rows: Rows, start: int = 0, stop: int | None = None, *, partition: int = 0, **how: Any) -> None:
        """Send features and labels from `start` to `stop`, to one partition. how : as in `send`."""
        for topic, records in zip((self.spec.topics.features, self.spec.topics.labels), rows, strict=True):
            send(self.broker, str(topic), records[start:stop], partition=partition, **how)

    @contextmanager
    def giving(self, rows: Rows, start: int = 0, stop: int | None = None, **how: Any) -> Iterator[None]:
        """Send meanwhile, both topics at once; at the end of the block all is sent."""
        with ThreadPoolExecutor(2) as pool:
            sending = [
                pool.submit(send, self.broker, str(topic), records[start:stop], **how)
                for topic, records in zip((self.spec.topics.features, self.spec.topics.labels), rows, strict=True)
            ]
            yield
            for one in sending:
                one.result()

    def worker(self, *, broker: str | None = None, **options: Any) -> Worker:
        """broker : by another address."""
        return Worker(self.path, broker or self.broker, self.folder, **options)

    def reach(
        self,
        n_features: int,
        n_labels: int | None = None,
        worker: Worker | None = None,
        partition: int = 0,
        beyond: int = 0,
    ) -> PartitionLearner:
        """Wait for the state behind so many records (of labels, as many as features); the learner that it holds.

        beyond : as in `wait_for_state`.
        """
        n_labels = n_features if n_labels is None else n_labels
        return wait_for_state(self.broker, self.spec, n_features, n_labels, partition, worker, beyond)

    def run(
        self, n_features: int, n_labels: int | None = None, partition: int = 0, beyond: int = 0, **options: Any
    ) -> PartitionLearner:
        """A worker that comes so far and is stopped; the learner that it leaves."""
        with self.worker(**options) as worker:
            learner = self.reach(n_features, n_labels, worker, partition, beyond)
            assert worker.stop() == 0, worker.output[-3000:]
        return learner

    def fails(self, **options: Any) -> str:
        """The sentence with which a worker ends by itself."""
        with self.worker(**options) as worker:
            return worker.sentence()

    def read(self, role: str, partition: int = 0) -> list[ConsumerRecord]:
        """The records of the stream's topic of this role."""
        return read(self.broker, getattr(self.spec.topics, role), partition)

    def predictions(self, partition: int = 0) -> list[dict[str, Any]]:
        return predictions(self.broker, self.spec, partition)

    def predicted(self, n: int, *workers: Worker, partition: int = 0) -> None:
        """Wait for n records of predictions."""
        wait_for_records(self.broker, self.spec.topics.predictions, n, *workers, partition=partition)

    def letters(self, partition: int = 0) -> list[dict[str, str]]:
        """The headers of the dead letters."""
        found = self.read("deadletters", partition)
        return [{name: value.decode() for name, value in record.headers} for record in found]

    def stored(self, partition: int = 0) -> PartitionLearner:
        """The learner that the changelog holds."""
        learner = stored(self.broker, self.spec, partition)
        assert learner is not None
        return learner

    def check(self, learner: PartitionLearner, *seen: Sequence[ConsumerRecord]) -> PartitionLearner:
        """`check_against_oracle`."""
        return check_against_oracle(self.broker, self.spec, learner, *seen)

    def audit(self, partition: int = 0, **options: Any) -> Any:
        """The audit's report."""
        return wait_on(audit(self.spec, self.connection, partition, **options))

    def holds(self, partition: int = 0, **options: Any) -> Any:
        """An audit that holds; its report."""
        report = self.audit(partition, **options)
        assert report.holds, json.dumps(report.plain())
        return report

    def riparian(self, command: str, *arguments: object, code: int = 0) -> str:
        """Run a command on the stream file (`here`). command : of two words, too."""
        return here(*command.split(), self.path, *arguments, "--broker", self.broker, code=code)
