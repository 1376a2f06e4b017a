"""The dead letters of a step: records that were rejected, and predictions that their topic does not take."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from riparian.app.partition.outcome import DeadLetter
from riparian.topics.decoding.headers import MOST_TRACE_BYTES
from riparian.topics.names import dead_letter, dead_letter_headers, own_headers
from riparian.topics.places import index_of, offset_of
from riparian.topics.records import MAX_KEY_BYTES, PREDICTION_TOO_LARGE
from riparian.topics.slices import longest

RECORD_BYTES = 200  # that a batch takes besides a key and a value
TRACE_BYTES = 2 * (MOST_TRACE_BYTES + 32)  # of a prediction's headers, at most

NONE: Mapping[str, int] = {}

Written = list[tuple[str, bytes | None]]  # headers of a record that is written


class DeadLetters(NamedTuple):
    """Columns of records, and why each is one."""

    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Written]
    reasons: list[str]


def letters(
    partition: int,
    rejected: Mapping[str, Iterable[DeadLetter]],
    sent: Mapping[str, int],
    room: int,
    bits: Mapping[str, int] = NONE,
) -> DeadLetters:
    """The dead letters that were not sent yet.

    rejected : input topic -> its records, in order. sent : input topic -> next place after its last dead letter.
    room : bytes that Kafka takes in the topic of dead letters. bits : input topic -> of the index in its places.
    """
    made = DeadLetters([], [], [], [])
    for topic, records in rejected.items():
        n_bits = bits.get(topic, 0)
        for one in records:
            if one.offset >= sent.get(topic, 0):
                offset, index = offset_of(one.offset, n_bits), index_of(one.offset, n_bits) if n_bits else None
                about = dead_letter_headers(topic, partition, offset, one.reason, one.detail, index)
                own = own_headers(one.headers)
                taken = RECORD_BYTES + sum(len(name.encode()) + len(text or b"") + 10 for name, text in [*own, *about])
                key, value, sizes = dead_letter(one.key, one.value, room - taken)
                made.keys.append(key)
                made.values.append(value)
                made.headers.append([*own, *about, *sizes])
                made.reasons.append(one.reason)
    return made


class Sendable(NamedTuple):
    """Predictions that their topic takes, and those that it does not, whose instances wait for their labels all the
    same."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes]
    too_large: list[DeadLetter]
    headers: list[Written] | None = None


def sendable(
    offsets: Iterable[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes],
    room: int,
    first: int = 0,
    headers: list[Written] | None = None,
) -> Sendable:
    """The predictions from number `first` on that Kafka takes in a topic where a batch has `room` bytes.

    Those before it were sent already. Their dead letters may not have been, so all that are too large are named.
    headers : trace contexts, of each.
    """
    room -= 0 if headers is None else TRACE_BYTES
    if longest(values) + MAX_KEY_BYTES + RECORD_BYTES <= room:
        return Sendable(keys[first:], values[first:], [], None if headers is None else headers[first:])
    large = [len(value) + len(key or b"") + RECORD_BYTES > room for key, value in zip(keys, values, strict=True)]
    kept = [i for i in range(first, len(values)) if not large[i]]
    detail = "a prediction of {} bytes, of {} that its topic takes"
    rejected = [
        DeadLetter(int(offset), key, None, PREDICTION_TOO_LARGE, detail.format(len(value), room))
        for offset, key, value, is_large in zip(offsets, keys, values, large, strict=True)
        if is_large
    ]
    left = None if headers is None else [headers[i] for i in kept]
    return Sendable([keys[i] for i in kept], [values[i] for i in kept], rejected, left)
