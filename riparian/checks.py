"""The contract of learners (riparian.models.contract) as checks that anybody's learner can be held to.

    from riparian.checks import check_learner

    check_learner(MyLearner, {"n_trees": 5}, bounded={"max_nodes": 15})

runs all checks for each task of the learner's entry, as River's `check_estimator` does. They are seeded: what fails
fails again. `checks_of` lists them, for a test of each one.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riparian.models.contract import LEARN, PREDICT, Bags, Floats, Learner, Program, Schema
from riparian.models.entry import VALUES
from riparian.models.restoring import check as check_arrays
from riparian.models.restoring import restore

N_VALUES = (0, 0, 4, 0, 2)  # of the features of all rows: numbers, and nominal ones of four and two values
N_CLASSES = 3  # of a classification
MOST_SINGLY = 1200  # operations that are programs of their own
FASTER = 400  # rows of a program for learners that are no champions: they are slow

State = Mapping[str, NDArray[Any]]
Slab = Floats | Bags


class Case(NamedTuple):
    """How a learner is checked.

    parameters : to make it with; they should lead through all its code within some hundred labels.
    bounded : further ones under which 3,000 labels reach its bound of memory.
    breathes : it drops parts and grows them again, so that its bytes vary below the bound.
    roomy : made with room for more values and classes, it is the same learner. False where it draws something by how
        many there are.
    skip : names of checks that it need not pass, such as "check_one_wrong_target" of a mean of all targets.
    """

    parameters: Mapping[str, Any] = MappingProxyType({})
    bounded: Mapping[str, Any] = MappingProxyType({})
    breathes: bool = False
    roomy: bool = True
    skip: tuple[str, ...] = ()


Check = Callable[[type[Learner], str, Case], None]


def check_learner(
    learner: type[Learner],
    parameters: Mapping[str, Any] = MappingProxyType({}),
    *,
    tasks: Sequence[str] | None = None,
    bounded: Mapping[str, Any] = MappingProxyType({}),
    breathes: bool = False,
    roomy: bool = True,
    skip: Sequence[str] = (),
) -> None:
    """Hold a learner to the contract.

    Parameters
    ----------
    learner : subclass of Learner
        With its `entry`; the registry need not know it.
    parameters, bounded, breathes, roomy, skip
        See `Case`.
    tasks : sequence of str, optional
        Those of the entry, if not given.

    Raises
    ------
    AssertionError
        At the first check that fails: the learner, the task, the check, what it promises and what was found.

    Examples
    --------
    >>> from riparian.models.baseline.majority_class import MajorityClass
    >>> check_learner(MajorityClass, tasks=["classification"])
    """
    case = Case(parameters, bounded, breathes, roomy, tuple(skip))
    unknown = set(case.skip) - {check.__name__ for check in (*EVERY_TASK, *sum(ONE_TASK.values(), ()))}
    if unknown:
        raise ValueError(f"skip names {', '.join(sorted(unknown))}, which is no check: see riparian.checks.checks_of")
    for task in tasks or learner.entry.tasks:
        for check in checks_of(task, case):
            run_check(check, learner, task, case)


def checks_of(task: str, case: Case = Case()) -> Iterator[Check]:  # noqa: B008 -- it never changes
    """The checks of a task's learners, without those that the case leaves out."""
    for check in (*EVERY_TASK, *ONE_TASK.get(task, ())):
        if check.__name__ not in case.skip:
            yield check


def run_check(check: Check, learner: type[Learner], task: str, case: Case) -> None:
    """Run one check. AssertionError with the learner, the task, the check and its promise where it fails."""
    try:
        check(learner, task, case)
    except Exception as error:
        found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        promise = " ".join((check.__doc__ or "").split("\n\n")[0].split())
        text = f"{learner.__name__}, {task}, fails {check.__name__}: {found}\nWhat it should do: {promise}"
        raise AssertionError(text) from None if isinstance(error, AssertionError) else error


