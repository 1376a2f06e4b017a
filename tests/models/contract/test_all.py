"""What is asked of the registry as a whole, and of public calls, whatever the learner."""

from importlib import import_module

import numpy as np
import pytest

from riparian.models.contract import Bags, Schema
from riparian.models.registry import FAMILIES, REGISTRY, create


def every_case():
    """The cases of all families' files, by learner."""
    found = {}
    for family in FAMILIES:
        module = import_module(f"tests.models.contract.test_{family.__name__.split('.')[2]}")
        assert set(module.CASES) == {entry.name for entry in family.ENTRIES}, f"{module.__name__}: other learners"
        found |= module.CASES
    return found


def test_every_registered_learner_has_a_case():
    assert set(every_case()) == set(REGISTRY)


@pytest.mark.parametrize("name", ["hoeffding-tree", "fimt-dd", "mondrian-forest", "miti"])
def test_rows_that_do_not_fit_the_schema_are_refused(name):
    task = REGISTRY[name].tasks[0]
    learner = create(name, Schema((0, 3), 1 if task == "regression" else 2, task))

    def refuses(message, x, y, *w):
        for method in (learner.learn_many, learner.fit):
            with pytest.raises(ValueError, match=message):
                method(Bags.of([len(x)], x) if task == "multi-instance" and np.ndim(x) == 2 else x, y, *w)

    one = [0.0] if task == "multi-instance" else [0.0, 0.0]
    refuses("the schema 2 features", [[1.0], [2.0]], one)
    refuses("feature 1 is nominal with 3 values", [[1.0, 3.0], [1.0, 0.0]], one)
    refuses("feature 1 is nominal with 3 values", [[1.0, 0.5], [1.0, 0.0]], one)
    refuses("y has the shape", [[1.0, 2.0], [1.0, np.nan]], [*one, 1.0])
    refuses("w has the shape", [[1.0, 2.0], [1.0, np.nan]], one, [1.0] * 5)
    refuses("give Bags" if task == "multi-instance" else "the schema 2 features", [1.0, 2.0], one)
    if task != "regression":
        refuses("give codes 0 .. 1", [[1.0, 2.0], [1.0, 0.0]], [7.0] * len(one))
    if task == "multi-instance":
        with pytest.raises(ValueError, match="inside their 2 instances"):
            learner.predict_many(Bags(np.array([1]), np.array([2]), np.zeros((2, 2))))
    else:
        with pytest.raises(ValueError, match="give an array"):
            learner.predict_many(Bags.of([2], [[1.0, 2.0], [1.0, 0.0]]))
