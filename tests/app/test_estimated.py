"""The estimated accuracy in the fold: each role's; the same for every cut, as test_promotion.py asks."""

import pytest

from riparian.app.partition.learner import PartitionLearner
from tests.app.test_comparing import stream
from tests.app.test_drift import fold, records


def test_estimates_are_of_each_role_and_near_what_labels_say():
    data, spec = records("classification"), stream("classification")
    whole = fold(spec, data, 100_000)[0]
    names = {name for name in whole.snapshot().arrays if name.startswith("estimated/")}
    assert names == {f"estimated/{role}/{field}" for role in spec.models() for field in ("bins", "totals")}
    estimated, recent = whole.figures().estimated, whole.roles["bayes"].metrics.windowed()
    assert estimated["bayes"]["accuracy"] == pytest.approx(recent["accuracy"], abs=0.1)
    assert abs(estimated["bayes"]["error"]) < 0.1


def test_a_regression_has_none_and_a_state_of_before_begins():
    learner = fold(stream("regression"), records("regression"), 1000)[0]
    assert not any(learner.figures().estimated.values())
    spec = stream("classification")
    learner = fold(spec, records("classification"), 1000)[0]
    cut = learner.snapshot()
    older = PartitionLearner(spec)
    arrays = {name: array for name, array in cut.arrays.items() if not name.startswith("estimated/")}
    older.restore(cut._replace(arrays=arrays))
    assert not any(older.figures().estimated.values())
    # A challenger goes on with it under another name.
    renamed = PartitionLearner(stream("classification", challengers={"b": "naive-bayes"}))
    renamed.restore(cut)
    assert renamed.figures().estimated["b"] == learner.figures().estimated["bayes"]