# rows, and what is done with them ------------------------------------------------------------------------------------


def schema_of(task: str, n_values: tuple[int, ...] = N_VALUES, n_classes: int = N_CLASSES) -> Schema:
    """The schema of `rows`."""
    return Schema(n_values, {"classification": n_classes, "multi-instance": 2}.get(task, 1), task)


def rows(
    n: int, task: str, seed: int = 0, missing: float = 0.1, n_values: tuple[int, ...] = N_VALUES
) -> tuple[Floats, Floats]:
    """Features (n, 5) and labels (n,). Every feature but the constant last but one says something about the label.

    For bags, a row is the first instance of one: see `slab_of`.
    """
    rng = np.random.default_rng(seed)
    x = np.empty((n, len(n_values)))
    for j, values in enumerate(n_values):
        x[:, j] = rng.integers(0, values, n) if values else rng.normal(0.0, 1.0, n)
    x[:, 3] = 7.0
    signal = x[:, 0] + (x[:, 2] == 1) - 2.0 * (x[:, 4] == 1) + 0.3 * rng.normal(size=n)
    y = np.digitize(signal, [-1.0, 0.5]).astype(float) if task == "classification" else 10.0 * signal
    if task == "multi-instance":
        y = (signal > 0.0).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    return x, y


def slab_of(task: str, x: Floats) -> Slab:
    """What a learner of the task is given for rows. Bags have one to three instances, by the row: it, and some that are
    less clear; they do not lie in order."""
    if task != "multi-instance":
        return x
    size = 1 + np.nan_to_num(x[:, 4]).astype(np.int64) + (np.nan_to_num(x[:, 2]) > 1)
    others = np.where(np.arange(x.shape[1]) == 0, x - 1.0, x)
    start = np.cumsum(size[::-1])[::-1] - size
    instances = np.empty((int(size.sum()), x.shape[1]))
    for r in range(len(x)):
        instances[start[r] : start[r] + size[r]] = others[r]
        instances[start[r]] = x[r]
    return Bags(start, size, instances)


def make(learner: type[Learner], task: str, case: Case, schema: Schema | None = None, **more: Any) -> Learner:
    """A new learner of the case."""
    return learner(schema or schema_of(task), seed=1, **{**case.parameters, **more})


def learn(learner: Learner, x: Floats, y: Floats, w: Floats | None = None) -> None:
    """`learn_many` of rows, or of bags where the task asks for them."""
    learner.learn_many(slab_of(learner.schema.task, x), y, w)


def predict(learner: Learner, x: Floats) -> Floats:
    """`predict_many` of rows, or of bags where the task asks for them."""
    return learner.predict_many(slab_of(learner.schema.task, x))


def run_learns(learner: Learner, slab: Slab, y: ArrayLike, w: ArrayLike | None = None) -> None:
    """Learn rows as a worker does: labels, weights and codes as they are, whether or not they fit the schema."""
    labels = np.array(y, np.float64)
    n = len(labels)
    weights = np.ones(n) if w is None else np.array(w, np.float64)
    program = Program(np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), labels, weights)
    learner.run(program, slab, np.zeros((n, learner.schema.n_outputs)))


def interleaved(y: Floats, delay: int, w: Floats | None = None) -> Program:
    """The program of a stream whose labels come `delay` instances late."""
    n = len(y)
    steps = []
    for i in range(n + delay):
        if i < n:
            steps.append((PREDICT, i, np.nan, 1.0))
        if i >= delay:
            steps.append((LEARN, i - delay, y[i - delay], 1.0 if w is None else w[i - delay]))
    op, row, label, weight = zip(*steps, strict=True)
    return Program(np.array(op, np.int8), np.array(row, np.int32), np.array(label), np.array(weight))


