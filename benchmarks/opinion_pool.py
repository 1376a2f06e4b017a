"""Pools of opinions beside every learner that could be a member, with labels at once and late.

    python -m benchmarks.opinion_pool [--data FOLDER] [--delays 0,200] [--rows 10_000] [--seeds 3] [--sets elec,…]
    python -m benchmarks.opinion_pool --auto [--orders file,shuffled]     what `auto` is, in place of the default pool
    python -m benchmarks.opinion_pool --alone --sets day,… --orders file,reversed,sorted --delays 200,2000,block:200
    python -m benchmarks.opinion_pool --leaders --sets day,…        what other causal choices reach, in the same orders
    python -m benchmarks.opinion_pool --change shrubs --sets elec     a pool in which this member comes or goes at half
    python -m benchmarks.opinion_pool --rest 0.005    `auto`, whose members rest below this share of the weight
    python -m benchmarks.opinion_pool --refit [--sets elec,…,waveform]   `auto`, and with one more that is refitted

Each data set goes by in file order (or drawn in another one, the same for all; reversed; or sorted by its labels),
test-then-train; a label comes so many instances after its own, or with `block:200` those of each 200 instances after
the last of them. Figures are accuracy in percent, of abalone and fried the mean absolute error: means over the seeds,
with their standard error. The best single learner is the one whose mean is best, afterwards: nobody knows it
beforehand. With `--auto` the
columns are `auto` by its default budget and by 200 µs, and the best single learner that takes no more than each; every
learner at its defaults. With `--alone` figures are errors: of `auto`, and of each of its members and of the baselines
alone, with the share by which `auto` errs more than the best of these; `day` is a stream whose level leaps in the
evening, 288 instances a day. With `--leaders` they are percent of error more than that of the best of these: of `auto`;
of its members with equal weights; of whoever has erred least by labels whose instances were predicted as late as those
to come, of all labels, of the last thousand or so, and of these if they were known at once; and of `auto`, unless equal
weights or a leader have erred a hundredth less. A second table counts orders and delays that are more than 2 % behind.
With `--change` they are of the second half alone. With `--rest` there are those of the first 2,000 predictions of
another world, too: rows are drawn, and from half way on they come in the order of their labels, so that another member
is right; and CPU time as a multiple of that without rest, the median of pairs. With `--refit` microseconds are those of
the stream's thread, without the fits, which another process makes; sets may be synthetic streams, too, of 40,000
instances.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.frame import spread
from benchmarks.record import printed
from benchmarks.tables import NOMINAL, Table, read
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile
from riparian.app.dataset.files.table import read_table
from riparian.app.errors import RiparianError
from riparian.models.auto.auto import resolve
from riparian.models.contract import LEARN, PREDICT, Floats, Program, Schema
from riparian.models.opinion_pool.entries import MEMBERS
from riparian.models.registry import create
from riparian.models.streams.registry import REGISTRY as SYNTHETIC

ROOT = Path(__file__).resolve().parents[1]
SETS = (*NOMINAL, "fried", "abalone")
# What could be members besides: everything that learns label by label, and takes some seconds.
OTHERS = {
    "classification": (
        *("hoeffding-tree", "hoeffding-adaptive-tree", "extremely-fast-decision-tree", "naive-bayes", "last-label"),
        *("streaming-random-patches", "leveraging-bagging", "online-bagging", "online-boosting", "smooth-boost"),
        *("stochastic-gradient-tree", "soft-tree"),
    ),
    "regression": (
        *("hoeffding-regression-tree", "orto", "streaming-random-patches", "stochastic-gradient-tree"),
        *("soft-hoeffding-tree", "last-label"),
    ),
}
REFIT: dict[str, Any] = {"model": "xgboost", "window": 20_000, "refit_every": 2000}
N_GENERATED = 40_000
N_OF_DAYS, DAY = 10_000, 288
LEAST = 30  # labels from which on a leader is named
BUDGETS = (100.0, 200.0)  # microseconds of `auto`
RULES = {"classification": ("logarithmic", "linear", "leader"), "regression": ("linear", "leader")}


def late(table: Table, delay: int | str) -> Program:
    """PREDICT each row in order, and LEARN the one that came `delay` rows before; by "block:N" each block of N rows
    after its last one."""
    n, by = len(table.y), int(str(delay).removeprefix("block:"))
    at = np.arange(n)
    comes = (at // by + 1) * by - 1 if str(delay).startswith("block:") else at + by
    when = np.concatenate([2 * at, 2 * comes + 1])
    kept = np.flatnonzero(when < 2 * n)
    order = kept[np.argsort(when[kept], kind="stable")]
    op = np.where(order < n, PREDICT, LEARN).astype(np.int8)
    row = (order % n).astype(np.int32)
    return Program(op, row, np.where(op == LEARN, table.y[row], np.nan), np.ones(len(op)))


def quality(table: Table, out: Floats) -> float:
    """Percent that were right, or the mean absolute error; who knew nothing was wrong, or is left out."""
    if table.schema.task == "regression":
        return float(np.nanmean(np.abs(out[:, 0] - table.y)))
    return 100.0 * float(((out.argmax(1) == table.y) & (out.max(1) > 0.0)).mean())


def pooled(table: Table, program: Program, rule: str, seed: int) -> dict[str, float]:
    """Quality of the pool (under its rule's name) and of each default member alone."""
    pool = create("opinion-pool", table.schema, seed=seed, pool=rule)
    pool.warm_up()
    out = np.zeros((len(table.y), table.schema.n_outputs))
    kept = [np.full_like(out, np.nan) for _ in range(pool.n_memos)]
    pool.run_with(program, table.x, out, kept)
    votes = [np.where(np.isinf(one), np.nan, one) for one in kept]
    alone = {name: quality(table, one) for name, one in zip(MEMBERS[table.schema.task], votes, strict=True)}
    return {**alone, rule: quality(table, out)}


def answers(table: Table, program: Program, model: str, seed: int) -> Floats:
    """What a learner alone predicts of each row."""
    learner = create(model, table.schema, seed=seed)
    learner.warm_up()
    out = np.zeros((len(table.y), table.schema.n_outputs))
    learner.run(program, table.x, out)
    return out


def singles(task: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every learner at its defaults, and the pool's members, by their names here."""
    pool = {name: {"model": said} if isinstance(said, str) else said for name, said in MEMBERS[task].items()}
    own = {name: (said["model"], {k: v for k, v in said.items() if k != "model"}) for name, said in pool.items()}
    return own | {name: (name, {}) for name in OTHERS[task]}


def timed(table: Table, program: Program, model: str, parameters: dict[str, Any], seed: int) -> tuple[float, float]:
    """Quality of a model alone, and its microseconds an instance."""
    learner = create(model, table.schema, seed=seed, **parameters)
    learner.warm_up()
    out = np.zeros((len(table.y), table.schema.n_outputs))
    kept = [np.full_like(out, np.nan) for _ in range(learner.n_memos)]
    began = time.thread_time()
    learner.run_with(program, table.x, out, kept)
    return quality(table, out), 1e6 * (time.thread_time() - began) / len(table.y)


def row_of_auto(table: Table, delay: str, seeds: int) -> dict[str, Any]:
    """Cells by columns."""
    task, program = table.schema.task, late(table, delay)
    sign, digits = (-1.0, 3) if task == "regression" else (1.0, 2)
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(1, seeds + 1):
        for name, (model, parameters) in singles(task).items():
            found.setdefault(name, []).append(timed(table, program, model, parameters, seed))
    cells = {}
    for budget in BUDGETS:
        resolved = resolve(task, table.schema.n_values, table.schema.n_outputs, {"max_microseconds": budget})
        took = [timed(table, program, resolved.model, resolved.parameters, seed) for seed in range(1, seeds + 1)]
        fitting = {name: each for name, each in found.items() if min(us for _, us in each) <= budget}
        best = max(fitting, key=lambda name: sign * float(np.mean([value for value, _ in fitting[name]])))
        cells[f"auto, {budget:.0f} µs"] = spread([value for value, _ in took], digits)
        cells[f"best that fits {budget:.0f} µs"] = f"{spread([v for v, _ in fitting[best]], digits)} ({best})"
        cells[f"µs of {budget:.0f}"] = f"{min(us for _, us in took):.0f}"
    return cells


def in_order(table: Table, order: str) -> Table:
    """file, shuffled, reversed or sorted."""
    n = len(table.y)
    rows = {
        "file": np.arange(n),
        "shuffled": np.random.default_rng(7).permutation(n),
        "reversed": np.arange(n)[::-1],
        "sorted": np.argsort(table.y, kind="stable"),
    }[order]
    return table._replace(x=np.ascontiguousarray(table.x[rows]), y=table.y[rows])


def voted(table: Table, program: Program, seed: int) -> tuple[Floats, dict[str, Floats]]:
    """What `auto` predicts, and what each of its members and of the baselines does alone."""
    schema = table.schema
    resolved = resolve(schema.task, schema.n_values, schema.n_outputs, {})

    def run(parameters: dict[str, Any]) -> tuple[Floats, list[Floats]]:
        pool = create(resolved.model, schema, seed=seed, **parameters)
        out = np.zeros((len(table.y), schema.n_outputs))
        kept = [np.full_like(out, np.nan) for _ in range(pool.n_memos)]
        pool.run_with(program, table.x, out, kept)
        return out, [np.where(np.isinf(one), np.nan, one) for one in kept]

    out, kept = run(resolved.parameters)
    if "rest_below" in resolved.parameters:  # who rests is not asked
        kept = run({**resolved.parameters, "rest_below": 0.0})[1]
    votes = dict(zip(resolved.parameters["members"], kept, strict=True))
    for model in ("last-label", "mean" if schema.task == "regression" else "majority-class"):
        votes[model] = answers(table, program, model, seed)
    return out, votes


def row_of_alone(table: Table, delay: str, seeds: int) -> dict[str, Any]:
    """Cells by columns."""
    digits = 3 if table.schema.task == "regression" else 2
    found: dict[str, list[float]] = {}
    for seed in range(1, seeds + 1):
        out, votes = voted(table, late(table, delay), seed)
        for name, one in {"auto": out, **votes}.items():
            value = quality(table, one)
            found.setdefault(name, []).append(value if table.schema.task == "regression" else 100.0 - value)
    means = {name: float(np.mean(values)) for name, values in found.items()}
    auto = means.pop("auto")
    best = min(means, key=means.__getitem__)
    return {
        "`auto`": f"{auto:.{digits}f}",
        "best alone": f"{means[best]:.{digits}f} ({best})",
        "more, %": f"{100.0 * (auto / means[best] - 1.0):+.1f}",
        "alone": ", ".join(f"{name} {value:.{digits}f}" for name, value in means.items()),
    }


def losses(table: Table, out: Floats) -> Floats:
    """Of each prediction: the absolute error, or 1 where it was wrong; NaN, or 1, where nothing was known."""
    if table.schema.task == "regression":
        return np.abs(out[:, 0] - table.y)
    return 1.0 - ((out.argmax(1) == table.y) & (out.max(1) > 0.0))


def followed(
    program: Program, known: NDArray[np.bool_], first: Floats, others: Floats, fading: float, better: float
) -> Floats:
    """The losses of who predicts as the one of `others` does that has lost the least, by predictions whose labels have
    come, if that is less than `better` times what `first` has lost; else, and before LEAST labels, as `first` does.

    known : (rows,), instances of which something was known when they were predicted. first : (rows,) losses; others :
    (who, rows).
    """
    sums, base, n, now, found = np.zeros(len(others)), 0.0, 0, first, np.zeros(len(first))
    for op, row in zip(program.op.tolist(), program.row.tolist(), strict=True):
        if op == PREDICT:
            found[row] = now[row]
        elif known[row] and not np.isnan(others[:, row]).any():
            sums, base, n = fading * sums + others[:, row], fading * base + first[row], n + 1
            leader = int(sums.argmin())
            now = others[leader] if n >= LEAST and sums[leader] < better * base else first
    return found


def row_of_leaders(table: Table, delay: str, seed: int) -> dict[str, Any]:
    """Percent of error more than that of the best alone, by columns."""
    program = late(table, delay)
    out, votes = voted(table, program, seed)
    resolved = resolve(table.schema.task, table.schema.n_values, table.schema.n_outputs, {})
    pool = create(resolved.model, table.schema, seed=seed, **{**resolved.parameters, "rate": 0.0})
    even = np.zeros_like(out)
    pool.run_with(program, table.x, even, [np.full_like(out, np.nan) for _ in range(pool.n_memos)])
    own, evenly = losses(table, out), losses(table, even)
    alone = np.array([losses(table, one) for one in votes.values()])
    known = ~np.isnan(own) if table.schema.task == "regression" else out.max(1) > 0.0
    best = alone[int(np.nanmean(alone, axis=1).argmin())]
    ways = {
        "`auto`": own,
        "equal weights": evenly,
        "leader": followed(program, known, own, alone, 1.0, np.inf),
        "leader, faded": followed(program, known, own, alone, 0.999, np.inf),
        "leader, faded, were labels known at once": followed(late(table, 0), known, own, alone, 0.999, np.inf),
        "`auto` or equal weights": followed(program, known, own, evenly[None], 0.9998, 0.99),
        "`auto` or leader": followed(program, known, own, alone, 0.9998, 0.99),
    }
    judged = np.flatnonzero((program.op != PREDICT) & known[program.row])  # labels of what something was known of
    since = program.row[: judged[0]][program.op[: judged[0]] == PREDICT].max() + 1 if len(judged) else len(table.y)
    early = 100.0 * np.nansum((own - best)[:since]) / np.nansum(best)
    cells = {name: f"{100.0 * (np.nansum(one) / np.nansum(best) - 1.0):+.1f}" for name, one in ways.items()}
    return cells | {"of that before a label judges a late vote": f"{early:+.1f}"}


def counted(more: Sequence[float]) -> str:
    """How many orders and delays, of how many, are more than 2 % behind; the mean of what they are behind, or 0."""
    return f"{sum(one > 2.0 for one in more)} of {len(more)}, {np.mean(np.maximum(more, 0.0)):.1f}"


def row_of(table: Table, delay: str, seeds: int) -> dict[str, Any]:
    """Cells by columns."""
    task, program = table.schema.task, late(table, delay)
    found: dict[str, list[float]] = {}
    for seed in range(1, seeds + 1):
        for rule in RULES[task]:
            for name, value in pooled(table, program, rule, seed).items():
                if name in RULES[task] or rule == RULES[task][0]:
                    found.setdefault(name, []).append(value)
        for model in OTHERS[task]:
            found.setdefault(model, []).append(quality(table, answers(table, program, model, seed)))
    sign = -1.0 if task == "regression" else 1.0
    best = max((name for name in found if name not in RULES[task]), key=lambda name: sign * np.mean(found[name]))
    digits = 3 if task == "regression" else 2
    return {
        "forest": spread(found["forest"], digits),
        "best single learner": f"{spread(found[best], digits)} ({best})",
        **{rule: spread(found[rule], digits) if rule in found else "" for rule in RULES["classification"]},
    }


CHANGES: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {  # of the member, and from half way on
    "from the start": ({}, {}),
    "added at half": (None, {}),
    "frozen at half": ({}, {"frozen": True}),
    "dropped at half": ({}, None),
    "without": (None, None),
}


def second_half(table: Table, program: Program, member: str, how: str, seed: int) -> float:
    """Quality there of the default pool, whose member is there, or changes, as CHANGES has it."""
    task = table.schema.task
    every = {name: {"model": said} if isinstance(said, str) else said for name, said in MEMBERS[task].items()}
    rest = {name: said for name, said in every.items() if name != member}
    out, pool, kept = np.zeros((len(table.y), table.schema.n_outputs)), None, dict[str, Floats]()
    half = int(np.flatnonzero((program.op == PREDICT) & (program.row == len(table.y) // 2))[0])
    for more, part in zip(CHANGES[how], (program.part(0, half), program.part(half)), strict=True):
        members = rest if more is None else {**rest, member: {**every[member], **more}}
        made = create("opinion-pool", table.schema, seed=seed, members=members)
        if pool is not None:
            made.restore(made.adapted(pool.parameters(), pool.state()._asdict()))
        pool, kept = made, {name: kept.get(name, np.full_like(out, np.nan)) for name in members}
        pool.run_with(part, table.x, out, list(kept.values()))
    rows = np.arange(len(table.y) // 2, len(table.y))
    return quality(table._replace(y=table.y[rows]), out[rows])


def row_of_changes(table: Table, delay: str, seeds: int, member: str) -> dict[str, Any]:
    """Cells by columns."""
    program, digits = late(table, delay), 3 if table.schema.task == "regression" else 2
    each = {how: [second_half(table, program, member, how, seed) for seed in range(1, seeds + 1)] for how in CHANGES}
    return {how: spread(values, digits) for how, values in each.items()}


def in_order_from_half(table: Table) -> Table:
    """Drawn, and from half way on in the order of the labels."""
    drawn, half = in_order(table, "shuffled"), len(table.y) // 2
    order = np.concatenate([np.arange(half), half + np.argsort(drawn.y[half:], kind="stable")])
    return drawn._replace(x=np.ascontiguousarray(drawn.x[order]), y=drawn.y[order])


def row_of_rest(table: Table, delay: str, seeds: int, below: float) -> dict[str, Any]:
    """Cells by columns."""
    schema, program, digits = table.schema, late(table, delay), 3 if table.schema.task == "regression" else 2
    resolved = resolve(schema.task, schema.n_values, schema.n_outputs, {})
    other, half = in_order_from_half(table), len(table.y) // 2
    after = np.arange(half, min(half + 2000, len(table.y)))
    ways = {
        name: {**resolved.parameters, "rest_below": least} for name, least in (("all run", 0.0), ("some rest", below))
    }
    pairs = [
        [timed(table, program, resolved.model, parameters, seed) for parameters in ways.values()]
        for seed in range(1, seeds + 1)
    ]
    cells = {name: spread([pair[i][0] for pair in pairs], digits) for i, name in enumerate(ways)}
    cells["CPU, of that where all run"] = f"{np.median([rest[1] / run[1] for run, rest in pairs]):.2f}"
    for name, parameters in ways.items():
        found = []
        for seed in range(1, seeds + 1):
            learner = create(resolved.model, schema, seed=seed, **parameters)
            out = np.zeros((len(other.y), schema.n_outputs))
            kept = [np.full_like(out, np.nan) for _ in range(learner.n_memos)]
            learner.run_with(late(other, delay), other.x, out, kept)
            found.append(quality(other._replace(y=other.y[after]), out[after]))
        cells[f"after a change, {name}"] = spread(found, digits)
    return cells


def row_of_refit(table: Table, delay: str, seeds: int) -> dict[str, Any]:
    """Cells by columns."""
    schema, program, digits = table.schema, late(table, delay), 3 if table.schema.task == "regression" else 2
    cells = {}
    for name, members in (("auto", {}), ("with one that is refitted", {"refit": REFIT})):
        resolved = resolve(schema.task, schema.n_values, schema.n_outputs, {"members": members})
        took = [timed(table, program, resolved.model, resolved.parameters, seed) for seed in range(1, seeds + 1)]
        cells[name] = spread([value for value, _ in took], digits)
        cells[f"µs, {name}"] = f"{min(us for _, us in took):.0f}"
    model = {key: value for key, value in REFIT.items() if key != "model"}
    took = [timed(table, program, REFIT["model"], model, seed) for seed in range(1, seeds + 1)]
    cells["refitted alone"] = spread([value for value, _ in took], digits)
    return cells


def table_of(name: str, folder: Path) -> Table:
    """A data set, or a synthetic stream."""
    if name == "day":
        rng, at = np.random.default_rng(0), np.arange(N_OF_DAYS)
        x = rng.normal(size=(N_OF_DAYS, 5))
        y = np.where(at % DAY > 0.75 * DAY, 110.0, 35.0) + x[:, :2] @ [5.0, 3.0] + rng.normal(0.0, 6.0, N_OF_DAYS)
        return Table(Schema((0,) * 5, 1, "regression"), x, y)
    if name in SYNTHETIC:
        rows = read_table(SyntheticFile(Recipe(name, N_GENERATED, 1)))
        return Table(rows.schema, np.ascontiguousarray(rows.x), rows.y)
    return read(folder / f"{name}.csv.gz", NOMINAL.get(name, ()), "classification" if name in NOMINAL else "regression")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("RIPARIAN_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=default, help="folder of elec.csv.gz, …; or RIPARIAN_DATA")
    parser.add_argument("--sets", default=",".join(SETS), help="data sets, separated by commas")
    parser.add_argument("--delays", default="0,200", help="instances that labels come late, or block:200")
    parser.add_argument("--orders", default="file", help="file, shuffled, reversed, sorted")
    parser.add_argument("--rows", type=int, help="the first rows of each data set alone")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--auto", action="store_true", help="what `auto` is, beside single learners that take as long")
    parser.add_argument("--alone", action="store_true", help="errors of `auto`, its members and baselines")
    parser.add_argument("--leaders", action="store_true", help="what other causal choices reach, beside the best alone")
    parser.add_argument("--change", metavar="MEMBER", help="a default member that comes or goes at half")
    parser.add_argument("--rest", type=float, metavar="SHARE", help="`auto`, whose members rest below this share")
    parser.add_argument("--refit", action="store_true", help="`auto`, and with one more member, which is refitted")
    options = parser.parse_args(arguments)
    try:
        tables = {name: table_of(name, options.data) for name in options.sets.split(",")}
    except RiparianError as error:
        sys.exit(f"opinion_pool: {error}")
    columns: list[str] = []
    told: dict[str, list[dict[str, Any]]] = {}
    for order, delay in product(options.orders.split(","), options.delays.split(",")):
        for name, given in tables.items():
            first = given._replace(x=given.x[: options.rows], y=given.y[: options.rows])
            table = in_order(first, order)
            cells = {"order": order, "labels late by": delay, "data": name}
            if options.change:
                cells |= row_of_changes(table, delay, options.seeds, options.change)
            elif options.alone:
                cells |= row_of_alone(table, delay, options.seeds)
            elif options.leaders:
                cells |= row_of_leaders(table, delay, 1)
                told.setdefault(table.schema.task, []).append(cells)
            elif options.refit:
                cells |= row_of_refit(table, delay, options.seeds)
            elif options.rest is not None:
                cells |= row_of_rest(table, delay, options.seeds, options.rest)
            else:
                cells |= (row_of_auto if options.auto else row_of)(table, delay, options.seeds)
            if not columns:
                columns = list(cells)
                print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
            print("| " + " | ".join(cells.values()) + " |", flush=True)
    if told:
        print(
            "\n| | "
            + " | ".join(f"{task}: more than 2 %, mean excess" for task in told)
            + " |"
            + "\n|---"
            + "|---" * len(told)
            + "|"
        )
        for name in columns[3:]:
            print(
                f"| {name} | "
                + " | ".join(counted([float(cells[name]) for cells in each]) for each in told.values())
                + " |"
            )


if __name__ == "__main__":
    with printed("opinion_pool", "--auto", "--alone", "--leaders", "--change", "--rest", "--refit"):
        main()
