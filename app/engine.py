"""The engine of a worker: the runners of its assigned partitions, loaded on assignment and dropped on revocation.

On assignment a partition's learner is loaded from its manifest, the interleaving that really happened after it is read
back from the partition's own predictions, and both topics are sought to the manifest's offsets.
"""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from faust.types import TP

from app.errors import StateError
from app.learner import PartitionLearner
from app.merge import Ends, Script
from app.outputs import Outputs, read_tail
from app.runner import Observer, Runner
from app.spec import Spec
from app.state import checkpoint
from app.transport import ConsumerThread, Fetched

log = logging.getLogger(__name__)


class Store(Protocol):
    """The changelog-backed table, as far as the engine needs it."""

    def items(self, partition: int) -> Mapping[bytes, bytes]: ...
    async def write(self, partition: int, records: Mapping[bytes, bytes | None]) -> None: ...


class Tail(msgspec.Struct):
    """What is read back of a prediction."""

    offset: int
    label_offset: int


class Engine:
    """All runners of a worker.

    Parameters
    ----------
    spec : Spec
    broker : str
    store : Store
    observer : Observer
    """

    def __init__(self, spec: Spec, broker: str, store: Store, observer: Observer) -> None:
        self.spec = spec
        self.broker = broker
        self.store = store
        self.observer = observer
        self.outputs = Outputs(broker)
        self.features: list[tuple[str, str]] = [(name, feature.type) for name, feature in spec.features.items()]
        self.features_topic: str = spec.topics.features
        self.labels_topic: str | None = spec.topics.labels
        self.runners: dict[int, Runner] = {}
        self._app: Any = None
        self._asker: AIOKafkaConsumer | None = None
        self.failure: BaseException | None = None
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="learner")

    def attach(self, app: Any) -> None:
        """Give the engine the app whose consumer feeds it."""
        self._app = app

    @property
    def consumer(self) -> Any:
        return self._app.consumer

    @property
    def thread(self) -> ConsumerThread:
        thread: ConsumerThread = self._app.consumer.thread
        return thread

    def tp_features(self, partition: int) -> TP:
        return TP(self.features_topic, partition)

    def tp_labels(self, partition: int) -> TP:
        return TP(self.labels_topic or "", partition)

    async def crash(self, error: BaseException) -> None:
        """Stop the worker because of `error`."""
        self.failure = self.failure or error
        await self._app.crash(error)

    async def commit(self, offsets: Mapping[TP, int]) -> None:
        await self.consumer.commit_manifests(offsets)

    async def ends(self, partition: int) -> Ends | None:
        """Where both topics of a partition end now; None where the broker does not say.

        By a connection of its own: on the fetching one, the answer would come after the pending fetch's.
        """
        topics = (self.features_topic, self.labels_topic)
        tps = [TopicPartition(topic, partition) for topic in topics]
        try:
            found = await self._asker.end_offsets(tps)  # type: ignore[union-attr]
        except KafkaError as error:
            log.debug("no end offsets: %r", error)
            await asyncio.sleep(0.1)
            return None
        return Ends(*(found[tp] for tp in tps))

    async def in_thread(self, function: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def add(self, tp: TP, fetched: Fetched) -> None:
        """Hand a fetched batch to its partition's runner."""
        runner = self.runners.get(tp.partition)
        if runner is not None:
            runner.add(tp, fetched)

    async def assign(self, tps: set[TP]) -> dict[TP, int]:
        """Load the learners of the assigned partitions and seek their topics; the offsets sought to."""
        try:
            return await self._assign(tps)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self.crash(error)
            raise

    async def _assign(self, tps: set[TP]) -> dict[TP, int]:
        await self.outputs.start()
        if self._asker is None:
            self._asker = AIOKafkaConsumer(bootstrap_servers=self.broker, enable_auto_commit=False)
            await self._asker.start()
        await self.revoke()  # a runner lives for one assignment
        offsets: dict[TP, int] = {}
        runners = []
        for partition in sorted({tp.partition for tp in tps}):
            runner = await self._load(partition)
            runners.append(runner)
            offsets[self.tp_features(partition)] = runner.learner.feature_offset
            if self.labels_topic is not None:
                offsets[self.tp_labels(partition)] = runner.learner.label_offset
        # Before the seek: what is fetched right after it may come before its answer does, and must find its runner.
        self.runners.update((runner.partition, runner) for runner in runners)
        epochs = await self.thread.seek_sources(offsets)
        for runner in runners:
            runner.start(epochs)
        return offsets

    async def _load(self, partition: int) -> Runner:
        items = self.store.items(partition)
        learner = await self.in_thread(PartitionLearner, self.spec, partition)
        data = items.get(checkpoint.manifest_key(partition))
        prefix = checkpoint.chunk_prefix(partition)
        written = {bytes.fromhex(key[len(prefix) :].decode()) for key in items if key.startswith(prefix)}
        sequence, outputs_offset = 0, 0
        if data is not None:
            manifest = checkpoint.decode_manifest(data)
            if manifest.stream != self.spec.name or manifest.partition != partition:
                raise StateError(
                    f"the changelog holds the state of partition {manifest.partition} of stream "
                    f"{manifest.stream!r}, not of {self.spec.name!r}: give the stream another name"
                )
            if manifest.features and manifest.features != self.features:
                was = ", ".join(f"{name} ({kind})" for name, kind in manifest.features)
                raise StateError(
                    f"the state of partition {partition} was made with the features {was}: restore these in the stream "
                    "file, or give the stream a new name to start afresh"
                )
            cut = await self.in_thread(checkpoint.decode, manifest, items)
            await self.in_thread(learner.restore, cut)
            sequence, outputs_offset = manifest.sequence, manifest.outputs_offset
        values, end = await read_tail(self.broker, self.spec.topics.predictions, partition, outputs_offset)
        sent = map(msgspec.json.Decoder(Tail).decode, values)
        tail = [entry for entry in sent if entry.offset >= learner.feature_offset]
        script = Script(
            np.array([entry.offset for entry in tail], dtype=np.int64),
            np.array([entry.label_offset for entry in tail], dtype=np.int64),
        )
        log.info(
            "partition %d: manifest %d at offsets %d and %d, %d predictions sent since",
            partition,
            sequence,
            learner.feature_offset,
            learner.label_offset,
            len(tail),
        )
        return Runner(self, learner, sequence, written, script, (outputs_offset, end))

    async def revoke(self) -> None:
        """Stop all runners: each writes its last checkpoint and is dropped."""
        runners, self.runners = self.runners, {}
        await asyncio.gather(*(runner.stop() for runner in runners.values()))
        for partition in runners:
            self.observer.dropped(partition)

    async def stop(self) -> None:
        await self.revoke()
        await self.outputs.stop()
        if self._asker is not None:
            await self._asker.stop()
        self._pool.shutdown(wait=True)
