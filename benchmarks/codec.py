"""The cost of decoding and encoding, in µs per record, beside a floor measured in the same run.

    python -m benchmarks.codec [--records 4000] [--features 10] [--repeat 25]

The floor is `msgspec.json.decode` of the same records into plain dicts: what a program pays before it has looked at
anything. The best of several repetitions is shown, since other programs only ever make a run slower.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from benchmarks.record import printed
from riparian.topics.codecs import JsonCodec
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Feature, Mapping, RawBatch
from riparian.topics.vocabulary import Vocabulary


def best(function: Callable[[], object], repeat: int, n: int) -> float:
    """Microseconds of processor a record of the best of `repeat` calls."""
    seconds = []
    for _ in range(repeat):
        started = time.thread_time()
        function()
        seconds.append(time.thread_time() - started)
    return min(seconds) / n * 1e6


def raw(values: list[bytes]) -> RawBatch:
    n = len(values)
    return RawBatch(list(range(n)), [0] * n, [None] * n, list(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=25)
    options = parser.parse_args()
    n, d, repeat = options.records, options.features, options.repeat

    rng = np.random.default_rng(1)
    names = [f"f{j}" for j in range(d)]
    ids = [f"i{i:07d}" for i in range(n)]
    rows = rng.random((n, d)).round(6).tolist()
    encode = msgspec.json.Encoder().encode
    features = [encode({"id": i, "x": dict(zip(names, row, strict=True))}) for i, row in zip(ids, rows, strict=True)]
    colours = ["red", "green", "blue", "black"]
    mixed = [
        encode({"id": i, "x": dict(zip(names, [*row[:-2], colours[k % 4], colours[k % 3]], strict=True))})
        for k, (i, row) in enumerate(zip(ids, rows, strict=True))
    ]
    labels = [encode({"id": i, "y": ("UP", "DOWN")[k % 2]}) for k, i in enumerate(ids)]

    numeric = Mapping("classification", tuple(Feature(f, "numeric", ("x", f)) for f in names))
    nominal = Mapping(
        "classification",
        tuple(Feature(f, "nominal" if j >= d - 2 else "numeric", ("x", f)) for j, f in enumerate(names)),
    )
    codec, mixed_codec = JsonCodec(numeric), JsonCodec(nominal)
    classes = Vocabulary(100)
    none = [None] * d
    two = [*none[:-2], Vocabulary(1000), Vocabulary(1000)]
    p = rng.random((n, 2))
    p /= p.sum(axis=1, keepdims=True)
    offsets: Any = np.arange(n)
    f_batch, m_batch, l_batch = raw(features), raw(mixed), raw(labels)
    to_dict = msgspec.json.Decoder().decode

    f_floor = best(lambda: list(map(to_dict, features)), repeat, n)
    l_floor = best(lambda: list(map(to_dict, labels)), repeat, n)
    print(f"{n} records, {len(features[0])} and {len(labels[0])} bytes, {d} features; µs per record, best of {repeat}")
    for title, cost, floor in (
        (
            "decode_features, all numeric",
            best(lambda: codec.decode_features(f_batch, none, classes), repeat, n),
            f_floor,
        ),
        (
            "decode_features, 2 nominal",
            best(lambda: mixed_codec.decode_features(m_batch, two, classes), repeat, n),
            f_floor,
        ),
        ("decode_labels", best(lambda: codec.decode_labels(l_batch, classes), repeat, n), l_floor),
    ):
        print(f"{title:32s} {cost:6.3f}   {cost / floor:5.2f} of the floor, {floor:.3f}")
    for title, cost in (
        (
            "encode_predictions, 2 classes",
            best(
                lambda: codec.encode_predictions(
                    PredictionColumns(ids, p, classes, "hoeffding-tree", offsets, offsets)
                ),
                repeat,
                n,
            ),
        ),
        (
            "encode_predictions, y only",
            best(
                lambda: codec.encode_predictions(
                    PredictionColumns(ids, p, classes, "hoeffding-tree", offsets, offsets, probabilities=False)
                ),
                repeat,
                n,
            ),
        ),
        (
            "encode_predictions, 1 challenger",
            best(
                lambda: codec.encode_predictions(
                    PredictionColumns(ids, p, classes, "hoeffding-tree", offsets, offsets, challengers={"nb": p})
                ),
                repeat,
                n,
            ),
        ),
    ):
        print(f"{title:32s} {cost:6.3f}   {cost / f_floor:5.2f} of the floor, {f_floor:.3f}")


if __name__ == "__main__":
    with printed("codec"):
        main()
