"""Checks of the parameters of forests that no range says. Imports no numba."""

from collections.abc import Mapping
from typing import Any


def shrub_ensemble(task: str, parameters: Mapping[str, Any]) -> None:
    if parameters["loss"] == "cross-entropy" and task == "regression":
        raise ValueError("loss is 'cross-entropy' and the task regression: use 'mse'")
