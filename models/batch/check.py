"""Checks of batch learners' parameters. Imports none of the libraries: it looks whether they are there."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from riparian.models.extras import installation


def sklearn_model(task: str, parameters: Mapping[str, Any]) -> None:
    _there("sklearn", "scikit-learn")
    _lag(parameters)


def xgboost_model(task: str, parameters: Mapping[str, Any]) -> None:
    _there("xgboost", "XGBoost")
    _lag(parameters)


def _there(module: str, library: str) -> None:
    if find_spec(module) is None:
        raise ValueError(f"this model needs {library}, which is not installed: {installation('batch')}")


def _lag(parameters: Mapping[str, Any]) -> None:
    lag, refit_every = parameters["lag"], parameters["refit_every"]
    if lag is not None and lag > refit_every:
        raise ValueError(
            f"lag is {lag} and refit_every {refit_every}: a model takes its place before the next is begun, lower lag"
        )
