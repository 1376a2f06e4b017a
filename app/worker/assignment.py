"""The assignment of a worker: which partitions it has, from their begin to their end.

On assignment a partition that is new here is fenced first: from then on no earlier owner can write anything for it.
Then its state and the ends of its outputs are read, so nothing can come between: the learner is restored from the last
manifest, and both topics are sought to the manifest's offsets.

In a rebalance nobody knows yet what moves. So every task writes a checkpoint and goes on, until the assignment comes:
then those whose partitions stay have not stood still, and the others are dropped. That is sound because a task's
right to write never rested on the group, but on the broker, which refuses what it sends once another owner has fenced
the partition. A task that is refused is dropped, and what it had in memory with it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from itertools import starmap
from typing import TYPE_CHECKING, Any

from aiokafka.errors import IllegalStateError, KafkaError, ProducerFenced
from aiokafka.structs import TopicPartition
from faust.types import TP

from riparian.app.errors import RiparianError, TopicError
from riparian.app.kafka.access import rights
from riparian.app.kafka.admin import largest_batches
from riparian.app.kafka.sending import Outputs, close, fenced_producer
from riparian.app.partition.records.inputs import Lost
from riparian.app.partition.shared.replica import Replica
from riparian.app.state.loading import Loaded
from riparian.app.worker.agent import Tasks
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.faust_client.topic_watch import GrownError
from riparian.app.worker.repartition.copying import Copier
from riparian.app.worker.shared.replica import AloneError, ReplicaOfWorker
from riparian.app.worker.task.continuity import check_inputs, check_topics
from riparian.app.worker.task.join_watchdog import JoinWatchdog
from riparian.app.worker.task.partition_task import Observer, PartitionTask
from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs, read_tails
from riparian.topics.names import FEATURES

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Producer

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.2  # between attempts at an assignment while the broker is away
LONGEST_PAUSE_SECONDS = 3.0
RELOAD_SECONDS = 1.0  # after a partition was fenced: either a rebalance is on its way, or it is ours still
MISSING_SECONDS = 5.0  # a topic that is missing for longer was deleted; a broker that starts may not know all at once


def _nothing() -> None: ...


class SupersededError(Exception):
    """Another rebalance has begun; what was asked for is not wanted any more."""


class Assignment:
    """Begins and ends the tasks of the partitions that a worker is assigned.

    Attributes
    ----------
    copier : Copier, optional
        Of the same worker, of whose copying is told beside its partitions.
    """

    def __init__(self, worker: WorkerContext, observer: Observer) -> None:
        self.worker, self.observer = worker, observer
        self.spec, self.connection = spec, connection = worker.spec, worker.connection
        self.states, self.inputs = worker.states, worker.inputs
        worker.ended = self.ended
        # Topics that are written, and in which partition where that is not each task's own.
        self._homes = dict.fromkeys(spec.of_all, 0)
        self.runners = worker.tasks = Tasks(worker)
        self.settled: Callable[[], None] = _nothing  # told once, before the first records come
        self._settled = False
        self.silence = JoinWatchdog(spec, connection)
        self.copier: Copier | None = None
        self.n_fenced = self.n_loaded = 0
        self._generation = 0  # of the assignment: what was begun under an older one is dropped
        self._tasks: set[asyncio.Task[None]] = set()
        self._loaded = False  # whether all that is assigned has been
        self._between = False  # two assignments: nobody knows what is ours
        self._dropping = asyncio.Lock()
        self.replicas = list[ReplicaOfWorker]()

    @property
    def recovering(self) -> bool:
        """Whether the worker waits for its partitions, or for their state: it has just started, the group rebalances,
        a partition is loaded once more."""
        return not self._loaded or bool(self._tasks)

    @property
    def consumer(self) -> Any:
        return self.worker.app.consumer

    async def look(self) -> None:
        """Every now and then: whether what the stream lives on is as it was."""
        await self.silence.look(list(self.states.values()))
        self._rejoin_unless_whole()
        if self.inputs.asker.running is None:
            return
        try:
            await self.worker.topics.look(self.inputs.asker.running)
        except (TopicError, GrownError) as error:
            self.worker.fail(error)

    def _rejoin_unless_whole(self) -> None:
        """Join the group again where it has not given out all partitions: to a static member that has begun again with
        more of them Kafka gives what it had before."""
        given = self.worker.app.assignor.changelog_distribution.values()
        known = {partition for topics in given for partition in topics.get(self.states.topic, ())}
        if self._loaded and not self._between and known and not known >= set(range(self.spec.partitions)):
            log.warning("the group has not given out all of %d partitions: joining it again", self.spec.partitions)
            self.inputs.thread._consumer._coordinator.request_rejoin()

    async def assign(self, tps: set[TP]) -> set[TP]:
        """Load the learners of the assigned partitions that do not run here, and seek their topics; what was sought.

        Those that run go on, and need no seek. Waits for an absent broker. Empty where another rebalance began
        meanwhile.
        """
        self._generation += 1
        self._loaded = self._between = False
        generation, partitions = self._generation, {tp.partition for tp in tps}
        stay = {p for p, runner in self.runners.items() if p in partitions and self._goes_on(runner)}
        # Also waits for those that another task is stopping.
        await self._drop([runner for p, runner in self.runners.items() if p not in stay])
        self.states.stand_by(partitions)
        if stay:
            log.info("partitions %s stay, and go on", sorted(stay))
        try:
            offsets = await self._insist(sorted(partitions - stay), generation)
            self._loaded = True
            if self.runners.together is not None and generation == self._generation:
                self.runners.together.paused = False
            if offsets and not self._settled:
                self._settled = True
                self.settled()
            return set(offsets)
        except SupersededError:
            return set()
        except RiparianError as error:
            await self.worker.crash(error)
            return set()
        except Exception as error:
            await self.worker.crash(error)
            raise

    def _goes_on(self, runner: PartitionTask) -> bool:
        """Whether a task runs, and its partition was assigned to us again and again since it was loaded."""
        epochs = self.inputs.thread.epochs
        return runner.running and all(epochs.get(tp) == runner.epochs.get(tp) for tp in runner.tps.values())

    async def _insist(self, partitions: list[int], generation: int) -> dict[TP, int]:
        """`_load` until it is done, however long the broker is away, unless another assignment comes."""
        pause = FIRST_PAUSE_SECONDS
        missing = 0.0  # seconds of pauses since a topic is; a process that was frozen may go by old news at first
        while True:
            try:
                return await self._load(partitions, generation)
            except (KafkaError, OSError, TopicError) as error:
                if rights.denied(error):
                    raise await rights.explained(self.spec, self.connection, "worker", error) from error
                # A fenced one too: whoever fenced us is an owner of before, or a rebalance is on its way.
                log.warning("partitions %s are not loaded yet (%r): trying again", partitions, error)
                if isinstance(error, TopicError) and missing > MISSING_SECONDS:
                    raise
                missing = missing + pause if isinstance(error, TopicError) else 0.0
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                    raise
                log.warning("partitions %s are not loaded yet (a request was cancelled): trying again", partitions)
            except Exception:
                self._check(generation)  # whatever it is, nobody wants it any more: the worker stops, say
                raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            self._check(generation)

    def _check(self, generation: int) -> None:
        if generation != self._generation:
            raise SupersededError

    async def _load(self, partitions: list[int], generation: int) -> dict[TP, int]:
        there = await self.worker.topics.there(await self.inputs.asker.connected())
        check_topics(self.spec, there, self.consumer.assignment(), partitions)
        if not partitions:
            return {}
        written = (self.states.topic, *self.spec.outputs.values(), *self._homes)
        self.worker.limits = await largest_batches(self.connection, written)
        producers: list[Producer] = []
        try:
            for made in await asyncio.gather(*map(self._fence, partitions), return_exceptions=True):
                if isinstance(made, BaseException):
                    raise made
                producers.append(made)
            if self.runners.together is not None:
                await self.runners.together.fence()
            self._check(generation)
            await self.states.catch_up(partitions)
            loaded, replicas = await self.worker.in_thread(self.states.restore, partitions)
            behind = self._readers(replicas.values())
            tails = await read_tails(self.spec, self.connection, loaded)
            lost = await check_inputs(self.spec, self.connection, loaded, tails)
            self._check(generation)
            each = zip(loaded, tails, lost, producers, strict=True)
            begun = [(*one, behind.get(replicas[one[0].learner.partition])) for one in each]
            # Each takes figures of its models: heartbeats go on meanwhile.
            runners = await self.worker.in_thread(lambda: list(starmap(self._runner, begun)))
            self._check(generation)
        except BaseException:
            await asyncio.gather(*map(close, producers))
            raise
        # Before the seek: what is fetched right after it may come before its answer does, and must find its task.
        for runner in runners:
            self.runners[runner.partition], self.states[runner.partition] = runner, runner.learner
        for replica in behind.values():
            replica.start()
        offsets = {tp: runner.buffers[role].fetch_offset for runner in runners for role, tp in runner.tps.items()}
        try:
            epochs = await self.inputs.thread.seek_sources(offsets)
        except (AssertionError, IllegalStateError) as error:  # not assigned any more, and nobody told us yet
            await self._drop(runners)
            self._check(generation)
            raise KafkaError(f"no seek: {error!r}") from error
        if generation != self._generation:
            await self._drop(runners)
            raise SupersededError
        for runner in runners:
            runner.start(epochs)
        # Who left amid a rebalance could not.
        self.inputs.commit({tp: offset for tp, offset in offsets.items() if offset})
        self.n_loaded += len(runners)
        return offsets

    async def _fence(self, partition: int) -> "Producer":
        tps = [TopicPartition(topic, self._homes.get(topic, partition)) for topic in self.worker.limits]
        producer = await fenced_producer(self.connection, self.spec.name, tps, self.worker.limits.values())
        await self.worker.bundles.join(producer)
        return producer

    def _readers(self, replicas: Iterable[Replica]) -> dict[Replica, ReplicaOfWorker]:
        """Of the log of all partitions, one for each replica; none where there is no such log."""
        given = self.replicas, self.runners.learned_more
        found = dict.fromkeys(replicas)
        return {one: ReplicaOfWorker(self.worker, one, *given) for _ in self.spec.of_all for one in found}

    def _runner(
        self,
        loaded: Loaded,
        tail: UncommittedOutputs,
        lost: dict[str, Lost],
        producer: "Producer",
        replica: ReplicaOfWorker | None,
    ) -> PartitionTask:
        learner, encoder, manifest, notes = loaded
        partition = learner.partition
        for note in notes:
            log.warning("partition %d: %s", partition, note)
        log.info(
            "partition %d: checkpoint %d at offsets %s, %d predictions sent since",
            partition,
            0 if manifest is None else manifest.sequence,
            " and ".join(map(str, learner.offsets.values())),
            len(tail.script.offsets),
        )
        self.silence.begin(learner)
        ends = {**dict.fromkeys((self.states.topic, *self._homes), 0), **tail.ends}
        outputs = Outputs(producer, partition, ends, self.spec.compression, self._homes)
        state = self.states.logs[partition]
        return PartitionTask(self.worker, self.observer, learner, state, encoder, outputs, tail, lost, replica)

    async def ended(self, runner: PartitionTask, error: BaseException) -> None:
        """A task could not go on: begin again where its state stands, or end the worker."""
        if isinstance(error, ProducerFenced):  # if the partition is ours nevertheless, begin again
            self.n_fenced += not self._between
            self._restart(runner, "another worker has taken it over")
        elif isinstance(error, asyncio.CancelledError):
            self._restart(runner, "a request was cancelled")
        elif isinstance(error, AloneError):
            self._restart(runner, f"{error}: it is loaded again, with a replica of its own")
        elif isinstance(error, KafkaError) and not rights.denied(error):
            self._restart(runner, repr(error))
        else:
            if not isinstance(error, RiparianError | KafkaError):
                log.error("partition %d stops: %s", runner.partition, error, exc_info=error)
            await self.worker.crash(error)

    def _restart(self, runner: PartitionTask, why: str) -> None:
        """Load a partition once more, if it is ours still."""
        log.log(logging.INFO if self._between else logging.WARNING, "partition %d: %s", runner.partition, why)
        if self.runners.get(runner.partition) is runner:
            task = asyncio.create_task(self._reload(runner, self._generation), name=f"reload-{runner.partition}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _reload(self, runner: PartitionTask, generation: int) -> None:
        try:
            await self._drop([runner])
            await asyncio.sleep(RELOAD_SECONDS)
            self._check(generation)
            # Between two assignments the client still names the one before: whoever has the partition now would be
            # fenced. The next assignment loads it, if it is ours.
            if not self._between and runner.tps[FEATURES] in self.consumer.assignment():
                await self._insist([runner.partition], generation)
        except SupersededError:
            return
        except Exception as error:
            await self.worker.crash(error)

    async def _drop(self, runners: Collection[PartitionTask]) -> None:
        """Stop tasks: each writes its last checkpoint, if it may. Waits for those that another task is stopping."""
        async with self._dropping:
            ours = [runner for runner in runners if self.runners.get(runner.partition) is runner]
            for runner in ours:
                del self.runners[runner.partition]
                self.states.pop(runner.partition, None)
            await asyncio.gather(*(runner.stop() for runner in ours))
            for runner in ours:
                self.inputs.backpressure.end(runner.tps.values())
                self.observer.dropped(runner.partition)

    async def revoke(self) -> None:
        """A rebalance begins, and what an assignment has begun is superseded. Runners go on; each has written a
        checkpoint when this returns, if the broker lets it."""
        self._generation += 1
        self._loaded, self._between = False, True
        if self.runners.together is not None:
            self.runners.together.pause()
        await asyncio.gather(*(runner.secure() for runner in self.runners.values()))
        if self.runners.together is not None:
            await self.runners.together.settle()

    async def stop(self) -> None:
        self._generation += 1
        self._loaded, self._between = False, True
        await self._drop(list(self.runners.values()))
        if self.runners.together is not None:
            await self.runners.together.stop()
        await asyncio.gather(*(replica.stop() for replica in self.replicas))
        await self.worker.stop()
