"""What reasons cost: microseconds of CPU an instance to predict and learn it, without and with them, in one run.

    python -m benchmarks.reasons

Labels come after each prediction, or in blocks of 200 after 200 predictions: the model is asked once a block.
"""

import time

import numpy as np

from app.partition.reasons import Reasons, pieces
from models.contract import LEARN, PREDICT, Learner, Program, Schema
from models.registry import create

N = 20_000
SCHEMA = Schema((0,) * 10, 2, "classification")


def fresh(name: str) -> Learner:
    """Compiled."""
    model = create(name, SCHEMA)
    model.warm_up()
    model.contributions(np.zeros((1, SCHEMA.n_features)), np.zeros(1, np.int32), np.zeros(1, np.int64))
    return model


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, SCHEMA.n_features))
    y = ((x[:, 0] > 0.0) ^ (x[:, 1] > 0.3)).astype(float)
    print("| learner | nodes | block | without, µs | with, µs |\n|---|---|---|---|---|")
    for name in ("hoeffding-tree", "adaptive-random-forest"):
        for block in (1, 200):
            op = np.tile(np.repeat(np.array([PREDICT, LEARN], np.int8), block), N // block)
            row = np.repeat(np.arange(N, dtype=np.int32).reshape(-1, block), 2, axis=0).ravel()
            program = Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(len(op)))
            out = np.zeros((N, 2))
            model = fresh(name)
            start = time.thread_time()
            model.run(program, x, out)
            without = time.thread_time() - start
            model = fresh(name)
            start = time.thread_time()
            reasons = Reasons(program, 3, SCHEMA.task)
            for part in pieces(program):
                model.run(part, x, out)
                if part.op[0] == PREDICT:
                    reasons.ask(model, x, part.row, out)
            told = time.thread_time() - start
            nodes = model.size()["n_nodes"]
            print(f"| `{name}` | {nodes:,} | {block} | {1e6 * without / N:.1f} | {1e6 * told / N:.1f} |")


if __name__ == "__main__":
    main()
