"""The turns of a partition's task, its life, and what of them runs on the event loop."""

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from enum import Enum, auto
from math import inf
from time import perf_counter
from typing import Any, TypeVar

from riparian.app.partition.learning import Learning
from riparian.app.partition.shared.replica import Replica
from riparian.app.worker.context import WorkerContext
from riparian.models.kernels.threads import busy_time

T = TypeVar("T")

# That work may hold up the event loop. The way to another thread and back takes longer, since both hold the
# interpreter's lock in turn: with 2 ms here all steps of a pool went that way, and answers took twice as long.
BRIEF_SECONDS = 0.01
FEW = 512  # records, at most, that are worked on there
PATIENT = 8  # calls in threads whose end brief work waits for, before it goes to one


class Life(Enum):
    """Of a task::

    CREATED ── start ──> RUNNING ── stop ──> CLOSED    with a last checkpoint, if the broker lets it
                            │  └── STOPPED ──┘         what was fetched shows that it cannot go on
                            └───── LOST                an error: the last manifest stands
    """

    CREATED = auto()  # restored; its topics are being sought
    RUNNING = auto()
    STOPPED = auto()
    LOST = auto()
    CLOSED = auto()


class _InStep:
    """Awaited in a turn: partitions that take turns in a round come here before any of them goes on.

    A stage of a step that many partitions take one after the other finds its code in the processor's caches, and a step
    takes two thirds of the time. Where it is not run `eagerly`, nothing waits.
    """

    def __init__(self) -> None:
        self.driven = False

    def __await__(self) -> Generator[Any, None, None]:
        if self.driven:
            yield self


IN_STEP = _InStep()

Turn = Callable[[Any], Awaitable[bool]]  # of a task; whether there is more


class Turns:
    """Takes turns, one at a time, whenever there is something to do.

    Attributes
    ----------
    life : Life
    awake : bool
        Whether there is something to do.
    due : float
        When to look although nothing came (monotonic).
    """

    def __init__(self, worker: WorkerContext) -> None:
        self.host = worker
        self.life = Life.CREATED
        self.awake, self.due = False, 0.0
        self._turns: asyncio.Task[None] | None = None
        self._written = asyncio.Event()  # a checkpoint, or none will be
        self._end: Exception | None = None  # what was fetched shows that we cannot go on; what was learned is sound

    @property
    def running(self) -> bool:
        """Whether it has begun, and nothing has ended it."""
        return self.life is Life.RUNNING

    @property
    def busy(self) -> bool:
        """Whether a turn is being taken."""
        return self._turns is not None and not self._turns.done()

    def wake(self) -> None:
        """There is something to do: a turn is taken in a round that begins soon."""
        self.awake = True
        if not self.busy:
            self.host.fetches.ask()

    def cannot(self, error: Exception) -> None:
        """It cannot go on; what was learned is sound."""
        self._end = error
        self.wake()

    @staticmethod
    def begin(tasks: "Sequence[Turns]", turn: Turn) -> None:
        """Have tasks take turns until there is nothing to do, or until one of them has to wait: then that goes on by
        itself."""
        raised: BaseException | None = None
        for task, left in zip(tasks, eagerly(*(task._take(turn) for task in tasks)), strict=True):
            if isinstance(left, BaseException):
                raised = left
            else:
                task._turns = left
        if raised is not None:
            raise raised

    async def _take(self, turn: Turn) -> None:
        try:
            while self.life is Life.RUNNING:
                if self._end is not None:
                    raise self._end
                self.awake = False
                more = await turn(self)
                self.due = self._next_due()
                if not (more or self.awake):
                    return self.host.fetches.ask_at(self.due)
                await asyncio.sleep(0)  # others have their turns
        except asyncio.CancelledError as error:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            await self._fail(error)  # the client has cancelled what we waited for
        except Exception as error:
            await self._fail(error)

    async def _fail(self, error: BaseException) -> None:
        self.life = Life.STOPPED if error is self._end else Life.LOST
        self._written.set()
        await self.host.ended(self, error)

    def _next_due(self) -> float:
        """When there is something to do although nothing comes."""
        raise NotImplementedError


