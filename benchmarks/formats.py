"""What a feature record costs to decode in each format, beside JSON in the same run.

    python -m benchmarks.formats [--records 4000] [--rounds 5]

The same rows as records of each format and envelope; the columns that are decoded are compared first, bit for bit. Each
format has its turn in each round, and the best of all its turns is shown, since other programs only make a run slower.
Rows of Arrow come 500 to a record; opening the batch counts.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.codec import best
from benchmarks.record import printed
from benchmarks.written import rows_of_arrays, tell
from riparian.app.replay import Schedule, Timeline
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.codecs import CODECS, REGISTERED, JsonCodec
from riparian.topics.names import FEATURES
from riparian.topics.records import RawBatch

ENVELOPES = ("debezium", "connect", "cloudevents")
ALONE = "json, one by one"  # by the decoder alone, as short batches are
WORDS = ["red", "green", "blue", "black"]
STREAMS: dict[str, dict[str, Any]] = {
    "12 numbers": dict.fromkeys((f"f{i}" for i in range(12)), "numeric"),
    "12 numbers, a fifth missing": dict.fromkeys((f"f{i}" for i in range(12)), "numeric"),
    "8 numbers, 2 booleans, 2 words": {
        **dict.fromkeys((f"f{i}" for i in range(8)), "numeric"),
        **dict.fromkeys(("b0", "b1"), "boolean"),
        **dict.fromkeys(("w0", "w1"), "nominal"),
    },
    "the demo's (elec)": {
        **dict.fromkeys(("date", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"), "numeric"),
        "day": "nominal",
    },
}
PACKED = 500


def spec_of(features: dict[str, Any], way: str) -> Spec:
    content: dict[str, Any] = {"name": "s", "task": "classification", "features": features}
    content |= {"champion": "majority-class", "topics": {"features": "f", "labels": "l"}}
    if way in ENVELOPES:
        content |= {"record": {"x": "", "envelope": way}}
    elif way != "json":
        content |= {"codec": {"features": way, "labels": "json", "predictions": "json"}}
    if way in REGISTERED:
        content |= {"registry": {"url": "http://127.0.0.1:1"}}
    return build(content, "s")


def decoder(features: dict[str, Any], way: str, n: int, missing: float) -> tuple[Callable[[], Any], float]:
    """What decodes the rows in a format, and the bytes of a row."""
    spec, rng = spec_of(features, "json" if way == ALONE else way), np.random.default_rng(1)
    tell(spec.schemas, spec.codec.formats(), spec.mapping())
    x = rng.random((n, len(features))).round(6)
    for j, feature in enumerate(spec.features.values()):
        if feature.type != "numeric":
            x[:, j] = rng.integers(0, 2 if feature.type == "boolean" else 4, n)
    x[rng.random(x.shape) < missing] = np.nan
    (rows,) = rows_of_arrays(spec, x, np.zeros(n))
    for name, cells in zip(spec.features, rows.features, strict=True):
        if name in ("w0", "w1"):
            cells[:] = [cell if cell == "null" else f'"{WORDS[int(cell.strip(chr(34)))]}"' for cell in cells]
    timeline = Timeline(spec, Schedule(1_700_000_000_000, 1.0, 0))
    made = timeline.features(rows)
    values: list[bytes] = list(made.values)
    join = getattr(timeline.writer, "join_features", None)
    if join is not None:
        values = [join(values[at : at + PACKED]) for at in range(0, n, PACKED)]
    k, codec, known = len(values), spec.make_codec(), spec.vocabularies()
    codec.warm_up()
    if way == ALONE and isinstance(codec, JsonCodec):
        for reader in codec.readers:
            reader.few = n + 1
    headers = made.headers if made.headers is not None else [[] for _ in rows.ids] if codec.headers.features else None
    batch = RawBatch(list(range(k)), [0] * k, made.keys[:k], values, None if headers is None else list(headers[:k]))
    classes = spec.class_vocabulary()
    return (
        lambda: codec.decode_features(codec.unpack(FEATURES, batch), known, classes),
        sum(map(len, values)) / n,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ways = [*CODECS, ALONE, *ENVELOPES]
    table: dict[str, list[str]] = {way: [] for way in ways}
    for title, features in STREAMS.items():
        made = {way: decoder(features, way, options.records, 0.2 * ("missing" in title)) for way in ways}
        plain = made["json"][0]()
        for way, (decode, _) in made.items():
            found = decode()
            assert found.rejected == [], (way, found.rejected[:3])
            assert found.ids == plain.ids, way
            assert found.x.tobytes() == plain.x.tobytes(), way
        took = dict.fromkeys(ways, np.inf)
        for _ in range(options.rounds):
            for way, (decode, _) in made.items():
                took[way] = min(took[way], best(decode, 5, options.records))
        for way in ways:
            table[way].append(f"{took[way]:.2f} ({took[way] / took['json']:.2f}), {made[way][1]:.0f} bytes")
    print("| | " + " | ".join(STREAMS) + " |")
    print("|---|" + "---|" * len(STREAMS))
    for way, cells in table.items():
        print(f"| `{way}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    with printed("formats"):
        main()
