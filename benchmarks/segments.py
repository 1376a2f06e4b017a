"""How often a value is named that did not break (`metrics.segments`), and how soon one that did.

    python -m benchmarks.segments [--streams 1000] [--minutes 12]

Streams of 50,000 labels with ten values, each of its own share, in worlds where no value breaks; the whole error of 1 %
is given to one feature of one partition. Then streams in which one of ten values breaks. All worlds get one stream
after the other, until there are as many or the time is over.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtr
from scipy.stats import beta

from benchmarks.record import write
from riparian.app.partition.predictions.by_segment import FALSE_NAMES
from riparian.models.contract import Program
from riparian.models.evaluation.segments import MISTAKES, SLOTS, WORSE, Loss, SegmentLosses

N, K, STEP = 50_000, 10, 64
BROKEN = 3  # the value that breaks
AT = np.arange(N)


class Made(NamedTuple):
    """Values of labels, and which were mistaken; where one value breaks."""

    values: np.ndarray
    wrong: np.ndarray
    breaks: int | None = None


def drawn(rng: np.random.Generator, k: int = K) -> np.ndarray:
    return rng.choice(k, N, p=rng.dirichlet(np.full(k, 2.0)))


def at_rates(rng: np.random.Generator, values: np.ndarray, rate: np.ndarray) -> Made:
    return Made(values, rng.random(len(values)) < rate)


def independent(rng: np.random.Generator) -> Made:
    values = drawn(rng)
    return at_rates(rng, values, rng.uniform(0.02, 0.3, K)[values])


def rare(rng: np.random.Generator) -> Made:
    return at_rates(rng, drawn(rng), np.full(N, 0.002))


def many(rng: np.random.Generator) -> Made:
    share = 1.0 / np.arange(1, 201)
    values = rng.choice(200, N, p=share / share.sum())
    return at_rates(rng, values, rng.uniform(0.02, 0.3, 200)[values])


def falls(rng: np.random.Generator) -> Made:
    return at_rates(rng, drawn(rng), np.where(rng.integers(5000, 40_000) > AT, 0.05, 0.4))


def learns(rng: np.random.Generator) -> Made:
    values = drawn(rng)
    return at_rates(rng, values, 0.08 + 0.4 * np.exp(-AT / 3000) * rng.uniform(0.5, 1.5, K)[values])


def others_improve(rng: np.random.Generator) -> Made:
    values = drawn(rng)
    return at_rates(rng, values, np.where((values == 0) | (rng.integers(5000, 40_000) > AT), 0.3, 0.1))


def runs(rng: np.random.Generator, n: int, past: float) -> np.ndarray:
    """Mistakes of 15 %, where a normal AR(1) is low."""
    noise = rng.normal(size=n) * np.sqrt(1.0 - past * past)
    noise[:1] /= np.sqrt(1.0 - past * past)
    return np.asarray(ndtr(lfilter([1.0], [1.0, -past], noise)) < 0.15)


def runs_of_all(rng: np.random.Generator, past: float) -> Made:
    return Made(drawn(rng), runs(rng, N, past))


def runs_of_each(rng: np.random.Generator, past: float) -> Made:
    values, wrong = drawn(rng), np.zeros(N, bool)
    for value in range(K):
        wrong[values == value] = runs(rng, int((values == value).sum()), past)
    return Made(values, wrong)


def cycle(rng: np.random.Generator, own: bool) -> Made:
    values = drawn(rng)
    height = rng.uniform(0.0, 1.0, K)[values] if own else 1.0
    return at_rates(rng, values, 0.15 * (1.0 + 0.9 * height * np.sin(2 * np.pi * (AT / 10_000 + rng.random()))))


def blocks(rng: np.random.Generator, ordered: bool) -> Made:
    values, day = drawn(rng), AT // 5000
    if ordered:
        values = values[np.lexsort((values, day))]
    return at_rates(rng, values, rng.uniform(0.05, 0.3, day[-1] + 1)[day])


def breaks(rng: np.random.Generator, known: int) -> Made:
    n = K * known
    values = rng.integers(0, K, n + 600 * K)
    made = at_rates(rng, values, np.where((values == BROKEN) & (np.arange(len(values)) >= n), 0.4, 0.05))
    return made._replace(breaks=n)


WORLDS: dict[str, Callable[[np.random.Generator], Made]] = {
    "independent": independent,
    "mistakes of 0.2 %": rare,
    "200 values": many,
    "all fall from .95 to .6": falls,
    "the model learns": learns,
    "all but one improve": others_improve,
    "runs across the stream, AR(1) at .5": partial(runs_of_all, past=0.5),
    "runs across the stream, AR(1) at .9": partial(runs_of_all, past=0.9),
    "runs across the stream, AR(1) at .98": partial(runs_of_all, past=0.98),
    "a daily cycle of all": partial(cycle, own=False),
    "a daily cycle of each value": partial(cycle, own=True),
    "one block a day": partial(blocks, ordered=False),
    "one block a day, sorted by value": partial(blocks, ordered=True),
    "runs within each value, AR(1) at .9": partial(runs_of_each, past=0.9),
    "runs within each value, AR(1) at .98": partial(runs_of_each, past=0.98),
    "one falls from .95 to .6 after 2,000 labels of it": partial(breaks, known=2000),
    "one falls from .95 to .6 after 10,000 labels of it": partial(breaks, known=10_000),
}


def named(made: Made) -> tuple[bool, float | None]:
    """Whether any value is named that did not break, and labels of the one that did until it is."""
    n = len(made.values)
    segments, after, x = SegmentLosses(1000.0, FALSE_NAMES), None, made.values.astype(np.float64)[:, None]
    out = np.column_stack((~made.wrong, made.wrong)).astype(np.float64)
    program = Program(np.ones(n, np.int8), np.arange(n, dtype=np.int32), np.zeros(n), np.ones(n))
    times = np.arange(n, dtype=np.float64)
    for start in range(0, n, STEP):
        stop = min(n, start + STEP)
        segments.run(program.part(start, stop), x, 0, out, Loss(MISTAKES), times[start:stop])
        for one in segments.found(most=SLOTS, least=0.0) if segments.state().rows[:, WORSE].any() else []:
            if one.worse and (one.value != BROKEN or made.breaks is None or one.since < made.breaks):
                return True, after
            if one.worse and after is None:
                after = float((made.values[made.breaks : one.since + 1] == BROKEN).sum())
    return False, after


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=12.0)
    asked, began = parser.parse_args(), time.monotonic()
    found: dict[str, list[tuple[bool, float | None]]] = {name: [] for name in WORLDS}
    for seed in range(asked.streams):
        if time.monotonic() - began > 60.0 * asked.minutes:
            break
        for name, make in WORLDS.items():
            found[name].append(named(make(np.random.default_rng(seed))))
    figures = []
    for name, streams in found.items():
        n, n_false = len(streams), sum(false for false, _ in streams)
        after = [float("inf") if labels is None else labels for _, labels in streams]
        one = name.startswith("one falls")
        figures.append(
            {
                "world": name, "streams": n, "with a false name": n_false, "%": round(100.0 * n_false / n, 1),
                "at most, % (95 % sure)": round(100.0 * float(beta.ppf(0.95, n_false + 1, n - n_false)), 1),
                "found": sum(labels is not None for _, labels in streams) if one else "",
                "after labels of it, median": float(np.median(after)) if one else "",
            }
        )  # fmt: skip
        print(json.dumps(figures[-1]), flush=True)
    write("segments", figures)


if __name__ == "__main__":
    main()
