"""That each record which is refused becomes one dead letter, as whoever reads that topic finds it: as it came, with its
reason, under the names of Riparian, Kafka Connect and Kafka Streams."""

from collections.abc import Sequence

import numpy as np

from riparian.app.partition.outcome import dead_letters
from riparian.app.partition.records.partition_group import Piece
from riparian.app.worker.task.dead_letters import letters
from riparian.topics.names import (
    CONVENTIONS,
    HEADER_DETAIL,
    HEADER_KEY_SIZE,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_REASON,
    HEADER_SIZE,
    HEADER_TOPIC,
    RESERVED,
)
from riparian.topics.places import index_of, offset_of
from riparian.topics.records import RawBatch, Rejected

_ROOM = 20_000
_NAMES = (HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET, HEADER_REASON, HEADER_DETAIL)


def check(topic: str, batch: RawBatch, rejected: Sequence[Rejected], n_bits: int = 0) -> None:
    """AssertionError where one is missing, or is not what it should be. n_bits : of the index in a place."""
    places = np.array(batch.offsets, np.int64)
    refused = [one for one in rejected if not one.ignored]
    told = dead_letters(list(rejected), Piece(batch, places, np.array(batch.timestamps, np.int64)))
    made = letters(3, {topic: told}, {}, _ROOM, {topic: n_bits})
    assert made.reasons == [one.reason for one in refused]
    for key, value, headers, letter, bad in zip(made.keys, made.values, made.headers, told, refused, strict=True):
        found = dict(headers)
        place = int(places[bad.position])
        about = (topic, 3, offset_of(place, n_bits), bad.reason, bad.detail)
        expected = [str(one).encode() for one in about]
        assert [found[name] for name in _NAMES] == expected
        assert [found[name] for name in CONVENTIONS] == expected * 2
        assert n_bits == 0 or found["riparian-index"] == b"%d" % index_of(place, n_bits)
        own = [one for one in letter.headers if one[0] not in RESERVED]
        assert own == headers[: len(own)] or b"%d" % _size(own) in dict(headers).values()
        for whole, part, size in ((letter.key, key, HEADER_KEY_SIZE), (letter.value, value, HEADER_SIZE)):
            assert part == whole or (
                found[size] == b"%d" % len(whole or b"") and (whole or b"").startswith(part or b"")
            )
        assert len(key or b"") + len(value or b"") + _size(headers) <= _ROOM


def _size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)
