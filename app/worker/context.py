"""What the partitions of a stream have in common in a worker: clients, tables, threads, and one end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from riparian.app.errors import RiparianError
from riparian.app.kafka.access import rights
from riparian.app.kafka.bundles import Bundles
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.sending import Outputs
from riparian.app.partition.joint_work import JointWork
from riparian.app.partition.predictions.joint_encoding import Unencoded
from riparian.app.partition.records.joint_decoding import Undecoded
from riparian.app.registry.client import Registry
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.faust_client.fetches import Fetches
from riparian.app.worker.faust_client.input_logs import InputLogs
from riparian.app.worker.faust_client.topic_watch import GrownError, TopicWatch
from riparian.app.worker.naming import STREAM
from riparian.app.worker.repartition.copied import CopiedLogs
from riparian.app.worker.states import States
from riparian.models.kernels.threads import n_cores

log = logging.getLogger(__name__)


class WorkerContext:
    """What a partition's task asks of the worker that it lives in.

    Parameters
    ----------
    app : faust.App

    Attributes
    ----------
    fetches : Fetches
        The agent's channel, which begins rounds.
    inputs : InputLogs
    states : States
    registry : Registry, optional
    decoding : JointWork
        Of what partitions release in a round.
    encoding : JointWork
        Of what they predict.
    topics : TopicWatch
    bundles : Bundles
        Of what its producers send.
    appender : Outputs, optional
        By which all partitions append to the log that they share, while they are all this worker's (`JointTurns`).
    limits : mapping of str to int
        Output topic or changelog -> bytes of the largest batch that it takes.
    failure : BaseException, optional
        Why the worker ends.
    give_up : callable, optional
        Ends the worker as a signal does.
    tasks : mapping of int to PartitionTask
        Partition -> its task, of those that run here.
    held : set of PartitionTask
        Those whose predictions wait for models that others learn, too, or for these others.
    ended : callable
        Called with a task that could not go on, and why.
    """

    tasks: Mapping[int, Any] = {}
    ended: Callable[[Any, BaseException], Awaitable[None]]

    def __init__(self, app: Any, spec: Spec, connection: Connection) -> None:
        self.app, self.spec, self.connection = app, spec, connection
        self.fetches = Fetches(app)
        self.inputs = (CopiedLogs if spec.copied else InputLogs)(app, spec, connection)
        self.states = States(app, spec, connection)
        self.registry = Registry.of(spec)
        self.decoding, self.encoding = JointWork[Undecoded](), JointWork[Unencoded]()
        self.topics, self.bundles = TopicWatch(spec), Bundles()
        self.appender: Outputs | None = None
        self.held = set[Any]()
        self.limits: Mapping[str, int] = {}
        self.failure: BaseException | None = None
        self.give_up: Callable[[], None] | None = None
        self._crashing: asyncio.Task[None] | None = None
        # Begun when they are wanted. Two at least: a checkpoint is compressed while a step learns.
        n = max(2, n_cores())
        self._off = set[asyncio.Future[Any]]()  # what it is at, and what waits for it
        self._pool = ThreadPoolExecutor(n, "learner", initializer=STREAM.set, initargs=(spec.name,))

    async def in_thread(self, function: Any, *args: Any) -> Any:
        """Call `function` off the event loop. It has ended when this returns, even if that is by cancellation."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        self._off.add(future)
        future.add_done_callback(self._off.discard)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    async def one_ended(self) -> bool:
        """Wait until one of the calls has ended that are off the event loop; False where none is."""
        if not self._off:
            return False
        await asyncio.wait(self._off, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def crash(self, error: BaseException) -> None:
        """Stop the worker because of `error`. What a person can mend leaves no traceback in the log."""
        if rights.denied(error):
            error = await rights.explained(self.spec, self.connection, "worker", error)
        self.failure = self.failure or error
        if isinstance(error, RiparianError | GrownError) and self.give_up is not None:
            log.log(logging.WARNING if isinstance(error, GrownError) else logging.ERROR, "%s", error)
            self.give_up()
        else:
            await self.app.crash(error)

    def fail(self, error: BaseException) -> None:
        """Begin to stop the worker, if it does not yet."""
        if isinstance(error, GrownError) and self.app.should_stop:
            return
        if self.failure is None and self._crashing is None:
            self._crashing = asyncio.create_task(self.crash(error), name="crash")

    async def stop(self) -> None:
        await self.inputs.stop()
        self._pool.shutdown(wait=True)