def cut(program: Program, start: int, stop: int) -> Program:
    """Operations start to stop, as arrays of their own."""
    op, row, y, w = program.part(start, stop)
    return Program(op.copy(), row.copy(), y.copy(), w.copy())


def snapshot(learner: Any) -> State:
    """A copy of the state, in arrays that cannot be written."""
    copies = {name: array.copy() for name, array in learner.state()._asdict().items()}
    for array in copies.values():
        array.flags.writeable = False
    return copies


def bits(learner: Learner, state: State | None = None) -> dict[str, tuple[Any, ...]]:
    """Shape, type and bytes of each array of the state that equal folds have in common. state : the learner's, if not
    given."""
    arrays = learner.state()._asdict() if state is None else state
    return {f: (a.shape, a.dtype, a.tobytes()) for f, a in arrays.items() if f not in learner.incomparable}


# what a check asks for -----------------------------------------------------------------------------------------------


def _require(holds: Any, found: str) -> None:
    if not holds:
        raise AssertionError(found)


def _require_same_state(one: dict[str, Any], other: dict[str, Any], what: str) -> None:
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    _require(not names, f"{what} the arrays {', '.join(names)} of the state differ")


def _require_same(one: Floats, other: Floats, what: str) -> None:
    if one.shape != other.shape or one.tobytes() != other.tobytes():
        _require(one.shape == other.shape, f"{what} there are {len(other)} predictions, not {len(one)}")
        r = next(r for r in range(len(one)) if one[r].tobytes() != other[r].tobytes())
        raise AssertionError(f"{what} predictions differ: row {r} has {other[r].tolist()}, not {one[r].tolist()}")


def _require_valid(out: Floats, task: str, when: str) -> None:
    """Predictions of a learner that knows something are finite; scores lie in 0 .. 1; probabilities are not negative,
    and sum up to 1, or are all 0."""
    _require(np.all(np.isfinite(out)), f"{when} a prediction is not finite: {out[~np.isfinite(out).all(axis=1)][:1]}")
    if task == "anomaly":
        _require(
            np.all((out >= 0.0) & (out <= 1.0)), f"{when} scores reach from {out.min()} to {out.max()}, not 0 .. 1"
        )
    elif task != "regression":
        _require(np.all(out >= 0.0), f"{when} a probability is {out.min()}")
        totals = out.sum(axis=1)
        wrong = (np.abs(totals - 1.0) >= 1e-9) & (totals != 0.0)
        _require(not wrong.any(), f"{when} probabilities sum up to {totals[wrong][:1]}")


def _require_nothing(out: Floats, task: str, when: str) -> None:
    """Predictions of a learner that knows nothing are NaN where they are values, else all 0."""
    wrong = ~np.isnan(out) if task in VALUES else out != 0.0
    _require(not wrong.any(), f"{when} it predicts {out[wrong.any(axis=1)][:1].tolist()}")


# checks of learners of every task ------------------------------------------------------------------------------------


def check_inputs(learner: type[Learner], task: str, case: Case) -> None:
    """`run` changes neither program nor slab, writes predictions of the rows that it is asked about, and no others."""
    x, y = rows(600, task)
    program = interleaved(y, 10)
    one = make(learner, task, case)
    slab = slab_of(task, np.vstack([x, np.zeros((100, x.shape[1]))]))
    inputs = [*program, *(slab if isinstance(slab, Bags) else [slab])]
    before = [column.tobytes() for column in inputs]
    out = np.full((700, one.schema.n_outputs), -7.0)
    one.run(program, slab, out)
    _require(before == [column.tobytes() for column in inputs], "run has changed its program or the slab")
    n_nothing = int(np.isnan(out[:600, 0]).sum()) if task in VALUES else 11
    most = 60 if task == "regression" else 600  # a bootstrap may leave out the first labels
    _require(11 <= n_nothing <= most, f"{n_nothing} rows have no value, of which 11 come before the first is learned")
    _require_nothing(out[:n_nothing], task, "before the first label")
    _require_valid(out[n_nothing:600], task, "after the first label")
    _require(np.all(out[600:] == -7.0), "run has written where no prediction was asked for")


