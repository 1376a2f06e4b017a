"""What the parameter `members` says, checked and filled in. Without numba."""

import re
from collections.abc import Mapping
from typing import Any

from models.entry import REGRESSION
from models.opinion_pool.entries import AUTO, LINEAR, LOGARITHMIC, MEMBERS

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")  # of a member: it begins the names of its arrays in a state
MOST = 64  # members


def members(task: str, given: Mapping[str, Any] | None) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> (model, every parameter) of each member, in order.

    Raises
    ------
    ValueError
        One sentence that names the member, what is wrong with it, and what would do.
    """
    from models.registry import FOREIGN, validate  # which lists the pool itself

    found = {}
    for name, said in (given or MEMBERS[task]).items():
        where = f"member {name!r} of model 'opinion-pool'"
        if not NAME.fullmatch(name):
            raise ValueError(f"{where}: give it a name of lower-case letters and digits, parts joined by '-'")
        if isinstance(said, str):
            said = {"model": said}
        if not isinstance(said, Mapping) or not isinstance(said.get("model"), str):
            raise ValueError(f"{where} is {said!r}: give a model's name, or a mapping with 'model' and its parameters")
        model = said["model"]
        if model == "opinion-pool" or model in FOREIGN:
            raise ValueError(f"{where} is {model!r}, which cannot be a member: give another model")
        try:
            found[name] = model, validate(model, task, {key: said[key] for key in said if key != "model"})
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if not 1 <= len(found) <= MOST:
        raise ValueError(f"model 'opinion-pool' has {len(found)} members: give 1 .. {MOST}")
    return found


def rule(task: str, pool: str) -> str:
    """The pooling rule. ValueError where the task has none of that name."""
    if pool == AUTO:
        return LINEAR if task == REGRESSION else LOGARITHMIC
    if pool == LOGARITHMIC and task == REGRESSION:
        raise ValueError(
            "parameter 'pool' of model 'opinion-pool' is 'logarithmic': a regression has 'linear' or 'leader'"
        )
    return pool


def check(task: str, parameters: Mapping[str, Any]) -> None:
    """ValueError where the members or the rule do not do."""
    members(task, parameters["members"])
    rule(task, parameters["pool"])
