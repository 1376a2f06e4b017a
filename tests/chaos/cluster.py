"""Brokers, a proxy in front of each for each worker, and the workers: what the steps of a schedule act upon."""

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.broker.harness import Worker
from tests.chaos.brokers import Brokers, Lent
from tests.chaos.proxy import Network, Proxy
from tests.chaos.schedule import Step

EXIT_SECONDS = 90.0
SETTLE_SECONDS = 180.0
POLL_SECONDS = 0.1
LOG_LINES = 60
FENCED = "another worker has taken it over"
READY = "Worker ready"  # what a worker says of each stream once it listens to signals
AGAIN = ": the worker begins again"  # what it says where the stream has grown


class Cluster:
    """Brokers that advertise a proxy to each worker, and the workers' slots.

    Parameters
    ----------
    folder : Path
        For the broker's data and all logs.
    streams : sequence of Path
        The stream files, which each worker runs.
    n_slots : int
    say : callable
        Told what went wrong with a worker.
    entry : sequence of str
        The module that stands for `riparian`, and its first arguments.
    session : float
        Session timeout of the workers, in seconds.
    n_brokers, kafka :
        How many, and their version, as `Brokers` takes it.
    lent : str, optional
        The address of a broker to use instead, where steps are about workers alone.
    """

    def __init__(
        self,
        folder: Path,
        streams: Sequence[Path],
        n_slots: int,
        say: Callable[[str], None],
        entry: Sequence[str] = ("riparian.app.cli",),
        session: float = 6.0,
        n_brokers: int = 1,
        kafka: str | None = None,
        lent: str | None = None,
    ) -> None:
        self.folder, self.streams, self.say, self.entry, self.session = folder, streams, say, entry, session
        self.brokers = Brokers(folder, n_brokers, kafka, n_slots) if lent is None else Lent(lent, n_slots)
        self.proxies: list[list[Proxy]] = []  # of each slot
        self.workers: dict[int, Worker] = {}
        self._leaving: dict[int, tuple[Worker, float]] = {}
        self.failures: list[str] = []
        self._started = 0

    def connect(self, network: Network) -> None:
        if not isinstance(self.brokers, Lent):
            self.proxies = [[Proxy(network, *ports) for ports in slot] for slot in self.brokers.ports]

    @property
    def n_fenced(self) -> int:
        return sum(log.read_text(errors="replace").count(FENCED) for log in self.folder.glob("slot*.log"))

    # -- what the steps of a schedule are called ------------------------------------------------------------------

    def act(self, step: Step) -> None:
        """Do one step; what it needs to have ended before (a worker that is stopping, say) is waited for."""
        actions: dict[str, Callable[[], None]] = {
            "kill": lambda: self.workers.pop(step.slot).kill(),
            "stop": lambda: self._stop(step.slot),
            "start": lambda: self._start(step.slot),
            "freeze": lambda: self.workers[step.slot].process.send_signal(signal.SIGSTOP),
            "thaw": lambda: self.workers[step.slot].process.send_signal(signal.SIGCONT),
            "drop": lambda: self._on_network(step.slot, Proxy.drop),
            "refuse": lambda: self._on_network(step.slot, Proxy.refuse),
            "stall": lambda: self._on_network(step.slot, Proxy.stall),
            "heal": lambda: self._on_network(step.slot, Proxy.heal),
            "broker kill": lambda: self._on_broker(self.brokers.kill),
            "broker stop": lambda: self._on_broker(self.brokers.stop),
            "broker start": self.brokers.start,
        }
        actions[step.action]()

    def _on_network(self, slot: int, action: Callable[[Proxy], None]) -> None:
        for proxy in self.proxies[slot]:
            action(proxy)

    def _on_broker(self, action: Callable[[], None]) -> None:
        """Of several, one is away at a time."""
        self.settle()
        action()

    def settle(self) -> None:
        """Return when several brokers are all there, with all replicas in sync."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self.brokers.settled():
            self.pause(0.5)
            if time.monotonic() > deadline:
                self.fail(f"the brokers' replicas were not in sync in {SETTLE_SECONDS:.0f} s")
                break
        while self.brokers.failures:
            self.fail(self.brokers.failures.pop())

    def roll(self, ready: str, n: int) -> None:
        """Restart the workers, each once the one before is ready: has written `ready` n times."""
        for slot in sorted(self.workers):
            if slot not in self.workers:  # it ended meanwhile, and is noted
                continue
            self._stop(slot)
            self._start(slot)
            deadline = time.monotonic() + EXIT_SECONDS
            while self.workers[slot].output.count(ready) < n:
                self.pause(POLL_SECONDS)
                if time.monotonic() > deadline:
                    self.fail(f"the worker in slot {slot} was not ready in {EXIT_SECONDS:.0f} s", self.workers[slot])
                    break

    def _start(self, slot: int) -> None:
        while slot in self._leaving:
            self.watch()
            time.sleep(POLL_SECONDS)
        self._started += 1
        self.workers[slot] = Worker(
            self.streams[0],
            ",".join(f"127.0.0.1:{advertised}" for advertised, _ in self.brokers.ports[slot]),
            self.folder,
            name=f"slot{slot}-{self._started:03d}",
            entry=self.entry,
            session_timeout=self.session,
            options=[*self.streams[1:], "--wait", 300],
        )

    def _stop(self, slot: int) -> None:
        worker = self.workers.pop(slot)
        worker.process.send_signal(signal.SIGTERM)
        self._leaving[slot] = (worker, time.monotonic() + EXIT_SECONDS)

    # -- keeping an eye on them -----------------------------------------------------------------------------------

    def watch(self) -> None:
        """Note it where a worker ended that nobody ended (and start another), or does not stop, or not with 0."""
        for slot, worker in list(self.workers.items()):
            code = worker.process.poll()
            if code is not None:
                self.fail(f"the worker in slot {slot} ended by itself with {code}", worker)
                self._start(slot)
        for slot, (worker, deadline) in list(self._leaving.items()):
            code = worker.process.poll()
            if code is None and time.monotonic() > deadline:
                self.fail(f"the worker in slot {slot} did not stop in {EXIT_SECONDS:.0f} s", worker)
                worker.kill()
                del self._leaving[slot]
            if code is not None:
                del self._leaving[slot]
                # Told to stop before it listens to signals, a process dies of them.
                said = worker.output.rpartition(AGAIN)[2]
                if code != 0 and not (code == -signal.SIGTERM and READY not in said):
                    self.fail(f"the worker in slot {slot} was stopped and ended with {code}", worker)

    def fail(self, what: str, *workers: Worker) -> None:
        """Note what went wrong, with the ends of the workers' logs."""
        self.failures.append("\n".join([what, *map(_tail, workers)]))
        self.say(f"FAILED     {self.failures[-1]}")

    def pause(self, seconds: float) -> None:
        """Sleep, watching."""
        until = time.monotonic() + seconds
        while True:
            self.watch()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(POLL_SECONDS, left))

    def stop_all(self) -> None:
        """SIGTERM to all workers, and wait until they have ended."""
        for slot in list(self.workers):
            self._stop(slot)
        while self._leaving:
            self.watch()
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """End every process, however it goes."""
        for worker in [*self.workers.values(), *(worker for worker, _ in self._leaving.values())]:
            worker.__exit__()
        self.brokers.end()


def _tail(worker: Worker) -> str:
    lines = worker.output.splitlines()[-LOG_LINES:]
    return f"{worker.log}\n" + "\n".join(f"    {line[:300]}" for line in lines)
