"""What it takes a worker to learn the log that the partitions of a stream share, for each learner at its defaults.

    python -m benchmarks.replica [--data ../shared/data] [--set elec] [--n 20000] [--round 64] [--models a,b]

The first records of a data set go through one partition, in memory, by the workers' own fold from JSON to JSON, in
rounds of 64 with labels a round late. Once it has models of its own: predicting and learning. Once it shares them; what
it joins is a log, which a worker's replica learns a round after the other, and predicts nothing: what every worker
spends on each labelled instance of the stream, whoever predicted it. CPU time of the thread, in turns of 16 rounds for
both, the first tenth of them left out. And how large the model is in the end.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record import printed
from benchmarks.shared_learning import ROOT, fields_of, texts
from benchmarks.tables import NOMINAL, Table, read
from riparian.app.errors import RiparianError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.partition.shared.replica import Replica
from riparian.app.partition.shared.shared_lineup import SharedLineup
from riparian.app.partition.shared.sharing import records
from riparian.app.stream_file.spec import build
from riparian.models.registry import REGISTRY
from riparian.topics.names import CHAMPION, FEATURES, LABELS, LEARNED, PREDICTIONS
from riparian.topics.records import RawBatch
from riparian.topics.training_log import write

TURN = 16  # rounds
TASK = "classification"


class Cost(NamedTuple):
    """Of an instance. whole, replica : microseconds of CPU time, of predicting and learning, and of learning the log.
    state : bytes of the model, in all. sent : bytes of the values of records by topic."""

    whole: float
    replica: float
    state: int
    sent: dict[str, float]


class Partition:
    """A stream's only partition, which joins what comes."""

    def __init__(self, fields: dict[str, Any], learning: str, made: tuple[list[bytes], list[bytes]], size: int) -> None:
        self.spec = build({**fields, "partitions": 1, "learning": learning})
        self.learner = PartitionLearner(self.spec, 0)
        self.learner.warm_up()
        self._merge = PartitionGroup(self.learner.buffers())
        self._made, self._size, self._n_read = made, size, 0
        self.log: list[bytes] = []
        self.n_predicted = self.predicted_bytes = 0

    def step(self, first: int) -> float:
        """Predict the round that begins with this record, and learn the one before; the seconds that it took."""
        for role, column, late in ((FEATURES, self._made[0], 0), (LABELS, self._made[1], self._size)):
            rows = [i for i in range(first - late, first - late + self._size) if 0 <= i < len(column)]
            stamps = [1000 + 10 * (i + late) for i in rows]
            self._merge.buffers[role].add(RawBatch(rows, stamps, [None] * len(rows), [column[i] for i in rows]))
        if LEARNED in self._merge.buffers:
            self._merge.buffers[LEARNED].add(batch(self.log, self._n_read))
            self._n_read = len(self.log)
        began = time.thread_time()
        outcome = self.learner.step(self._merge.release(EVERYTHING))
        encoded = self.learner.encode(outcome)
        places = {role: self.learner.places[role] for role in (FEATURES, LABELS)}
        self.log += [write(one) for joint in outcome.joint for one in records(joint, 0, places, 0)]
        took = time.thread_time() - began
        self.n_predicted += len(encoded)
        self.predicted_bytes += sum(map(len, encoded))
        return took


def batch(log: Sequence[bytes], first: int, last: int | None = None) -> RawBatch:
    values = list(log[first:last])
    return RawBatch(list(range(first, first + len(values))), [0] * len(values), [None] * len(values), values)


def measure(table: Table, made: tuple[list[bytes], list[bytes]], model: str, size: int) -> Cost:
    fields = {**fields_of(table), "champion": model, "drift": "none"}
    alone, shared = (Partition(fields, learning, made, size) for learning in ("partition", "shared"))
    replica = Replica(shared.spec)
    replica.begin(SharedLineup(shared.spec))
    n_rounds = len(made[0]) // size
    whole = learned = 0.0
    n = 0
    for start in range(0, n_rounds, TURN):
        counted = start >= n_rounds // 10
        rounds, cut = range(start, min(start + TURN, n_rounds)), [len(shared.log)]
        took = sum(alone.step(size * i) for i in rounds)
        for i in rounds:
            shared.step(size * i)
            cut.append(len(shared.log))
        began = time.thread_time()
        for first, last in pairwise(cut):
            replica.add(batch(shared.log, first, last))
            replica.advance()
        if counted:
            learned += time.thread_time() - began
            whole += took
            n += size * len(rounds)
    shared.step(len(made[0]) + size)  # what was joined last
    shared.learner.learning.obey_all()
    assert replica.lineup is not None
    assert replica.lineup.digest() == shared.learner.lineup.digest()
    sent = {
        **{role: sum(map(len, column)) / len(column) for role, column in zip((FEATURES, LABELS), made, strict=True)},
        PREDICTIONS: shared.predicted_bytes / shared.n_predicted,
        LEARNED: sum(map(len, shared.log)) / len(made[1]),
    }
    return Cost(1e6 * whole / n, 1e6 * learned / n, alone.learner.n_bytes[CHAMPION], sent)


def main(arguments: Sequence[str] | None = None) -> int:
    known = [name for name, entry in REGISTRY.items() if TASK in entry.tasks]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--set", default="elec", choices=NOMINAL)
    parser.add_argument("--n", type=int, default=20_000, help="records")
    parser.add_argument("--round", type=int, default=64, help="records that are taken at once")
    parser.add_argument("--models", default=",".join(known))
    options = parser.parse_args(arguments)
    table = read(options.data / f"{options.set}.csv.gz", NOMINAL[options.set])
    features, labels = texts(table)
    made = features[: options.n], labels[: options.n]
    sent: dict[str, float] = {}
    print("| learner | predicts and learns | learns the log | share | model |\n|---|---|---|---|---|")
    for model in options.models.split(","):
        try:
            found = measure(table, made, model, options.round)
        except RiparianError as error:
            print(f"{model}: {error}", file=sys.stderr, flush=True)
            continue
        whole, replica, state, sent = found
        print(f"| `{model}` | {whole:.1f} | {replica:.1f} | {replica / whole:.2f} | {state / 1e6:.2f} MB |", flush=True)
    print("bytes of the values of records, an instance:", ", ".join(f"{role} {n:.0f}" for role, n in sent.items()))
    return 0


if __name__ == "__main__":
    with printed("replica"):
        main()
