"""What `auto` takes and predicts where nominal features have many values: bytes and accuracy.

    python -m benchmarks.many_values [--streams payments,classes,shops] [--megabytes 10,64] [--rows 60000]

Three generated streams: payments of which one in 100 is fraud, at 5,000 merchants in 50 countries of 3 kinds, with six
numbers; 40 classes by a feature of 300 values, one of eight and six numbers; sales at 2,000 shops on seven days, with
five numbers. Each is learned test-then-train by `auto`'s pool in steps, whose vocabularies grow as values come. Three
ways: ten values planned for of each feature, and all seen; with bounds that nobody named; with bounds named as
`riparian init` names them. Bytes are the most that the pool held (models.memory).
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import printed
from benchmarks.tables import test_then_train
from riparian.app.stream_file.draft import most_values
from riparian.models.auto import auto
from riparian.models.auto.values import TEN, Values
from riparian.models.contract import Schema
from riparian.models.entry import CLASSIFICATION, REGRESSION
from riparian.models.memory import live_bytes
from riparian.models.registry import create

STEP, LOOK = 1024, 4096  # operations of a program, and between two looks at the bytes
BOUND = 1000  # of values, where nobody names one
PLANNED = "ten planned, all seen"
WAYS = (PLANNED, "not named", "named")


class Stream(NamedTuple):
    """Rows in order, labels, and how many values each feature has, 0 for a numeric one."""

    x: Any
    y: Any
    n_values: list[int]
    n_classes: int


def drawn(rng: Any, n: int, v: int, skew: float) -> tuple[Any, Any]:
    """n of v values, some more frequent than others, and their codes in the order of first sight."""
    shares = 1.0 / np.arange(1, v + 1) ** skew
    values = rng.choice(v, size=n, p=shares / shares.sum())
    known: dict[int, int] = {}
    return values, np.array([known.setdefault(value, len(known)) for value in values.tolist()], np.float64)


def payments(n: int) -> Stream:
    rng = np.random.default_rng(1)
    (m, merchant), (c, country), (t, kind) = (drawn(rng, n, v, skew) for v, skew in ((5000, 0.8), (50, 0.7), (3, 0.5)))
    amount, hour = rng.lognormal(3, 1, n), rng.integers(0, 24, n).astype(float)
    age, distance, noise, trend = rng.exponential(300, n), rng.exponential(30, n), rng.random(n), rng.normal(size=n)
    z = rng.normal(0, 1.5, 5000)[m] + rng.normal(0, 0.7, 50)[c] + np.array([-0.5, 0.0, 0.8])[t]
    z += 0.8 * (np.log(amount) - 3) + (hour < 6) + 0.5 * np.minimum(distance / 30, 3) - 0.3 * np.log1p(age / 300)
    z += 0.7 * trend * (t == 2)
    low, high = -20.0, 5.0
    for _ in range(60):  # one in 100
        middle = (low + high) / 2
        low, high = (middle, high) if (1 / (1 + np.exp(-(z + middle)))).mean() < 0.01 else (low, middle)
    y = (rng.random(n) < 1 / (1 + np.exp(-(z + low)))).astype(float)
    x = np.column_stack([merchant, country, kind, amount, hour, age, distance, noise, trend])
    return Stream(x, y, [5000, 50, 3, *[0] * 6], 2)


def classes(n: int) -> Stream:
    rng, k = np.random.default_rng(2), 40
    (f, first), (g, second) = drawn(rng, n, 300, 0.5), drawn(rng, n, 8, 0.5)
    numbers = rng.normal(size=(n, 6))
    z = numbers @ rng.normal(0, 1.2, (6, k)) + rng.normal(0, 1.8, (300, k))[f] + rng.normal(0, 0.6, (8, k))[g]
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1).astype(float)
    return Stream(np.column_stack([first, second, numbers]), y, [300, 8, *[0] * 6], k)


def shops(n: int) -> Stream:
    rng = np.random.default_rng(3)
    (s, shop), (d, day) = drawn(rng, n, 2000, 0.7), drawn(rng, n, 7, 0.1)
    numbers = rng.random((n, 5))
    y = rng.lognormal(2, 0.6, 2000)[s] * rng.normal(1, 0.2, 7)[d] * (1 + 0.5 * np.sin(3 * numbers[:, 0]))
    y += 8 * numbers[:, 1] * numbers[:, 2] + rng.normal(0, 1.5, n)
    return Stream(np.column_stack([shop, day, numbers]), y, [2000, 7, *[0] * 5], 1)


SCORES = {"payments": "ROC", "classes": "accuracy", "shops": "error"}
STREAMS: dict[str, Callable[[int], Stream]] = {"payments": payments, "classes": classes, "shops": shops}


def values_by(way: str, n_values: Sequence[int], binary: bool) -> Values:
    few = [min(n, TEN) for n in n_values]
    if way == PLANNED:
        return Values(few)
    if way == "not named":  # those of more than a file without max_values would take count as if it did
        return Values(few, (), {f: max(n, BOUND) for f, n in enumerate(n_values) if n})
    named = {f: most for f, n in enumerate(n_values) if (most := most_values(n)) is not None}
    bounds = {f: BOUND for f, n in enumerate(n_values) if n and f not in named}
    return Values([named.get(f, n) for f, n in enumerate(few)], sorted(named), bounds, binary)


def ranked(y: Any, scores: Any) -> float:
    """The area under the ROC curve."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n = int(y.sum())
    return float((ranks[y == 1].sum() - n * (n + 1) / 2) / (n * (len(y) - n)))


