"""Which records of a partition's topics may go now, as far as it depends on what else Kafka holds.

The merge (`PartitionGroup`) lets go what comes before something that it has of the other topic. What comes last of all
that was fetched needs more: the end of the other topic at a moment when it was there already, read up to there. An
answer to a fetch tells such an end beside its records, or the next one does; otherwise the broker is asked.

What is stamped by the broker goes in the order of its stamps, however it was fetched (tests/app/test_releases.py draws
fetches at random).
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence

from aiokafka.errors import KafkaError
from faust.types import TP

from riparian.app.partition.records.partition_group import NOTHING, Ends, PartitionGroup, Release
from riparian.app.worker.faust_client.end_offsets import Seen
from riparian.app.worker.faust_client.input_logs import Found, InputLogs
from riparian.app.worker.task.turns import Turns
from riparian.topics.names import AS_IT_COMES, FEATURES, LABELS
from riparian.topics.places import place_of

PATIENT_SECONDS = 0.25  # that labels wait for features of their partition, before the broker is asked about them
POLL_SECONDS = 0.02  # between two looks whether a topic was read to its end: markers of transactions wake nobody


class Releases:
    """Takes from a merge what may go.

    Parameters
    ----------
    tps : mapping of str to TP
        Role of each input topic -> its partition.
    turns : Turns
        Of the partition.
    clock : callable
        Seconds that never go back.

    Attributes
    ----------
    n_forced : int
        How often records went although another topic was not read up to where they need it, after `join.max_wait`.
    due : float
        When to call `next` again although nothing has come.
    more : bool
        Whether the next call may find something at once.
    """

    def __init__(
        self,
        merge: PartitionGroup,
        tps: Mapping[str, TP],
        inputs: InputLogs,
        turns: Turns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.n_forced, self.due, self.more = 0, math.inf, False
        self._merge, self._buffers, self._tps, self._inputs = merge, merge.buffers, tps, inputs
        # From behind: of the latest records with one time, those of the log that comes last.
        timed = [(role, buffer) for role, buffer in merge.buffers.items() if buffer.rule != AS_IT_COMES]
        self._timed = dict(reversed(timed))
        self._others = {role: {other: tps[other] for other, _ in timed if other != role} for role, _ in timed}
        self._turns, self._clock = turns, clock
        self._ends: Found | None = None  # when we last learned that
        self._question: asyncio.Task[None] | None = None
        self._seen: dict[str, Seen | None] = {}  # role -> the answer that brought its last records
        self._asked = 0.0
        self._alone = 0.0  # since when labels wait for the next fetch

    def fetched(self, role: str, seen: Seen | None) -> bool:
        """Records of a topic were added to its buffer. seen : with which answer, where the ends of others are known by
        it. Returns whether to call `next` now: labels alone, behind all features, wait until it is `due`."""
        self._seen[role] = seen
        merge, buffer = self._merge, self._buffers[role]
        if (
            role != LABELS
            or not len(buffer)  # all that came was known
            or merge.n_waiting > len(buffer)
            or merge.follows
            or self._ends is not None
            or buffer.first_time <= self._buffers[FEATURES].last_time
        ):
            return True
        self._alone = self._alone or self._clock()
        self.due = self._alone + PATIENT_SECONDS
        return False

    def stop(self) -> None:
        if self._question is not None:
            self._question.cancel()

    def next(self) -> Release:
        """Remove and return what may go now; where that depends on the broker, ask it. Call it on the event loop."""
        self.due, self.more = math.inf, False
        if not (self._merge.n_waiting or self._merge.follows):
            return NOTHING
        merge, unread = self._merge, self._unread()
        if not unread:
            self._drop_ends()
        knew = self._ends is not None
        release = merge.release(self._certain(unread))
        if release.n:
            self._alone, self._asked = 0.0, self._clock()
        if not unread:
            self._drop_ends()
        if not merge.n_waiting:
            return release
        if merge.follows or self._cut(release):
            self.more = release.n > 0
            return release
        self.due = self._clock() + POLL_SECONDS
        # Labels alone keep nobody waiting, and what is fetched next mostly says that they may go.
        if len(self._buffers[FEATURES]):
            self._alone = 0.0
        elif self._ends is None:
            self._alone = self._alone or self._clock()
            self.due = self._alone + PATIENT_SECONDS
            if self._clock() < self.due:
                return release
        # Records wait, and nothing later has come from the other logs. See where all end now: once the others have been
        # read that far, whatever is missing there was appended after what waits here had arrived.
        if self._ends is None:
            waiting = [role for role, buffer in self._buffers.items() if len(buffer) and buffer.rule != AS_IT_COMES]
            self._ends, self._asked = self._known(waiting[0]) if len(waiting) == 1 else None, self._clock()
            if self._ends is None and knew:
                return release  # the broker has just said
            if self._ends is None:
                self.due = math.inf
                if self._question is None:
                    self._question = asyncio.create_task(self._ask(), name=f"ends-{self._tps[FEATURES].partition}")
                return release
            self._alone, unread = 0.0, self._unread()  # what waits after these waits anew
            certain = self._certain(unread)
            if release.n:
                self.more = certain is not None and self._stands_below(certain.below or {})
                return release
            release = merge.release(certain)
        if (
            not release.n
            and unread
            and self._clock() - max(self._asked, self._inputs.copying) >= self._inputs.spec.join.max_wait
        ):
            self.n_forced += 1
            below, self._ends = self._below(), None
            release = merge.release(Ends(below))
        if not unread:
            self._drop_ends()
        self.more = self._cut(release)
        return release

    def _below(self) -> dict[str, int]:
        """Role of a log -> place below which records go, once the others have been read up to their ends."""
        below = {} if self._ends is None else self._ends.below
        return {role: place_of(end, 0, self._timed[role].bits) for role, end in below.items() if role in self._timed}

    def _unread(self) -> list[str]:
        """Roles of the logs that have not been read up to where they ended."""
        until = {} if self._ends is None else self._ends.until
        return [role for role, end in until.items() if role in self._timed and not self._reached(role, end)]

    def _stands_below(self, below: Mapping[str, int]) -> bool:
        """Whether a record waits that stands below these places."""
        return any(len(self._timed[role]) and self._timed[role].first_offset < end for role, end in below.items())

    def _drop_ends(self) -> None:
        """Ask anew when something waits, where nothing is left below the ends (markers of transactions may be)."""
        if self._ends is not None and not self._stands_below(self._below()):
            self._ends = None

    def _certain(self, unread: Sequence[str]) -> Ends | None:
        """What goes with the records that others come behind. unread : as `_unread` has it.

        What has come of one log needs only the others to be read up to their ends. So a backlog of one, longer than the
        buffer, goes on while the others rest.
        """
        if self._ends is None or self._merge.follows:
            return self._ahead()
        free = {role: end for role, end in self._below().items() if not set(unread) - {role}}
        return Ends(free, unread) if free else None

    def _cut(self, release: Release) -> bool:
        """Whether a release holds as many records of a log as one may, so that more may go at once."""
        return any(len(piece.offsets) >= self._merge.limit for piece in release.pieces.values())

    def _ahead(self) -> Ends | None:
        """What goes with the records of all other logs, which come before the last one here: those of the log that it
        stands in, if what has been fetched tells where the others end."""
        if self._ends is not None or self._merge.follows:
            return None
        role = max(self._timed, key=lambda role: self._timed[role].last_time)  # the last one, on a tie
        if not len(self._timed[role]) or any(len(one) > one.n_certain for one in self._timed.values()):
            return None
        known = self._known(role)
        if known is None or not all(self._reached(other, end) for other, end in known.until.items()):
            return None
        return Ends({role: place_of(known.below[role], 0, self._timed[role].bits)})

    def _reached(self, role: str, end: int) -> bool:
        return self._inputs.reached(self._tps[role], end, self._timed[role].fetch_offset)

    def _known(self, role: str) -> Found | None:
        """Where the logs end, if what has been fetched tells, when records of this one wait; None where the broker has
        to be asked.

        The answer that brought records tells it for these alone, or one to a later fetch: of their own log there may be
        more, stamped earlier than what waits of the others.
        """
        seen = self._seen.get(role)
        until = None if seen is None else self._inputs.ends_beside(self._others[role], seen)
        return None if until is None else Found({role: self._buffers[role].fetch_offset}, until)

    async def _ask(self) -> None:
        """Ask the broker, while the partition goes on with what comes meanwhile."""
        partition = self._tps[FEATURES].partition
        try:
            read = {role: buffer.fetch_offset for role, buffer in self._buffers.items()}  # before: more may come
            ends = await self._inputs.ends(partition)
            if ends is None:
                return
            if any(end < read[role] for role, end in ends.below.items()):
                self._turns.cannot(KafkaError(f"the topics end before what was read of partition {partition}"))
            elif self._ends is None:
                self._ends, self._asked = ends, self._clock()
        except Exception as error:
            self._turns.cannot(error)
        finally:
            self._question = None
            self._turns.wake()
