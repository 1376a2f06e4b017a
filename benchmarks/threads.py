"""What more cores gain: the same learner on one core and on all that there are, in one process.

    python -m benchmarks.threads [--models tree,arf,auto] [--streams agrawal,rbf] [--step 8000] [--seconds 10]
                                 [--cores 2] [--learn]

Both learn the same programs of test-then-train, --step instances each as a worker cuts them in a backlog, in turn: one,
all; all, one; ... With --learn they learn only, as a replica does (`learning: shared`). Wall clock of each program,
since that is what threads are for, so the cores must be free. If other programs run as well, put `chrt -r 1` before it
(root): otherwise a thread that has work waits some milliseconds for theirs to leave a core. The first quarter of the
time is growth and is left out. The ratio is one's time over that of all, the median of the pairs, with its quartiles;
CPU is what all took together, against one. Predictions must be the same bits.
"""

import argparse
import itertools
import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers import STREAMS, chosen
from benchmarks.record import write
from benchmarks.tables import test_then_train
from riparian.models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from riparian.models.kernels.threads import CREW, n_cores
from riparian.models.registry import create
from riparian.models.streams import EndlessStream

# Name -> model of the registry, parameters.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "tree": ("hoeffding-tree", {}),
    "auto": ("auto", {}),
    "bagging": ("online-bagging", {}),
    "leveraging": ("leveraging-bagging", {}),
    "smooth-boost": ("smooth-boost", {}),
    "online-boosting": ("online-boosting", {}),
    "arf": ("adaptive-random-forest", {}),
    "srp": ("streaming-random-patches", {}),
    "sdf": ("streaming-decision-forest", {}),
    "sdf-100": ("streaming-decision-forest", {"n_trees": 100, "batch_size": 100}),
    "mondrian": ("mondrian-forest", {}),
}
VALUES = ("auto", "bagging", "arf", "srp", "mondrian")  # that do regression, too


class Pair(NamedTuple):
    """Wall-clock and CPU seconds of one program, on one core and on several."""

    wall: tuple[float, float]
    cpu: tuple[float, float]


def timed(cores: int, learner: Learner, program: Program, x: Floats, out: Floats) -> tuple[float, float]:
    CREW.n = cores
    wall, cpu = time.perf_counter(), time.process_time()
    learner.run(program, x, out)
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(
    model: str,
    parameters: dict[str, Any],
    source: EndlessStream,
    step: int,
    seconds: float,
    cores: int,
    only: bool = False,
) -> Any:
    """Pairs of programs until `seconds` of running are over. only : learn, and predict to compare."""
    schema = Schema(source.n_values, source.n_classes or 1, "classification" if source.n_classes else "regression")
    learners = [create(model, schema, seed=1, **parameters) for _ in range(2)]
    outs = [np.zeros((step, schema.n_outputs)) for _ in learners]
    for learner in learners:
        learner.warm_up()
    pairs: list[Pair] = []
    spent = 0.0
    for turn in itertools.count():
        stream = source.take(step)
        program = test_then_train(stream.y)
        if only:
            learns = program.op == LEARN
            program = Program(*(one[learns] for one in program))
        took: list[tuple[float, float]] = [(0.0, 0.0)] * 2
        for k in (0, 1) if turn % 2 == 0 else (1, 0):
            took[k] = timed((1, cores)[k], learners[k], program, stream.x, outs[k])
        if only:
            ask = Program(*(one[program.op == LEARN] for one in program))._replace(op=np.full(step, PREDICT, np.int8))
            for learner, out in zip(learners, outs, strict=True):
                learner.run(ask, stream.x, out)
        if outs[0].tobytes() != outs[1].tobytes():
            raise SystemExit(f"{model}: {cores} cores gave other predictions than one")
        (one, one_cpu), (two, two_cpu) = took
        pairs.append(Pair((one, two), (one_cpu, two_cpu)))
        spent += one + two
        if spent >= seconds and turn >= 8:
            return pairs[len(pairs) // 4 :]


def summary(pairs: list[Pair], step: int) -> dict[str, float]:
    wall, cpu = (np.array([pair[k] for pair in pairs]) for k in (0, 1))
    low, ratio, high = np.quantile(wall[:, 0] / wall[:, 1], [0.25, 0.5, 0.75]).tolist()
    one, two = (step / np.median(wall, axis=0)).tolist()
    more = float(np.median(cpu[:, 1] / cpu[:, 0]))
    return {"one": one, "two": two, "ratio": ratio, "low": low, "high": high, "cpu": more, "programs": len(pairs)}


def shown(report: dict[str, dict[str, Any]]) -> dict[str, list[Any]]:
    """The table of the documentation."""
    heads = ["", "stream", "thousand/s, one core", "two", "ratio, quartiles", "CPU"]
    rows = [
        [
            f"`{MODELS[name.partition(', ')[0]][0]}`",
            name.partition(", ")[2],
            *(f"{each[key] / 1e3:,.{0 if each[key] > 2e4 else 1}f}" for key in ("one", "two")),
            f"{each['ratio']:.2f} ({each['low']:.2f} to {each['high']:.2f})",
            f"{each['cpu']:.2f}",
        ]
        for name, each in report.items()
    ]
    return {"heads": heads, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="tree,arf,auto", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--streams", default="agrawal,rbf", help=f"of {', '.join(STREAMS)}")
    parser.add_argument("--step", type=int, default=8000, help="instances a program")
    parser.add_argument("--seconds", type=float, default=10.0, help="of running, each model and stream")
    parser.add_argument("--cores", type=int, default=n_cores())
    parser.add_argument("--learn", action="store_true", help="learn without predicting")
    options = parser.parse_args()
    models, streams = chosen(parser, options.models, MODELS), chosen(parser, options.streams, STREAMS)
    report = {}
    print(f"{'':25}{'thousand/s':>16}{'ratio':>8}{'quartiles':>14}{'CPU':>7}")
    for name in models:
        for kind in streams:
            source = STREAMS[kind].source(1)
            if source.n_classes == 0 and name not in VALUES:
                continue
            pairs = measure(*MODELS[name], source, options.step, options.seconds, options.cores, options.learn)
            report[f"{name}, {kind}"] = found = summary(pairs, options.step)
            print(
                f"{name:16}{kind:9}{found['one'] / 1e3:8.1f}{found['two'] / 1e3:8.1f}{found['ratio']:8.2f}"
                f"{found['low']:7.2f}{found['high']:7.2f}{found['cpu']:7.2f}",
                flush=True,
            )
    write("threads", {"tables": [shown(report)], "pairs": report})


if __name__ == "__main__":
    main()
