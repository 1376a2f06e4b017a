"""How often a challenger is called better that is not, and after how many labels one that is.

    python -m benchmarks.promotion [--streams 1000]

Models are right or wrong at random, with known rates, and are looked at every 250 labels. Beside the intervals of
models/comparison.py stands what many do: a paired z-test at the same level, looked at as often.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.record import printed
from models.comparison import Comparison
from models.contract import LEARN, Program

CHUNK = 250
ERROR = 0.05  # of both sides together, for one challenger
RATE = 0.2  # of the champion's errors


def mistakes(
    rng: np.random.Generator, n: int, rate: float, other: float, alike: float
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each of two models is wrong; on a share `alike` of the labels one is wrong wherever the better one is."""
    u, v = rng.random(n), rng.random(n)
    return u < rate, np.where(rng.random(n) < alike, u, v) < other


class Test:
    """The z-test over all labels."""

    def __init__(self) -> None:
        self.n, self.total, self.squares = 0, 0.0, 0.0

    def add(self, d: np.ndarray) -> bool:
        self.n, self.total, self.squares = self.n + len(d), self.total + d.sum(), self.squares + (d * d).sum()
        return self.n >= 1000 and self.total > 1.96 * np.sqrt(max(self.squares - self.total**2 / self.n, 1.0))


def stream(
    rng: np.random.Generator, n: int, gain: float, alike: float, before: int = 0, loss: float = 0.0
) -> Iterator[tuple[int, bool, bool]]:
    """Labels since the challenger is better by `gain`, and whether the intervals and the z-test say so then. For
    `before` labels before that it is worse by `loss`."""
    comparison, test = Comparison("classification"), Test()
    rows = np.arange(CHUNK, dtype=np.int32)
    program = Program(np.full(CHUNK, LEARN, np.int8), rows, np.zeros(CHUNK), np.ones(CHUNK))
    for at in range(0, before + n, CHUNK):
        better = gain if at >= before else -loss
        a, b = mistakes(rng, CHUNK, RATE, RATE - better, alike)
        comparison.score(program, *(np.column_stack([~x, x]).astype(float) for x in (a, b)))
        yield at + CHUNK - before, comparison.better(ERROR) is not None, test.add(a.astype(float) - b)


def false_promotions(streams: int, n: int, alike: float) -> tuple[float, float]:
    """Shares of streams of equal models in which the challenger is ever called better."""
    found = np.zeros((streams, 2), bool)
    for i in range(streams):
        for _, ours, theirs in stream(np.random.default_rng([1, i]), n, 0.0, alike):
            found[i] |= ours, theirs
    return tuple(found.mean(axis=0))  # type: ignore[return-value]


def delays(streams: int, n: int, gain: float, alike: float, before: int = 0, loss: float = 0.0) -> list[float]:
    """Labels until a challenger that is better is called so, infinity where n did not suffice."""
    found = []
    for i in range(streams):
        steps = stream(np.random.default_rng([2, i]), n, gain, alike, before, loss)
        found.append(next((float(at) for at, ours, _ in steps if ours and at > 0), np.inf))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    streams = parser.parse_args().streams
    print("| equal models, 20,000 labels | called better | by a z-test looked at as often |\n|---|---|---|")
    for alike in (0.0, 0.9):
        ours, theirs = false_promotions(streams, 20_000, alike)
        print(
            f"| {100 * alike:.0f} % of their errors are the same | {100 * ours:.1f} % | {100 * theirs:.1f} % |",
            flush=True,
        )
    print("\n| gain, points | errors alike | labels, median | 9 of 10 | after 50,000 labels with 2 points less |")
    print("|---|---|---|---|---|")
    for gain in (0.01, 0.02, 0.05):
        for alike in (0.0, 0.9):
            fresh = np.array(delays(streams // 10, 200_000, gain, alike))
            late = np.array(delays(streams // 10, 400_000, gain, alike, 50_000, 0.02))
            shown = (np.median(fresh), np.quantile(fresh, 0.9, method="higher"), np.median(late))
            cells = " | ".join("more" if np.isinf(x) else f"{x:,.0f}" for x in shown)
            print(f"| {100 * gain:.0f} | {100 * alike:.0f} % | {cells} |", flush=True)


if __name__ == "__main__":
    with printed("promotion"):
        main()