def check_any_pieces(learner: type[Learner], task: str, case: Case) -> None:
    """A program that is run in pieces, some by a learner that was restored in between, and by any number of threads,
    gives the bits of one that is run as a whole."""
    for delay in (0, 25):
        _check_pieces(learner, task, case, delay)


def _check_pieces(learner: type[Learner], task: str, case: Case, delay: int) -> None:
    n = FASTER if learner.entry.slow else 1500
    x, y = rows(n, task)
    program = interleaved(y, delay)
    slab, shape = slab_of(task, x), (n, schema_of(task).n_outputs)
    whole, out = make(learner, task, case), np.zeros(shape)
    whole.run(program, slab, out)
    cuts = np.sort(np.random.default_rng(5).integers(0, len(program.op), 9))
    threads: dict[str, Any] = {"threads": 3} if "threads" in whole.parameters() else {}
    # Single operations where a label follows its prediction: kernels may keep what they computed for it.
    for places in (cuts, np.arange(1, min(len(program.op), MOST_SINGLY)))[: 1 + (delay == 0)]:
        pieces, pieced = make(learner, task, case, **threads), np.zeros(shape)
        for a, b in pairwise([0, *places.tolist(), len(program.op)]):
            pieces.run(cut(program, a, b), slab, pieced)
            if places is cuts:
                saved = snapshot(pieces)
                predict(pieces, x[:9])
                pieces = make(learner, task, case, **threads)
                restore(pieces, saved)
        _require_same(out, pieced, f"in {len(places) + 1} pieces, labels {delay} instances late,")
        _require_same_state(bits(whole), bits(pieces), f"after {len(places) + 1} pieces")


def check_batches(learner: type[Learner], task: str, case: Case) -> None:
    """`learn_many` and `predict_many` of many instances do what one call an instance does, bit for bit."""
    x, y = rows(300, task)
    one, many = make(learner, task, case), make(learner, task, case)
    learn(one, x, y)
    for i in range(len(x)):
        learn(many, x[i : i + 1], y[i : i + 1])
    _require_same_state(bits(one), bits(many), "after learning one by one")
    _require_same(predict(one, x[:50]), np.vstack([predict(many, x[i : i + 1]) for i in range(50)]), "one by one")


def check_predict_changes_nothing(learner: type[Learner], task: str, case: Case) -> None:
    """A prediction changes no array of the state, and nothing that is learned later."""
    x, y = rows(1200, task)
    one, twin = make(learner, task, case), make(learner, task, case)
    predict(one, x)
    for part in (slice(600), slice(600, None)):
        learn(one, x[part], y[part])
        learn(twin, x[part], y[part])
        known = bits(one)
        predict(one, x)
        _require_same_state(known, bits(one), "after a prediction")
    _require_same_state(bits(twin), bits(one), "beside a twin that predicted nothing")


def check_restore(learner: type[Learner], task: str, case: Case) -> None:
    """A new learner that restores a state, and a copy, go on as the one that it is from: bits of state, predictions and
    description."""
    x, y = rows(2000, task)
    whole = make(learner, task, case)
    learn(whole, x[:900], y[:900])
    saved = snapshot(whole)
    predict(whole, x[:10])
    resumed = make(learner, task, case)
    restore(resumed, saved)
    _require_same_state(bits(whole, saved), bits(resumed), "once restored")
    copied = deepcopy(whole)  # pickle takes the same way
    for one in (whole, resumed, copied):
        learn(one, x[900:], y[900:])
    _require_same_state(bits(whole), bits(resumed), "after it was restored and learned on")
    _require_same_state(bits(whole), bits(copied), "after it was copied and learned on")
    _require_same(predict(whole, x), predict(resumed, x), "after it was restored")
    _require(resumed.describe() == whole.describe(), "after it was restored it is described in another way")


