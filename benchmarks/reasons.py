"""What reasons cost: microseconds of CPU an instance to predict and learn it, without and with them.

    python -m benchmarks.reasons [LEARNER ...]
    python -m benchmarks.reasons --pool FILE.csv.gz ...
    python -m benchmarks.reasons --leaves FILE.csv.gz ...
    python -m benchmarks.reasons --models FILE.csv.gz ...
    python -m benchmarks.reasons --one TASK FILE.csv.gz ...

Labels come after each prediction, or in blocks of 200 after 200 predictions: the model is asked once a block. Without
and with in turns, the least of three rounds each.

With --pool: what is left of predictions of a logarithmic pool (classification, the target in the last column), and the
cost of a contribution, beside the weighted mean of what its members say. Both are asked of one model, in turns.

With --leaves: the same of models with naive Bayes or soft trees, beside what the way to a leaf alone says. With
--models: of regression trees whose leaves predict by linear models, and of options; what is left is in units of the
target.

With --one: the cost of the default opinion pool where a label comes after each prediction, when it has learned 6,000
instances: without reasons, as one program; the same program in pieces that predict or learn, as reasons ask for; with
them. In turns of copies, the least of three rounds.
"""

import copy
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from app.partition.reasons import Reasons, pieces
from benchmarks.tables import read
from models.baseline.naive_bayes import NaiveBayes
from models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from models.hoeffding import mutable_tree, tree
from models.hoeffding.tree import HoeffdingTree
from models.opinion_pool.entries import MEMBERS
from models.opinion_pool.learner import OpinionPool
from models.registry import create
from models.regression import base
from models.regression.orto import Orto
from models.soft.base import SoftModel

N = 20_000
ROUNDS = 3
POOL_N, POOL_BLOCK, POOL_SKIPPED = 6_000, 200, 3  # instances, of a block, blocks that are not counted
Around = Callable[[], AbstractContextManager[None]]
SCHEMA = Schema((0,) * 10, 2, "classification")
LEARNERS = (
    *("hoeffding-tree", "adaptive-random-forest", "mondrian-forest", "stochastic-gradient-tree"),
    *("streaming-decision-forest", "shrub-ensemble", "random-forest", "opinion-pool"),
)

LEAVES = {
    "classification": (
        *("naive-bayes", "hoeffding-tree", "hoeffding-adaptive-tree", "extremely-fast-decision-tree"),
        *("adaptive-random-forest", "streaming-random-patches", "leveraging-bagging"),
        *("soft-hoeffding-tree", "soft-tree", "opinion-pool"),
    ),
    "regression": (
        *("fimt-dd", "hoeffding-regression-tree", "orto", "online-bagging", "adaptive-random-forest"),
        *("streaming-random-patches", "opinion-pool"),
    ),
}


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


@contextmanager
def ways_alone(task: str) -> Iterator[None]:
    """Contributions without those of naive Bayes, of linear models, and of option trees; of classes, of soft trees."""
    silent = lambda *_: None  # noqa: E731
    with (
        patch.object(tree, "tell_bayes", silent),
        patch.object(HoeffdingTree, "tell_every", None),
        patch.object(base.RegressionTree, "tell_every", None),
        patch.object(mutable_tree, "add_naive_bayes", silent),
        patch.object(NaiveBayes, "tells_why", False),
        patch.object(base, "add_models", silent),
        patch.object(SoftModel, "tells_why", SoftModel.tells_why if task == "regression" else False),
        patch.object(Orto, "tells_why", False),
    ):
        yield


def own(model: Learner, x: Floats, about: NDArray[np.int64]) -> Floats:
    row = np.arange(len(x), dtype=np.int32)
    return model.contributions(x, row, about) if model.tells_why else np.full((len(x), 1), np.nan)


