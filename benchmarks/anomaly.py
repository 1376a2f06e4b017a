"""Learners of anomalies beside others' of the same name, in one run: AUROC, and microseconds of CPU an instance.

    python -m benchmarks.anomaly [--n 5000] [--rounds 1] [--capymoa PYTHON]
    python -m benchmarks.anomaly --seeds 10 [--n 5000] [--capymoa PYTHON]
    python -m benchmarks.anomaly --alerts 0.01 [--n 100000] [--seeds 3]
    python -m benchmarks.anomaly --alerts 0.01 --start [--n 20000] [--seeds 10]
    python -m benchmarks.anomaly --jump [--seeds 10]

Half-space trees run beside River's, in the environment of `benchmarks.peers` and behind its MinMaxScaler, as its
documentation advises; the online isolation forest beside CapyMOA's, by the Python of an environment that has it. All
score an instance before they learn it, and the first 250 are left out of the AUROC. Rounds are interleaved; medians
count.

--seeds: the AUROC by so many seeds of the learner on the same stream, of ours, `auto` among them, and of CapyMOA's.
--alerts: how an alert rate is kept, and what the alerts are, also where the clusters jump in the middle. With --start:
of the first predictions, by so many seeds of the stream and of the learner.
--jump: the AUROC before and after the clusters jump, by so many seeds of both.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.peers import FOLDER, command, find_river
from benchmarks.record import printed
from riparian.models.auto.auto import SINGLE
from riparian.models.contract import LEARN, PREDICT, Floats, Program, Schema
from riparian.models.evaluation.auroc import areas
from riparian.models.predictions.decision import ALERT_RATE, Threshold
from riparian.models.registry import create

WINDOW = 250
# Of half-space trees: River's defaults, the paper's. Of the isolation forest: the authors', for both.
SIZES = ({"n_trees": 10, "height": 8}, {"n_trees": 25, "height": 15})
FOREST = {"n_trees": 32, "window": 2048, "leaf_size": 32}
AUTO = SINGLE["anomaly"].parameters
OURS = (
    *(("half-space-trees", {**size, "window": WINDOW}) for size in SIZES),
    ("half-space-trees", {"n_trees": 25, "height": AUTO["height"], "window": WINDOW, "max_window": AUTO["max_window"]}),
    ("online-isolation-forest", FOREST),
)
JUMP = 20.0  # standard deviations that the clusters jump by
JUMP_AT = 50_000
# Of --jump, ends of parts: 2,048 instances after it, which is the window of the isolation forest, and then the long
# windows of `auto`, at whose ends its scores get another scale.
EDGES = (3000, 47_750, JUMP_AT, JUMP_AT + 2048, 63_750, 79_750, 95_750, 111_750)
PARTS = 10  # of a stream, in each of which alerts are counted
STARTS = (1000, 2000, 5000)  # predictions from the beginning
DAY, FAULTS, BURST = 1440, 0.013, 4  # records of a cycle; the share of faults, and about how many follow each other
RIVER = """
import json, sys, time
import numpy as np
from river import anomaly, preprocessing
x = np.load(sys.argv[1])
rows = [dict(enumerate(row)) for row in x.tolist()]
model = preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(
    n_trees=int(sys.argv[2]), height=int(sys.argv[3]), window_size=int(sys.argv[4]), seed=int(sys.argv[5]))
scores, start = [], time.thread_time()
for row in rows:
    scores.append(model.score_one(row))
    model.learn_one(row)
print(json.dumps({"seconds": time.thread_time() - start, "scores": scores}))
"""
CAPYMOA = """
import json, sys, time
import numpy as np
from capymoa.anomaly import OnlineIsolationForest
from capymoa.stream import NumpyStream
x = np.load(sys.argv[1])
stream = NumpyStream(x, np.arange(len(x)) % 2, dataset_name="x")
model = OnlineIsolationForest(schema=stream.get_schema(), random_seed=int(sys.argv[5]), num_trees=int(sys.argv[2]),
    window_size=int(sys.argv[3]), max_leaf_samples=int(sys.argv[4]), n_jobs=1)
