"""What reasons cost: microseconds of CPU an instance to predict and learn it, without and with them.

    python -m benchmarks.reasons [LEARNER ...]

Labels come after each prediction, or in blocks of 200 after 200 predictions: the model is asked once a block. Without
and with in turns, the least of three rounds each.
"""

import sys
import time

import numpy as np

from app.partition.reasons import Reasons, pieces
from models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from models.registry import create

N = 20_000
ROUNDS = 3
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


def main() -> None:
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
