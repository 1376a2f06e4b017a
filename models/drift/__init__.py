"""Drift detectors by name. Modules are imported when a detector is created, so that listing does not wait for numba."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.drift.contract import Detector

DETECTORS: dict[str, str] = {
    "adwin": "models.drift.adwin:Adwin",
    "ddm": "models.drift.error_rate:Ddm",
    "eddm": "models.drift.error_rate:Eddm",
    "hddm-a": "models.drift.hoeffding_bound:HddmA",
    "hddm-w": "models.drift.hoeffding_bound:HddmW",
    "kswin": "models.drift.kswin:Kswin",
    "page-hinkley": "models.drift.page_hinkley:PageHinkley",
}


def load(name: str) -> "type[Detector]":
    """The class of a detector; ValueError where there is none of that name."""
    if name not in DETECTORS:
        raise ValueError(f"there is no drift detector {name!r}: choose one of {', '.join(DETECTORS)}")
    module, _, cls = DETECTORS[name].partition(":")
    detector: type[Detector] = getattr(importlib.import_module(module), cls)
    return detector


def create(name: str, *, seed: int = 0, **parameters: Any) -> "Detector":
    """A new detector; ValueError where the name, a parameter or its value is not valid."""
    return load(name)(seed=seed, **parameters)
