"""What Prometheus scrapes of a worker: one page, with each metric once, and the series of all streams under it."""

import importlib.metadata
import platform
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from riparian.app import __version__
from riparian.app.worker.exposition.metric_names import BUILD, OF_WORKER
from riparian.app.worker.exposition.metrics import Metrics


def registry(streams: Sequence[Metrics], faust: Sequence[CollectorRegistry] = ()) -> CollectorRegistry:
    """A registry of this worker's own; the library's global one is left alone.

    faust : what Faust has counted of each stream, which has no label of it.
    """
    found = CollectorRegistry()
    found.register(_Together(streams, faust))
    ProcessCollector(registry=found)
    return found


class _Together(Collector):
    def __init__(self, streams: Sequence[Metrics], faust: Sequence[CollectorRegistry]) -> None:
        self._streams, self._faust = streams, faust

    def collect(self) -> Iterator[Any]:
        """All families, by the library's protocol; called at each scrape."""
        families: dict[str, Any] = {}
        for family in self._each():
            families.setdefault(family.name, family)
            if families[family.name] is not family:
                families[family.name].samples += family.samples
        yield from families.values()
        build = GaugeMetricFamily(BUILD, OF_WORKER[BUILD].text, labels=OF_WORKER[BUILD].labels)
        build.add_metric(tuple(_versions().values()), 1)
        yield build

    def _each(self) -> Iterator[Any]:
        for metrics in self._streams:
            yield from metrics.collect()
        for metrics, counted in zip(self._streams, self._faust, strict=False):
            for family in counted.collect():
                family.samples = [
                    sample._replace(labels={"stream": metrics.spec.name, **sample.labels}) for sample in family.samples
                ]
                yield family


def _versions() -> dict[str, str]:
    return {
        "version": __version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("numba", "numpy", "aiokafka")},
        "faust": importlib.metadata.version("faust-streaming"),
    }
