"""Tests of distributions: false alarms on streams that do not change, whether or not their values are independent, and
how soon shifts are seen.

python -m benchmarks.shifts [--streams 1000] [--runs 50]
python -m benchmarks.shifts --answers CSV.GZ NOMINAL,...      what is said of a file, whose last column is the class
"""

import argparse
import csv
import gzip
from collections import Counter
from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from benchmarks.record import printed
from riparian.app.stream_file.sections.drift import DistributionsSpec
from riparian.models.drift.two_sample import ABSENT, NEW, PREDICTION, RANGE, VALUES, TwoSample

AT, N = 5000, 15_000
KINDS = {VALUES: "values", ABSENT: "missing", NEW: "unseen", RANGE: "range"}
DEFAULT = DistributionsSpec()


def series(rng: np.random.Generator, n: int) -> np.ndarray:
    """Ten columns that do not change, of every kind; the last four are nominal."""
    return np.column_stack(
        [
            rng.normal(size=n),
            rng.lognormal(size=n),
            rng.poisson(2.0, n),
            np.where(rng.random(n) < 0.3, np.nan, rng.random(n)),
            np.full(n, 1.0),
            rng.standard_cauchy(n),
            rng.integers(0, 2, n),
            rng.integers(0, 40, n),
            rng.zipf(1.5, n) % 5000,
            rng.integers(0, 10_000, n),
        ]
    ).astype(np.float64)


NOMINAL = [False] * 6 + [True] * 4


def false_alarms(streams: int) -> None:
    print("| window | asked | streams of 20,000 | with an alarm | share |\n|---|---|---|---|---|")
    for window, asked in ((1000, 0.01), (200, 0.05), (200, 0.2)):
        alarmed = 0
        for seed in range(streams):
            rng = np.random.default_rng(seed)
            x, y = series(rng, 20_000), rng.integers(0, 3, 20_000).astype(np.float64)
            tests = TwoSample([*range(10), PREDICTION], [*NOMINAL, True], window, asked)
            alarmed += bool(tests.update(x, y)[1])
        print(f"| {window:,} | {asked} | {streams:,} | {alarmed} | {alarmed / streams:.4f} |", flush=True)


DAYS, DAY = 40, 1440  # rows


def regressive(rng: np.random.Generator, past: float) -> np.ndarray:
    return np.asarray(lfilter([1.0], [1.0, -past], rng.normal(size=(DAYS * DAY + 5000, 10)), axis=0)[5000:])


def periodic(rng: np.random.Generator, period: int) -> np.ndarray:
    """A sine of twice the noise, each with a phase of its own."""
    phases = rng.random(10) * period
    season = 2.0 * np.sin(2 * np.pi * (np.arange(DAYS * DAY)[:, None] + phases) / period)
    return season + rng.normal(size=season.shape)


SWINGS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "independent": lambda rng: regressive(rng, 0.0),
    "autocorrelation 0.5": lambda rng: regressive(rng, 0.5),
    "autocorrelation 0.9": lambda rng: regressive(rng, 0.9),
    "autocorrelation 0.99": lambda rng: regressive(rng, 0.99),
    "period of a day": lambda rng: periodic(rng, DAY),
    "period of a week": lambda rng: periodic(rng, 7 * DAY),
    "weekends": lambda rng: rng.normal(size=(DAYS * DAY, 10)) + (np.arange(DAYS * DAY)[:, None] // DAY % 7 >= 5),
}


def swings(runs: int) -> None:
    """Ten features that follow their own past, a row a minute."""
    print()
    head = ("40 days of ten features", "window", "streams with an alarm", "alarms a day", "design effect")
    print(f"| {' | '.join(head)} |\n|---|---|---|---|---|")
    for name, made in SWINGS.items():
        for window in (1000, 2880, 10_080):
            alarms, alarmed, effects = 0, 0, []
            for seed in range(runs):
                x = made(np.random.default_rng(seed))
                tests = TwoSample([*range(x.shape[1])], [False] * x.shape[1], window, DEFAULT.false_alarms)
                found = everything(tests, x)
                alarms, alarmed = alarms + len(found), alarmed + bool(found)
                effects += [tests.design_effects(j)[0] for j in range(x.shape[1])]
            each = f"{alarms / runs / DAYS:.3f}"
            print(f"| {name} | {window:,} | {alarmed}/{runs} | {each} | {np.median(effects):.1f} |", flush=True)


