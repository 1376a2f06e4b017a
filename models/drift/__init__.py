"""Drift detectors by name. Modules are imported when a detector is created, so that listing does not wait for numba."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models.drift.entries import ENTRIES, KSWIN, Entry
from models.entry import checked, suggest

if TYPE_CHECKING:
    from models.drift.contract import Detector

DETECTORS: dict[str, Entry] = {entry.name: entry for entry in ENTRIES}


def find(name: str) -> Entry:
    """The entry called `name`. ValueError with the closest name otherwise."""
    if name not in DETECTORS:
        raise ValueError(f"there is no drift detector {name!r}: {suggest(str(name), DETECTORS)}")
    return DETECTORS[name]


def validate(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a detector, as given or defaulted; ValueError where one is not valid. Without numba."""
    found = checked(f"detector {name!r}", find(name).parameters, parameters)
    if name == KSWIN.name and found["window_size"] < 2 * found["stat_size"]:
        raise ValueError(
            f"window_size is {found['window_size']}: give at least twice stat_size, {2 * found['stat_size']}"
        )
    return found


def load(name: str) -> "type[Detector]":
    """The class of a detector; ValueError where there is none of that name."""
    module, _, cls = find(name).cls.partition(":")
    detector: type[Detector] = getattr(importlib.import_module(module), cls)
    return detector


def create(name: str, *, seed: int = 0, **parameters: Any) -> "Detector":
    """A new detector; ValueError where the name, a parameter or its value is not valid."""
    return load(name)(seed=seed, **parameters)
