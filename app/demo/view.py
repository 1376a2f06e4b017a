"""What the demo shows: figures read from a worker's `/metrics`, as a live table or as plain lines."""

import math
import time
import urllib.request
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from riparian.app.stream_file.sections.models import AUTO
from riparian.app.worker.exposition import metric_names as names
from riparian.topics.names import CHAMPION

if TYPE_CHECKING:
    from rich.console import RenderableType

SPAN_SECONDS = 3.0  # over which a rate is taken
CLASS, WINDOW = "fraud", 5000  # as the stream file has them
COURSE = 50  # characters of a course
BARS = "▁▂▃▄▅▆▇█"
PATTERNS = ("large payments by stolen cards", "all payments at some terminals", "tiny payments by stolen cards")


class ModelFigures(NamedTuple):
    """One model. recall : share of the last fraud that it named; None where that is not known yet."""

    role: str
    learner: str
    recall: float | None


class WorkerFigures(NamedTuple):
    """A worker at one moment, summed over partitions. latency : from payment to prediction, s: median, 99th
    percentile."""

    at: float  # monotonic
    instances: int
    learned: int
    latency: tuple[float, float]
    models: tuple[ModelFigures, ...]


def scrape(url: str, auto: str | None) -> WorkerFigures:
    """Read `/metrics`. auto : as `parse` takes it. OSError where nothing answers."""
    with urllib.request.urlopen(url, timeout=5.0) as answer:
        return parse(answer.read().decode(), auto)


def parse(text: str, auto: str | None) -> WorkerFigures:
    """Figures from an exposition. auto : name of the learner that is called `auto` in the stream file, if any is."""
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append((sample.labels, sample.value))

    def total(name: str) -> int:
        return int(sum(value for _, value in by_name.get(name, ())))

    def of(name: str, **labels: str) -> float | None:
        found = [value for known, value in by_name.get(name, ()) if labels.items() <= known.items()]
        return found[0] if found else None

    def latency(name: str) -> tuple[float, float]:
        buckets: dict[float, float] = {}
        for labels, value in by_name.get(name + "_bucket", ()):
            bound = float(labels["le"])
            buckets[bound] = buckets.get(bound, 0.0) + value
        ordered = sorted(buckets.items())
        return quantile(0.5, ordered), quantile(0.99, ordered)

    asked = {"scope": "window", "class": CLASS}
    models = tuple(
        ModelFigures(
            role=labels["model"],
            learner=AUTO if labels["learner"] == auto else labels["learner"],
            recall=of(names.OF_CLASS["recall"], model=labels["model"], **asked),
        )
        for labels, _ in by_name.get(names.MODEL, ())
        if labels["partition"] == "0"
    )
    return WorkerFigures(
        at=time.monotonic(),
        instances=total(names.INSTANCES),
        learned=total(names.PENDING["joined"]),
        latency=latency(names.LATENCY),
        models=models,
    )


def quantile(q: float, buckets: Sequence[tuple[float, float]]) -> float:
    """The q-quantile of a Prometheus histogram, as PromQL estimates it; NaN where it is empty.

    Parameters
    ----------
    q : float
        0 to 1.
    buckets : sequence of (upper bound, values at or below it)
        Ascending, the last bound infinite.
    """
    if not buckets or buckets[-1][1] <= 0:
        return math.nan
    rank, below, lower = q * buckets[-1][1], 0.0, 0.0
    for bound, n in buckets:
        if n >= rank:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * ((rank - below) / (n - below) if n > below else 1.0)
        below, lower = n, bound
    return lower


