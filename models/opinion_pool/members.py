"""The parameter `members`, checked and filled in. Without numba."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from riparian.models.entry import REGRESSION
from riparian.models.opinion_pool.entries import AUTO, LINEAR, LOGARITHMIC, MEMBERS
from riparian.models.registry import FOREIGN, REGISTRY, validate

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")  # of a member: it begins the names of its arrays in a state
MOST = 64  # members
SEEN = ("max_values", "target_means")  # what a member sees (models.opinion_pool.views)
OWN = ("model", "frozen", *SEEN)  # keys of a member; the rest are its parameters


def members(task: str, given: Mapping[str, Any] | None) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> (model, every parameter) of each member, in order.

    Raises
    ------
    ValueError
        One sentence that names the member, what is wrong with it, and what would do.
    """
    found = {}
    for name, member in (given or MEMBERS[task]).items():
        where = f"member {name!r} of model 'opinion-pool'"
        if not NAME.fullmatch(name):
            raise ValueError(f"{where}: give it a name of lower-case letters and digits, parts joined by '-'")
        if isinstance(member, str):
            member = {"model": member}
        if not isinstance(member, Mapping) or not isinstance(member.get("model"), str):
            raise ValueError(
                f"{where} is {member!r}: give a model's name, or a mapping with 'model' and its parameters"
            )
        model = member["model"]
        if model == "opinion-pool" or model in FOREIGN:
            raise ValueError(f"{where} is {model!r}, which cannot be a member: give another model")
        if not isinstance(member.get("frozen", False), bool):
            raise ValueError(f"{where}: frozen is {member['frozen']!r}: give true or false")
        _check_seen(where, *map(member.get, SEEN))
        try:
            found[name] = model, validate(model, task, {key: member[key] for key in member if key not in OWN})
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if not 1 <= len(found) <= MOST:
        raise ValueError(f"model 'opinion-pool' has {len(found)} members: give 1 .. {MOST}")
    return found


def _check_seen(where: str, most: Any, means: Any) -> None:
    each = most if isinstance(most, list | tuple) else [2 if most is None else most]
    if not each or not all(type(n) is int and (n >= 2 or (n == 0 and each is most)) for n in each):
        raise ValueError(f"{where}: max_values is {most!r}: give a number from 2 on, or one a feature, 0 for no bound")
    if means is not None and not (
        isinstance(means, list | tuple)
        and all(type(f) is int and f >= 0 for f in means)
        and all(a < b for a, b in pairwise(means))
    ):
        raise ValueError(f"{where}: target_means is {means!r}: give the numbers of features, from 0 on, ascending")


def seen(given: Mapping[str, Any] | None) -> dict[str, tuple[int | tuple[int, ...] | None, tuple[int, ...]]]:
    """Name -> the values that a member sees of nominal features, None for all, and the features whose mean targets it
    sees; of those that do not see instances as they are."""
    found = {}
    for name, member in (given or {}).items():
        if isinstance(member, Mapping) and (member.get("max_values") or member.get("target_means")):
            most = member.get("max_values")
            found[name] = (
                tuple(most) if isinstance(most, list | tuple) else most,
                tuple(member.get("target_means") or ()),
            )
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


def memo_names(task: str, parameters: Mapping[str, Any]) -> list[str]:
    """Names of the memos: the votes of each member."""
    return [f"member-{name}" for name in members(task, parameters.get("members"))]


def frozen(given: Mapping[str, Any] | None) -> list[str]:
    """Members that predict and do not learn."""
    return [name for name, member in (given or {}).items() if isinstance(member, Mapping) and member.get("frozen")]


def going_on(task: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int | None]:
    """Each member of a pool of parameters `now` -> its place among those of a pool of parameters `was` whose state it
    goes on with, or None: it has to have the same name, model and parameters, but for those that no array depends on.
    """
    before, found = members(task, was.get("members")), dict[str, int | None]()
    saw, sees = seen(was.get("members")), seen(now.get("members"))
    for name, (model, own) in members(task, now.get("members")).items():
        other, its = before.get(name, ("", {}))
        same = model == other and saw.get(name) == sees.get(name)
        same = same and all(its.get(key) == own[key] for key in own if key not in REGISTRY[model].free)
        found[name] = list(before).index(name) if same else None
    return found


def memo_places(task: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int | None]:
    """Places of the memos where a state goes on with other members (models.registry.memo_places)."""
    return {f"member-{name}": at for name, at in going_on(task, was, now).items()}


def exchanged(task: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What becomes of the members of a pool whose members are others now, in words. None where none goes on, or where
    something else differs that its arrays depend on."""
    if any(was.get(key) != value for key, value in now.items() if key != "members"):
        return None
    found = going_on(task, was, now)
    stay, begun = ([name for name, at in found.items() if (at is None) == new] for new in (False, True))
    if not stay:
        return None
    dropped = [name for name in members(task, was.get("members")) if name not in found]
    before, after = frozen(was.get("members")), frozen(now.get("members"))
    changes = {
        "go on": stay,
        "begin": begun,
        "dropped": dropped,
        "frozen from here on": [name for name in after if name not in before],
        "learning again": [name for name in before if name in stay and name not in after],
    }
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in changes.items() if names)