class Brief:
    """How many records one kind of work may have on the event loop.

    Attributes
    ----------
    most : int
        Records whose work is brief, as far as it is known.
    """

    def __init__(self) -> None:
        self.most = 0
        self._long = inf  # records whose work has not been brief by the time that passed

    def clock(self, n: int) -> Callable[[], float]:
        """By which work on n records is timed, s. Time that passes is never less than `busy_time`, and costs a
        twentieth to look at; it also counts what others did meanwhile. So only work of as many records as were not
        brief by it is timed by `busy_time`, until it is brief by that."""
        return busy_time if n >= self._long else perf_counter

    def judge(self, n: int, seconds: float) -> None:
        """Work on n records took so long by their clock."""
        if seconds < BRIEF_SECONDS / 2:
            self.most = max(self.most, min(2 * n, FEW))
            self._long = inf if n >= self._long else self._long
        elif n < self._long:
            self._long = n
        elif seconds > BRIEF_SECONDS:
            self.most = min(self.most, n // 2)

    async def has(self, n: int, on: Learning | Replica, worker: WorkerContext) -> bool:
        """Whether work on n records is for the event loop, which holds `on` then. Brief work waits while a thread has
        it: threads that wait for each other, and for the interpreter, take longer than all that they do. Not for ever,
        where one after the other has it."""
        for _ in range(PATIENT):
            if n > self.most or on.may_wait:
                return False
            if on.hold():
                return True
            if not await worker.one_ended():
                return False
        return False

    async def run(self, n: int, work: Callable[[], T], on: Learning | Replica, worker: WorkerContext) -> T:
        """Do work on n records: in another thread where that may take long."""
        if await self.has(n, on, worker):
            try:
                found, seconds = _timed(work, self.clock(n))
            finally:
                on.let_go()
        else:
            found, seconds = await worker.in_thread(_timed, work, self.clock(n))
        self.judge(n, seconds)
        return found


def _timed(work: Callable[[], T], clock: Callable[[], float]) -> tuple[T, float]:
    """What work gives, and how long it took, s."""
    began = clock()
    return work(), clock() - began


def eagerly(*coroutines: Coroutine[Any, Any, None]) -> list[asyncio.Task[None] | BaseException | None]:
    """Run coroutines now, all of them to the next `IN_STEP` before any goes on from there. Returns what is left of
    each, from where it waits first, in a task; None where nothing is; or what it raised.

    Until then `asyncio.current_task` is that of the caller; so a timeout that begins before the first wait would cancel
    the caller.
    """
    left: list[asyncio.Task[None] | BaseException | None] = [None] * len(coroutines)
    going = list(enumerate(coroutines))
    IN_STEP.driven = True
    try:
        while going:
            stage, going = going, []
            for i, coroutine in stage:
                try:
                    waits_for = coroutine.send(None)
                except StopIteration:
                    continue
                except BaseException as error:
                    left[i] = error
                    continue
                if waits_for is IN_STEP:
                    going.append((i, coroutine))
                else:
                    left[i] = _left(coroutine, waits_for)
    finally:
        IN_STEP.driven = False
    return left


def _left(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> asyncio.Task[None]:
    """What is left of a coroutine, from where it waits."""
    if asyncio.isfuture(waits_for):
        waits_for._asyncio_future_blocking = False  # the mark of `await`, which the task sets when it begins to wait
    task = asyncio.create_task(_rest(coroutine, waits_for))
    task.add_done_callback(lambda _: coroutine.close())  # where it was cancelled before it went on
    return task


async def _rest(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _going_on(coroutine, waits_for)


@types.coroutine
def _going_on(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    if asyncio.isfuture(waits_for):
        waits_for._asyncio_future_blocking = True
    while True:
        result, error = None, None
        try:
            result = yield waits_for
        except BaseException as raised:
            error = raised
        try:
            waits_for = coroutine.send(result) if error is None else coroutine.throw(error)
        except StopIteration:
            return
