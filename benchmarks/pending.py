"""The pending store with few and with a million instances waiting: is the cost of an instance the same?

    python -m benchmarks.pending [--sizes 10000 100000 1000000] [--features 10] [--rounds 40] [--json FILE]

Each store is filled, and then gets as many labels as new instances, in batches: in order of arrival, or of random
ones of those that wait. It is cut as by a checkpoint every few batches, and the segments are compressed as a checkpoint
does it (in another thread there, so that is not part of the cost of a cut). Stores take turns, so that what else the
machine does falls on all of them; times are the thread's own, on the processor. Shown are medians, ratios to the
smallest store, and the longest batch, in which an array may have grown or been squeezed. Memory is what the process
grew by while a store was filled. At last each store is restored from its segments, and must be the same.
"""

import argparse
import gc
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import write
from riparian.app.partition.join.pending import PendingStore
from riparian.app.state.checkpoint import CHUNK_BYTES

BATCH = 4_096
BATCHES_A_CUT = 2
CUTS_A_TURN = 4
ORDERS = ("in order", "random")


def resident_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def names(numbers: np.ndarray) -> list[str]:
    return [f"order-{number:09d}" for number in numbers.tolist()]


def compressed(arrays: dict[str, np.ndarray]) -> int:
    raw = [memoryview(array.tobytes()) for array in arrays.values()]
    parts = [part[at : at + CHUNK_BYTES] for part in raw for at in range(0, len(part), CHUNK_BYTES)]
    return sum(len(zlib.compress(part, 1)) for part in parts)


class Subject:
    """A store with `waiting` instances, the order of its labels, and what was measured."""

    def __init__(self, waiting: int, order: str, n_features: int) -> None:
        self.waiting, self.order, self.n_features = waiting, order, n_features
        self.rng = np.random.default_rng(waiting)
        self.x = self.rng.normal(size=(BATCH, n_features)).round(3)
        self.numbers = np.arange(waiting)  # of those that wait; in order: the oldest stands at `oldest`
        self.n = self.oldest = 0
        self.arrays: dict[str, np.ndarray] = {}
        self.join_us: list[float] = []
        self.cut_ms: list[float] = []
        self.cut_bytes: list[int] = []
        self.stored_bytes: list[int] = []
        before = resident_mb()
        self.store = self.new()
        while self.n < waiting:
            self.join(min(BATCH, waiting - self.n), np.zeros(0, np.int64))
            self.cut()
        self.memory_mb = resident_mb() - before - sum(array.nbytes for array in self.arrays.values()) / 1e6
        self.join_us.clear()
        self.cut_ms.clear()

    def new(self) -> PendingStore:
        return PendingStore(
            self.n_features, {"champion": 2}, horizon=1e9, max_pending=2 * self.waiting + BATCH, max_labels=1000
        )

    def join(self, n: int, labelled: np.ndarray) -> None:
        """n instances, and then labels."""
        ids, label_ids = names(np.arange(self.n, self.n + n)), names(labelled)
        times, label_times, y = [self.n] * n, [self.n] * len(labelled), [1.0] * len(labelled)
        before = np.zeros(n, np.int64)
        started = time.thread_time()
        joined = self.store.join(ids, self.x[:n], times, None, label_ids, y, label_times, before)
        self.join_us.append((time.thread_time() - started) / n * 1e6)
        self.store.out["champion"][joined.predicted] = [0.25, 0.75]
        self.n += n

    def labelled(self) -> np.ndarray:
        """Numbers of those whose labels come now; the batch that comes now takes their places."""
        if self.order == "random":
            places = self.rng.permutation(self.waiting)[:BATCH]
        else:
            places = np.arange(self.oldest, self.oldest + BATCH) % self.waiting
            self.oldest = (self.oldest + BATCH) % self.waiting
        numbers = self.numbers[places]
        self.numbers[places] = np.arange(self.n, self.n + BATCH)
        return numbers

    def cut(self) -> dict[str, np.ndarray]:
        started = time.thread_time()
        cut = self.store.checkpoint()
        self.cut_ms.append((time.thread_time() - started) * 1e3)
        self.arrays = {**{name: self.arrays[name] for name in cut.kept}, **cut.arrays}
        return cut.arrays

    def turn(self) -> None:
        for _ in range(CUTS_A_TURN):
            for _ in range(BATCHES_A_CUT):
                self.join(BATCH, self.labelled())
            arrays = self.cut()
            self.cut_bytes.append(sum(array.nbytes for array in arrays.values()))
            self.stored_bytes.append(compressed(arrays))

    def finish(self) -> dict[str, Any]:
        """Restore, compare and report."""
        again = self.new()
        started = time.thread_time()
        again.restore(self.arrays)
        seconds = time.thread_time() - started
        state, other = self.store.state(), again.state()
        return {
            "waiting": self.store.n_waiting,
            "order": self.order,
            "join_us": float(np.median(self.join_us)),
            "longest_batch_ms": max(self.join_us) * BATCH / 1e3,
            "cut_ms": float(np.median(self.cut_ms)),
            "longest_cut_ms": max(self.cut_ms),
            "cut_kb": float(np.mean(self.cut_bytes)) / 1e3,
            "stored_kb": float(np.mean(self.stored_bytes)) / 1e3,
            "whole_kb": sum(array.nbytes for array in state.values()) / 1e3,
            "arrays": len(self.arrays),
            "written_of_live": sum(array.nbytes for array in self.arrays.values())
            / sum(array.nbytes for array in state.values()),
            "memory_mb": self.memory_mb,
            "restore_seconds": seconds,
            "restored": all(np.array_equal(state[name], other[name], equal_nan=True) for name in state),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    gc.freeze()
    PendingStore(1, {}, horizon=1.0, max_pending=1, max_labels=1).warm_up()
    subjects = [Subject(n, order, options.features) for order in ORDERS for n in sorted(options.sizes)]
    for _ in range(options.rounds):
        for subject in subjects:
            subject.turn()
    results = [subject.finish() for subject in subjects]
    new = BATCH * BATCHES_A_CUT
    print(f"{options.features} features; cut every {new:,} instances; medians, and in brackets ratios to the smallest")
    print(
        f"{'labels':9}{'waiting':>10}{'join µs':>15}{'longest ms':>12}{'cut ms':>14}{'longest ms':>12}{'cut KB':>14}"
        f"{'stored KB':>16}{'all KB':>10}{'arrays':>8}{'RAM MB':>8}{'restore s':>11}"
    )
    for result in results:
        first = next(other for other in results if other["order"] == result["order"])

        def figure(name: str, digits: int, result: Any = result, first: Any = first) -> str:
            return f"{result[name]:,.{digits}f} ({result[name] / first[name]:.1f})"

        print(
            f"{result['order']:9}{result['waiting']:10,}{figure('join_us', 2):>15}{result['longest_batch_ms']:12.1f}"
            f"{figure('cut_ms', 2):>14}{result['longest_cut_ms']:12.1f}{figure('cut_kb', 0):>14}"
            f"{figure('stored_kb', 0):>16}{result['whole_kb']:10,.0f}{result['arrays']:8}{result['memory_mb']:8.0f}"
            f"{result['restore_seconds']:11.2f}{'' if result['restored'] else '  NOT THE SAME'}"
        )
    write("pending", results)


if __name__ == "__main__":
    main()