def everything(tests: TwoSample, x: np.ndarray) -> list[int]:
    """The series of every alarm, each of which begins anew."""
    found, start = [], 0
    while start < len(x):
        start, alarms = tests.update(x, np.zeros(len(x)), start)
        for one in alarms:
            found.append(one.series)
            tests.begin(one.series)
    return found


def after(late: np.ndarray, changed: np.ndarray, steady: np.ndarray) -> np.ndarray:
    return np.where(late, changed, steady)


Shift = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]
SHIFTS: dict[str, tuple[bool, Shift]] = {
    "mean by 0.25 deviations": (False, lambda rng, late, n: rng.normal(size=n) + 0.25 * late),
    "mean by 0.5": (False, lambda rng, late, n: rng.normal(size=n) + 0.5 * late),
    "mean by 1": (False, lambda rng, late, n: rng.normal(size=n) + late),
    "mean by 1, gradually over 2,000": (
        False,
        lambda rng, late, n: rng.normal(size=n) + np.clip((np.arange(n) - AT) / 2000, 0, 1),
    ),
    "deviation times 1.5": (False, lambda rng, late, n: rng.normal(size=n) * np.where(late, 1.5, 1.0)),
    "missing 1 % to 5 %": (
        False,
        lambda rng, late, n: np.where(rng.random(n) < np.where(late, 0.05, 0.01), np.nan, rng.normal(size=n)),
    ),
    "2 % beyond the range": (
        False,
        lambda rng, late, n: np.where(late & (rng.random(n) < 0.02), 99.0, rng.normal(size=n)),
    ),
    "one of ten values twice as frequent": (
        True,
        lambda rng, late, n: np.where(late & (rng.random(n) < 0.11), 3, rng.integers(0, 10, n)),
    ),
    "2 % of a value that was never seen": (
        True,
        lambda rng, late, n: np.where(late & (rng.random(n) < 0.02), 77, rng.integers(0, 40, n)),
    ),
}


def delays(runs: int) -> None:
    print(
        "\n| shift of one of ten features, at 5,000 | seen | median delay | 90 % within | as |\n|---|---|---|---|---|"
    )
    late = np.arange(N) >= AT
    for name, (nominal, made) in SHIFTS.items():
        found, kinds = [], Counter[str]()
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            x = np.column_stack([made(rng, late, N).astype(np.float64), series(rng, N)[:, 1:]])
            tests = TwoSample([*range(10)], [nominal, *NOMINAL[1:]], DEFAULT.window, DEFAULT.false_alarms)
            start = 0
            while start < N:
                start, alarms = tests.update(x, np.zeros(N), start)
                if alarms and alarms[0].series == 0 and start > AT:
                    found.append(start - AT)
                    kinds[KINDS[alarms[0].kind]] += 1
                    break
                for one in alarms:
                    tests.begin(one.series)
        figures = f"{np.median(found):,.0f} | {np.quantile(found, 0.9):,.0f}" if found else "- | -"
        print(
            f"| {name} | {len(found)}/{runs} | {figures} | {', '.join(k for k, _ in kinds.most_common())} |", flush=True
        )


def answers(path: str, nominal: str) -> None:
    with gzip.open(path, "rt", newline="") as file:
        names, *rows = csv.reader(file)
    names = names[:-1]
    flags = [name in nominal.split(",") for name in names]
    codes: list[dict[str, int]] = [{} for _ in names]
    x = np.array(
        [
            [
                np.nan if not v else float(codes[j].setdefault(v, len(codes[j]))) if flags[j] else float(v)
                for j, v in enumerate(row[:-1])
            ]
            for row in rows
        ]
    )
    print(f"{path}: {len(x):,} instances\n\n| order | window | alarms | by feature |\n|---|---|---|---|")
    for order in ("of time", "shuffled"):
        ordered = x if order == "of time" else np.random.default_rng(0).permutation(x)
        for window in (1000, 5000):
            tests = TwoSample([*range(len(names))], flags, window, DEFAULT.false_alarms)
            counts = Counter(names[j] for j in everything(tests, ordered))
            told = ", ".join(f"{name} {n}" for name, n in counts.most_common())
            print(f"| {order} | {window:,} | {counts.total()} | {told or '-'} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--answers", nargs=2, metavar=("CSV.GZ", "NOMINAL,..."))
    given = parser.parse_args()
    if given.answers:
        answers(*given.answers)
        return
    if given.streams:
        false_alarms(given.streams)
    swings(given.runs)
    delays(given.runs)


if __name__ == "__main__":
    with printed("shifts", "--answers"):
        main()
