"""What decisions by costs and targets, and weights, do on a stream whose rare class is one instance in 500.

    python -m benchmarks.costs [--seeds 3] [-n 200000] [--models hoeffding-tree ...]
    python -m benchmarks.costs --champions
    python -m benchmarks.costs --speed

First a table of the stream `rare` (`models/streams/generators/rare.py`): recall and precision of the rare class, share
of alerts, AUROC, and the mean cost of 1,000 labels where a missed one costs 20 and a false alarm 1; means and standard
deviations over seeds, without the first quarter of the labels. Then a table of targets over the same stream, at whose
middle the class becomes three times as frequent: the mean, and the least and the greatest share over parts of an eighth
of the labels, of all seeds. Between them: how much of the rare class no threshold names, since its probability is 0.
Decisions do not change what models learn, so each model runs once, and once with weights.

--champions: AUROC and log loss of models over that stream, seed by seed, immediate labels, all of them scored.

--speed: CPU time that a decision adds to a fold of JSON records by a Hoeffding tree, in pairs.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import printed
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import build
from riparian.models.auto.auto import resolve
from riparian.models.contract import LEARN, PREDICT, Floats, Program, Schema
from riparian.models.evaluation.auroc import areas
from riparian.models.evaluation.costs import Costs, Priced
from riparian.models.predictions.calibration import POWERS_WIDTH, Calibration
from riparian.models.predictions.decision import DECIDED_WIDTH, LOWEST, WIDTH, Threshold, by_cost
from riparian.models.registry import create
from riparian.models.streams import Stream
from riparian.models.streams.registry import ConceptDrift, open_source
from riparian.topics.names import INPUTS
from riparian.topics.records import RawBatch

COSTS = np.array([[0.0, 1.0], [20.0, 0.0]])
PRICED = Priced(
    Costs(np.column_stack((COSTS.max(axis=1), COSTS)), np.zeros((2, 3), np.bool_), -1, 20.0), np.zeros((0, 0))
)
WEIGHT = 20.0
TARGETS = (("alert_rate", 0.01), ("recall", 0.8), ("recall", 0.5), ("precision", 0.5))
DELAYS = (0, 2000)
PARTS = 8
RARE = 1.0
LEAST = float(1.0 / (1.0 + np.exp(-(LOWEST + WIDTH))))  # a probability that a threshold can name

CHAMPIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {}),
    ("opinion-pool", {"pool": "linear", "rate": 0.001}),
    ("naive-bayes", {}),
    ("soft-hoeffding-tree", {}),
    ("adaptive-random-forest", {}),
)

Decide = Callable[[Program, Floats, Floats], None]


def program_of(y: Floats, delay: int) -> Program:
    """Each instance predicted, and learned `delay` instances later; the last labels never come."""
    n = len(y)
    op = np.zeros(2 * n - delay, np.int8)
    row = np.zeros(2 * n - delay, np.int32)
    op[:delay], row[:delay] = PREDICT, np.arange(delay)
    op[delay::2], row[delay::2] = PREDICT, np.arange(delay, n)
    op[delay + 1 :: 2], row[delay + 1 :: 2] = LEARN, np.arange(n - delay)
    return Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(len(op)))


def predicted(model: str, stream: Stream, program: Program, weight: float, **parameters: Any) -> Floats:
    """What a model predicts; labels of the rare class count `weight` times in learning."""
    schema = Schema(stream.n_values, 2, "classification")
    name = model
    if model == "auto":
        name, parameters = resolve("classification", stream.n_values, 2, {})[:2]
    learner, out = create(name, schema, seed=1, **parameters), np.zeros((len(stream.y), 2))
    kept = [np.zeros_like(out) for _ in range(learner.n_memos)]
    weighted = program._replace(w=np.where(program.y == RARE, weight, 1.0))
    learner.run_with(weighted, stream.x, out, kept)
    return out


def scaled(out: Floats, program: Program) -> Floats:
    """Calibrated probabilities."""
    found = out.copy()
    Calibration(2, scales=True).run(program, found, np.full((len(out), POWERS_WIDTH), np.nan))
    return found


def likeliest(program: Program, out: Floats, decided: Floats) -> None:
    decided[:, 0] = out.argmax(axis=1)


def cheapest(program: Program, out: Floats, decided: Floats) -> None:
    by_cost(program, out, decided, PRICED)


def at_target(target: str, share: float) -> Decide:
    return lambda program, out, decided: Threshold(target, share).run(program, out, decided, 1)


def named(program: Program, out: Floats, decide: Decide) -> NDArray[np.bool_]:
    """Of which instances the rare class was predicted."""
    decided = np.full((len(out), DECIDED_WIDTH), np.nan)
    decide(program, out, decided)
    alerts: NDArray[np.bool_] = decided[:, 0] == RARE
    return alerts


def figures(alerts: NDArray[np.bool_], y: Floats) -> dict[str, float]:
    own, hits = y == RARE, (alerts & (y == RARE)).sum()
    return {
        "recall": hits / max(own.sum(), 1),
        "precision": hits / max(alerts.sum(), 1),
        "alert_rate": float(alerts.mean()),
        "cost": 1000.0 * float(COSTS[own.astype(int), alerts.astype(int)].mean()),
    }


def decisions() -> Iterator[tuple[str, bool, bool, Decide]]:
    """What it is called, whether with weights, whether calibrated, and how it decides."""
    yield "the likeliest class", False, False, likeliest
    yield f"`class_weights`: {WEIGHT:g}", True, False, likeliest
    yield "`costs`", False, False, cheapest
    yield "`costs`, `calibrated`", False, True, cheapest
    for target, share in TARGETS:
        yield f"`{target}: {share:g}`", False, False, at_target(target, share)
    yield f"`recall: 0.8`, `class_weights`: {WEIGHT:g}", True, False, at_target("recall", 0.8)


def compare(model: str, delay: int, n: int, seeds: int) -> None:
    rows: dict[str, list[list[float]]] = {}
    for seed in range(1, seeds + 1):
        stream = open_source("rare", seed).take(n)
        program, rest = program_of(stream.y, delay), slice(n // 4, None)
        outs = {weighs: predicted(model, stream, program, WEIGHT if weighs else 1.0) for weighs in (False, True)}
        for what, weighs, calibrates, decide in decisions():
            out = scaled(outs[weighs], program) if calibrates else outs[weighs]
            found = figures(named(program, out, decide)[rest], stream.y[rest])
            y = stream.y[rest].astype(np.int64)
            ranked = areas(y, out[rest], np.ones(len(y)))[1]
            shares = (found["recall"], found["precision"], found["alert_rate"])
            rows.setdefault(what, []).append([*(100.0 * share for share in shares), 100.0 * ranked, found["cost"]])
    for what, values in rows.items():
        mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1 if seeds > 1 else 0)
        forms = ("{:.1f}", "{:.1f}", "{:.2f}", "{:.1f}", "{:.1f}")
        cells = " | ".join(f"{f.format(m)} ± {f.format(s)}" for f, m, s in zip(forms, mean, spread, strict=True))
        print(f"| {model} | {delay:,} | {what} | {cells} |", flush=True)


def champions(n: int, seeds: int) -> None:
    print(f"| model | {' | '.join(f'seed {seed}' for seed in range(1, seeds + 1))} |\n|{'---|' * (seeds + 1)}")
    for model, parameters in CHAMPIONS:
        cells = []
        for seed in range(1, seeds + 1):
            stream = open_source("rare", seed).take(n)
            y = stream.y.astype(np.int64)
            out = predicted(model, stream, program_of(stream.y, 0), 1.0, **parameters)
            said = np.where(out.max(axis=1) > 0.0, out[np.arange(n), y], 0.5)  # nothing was said before the first label
            loss = -np.log(np.clip(said, 1e-15, 1.0)).mean()
            cells.append(f"{100 * areas(y, out, np.ones(n))[1]:.1f} ({loss:.4f})")
        said_so = "".join(f", {name}: {value}" for name, value in parameters.items())
        print(f"| `{{model: {model}{said_so}}}` | {' | '.join(cells)} |", flush=True)


def out_of_reach(model: str, delay: int, n: int, seeds: int) -> None:
    """How much of the rare class a model is so sure to be none that no threshold names it."""
    shares = []
    for seed in range(1, seeds + 1):
        stream = open_source("rare", seed).take(n)
        out = predicted(model, stream, program_of(stream.y, delay), 1.0)[n // 4 :]
        shares.append(100.0 * float((out[stream.y[n // 4 :] == RARE, 1] < LEAST).mean()))
    print(f"| {model} | {delay:,} | {min(shares):.1f} | {max(shares):.1f} |", flush=True)


def follow(model: str, delay: int, n: int, seeds: int) -> None:
    reached: dict[tuple[str, float], list[float]] = {}
    whole: dict[tuple[str, float], list[float]] = {}
    for seed in range(1, seeds + 1):
        stream = open_source("rare", seed, {}, [ConceptDrift(n // 2, 0, {"ratio": 0.006})]).take(n)
        program = program_of(stream.y, delay)
        out = predicted(model, stream, program, 1.0)
        for target, share in TARGETS:
            alerts = named(program, out, at_target(target, share))
            parts = np.array_split(np.arange(n), PARTS)[1:]
            told = [100.0 * figures(alerts[part], stream.y[part])[target] for part in parts]
            reached.setdefault((target, share), []).extend(told)
            rest = slice(n // PARTS, None)
            whole.setdefault((target, share), []).append(100.0 * figures(alerts[rest], stream.y[rest])[target])
    for (target, share), values in reached.items():
        digits = 2 if target == "alert_rate" else 1
        mean = f"{np.mean(whole[target, share]):.{digits}f}"
        bounds = f"{min(values):.{digits}f} | {max(values):.{digits}f}"
        print(f"| {model} | {delay:,} | `{target}: {share:g}` | {mean} | {bounds} |", flush=True)


def _folded(decision: dict[str, Any] | None, data: tuple[RawBatch, RawBatch]) -> float:
    """Seconds of CPU."""
    fields = {f"x{j + 1}": "numeric" for j in range(8)}
    file = {"name": "rare", "task": "classification", "features": fields, "champion": "hoeffding-tree"}
    learner = PartitionLearner(build(file | ({} if decision is None else {"decision": decision})))
    learner.warm_up()
    merge = PartitionGroup(learner.buffers(), limit=4096)
    for role, raw in zip(INPUTS, data, strict=True):
        merge.buffers[role].add(raw)
    started = time.process_time()
    while merge.n_waiting:
        learner.encode(learner.step(merge.release(EVERYTHING)))
    return time.process_time() - started


def speed(n: int = 40_000, pairs: int = 7) -> None:
    stream = open_source("rare", 1, {"ratio": 0.02}).take(n)
    rows = zip(stream.x.round(4).tolist(), stream.y.tolist(), strict=True)
    features, labels = [], []
    for i, (x, y) in enumerate(rows):
        features.append(json.dumps({"id": str(i), "x": {f"x{j + 1}": v for j, v in enumerate(x)}}).encode())
        labels.append(json.dumps({"id": str(i), "y": "rare" if y else "usual"}).encode())
    offsets, keys = list(range(n)), [None] * n
    data = (
        RawBatch(offsets, [1000 + i for i in offsets], keys, features),
        RawBatch(offsets, [1040 + i for i in offsets], keys, labels),
    )
    asked: list[dict[str, Any]] = [{"costs": {"rare": {"usual": 20}}}]
    asked += [{"class": "rare", name: share} for name, share in TARGETS if (name, share) != ("recall", 0.8)]
    for decision in (None, *asked):
        _folded(decision, data)
    print("| decision | CPU, of that without | least | most |\n|---|---|---|---|")
    for decision in asked:
        ratios = [_folded(decision, data) / _folded(None, data) for _ in range(pairs)]
        print(f"| `{decision}` | {np.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-n", type=int, default=200_000)
    parser.add_argument("--models", nargs="+", default=["hoeffding-tree", "adaptive-random-forest", "auto"])
    parser.add_argument("--champions", action="store_true")
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    if given.champions:
        champions(given.n // 2, given.seeds)
        return
    if given.speed:
        speed()
        return
    print("| model | labels late | decision | recall % | precision % | alerts % | AUROC % | cost of 1,000 labels |")
    print("|---|---|---|---|---|---|---|---|")
    for model in given.models:
        for delay in DELAYS:
            compare(model, delay, given.n, given.seeds)
    print("\n| model | labels late | target | mean % | least % | greatest % |")
    print("|---|---|---|---|---|---|")
    for model in given.models:
        for delay in DELAYS:
            follow(model, delay, 2 * given.n, given.seeds)
    print("\n| model | labels late | of the rare class out of reach: least % | greatest % |")
    print("|---|---|---|---|")
    for model in given.models:
        for delay in DELAYS:
            out_of_reach(model, delay, given.n, given.seeds)


if __name__ == "__main__":
    with printed("costs", "--champions", "--speed"):
        main()
