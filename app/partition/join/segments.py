"""How checkpoints store what waits: immutable segments in order of arrival, each with a bitmap of what has left.

What arrived since the last checkpoint and still waits becomes a new segment. What is in a segment already is not
written again. So an instance whose label comes before the next checkpoint is never written, and any other is written
once, unless its segment is rewritten for one of two reasons:

- It is *small*. A slow stream would make thousands of segments with a handful of rows each, and the manifest names all
  of them. When FANOUT segments of one size class (up to 15, 255 or 4,095 rows) are there, the oldest ones are merged.
- It is *thin*: most of its rows have left. When more than half of all written rows have left (and SLACK more), the
  thinnest segments are rewritten, as in Rosenblum, Ousterhout: The design and implementation of a log-structured file
  system. ACM TOCS 10, 1992.

One checkpoint rewrites at most MAX_ROWS rows, or as many as are new. Its time depends on what changed and on the number
of segments, which is at most about 2 rows / SMALL + 48. Segments whose rows have all left are dropped.

A segment is one array of bytes, and so one entry of the manifest: a msgpack header, then one column after the other.
Serial numbers and times are stored as differences, which compress better.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.join.ids import Ints, gathered
from riparian.app.partition.join.waiting import HEAD, HOME, ROW_BITS, ROW_MASK, SERIAL, SINCE, TAIL
from riparian.app.partition.join.waiting_index import WaitingIndex

MAX_ROWS = 16_384  # rows of a segment, at most
SMALL = 4_096  # a segment with fewer rows is merged with others of its size
FANOUT = 16  # how many of them; a power of two
SLACK = 4_096  # rows
HEADER_BYTES = 4
NO_ROWS: Ints = np.zeros(0, np.int64)

Columns = dict[str, NDArray[Any]]
"""Name -> (n, ...) array. `serial`, by which segments are put in order of arrival, is always there."""

Fill = Callable[[WaitingIndex, Ints, Columns, NDArray[np.bool_]], None]


class PendingCheckpoint(NamedTuple):
    """What a checkpoint writes.

    arrays : new or changed.
    kept : names of arrays of earlier checkpoints that have not changed.
    """

    arrays: dict[str, NDArray[Any]]
    kept: list[str]


class _Segment:
    """A segment that was written.

    rows : (n,) int32, the row of each place, -1 where it has left.
    holed : whether its bitmap was written, too.
    """

    def __init__(self, rows: NDArray[np.int32], holed: bool = False) -> None:
        self.rows = rows
        self.n_live = int(np.count_nonzero(rows >= 0))
        self.holed = holed

    @property
    def share(self) -> float:
        return self.n_live / len(self.rows)


class Segments:
    """Segments of one waiting index.

    Parameters
    ----------
    name : str
        Arrays are called `<name>/<number>` and `<name>/<number>/alive`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.next = 0  # number of the next segment
        self._segments: dict[int, _Segment] = {}
        self._outdated = False  # what is written says nothing true any more

    def __len__(self) -> int:
        return len(self._segments)

    def outdate(self) -> None:
        """Write everything anew at the next checkpoint, and nothing of what has left."""
        self._outdated = True

    def checkpoint(
        self, index: WaitingIndex, columns: Callable[[Ints], Columns], again: Ints = NO_ROWS
    ) -> PendingCheckpoint:
        """What changed since the last checkpoint, everything at first. columns : rows -> what is written of them.
        again : rows that are not new, of which it is something else by now, and which have left their homes."""
        segments, arrays = self._segments, dict[str, NDArray[Any]]()
        changed = self._settle(index.leavers())
        fresh = index.fresh()
        chosen = list(segments) if self._outdated else self._chosen(max(MAX_ROWS, len(fresh)))
        anew, self._outdated = [segments.pop(number).rows for number in chosen], False
        kept = []
        for number, segment in segments.items():
            kept.append(self._name(number))
            if number in changed:
                arrays[self._bitmap(number)] = np.packbits(segment.rows >= 0)
                segment.holed = True
            elif segment.holed:
                kept.append(self._bitmap(number))
        rows = np.concatenate([*anew, again]).astype(np.int64)
        rows = rows[rows >= 0]
        rows = rows[np.argsort(index.entries[rows, SERIAL])]
        # Apart from what is new: what has waited for long is likely to go on, and makes segments that stay full.
        for part in (*_parts(rows), *_parts(fresh)):
            arrays[self._name(self.next)] = encode(columns(part))
            self._add(index, self.next, part.astype(np.int32))
            self.next += 1
        return PendingCheckpoint(arrays, kept)

    def restore(
        self, index: WaitingIndex, arrays: Mapping[str, NDArray[Any]], next_serial: int, written: bool, fill: Fill
    ) -> WaitingIndex:
        """The index, filled from the segments in `arrays`, one after the other, where it was empty. written : whether
        they then count as written. fill : is given the index, and for each segment the rows of what is still alive, its
        columns, and (n,) what of them is."""
        numbers = sorted(int(name.rpartition("/")[2]) for name in arrays if _is_segment(name, self.name))
        if numbers and numbers[-1] >= self.next:
            raise ValueError("the numbers of what waits are damaged")
        for number in numbers:
            columns, bitmap = decode(np.asarray(arrays[self._name(number)])), arrays.get(self._bitmap(number))
            n = len(columns["serial"])
            alive = np.ones(n, bool) if bitmap is None else np.unpackbits(np.asarray(bitmap), count=n).astype(bool)
            lengths, text = columns["lengths"].astype(np.int64), columns["ids"]
            starts = np.cumsum(lengths) - lengths
            if not ((lengths >= 0) & (starts <= len(text) - lengths)).all():
                raise ValueError("the ids that wait are damaged")  # a kernel would read anywhere
            index, rows = index.refill(*gathered(text, starts[alive], lengths[alive]), columns["arrived"][alive])
            index.entries[rows, SERIAL] = columns["serial"][alive]
            if written:
                by_place = np.full(n, -1, np.int32)
                by_place[alive] = rows
                self._add(index, number, by_place, holed=bitmap is not None)
            fill(index, rows, columns, alive)
        index = index.in_order(next_serial)
        index.at[SINCE] = index.at[TAIL] if written else index.at[HEAD]
        return index

    def _name(self, number: int) -> str:
        return f"{self.name}/{number}"

    def _bitmap(self, number: int) -> str:
        return f"{self.name}/{number}/alive"

    def _add(self, index: WaitingIndex, number: int, rows: NDArray[np.int32], holed: bool = False) -> None:
        self._segments[number] = _Segment(rows, holed)
        places = np.flatnonzero(rows >= 0)
        index.entries[rows[places], HOME] = (number << ROW_BITS) | places

    def _settle(self, homes: Ints) -> set[int]:
        """Strike out those that have left; the numbers of the segments that changed and are not empty now."""
        numbers, starts = np.unique(homes >> ROW_BITS, return_index=True)
        for number, places in zip(numbers.tolist(), np.split(homes & ROW_MASK, starts[1:]), strict=False):
            segment = self._segments[number]
            segment.rows[places] = -1
            segment.n_live -= len(places)
            if segment.n_live == 0:
                del self._segments[number]
        return set(numbers.tolist()) & self._segments.keys()

    def _chosen(self, budget: int) -> list[int]:
        """Segments to write anew, with at most `budget` rows together."""
        segments = self._segments
        chosen: list[int] = []
        classes: dict[int, list[int]] = {}
        for number, segment in segments.items():
            if len(segment.rows) < SMALL:
                size = (len(segment.rows).bit_length() - 1) // (FANOUT.bit_length() - 1)  # floor(log(rows, FANOUT))
                classes.setdefault(size, []).append(number)
        for numbers in classes.values():
            if len(numbers) >= FANOUT:
                for number in numbers:
                    if segments[number].n_live > budget:
                        break
                    chosen.append(number)
                    budget -= segments[number].n_live
        left = [number for number in segments if number not in set(chosen)]
        written = sum(len(segments[number].rows) for number in left)
        live = sum(segments[number].n_live for number in left)
        for number in sorted(left, key=lambda number: segments[number].share):
            segment = segments[number]
            if written <= 2 * live + SLACK or segment.n_live > budget:
                break
            chosen.append(number)
            budget -= segment.n_live
            written -= len(segment.rows) - segment.n_live
        return chosen