def check_state(learner: type[Learner], task: str, case: Case) -> None:
    """The state is a NamedTuple of contiguous arrays of numbers, whose bytes `n_bytes` counts."""
    x, y = rows(1000, task)
    one = make(learner, task, case)
    for _ in range(2):
        for name, array in one.state()._asdict().items():
            _require(isinstance(array, np.ndarray), f"{name} is {type(array).__name__}, not an array")
            _require(array.flags.c_contiguous, f"{name} is not contiguous")
            _require(array.dtype.kind in "iuf", f"{name} has the type {array.dtype}, not integers or floats")
        total = sum(array.nbytes for array in one.state())
        _require(one.n_bytes == total, f"n_bytes is {one.n_bytes}, the arrays have {total}")
        learn(one, x, y)


def check_missing_values(learner: type[Learner], task: str, case: Case) -> None:
    """Rows with missing values, and rows with nothing else, are learned and predicted."""
    x, y = rows(1500, task, missing=0.6)
    one = make(learner, task, case)
    learn(one, x, y)
    learn(one, np.full((20, x.shape[1]), np.nan), y[:20])
    _require_valid(predict(one, x), task, "with missing values")
    _require_valid(predict(one, np.full((1, x.shape[1]), np.nan)), task, "with nothing but missing values")


def check_new_nominal_values(learner: type[Learner], task: str, case: Case) -> None:
    """`resize` for more values of a feature changes no prediction; the new values are then predicted and learned."""
    x, y = rows(1500, task)
    one = make(learner, task, case)
    learn(one, x, y)
    before = predict(one, x)
    wider = (0, 0, 16, 0, 2)
    one.resize(schema_of(task, wider))
    _require(one.schema.n_values == wider, f"after resize the schema has the values {one.schema.n_values}")
    _require_same(before, predict(one, x), "after resize")
    unseen = x[:100].copy()
    unseen[:, 2] = np.arange(100) % 12 + 4
    _require_valid(predict(one, unseen), task, "of values that were never learned")
    learn(one, unseen, y[:100])
    _require_valid(predict(one, unseen), task, "of new values")
    x, y = rows(1500, task, seed=8, n_values=wider)
    learn(one, x, y)
    _require_valid(predict(one, x), task, "of new values")


def check_restore_after_resize(learner: type[Learner], task: str, case: Case) -> None:
    """A state that was resized is restored by a learner that had the larger schema from the beginning; and one that
    learned everything with the larger schema is the same, where the case is `roomy`."""
    x, y = rows(1200, task)
    bigger = schema_of(task, (0, 0, 8, 0, 2), N_CLASSES + 2)
    one, resumed, roomy = (make(learner, task, case, schema) for schema in (None, bigger, bigger))
    learn(one, x[:500], y[:500])
    one.resize(bigger)
    restore(resumed, snapshot(one))
    learn(roomy, x[:500], y[:500])
    x[500:, 2] += 3.0 * (x[500:, 0] > 0.5)
    if task == "classification":
        y[900:] += 2.0 * (x[900:, 1] > 0.5)
    for each in (one, resumed, roomy):
        learn(each, x[500:], y[500:])
    _require_same_state(bits(one), bits(resumed), "after it was resized, restored and learned on")
    if case.roomy:
        _require_same_state(bits(one), bits(roomy), "beside one that had the room from the beginning (roomy=False?)")
        _require_same(predict(one, x), predict(roomy, x), "beside one that had the room from the beginning")


def check_constant_features(learner: type[Learner], task: str, case: Case) -> None:
    """Features that never change are learned, and other values of them predicted."""
    _, y = rows(1500, task)
    x = np.tile([1.0, 0.0, 2.0, -5.0, 1.0], (1500, 1))
    one = make(learner, task, case)
    learn(one, x, y)
    _require_valid(predict(one, x[:1]), task, "of features that never changed")
    moved = x[:1] + np.array([0.5, 0.0, 0.0, 1e9, 0.0])
    _require_valid(predict(one, moved), task, "of other values of features that never changed")


