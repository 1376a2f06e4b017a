"""The agent of a stream: one actor a worker, whose event is what a fetch brought of all partitions.

The way of a record stands here. What came is added to the buffers of its partition. When nothing more is there to be
added, a *round* begins: each partition that has something to do takes its turn, and while turns are taken, the next
round's records come. So a step takes more records as load rises, and costs less for each. Nothing in a round waits. A
turn that has to (a schema, the broker, a step in a thread) is left to itself, its partition is passed over until it is
done, and takes its next turn then. An error ends its own partition alone.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from riparian.app.worker.faust_client.fetches import Fetch, Fetches
from riparian.app.worker.task.partition_task import PartitionTask

if TYPE_CHECKING:
    from riparian.app.worker.engine import Engine


def install(app: Any, fetches: Fetches, tasks: "Engine") -> None:
    """The one agent of a stream. fetches : its channel."""

    @app.agent(fetches, name="learn")  # type: ignore[untyped-decorator]
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
    if release.n:
        step = await task.step(release)  # decoded, joined, predicted and learned: in memory
        await task.send_predictions(step)
        await task.send_dead_letters(step)
        await task.append_joined(step)
        await task.report(step)
    elif task.waits_for_schema:
        await task.schemas()
    return task.has_more(release)
