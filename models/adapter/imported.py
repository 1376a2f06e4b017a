"""A model of another library by its import path."""

import importlib
import inspect
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

from riparian.models.entry import CLASSIFICATION
from riparian.models.extras import installation

DEFAULTS = {True: "river.tree.HoeffdingTreeClassifier", False: "river.tree.HoeffdingTreeRegressor"}
EXTRAS = {"river": "river", "sklearn": "batch"}  # package -> the extra of ours that installs it


def path_of(task: str, given: str | None) -> str:
    """The import path, or the default one."""
    return DEFAULTS[task == CLASSIFICATION] if given is None else given


def make(path: str, arguments: Mapping[str, Any] | None, seed: int = 0) -> Any:
    """What `path` names, called with the arguments, and with the seed where it takes one under a usual name.

    Raises
    ------
    ValueError
        One sentence: there is no such thing, it does not take these arguments, or what it makes does not learn.
    """
    maker = _named(path)
    given = dict(arguments or {})
    try:
        known = set(inspect.signature(maker).parameters)
    except (TypeError, ValueError):
        known = set()
    for name in ("seed", "random_state"):
        if name in known and name not in given:
            given[name] = seed
    try:
        model = maker(**given)
    except Exception as error:
        raise ValueError(f"{path} does not take these arguments: {type(error).__name__}: {error}") from None
    if not (hasattr(model, "learn_one") or hasattr(model, "partial_fit")):
        raise ValueError(f"{path} has neither learn_one nor partial_fit: name a model that learns from a stream")
    return model


def _named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        extra = EXTRAS.get(package)
        cure = installation(extra) if extra and error.name == package else "install it, or add it to PYTHONPATH"
        raise ValueError(f"{path} needs {error.name}, which is not there: {cure}") from None
    except AttributeError:
        raise ValueError(f"{module} has no {name!r}: mend import_path") from None
    except Exception as error:
        raise ValueError(f"{module} cannot be imported: {type(error).__name__}: {error}") from None


def check(task: str, parameters: Mapping[str, Any]) -> None:
    """ValueError where the path cannot be one. Imports and calls nothing: a stream file that is only looked at must
    not run what it names."""
    path = path_of(task, parameters["import_path"])
    if "." not in path or not all(part.isidentifier() for part in path.split(".")):
        raise ValueError(
            f"import_path is {path!r}: give a module and a name, such as river.tree.HoeffdingTreeClassifier"
        )


@cache
def version_of(path: str) -> str:
    """The library of a path and its version, "river 0.26.1"; the package alone where it was not installed as one. Asked
    once: it reads what every installed package has, and every checkpoint wants to know."""
    package = path.partition(".")[0]
    names = packages_distributions().get(package, [package])
    try:
        return f"{names[0]} {version(names[0])}"
    except PackageNotFoundError:
        return package
