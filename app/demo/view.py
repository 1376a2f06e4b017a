"""What the demo shows: figures read from a worker's `/metrics`, as a live table or as plain lines."""

import math
import time
import urllib.request
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from riparian.app.worker.exposition import metric_names as names

if TYPE_CHECKING:
    from rich.console import RenderableType

SPAN_SECONDS = 3.0  # over which a rate is taken


class ModelFigures(NamedTuple):
    """One model. Ratios are None where they are not defined yet."""

    role: str
    learner: str
    scored: int
    accuracy: float | None
    recent: float | None
    kappa: float | None
    nodes: int


class WorkerFigures(NamedTuple):
    """A worker at one moment, summed over partitions. Latencies in seconds, as (median, 99th percentile)."""

    at: float  # monotonic
    instances: int
    learned: int
    waiting: int
    lag: int
    rejected: int
    prediction_latency: tuple[float, float]
    verification_latency: tuple[float, float]
    models: tuple[ModelFigures, ...]


def scrape(url: str) -> WorkerFigures:
    """Read `/metrics`. OSError where nothing answers."""
    with urllib.request.urlopen(url, timeout=5.0) as answer:
        return parse(answer.read().decode())


def parse(text: str) -> WorkerFigures:
    """Figures from an exposition."""
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

    accuracy, kappa = names.PREQUENTIAL["accuracy"], names.PREQUENTIAL["kappa"]
    models = tuple(
        ModelFigures(
            role=labels["model"],
            learner=labels["learner"],
            scored=int(of(names.SCORED, model=labels["model"]) or 0),
            accuracy=of(accuracy, model=labels["model"], scope="overall"),
            recent=of(accuracy, model=labels["model"], scope="window"),
            kappa=of(kappa, model=labels["model"], scope="overall"),
            nodes=int(of(names.NODES, model=labels["model"]) or 0),
        )
        for labels, _ in by_name.get(names.MODEL, ())
        if labels["partition"] == "0"
    )
    return WorkerFigures(
        at=time.monotonic(),
        instances=total(names.INSTANCES),
        learned=total(names.PENDING["joined"]),
        waiting=total(names.WAITING),
        lag=total(names.LAG),
        rejected=total(names.REJECTED),
        prediction_latency=latency(names.LATENCY),
        verification_latency=latency(names.WAITED),
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
    return "–" if ratio is None else f"{ratio:.2%}"


def duration(seconds: float) -> str:
    """Seconds for people: 4.2 ms, 1.5 s, 3.0 min."""
    if math.isnan(seconds):
        return "–"
    if seconds < 1.0:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def line(sent: int, rows: int, figures: WorkerFigures, rate: float) -> str:
    """The figures in one plain line."""
    models = ", ".join(f"{model.role} {percent(model.accuracy)}" for model in figures.models)
    return (
        f"{sent:,} of {rows:,} sent, {figures.instances:,} predicted ({rate:,.0f}/s), {figures.learned:,} learned, "
        f"{figures.waiting:,} waiting, lag {figures.lag:,}: accuracy {models}"
    )


def table(heading: str, sent: int, rows: int, figures: WorkerFigures, rate: float) -> "RenderableType":
    """The live view."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    progress = Table.grid(padding=(0, 1))
    progress.add_row(ProgressBar(total=rows, completed=sent, width=40), f"{sent:,} of {rows:,} instances sent")
    models = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in ("model", "learner"):
        models.add_column(column)
    for column in ("accuracy", "last 1,000", "kappa", "nodes"):
        models.add_column(column, justify="right")
    best = max((m.accuracy for m in figures.models if m.accuracy is not None), default=None)
    for model in figures.models:
        models.add_row(
            model.role,
            model.learner,
            percent(model.accuracy),
            percent(model.recent),
            "–" if model.kappa is None else f"{model.kappa:.3f}",
            f"{model.nodes:,}" if model.nodes else "–",
            style="green" if model.accuracy is not None and model.accuracy == best else "",
        )
    state = Table.grid(padding=(0, 3, 0, 0))
    median, slow = figures.prediction_latency
    state.add_row("predicted", f"{figures.instances:,}", "instances/s", f"{rate:,.0f}")
    state.add_row(
        "learned", f"{figures.learned:,}", "feature to prediction", f"{duration(median)}, p99 {duration(slow)}"
    )
    waited = duration(figures.verification_latency[0]) if figures.learned else "–"
    state.add_row("waiting for a label", f"{figures.waiting:,}", "feature to label", waited)
    state.add_row("rejected", f"{figures.rejected:,}", "lag", f"{figures.lag:,} records")
    return Group(Text(heading, style="bold"), progress, Text(), models, Text(), state)
