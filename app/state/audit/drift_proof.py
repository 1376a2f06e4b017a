"""Compares the events of a fold, of drift or of commands, with those that were sent. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from riparian.app.partition.outcome import Outcome
from riparian.app.state.audit.proof import (
    DIFFERENT,
    LISTED,
    MISSING,
    OUT_OF_ORDER,
    REPEATED,
    UNFOUNDED,
    UNREADABLE,
    Difference,
    SentRecords,
)
from riparian.topics.commands import EventRecord
from riparian.topics.places import place_of
from riparian.topics.records import DriftRecord
from riparian.topics.reports import read_drift

Event = DriftRecord | EventRecord


class DriftProof:
    """Events are numbered without gaps, so a number pairs an event of the fold with the one that was sent.

    The last events of a fold need not have been sent, because a worker waits for a later prediction before it sends
    them. So an event only counts as missing when a later one was sent.

    Parameters
    ----------
    sent : SentRecords
        All records of the drift topic from where the proof begins, in its order. They are read before the end of the
        predictions is determined, so that at the end everything that they refer to has been folded.
    first : int
        Number of the first event of the fold. Earlier ones may stand in the topic.
    whole : bool
        Whether the topic still holds all of them: retention may have taken the oldest ones.
    bits : int
        Of the index in the places of features (`topics.places`).
    read : of a record as it stands in the topic.
    of : an outcome's events.
    """

    def __init__(
        self,
        sent: SentRecords,
        first: int,
        *,
        whole: bool = True,
        bits: int = 0,
        read: Callable[[bytes | None], Event] = read_drift,
        of: Callable[[Outcome], Sequence[Event]] = attrgetter("drifts"),
    ) -> None:
        self._bits, self._of = bits, of
        self.counts: Counter[str] = Counter()
        self.listed: list[Difference] = []
        self.n_compared = 0
        self._first = first
        self._last = -1  # place of the last prediction
        self._made: dict[int, Event] = {}
        self._sent: dict[int, tuple[int, Event]] = {}
        last = first - 1
        for position, value in zip(sent.positions, sent.values, strict=True):
            try:
                record = read(value)
            except ValueError:
                self._note(Difference(UNREADABLE, position=position))
                continue
            if record.number < first:
                continue
            if record.number in self._sent:
                self._note(_difference(REPEATED, record, position))
                continue
            if record.number < last:
                self._note(_difference(OUT_OF_ORDER, record, position))
            last = max(last, record.number)
            self._sent[record.number] = position, record
        if not whole and self._sent:
            self._first = min(self._sent)

    @property
    def holds(self) -> bool:
        return not self.counts.total()

    def step(self, outcome: Outcome) -> None:
        """Take the next events of the fold."""
        self._made |= {record.number: record for record in self._of(outcome) if record.number >= self._first}
        if len(outcome.offsets):
            self._last = int(outcome.offsets[-1])

    def settle(self) -> None:
        """The fold has ended: compare."""
        last = max(self._sent, default=-1)
        for number, made in self._made.items():
            position, sent = self._sent.get(number, (None, None))
            if sent is None:
                if number < last:
                    self._note(_difference(MISSING, made, None, made=made))
                continue
            self.n_compared += 1
            if sent != made:
                self._note(_difference(DIFFERENT, made, position, sent, made))
        for number, (position, sent) in self._sent.items():
            # Behind the fold, which may have been told to end early, there are more.
            if number not in self._made and place_of(sent.offset, sent.index, self._bits) < self._last:
                self._note(_difference(UNFOUNDED, sent, position, sent))

    def _note(self, found: Difference) -> None:
        self.counts[found.kind] += 1
        if len(self.listed) < LISTED:
            self.listed.append(found)


def _difference(
    kind: str,
    at: Event,
    position: int | None,
    sent: Event | None = None,
    made: Event | None = None,
) -> Difference:
    return Difference(kind, at.offset, at.label_offset, position, _plain(sent), _plain(made))


def _plain(record: Event | None) -> Any:
    return None if record is None else msgspec.to_builtins(record)
