"""Drift detectors by name. Modules are imported when a detector is created, so that listing does not wait for numba."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from riparian.models.drift.entries import DETECTORS, DetectorEntry
from riparian.models.entry import suggest

if TYPE_CHECKING:
    from riparian.models.drift.contract import Detector

__all__ = ["DETECTORS", "create", "find", "validate"]


def find(name: str) -> DetectorEntry:
    """The entry called `name`. ValueError with the closest name otherwise."""
    if name not in DETECTORS:
        raise ValueError(f"there is no drift detector {name!r}: {suggest(str(name), DETECTORS)}")
    return DETECTORS[name]


def validate(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a detector, as given or defaulted; ValueError where one is not valid. Without numba."""
    return find(name).valid(parameters)


def create(name: str, *, seed: int = 0, **parameters: Any) -> "Detector":
    """A new detector; ValueError where the name, a parameter or its value is not valid."""
    detector: Detector = find(name).load()(seed=seed, **parameters)
    return detector
