"""Places of instances in an input log: the offset of the Kafka record, and where in it the instance stands.

A place is one integer, `offset << bits | index`, so that places are compared, sorted and searched as offsets are. Of a
format in which a record is an instance, `bits` is 0 and a place is an offset. What comes after the last instance of a
record is the first of the next offset: `next_places`.

Only what speaks to Kafka, or to people, keeps the two apart: fetching, seeking, committing, ends of topics, lag, states
(`feature_offset` and `feature_index`), and the records that are written (`offset` and `index`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Of formats with many instances in a record: a million of them, and offsets up to 2 ** 43.
BITS = 20


class IndexBits(NamedTuple):
    """Bits of the index in the places of each kind of record."""

    features: int = 0
    labels: int = 0

    def of(self, role: str) -> int:
        """Of an input log; 0 of further ones, whose records are one each."""
        found: int = getattr(self, role, 0)
        return found


def place_of(offset: Any, index: Any, bits: int) -> Any:
    """The place of an instance. Of ints, or of arrays."""
    return offset << bits | index


def offset_of(place: Any, bits: int) -> Any:
    """The offset of the record that an instance is in. Of the next place: the record that has to be read for it."""
    return place >> bits if bits else place


def index_of(place: Any, bits: int) -> Any:
    """Which instance of its record, from 0."""
    return place & ((1 << bits) - 1)


def begun(place: int, bits: int) -> int:
    """The offset up to which records were at least begun, where `place` is the next one."""
    return -(-place >> bits)


def next_places(places: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """The place that comes after each of these, consecutive ones of whole records."""
    if not bits or not len(places):
        return places + 1
    offsets = places >> bits
    last = np.append(offsets[1:] != offsets[:-1], True)
    return np.where(last, (offsets + 1) << bits, places + 1)