class Rate:
    """Instances a second, over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, at: float, n: int) -> float:
        self._seen.append((at, n))
        while len(self._seen) > 2 and at - self._seen[0][0] > SPAN_SECONDS:
            self._seen.popleft()
        (first, then), (last, now) = self._seen[0], self._seen[-1]
        return (now - then) / (last - first) if last > first else 0.0


def percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.0%}"


def duration(seconds: float) -> str:
    """Seconds for people: 4.2 ms, 1.5 s."""
    return "–" if math.isnan(seconds) else f"{seconds * 1000:.1f} ms" if seconds < 1.0 else f"{seconds:.1f} s"


class Story:
    """What has happened so far.

    Parameters
    ----------
    rows : payments that there will be.
    changes : numbers of the first payments of a new pattern.

    Attributes
    ----------
    events : sentences, oldest first
    seen : learner -> (labels, recall) at each look
    speed : predictions/s
    """

    def __init__(self, rows: int, changes: Sequence[int]) -> None:
        self.rows, self.changes, self.speed = rows, list(changes), 0.0
        self.events: list[str] = []
        self.seen: dict[str, list[tuple[int, float]]] = {}
        self._rate, self._patterns = Rate(), [0, *changes]
        self._champion: str | None = None

    def note(self, figures: WorkerFigures, said: str | None = None) -> None:
        """Take the next figures, and a command that was given."""
        at = figures.instances
        self.speed = self._rate(figures.at, at)
        for model in figures.models:
            if model.recall is not None:
                self.seen.setdefault(model.learner, []).append((figures.learned, model.recall))
        champion = figures.models[0].learner if figures.models else None
        if champion != self._champion:
            self._note(at, f"champion: {champion}")
        self._champion = champion
        if said is not None:
            self._note(at, f"riparian {said} tree")
        while self._patterns and at >= self._patterns[0]:
            self._patterns.pop(0)
            n = len(self.changes) - len(self._patterns)
            self._note(at, f"fraud is {PATTERNS[n % len(PATTERNS)]}")

    def _note(self, at: int, what: str) -> None:
        self.events.append(f"{at:>7,}  {what}")

    def course(self, learner: str) -> str:
        """Recall along the payments, a character for each part of them."""
        bars, seen = [" "] * COURSE, 0
        for at, recall in self.seen.get(learner, ()):
            now = min(COURSE - 1, at * COURSE // self.rows)
            for place in range(min(seen + 1, now), now + 1):
                bars[place] = BARS[min(len(BARS) - 1, int(recall * len(BARS)))]
            seen = now
        return "".join(bars)

    def marks(self) -> str:
        """Where fraud changes, below a course."""
        places = {at * COURSE // self.rows for at in self.changes}
        return "".join("^" if i in places else " " for i in range(COURSE)).rstrip()

    def recalls(self) -> dict[str, list[dict[str, float | None]]]:
        """Learner -> pattern by pattern its lowest recall, once the window holds no other pattern, and its last."""
        found: dict[str, list[dict[str, float | None]]] = {learner: [] for learner in self.seen}
        for learner, seen in self.seen.items():
            for start, end in pairwise([0, *self.changes, self.rows + 1]):
                part = [recall for at, recall in seen if (start and start + WINDOW) <= at < end]
                found[learner].append({"lowest": min(part, default=None), "last": part[-1] if part else None})
        return found

    def summary(self) -> list[str]:
        """Recall of all models, pattern by pattern; the lowest of the first pattern is of a beginner."""
        lines = [f"{'':<18}" + "".join(f"{f'pattern {i + 1}':>18}" for i in range(len(self.changes) + 1))]
        for learner, (first, *others) in self.recalls().items():
            cells = [
                percent(first["last"]),
                *(f"{percent(one['lowest'])}, then {percent(one['last'])}" for one in others),
            ]
            lines.append(f"{learner:<18}" + "".join(f"{cell:>18}" for cell in cells))
        return lines


def line(figures: WorkerFigures, story: Story) -> str:
    """The figures in one plain line."""
    models = ", ".join(f"{model.role} {model.learner} {percent(model.recall)}" for model in figures.models)
    return (
        f"{figures.instances:,} of {story.rows:,} predicted ({story.speed:,.0f}/s), {figures.learned:,} learned: "
        f"recall {models}"
    )


def table(heading: str, figures: WorkerFigures, story: Story) -> "RenderableType":
    """The live view."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    progress = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=story.rows, completed=figures.instances, width=40)
    progress.add_row(bar, f"{figures.instances:,} of {story.rows:,} payments predicted")
    models = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in ("model", "learner"):
        models.add_column(column)
    models.add_column("recall", justify="right")
    models.add_column(f"of fraud among 1 % of alerts, last {WINDOW:,} labels")
    for model in figures.models:
        style = "green" if model.role == CHAMPION else ""
        models.add_row(model.role, model.learner, percent(model.recall), story.course(model.learner), style=style)
    models.add_row("", "", "", story.marks(), style="yellow")
    state = Table.grid(padding=(0, 3, 0, 0))
    median, slow = figures.latency
    state.add_row(f"{story.speed:,.0f} payments/s", f"predicted within {duration(median)}, p99 {duration(slow)}")
    return Group(Text(heading, style="bold"), progress, Text(), models, Text("\n".join(story.events) + "\n"), state)