def check_huge_and_tiny_values(learner: type[Learner], task: str, case: Case) -> None:
    """Features of 1e-200 or 1e300 lead to no prediction that is not finite."""
    x, y = rows(1500, task, missing=0.0)
    for scale in (1e-200, 1e150, 1e300):
        scaled = x.copy()
        scaled[:, :2] *= scale
        one = make(learner, task, case)
        learn(one, scaled, y)
        _require_valid(predict(one, scaled), task, f"of features of about {scale}")


def check_weights(learner: type[Learner], task: str, case: Case) -> None:
    """A weight of 0 teaches nothing, and of two classes the heavier one is not the less likely. A learner for which all
    positive weights are one passes."""
    x, y = rows(1500, task)
    rng = np.random.default_rng(2)
    w = rng.choice([0.0, 0.1, 1.0, 2.5], len(y))
    weighted, without = make(learner, task, case), make(learner, task, case)
    learn(weighted, x, y, w)
    learn(without, x[w > 0], y[w > 0], w[w > 0])
    _require_valid(predict(weighted, x), task, "with weights")
    _require_same_state(bits(without), bits(weighted), "with instances of weight 0")
    if task not in VALUES:
        light, heavy = make(learner, task, case), make(learner, task, case)
        for one, weights in ((light, (1.0, 0.25)), (heavy, (0.25, 1.0))):
            learn(one, np.tile(x[:1], (2, 1)), np.array([0.0, 1.0]), np.array(weights))
        low, high = predict(light, x[:1])[0, 1], predict(heavy, x[:1])[0, 1]
        _require(high >= low, f"a class of weight 1 has the probability {high}, of weight 0.25 {low}")


def check_one_class(learner: type[Learner], task: str, case: Case) -> None:
    """Where one class, or one target, is all that was ever learned, it is predicted."""
    x, _ = rows(1000, task)
    one = make(learner, task, case)
    learn(one, x, np.ones(1000))
    out = predict(one, x)
    _require_valid(out, task, "after one class only")
    if task == "classification":
        _require(np.all(out[:, 1] >= 1.0 - 1e-9), f"the only class has the probability {out[:, 1].min()}, not 1")
    elif task == "multi-instance":
        _require(np.all(out[:, 1] > 0.5), f"the only class has the probability {out[:, 1].min()}")
    elif task == "regression":
        _require(np.all(np.abs(out - 1.0) <= 1e-6), f"the target 1 is predicted as {out.min()} .. {out.max()}")


def check_nothing_known(learner: type[Learner], task: str, case: Case) -> None:
    """Before the first label that counts, probabilities are all 0 and values NaN; after it a regression predicts it."""
    x, y = rows(10, task)
    one = make(learner, task, case)
    _require_nothing(predict(one, x), task, "before the first label")
    shape = predict(one, x[:0]).shape
    _require(shape == (0, schema_of(task).n_outputs), f"of no rows the predictions have the shape {shape}")
    no_labels = [np.nan, np.inf] if task in VALUES else [np.nan, -1.0]
    weight = 0.0 if task == "anomaly" else 1.0  # there the label is not what teaches
    run_learns(one, slab_of(task, x[:4]), [*no_labels, *y[2:4]], [weight, weight, 0.0, 0.0])
    _require_nothing(predict(one, x), task, "after labels and weights that teach nothing")
    if task == "regression":
        learn(one, x[4:5], y[4:5])
        known = predict(one, x)  # a bootstrap may leave out the first label
        near = np.isnan(known) | np.isclose(known, y[4])
        _require(near.all(), f"after the one target {y[4]} it predicts {known[~near][:1]}")
        learn(one, x[5:], y[5:])
        _require_valid(predict(one, x), task, "after a few targets")


