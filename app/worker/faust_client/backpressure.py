"""What a worker has fetched and not learned yet, in records and bytes, and which partitions it stops fetching for it.

Two topics of each partition are read, and one may have to wait for the other. So a full buffer pauses its own partition
of its own topic only, and each keeps a share that the others cannot take from it: half of the bound is divided into
shares, the other half is whoever's comes first. What waits in one topic thus never keeps the other one, for which it
waits, from being fetched, and all of them together stay below the bound, but for one poll (`POLL_PIECES` pieces, and
what came where that is small).
"""

from collections import deque
from collections.abc import Iterable

from faust.types import TP

MAX_RECORDS = 65_536  # of one topic's partition; fetching goes on at half
POLL_PIECES = 4  # that are handed on before it is asked whether to go on: 1 MB each, see unpacking


class _One:
    """Of one topic's partition: fetched pieces, each with the next offset behind it."""

    def __init__(self) -> None:
        self.pieces: deque[tuple[int, int, int]] = deque()
        self.n_records = 0
        self.n_bytes = 0


class Backpressure:
    """What is fetched and not learned yet, of all partitions of a worker.

    Parameters
    ----------
    max_bytes : int
        The bound, of all partitions together.

    Attributes
    ----------
    n_bytes : int
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._of: dict[TP, _One] = {}
        self._paused: set[TP] = set()

    def begin(self, tps: Iterable[TP]) -> None:
        """Partitions are read from some offset on: nothing is held of them, and they are not paused."""
        for tp in tps:
            self._forget(tp)
            self._of[tp] = _One()

    def end(self, tps: Iterable[TP]) -> None:
        """Partitions are not read any more."""
        for tp in tps:
            self._forget(tp)

    def _forget(self, tp: TP) -> None:
        if tp in self._of:
            self.n_bytes -= self._of.pop(tp).n_bytes
            self._paused.discard(tp)

    def bytes_of(self, tp: TP) -> int:
        """Of a topic's partition."""
        one = self._of.get(tp)
        return 0 if one is None else one.n_bytes

    def add(self, tp: TP, next_offset: int, n_records: int, n_bytes: int) -> bool:
        """A piece was fetched; whether to pause its partition now."""
        one = self._of.get(tp)
        if one is None:
            return False
        one.pieces.append((next_offset, n_records, n_bytes))
        one.n_records += n_records
        one.n_bytes += n_bytes
        self.n_bytes += n_bytes
        if tp in self._paused or not self._fuller(one, 1):
            return False
        self._paused.add(tp)
        return True

    def release(self, tp: TP, offset: int) -> list[TP]:
        """What stands before `offset` was learned; the partitions that are to be fetched again."""
        one = self._of.get(tp)
        if one is None:
            return []
        while one.pieces and one.pieces[0][0] <= offset:
            _, n_records, n_bytes = one.pieces.popleft()
            one.n_records -= n_records
            one.n_bytes -= n_bytes
            self.n_bytes -= n_bytes
        if not self._paused:
            return []
        resumed = [tp for tp, one in self._of.items() if tp in self._paused and not self._fuller(one, 2)]
        self._paused.difference_update(resumed)
        return resumed

    def _fuller(self, one: _One, part: int) -> bool:
        """Whether a partition holds at least 1 / part of what it may."""
        room = self.max_bytes / (2 * part)
        records = one.n_records * part >= MAX_RECORDS
        return records or (one.n_bytes >= room / len(self._of) and self.n_bytes >= room)
