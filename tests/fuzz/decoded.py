"""Batches of records as cases, and what codecs make of them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from riparian.topics.records import RawBatch
from riparian.topics.slices import Texts
from tests.fuzz import mutate
from tests.fuzz.target import Target
from tests.topics.decoding import raw

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class RecordTarget(Target):
    """A case is a batch of records of one topic of a stream."""

    n_records = 0

    def shrink(self, case: bytes) -> Iterator[bytes]:
        stream, topic, records, more = read(case)
        for fewer in mutate.smaller(records):
            yield write(stream, topic, fewer, **more)
        for i, record in enumerate(records):
            for other in _simpler(record):
                yield write(stream, topic, [*records[:i], other, *records[i + 1 :]], **more)


def _simpler(record: Record) -> Iterator[Record]:
    key, value, headers = record
    for less in mutate.shorter(value or b""):
        yield key, less, headers
    for less in mutate.shorter(key or b""):
        yield less, value, headers
    for j, (name, text) in enumerate(headers):
        yield key, value, [*headers[:j], *headers[j + 1 :]]
        for less in mutate.shorter(text or b""):
            yield key, value, [*headers[:j], (name, less), *headers[j + 1 :]]


def write(stream: str, topic: str, records: Sequence[Record], **more: Any) -> bytes:
    """A case. more : what else belongs to it, as JSON has it."""
    texts = [[_text(key), _text(value), [[h, _text(v)] for h, v in headers]] for key, value, headers in records]
    return json.dumps({"stream": stream, "topic": topic, **more, "records": texts}).encode()


def read(case: bytes) -> tuple[str, str, list[Record], dict[str, Any]]:
    """Stream, topic, records and what else belongs to a case. Those that are older than headers have none."""
    found = json.loads(case)
    records: list[Record] = [
        (_bytes(key), _bytes(value), [(name, _bytes(text)) for name, text in (headers[0] if headers else [])])
        for key, value, *headers in found.pop("records")
    ]
    return found.pop("stream"), found.pop("topic"), records, found


def _text(part: bytes | None) -> str | None:
    return None if part is None else part.decode("latin-1")


def _bytes(part: str | None) -> bytes | None:
    return None if part is None else part.encode("latin-1")


def batch_of(records: Sequence[Record]) -> RawBatch:
    """Records as a codec takes them, at the offsets from 0 on."""
    keys, values, headers = ([record[i] for record in records] for i in range(3))
    return raw(values, headers, keys)  # type: ignore[arg-type]


def decode(codec: Any, topic: str, batch: RawBatch, vocabularies: Any, classes: Any) -> Any:
    """What a codec makes of a batch of features or labels."""
    if topic == "features":
        return codec.decode_features(batch, vocabularies, classes)
    return codec.decode_labels(batch, classes)


def check_same(one: Any, other: Any) -> None:
    """AssertionError where two codecs made something else of the same batch."""
    assert one.rejected == other.rejected, (one.rejected, other.rejected)
    for field in ("position", "ids", "y", "times"):
        # By their texts: NaN is equal to NaN, and -0.0 is not 0.0.
        columns = [getattr(each, field) for each in (one, other)]
        first, second = (list(column) if isinstance(column, Texts) else column for column in columns)
        assert repr(first) == repr(second), field
    if hasattr(one, "x"):
        assert one.x.shape == other.x.shape
        assert one.x.tobytes() == other.x.tobytes(), (one.x, other.x)
        assert (one.sizes is None) == (other.sizes is None)
        assert one.sizes is None or one.sizes.tolist() == other.sizes.tolist()