def check_labels_that_teach_nothing(learner: type[Learner], task: str, case: Case) -> None:
    """A label that is no class of the schema or no number, and a weight that is not positive and finite, change no
    array of the state."""
    x, y = rows(300, task)
    one = make(learner, task, case)
    learn(one, x, y)
    before = bits(one)
    labels = [np.nan, np.inf] if task in VALUES else [np.nan, -1.0, float(one.schema.n_outputs)]
    pairs = [(label, 1.0) for label in labels if task != "anomaly"]
    pairs += [(float(y[0]), weight) for weight in (0.0, -1.0, np.nan, np.inf)]
    for label, weight in pairs:
        run_learns(one, slab_of(task, x[:1]), [label], [weight])
        _require_same_state(before, bits(one), f"after the label {label} of weight {weight}")


def check_memory_is_bounded(learner: type[Learner], task: str, case: Case) -> None:
    """With the parameters `bounded`, bytes stay as they are after 3,000 labels, and predictions are valid."""
    one = make(learner, task, case, **case.bounded)
    x, y = rows(6000, task, seed=4)
    reached = []
    for a in range(0, 6000, 300):
        learn(one, x[a : a + 300], y[a : a + 300])
        reached.append(one.n_bytes)
        check_arrays(one, one.state()._asdict())
    if case.breathes:
        most, before = max(reached[10:]), max(reached[:10])
        _require(most <= 1.1 * before, f"it had {before} bytes within 3,000 labels, and has {most} after 6,000")
    else:
        _require(
            reached[-1] == reached[9],
            f"bytes after each 300 labels: {reached} (a parameter of `bounded`, or breathes=True?)",
        )
    _require_valid(predict(one, x), task, "at the bound of memory")


def check_describe(learner: type[Learner], task: str, case: Case) -> None:
    """`describe` gives nodes that can be written as JSON, parents first, with id, depth, weight, parent and value; and
    `size` whole numbers, among them n_nodes, n_leaves and depth."""
    x, y = rows(2000, task)
    one = make(learner, task, case)
    for n in (0, 1, 2000):
        learn(one, x[:n], y[:n])
        nodes = json.loads(json.dumps(one.describe(), allow_nan=False))
        root = nodes[0]
        _require(root["parent"] is None and root["depth"] == 0, f"the first node is no root: {root}")
        known: dict[Any, Any] = {}
        for node in nodes:
            lacking = {"id", "depth", "weight", "parent", "value"} - set(node)
            _require(not lacking, f"a node has no {', '.join(sorted(lacking))}: {node}")
            _require(node["id"] not in known, f"two nodes have the id {node['id']}")
            if node["parent"] is not None:
                _require(node["parent"] in known, f"node {node['id']} comes before its parent")
                _require(node["depth"] == known[node["parent"]]["depth"] + 1, f"node {node['id']} has another depth")
            known[node["id"]] = node
        size = one.size()
        _require({"n_nodes", "n_leaves", "depth"} <= set(size), f"size has {', '.join(sorted(size))}")
        _require(all(type(value) is int for value in size.values()), f"size has other things than integers: {size}")


def check_parameters(learner: type[Learner], task: str, case: Case) -> None:
    """`parameters` gives back all parameters of the entry, given or defaulted, and they can be written as JSON."""
    one = make(learner, task, case)
    found, wanted = one.parameters(), one.entry.valid(task, case.parameters)
    _require(found == wanted, f"they are {found}, not {wanted}")
    _require(json.loads(json.dumps(found)) == found, f"as JSON they are not the same: {found}")
    _require(learner.name == learner.entry.name, f"the class is called {learner.name}, its entry {learner.entry.name}")


def check_warm_up(learner: type[Learner], task: str, case: Case) -> None:
    """`warm_up` leaves no trace in the learner."""
    one = make(learner, task, case)
    before = bits(one)
    one.warm_up()
    _require_same_state(before, bits(one), "after warm_up")


