"""Drift detectors against the bounds that their papers state: alarms per test, and delay, as two tables.

    python -m benchmarks.detector_bounds [--runs 200]

Alarms: level 2 per test on Bernoulli values whose rate never changes, 5 streams of 200,000 values. A test is what the
paper's probability is about: a search for a cut every `clock` values in ADWIN, a full window in KSWIN, a value in the
others. Delay: the rate changes at 5,000; each bound is the number of values after which the paper's theorem says that
the change is found, and with which probability. "even": errors before the change at equal distances
(docs/evidence/drift.md says what for). Seeds are 0, 1, ….
"""

import argparse
import math

import numpy as np

from benchmarks.record import printed
from riparian.models.drift import create

BEFORE, AFTER = 5_000, 5_000
STATIONARY, STREAMS = 200_000, 5
BOUNDED = ("adwin", "ddm", "hddm-a", "hddm-w", "kswin")


def alarm_bound(name, p):
    """The most alarms a test that the paper allows. name : of a detector; p : its parameters, all of them."""
    if name == "adwin":
        return p["delta"]  # theorem 3.1, part 1
    if name == "ddm":
        return 0.01  # "the confidence level for drift has been set to 99 %": a normal approximation
    if name == "kswin":
        return p["alpha"]  # stated as the level; see docs/evidence/drift.md for what the threshold gives
    return p["drift_confidence"]  # HDDM: one comparison of two means


def tests(name, p, n, alarms):
    """How many tests there were in n values with so many alarms."""
    if name == "adwin":
        return n // p["clock"]
    if name == "kswin":
        return n - (alarms + 1) * (p["window_size"] - p["stat_size"])
    return n


def alarms_a_test(name, rate, streams=STREAMS, n=STATIONARY, **parameters):
    """Level 2 a test where nothing changes. rate : of errors, or None for uniform values."""
    alarms = total = 0
    for seed in range(streams):
        detector = create(name, seed=seed, **parameters)
        draws = np.random.default_rng(seed).random(n)
        found = int(np.count_nonzero(detector.update_many(draws if rate is None else draws < rate) == 2))
        alarms += found
        total += tests(name, detector.parameters(), n, found)
    return alarms / total


def delay_bound(name, p, low, high, before=BEFORE):
    """Values after which a change of the error rate from `low` to `high` must have been found, and with which
    probability: (values, probability), or None where the paper's theorem never says so. p : all parameters."""
    gap = high - low
    if name == "adwin":  # theorem 3.1, part 2: some cut whose means differ by more than twice the bound
        for after in range(1, AFTER):
            n = before + after
            mean = (before * low + after * high) / n
            log_term = math.log(2 * math.log(n) / p["delta"])
            inverse = 1 / (before - p["min_side"] + 1) + 1 / max(after - p["min_side"] + 1, 1)
            bound = math.sqrt(2 * inverse * mean * (1 - mean) * log_term) + 2 / 3 * log_term * inverse
            if after > p["min_side"] + 1 and gap > 2 * bound:
                return after + p["clock"], 1 - p["delta"]
    elif name == "hddm-a":  # Hoeffding twice: the means differ by the bound of the test and by that of the estimate
        for after in range(1, AFTER):
            n = before + after
            bound = math.sqrt(after / (2 * before * n) * math.log(2 / p["drift_confidence"]))
            if gap * after / n > 2 * bound:
                return after, 1 - p["drift_confidence"]
    elif name == "hddm-w":  # McDiarmid twice, with both moving averages in their limit of summed squared weights
        fading = p["fading"]
        bound = math.sqrt(2 * fading / (2 - fading) * math.log(1 / p["drift_confidence"]) / 2)
        if gap > 2 * bound:
            return math.ceil(math.log(1 - 2 * bound / gap) / math.log(1 - fading)), 1 - p["drift_confidence"]
    return None


def delays(name, low, high, runs, even=False, **parameters):
    """(runs,) values from a change at 5,000 to the first level 2 after it; infinite where it was not found.

    even : errors before the change come at equal distances. Then the change is where HDDM-A sees its best cut.
    """
    found = np.full(runs, np.inf)
    rates = np.repeat([low, high], [BEFORE, AFTER])
    for seed in range(runs):
        draws = np.random.default_rng(seed).random(len(rates)) < rates
        if even:
            draws[:BEFORE] = np.diff(np.floor(np.arange(BEFORE + 1) * low + 1e-9)) > 0
        alarms = np.flatnonzero(create(name, seed=seed, **parameters).update_many(draws)[BEFORE:] == 2)
        if len(alarms):
            found[seed] = alarms[0] + 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    rates = (0.05, 0.2, 0.5)
    heads = ["detector", "bound", *(f"p={rate}" for rate in rates), "uniform"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for name in BOUNDED:
        cells = [name, f"{alarm_bound(name, create(name).parameters()):g}"]
        cells += [f"{alarms_a_test(name, rate):.2g}" for rate in rates]
        cells.append("-" if name == "ddm" else f"{alarms_a_test(name, None):.2g}")
        print("| " + " | ".join(cells) + " |")
    print()
    changes = ((0.2, 0.4), (0.05, 0.95))
    heads = ["detector", *(f"{low} to {high}: {what}" for low, high in changes for what in ("bound", "within", "mean"))]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for name, even in [*((name, False) for name in BOUNDED), ("hddm-a", True)]:
        cells = [name + ", even" * even]
        for low, high in changes:
            bound = delay_bound(name, create(name).parameters(), low, high)
            found = delays(name, low, high, runs, even)
            some = found[np.isfinite(found)]
            mean = f"{some.mean():.0f} ({len(some)}/{runs})" if len(some) else f"none (0/{runs})"
            if bound is None:
                cells += ["none", "-", mean]
            else:
                cells += [f"{bound[0]} ({bound[1]:g})", f"{np.mean(found <= bound[0]):.3f}", mean]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    with printed("detector_bounds"):
        main()
