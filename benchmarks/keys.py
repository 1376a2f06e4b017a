"""What an aggregate over a key's past costs: CPU time of the kernel, by how many keys there are and what each has.

    python -m benchmarks.keys [--keys 1000,1000000] [--steps 150]

Keys come in random order, STEP records at once; each record's aggregates are read, and changed by it. `mean` is of
a key's aggregates; the first of them is a count. The floor is what reading and writing as many random lines of memory
takes, all at once: a slot, an entry, a place in the queue and a row of sums. Medians, and the best.
"""

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import printed
from riparian.app.partition.keys.fold import OBSERVE, Events
from riparian.app.partition.keys.plan import plan
from riparian.app.partition.keys.rows import KeyRows
from riparian.app.stream_file.spec import build
from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel

STEP = 4096
AGGREGATES = (1, 5)
BEGIN = 1_500_000_000_000


def rows_of(n_keys: int, n_aggregates: int) -> KeyRows:
    means = {
        f"mean_{days}": {"mean": "amount", "by": "card", "half_life": f"{days}d"} for days in range(1, n_aggregates)
    }
    features = {"amount": "numeric", "count": {"count": "card", "half_life": "7d"}, **means}
    fields = {"name": "keys", "task": "regression", "keys": {"card": {"max": n_keys}}, "features": features}
    return KeyRows(plan(build(fields, "the benchmark"), "card"))


def measured(n_keys: int, n_aggregates: int, n_steps: int) -> Floats:
    """CPU ns of a record, by step, once all keys are known."""
    rows, draws, at = rows_of(n_keys, n_aggregates), np.random.default_rng(1), BEGIN
    hashes = draws.integers(1, 2**63, (n_keys, 2), np.uint64)
    x, found = draws.normal(size=(STEP, n_aggregates + 1)), np.zeros((2, STEP, n_aggregates))

    def step(keys: NDArray[np.uint64]) -> float:
        nonlocal at
        n, at = len(keys), at + STEP
        moments = at + np.arange(n)
        events = Events(np.full(n, OBSERVE, np.int8), np.arange(n), moments, moments, np.zeros(n))
        start = time.thread_time()
        rows.fold(events, keys, x, found[0], found[1])
        return 1e9 * (time.thread_time() - start) / n

    for first in range(0, n_keys, STEP):
        step(hashes[first : first + STEP])
    return np.array([step(hashes[draws.integers(0, n_keys, STEP)]) for _ in range(n_steps)])


@kernel
def _lines(slots, entries, queue, sums, at):
    """Read and write random lines, none of which waits for another. Returns nonsense."""
    seen = 0
    for i in at:
        seen += slots[2 * i]
        entries[i, 0] += 1
        queue[3 * i] = -1
        sums[i, 0] += 1.0
    return seen


def floor(n_keys: int, n_steps: int) -> Floats:
    """CPU ns of four lines of memory, by step."""
    slots, entries = np.ones(2 * n_keys, np.int64), np.ones((n_keys, 8), np.int64)
    queue, sums = np.ones(3 * n_keys, np.int32), np.ones((n_keys, 4))
    draws, found = np.random.default_rng(1), list[float]()
    for _ in range(n_steps + 1):
        at = draws.integers(0, n_keys, STEP)
        start = time.thread_time()
        _lines(slots, entries, queue, sums, at)
        found.append(1e9 * (time.thread_time() - start) / STEP)
    return np.array(found[1:])  # without the one that compiled


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--keys", default="1000,1000000", metavar="N,…")
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    with printed("keys"):
        print("| keys | aggregates of a key | ns a record: median, best | ns an aggregate: median, best |")
        print("|---|---|---|---|")
        for n_keys in map(int, options.keys.split(",")):
            for n in AGGREGATES:
                ns = measured(n_keys, n, options.steps)
                record, best = float(np.median(ns)), float(ns.min())
                print(f"| {n_keys:,} | {n} | {record:.0f}, {best:.0f} | {record / n:.0f}, {best / n:.0f} |", flush=True)
            ns = floor(n_keys, options.steps)
            print(f"| {n_keys:,} | floor | {np.median(ns):.0f}, {ns.min():.0f} | |", flush=True)


if __name__ == "__main__":
    main()
