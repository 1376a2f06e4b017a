"""Riparian as a library: its learners, drift detectors, streams and prequential evaluation, without Kafka.

What stands here is public; the packages below (`app`, `models`, `topics`) may change with any version.
docs/start/notebook.md shows each in use. The estimators need scikit-learn (`riparian[batch]`), nothing else here does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riparian.estimators import StreamClassifier, StreamRegressor, auto
    from riparian.evaluation import Evaluation, evaluate
    from riparian.models.contract import LEARN, PREDICT, Bags, Learner, Program, Schema
    from riparian.models.drift import create as create_detector
    from riparian.models.evaluation.prequential import Prequential
    from riparian.models.registry import create as create_learner
    from riparian.models.streams import EndlessStream, Stream
    from riparian.models.streams.registry import ConceptDrift
    from riparian.models.streams.registry import open_source as open_stream
    from riparian.past import features

__all__ = [
    "LEARN",
    "PREDICT",
    "Bags",
    "ConceptDrift",
    "EndlessStream",
    "Evaluation",
    "Learner",
    "Prequential",
    "Program",
    "Schema",
    "Stream",
    "StreamClassifier",
    "StreamRegressor",
    "auto",
    "create_detector",
    "create_learner",
    "detector_names",
    "evaluate",
    "features",
    "learner_names",
    "open_stream",
    "stream_names",
]


# Each is imported when it is first asked for: a command of `riparian` needs none of them, and numba takes a second.
_PLACES = {
    **dict.fromkeys(("StreamClassifier", "StreamRegressor", "auto"), "estimators"),
    **dict.fromkeys(("Evaluation", "evaluate"), "evaluation"),
    **dict.fromkeys(("LEARN", "PREDICT", "Bags", "Learner", "Program", "Schema"), "models.contract"),
    "Prequential": "models.evaluation.prequential",
    **dict.fromkeys(("EndlessStream", "Stream"), "models.streams"),
    "ConceptDrift": "models.streams.registry",
    "create_detector": "models.drift:create",
    "create_learner": "models.registry:create",
    "open_stream": "models.streams.registry:open_source",
    "features": "past",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'riparian' has no attribute {name!r}")
    module, _, other = _PLACES[name].partition(":")
    found = globals()[name] = getattr(import_module(f"riparian.{module}"), other or name)
    return found


def learner_names(task: str | None = None) -> list[str]:
    """Names that `create_learner` takes; only those that do a task ("classification", "regression", "multi-instance"),
    where one is given."""
    from riparian.models.auto.auto import AUTO
    from riparian.models.entry import TASKS
    from riparian.models.registry import REGISTRY

    if task is not None and task not in TASKS:
        raise ValueError(f"unknown task {task!r}: use one of {', '.join(TASKS)}")
    return [AUTO, *(name for name, entry in REGISTRY.items() if task is None or task in entry.tasks)]


def detector_names() -> list[str]:
    """Names that `create_detector` takes."""
    from riparian.models.drift import DETECTORS

    return list(DETECTORS)


def stream_names() -> list[str]:
    """Names that `open_stream` takes."""
    from riparian.models.streams.registry import REGISTRY

    return list(REGISTRY)
