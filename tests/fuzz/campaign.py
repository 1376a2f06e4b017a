"""`make fuzz`: every target in turn, for as long as there is time; what fails is kept as a test case.

    python -m tests.fuzz.campaign --minutes 60 --seed 7 [--targets records,web]
    python -m tests.fuzz.campaign --records 1000000 --seed 7

With --records, targets whose cases are batches of records share that many, instead of minutes. Ends with a line for
each target, and with exit code 1 where something failed. A case follows from the seed, the target and its number.
"""

import argparse
import sys
import time

from benchmarks.record import write
from tests.fuzz.children import DIFFERENT, Found, kind_of, run, save, shrink_crash
from tests.fuzz.target import OF_RECORDS, TARGETS

SLICE = 60.0  # seconds of one target at a time; a child is new each time, so what leaks or grows does not hide


class Tally:
    """What was run of a target, and what failed: one case of each kind."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases = 0
        self.n_records = 0
        self.seconds = 0.0
        self.grown = 0.0  # MB that a child took at most, beyond what it had before its first case
        self.found: dict[str, Found] = {}

    def line(self) -> str:
        failed = f"{len(self.found)} FAILED" if self.found else "none failed"
        rate = self.cases / max(self.seconds, 1e-9)
        records = f"{self.n_records:>11,} records, " if self.n_records else ""
        cases = f"{self.cases:>10,} cases {rate:>8,.0f} a second"
        return f"{self.name:<14}{cases}, {records}{self.grown:>5,.0f} MB more, {failed}"

    def figures(self) -> dict[str, float]:
        """The same for a file of results."""
        return {
            "cases": self.cases,
            "records": self.n_records,
            "seconds": round(self.seconds, 1),
            "grown_mb": round(self.grown, 1),
            "failed": len(self.found),
        }


def campaign(seed: int, minutes: float, names: list[str]) -> list[Tally]:
    tallies = {name: Tally(name) for name in names}
    left = {name: minutes * 60 / len(names) for name in names}
    while any(seconds > 0 for seconds in left.values()):
        for tally in tallies.values():
            if left[tally.name] > 0:
                left[tally.name] -= _slice(tally, seed, min(SLICE, left[tally.name]))
    return list(tallies.values())


def of_records(seed: int, n_records: int, names: list[str]) -> list[Tally]:
    """As `campaign`, until each target has had its share of so many records."""
    tallies, share = [Tally(name) for name in names], -(-n_records // len(names))
    while left := [tally for tally in tallies if tally.n_records < share and len(tally.found) < DIFFERENT]:
        for tally in left:
            _slice(tally, seed, SLICE, _cases_for(tally, share))
    return tallies


def _cases_for(tally: Tally, n_records: int) -> int:
    """How many more cases it will take, as those so far tell."""
    if not tally.n_records:
        return 200
    return max(1, round((n_records - tally.n_records) * tally.cases / tally.n_records))


def _slice(tally: Tally, seed: int, seconds: float, count: int = 10**12) -> float:
    """A while of one target. Seconds that it took."""
    began = told = time.monotonic()
    first = tally.cases

    def tell(at: int) -> None:
        nonlocal told
        if time.monotonic() > told + 5:
            told = time.monotonic()
            print(f"{tally.name}: case {at:,}, {(at - first) / (told - began):,.0f} a second", flush=True)

    outcome = run(tally.name, seed, first, count, seconds, tell)
    tally.cases += outcome.cases
    tally.n_records += outcome.records
    tally.seconds += outcome.seconds
    tally.grown = max(tally.grown, outcome.grown)
    for one in outcome.found:
        kind = kind_of(one.said)
        if kind not in tally.found and len(tally.found) < DIFFERENT:
            crashed = outcome.stopped and one is outcome.found[-1]
            small = shrink_crash(one) if crashed else one
            tally.found[kind] = small or one
            kept = f"kept as {save(small)}" if small else f"and not alone: cases from {first} on left something behind"
            said = (small or one).said
            print(f"FAILED: {tally.name}, case {one.index} of seed {seed}, {kept}\n{said}", flush=True)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--records", type=int)
    parser.add_argument("--targets", help=f"names with commas between: {', '.join(TARGETS)}")
    options = parser.parse_args()
    possible = [*(TARGETS if options.records is None else OF_RECORDS)]
    names = options.targets.split(",") if options.targets else possible
    if unknown := [name for name in names if name not in possible]:
        parser.error(f"--targets: no target {unknown[0]!r}; there are {', '.join(possible)}")
    print(f"seed {options.seed}", flush=True)
    if options.records is None:
        tallies = campaign(options.seed, options.minutes, names)
    else:
        tallies = of_records(options.seed, options.records, names)
        print(f"{sum(tally.n_records for tally in tallies):,} records")
    print("\n".join(tally.line() for tally in tallies))
    write("campaign-fuzz", {tally.name: tally.figures() for tally in tallies}, seed=options.seed)
    sys.exit(any(tally.found for tally in tallies))


if __name__ == "__main__":
    main()
