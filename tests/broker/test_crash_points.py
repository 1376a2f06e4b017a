"""A worker that dies at each point of a step, a checkpoint and an assignment: the next one goes on as if it had not.

The worker that finishes what a dead one left is the next to die: it works like any other until it is told to.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.broker.clients import send
from tests.broker.crashing import EXIT_CODE, POINTS
from tests.broker.harness import PATIENCE, Stream, Worker
from tests.chaos.checks import check_partition
from tests.chaos.load import FEATURES, LABELS, Generator
from tests.processes import until

pytestmark = pytest.mark.broker

RATE = 1000.0  # instances/s of stream time
LIVES = 3  # streams that are killed again and again at the same time


class Story:
    """One stream, one partition, and workers that die one after the other."""

    def __init__(self, stream: Any, number: int) -> None:
        broker, folder, name = stream.args
        nervous = {"hddm-w": {"drift_confidence": 0.2, "warning_confidence": 0.4}}  # for events all the time
        drift = {"detectors": nervous, "features": "all", "on_drift": "reset"}
        self.stream = Stream(
            broker, folder, f"{name}-{number}", checkpoint={"every": "100ms"}, metrics={"every": "200ms"}, drift=drift
        )
        self.now = 1000 * time.time()
        self.made = Generator(1, 0, self.now, poison=0.02)

    def worker(self, *entry: str) -> Worker:
        return self.stream.worker(name=self.stream.name, entry=entry, place="w")

    def send(self, ms: float) -> None:
        self.now += ms
        records = list(self.made.until(self.now, RATE))
        for role, topic in ((FEATURES, self.stream.spec.topics.features), (LABELS, self.stream.spec.topics.labels)):
            send(self.stream.broker, topic or "", [record for at, record in records if at == role])

    def learn(self, worker: Worker) -> None:
        """Wait until everything is learned."""
        self.stream.reach(self.made.n[FEATURES], self.made.n[LABELS], worker)

    def run(self, points: list[str]) -> None:
        """What is in the topics at the end is what it should be: there each fault shows, whichever life made it."""
        for point in points:
            armed = self.stream.folder / f"{self.stream.name}-{point.replace(' ', '-')}"
            at_once = "fence" in point
            if at_once:
                armed.touch()
            with self.worker("tests.broker.crashing", point, str(armed)) as worker:
                if not at_once:
                    self.send(200)
                    self.learn(worker)
                    armed.touch()
                    self.send(500)  # enough for each point to be met
                assert worker.process.wait(PATIENCE) == EXIT_CODE, f"{point}: {worker.output[-3000:]}"
        s = self.stream
        with self.worker("riparian.app.cli") as worker:
            self.learn(worker)
            # The first metrics come later than the first checkpoint; one is the partition's.
            until(lambda: len(s.read("metrics")) > len(s.spec.models()))
            verdict = check_partition(s.broker, s.spec, 0, self.made)
            assert not verdict.failures, f"died {', '.join(points)}: {verdict.failures}"
            assert worker.stop() == 0


def test_whoever_comes_after_a_worker_that_died_goes_on_where_it_stood(stream: Any) -> None:
    stories = [Story(stream, i) for i in range(LIVES)]
    with ThreadPoolExecutor(LIVES) as pool:
        for done in [pool.submit(s.run, list(POINTS)[i::LIVES]) for i, s in enumerate(stories)]:
            done.result()
