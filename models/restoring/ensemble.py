"""Rules of ensembles: what they know themselves, and of each member its learner's."""

from typing import Any

import numpy as np

from models.ensemble.adaptation import BACK, WatchedTree
from models.ensemble.members import NEXT_SERIAL, Ensemble
from models.ensemble.regression import Patch
from models.ensemble.stacking import PREFIX, unstack
from models.ensemble.windows import MAX_BUCKETS
from models.restoring.arrays import Arrays
from models.restoring.drift import adwin, error_windows, scale


def check(a: Arrays, ensemble: Ensemble) -> None:
    from models.restoring import check as check_learner

    own = ensemble._own_state()
    slots = len(a.take("serials", own["serials"], None))
    for name, array in own.items():
        a.take(name, array, *((slots, *array.shape[1:]) if name in ensemble.PER_SLOT else array.shape))
    a.require(slots > 0, "serials", "has no members")
    numbers = a.state["numbers"]
    a.counts("numbers", numbers)
    a.within("serials", a.state["serials"], 0, int(numbers[NEXT_SERIAL]) - 1, "members")
    if "windows" in own:
        error_windows(a, "windows", a.state["windows"])
    stacked = {name: array for name, array in a.state.items() if name.startswith(PREFIX)}
    a.require(stacked, PREFIX + "arrays", "are missing")
    for name, array in stacked.items():
        a.require(array.ndim > 0 and len(array) == slots, name, f"has not {slots} members")
    sizes = np.array([n for name in sorted(stacked) for n in stacked[name].shape[1:]], np.int64)
    shapes = a.take("shapes", np.zeros(0, np.int64), slots, len(sizes))
    a.within("shapes", shapes, 0, sizes, "sizes")
    for slot, serial in enumerate(a.state["serials"].tolist()):
        member, state = ensemble._new_member(serial), unstack(a.state, slot)
        model = f"{a.model}, member {slot}"
        if isinstance(member, WatchedTree):
            _watched(Arrays(model, state), member)
        else:
            check_learner(_tree(member), state, model)


def _tree(member: Any) -> Any:
    return member._tree if isinstance(member, Patch) else member


def _watched(a: Arrays, member: WatchedTree) -> None:
    from models.restoring import check as check_learner

    numbers = a.take("numbers", np.zeros(3, np.int64))
    a.counts("numbers", numbers[:2])
    a.within("numbers", numbers[1:], -1, numbers[0], "trees")
    a.take("back_quality", np.zeros(3))
    if "compared" in a.state:  # states written before trees were compared have none
        a.take("compared", np.zeros(3))
    windows = member.windows()
    if "windows" in windows:
        error_windows(a, "windows", a.take("windows", windows["windows"]))
    elif "scale" in a.state:
        for name, array in windows.items():
            a.take(name, array)
        scale(a, "scale", a.state["scale"])
        adwin(a, a.state["window_counts"], a.state["window_filled"], MAX_BUCKETS, "window_")
    for number, prefix in ((int(numbers[1]), ""), (int(numbers[2]), BACK)):
        if number < 0:
            continue
        tree = _tree(member._grow(number))
        fresh = tree.state()._asdict()
        for name in fresh:
            a.require(prefix + name in a.state, prefix + name, "is missing")
        own = {name: np.ascontiguousarray(a.state[prefix + name]) for name in fresh}
        if not prefix and any(array.shape[1:] != own[name].shape[1:] for name, array in fresh.items()):
            continue  # of another number of features than by these parameters: the member says so, and what to do
        check_learner(tree, own, f"{a.model}{', tree beside' if prefix else ''}")
