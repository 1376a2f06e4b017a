"""Rules of learners without structure, and of what other learners share with them."""

from typing import Any

import numpy as np

from models.contract import Schema
from models.restoring.arrays import Arrays


def check(a: Arrays, learner: Any) -> None:
    fresh = learner.state()
    if learner.name == "external":  # a pickle, which its key has signed
        a.fields(fresh, *fresh._fields, **{name: (None,) * array.ndim for name, array in fresh._asdict().items()})
        return
    a.fields(fresh, *fresh._fields)
    if learner.name == "last-label" and learner.schema.task != "regression":
        last = a.state["last"][:1]
        a.whole("last", last[~np.isnan(last)], 0, learner.schema.n_outputs - 1, "classes")
    if learner.name == "naive-bayes":
        known(a, fresh, learner.schema)


def known(a: Arrays, fresh: Any, schema: Schema) -> None:
    """models.observers.Known: how many values of a feature were learned, of those that were."""
    capacity = np.array(schema.n_values, np.int64)
    values, n_values = a.fields(fresh, "values", "n_values")
    a.within("values", values, 0, 1)
    seen = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(capacity)
    a.equal("n_values", n_values, seen[ends] - seen[ends - capacity], "counts")
