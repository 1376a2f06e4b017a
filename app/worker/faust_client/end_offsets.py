"""Where topics ended when records of others were read: what the answers to fetches tell besides records.

A record may be predicted when whatever came before it has been read, from the other topics, too. So while one waits,
somebody has to say where the others end. A broker reads the partitions that a fetch names one after the other: the end
that it tells of a partition which stands behind another in its answer lies behind all that had arrived before that
other one's records were read. So does the end that an answer tells to a fetch which was sent later. Only where neither
is known has the broker to be asked, which takes a round trip more.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiokafka.protocol.fetch import FetchRequest
from faust.types import TP

OLDEST_VERSION = 4  # of an answer that tells of committed ends
RACKS = 11  # likewise, of the replica to fetch from
# Mean of the time between two fetches, but for a few. A steady stream could be fetched record by record, which takes
# more of the processors of worker and broker: what comes meanwhile shall come together. A round costs about the same
# whatever it holds, so the next one comes when that is a quarter of the time.
FETCH_SECONDS, BURST = 0.002, 5
LONGEST_SECONDS, SHARE = 0.03, 0.25
SMALL_BYTES = 1 << 20  # of an answer, beyond which there is a backlog, where all topics shall have their turn


class Seen(NamedTuple):
    """What was told of a partition last.

    asked : how many answers had come when the fetch was sent. answered : this one's number. place : in this one. end :
    before the first transaction that is open.
    """

    asked: int
    answered: int
    place: int
    end: int


class EndOffsets:
    """What one client's fetches were told.

    Parameters
    ----------
    first : set of str
        Topics that are to stand first in fetches, so that the ends of the others are known with their records.
    """

    def __init__(self, first: frozenset[str] = frozenset()) -> None:
        self.first = first
        self._n = 0
        self._seen: dict[tuple[str, int], Seen] = {}
        self._due: dict[int, float] = {}  # broker -> when it was to be asked last
        self._spent: dict[int, float] = {}  # broker -> processor time of the process then
        self._backlogs: set[int] = set()  # brokers whose last answer was large

    def watch(self, client: Any) -> None:
        """See each fetch of a client, and its answer."""
        send = client.send

        async def watched(node_id: int, request: Any, **options: Any) -> Any:
            if not isinstance(request, FetchRequest):
                return await send(node_id, request, **options)
            if node_id not in self._backlogs:
                request.topics.sort(key=lambda topic: topic[0] not in self.first)
                n = sum(len(partitions) for _, partitions in request.topics)
                early = self._early(node_id, time.monotonic(), time.process_time(), n)
                if early > 0:
                    await asyncio.sleep(early)
            asked = self._n
            answer = await send(node_id, request, **options)
            size = self.add(asked, answer)
            (self._backlogs.add if size > SMALL_BYTES else self._backlogs.discard)(node_id)
            return answer

        client.send = watched

    def _early(self, node_id: int, now: float, spent: float, n_partitions: int) -> float:
        """A broker is to be asked for so many partitions: how many seconds too early. spent : processor time of the
        process, s."""
        cost, self._spent[node_id] = spent - self._spent.get(node_id, spent), spent
        seconds = min(max(FETCH_SECONDS, cost / SHARE), LONGEST_SECONDS)
        at_once = BURST * FETCH_SECONDS * 2 / n_partitions  # less where there are many, whose records come together
        due = self._due[node_id] = max(self._due.get(node_id, 0.0) + seconds, now - at_once)
        return due - now

    def add(self, asked: int, answer: Any) -> int:
        """Keep what an answer tells, and leave in it what the client has to look at: partitions with records, or with
        an error, or that are to be fetched elsewhere. Bytes of its records."""
        self._n += 1
        n, seen, told, replicas = self._n, self._seen, answer.API_VERSION >= OLDEST_VERSION, answer.API_VERSION >= RACKS
        place = size = 0
        for topic, partitions in answer.topics:
            to_look_at = []
            for about in partitions:
                key = topic, about[0]
                if about[1] or not told:
                    seen.pop(key, None)
                    to_look_at.append(about)
                else:
                    seen[key] = Seen(asked, n, place, about[3])
                    if about[-1] or (replicas and about[6] >= 0):
                        size += len(about[-1] or b"")
                        to_look_at.append(about)
                place += 1
            partitions[:] = to_look_at
        return size

    def forget(self, tps: Iterable[tuple[str, int]]) -> None:
        """Partitions are not fetched any more, or from now on."""
        for tp in tps:
            self._seen.pop(tp, None)

    def seen(self, tp: TP) -> Seen | None:
        """What was told of a partition last."""
        return self._seen.get(tp)

    def ends(self, own: Seen, tps: Iterable[TP]) -> dict[TP, int] | None:
        """Where partitions ended after records had been read, of which this was told with them; None where that is not
        known of each."""
        found = {}
        for tp in tps:
            seen = self._seen.get(tp)
            if seen is None:
                return None
            same_answer = seen.answered == own.answered and seen.place > own.place
            if not same_answer and seen.asked < own.answered:
                return None
            found[tp] = seen.end
        return found
