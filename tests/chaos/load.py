"""What a campaign feeds the workers: a backlog, then live records, from one seeded generator a partition.

Labels come shortly after their features, seconds after, much later, never, or before them; some records cannot be
read. The generator knows what must come of it: how many instances find their labels, which offsets are dead letters.
"""

import asyncio
import heapq
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer

from riparian.app.stream_file.spec import Spec
from tests.broker.clients import Sent

TICK_SECONDS = 0.05
BACKLOG_RATE = 1000.0  # instances/s, by their time stamps
FEATURES, LABELS = "features", "labels"
POISON = {FEATURES: [b"{oops", b'{"x": {"a": 1}}', b'{"id": "1", "x": {"a": "high"}}'], LABELS: [b"{oops", b'{"y": 1}']}

CLASSES = ("no", "yes")
POISON_SHARE = 0.003
CARDS = 400  # of which some come often

# Share of the labels, and milliseconds after (or before) their features.
NULL_SHARE = 0.05  # of instances, where labels of one class alone are sent
DELAYS = ((0.55, (1, 60)), (0.30, (200, 3000)), (0.10, (5000, 20_000)), (0.04, (-300, -1)))


Place = Callable[[str, Sent], tuple[str, int]]


class Generator:
    """The records of one partition, in the order of their time stamps.

    labels : classes whose labels are sent; of one alone, some are null.

    Attributes
    ----------
    n : records so far of each topic, which is the next offset there
    poison : offsets of the records that cannot be read
    n_labelled : instances whose label was sent, too
    """

    def __init__(
        self,
        seed: int,
        partition: int,
        start_ms: float,
        poison: float = POISON_SHARE,
        labels: Sequence[str] = CLASSES,
    ) -> None:
        self._poison, self._labels = poison, labels
        self._rng = random.Random(f"{seed}/{partition}")
        self._partition = partition
        self._now = start_ms
        self._made = self._pushed = 0
        self._due: list[tuple[int, int, str, Sent]] = []
        self.n = {FEATURES: 0, LABELS: 0}
        self.poison: dict[str, set[int]] = {FEATURES: set(), LABELS: set()}
        self.n_labelled = 0

    def until(self, now_ms: float, rate: float) -> Iterator[tuple[str, Sent]]:
        """Topic and record of all that is due at `now_ms`, with `rate` instances/s since the last call."""
        while (following := self._now + 1000.0 / rate) <= now_ms:
            self._now = following
            self._make(int(following))
            yield from self._pop(int(following))
        yield from self._pop(int(now_ms))

    def end(self, role: str) -> int:
        """Where the topic's partition ends."""
        return self.n[role]

    def good(self, role: str) -> list[int]:
        """Offsets of the records that can be read."""
        return [offset for offset in range(self.n[role]) if offset not in self.poison[role]]

    def rest(self) -> Iterator[tuple[str, Sent]]:
        """The labels that were still to come."""
        yield from self._pop(None)

    def _make(self, at: int) -> None:
        rng = self._rng
        id_ = f"{self._partition}-{self._made:07d}"
        self._made += 1
        a, b, c = rng.random(), rng.random(), rng.choice("xyz")
        x = {"a": round(a, 4), "b": round(b, 4), "c": c, "d": round(a - b, 4), "e": c if a > b else "w", "f": a > 0.5}
        features = {"id": id_, "x": x, "card": f"v{int(b * b * CARDS)}"}
        self._push(at, FEATURES, features, id_)
        y = "yes" if (a > 0.5) != (c == "x" and b > 0.3) else "no"
        draw = rng.random()
        if len(self._labels) == 1 and rng.random() < NULL_SHARE:
            self._push(at + rng.randint(1, 60), LABELS, {"id": id_, "y": None}, id_)
            draw = 1.0
        for share, (least, most) in DELAYS:
            draw -= share
            if draw < 0:
                if y in self._labels:
                    self._push(at + rng.randint(least, most), LABELS, {"id": id_, "y": y}, id_)
                break
        for topic in (FEATURES, LABELS)[: 1 + (len(self._labels) > 0)]:
            if rng.random() < self._poison:
                self._push(at, topic, rng.choice(POISON[topic]), id_)

    def _push(self, at: int, topic: str, record: dict[str, Any] | bytes, key: str) -> None:
        value = record if isinstance(record, bytes) else json.dumps(record).encode()
        self._pushed += 1
        heapq.heappush(self._due, (at, self._pushed, topic, Sent(value, at, key.encode())))

    def _pop(self, now: int | None) -> Iterator[tuple[str, Sent]]:
        while self._due and (now is None or self._due[0][0] <= now):
            _, _, topic, record = heapq.heappop(self._due)
            if record.value in POISON[topic]:
                self.poison[topic].add(self.n[topic])
            elif topic == LABELS:
                self.n_labelled += 1
            self.n[topic] += 1
            yield topic, record


