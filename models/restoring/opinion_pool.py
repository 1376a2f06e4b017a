"""Rules of opinion pools: weights and scores, and of each member its learner's."""

from typing import Any

from models.opinion_pool.learner import of_member
from models.opinion_pool.views import MOST, WEIGHT
from models.restoring.arrays import Arrays


def check(a: Arrays, pool: Any) -> None:
    from models.restoring import check as check_learner

    for name, like in (("weights", pool._weights), ("sizes", pool._sizes), ("quality", pool._quality)):
        array = a.take(name, like)
        a.finite(name, array)
        a.within(name, array, 0.0, 1e300)
    # Of a mean they are shares. Powers of probabilities move by a step a label.
    a.within("weights", a.state["weights"], 0.0, 1e12 if pool.logarithmic else 1.0 + 1e-9)
    a.counts("counts", a.take("counts", pool._counts))
    if "class_counts" in a.state:  # which older states lack
        a.counts("class_counts", a.take("class_counts", pool._class_counts))
    if "hessian" in a.state:
        a.finite("hessian", a.take("hessian", pool._hessian))
    for name, table in pool._views.state().items():
        found = a.take(name, table)
        a.within(name, found[:, WEIGHT], 0.0, MOST, "weights")
        a.finite(name, found)
    for name, member in pool.members.items():
        check_learner(member, of_member(a.state, name), f"{a.model}, member {name}")
