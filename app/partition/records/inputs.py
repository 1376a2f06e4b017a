"""Whether the input topics still hold what a partition's state was learned from, and the records that come next. Pure.

Kafka deletes records when their time has come, whether or not somebody has read them; and a topic can be deleted and
created again under its name. Both look like offsets that do not fit. The first is a *gap*: records that nobody will
ever see; the stream file says what to do about it (`lost`). The second would mix two streams in one model, so it is
refused. Where offsets alone do not tell, a *mark* does: a hash of the last record taken, to be compared with the record
that stands at its offset now.
"""

import hashlib
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from riparian.app.errors import StateError

STOP, SKIP = "stop", "skip"

RECREATED = (
    "the topic was deleted and created again, lost its end, or is another cluster's; give the stream a new name, or "
    "import a state that was learned from it"
)


class Mark(NamedTuple):
    """A record that was taken.

    offset, timestamp : its own
    digest : of its key and value
    """

    offset: int
    timestamp: int
    digest: bytes


def mark(offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> Mark:
    """The mark of a record."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (key, value):
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return Mark(offset, timestamp, digest.digest())


class Lost(NamedTuple):
    """What a topic has lost for a partition's state.

    n : records since the stream began
    stop : offset after the last of them, from which on records are taken
    """

    n: int
    stop: int


class Gaps:
    """What the input topics of a partition have lost, by role.

    lost : all that is known of. Some of it may lie ahead: after records that were fetched and not taken yet.
    """

    def __init__(self, lost: Mapping[str, Lost]) -> None:
        self.lost = dict(lost)
        self._ahead: dict[str, deque[tuple[int, Lost]]] = {}  # where gaps begin, and what was lost before each

    def n(self, role: str) -> int:
        return self.lost[role].n if role in self.lost else 0

    def skip(self, role: str, start: int, stop: int) -> None:
        """The topic does not hold offsets start to stop any more; what follows was fetched."""
        before = self.lost.get(role, Lost(0, 0))
        self._ahead.setdefault(role, deque()).append((start, before))
        self.lost[role] = Lost(before.n + stop - start, stop)

    def behind(self, taken: Mapping[str, int]) -> dict[str, Lost]:
        """What was lost of the records below the next offsets `taken`.

        No more must stand in a checkpoint: the records before a gap that lies ahead are in memory only, and gone from
        the topic, so if we end here they are lost as well.
        """
        found = dict(self.lost)
        for role, ahead in self._ahead.items():
            while ahead and ahead[0][0] <= taken[role]:
                ahead.popleft()
            if ahead:
                found[role] = ahead[0][1]
        return found


class Position(NamedTuple):
    """Where the state of a partition stands in an input topic.

    topic, partition : which one
    wanted : the next offset to take; None where nothing was taken yet, and any beginning will do
    seen : no record below this offset can be unknown to the topic
    mark : of the last record taken, where it is known
    """

    topic: str
    partition: int
    wanted: int | None
    seen: int
    mark: Mark | None


def check(position: Position, first: int, end: int, found: Mark | None) -> int:
    """How many records were deleted before they were taken, 0 as a rule.

    Parameters
    ----------
    first, end : int
        The first offset that the topic keeps, and the next one.
    found : Mark, optional
        Of the record that stands at the offset of `position.mark` now.

    Raises
    ------
    StateError
        The topic is not the one that the state was learned from.
    """
    where = f"{position.topic}[{position.partition}]"
    if end < position.seen:
        raise StateError(
            f"the state of partition {position.partition} has seen {where} up to offset {position.seen:,}, and the "
            f"topic ends at {end:,}: {RECREATED}"
        )
    if position.mark is not None and found is not None and found != position.mark:
        raise StateError(
            f"the record at offset {found.offset:,} of {where} is not the one that the state of partition "
            f"{position.partition} was learned from: {RECREATED}"
        )
    return 0 if position.wanted is None else max(0, first - position.wanted)


def gone(topic: str, partition: int, start: int, stop: int) -> str:
    """A clause: what was deleted, offsets start to stop (exclusive)."""
    n = stop - start
    which = f"offset {start:,}" if n == 1 else f"offsets {start:,} to {stop - 1:,}"
    return f"{n:,} record{'' if n == 1 else 's'} of {topic}[{partition}] ({which}) deleted before they were learned"


def records_lost(topic: str, partition: int, start: int, stop: int) -> StateError:
    """The error that ends a worker where the stream file says `lost: stop`."""
    return StateError(
        f"Kafka has {gone(topic, partition, start, stop)}: write lost: skip in the stream file to go on without, or "
        "give the stream a new name to start afresh; and keep records for longer than workers can be away"
    )


def check_log(
    topic: str, partition: int, place: int, last: tuple[Mark | None, Mark | None], first: int, end: int
) -> None:
    """Whether the log that all partitions learn, which holds offsets first to end (exclusive), is the one that a
    partition's state has learned up to `place`. StateError where it is not: no setting goes on without what is gone,
    since replicas would differ.

    last : the mark of the last record learned, and of the one that stands at its offset now, where they are known.
    """
    mark, found = last
    if end < place:
        raise StateError(
            f"the state of partition {partition} has learned {topic} up to offset {place:,}, and the topic ends at "
            f"{end:,}: {RECREATED}"
        )
    if mark is not None and found is not None and found != mark:
        raise StateError(
            f"the record at offset {found.offset:,} of {topic} is not the one that the state of partition {partition} "
            f"has learned: {RECREATED}"
        )
    if first > place:
        raise StateError(
            f"{topic} begins at offset {first:,}, and the state of partition {partition} has learned it up to "
            f"{place:,}: what stood in between was deleted, and without it the models of this partition would differ "
            f"from the others'; give the stream a new name to start afresh, and {topic} a longer retention.ms than "
            "workers can be away"
        )