class Load:
    """A thread that sends to every partition until `finish`.

    Parameters
    ----------
    rate : float
        Instances a second and partition while live.
    backlog : int
        Instances a partition that are there before anything else.
    place : callable, optional
        Role and record -> topic and partition, where the records of a generator do not have one partition.
    """

    def __init__(
        self, spec: Spec, broker: str, *, seed: int, rate: float, backlog: int, place: Place | None = None
    ) -> None:
        start = 1000 * (time.time() - backlog / BACKLOG_RATE)
        labels = CLASSES if spec.join.unlabelled is None else ("yes",)
        labels = () if spec.topics.labels is None else labels
        self.generators = [Generator(seed, p, start, labels=labels) for p in range(spec.partitions)]
        self._topics = {FEATURES: spec.topics.features, LABELS: spec.topics.labels or ""}
        self._broker, self._rate, self._place = broker, rate, place
        self._finishing = threading.Event()
        self._error: BaseException | None = None
        self._backlog_sent = threading.Event()
        self._thread = threading.Thread(target=self._work, name="load", daemon=True)

    def start(self) -> None:
        """Return when the backlog stands in the topics."""
        self._thread.start()
        self._backlog_sent.wait()
        self._check()

    def finish(self) -> None:
        """Send the labels that are due later, and return when everything is acknowledged."""
        self._finishing.set()
        self._thread.join()
        self._check()

    @property
    def n_sent(self) -> int:
        return sum(generator.n[topic] for generator in self.generators for topic in generator.n)

    def _check(self) -> None:
        if self._error is not None:
            raise RuntimeError("the load could not be sent") from self._error

    def _work(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self._error = error
        self._backlog_sent.set()

    async def _send(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._broker, enable_idempotence=True, request_timeout_ms=120_000)
        await producer.start()
        try:
            await self._all(producer, BACKLOG_RATE)
            await producer.flush()
            self._backlog_sent.set()
            while not self._finishing.is_set():
                await asyncio.sleep(TICK_SECONDS)
                await self._all(producer, self._rate)
            await self._all(producer, None)
            await producer.flush()
        finally:
            await producer.stop()

    async def _all(self, producer: AIOKafkaProducer, rate: float | None) -> None:
        """What is due now, with `rate` new instances a second since the last call; None: all that is left."""
        now = 1000 * time.time()
        due = [
            (record.time, partition, role, record)
            for partition, generator in enumerate(self.generators)
            for role, record in (generator.rest() if rate is None else generator.until(now, rate))
        ]
        if self._place is not None:
            due.sort(key=lambda one: one[0])
        for _, partition, role, record in due:
            topic = self._topics[role]
            if self._place is not None:
                topic, partition = self._place(role, record)
                while partition not in await producer.partitions_for(topic):
                    await producer.client.force_metadata_update()
            await producer.send(topic, record.value, key=record.key, partition=partition, timestamp_ms=record.time)