# checks of learners of one task --------------------------------------------------------------------------------------


def check_new_classes(learner: type[Learner], task: str, case: Case) -> None:
    """`resize` for more classes changes no probability and gives the new ones 0; then they are learned."""
    x, y = rows(1500, task)
    one = make(learner, task, case)
    learn(one, x, y)
    before = predict(one, x)
    one.resize(schema_of(task, n_classes=N_CLASSES + 5))
    after = predict(one, x)
    _require(after.shape == (len(x), N_CLASSES + 5), f"after resize predictions have the shape {after.shape}")
    _require_same(before, np.ascontiguousarray(after[:, :N_CLASSES]), "after resize")
    _require(np.all(after[:, N_CLASSES:] == 0.0), "after resize a class that was never learned has a probability")
    x[:, 0] += 50.0
    learn(one, x, np.full(len(x), N_CLASSES + 4.0))
    after = predict(one, x)
    _require_valid(after, task, "with a new class")
    _require(after[-1].argmax() == N_CLASSES + 4, f"after 1,500 labels of a new class it predicts {after[-1]}")


def errors(learner: type[Learner], task: str, case: Case, y: Floats) -> Floats:
    """How far a learner is off before it learns each target, on the features of `rows`."""
    x, _ = rows(len(y), task, missing=0.0)
    one, out = make(learner, task, case), np.zeros((len(y), 1))
    one.run(interleaved(y, 0), x, out)
    return np.asarray(np.abs(out[:, 0] - y), np.float64)


def check_targets_far_from_zero(learner: type[Learner], task: str, case: Case) -> None:
    """Errors depend on how far targets are from each other, not from 0, down to where floats end: a sensor that is
    stuck, a time in milliseconds."""
    y = rows(500, task, missing=0.0)[1] / 10.0
    clean = np.median(errors(learner, task, case, y)[100:])
    for level in (1.0, 1e3, 1e6, 1e9, 1e12):
        found, most = np.median(errors(learner, task, case, level + y)[100:]), 1.5 * clean + 1e-13 * level
        _require(found < most, f"the median error is {clean} about 0, and {found} about {level}")
    for step in (float(np.spacing(7.5)), 1e-9):
        y_stuck = np.asarray(7.5 + step * np.round(np.clip(y, 0.0, 1.0)), np.float64)
        stuck = np.nanmax(errors(learner, task, case, y_stuck))
        _require(stuck < 2.0 * step + 1e-13, f"targets are {step} from each other, and an error is {stuck}")


def check_one_wrong_target(learner: type[Learner], task: str, case: Case) -> None:
    """A target that is wrong by many deviations is not believed for long: 1,000 labels later the median error is as
    without it."""
    y = rows(2600, task, missing=0.0)[1]
    clean = np.median(errors(learner, task, case, y)[1600:])
    for wrong in (1e5, 1e9):
        y[500] = 10.0 * wrong
        found = np.median(errors(learner, task, case, y)[1600:])
        _require(found < 2.0 * clean, f"the median error is {clean}, and {found} after one target of {y[500]}")


EVERY_TASK: tuple[Check, ...] = (
    check_inputs,
    check_any_pieces,
    check_batches,
    check_predict_changes_nothing,
    check_restore,
    check_state,
    check_missing_values,
    check_new_nominal_values,
    check_restore_after_resize,
    check_constant_features,
    check_huge_and_tiny_values,
    check_weights,
    check_one_class,
    check_nothing_known,
    check_labels_that_teach_nothing,
    check_memory_is_bounded,
    check_describe,
    check_parameters,
    check_warm_up,
)
ONE_TASK: Mapping[str, tuple[Check, ...]] = {
    "classification": (check_new_classes,),
    "regression": (check_targets_far_from_zero, check_one_wrong_target),
}
