"""The shipped checks of learners: each finds a learner that breaks what it is about, and says how."""

from typing import NamedTuple

import numpy as np
import pytest

from riparian.checks import EVERY_TASK, ONE_TASK, Case, check_learner, checks_of, run_check
from riparian.models.baseline.majority_class import MajorityClass
from riparian.models.baseline.mean import Mean
from riparian.models.contract import LEARN, PREDICT, Program


def twisted(y=None, w=None, **features):
    """The label or the weight of a program's labels as functions of them."""

    def run(self, program, slab, out):
        op, row, label, weight = program
        learned = op == LEARN
        label = np.where(learned, y(label) if y else label, label)
        self.kind.run(self, Program(op, row, label, w(weight) if w else weight), slab, out)

    return {"run": run, **features}


def out_of(change, *, when=lambda self: True):
    """Predictions that are changed once they are made. change : of the slab, the rows and the predictions."""

    def run(self, program, slab, out):
        self.kind.run(self, program, slab, out)
        rows = program.row[program.op == PREDICT]
        if len(rows) and when(self):
            out[rows] = change(slab, rows, out[rows])

    return {"run": run}


def writes_into_the_slab(self, program, slab, out):
    self.kind.run(self, program, slab, out)
    slab[0, 0] = 5.0


def counts_runs(self, program, slab, out):
    self.kind.run(self, program, slab, out)
    self._state.weights[0] += 1e-6 * (self._state.weights.sum() > 0.0) * (program.op == LEARN).any()


def learns_many_backwards(self, x, y, w=None):
    self.kind.learn_many(self, x, y, w)
    if len(y) > 1:
        self._state.weights[:] *= 2.0


def learns_what_it_predicts(self, program, slab, out):
    self.kind.run(self, program, slab, out)
    if self._state.weights.sum() > 0.0:
        self._state.weights[0] += (program.op == PREDICT).sum()


def forgets_when_restored(self, state):
    self.kind.restore(self, state)
    self._state.weights[:] *= 0.5


class Flags(NamedTuple):
    weights: np.ndarray
    known: np.ndarray


def has_flags(self):
    return Flags(self._state.weights, self._state.weights > 0.0)


def gives_new_classes_a_weight(self, schema):
    more = schema.n_outputs > len(self._state.weights) and schema.n_values == self.schema.n_values
    self.kind.resize(self, schema)
    if more:
        self._state.weights[-1] = 1.0


def begins_with_its_room(self, schema, *, seed=0, **parameters):
    self.kind.__init__(self, schema, seed=seed, **parameters)
    self._state.weights[0] = 1e-9 * (schema.n_outputs > 3)


class Rows(NamedTuple):
    weights: np.ndarray
    rows: np.ndarray


def keeps_every_row(self):
    return Rows(self._state.weights, np.zeros(int(self._state.weights.sum())))


def has_no_depth(self):
    return [{"id": 0, "parent": None, "weight": 0.0, "value": []}]


def learns_warming_up(self):
    self._state.weights[0] += 1.0


def adds_one(self):
    return {"own": 1}


def beyond(n):
    """Whether a value of the feature with four is n or greater."""
    return lambda slab, rows, out: np.where((slab[rows, 2] >= n)[:, None], np.nan, out)


missing = out_of(lambda slab, rows, out: np.where(np.isnan(slab[rows]).all(axis=1)[:, None], np.nan, out))
infinite = out_of(lambda slab, rows, out: np.where((slab[rows, 0] > 1e200)[:, None], np.nan, out))
moved = out_of(lambda slab, rows, out: np.where((slab[rows, 3] > 1e8)[:, None], np.nan, out))
spread = out_of(
    lambda slab, rows, out: 0.9 * out + 0.1 / out.shape[1], when=lambda self: self._state.weights.sum() > 0.0
)
guessing = out_of(
    lambda slab, rows, out: np.full_like(out, 1.0 / out.shape[1]), when=lambda self: self._state.weights.sum() == 0.0
)


def rounds_targets(self, program, slab, out):
    self.kind.run(self, program, slab, out)
    out[:] = np.float32(out)


# What breaks each check, of a learner that passes all others of its kind: as attributes of a class.
BROKEN = {
    "check_inputs": {"run": writes_into_the_slab},
    "check_any_pieces": {"run": counts_runs},
    "check_batches": {"learn_many": learns_many_backwards},
    "check_predict_changes_nothing": {"run": learns_what_it_predicts},
    "check_restore": {"restore": forgets_when_restored},
    "check_state": {"state": has_flags},
    "check_missing_values": missing,
    "check_new_nominal_values": out_of(beyond(9)),
    "check_restore_after_resize": {"__init__": begins_with_its_room},
    "check_constant_features": moved,
    "check_huge_and_tiny_values": infinite,
    "check_weights": twisted(w=lambda weight: np.where(weight > 0.0, 1.0 / np.maximum(weight, 1e-9), 0.0)),
    "check_one_class": spread,
    "check_nothing_known": guessing,
    "check_labels_that_teach_nothing": twisted(y=lambda label: np.clip(np.nan_to_num(label), 0.0, 2.0)),
    "check_memory_is_bounded": {"state": keeps_every_row},
    "check_describe": {"describe": has_no_depth},
    "check_parameters": {"parameters": adds_one},
    "check_warm_up": {"warm_up": learns_warming_up},
    "check_new_classes": {"resize": gives_new_classes_a_weight},
    "check_targets_far_from_zero": {"run": rounds_targets},
    "check_one_wrong_target": {},
}
ALL = (*EVERY_TASK, *sum(ONE_TASK.values(), ()))


def broken(check):
    kind, task = (Mean, "regression") if check in ONE_TASK["regression"] else (MajorityClass, "classification")
    return type("Broken", (kind,), {**BROKEN[check.__name__], "kind": kind}), task


def test_each_check_has_a_learner_that_breaks_it():
    assert [check.__name__ for check in ALL] == list(BROKEN)


@pytest.mark.parametrize("check", ALL)
def test_a_check_finds_a_learner_that_breaks_it(check):
    learner, task = broken(check)
    with pytest.raises(AssertionError, match=f"^Broken, {task}, fails {check.__name__}: ") as raised:
        run_check(check, learner, task, Case())
    found, _, promise = str(raised.value).partition("\nWhat it should do: ")
    assert promise == " ".join(check.__doc__.split())
    assert not found.endswith(": ")


def test_the_first_check_that_fails_ends_it_and_one_may_be_left_out():
    learner, _ = broken(EVERY_TASK[-1])
    with pytest.raises(AssertionError, match="after warm_up the arrays weights of the state differ"):
        check_learner(learner, tasks=["classification"])
    check_learner(learner, tasks=["classification"], skip=["check_warm_up"])


def test_a_check_that_is_left_out_has_to_exist():
    with pytest.raises(ValueError, match="skip names check_everything, which is no check"):
        check_learner(MajorityClass, skip=["check_everything"])
    assert len(list(checks_of("regression", Case(skip=("check_weights",))))) == len(list(checks_of("regression"))) - 1


def test_an_error_of_the_learner_is_named():
    def run(self, program, slab, out):
        raise IndexError("no such row")

    with pytest.raises(AssertionError, match="check_inputs: IndexError: no such row"):
        check_learner(type("Broken", (MajorityClass,), {"run": run}))