def run(stream: Stream, way: str, megabytes: float) -> tuple[float, float]:
    """Quality of the second half, and MB at most."""
    x, y, n_values, k = stream
    task = REGRESSION if k == 1 else CLASSIFICATION
    chosen = auto.resolve(task, values_by(way, n_values, k <= 2), k, {"max_bytes": int(megabytes * 1e6)})

    def schema_after(n: int) -> Schema:
        """With room for the values of the first n rows."""
        highest = x[:n].max(axis=0)
        return Schema(
            tuple(max(2, 1 << int(highest[f]).bit_length()) if v else 0 for f, v in enumerate(n_values)), k, task
        )

    x = np.ascontiguousarray(x)
    learner = create(chosen.model, schema_after(1), **chosen.parameters)
    learner.warm_up()
    out, program, most = np.zeros((len(y), k)), test_then_train(y), 0
    for at in range(0, len(program.op), STEP):
        schema = schema_after((at + STEP) // 2)
        if schema != learner.schema:
            learner.resize(schema)
        learner.run(program.part(at, at + STEP), x, out)
        if at % LOOK == 0:
            most = max(most, live_bytes(learner))
    half = len(y) // 2
    said, labels = out[half:], y[half:]
    if k == 1:
        quality = float(abs(said[:, 0] - labels).mean())
    else:
        quality = ranked(labels, said[:, 1]) if k == 2 else float((said.argmax(axis=1) == labels).mean())
    return quality, max(most, live_bytes(learner)) / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--megabytes", default="10,64")
    parser.add_argument("--rows", type=int, default=60_000, help="of classes half as many")
    options = parser.parse_args(arguments)
    print("| stream | MB allowed | values | MB at most | second half |\n|---|---|---|---|---|")
    for name in options.streams.split(","):
        stream = STREAMS[name](options.rows // 2 if name == "classes" else options.rows)
        for megabytes in map(float, options.megabytes.split(",")):
            for way in WAYS:
                quality, most = run(stream, way, megabytes)
                print(f"| {name} ({SCORES[name]}) | {megabytes:g} | {way} | {most:,.1f} | {quality:.4f} |", flush=True)


if __name__ == "__main__":
    with printed("many_values"):
        main()
