"""Blocks of JSON records: those that the kernel walks, against the decoder of each record. Values, reasons and details,
bit for bit.

The records of a case are alike but for their values, as a program writes them; some are then damaged.
"""

import json
import re
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from riparian.topics.codecs import JsonCodec
from riparian.topics.records import Mapping
from riparian.topics.slices import PADDING, Slices
from tests.fuzz import letters, mutate
from tests.fuzz.decoded import RecordTarget, batch_of, check_same, decode, read, write
from tests.fuzz.mutate import Random, pick
from tests.fuzz.records import STREAMS, stream, valid

_VALUE = re.compile(rb'"[^"\\]*"(?!\s*:)|(?<=[:,\[ ])(?:-?[0-9][0-9.eE+-]*|true|false|null)')
_POWERS = (*range(-25, 26), -400, -345, -324, -308, -307, 300, 308, 309, 400)
_WORDS = (
    *(b"true", b"false", b"null", b"0", b"-0", b"0.0", b"-0.0", b"00", b"01", b"-", b"1.", b".5", b"1e", b"1e+", b"+1"),
    *(b"1E5", b"1e-7", b"0e0", b"0e999999", b"-0e1", b"1e00000000001", b"9007199254740993", b"18446744073709551616"),
    *(b"9223372036854775807", b"999999999999999999", b"-999999999999999999", b"1000000000000000000", b"1.7e308"),
    *(b"1.7976931348623159e308", b"2.2250738585072014e-308", b"5e-324", b"0.000000000000000000000000000001"),
    *(b"NaN", b"Infinity", b"tru", b"nul", b"falsy", b"[]", b"{}", b"[1]", b'""', b'"7"', b'"u"', b'"\xc3\xa9"'),
    *(b'"\\u0061"', b'"a\\"b"', b'"\xff"', b'"\x01"', b'"red"', b'"UP"', b'"2024-05-01"', b'"', b"1 ", b" 1"),
)


def number(rng: Random) -> bytes:
    """A number as one program or another writes it."""
    kind = int(rng.integers(6))
    if kind == 0:
        return repr(float(rng.normal())).encode()
    if kind == 1:
        return str(int(rng.integers(-(10 ** int(rng.integers(1, 18))), 10 ** int(rng.integers(1, 18))))).encode()
    if kind == 2:
        return f"{rng.normal():.{int(rng.integers(1, 21))}f}".encode()
    digits = "".join(map(str, rng.integers(0, 10, int(rng.integers(1, 22))).tolist()))
    if kind == 3:
        return f"{digits}e{pick(rng, _POWERS)}".lstrip("0").encode()
    if kind == 4:  # near half of the distance between two numbers
        whole = (int(rng.integers(2**52, 2**53)) * 2 + 1) << int(rng.integers(0, 9))
        return f"{whole + int(rng.integers(-1, 2))}e{int(rng.integers(-30, 30))}".encode()
    return f"{digits[:3].lstrip('0') or '0'}.{digits}E{int(rng.integers(-30, 30)):+d}".encode()


def _changed(rng: Random, value: bytes) -> bytes:
    """Another value of the kind, or any."""
    if rng.random() < 0.03:
        return pick(rng, _WORDS)
    if value[:1] == b'"':
        return value[:-1] + b"%d" % rng.integers(9) + b'"' if rng.random() < 0.3 else value
    if value in (b"true", b"false", b"null"):
        return pick(rng, (b"true", b"false", b"null", value))
    return number(rng)


def _alike(rng: Random, mapping: Mapping, topic: str) -> Iterator[bytes]:
    """Records that begin as one."""
    style: dict[str, Any] = pick(rng, ({}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 1}))
    data = json.dumps(valid(rng, mapping, topic), **style).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        data = data.replace(b"{", b'{"more": [1, {"deep": "text"}, null, true], ', 1)
    while True:
        yield _VALUE.sub(lambda found: _changed(rng, found[0]), data)


def scattered(values: list[bytes | None]) -> Slices:
    """The values with other bytes between them, such as would go on with what a record ends with."""
    around = cycle([b"", b"9", b'"', b"e5", b"-", b".1", b"}", b"null", b"\\", b" "])
    data, starts, stops = b"", [], []
    for value, more in zip(values, around, strict=False):
        data += more
        starts.append(len(data))
        data += value or b""
        stops.append(-1 if value is None else len(data))
    return Slices(data + next(around) + PADDING, np.array(starts, np.int64), np.array(stops, np.int64))


class Blocks(RecordTarget):
    """A case is a batch of records of one topic in two parts: what the first one teaches counts in the second."""

    seconds, megabytes, budget = 5.0, 300, 100

    def prepare(self) -> None:
        for name in STREAMS:
            JsonCodec(stream(name).mapping()).warm_up()

    def make(self, rng: Random) -> bytes:
        name = pick(rng, tuple(STREAMS))
        topic = "features" if stream(name).topics.labels is None else pick(rng, ("features", "features", "labels"))
        mapping = stream(name).mapping()
        programs = [_alike(rng, mapping, topic) for _ in range(int(rng.integers(1, 4)))]
        share = pick(rng, (0.0, 0.05, 0.5))
        records = []
        for _ in range(int(rng.integers(30, 70))):
            data: bytes | None = next(pick(rng, programs))
            if rng.random() < share:
                data = mutate.of_bytes(rng, data or b"") if rng.random() < 0.95 else pick(rng, (None, b"", b"{}", b"1"))
            key = pick(rng, (None, b"7", b"k", b"\xff")) if rng.random() < 0.1 else b"k%d" % rng.integers(99)
            records.append((key, data, [("ce_id", b"i"), ("n", b"1")]))
        return write(name, topic, records)

    def run(self, case: bytes) -> None:
        name, topic, records, _ = read(case)
        self.n_records += len(records)
        spec = stream(name)
        results = []
        for plain, sliced in ((False, False), (False, True), (True, False)):
            codec, vocabularies, classes = JsonCodec(spec.mapping()), spec.vocabularies(), spec.class_vocabulary()
            found = []
            for reader in codec.readers:
                reader.few = 1 << 60 if plain else 2
            for part in (records[:20], records[20:]):
                batch = batch_of(part)
                if sliced:
                    batch = batch.with_values(scattered(batch.values))  # type: ignore[arg-type]
                found.append(decode(codec, topic, batch, vocabularies, classes))
                letters.check(topic, batch, found[-1].rejected)
            known = [None if v is None else v.state() for v in (*vocabularies, classes)]
            results.append((found, known))
        *blocks, (theirs, known_too) = results
        for ours, known in blocks:
            assert repr(known) == repr(known_too)
            for one, other in zip(ours, theirs, strict=True):
                check_same(one, other)


TARGETS = {"blocks": Blocks()}
