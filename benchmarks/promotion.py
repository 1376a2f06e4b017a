"""How often a challenger is called better that is not, and after how many labels one that is.

    python -m benchmarks.promotion [DATA] [--pairs 2000]

Every pair is looked at every 250 labels, by the intervals of models/evaluation/comparison.py, and beside them by what
many do: a paired z-test at the same level. Models are right or wrong at random, with known rates; where mistakes come
in runs, a model is wrong where an autoregressive series of its own is low. DATA is a folder with elec, weather,
nursery, pendigits and splice (.csv.gz): the same forest under eight seeds makes 28 pairs of challengers in either
direction.
"""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.opinion_pool import late
from benchmarks.record import printed
from benchmarks.tables import NOMINAL, read
from riparian.models.contract import LEARN, Floats, Program
from riparian.models.evaluation.comparison import Comparison
from riparian.models.registry import create

CHUNK = 250
ERROR = 0.05  # of both sides together, for one challenger
RATE = 0.2  # of the champion's errors
LABELS = 20_000
FORESTS = ("adaptive-random-forest", "mondrian-forest")
SEEDS = 8
Pair = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # whether the older, and the newer model is wrong


def mistakes(rng: np.random.Generator, n: int, rate: float, other: float, alike: float) -> Pair:
    """Whether each of two models is wrong; on a share `alike` of the labels one is wrong wherever the better one is."""
    u, v = rng.random(n), rng.random(n)
    return u < rate, np.where(rng.random(n) < alike, u, v) < other


def series(rng: np.random.Generator, n: int, phi: float) -> Floats:
    """Normal values, of which each is phi times the one before and something new."""
    from scipy.signal import lfilter

    new = rng.standard_normal(n)
    new[1:] *= np.sqrt(1.0 - phi * phi)
    return lfilter([1.0], [1.0, -phi], new)


def equal_pair(rng: np.random.Generator, n: int, phi: float, shared: float = 0.0) -> Pair:
    """Two models that are equal in the long run, whose mistakes come in runs. shared : of both series' variance."""
    from scipy.special import ndtri

    one, other, both = (series(rng, n, phi) for _ in range(3))
    mixed = (np.sqrt(1.0 - shared) * x + np.sqrt(shared) * both for x in (one, other))
    return tuple(x < ndtri(RATE) for x in mixed)  # type: ignore[return-value]


def looked_at(pair: Pair) -> Iterator[Comparison]:
    """The comparison of a pair, every 250 labels."""
    comparison = Comparison("classification")
    older, newer = (np.column_stack([~x, x]).astype(float) for x in pair)
    for at in range(0, len(older), CHUNK):
        part = slice(at, at + CHUNK)
        n = len(older[part])
        program = Program(np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), np.zeros(n), np.ones(n))
        comparison.score(program, older[part], newer[part])
        yield comparison


def is_called_better(pair: Pair) -> bool:
    """Whether a rule with an error probability of `ERROR` ever promotes the newer model; it looks from 1,000 labels."""
    return any(one.better(ERROR, at_least=1000) is not None for one in looked_at(pair))


def is_tested_better(pair: Pair) -> bool:
    """Whether a z-test over all labels ever says that the newer model is better."""
    d = pair[0].astype(float) - pair[1]
    n = np.arange(1, len(d) + 1)
    total, squares = np.cumsum(d), np.cumsum(d * d)
    looks = slice(999, None, CHUNK)
    z = total[looks] / np.sqrt(np.maximum(squares - total**2 / n, 1.0))[looks]
    return bool((z > 1.96).any())


def delay(pair: Pair, before: int = 0) -> float:
    """Labels after the first `before` until the newer model is called better, infinity where there are too few."""
    for i, one in enumerate(looked_at(pair), 1):
        if CHUNK * i > before and one.better(ERROR, at_least=1000) is not None:
            return float(CHUNK * i - before)
    return float("inf")


def equal_streams(pairs: int) -> None:
    """Print the shares of equal pairs in which the newer model is called better."""
    print(f"| mistakes, {LABELS:,} labels | called better | by a z-test looked at as often |\n|---|---|---|")
    cases = [(0.0, 0.0, "independent"), (0.0, 0.9, "independent, 90 % shared"), (0.5, 0.0, "AR(1) of .5")]
    cases += [(0.9, 0.0, "AR(1) of .9"), (0.9, 0.9, "AR(1) of .9, 90 % shared"), (0.98, 0.0, "AR(1) of .98")]
    for phi, shared, name in (*cases, (0.99, 0.0, "AR(1) of .99")):
        drawn = [equal_pair(np.random.default_rng([1, i]), LABELS, phi, shared) for i in range(pairs)]
        ours, theirs = (np.mean([rule(one) for one in drawn]) for rule in (is_called_better, is_tested_better))
        print(f"| {name} | {100 * ours:.2f} % | {100 * theirs:.1f} % |", flush=True)


def better_streams(streams: int) -> None:
    """Print after how many labels a model that is better is called so."""
    print("\n| gain, points | errors alike | labels, median | 9 of 10 | after 50,000 labels with 2 points less |")
    print("|---|---|---|---|---|")
    for gain in (0.01, 0.02, 0.05):
        for alike in (0.0, 0.9):
            fresh, after = [], []
            for i in range(streams):
                rng = np.random.default_rng([2, i])
                pair, worse = (mistakes(rng, n, RATE, RATE - x, alike) for n, x in ((200_000, gain), (50_000, -0.02)))
                fresh.append(delay(pair))
                older, newer = (np.concatenate(x) for x in zip(worse, pair, strict=True))
                after.append(delay((older, newer), 50_000))
            shown = (np.median(fresh), np.quantile(fresh, 0.9, method="higher"), np.median(after))
            cells = " | ".join("more" if np.isinf(x) else f"{x:,.0f}" for x in shown)
            print(f"| {100 * gain:.0f} | {100 * alike:.0f} % | {cells} |", flush=True)


def forests(folder: Path) -> None:
    """Print how many pairs of one forest under two seeds are told apart, either way."""
    print("\n| data | forest | labels late | pairs called different | accuracy of even and odd hundreds, correlation |")
    print("|---|---|---|---|---|")
    for (name, nominal), model, lateness in itertools.product(NOMINAL.items(), FORESTS, (0, 200)):
        table = read(folder / f"{name}.csv.gz", nominal)
        program, wrong = late(table, lateness), []
        for seed in range(SEEDS):
            out = np.zeros((len(table.y), table.schema.n_outputs))
            create(model, table.schema, seed=seed).run(program, table.x, out)
            wrong.append(~((out.argmax(1) == table.y) & (out.max(1) > 0.0))[: len(table.y) - lateness])
        told = sum(is_called_better(pair) or is_called_better(pair[::-1]) for pair in itertools.combinations(wrong, 2))
        halves = np.array(wrong)[:, : len(wrong[0]) // 200 * 200].reshape(SEEDS, -1, 2, 100).mean((1, 3))
        alike = np.corrcoef(halves.T)[0, 1]
        print(f"| {name} | {model} | {lateness} | {told} of {SEEDS * (SEEDS - 1) // 2} | {alike:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--pairs", type=int, default=2000)
    asked = parser.parse_args()
    equal_streams(asked.pairs)
    better_streams(asked.pairs // 20)
    if asked.data is not None:
        forests(asked.data)


if __name__ == "__main__":
    with printed("promotion"):
        main()
