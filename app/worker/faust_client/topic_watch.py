"""Whether the topics of a stream stay as they were when its worker started: a topic that is deleted ends the worker,
and one that has grown lets it begin again with as many partitions, if the others of the stream have grown, too."""

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiokafka.errors import KafkaError

from riparian.app.errors import TopicError
from riparian.app.kafka.admin import listing, stream_topics
from riparian.app.kafka.reading import Counts, counts
from riparian.app.state.growing import ASK, own_topics
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import CONTROL, INPUTS, changelog_topic

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Consumer

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
MISSING_SECONDS = 15.0  # a topic that is missing for longer was deleted; a broker that starts may not know all at once


class GrownError(Exception):
    """The stream goes on with more partitions, once its worker has begun again."""


class TopicWatch:
    """Looks at the topics of a stream, every now and then.

    Attributes
    ----------
    in_vain : tuple of int
        Partitions of the inputs with which the stream could not go on when the worker started (`app.state.growing`),
        and those that the changelog had then.
    unread : dict
        Input topic -> partitions that no worker of the stream reads.
    """

    def __init__(self, spec: Spec) -> None:
        self.unread: dict[str, list[int]] = {}
        self.in_vain = 0, 0
        self._spec = spec
        names = stream_topics(spec)
        self._read = {name for role, name in names.items() if role in (*INPUTS, CONTROL)}
        self._wanted = dict.fromkeys((*names.values(), changelog_topic(spec.name)), spec.partitions)
        self._wanted |= dict.fromkeys(spec.of_all, 1)
        self._missing = 0.0  # since when one is
        self._said: dict[str, int] = {}
        self._due = 0.0

    async def look(self, consumer: "Consumer") -> None:
        """At what a broker says, if it is time. consumer : one that runs. TopicError where a topic is not what it was,
        GrownError where the stream can have more partitions."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + LOOK_SECONDS
        with contextlib.suppress(KafkaError):
            self.compare(await self.there(consumer))

    async def there(self, consumer: "Consumer") -> Counts:
        """The stream's topics that are there now, of however many a broker has; KafkaError where none says."""
        return await counts(consumer, self._wanted)

    def compare(self, found: Counts) -> None:
        """With what the stream began with. found : of the topics that are there."""
        there = {topic: n for topic, n in found.items() if n is not None}
        lacking = {t: n for t, n in self._wanted.items() if there.get(t, 0) < n and found.get(t, 0) is not None}
        if not lacking:
            self._missing = 0.0
        elif not self._missing:
            self._missing = time.monotonic()
        elif time.monotonic() - self._missing > MISSING_SECONDS:
            raise self._broken(there, lacking)
        if not lacking:
            self._grow(there)
        more = {topic: there[topic] for topic, n in self._wanted.items() if there.get(topic, 0) > n}
        self.unread = {topic: [*range(self._wanted[topic], n)] for topic, n in more.items() if topic in self._read}
        for topic, n in more.items():
            if self._said.get(topic) != n:
                log.warning("%s", self._grown(topic, n))
        self._said = more

    def _grow(self, there: Mapping[str, int]) -> None:
        """GrownError where all inputs have more partitions, or another worker has let the stream have more."""
        names, changelog, before = stream_topics(self._spec), changelog_topic(self._spec.name), self._spec.partitions
        inputs = min(there.get(name, 0) for role, name in names.items() if role in INPUTS)
        others = min(there.get(name, 0) for name in own_topics(self._spec))
        wanted, had = self.in_vain
        prepared = there.get(changelog, 0) > max(before, had)  # by whoever makes topics
        follows = self._spec.grow == "follow" and inputs > wanted
        n = max(others, inputs if follows or prepared else 0)
        if n <= before:
            return
        with contextlib.suppress(ValueError):  # it would not be exact
            self._spec.with_partitions(n)
            raise GrownError(f"the stream {self._spec.name} goes on with {n} partitions; it had {before}")

    def _broken(self, found: Mapping[str, int], lacking: Mapping[str, int]) -> TopicError:
        topic, n = min(lacking.items(), key=lambda one: found.get(one[0], 0))
        if topic not in found:
            return deleted(self._spec, topic)
        return TopicError(
            f"the topic {topic} was deleted while the worker ran, and created again with other partitions: expected "
            f"{n}, found {found[topic]}; create it again with {n}, or give the stream a new name to start afresh"
        )

    def _grown(self, topic: str, n: int) -> str:
        wanted = self._wanted[topic]
        added = listing([str(p) for p in range(wanted, n)])
        several = "s" if n - wanted > 1 else ""
        verb = ("are" if several else "is") + (" not read" if topic in self._read else " not used")
        inputs = [name for role, name in stream_topics(self._spec).items() if role in INPUTS]
        cure = "it has them, too, as soon as features and labels both do" if len(inputs) > 1 and topic in inputs else ""
        cure = ASK if self._spec.grow == "ask" and topic in inputs else cure
        return f"partition{several} {added} of {topic} {verb}: the stream has {wanted}" + (cure and f", and {cure}")


def deleted(spec: Spec, topic: str) -> TopicError:
    """What to say of a topic of the stream that was deleted while its worker ran."""
    cure = "bring its records back, or give the stream a new name to start afresh"
    if topic == changelog_topic(spec.name):
        cure = "start the worker again to make the state anew from the records that the topics still hold"
    elif topic in spec.outputs.values() or topic == spec.topics.control:
        cure = "start the worker again, which creates it"
        if spec.create_topics == "never":
            cure = "create it again, and start the worker"
    return TopicError(f"the topic {topic} was deleted while the worker ran: {cure}")
