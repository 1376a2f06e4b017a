"""The agent of a stream: one actor a worker, whose event is what a fetch brought of all partitions.

The way of a record stands here. What came is added to the buffers of its partition. When nothing more is there to be
added, a *round* begins: each partition that has something to do takes its turn, and while turns are taken, the next
round's records come. So a step takes more records as load rises, and costs less for each. Nothing in a round waits. A
turn that has to (a schema, the broker, a step in a thread) is left to itself, its partition is passed over until it is
done, and takes its next turn then. An error ends its own partition alone.
"""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import faust
from faust.types import TP
from mode.utils.queues import ThrowableQueue

from riparian.app.worker.task.partition_task import PartitionTask

if TYPE_CHECKING:
    from riparian.app.worker.engine import Engine
    from riparian.app.worker.faust_client.transport import Fetched

Fetch = Sequence[tuple[TP, "Fetched"]]  # what a fetch brought, by partition; nothing, where a partition has to do


class Fetches(faust.Channel):  # type: ignore[misc]
    """A channel with one queue, which a rebalance leaves alone: partitions that stay go on."""

    @property
    def queue(self) -> ThrowableQueue:
        root = self._root or self
        if root._queue is None:
            root._queue = ThrowableQueue(flow_control=self.app.flow_control)  # which is not asked to clear it
        return root._queue

    def bring(self, fetch: Fetch = ()) -> None:
        """Hand over what a fetch brought; nothing, to begin a round."""
        self.queue.put_nowait(fetch)


def install(app: Any, tasks: "Engine") -> Fetches:
    """The one agent of a stream; returns its channel."""
    fetches = Fetches(app)

    @app.agent(fetches, name="learn")  # type: ignore[untyped-decorator]
    async def learn(events: AsyncIterator[Fetch]) -> None:
        """Predict what features came, learn what labels came, of all partitions of the worker."""
        async for fetch in events:
            for tp, fetched in fetch:
                tasks.add(tp, fetched)
            if fetches.queue.empty():
                tasks.round(turn)

    return fetches


async def turn(task: PartitionTask) -> bool:
    """Do what one partition can do now; whether there is more."""
    if not await task.follows():  # models that all partitions share have to come to its place first
        return False
    # Metrics, events, the training log and checkpoints, as they are due: what the turn before has sent is mostly with
    # the broker by now, so that none of them waits for it.
    await task.punctuate()
    release = task.release()  # merged, and its schemas known
    if release.n:
        step = await task.step(release)  # decoded, joined, predicted and learned: in memory
        await task.send_predictions(step)
        await task.send_dead_letters(step)
        await task.append_joined(step)
        await task.report(step)
    elif task.waits_for_schema:
        await task.schemas()
    return task.has_more(release)
