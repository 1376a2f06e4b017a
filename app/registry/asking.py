"""Asks for the schemas of a release before it is folded, so that the fold needs no registry.

Folding the same records again has to give the same again, whether the registry answers then or not. So a record is
rejected for an unknown schema only when the registry said that there is none, for `registry.max_wait` long
(`questions`); as long as it does not answer, the record waits, and what comes after it in the merged order. A
rejection is noted in the record (`topics.records.Unknown`) before the fold, and durable as a dead letter before
anything is sent that came after it: so a new owner, or an audit, reads back what was decided then, and never decides it
anew.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from riparian.app.errors import RegistryError, StateError
from riparian.app.partition.records.partition_group import NOTHING, Piece, Release
from riparian.app.registry.client import Registry
from riparian.app.registry.questions import Questions
from riparian.app.registry.stream_schemas import look_up
from riparian.topics.names import INPUTS
from riparian.topics.records import Unknown
from riparian.topics.schemas import Key

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec
    from riparian.topics.codecs import Codec

log = logging.getLogger(__name__)

LOG_SECONDS = 30.0  # time between two lines of the log about the same, s


Missing = dict[str, dict[Key, list[int]]]


class Asking:
    """The schemas of one partition's releases.

    Parameters
    ----------
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
        assert spec.registry is not None
        self._questions = Questions(spec.registry.max_wait)
        self._task: asyncio.Task[set[Key]] | None = None
        self._asked = 0.0
        self._logged_at, self._refusals_logged_at = -LOG_SECONDS, -LOG_SECONDS
        self._refusals: dict[str, Counter[Key]] = {}  # kind of record -> rejected records by schema, not yet said
        self.n_unknown = 0  # schemas that the last release waits for
        self.error: RegistryError | None = None  # of the last question

    def ready(self, release: Release) -> tuple[Release, Release]:
        """What of a release can be folded, and what waits for the registry, which is being asked meanwhile. The schemas
        of what can be folded stay known until this is called again.

        Raises
        ------
        StateError
            The registry does not know a schema any more by which records were decoded before.
        """
        for kind, refused in self._refused.items():
            if refused and kind in release.pieces:
                offsets = release.pieces[kind].raw.offsets
                _mark(release, kind, [i for i, at in enumerate(offsets) if at in refused])
        named = self._named(release)
        ready, rest = self._known(release, named)
        of_ready = self._named(ready) if rest.n else named
        self._spec.schemas.hold(self, set[Key]().union(*of_ready.values()))
        return ready, rest

    def _known(self, release: Release, named: Mapping[str, set[Key]]) -> tuple[Release, Release]:
        now, late, answered = time.monotonic(), set[Key](), self._task is not None and self._task.done()
        if answered:
            late = self._take(now)
        missing = self._missing(release, named)
        late |= self._questions.remembered((key for keys in missing.values() for key in keys), now)
        self._reject(release, missing, late)
        if not any(missing.values()):
            self.n_unknown = 0
            if answered:
                self._questions.settled()
            else:
                self._questions.passed()
            return release, NOTHING
        self._questions.wait(now)
        ready, rest, first = _cut(release, missing)
        keys = list(dict.fromkeys([*first, *(key for found in missing.values() for key in found)]))
        self.n_unknown = len(keys)
        if self._task is None and (asked := self._questions.next(keys, now)):
            self._asked = now
            self._task = asyncio.create_task(look_up(self._registry, self._spec, asked))
        return ready, rest

    def stepped(self) -> None:
        """What could be folded has been."""
        if self.n_unknown:
            self._questions.wait(time.monotonic())

    async def wait(self, seconds: float) -> None:
        """Until the registry has answered, or it is time to ask again, or for that long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
        else:
            await asyncio.sleep(min(seconds, max(0.0, self._questions.due() - time.monotonic())))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._spec.schemas.hold(self, ())
        self._refusals_logged_at = -LOG_SECONDS
        self._log_refusals()

    def _missing(self, release: Release, named: Mapping[str, set[Key]]) -> Missing:
        """Where records are whose schemas are not known. named : the schemas of each kind."""
        known, codec, pieces = self._spec.schemas.known.keys(), self._codec, release.pieces
        return {kind: {} if keys <= known else codec.unknown(kind, pieces[kind].raw) for kind, keys in named.items()}

    def _named(self, release: Release) -> dict[str, set[Key]]:
        """Of each kind of record that may name a schema: those of further logs name none."""
        pieces = release.pieces
        return {kind: self._codec.named(kind, pieces[kind].raw) for kind in INPUTS if kind in pieces}

    def _take(self, now: float) -> set[Key]:
        """Take the answer: the schemas that the registry has not known for long enough."""
        task, self._task = self._task, None
        assert task is not None
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, RegistryError):
            raise error
        self.error = error
        if error is None and not task.cancelled():
            return self._questions.answered(task.result(), self._asked, now)
        self._questions.failed(now)
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            log.warning("partition %d waits for a schema: %s", self._partition, error)
        return set()

    def _reject(self, release: Release, missing: Missing, late: set[Key]) -> None:
        """Note in the records that name one of these that there is no such schema."""
        for kind, keys in missing.items() if late else ():
            for key in [key for key in keys if key in late]:
                self._check(kind, key, release.pieces[kind], keys[key])
                self._refusals.setdefault(kind, Counter())[key] += len(keys[key])
                _mark(release, kind, keys.pop(key))
        self._log_refusals()

    def _log_refusals(self) -> None:
        """One line for all that were rejected since the last one."""
        if not self._refusals or time.monotonic() - self._refusals_logged_at < LOG_SECONDS:
            return
        self._refusals_logged_at = time.monotonic()
        for kind, rejected in self._refusals.items():
            which = f"schema {next(iter(rejected))}"
            if len(rejected) > 1:
                which += f" and {len(rejected) - 1:,} others"
            log.warning(
                "partition %d: the registry %s does not know %s, so %d records of %s are rejected",
                self._partition, self._registry, which, rejected.total(), getattr(self._spec.topics, kind),
            )  # fmt: skip
        self._refusals.clear()

    def _check(self, kind: str, key: Key, piece: Piece, positions: list[int]) -> None:
        before = [at for i in positions if (at := piece.raw.offsets[i]) < self._taken.get(kind, 0)]
        if before:
            raise StateError(
                f"the registry {self._registry} does not know schema {key} any more, by which the record at offset "
                f"{before[0]:,} of {getattr(self._spec.topics, kind)}[{self._partition}] was decoded before: register "
                "it there again under that id"
            )


def _mark(release: Release, kind: str, positions: Iterable[int]) -> None:
    """Note in these records that the registry does not know their schema."""
    piece = release.pieces[kind]
    raw = piece.raw.listed()
    release.pieces[kind] = piece._replace(raw=raw)
    values: Any = raw.values
    for i in positions:
        values[i] = Unknown(values[i] or b"")


def _cut(release: Release, missing: Missing) -> tuple[Release, Release, list[Key]]:
    """What comes before the first record whose schema is not known, the rest, and that schema."""
    ready, rest, which = release, NOTHING, list[Key]()
    for kind, keys in missing.items():
        first = min(((at[0], key) for key, at in keys.items()), default=None, key=lambda one: one[0])
        if first is not None and first[0] < len(ready.pieces[kind].offsets):  # otherwise another cut comes before it
            ready, rest = release.split(kind, first[0])
            which = [first[1]]
    return ready, rest, which


async def readied(asking: Asking | None, release: Release, seconds: float) -> AsyncIterator[Release]:
    """A release as parts that can be folded, each before the next is asked for: for those that fold offline. asking :
    None where there is no registry.

    Raises RegistryError where the registry has not answered for `seconds`.
    """
    if asking is None:
        yield release
        return
    until = time.monotonic() + seconds
    while release.n:
        ready, release = asking.ready(release)
        if ready.n:
            yield ready
            asking.stepped()
        else:
            await asking.wait(0.1)
            if asking.error is not None and time.monotonic() >= until:
                raise asking.error
