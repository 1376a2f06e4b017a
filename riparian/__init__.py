"""Riparian as a library: its learners, drift detectors, streams and prequential evaluation, without Kafka.

What stands here is public; the folders below (`models`, `app`, `topics`) may change with any version. docs/library.md
shows each in use. The estimators need scikit-learn (`riparian[batch]`), nothing else here does.
"""

from typing import TYPE_CHECKING, Any

from models.contract import LEARN, PREDICT, Bags, Learner, Program, Schema
from models.drift import DETECTORS
from models.drift import create as create_detector
from models.entry import TASKS
from models.prequential import Prequential
from models.registry import REGISTRY
from models.registry import create as create_learner
from models.streams import Source, Stream
from models.streams.registry import REGISTRY as STREAMS
from models.streams.registry import Drift
from models.streams.registry import open_source as open_stream
from riparian.evaluation import Evaluation, evaluate

if TYPE_CHECKING:
    from riparian.estimators import StreamClassifier, StreamRegressor

__all__ = [
    "LEARN",
    "PREDICT",
    "Bags",
    "Drift",
    "Evaluation",
    "Learner",
    "Prequential",
    "Program",
    "Schema",
    "Source",
    "Stream",
    "StreamClassifier",
    "StreamRegressor",
    "create_detector",
    "create_learner",
    "detector_names",
    "evaluate",
    "learner_names",
    "open_stream",
    "stream_names",
]


def learner_names(task: str | None = None) -> list[str]:
    """Names that `create_learner` takes; only those that do a task ("classification", "regression", "multi-instance"),
    where one is given."""
    if task is not None and task not in TASKS:
        raise ValueError(f"unknown task {task!r}: use one of {', '.join(TASKS)}")
    return [name for name, entry in REGISTRY.items() if task is None or task in entry.tasks]


def detector_names() -> list[str]:
    """Names that `create_detector` takes."""
    return list(DETECTORS)


def stream_names() -> list[str]:
    """Names that `open_stream` takes."""
    return list(STREAMS)


def __getattr__(name: str) -> Any:
    if name in ("StreamClassifier", "StreamRegressor"):  # scikit-learn takes a second to import
        import riparian.estimators

        return getattr(riparian.estimators, name)
    raise AttributeError(f"module 'riparian' has no attribute {name!r}")
