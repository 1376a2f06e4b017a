"""Fraud among payments: what features over a key's past bring, beside boosting on windows and River's own loop.

    python -m benchmarks.payments [--seeds 1,2,3] [--n 690000] [--only ours,alone,worker,boosting,river]
    python -m benchmarks.payments chargebacks [--seeds 1] [--n 991351] [--only …]

The payments are `riparian generate payments`, their labels (of both classes) come 7 days late, and the second half is
scored: AUROC, average precision, and the recall where 1 % of the payments are alerts. All costs are CPU time a payment,
with whatever makes its features.

- `ours`: `examples/payments/payments.yaml` as it is, through the code of `riparian evaluate --stream`.
- `alone`: the same file without `keys` and what is made of them.
- `worker`: the same file by a worker, from topics that `riparian replay` filled. Its probabilities have to be those of
  `ours`, to the last digit. Its cost is that of the process, with its start.
- `boosting`: scikit-learn's histogram boosting on columns that pandas makes as the Handbook does: count and mean of a
  card, count and share of fraud of a terminal (as far as labels have come) in windows of 1, 7 and 30 days. Refitted
  each day (--refit DAYS) on all labels that have come so far. `BOOSTING` was the best in average precision of five
  settings, fitted once and scored on seed 1: AUROC .895, and .860 at the library's defaults.
- `river`: River's adaptive random forest in River's own loop (`stream.simulate_qa`), on aggregates by River in windows
  of the same days (`TimeRolling`): sum and mean of a card, and the mean target of a terminal as far as labels have
  come. What was predicted with is kept until its label comes. Of the first seed alone, for it is slow.

`chargebacks` are 250 days of 2,000 cards at 4,000 terminals, whose labels are of fraud alone and come 1 to 60 days
late. `auto` predicts them, and the second 125 days are scored by the truth of all payments; p / rate is the mean
probability beside the share of fraud.

- `silence`: `examples/payments/chargebacks.yaml`, without challengers: silence is taken for ok after 14 days.
- `silence-worker`: the same by a worker, from topics. Its probabilities have to be those of `silence`.
- `at-once`: without `unlabelled`: fraud is learned when its label comes, and all others when they are 60 days old.
- `calibrated`, `matured`: `silence` with `predictions: {calibrated: true}`, and with `{calibrated: matured}`.
- `blocked`: one payment in ten, by chance, is blocked, and its label is null.
- `blocked-as-ok`: no label comes for those that are blocked, so they are taken for ok.

Each figure is written to benchmarks/results/payments.json (or chargebacks.json) when it is there, with the commit that
it is of. What is there of this commit is not run again, so the command goes on where it was ended; what --only leaves
out stays.

`pip install '.[batch,river]' 'pandas>=2.2,<4'` installs what it needs. No extra of Riparian has pandas, for nothing
else here uses it.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import yaml
from aiokafka.structs import TopicPartition

from benchmarks.processes import Child, MeasureError, Worker, cpu_seconds
from benchmarks.record import RESULTS, ROOT, commit, write
from riparian.app.dataset.files.synthetic import Recipe
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.reading import read_to_end
from riparian.app.stream_file.spec import build
from riparian.models.contract import Floats
from riparian.models.streams import Stream
from riparian.models.streams.generators.payments import BEGIN

EXAMPLE = ROOT / "examples" / "payments" / "payments.yaml"
CHARGEBACKS = EXAMPLE.with_name("chargebacks.yaml")
N = {"payments": 690_000, "chargebacks": 991_351}
SEEDS = {"payments": "1,2,3", "chargebacks": "1"}
FEWER = {"customers": 2000, "terminals": 4000, "bad_customers": 1, "bad_terminals": 1}
BLOCKED = 0.1
SCORED_DAYS = (125, 250)
DAY = 86_400.0
DELAY = 7 * DAY
DAYS = (1, 7, 30)
ALERTS = 0.01
MAX_SECONDS = 3600.0
SAME = {"worker": "ours", "silence-worker": "silence"}  # to the last digit
ONCE = ("river",)  # of the first seed alone
SAID = {
    "alone": "the amount alone",
    "ours": "with keys",
    "worker": "with keys, by a worker from Kafka",
    "boosting": "boosting of scikit-learn on windows made by pandas, refitted each day",
    "river": "River's adaptive random forest in its own loop, on its own aggregates in windows",
    "silence": "`is: ok, after: 14d`",
    "silence-worker": "the same by a worker from Kafka",
    "calibrated": "with `predictions: {calibrated: true}`",
    "matured": "with `predictions: {calibrated: matured}`",
    "at-once": "without `unlabelled`: fraud when its label comes, all others after 60 days",
    "blocked": "one payment in ten is blocked, its label is `null`",
    "blocked-as-ok": "the same, and no label comes for it, so that it is taken for `ok`",
}
BOOSTING = {"early_stopping": False, "learning_rate": 0.05, "max_leaf_nodes": 8, "min_samples_leaf": 100}
MEASURES = ("auroc", "average_precision", "recall", "ratio", "log_loss", "microseconds")
HEAD = (
    "| what | seed | AUROC | average precision | recall at 1 % | p / rate | log loss | µs a payment |\n"
    "|---|---|---|---|---|---|---|---|"
)
TIME, CARD, TERMINAL, AMOUNT, LABELLED = range(5)  # columns of the stream


class Found(NamedTuple):
    """scores : of each payment, NaN where there is none. seconds : of CPU."""

    scores: Floats
    seconds: float


def figures(found: Found, fraud: Floats, scored: slice) -> dict[str, float]:
    """Of the payments that are scored."""
    from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

    scores, y = found.scores[scored], fraud[scored]
    alerts = np.argsort(-scores, kind="stable")[: round(ALERTS * len(scores))]
    return {
        "auroc": float(roc_auc_score(y, scores)),
        "average_precision": float(average_precision_score(y, scores)),
        "recall": float(y[alerts].sum() / y.sum()),
        "ratio": float(scores.mean() / y.mean()),
        "log_loss": float(log_loss(y, scores)),
        "microseconds": 1e6 * found.seconds / len(found.scores),
    }


def without_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """What is left of a stream file without keys and what is made of them."""
    features = {name: what for name, what in fields["features"].items() if not isinstance(what, dict) or "type" in what}
    return {name: what for name, what in fields.items() if name != "keys"} | {"features": features}


def written(path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return fields


class _Probability(msgspec.Struct):
    id: str
    p: dict[str, float] | None = None


def evaluated(n: int, fields: dict[str, Any], **setup: Any) -> Found:
    """By `riparian evaluate --stream` of such a file. setup : as `Setup` has it."""
    scores, decode = np.full(n, np.nan), msgspec.json.Decoder(_Probability).decode

    def keep(line: bytes) -> None:
        one = decode(line)
        scores[int(one.id)] = (one.p or {}).get("fraud", 0.0)

    whole = Whole(Setup(stream=build(fields, "the example"), clock="time", **setup))
    start = time.process_time()
    whole.run(lambda _: None, keep)
    return Found(scores, time.process_time() - start)


def worked(recipe: Recipe, fields: dict[str, Any], *timed: str) -> Found:
    """By a worker. timed : options of the replay that say when labels come."""
    scores, decode = np.full(recipe.n, np.nan), msgspec.json.Decoder(_Probability).decode
    made = ["--generate", recipe.name, "-n", str(recipe.n), "--seed", str(recipe.seed), "--time", "time", *timed]
    made += [word for name, value in recipe.parameters.items() for word in ("--set", f"{name}={value}")]

    def keep(_: TopicPartition, records: list[Any]) -> None:
        for record in records:
            one = decode(record.value)
            scores[int(one.id)] = (one.p or {}).get("fraud", 0.0)

    with tempfile.TemporaryDirectory(prefix="payments-") as name:
        folder = Path(name)
        stream = folder / "stream.yaml"
        stream.write_text(yaml.safe_dump(fields, sort_keys=False))
        with LocalBroker(folder / "broker") as local:
            to = ("--broker", local.bootstrap)
            with Child("riparian.app.cli", "replay", str(stream), *made, *to, folder=folder) as replay:
                if replay.process.wait():
                    replay.check()
            with Worker(stream, local.bootstrap, folder) as worker:
                worker.wait_for_instances(recipe.n, MAX_SECONDS)
                seconds = cpu_seconds(worker.pid)
                worker.stop()
            topic = TopicPartition(build(fields, "the example").topics.predictions, 0)
            asyncio.run(read_to_end(Connection(local.bootstrap), {topic: 0}, keep))
    return Found(scores, seconds or np.nan)


def from_table(stream: Stream, labelled: Floats, fraud: Floats, fields: dict[str, Any]) -> Found:
    """An evaluation of payments whose labels come at other times. labelled : NaN where none does."""
    with tempfile.TemporaryDirectory(prefix="payments-") as name:
        path = Path(name) / "payments.csv"
        rows = zip(stream.x[:, :LABELLED].tolist(), labelled.tolist(), fraud.tolist(), strict=True)
        with path.open("w") as file:
            file.write("time,card,terminal,amount,labelled,class\n")
            for (at, card, terminal, amount), due, y in rows:
                label = ("ok", "fraud")[int(y)] if due == due else ""
                file.write(f"{at},v{card:.0f},v{terminal:.0f},{amount},{due if due == due else ''},{label}\n")
        return evaluated(len(fraud), fields, data=path, label_clock="labelled")


def windows(stream: Stream) -> Floats:
    """Columns for the boosting, as the Handbook makes them: amount, then those of the card and of the terminal."""
    import pandas as pd

    x = stream.x
    table = pd.DataFrame(
        {"at": pd.to_datetime(x[:, TIME], unit="s"), "card": x[:, CARD], "terminal": x[:, TERMINAL],
         "amount": x[:, AMOUNT], "fraud": stream.y}
    )  # fmt: skip
    columns = [x[:, AMOUNT]]

    def rolled(key: str, value: str, days: int) -> tuple[Floats, Floats]:
        """Count and sum of each payment's window, in the order of the payments."""
        windowed = table.groupby(key).rolling(f"{days}D", on="at")[value]
        order = np.argsort(table[key].to_numpy(), kind="stable")  # keys by size, each one's payments in their order
        count, total = np.empty(len(table)), np.empty(len(table))
        count[order], total[order] = windowed.count().to_numpy(), windowed.sum().to_numpy()
        return count, total

    for days in DAYS:
        count, total = rolled("card", "amount", days)
        columns += [count, total / count]
    late = rolled("terminal", "fraud", round(DELAY / 86_400))
    for days in DAYS:
        count, fraud = rolled("terminal", "fraud", round(DELAY / 86_400) + days)
        known = count - late[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            columns += [known, (fraud - late[1]) / known]
    return np.column_stack(columns)


def run_boosting(stream: Stream, refit: int) -> Found:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    start = time.process_time()
    x, moments = windows(stream), stream.x[:, TIME]
    n = len(x)
    scores, at = np.full(n, np.nan), n // 2
    while at < n:
        until = int(np.searchsorted(moments, moments[at] + refit * 86_400.0))
        known = int(np.searchsorted(moments, moments[at] - DELAY))
        model = HistGradientBoostingClassifier(**BOOSTING, random_state=1)
        with threadpool_limits(1):  # threads that wait for each other would count
            model.fit(x[:known], stream.y[:known])
        scores[at:until] = model.predict_proba(x[at:until])[:, 1]
        at = until
    return Found(scores, time.process_time() - start)


def run_river(stream: Stream) -> Found:
    from river import feature_extraction, forest, stats, utils
    from river import stream as streams

    rows: Any = [
        ({"at": datetime.fromtimestamp(t, UTC).replace(tzinfo=None), "card": c, "terminal": p, "amount": a}, bool(y))
        for (t, c, p, a, _), y in zip(stream.x.tolist(), stream.y.tolist(), strict=True)
    ]

    def of_windows(make: Callable[[Any], Any], *measures: type) -> list[Any]:
        return [make(utils.TimeRolling(one, timedelta(days))) for days in DAYS for one in measures]

    card = of_windows(lambda how: feature_extraction.Agg("amount", "card", how), stats.Sum, stats.Mean)
    risk = of_windows(lambda how: feature_extraction.TargetAgg("terminal", how), stats.Mean)
    model, kept = forest.ARFClassifier(n_models=10, seed=1), dict[int, dict[str, float]]()
    scores = np.full(len(rows), np.nan)
    start = time.process_time()
    for i, x, y in streams.simulate_qa(rows, "at", timedelta(seconds=DELAY), copy=False):
        if y is None:
            for one in card:
                one.learn_one(x, t=x["at"])
            found = [next(iter(one.transform_one(x).values())) for one in (*card, *risk)]
            kept[i] = {"amount": x["amount"], **{str(j): value for j, value in enumerate(found)}}
            scores[i] = model.predict_proba_one(kept[i]).get(True, 0.0)
        else:
            for one in risk:
                one.learn_one(x, y, t=x["at"])
            model.learn_one(kept.pop(i), y)
    return Found(scores, time.process_time() - start)


PAYMENTS: dict[str, Callable[[Recipe, Stream, int], Found]] = {
    "ours": lambda recipe, stream, refit: evaluated(recipe.n, written(EXAMPLE), recipe=recipe, label_delay=DELAY),
    "alone": lambda recipe, stream, refit: evaluated(
        recipe.n, without_keys(written(EXAMPLE)), recipe=recipe, label_delay=DELAY
    ),
    "worker": lambda recipe, stream, refit: worked(recipe, written(EXAMPLE), "--label-delay", f"{DELAY:.0f}s"),
    "boosting": lambda recipe, stream, refit: run_boosting(stream, refit),
    "river": lambda recipe, stream, refit: run_river(stream),
}


def run_chargebacks(name: str, recipe: Recipe, stream: Stream) -> Found:
    """One of `LATE`. recipe, stream : labels of both classes."""
    fields = written(CHARGEBACKS) | {"challengers": {}}
    late = recipe._replace(parameters={**FEWER, "labels": "fraud"})
    some = late._replace(parameters={**late.parameters, "blocked": BLOCKED})
    if name == "silence-worker":
        return worked(late, fields, "--label-time", "labelled")
    if name == "at-once":
        labelled = late.open().take(late.n).x[:, LABELLED]
        labelled = np.where(np.isnan(labelled), stream.x[:, TIME] + 60 * DAY, labelled)
        return from_table(stream, labelled, stream.y, fields | {"join": {"horizon": "61d", "max_pending": 1_000_000}})
    if name == "blocked-as-ok":
        x = some.open().take(some.n).x
        return from_table(stream, np.where(x[:, LABELLED] == x[:, TIME], np.nan, x[:, LABELLED]), stream.y, fields)
    if name in CALIBRATED:
        fields |= {"predictions": {"calibrated": CALIBRATED[name]}}
    return evaluated(recipe.n, fields, recipe=some if name == "blocked" else late, label_clock="labelled")


CALIBRATED = {"calibrated": True, "matured": "matured"}
LATE = ("silence", "silence-worker", "at-once", *CALIBRATED, "blocked", "blocked-as-ok")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", nargs="?", choices=tuple(N), default="payments")
    parser.add_argument("--seeds", help="of the payments [default: 1,2,3; of chargebacks: 1]")
    parser.add_argument("--n", type=int)
    parser.add_argument("--only", metavar="NAME,…", help="what is run [default: all]")
    parser.add_argument("--refit", type=int, default=1, metavar="DAYS")
    options = parser.parse_args()
    what, n = options.what, options.n or N[options.what]
    names = tuple(PAYMENTS) if what == "payments" else LATE
    seeds = [int(seed) for seed in (options.seeds or SEEDS[what]).split(",")]
    wanted = options.only.split(",") if options.only else names
    path, now = RESULTS / f"{what}.json", {"payments": n, "commit": commit()}
    found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())["figures"]["runs"] if path.exists() else {}
    print(HEAD)
    for seed in seeds:
        recipe = Recipe("payments", n, seed, {} if what == "payments" else FEWER)
        stream = recipe.open().take(n)
        days = (stream.x[:, TIME] - BEGIN) / DAY
        scored = slice(n // 2, n) if what == "payments" else slice(*np.searchsorted(days, SCORED_DAYS).tolist())
        for name in wanted if seed == seeds[0] else [name for name in wanted if name not in ONCE]:
            about = {"seed": seed, **now, **({"refit_days": options.refit} if name == "boosting" else {})}
            runs = {run["seed"]: run for run in found.get(name, [])}
            if not about.items() <= runs.get(seed, {}).items():
                print(f"{datetime.now():%H:%M:%S} {name}, seed {seed} …", file=sys.stderr, flush=True)
                if what == "payments":
                    run = PAYMENTS[name](recipe, stream, options.refit)
                else:
                    run = run_chargebacks(name, recipe, stream)
                digest = hashlib.sha256(run.scores.tobytes()).hexdigest()
                runs[seed] = {**about, **figures(run, stream.y, scored), "sha256": digest}
                found[name] = [runs[seed] for seed in sorted(runs)]
                found = {name: found[name] for name in names if name in found}
                write(what, {"tables": [shown(what, found)], "means": means(found), "runs": found})
            print(row(name, seed, runs[seed]), flush=True)
    for name, mean in means(found).items():
        print(row(name, "mean", mean))
    for one, other in SAME.items():
        digests = {each["seed"]: each["sha256"] for each in found.get(other, []) if now.items() <= each.items()}
        for each in found.get(one, []):
            if now.items() <= each.items() and each["sha256"] != digests.get(each["seed"], each["sha256"]):
                raise MeasureError(f"seed {each['seed']}: probabilities of {one} are not those of {other}")


def means(found: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Over the seeds, of each measure."""
    return {
        name: {key: float(np.mean([one[key] for one in runs])) for key in MEASURES if all(key in one for one in runs)}
        for name, runs in found.items()
    }


def shown(what: str, found: dict[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    """The table of the documentation."""
    measures = ["auroc", "average_precision", "recall", "microseconds" if what == "payments" else "ratio"]
    last, digits = ("CPU a payment, µs", 0) if what == "payments" else ("p / rate", 2)
    rows = [
        [
            SAID[name],
            ", ".join(str(run["seed"]) for run in found[name]),
            *(f"{mean[key]:,.{digits if key == measures[-1] else 3}f}" for key in measures),
        ]
        for name, mean in means(found).items()
    ]
    return {"heads": ["", "seeds", "AUROC", "average precision", "recall at 1 % of alerts", last], "rows": rows}


def row(name: str, seed: object, one: dict[str, float]) -> str:
    return f"| {name} | {seed} | " + " | ".join(f"{one[key]:,.3f}" if key in one else "" for key in MEASURES) + " |"


if __name__ == "__main__":
    main()
