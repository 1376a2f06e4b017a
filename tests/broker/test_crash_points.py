"""A worker that dies at each point of a step, a checkpoint and an assignment: the next one goes on as if it had not.

The worker that finishes what a dead one left is the next to die: it works like any other until it is told to.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.kafka.broker import LocalBroker
from tests.broker.crashing import EXIT_CODE, POINTS
from tests.broker.harness import PATIENCE, Worker, create_topics, read, send, stream_file, wait_for_state
from tests.chaos.checks import check_partition
from tests.chaos.load import FEATURES, LABELS, Generator

pytestmark = pytest.mark.broker

SESSION_SECONDS = 2.5  # a dead worker blocks its partition for so long; brokers want 6 unless told otherwise
RATE = 1000.0  # instances/s of stream time
LIVES = 3  # streams that are killed again and again at the same time


class Story:
    """One stream, one partition, and workers that die one after the other."""

    def __init__(self, folder: Path, name: str, broker: str) -> None:
        nervous = {"hddm-w": {"drift_confidence": 0.2, "warning_confidence": 0.4}}  # for events all the time
        drift = {"detectors": nervous, "features": "all", "on_drift": "reset"}
        self.path, self.spec = stream_file(folder, name, checkpoint={"every": "100ms"}, drift=drift)
        self.folder, self.broker = folder, broker
        self.now = 1000 * time.time()
        self.made = Generator(1, 0, self.now, poison=0.02)
        create_topics(self.spec, broker)

    def worker(self, *entry: str) -> Worker:
        return Worker(
            self.path, self.broker, self.folder, name=self.spec.name, entry=entry, session_timeout=SESSION_SECONDS
        )

    def send(self) -> None:
        self.now += 500
        records = list(self.made.until(self.now, RATE))
        for role, topic in ((FEATURES, self.spec.topics.features), (LABELS, self.spec.topics.labels)):
            send(self.broker, topic or "", [record for at, record in records if at == role])

    def check(self, worker: Worker, story: str) -> None:
        """Wait until everything is learned; what is in the topics then is what it should be."""
        wait_for_state(self.broker, self.spec, self.made.n[FEATURES], self.made.n[LABELS], worker=worker)
        deadline = time.monotonic() + PATIENCE  # the first metrics come later than the first checkpoint
        while (
            len(read(self.broker, self.spec.topics.metrics, 0)) <= len(self.spec.models())  # one is the partition's
            and time.monotonic() < deadline
        ):
            time.sleep(0.2)
        verdict = check_partition(self.broker, self.spec, 0, self.made)
        assert not verdict.failures, f"{story}: {verdict.failures}"

    def run(self, points: list[str]) -> None:
        story = "at first"
        for point in points:
            armed = self.folder / f"{self.spec.name}-{point.replace(' ', '-')}"
            at_once = "fence" in point
            if at_once:
                armed.touch()
            with self.worker("tests.broker.crashing", point, str(armed)) as worker:
                if not at_once:
                    self.send()
                    self.check(worker, story)
                    armed.touch()
                    self.send()
                assert worker.process.wait(PATIENCE) == EXIT_CODE, f"{point}: {worker.output[-3000:]}"
            story = f"died {point}"
        with self.worker("app.cli") as worker:
            self.check(worker, story)
            assert worker.stop() == 0


def test_whoever_comes_after_a_worker_that_died_goes_on_where_it_stood(tmp_path):
    with LocalBroker(tmp_path / "kafka", properties="\ngroup.min.session.timeout.ms=1000\n") as local:
        stories = [Story(tmp_path, f"life-{i}", local.bootstrap) for i in range(LIVES)]
        with ThreadPoolExecutor(LIVES) as pool:
            for done in [pool.submit(s.run, list(POINTS)[i::LIVES]) for i, s in enumerate(stories)]:
                done.result()
