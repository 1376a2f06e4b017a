"""Processes that fit models, so that the stream does not wait.

The first job starts one; another is started when all are busy, up to half of the cores. They outlive a job and end with
the process that started them, however that ends: they read jobs from a pipe, and its end is theirs. One that is killed,
or ends for want of memory, is replaced and its job done again: what a fit comes to never depends on the machine's luck.

A process is `python -m riparian.models.batch.process`: nothing of the parent is copied, neither threads nor the
pages of a stream's state.
"""

import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from riparian.models.batch.fit import Job, fit
from riparian.models.batch.forest import FittedForest
from riparian.models.kernels.threads import n_cores

log = logging.getLogger(__name__)

TRIES = 3  # tries at one job, where its process is killed
ROOT = Path(__file__).absolute().parents[3]  # what holds `riparian`


class FitError(Exception):
    """The library could not fit the window: its message. The same window would fail again."""


class Processes:
    """A queue of jobs and the processes that work it off. Each is served by a thread, which waits for the pipe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._jobs: queue.SimpleQueue[tuple[int, Job, Future[FittedForest]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._open = self._closed = 0
        self._children: list[subprocess.Popen[bytes]] = []

    def submit(self, job: Job) -> "Future[FittedForest]":
        """The model, some time. Its `result()` raises FitError where there is none."""
        future: Future[FittedForest] = Future()
        with self._lock:
            self._open += 1
            if self._open > self._threads and self._threads < self.most:
                self._threads += 1
                threading.Thread(target=self._serve, daemon=True, name=f"fits-{self._threads}").start()
            self._jobs.put((self._closed, job, future))
        return future

    def close(self) -> None:
        """End the processes, and give up the jobs that are not done; the next job starts one anew."""
        with self._lock:
            self._closed += 1
            for child in self._children:
                child.kill()
                child.wait()
            self._children.clear()

    def _serve(self) -> None:
        child: subprocess.Popen[bytes] | None = None
        while True:
            closed, job, future = self._jobs.get()
            error: Exception = RuntimeError(
                f"the process that fits {job.method} ended {TRIES} times before it was done, perhaps for want of "
                "memory: use a smaller window, or fewer trees"
            )
            if future.set_running_or_notify_cancel():
                for attempt in range(1, TRIES + 1):
                    try:
                        if child is None or child.poll() is not None:
                            child = None
                            child = self._new(closed)
                        found = _ask(child, job)
                    except (OSError, EOFError, pickle.UnpicklingError) as failure:
                        if child is not None:
                            child.kill()
                        end = f"it did not start: {failure}" if child is None else _end(child.wait())
                        if closed != self._closed:
                            error = RuntimeError("the processes that fit were closed")
                            break
                        log.warning(
                            "the process that fits %s ended (%s) before it was done, attempt %d of %d: perhaps for "
                            "want of memory", job.method, end, attempt, TRIES,
                        )  # fmt: skip
                        continue
                    if isinstance(found, FittedForest):
                        future.set_result(found)
                        break
                    error = FitError(found)
                    break
                if not future.done():
                    future.set_exception(error)
            with self._lock:
                self._open -= 1
            del job, future  # the next may be long in coming

    def _new(self, closed: int) -> "subprocess.Popen[bytes]":
        """A process that `close` ends; EOFError where it was called since the job came."""
        if closed == self._closed:
            child = _start()  # it may take long: not under the lock, for which `submit` waits
            with self._lock:
                if closed == self._closed:
                    self._children = [one for one in self._children if one.poll() is None] + [child]
                    return child
            child.kill()
            child.wait()
        raise EOFError


def _start() -> "subprocess.Popen[bytes]":
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "riparian.models.batch.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **threads, "PYTHONPATH": path},
    )


def _end(code: int) -> str:
    """How a process ended, in words."""
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


def _ask(child: "subprocess.Popen[bytes]", job: Job) -> Any:
    assert child.stdin is not None
    assert child.stdout is not None
    pickle.dump(job, child.stdin, protocol=5)
    child.stdin.flush()
    return pickle.load(child.stdout)


PROCESSES = Processes(max(1, n_cores() // 2))


def serve(jobs: IO[bytes], answers: IO[bytes]) -> None:
    """In a process: do jobs in order. Ends with the pipe of jobs, even in the middle of a fit: nobody wants it."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                waiting.put(pickle.load(jobs))
        except (EOFError, OSError, pickle.UnpicklingError):
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            found: FittedForest | str = fit(waiting.get())
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            if not _of_the_job(error):
                print(f"{__name__}: {found}", file=sys.stderr)
                os._exit(1)
        try:
            pickle.dump(found, answers, protocol=5)
            answers.flush()
        except OSError:  # the parent has just ended
            os._exit(0)


def _of_the_job(error: Exception) -> bool:
    """Whether the same job would fail again anywhere, as far as one can see."""
    return not (isinstance(error, MemoryError | OSError | ImportError) or "bad_alloc" in str(error))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which may still want an answer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not an answer
    serve(sys.stdin.buffer, answers)