def _parts(rows: Ints) -> Iterator[Ints]:
    for start in range(0, len(rows), MAX_ROWS):
        yield rows[start : start + MAX_ROWS]


def _is_segment(name: str, of: str) -> bool:
    """Whether an array is a segment of the index of this name."""
    kind, _, rest = name.partition("/")
    return kind == of and rest.isdigit()


def encode(columns: Columns) -> NDArray[np.uint8]:
    """Arrays as the bytes of one."""
    header = msgspec.msgpack.encode([[name, c.dtype.newbyteorder("<").str, c.shape] for name, c in columns.items()])
    parts = [len(header).to_bytes(HEADER_BYTES, "little"), header]
    for name, column in columns.items():
        values = np.diff(column, prepend=column.dtype.type(0)) if name in ("serial", "arrived") else column
        parts.append(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes(order="F"))
    return np.frombuffer(b"".join(parts), np.uint8)


def decode(array: NDArray[np.uint8]) -> Columns:
    """What `encode` was given."""
    data = array.tobytes()
    at = HEADER_BYTES + int.from_bytes(data[:HEADER_BYTES], "little")
    columns: Columns = {}
    for name, dtype, shape in msgspec.msgpack.decode(data[HEADER_BYTES:at]):
        n = int(np.prod(shape, dtype=np.int64))
        values = np.frombuffer(data, np.dtype(dtype), n, at).reshape(shape, order="F")
        at += values.nbytes
        columns[name] = np.cumsum(values) if name in ("serial", "arrived") else values
    return columns