scores, start = [], time.process_time()
while stream.has_more_instances():
    instance = stream.next_instance()
    scores.append(float(model.score_instance(instance)))
    model.train(instance)
print(json.dumps({"seconds": time.process_time() - start, "scores": scores}))
"""


def stream(n: int, drift: float, jump: float = 0.0, seed: int = 1, at: int | None = None) -> tuple[Floats, Floats]:
    """Two clusters of five features that move by `drift` over the stream, and jump at an instance, or in its middle;
    one instance in a hundred lies anywhere."""
    rng = np.random.default_rng(seed)
    moved = (drift * np.linspace(0.0, 1.0, n) + jump * (np.arange(n) >= (n // 2 if at is None else at)))[:, None]
    x = rng.normal(size=(n, 5)) + 4.0 * rng.integers(0, 2, (n, 1)) + moved
    y = (rng.random(n) < 0.01).astype(float)
    anywhere = rng.uniform(-4.0, 8.0, (n, 5)) + moved
    return np.where(y[:, None] == 1.0, anywhere, x), y


def machine(n: int, seed: int) -> tuple[Floats, Floats]:
    """Six sensors with a daily cycle; a fault shifts two of them, for about four records."""
    rng = np.random.default_rng(seed)
    day = np.sin(2.0 * np.pi * np.arange(n) / DAY)
    load = np.clip(0.5 + 0.4 * day + 0.1 * rng.normal(size=n), 0.0, 1.0)
    week = np.sin(2.0 * np.pi * np.arange(n) / (7 * DAY))
    middle = np.column_stack((20.0 + 8.0 * day, 50.0 + 30.0 * load, 1.0 + 2.0 * load, np.full((n, 2), 5.0), 5.0 * week))
    spread = np.array([1.0, 3.0, 0.3, 0.7, 2.0, 1.0])
    x, y, i = middle + spread * rng.normal(size=(n, 6)), np.zeros(n), 0
    while (i := i + 1 + int(rng.exponential(BURST / FAULTS))) < n:
        end, two = i + 1 + rng.poisson(BURST - 1), rng.choice(6, 2, replace=False)
        x[i:end, two] += rng.choice([-9.0, 9.0], 2) * spread[two]
        y[i:end] = 1.0
    return x, y


def area(scores: Floats, y: Floats, first: int = WINDOW) -> float:
    p = scores[first:]
    return areas(y[first:].astype(np.int64), np.column_stack((1.0 - p, p)), np.ones(len(p)))[1]


def scored(name: str, parameters: dict[str, int], x: Floats, seed: int = 1) -> tuple[float, Floats]:
    """Microseconds an instance, and the scores."""
    schema = Schema((0,) * x.shape[1], 1, "anomaly")
    learner = create(name, schema, seed=seed, **parameters)
    learner.warm_up()
    op, row = np.tile([PREDICT, LEARN], len(x)).astype(np.int8), np.repeat(np.arange(len(x), dtype=np.int32), 2)
    out = np.zeros((len(x), 1))
    program = Program(op, row, np.full(len(op), np.nan), np.ones(len(op)))
    start = time.thread_time()
    learner.run(program, x, out)
    return 1e6 * (time.thread_time() - start) / len(x), out[:, 0]


def ours(name: str, parameters: dict[str, int], x: Floats, y: Floats, seed: int = 1) -> tuple[float, float]:
    microseconds, scores = scored(name, parameters, x, seed)
    return microseconds, area(scores, y)


def theirs(
    python: Path, script: str, parameters: dict[str, int], path: Path, y: Floats, seed: int = 1
) -> tuple[float, float]:
    arguments = [str(path), *map(str, parameters.values()), str(seed)]
    found = json.loads(command([str(python), "-c", script, *arguments]).splitlines()[-1])
    return 1e6 * found["seconds"] / len(y), area(np.array(found["scores"]), y)


def by_seeds(n: int, seeds: int, capymoa: Path | None) -> None:
    """A row a stream and learner: AUROC, mean, standard deviation, least and greatest."""
    print("| stream | learner | AUROC | least | greatest |\n|---|---|---|---|---|")
    for name, drift in (("clusters", 0.0), ("moving clusters", 40.0)):
        x, y = stream(n, drift)
        for learner, parameters in OURS:
            rounds = [ours(learner, parameters, x, y, seed) for seed in range(1, seeds + 1)]
            _row(f"{name} | `{learner}` {', '.join(map(str, parameters.values()))}", rounds)
        if capymoa is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "x.npy"
                np.save(path, x)
                rounds = [theirs(capymoa, CAPYMOA, FOREST, path, y, seed) for seed in range(1, seeds + 1)]
            _row(f"{name} | CapyMOA's `online-isolation-forest`", rounds)


def _row(head: str, rounds: list[tuple[float, float]]) -> None:
    areas = np.array([area for _, area in rounds])
    mean = f"{areas.mean():.4f} ± {areas.std(ddof=1):.4f}"
    print(f"| {head} | {mean} | {areas.min():.4f} | {areas.max():.4f} |", flush=True)


def alerts(n: int, seeds: int, share: float) -> None:
    """A row a stream and learner: the rate in all, and the least and greatest of a part but the first; precision and
    recall; and the alerts right after the middle. Of all seeds together."""
    print(
        "| stream | learner | alerts % | least % | greatest % | precision % | recall % "
        f"| of {n // (10 * PARTS):,} after the middle |\n|---|---|---|---|---|---|---|---|"
    )
    for name, drift, jump in (("clusters", 0.0, 0.0), ("moving clusters", 40.0, 0.0), ("a jump", 0.0, JUMP)):
        x, y = stream(n, drift, jump)
        for learner, parameters in OURS[1:]:
            found = np.array([said(scored(learner, parameters, x, seed)[1], share) for seed in range(1, seeds + 1)])
            parts = np.array([[part.mean() for part in np.array_split(one, PARTS)[1:]] for one in found])
            own, named = found[:, y == 1.0], np.broadcast_to(y, found.shape)[found == 1.0]
            middle = found[:, n // 2 : n // 2 + n // (10 * PARTS)].sum(axis=1).mean()
            figures = (100.0 * v for v in (np.nanmean(found), parts.min(), parts.max(), named.mean(), np.nanmean(own)))
            told = ", ".join(map(str, parameters.values()))
            print(f"| {name} | `{learner}` {told} | {' | '.join(f'{v:.2f}' for v in figures)} | {middle:.0f} |")


def said(scores: Floats, share: float) -> Floats:
    """1 of an alert, 0 of none, NaN where there is no threshold."""
    n, threshold = len(scores), Threshold(ALERT_RATE, share, scores=True)
    every = Program(np.zeros(n, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
    threshold.run(every, scores[:, None], decided := np.zeros((n, 2)), 1)
    return decided[:, 0]


def starting(n: int, seeds: int, share: float) -> None:
    """A row a stream and learner: alerts of all of the first predictions, mean and standard deviation, then of those
    that follow, and precision and recall of the same."""
    shown = [f"first {first:,} %" for first in STARTS] + ["after %"]
    shown += [f"precision, recall % of {first:,}" for first in STARTS[1:]] + ["after"]
    print(f"| stream | learner | {' | '.join(shown)} |\n|{'---|' * (2 + len(shown))}")
    streams = (
        ("clusters", lambda seed: stream(n, 0.0, 0.0, seed)),
        ("moving clusters", lambda seed: stream(n, 40.0 * n / 100_000, 0.0, seed)),
        ("a jump", lambda seed: stream(n, 0.0, JUMP, seed)),
        ("a machine", lambda seed: machine(n, seed)),
    )
    last = STARTS[-1]
    for name, make in streams:
        for learner, parameters in OURS[1:]:
            pairs = [(make(seed), seed) for seed in range(1, seeds + 1)]
            found = np.array([said(scored(learner, parameters, x, seed)[1], share) for (x, _), seed in pairs]) == 1.0
            own = np.array([y for (_, y), _ in pairs]) == 1.0
            cells = [
                f"{100.0 * rates.mean():.2f} ± {100.0 * rates.std(ddof=1):.2f}"
                for rates in [*(found[:, :first].mean(axis=1) for first in STARTS), found[:, last:].mean(axis=1)]
            ]
            for part in (*(slice(0, first) for first in STARTS[1:]), slice(last, n)):
                hits = (found & own)[:, part].sum()
                cells.append(
                    f"{100.0 * hits / max(found[:, part].sum(), 1):.0f}, {100.0 * hits / own[:, part].sum():.0f}"
                )
            print(
                f"| {name} | `{learner}` {', '.join(map(str, parameters.values()))} | {' | '.join(cells)} |", flush=True
            )


def jumping(seeds: int) -> None:
    """A row a learner: the AUROC of each part, mean and standard deviation."""
    parts = [(a, b) for a, b in itertools.pairwise(EDGES) if b != JUMP_AT]
    print(f"| learner | {' | '.join(f'{a:,} to {b:,}' for a, b in parts)} |\n|{'---|' * (1 + len(parts))}")
    for learner, parameters in OURS[1:]:
        areas = []
        for seed in range(1, seeds + 1):
            x, y = stream(EDGES[-1], 0.0, JUMP, seed, JUMP_AT)
            scores = scored(learner, parameters, x, seed)[1]
            areas.append([area(scores[a:b], y[a:b], 0) for a, b in parts])
        cells = [f"{one.mean():.3f} ± {one.std(ddof=1):.3f}" for one in np.array(areas).T]
        print(f"| `{learner}` {', '.join(map(str, parameters.values()))} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--capymoa", type=Path, metavar="PYTHON", help="of an environment that has CapyMOA")
    parser.add_argument("--seeds", type=int, help="by so many seeds of the learners")
    parser.add_argument("--alerts", type=float, metavar="RATE", help="what alerts of this rate are")
    parser.add_argument("--start", action="store_true", help="of --alerts, the first predictions")
    parser.add_argument("--jump", action="store_true", help="before and after the clusters jump")
    given = parser.parse_args()
    if given.jump:
        jumping(given.seeds or 10)
        return
    if given.alerts is not None:
        (starting if given.start else alerts)(given.n, given.seeds or 1, given.alerts)
        return
    if given.seeds is not None:
        by_seeds(given.n, given.seeds, given.capymoa)
        return
    river = find_river(given.folder)
    runs: list[tuple[str, dict[str, int], Path | None, str]] = [
        ("half-space-trees", {**size, "window": WINDOW}, river, RIVER) for size in SIZES
    ]
    runs.append(("online-isolation-forest", FOREST, given.capymoa, CAPYMOA))
    print("| stream | learner | ours µs | AUROC | theirs µs | AUROC | times as fast |\n|---|---|---|---|---|---|---|")
    for name, drift in (("clusters", 0.0), ("moving clusters", 40.0)):
        x, y = stream(given.n, drift)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.npy"
            np.save(path, x)
            for learner, parameters, python, script in runs:
                rounds = [
                    (
                        ours(learner, parameters, x, y),
                        (np.nan, np.nan) if python is None else theirs(python, script, parameters, path, y),
                    )
                    for _ in range(given.rounds)
                ]
                mine, other = (statistics.median(one[side][0] for one in rounds) for side in (0, 1))
                ratio = statistics.median(their / own for (own, _), (their, _) in rounds)
                areas = [rounds[0][side][1] for side in (0, 1)]
                told = ", ".join(map(str, parameters.values()))
                print(f"| {name} | `{learner}` {told} | {mine:.1f} | {areas[0]:.4f} | {other:.0f} | {areas[1]:.4f} "
                      f"| {ratio:.0f} |")  # fmt: skip


if __name__ == "__main__":
    with printed("anomaly", "--alerts", "--start", "--jump", "--seeds"):
        main()
