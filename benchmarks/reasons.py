"""What reasons cost: microseconds of CPU an instance to predict and learn it, without and with them.

    python -m benchmarks.reasons [LEARNER ...]
    python -m benchmarks.reasons --pool FILE.csv.gz ...

Labels come after each prediction, or in blocks of 200 after 200 predictions: the model is asked once a block. Without
and with in turns, the least of three rounds each.

With --pool: what is left of predictions of a logarithmic pool (classification, the target in the last column), and the
cost of a contribution, beside the weighted mean of what its members say. Both are asked of one model, in turns.
"""

import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.partition.reasons import Reasons, pieces
from benchmarks.tables import read
from models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from models.opinion_pool.entries import MEMBERS
from models.opinion_pool.learner import OpinionPool
from models.registry import create

N = 20_000
ROUNDS = 3
POOL_N, POOL_BLOCK, POOL_SKIPPED = 6_000, 200, 3  # instances, of a block, blocks that are not counted
SCHEMA = Schema((0,) * 10, 2, "classification")
LEARNERS = (
    *("hoeffding-tree", "adaptive-random-forest", "mondrian-forest", "stochastic-gradient-tree"),
    *("streaming-decision-forest", "shrub-ensemble", "random-forest", "opinion-pool"),
)


def fresh(name: str) -> Learner:
    """Compiled."""
    model = create(name, SCHEMA)
    model.warm_up()
    model.contributions(np.zeros((1, SCHEMA.n_features)), np.zeros(1, np.int32), np.zeros(1, np.int64))
    return model


def without(model: Learner, program: Program, x: Floats) -> float:
    start = time.thread_time()
    model.run(program, x, np.zeros((N, 2)))
    return time.thread_time() - start


def told(model: Learner, program: Program, x: Floats) -> float:
    start, out = time.thread_time(), np.zeros((N, 2))
    reasons = Reasons(program, 3, SCHEMA.task)
    for part in pieces(program):
        model.run(part, x, out)
        if part.op[0] == PREDICT:
            reasons.ask(model, x, part.row, out)
    return time.thread_time() - start


def mean_of_members(pool: OpinionPool, x: Floats, about: NDArray[np.int64]) -> Floats:
    """Their contributions, by their weights."""
    mean, row = np.zeros((len(x), x.shape[1] + 1)), np.arange(len(x), dtype=np.int32)
    weights = np.array(list(pool.weights.values()))
    for member, share in zip(pool.members.values(), weights / weights.sum(), strict=True):
        if member.tells_why:
            mean += share * np.nan_to_num(member.contributions(x, row, about))
    return mean


def of_pools(paths: list[str]) -> None:
    forest = {"model": "adaptive-random-forest", "leaf_prediction": "mc"}
    trees = {name: one for name, one in MEMBERS["classification"].items() if name != "soft"} | {"forest": forest}
    print("| data | classes | members | left of the mean | left | predict, µs | mean, µs | contributions, µs |")
    print("|---|---|---|---|---|---|---|---|")
    for path in paths:
        table = read(Path(path))
        for members, named in ((None, "default"), (trees, "trees alone")):
            pool, left, spent = OpinionPool(table.schema, seed=1, members=members), [], []
            row = np.arange(POOL_BLOCK, dtype=np.int32)
            for start in range(0, min(len(table.y), POOL_N) - POOL_BLOCK + 1, POOL_BLOCK):
                x, y = (np.ascontiguousarray(one[start : start + POOL_BLOCK]) for one in (table.x, table.y))
                times = [time.thread_time()]
                said = pool.predict_many(x)
                times.append(time.thread_time())
                about = said.argmax(axis=1)
                mean = mean_of_members(pool, x, about)
                times.append(time.thread_time())
                told = pool.contributions(x, row, about)
                times.append(time.thread_time())
                p = said[row, about]
                left.append([np.abs(p - np.nansum(one, axis=1)).mean() for one in (mean, told)])
                spent.append(1e6 * np.diff(times) / POOL_BLOCK)
                pool.learn_many(x, y)
            before, after = np.mean(left[POOL_SKIPPED:], axis=0)
            costs = " | ".join(f"{one:.0f}" for one in np.mean(spent[POOL_SKIPPED:], axis=0))
            data = f"{Path(path).name.split('.')[0]} | {table.schema.n_outputs} | {named}"
            print(f"| {data} | {before:.3f} | {after:.3f} | {costs} |", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--pool"]:
        of_pools(sys.argv[2:])
        return
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, SCHEMA.n_features))
    y = ((x[:, 0] > 0.0) ^ (x[:, 1] > 0.3)).astype(float)
    print("| learner | nodes | block | without, µs | with, µs |\n|---|---|---|---|---|")
    for name in sys.argv[1:] or LEARNERS:
        for block in (1, 200):
            op = np.tile(np.repeat(np.array([PREDICT, LEARN], np.int8), block), N // block)
            row = np.repeat(np.arange(N, dtype=np.int32).reshape(-1, block), 2, axis=0).ravel()
            program = Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(len(op)))
            rounds = []
            for _ in range(ROUNDS):
                plain, asked = fresh(name), fresh(name)
                rounds.append((without(plain, program, x), told(asked, program, x)))
            least, most = (1e6 * min(one) / N for one in zip(*rounds, strict=True))
            print(f"| `{name}` | {plain.size()['n_nodes']:,} | {block} | {least:.1f} | {most:.1f} |", flush=True)


if __name__ == "__main__":
    main()
