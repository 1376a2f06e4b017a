"""Which schemas a registry is asked for, when, and how long records wait for one that it does not have.

Whoever writes records chooses the ids in them, so there may be as many as there are records, and none of them known.
Each is asked for at least once, since only an answer rejects. All that wait together wait for `registry.max_wait` in
all: what comes behind was held up as long, and an answer is final from then on. An id that was refused is remembered,
and not asked for again until as long has passed.
"""

from collections.abc import Iterable, Sequence

from riparian.topics.schemas import Key

FIRST_PAUSE_SECONDS = 0.25  # first pause between two questions about the same schema, s
LONGEST_PAUSE_SECONDS = 5.0
IDLE_SECONDS = 1.0  # time after which what comes was held up by nothing before, s
MOST_REFUSED = 10_000  # refused schemas that are remembered, at most
MOST_AT_A_TIME = 1000


class Questions:
    """What one asker asks, and what became of it. Times are seconds of one clock.

    Parameters
    ----------
    max_wait : float
        As `registry.max_wait`.
    """

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self._refused: dict[Key, float] = {}  # -> when they were asked for last
        self._unknown: set[Key] = set()  # that the registry does not have yet
        self._began: float | None = None  # since the first of them
        self._seen = 0.0  # when records waited last
        self._due, self._pause = 0.0, FIRST_PAUSE_SECONDS
        self._failed = False

    def remembered(self, keys: Iterable[Key], now: float) -> set[Key]:
        """Those that were refused a while ago: records that name them are rejected, too."""
        asked = self._refused
        return {key for key in keys if key in asked and now < asked[key] + self._max_wait}

    def wait(self, now: float) -> None:
        """Records wait, or were there all the while: what comes behind them was held up."""
        if not self._unknown and now > self._seen + IDLE_SECONDS:  # what waits goes on waiting, however slow we are
            self.passed()
        self._seen = now

    def next(self, keys: Sequence[Key], now: float) -> list[Key]:
        """What to ask for now. keys : that are not known, the first one what all others wait for."""
        if self._failed:  # one of them may be what the registry fails at
            return list(keys[:1]) if now >= self._due else []
        new = [key for key in keys if key not in self._unknown]
        if new:
            return new[:MOST_AT_A_TIME]
        if self._began is not None and now >= self._began + self._max_wait:
            return list(keys[:MOST_AT_A_TIME])
        return list(keys[:1]) if now >= self._due else []

    def due(self) -> float:
        """When to ask again, where nothing new comes."""
        return self._due

    def answered(self, unknown: set[Key], asked: float, now: float) -> set[Key]:
        """The registry does not have these. Those of them whose records wait no longer. asked : when it was."""
        self._failed = False
        if not unknown:
            self._pause = FIRST_PAUSE_SECONDS
            return set()
        if self._began is None:
            self._began = asked
        final = asked >= self._began + self._max_wait
        late = {key for key in unknown if final or key in self._refused}
        for key in late:
            self._refused.pop(key, None)
            self._refused[key] = asked
        while len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._unknown = (self._unknown | unknown) - late
        if not late:
            self._rest(now)
            self._due = min(self._due, self._began + self._max_wait)
        return late

    def failed(self, now: float) -> None:
        """It did not answer: how long it does not is no part of how long it has not known a schema."""
        self._failed, self._began = True, None
        self._unknown.clear()
        self._rest(now)

    def settled(self) -> None:
        """Nothing waits any more; what comes at once behind it was held up as long."""
        self._unknown.clear()

    def passed(self) -> None:
        """Nothing waits any more, nor did before it was looked at."""
        self._began = None
        self._unknown.clear()
        self._pause = FIRST_PAUSE_SECONDS

    def _rest(self, now: float) -> None:
        self._due = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