def in_turns(model: Learner, asked: list[tuple[Callable[..., Floats], Around]], x: Floats, y: Floats) -> str:
    """What is left of the predictions of blocks, and microseconds of each: to predict, and of both in `asked`."""
    left, spent, row = [], [], np.arange(POOL_BLOCK)
    for start in range(0, min(len(y), POOL_N) - POOL_BLOCK + 1, POOL_BLOCK):
        block, labels = (np.ascontiguousarray(one[start : start + POOL_BLOCK]) for one in (x, y))
        began = time.thread_time()
        said = model.predict_many(block)
        about = said.argmax(axis=1) if model.schema.task == "classification" else np.full(POOL_BLOCK, -1)
        told, cost = [np.empty(0)] * 2, np.zeros(3)
        cost[0] = time.thread_time() - began
        for one in (0, 1) if start // POOL_BLOCK % 2 else (1, 0):  # who is asked first finds nothing in the caches
            ask, around = asked[one]
            with around():
                began = time.thread_time()
                told[one] = ask(model, block, about)
                cost[1 + one] = time.thread_time() - began
        p = said[row, np.maximum(about, 0)]
        left.append([np.abs(p - np.nansum(one, axis=1)).mean() for one in told])
        spent.append(1e6 * cost / POOL_BLOCK)
        model.learn_many(block, labels)
    before, after = np.mean(left[POOL_SKIPPED:], axis=0)
    costs = " | ".join(f"{one:.1f}" for one in np.mean(spent[POOL_SKIPPED:], axis=0))
    return f"{before:.3f} | {after:.3f} | {costs} |"


def of_pools(paths: list[str]) -> None:
    forest = {"model": "adaptive-random-forest", "leaf_prediction": "mc"}
    trees = {name: one for name, one in MEMBERS["classification"].items() if name != "soft"} | {"forest": forest}
    asked: list[tuple[Callable[..., Floats], Around]] = [(mean_of_members, nullcontext), (own, nullcontext)]
    print("| data | classes | members | left of the mean | left | predict, µs | mean, µs | contributions, µs |")
    print("|---|---|---|---|---|---|---|---|")
    for path in paths:
        table = read(Path(path))
        for members, named in ((None, "default"), (trees, "trees alone")):
            pool = OpinionPool(table.schema, seed=1, members=members)
            data = f"{Path(path).name.split('.')[0]} | {table.schema.n_outputs} | {named}"
            print(f"| {data} | {in_turns(pool, asked, table.x, table.y)}", flush=True)


def of_one(task: str, paths: list[str]) -> None:
    """Of rows 6,000 to 6,400, or the last 400."""
    n = 400
    print("| data | nodes | without, µs | in pieces, µs | with, µs |\n|---|---|---|---|---|")
    for path in paths:
        table = read(Path(path), task=task)
        start = min(POOL_N, len(table.y) - n)
        learned, x = table.x[:start], np.ascontiguousarray(table.x[start : start + n])
        pool = OpinionPool(table.schema, seed=1)
        pool.learn_many(learned, table.y[:start])
        op, row = np.tile(np.array([PREDICT, LEARN], np.int8), n), np.repeat(np.arange(n, dtype=np.int32), 2)
        y = table.y[start : start + n]
        program = Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(len(op)))
        rounds = []
        for _ in range(ROUNDS + 1):  # the first one compiles
            spent = []
            for asked in (None, False, True):
                one, out = copy.copy(pool), np.zeros((n, table.schema.n_outputs))
                kept = [np.full((n, table.schema.n_outputs), np.nan) for _ in range(one.n_kept)]
                began = time.thread_time()
                reasons = Reasons(program, 3, table.schema.task)
                for part in [program] if asked is None else pieces(program):
                    one.run_with(part, x, out, kept)
                    if asked and part.op[0] == PREDICT:
                        reasons.ask(one, x, part.row, out)
                spent.append(1e6 * (time.thread_time() - began) / n)
            rounds.append(spent)
        least = " | ".join(f"{one:.0f}" for one in np.min(rounds[1:], axis=0))
        print(f"| {Path(path).name.split('.')[0]} | {pool.size()['n_nodes']:,} | {least} |", flush=True)


def of_leaves(paths: list[str], task: str) -> None:
    asked: list[tuple[Callable[..., Floats], Around]] = [(own, lambda: ways_alone(task)), (own, nullcontext)]
    print("| data | learner | left by the way alone | left | predict, µs | way alone, µs | contributions, µs |")
    print("|---|---|---|---|---|---|---|")
    for path in paths:
        table = read(Path(path), task=task)
        for name in LEAVES[task]:
            in_turns(create(name, table.schema, seed=1), asked, table.x, table.y)  # compiled
            figures = in_turns(create(name, table.schema, seed=1), asked, table.x, table.y)
            print(f"| {Path(path).name.split('.')[0]} | `{name}` | {figures}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        of_one(sys.argv[2], sys.argv[3:])
        return
    if sys.argv[1:2] == ["--pool"]:
        of_pools(sys.argv[2:])
        return
    if sys.argv[1:2] in (["--leaves"], ["--models"]):
        of_leaves(sys.argv[2:], "classification" if sys.argv[1] == "--leaves" else "regression")
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
