"""Asks for the schemas of a release before it is folded, so that the fold needs no registry.

Folding the same records again has to give the same again, whether the registry answers then or not. So a record is
rejected for an unknown schema only when the registry said that there is none, for `registry.max_wait` long; as long as
it does not answer, the record waits, and what comes after it in the merged order. A rejection is noted in the record
(`topics.records.Unknown`) before the fold, and durable as a dead letter before anything is sent that came after it: so
a new owner, or an audit, reads back what was decided then, and never decides it anew.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from app.errors import RegistryError, StateError
from app.partition.merge import Piece, Release
from app.registry.client import Registry
from app.registry.telling import tell
from topics.names import FEATURES, LABELS
from topics.records import Unknown
from topics.schemas import Key

if TYPE_CHECKING:
    from app.stream_file.spec import Spec
    from topics.codecs import Codec

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.25  # between two questions about the same schemas
LONGEST_PAUSE_SECONDS = 5.0
SAY_SECONDS = 30.0  # between two lines of the log about a registry that does not answer
MAX_REMEMBERED = 10_000

NOTHING = Release({}, {})

Missing = dict[str, dict[Key, list[int]]]


class Asking:
    """The schemas of one partition's releases.

    Parameters
    ----------
    registry : Registry
    spec : Spec
    partition : int
    refused : mapping of str to collection of int
        Kind of record -> offsets that were rejected for an unknown schema before.
    taken : mapping of str to int
        Kind of record -> offset below which all others were decoded before: these cannot be rejected any more.
    """

    def __init__(
        self,
        registry: Registry,
        spec: "Spec",
        partition: int,
        refused: Mapping[str, Collection[int]],
        taken: Mapping[str, int],
    ) -> None:
        self._registry, self._spec, self._partition = registry, spec, partition
        self._codec: Codec = spec.make_codec()
        self._refused = {kind: frozenset(offsets) for kind, offsets in refused.items()}
        self._taken = taken
        self._since: dict[Key, float] = {}  # when the registry first said that it does not know a schema
        self._task: asyncio.Task[set[Key]] | None = None
        self._due, self._pause, self._said = 0.0, FIRST_PAUSE_SECONDS, -SAY_SECONDS
        self.error: RegistryError | None = None  # of the last question

    def ready(self, release: Release) -> tuple[Release, Release]:
        """What of a release can be folded, and what waits for the registry, which is being asked meanwhile.

        Raises
        ------
        StateError
            The registry does not know a schema any more by which records were decoded before.
        """
        pieces = release.pieces
        for kind, piece in pieces.items():
            if self._refused.get(kind):
                _mark(piece, [i for i, at in enumerate(piece.raw.offsets) if at in self._refused[kind]])
        missing = self._missing(release)
        if not any(missing.values()):
            return release, NOTHING
        late = self._ask(missing)
        if late is not None:
            missing = self._missing(release)
        for kind, keys in missing.items():
            for key in [key for key in keys if key in (late or ())]:
                self._check(kind, key, pieces[kind], keys[key])
                _mark(pieces[kind], keys.pop(key))
        return _cut(release, missing)

    async def wait(self, seconds: float) -> None:
        """Until the registry has answered, or it is time to ask again, or for that long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
        else:
            await asyncio.sleep(min(seconds, max(0.0, self._due - time.monotonic())))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _missing(self, release: Release) -> Missing:
        # Records of further logs name no schema.
        unknown = {FEATURES: self._codec.unknown_features, LABELS: self._codec.unknown_labels}
        return {kind: find(release.pieces[kind].raw) for kind, find in unknown.items() if kind in release.pieces}

    def _ask(self, missing: Missing) -> set[Key] | None:
        """Ask, or take the answer: the schemas that the registry has not known for long enough. None: no answer."""
        now = time.monotonic()
        if self._task is None:
            if now >= self._due:
                keys = dict.fromkeys(key for keys in missing.values() for key in keys)
                self._task = asyncio.create_task(tell(self._registry, self._spec, keys))
            return None
        if not self._task.done():
            return None
        task, self._task = self._task, None
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, RegistryError):
            raise error
        self.error = error
        if error is not None or task.cancelled():
            self._since.clear()  # how long it does not answer is no part of how long it has not known a schema
            if now - self._said >= SAY_SECONDS:
                self._said = now
                log.warning("partition %d waits for a schema: %s", self._partition, error)
            self._rest(now)
            return None
        unknown = task.result()
        if len(self._since) > MAX_REMEMBERED:
            self._since.clear()
        for key in unknown:
            self._since.setdefault(key, now)
        assert self._spec.registry is not None
        ends = {key: self._since[key] + self._spec.registry.max_wait for key in unknown}
        late = {key for key, end in ends.items() if now >= end}
        if late or not unknown:  # a schema that was given up is asked for again with the next record that names it
            self._pause, self._due = FIRST_PAUSE_SECONDS, now
        else:
            self._rest(now)
            self._due = min(self._due, *ends.values())
        return late

    def _rest(self, now: float) -> None:
        self._due = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def _check(self, kind: str, key: Key, piece: Piece, positions: list[int]) -> None:
        before = [at for i in positions if (at := piece.raw.offsets[i]) < self._taken.get(kind, 0)]
        if before:
            raise StateError(
                f"the registry {self._registry} does not know schema {key} any more, by which the record at offset "
                f"{before[0]:,} of {getattr(self._spec.topics, kind)}[{self._partition}] was decoded before: register "
                "it there again under that id"
            )
        log.warning(
            "partition %d: the registry %s does not know schema %s, so %d records of %s are rejected",
            self._partition, self._registry, key, len(positions), getattr(self._spec.topics, kind),
        )  # fmt: skip


def _mark(piece: Piece, positions: Iterable[int]) -> None:
    """Note in these records that the registry does not know their schema."""
    values = piece.raw.values
    for i in positions:
        values[i] = Unknown(values[i] or b"")


def _cut(release: Release, missing: Missing) -> tuple[Release, Release]:
    """What comes before the first record whose schema is not known, and the rest."""
    ready, rest = release, NOTHING
    for kind, keys in missing.items():
        first = min((at[0] for at in keys.values()), default=None)
        if first is not None and first < len(ready.pieces[kind].offsets):  # otherwise another cut comes before it
            ready, rest = release.split(kind, first)
    return ready, rest


async def readied(asking: Asking, release: Release, seconds: float) -> list[Release]:
    """A release as parts that can be folded: for those that fold offline.

    Raises RegistryError where the registry has not answered for `seconds`.
    """
    parts, until = [], time.monotonic() + seconds
    while release.n:
        ready, release = asking.ready(release)
        if ready.n:
            parts.append(ready)
        else:
            await asking.wait(0.1)
            if asking.error is not None and time.monotonic() >= until:
                raise asking.error
    return parts
