"""What is lost where a stream is cut into partitions, and what partitions that learn one model keep of it.

    python -m benchmarks.shared_learning [--data ../shared/data] [--sets elec,…] [--partitions 8] [--round 64]

The records of a data set go by in file order, each to a partition that is drawn for it, in rounds of 64; a label comes
as many records after its features. All partitions step in turn, in memory, by the workers' own fold from JSON to JSON;
what they join is learned by the others, and by themselves, from the next round on. Accuracy in percent of all records,
means over the seeds; a record before the first label is wrong. CPU is the time of the whole fold of all partitions, in
one thread, divided by that of one partition. Each partition learns everything: the last column is that of as many
workers together.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import printed
from benchmarks.tables import NOMINAL, Table, read
from riparian.app.errors import RiparianError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.partition.shared.sharing import records
from riparian.app.stream_file.spec import build
from riparian.topics.names import FEATURES, LABELS, LEARNED
from riparian.topics.records import RawBatch
from riparian.topics.training_log import write

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("hoeffding-tree", "adaptive-random-forest")


def texts(table: Table) -> tuple[list[bytes], list[bytes]]:
    """The feature and label records of a data set."""
    features, labels = [], []
    for i, (x, y) in enumerate(zip(table.x.tolist(), table.y.tolist(), strict=True)):
        row = {
            f"f{j}": f"v{int(value)}" if n_values else value
            for j, (value, n_values) in enumerate(zip(x, table.schema.n_values, strict=True))
            if value == value
        }
        features.append(json.dumps({"id": i, "x": row}).encode())
        labels.append(json.dumps({"id": i, "y": f"k{int(y)}"}).encode())
    return features, labels


def fields_of(table: Table) -> dict[str, Any]:
    """Of a stream file for its records."""
    kinds = [{"type": "nominal", "max_values": max(2, k)} if k else "numeric" for k in table.schema.n_values]
    features = {f"f{j}": kind for j, kind in enumerate(kinds)}
    return {"name": "s", "task": "classification", "features": features}


def run(
    table: Table, made: tuple[list[bytes], list[bytes]], model: str, n: int, learning: str, seed: int, size: int
) -> tuple[float, float]:
    """Accuracy in percent, and CPU seconds. n : partitions. size : records of a round."""
    fields = {
        **fields_of(table),
        "partitions": n,
        "learning": learning,
        "champion": model,
        "drift": "none",
        "seed": seed,
    }
    spec = build(fields)
    learners = [PartitionLearner(spec, p) for p in range(n)]
    for learner in learners[:1]:
        learner.warm_up()
    merges = [PartitionGroup(learner.buffers()) for learner in learners]
    where = np.random.default_rng(seed).integers(0, n, len(table.y))
    log, read_to, right = list[bytes](), [0] * n, 0
    at = {(role, p): 0 for role in (FEATURES, LABELS) for p in range(n)}
    seconds = 0.0
    for start in range(0, len(table.y) + size, size):
        came = {
            FEATURES: range(start, min(start + size, len(table.y))),
            LABELS: range(max(0, start - size), min(start, len(table.y))),
        }
        for p, (learner, merge) in enumerate(zip(learners, merges, strict=True)):
            for (role, rows), column in zip(came.items(), made, strict=True):
                mine = [i for i in rows if where[i] == p]
                k, at[role, p] = at[role, p], at[role, p] + len(mine)
                stamps = [1000 + 10 * (i + (size if role == LABELS else 0)) for i in mine]
                merge.buffers[role].add(
                    RawBatch(list(range(k, k + len(mine))), stamps, [None] * len(mine), [column[i] for i in mine])
                )
            if LEARNED in merge.buffers:
                fresh, k, read_to[p] = log[read_to[p] :], read_to[p], len(log)
                merge.buffers[LEARNED].add(
                    RawBatch(list(range(k, k + len(fresh))), [0] * len(fresh), [None] * len(fresh), fresh)
                )
            began = time.thread_time()
            outcome = learner.step(merge.release(EVERYTHING))
            learner.encode(outcome)
            places = {role: learner.places[role] for role in (FEATURES, LABELS)}
            log += [write(one) for joint in outcome.joint for one in records(joint, p, places, 0)]
            seconds += time.thread_time() - began
            assert learner.classes is not None
            found, known = outcome.p["champion"], learner.classes.texts
            for id_, row in zip(outcome.ids, found, strict=True):
                best = int(row.argmax())
                right += bool(row[best] > 0.0) and known[best] == f"k{int(table.y[int(id_)])}"
    return 100.0 * right / len(table.y), seconds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", default=",".join(NOMINAL))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--round", type=int, default=64, help="records of all partitions that are taken at once")
    options = parser.parse_args(arguments)
    n = options.partitions
    print(f"| data set | learner | one partition | {n}, each its own | {n}, shared | CPU own | CPU shared |")
    print("|---|---|---|---|---|---|---|")
    for name in options.sets.split(","):
        table = read(options.data / f"{name}.csv.gz", NOMINAL[name])
        made = texts(table)
        for model in options.models.split(","):
            ways = [(1, "partition"), (n, "partition"), (n, "shared")]
            found = np.array(
                [[run(table, made, model, *way, seed, options.round) for way in ways] for seed in range(options.seeds)]
            )
            accuracy, cpu = found[:, :, 0].mean(0), found[:, :, 1].min(0)
            told = " | ".join(f"{one:.2f}" for one in accuracy)
            print(f"| {name} | {model} | {told} | {cpu[1] / cpu[0]:.2f} | {cpu[2] / cpu[0]:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    try:
        with printed("shared_learning"):
            main()
    except RiparianError as error:
        sys.exit(f"error: {error}")
