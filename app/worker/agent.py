"""The agent of a stream: one actor a worker, whose event is what a fetch brought of all partitions.

The way of a record stands here. What came is added to the buffers of its partition. When nothing more is there to be
added, a *round* begins: each partition that has something to do takes its turn, and while turns are taken, the next
round's records come. So a step takes more records as load rises, and costs less for each. Nothing in a round waits. A
turn that has to (a schema, the broker, a step in a thread) is left to itself, its partition is passed over until it is
done, and takes its next turn then. An error ends its own partition alone. Those that need not wait take each stage of
a turn one after the other, before any of them takes the next one (`eagerly`).
"""

import math
import time
from collections.abc import AsyncIterator

from faust.types import TP

from riparian.app.worker.context import WorkerContext
from riparian.app.worker.faust_client.fetches import Fetch, Fetched
from riparian.app.worker.shared.joint_turns import JointTurns
from riparian.app.worker.task.partition_task import PartitionTask
from riparian.app.worker.task.turns import IN_STEP, Turn, Turns


def install(worker: WorkerContext, tasks: "Tasks") -> None:
    """The one agent of a stream."""
    fetches = worker.fetches

    @worker.app.agent(fetches, name="learn")  # type: ignore[untyped-decorator]
    async def learn(events: AsyncIterator[Fetch]) -> None:
        """Predict what features came, learn what labels came, of all partitions of the worker."""
        async for fetch in events:
            for tp, fetched in fetch:
                tasks.add(tp, fetched)
            if fetches.queue.empty():
                tasks.round(turn)


async def turn(task: PartitionTask) -> bool:
    """Do what one partition can do now; whether there is more."""
    if not await task.follows():  # models that all partitions share have to come to its place first
        return False
    # Metrics, events, the training log and checkpoints, as they are due: what the turn before has sent is mostly with
    # the broker by now, so that none of them waits for it.
    await task.punctuate()
    release = task.release()  # merged, and its schemas known
    n = release.n
    if n:
        step = await task.step(release)  # decoded, joined, predicted and learned: in memory
        await IN_STEP
        await task.sends(step)
    elif task.waits_for_schema:
        await task.schemas()
    return task.has_more(n)


class Tasks(dict[int, PartitionTask]):
    """Partition -> its task, of those that run in a worker."""

    def __init__(self, worker: WorkerContext) -> None:
        super().__init__()
        self._worker = worker
        self.together = JointTurns(worker) if worker.spec.of_all else None

    def add(self, tp: TP, fetched: Fetched) -> None:
        """Hand a fetched batch to its partition's task, which an error ends."""
        task = self.get(tp.partition)
        if task is None:
            return
        try:
            task.add(tp, fetched)
        except Exception as error:
            task.cannot(error)

    def round(self, turn: Turn) -> None:
        """Have each partition that has something to do take its turn."""
        now, due = time.monotonic(), math.inf
        self._worker.fetches.begins()
        if self.together is not None:
            self.together.begin(list(self.values()))
        ready = list[PartitionTask]()
        for task in self.values():
            if not (task.awake or task.due <= now):
                due = min(due, task.due)
            elif task.running and not task.busy:
                ready.append(task)
        ready.sort(key=lambda task: task.next_time)
        Turns.begin(ready, turn)
        if due < math.inf:
            self._worker.fetches.ask_at(due)

    def learned_more(self) -> None:
        """A replica of the worker has."""
        for task in self.values():
            task.learned_more()
