"""Rules of drift detectors, and of the windows that learners keep of their errors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.drift.adwin import LAST_ROW, ROWS, TIME, WIDTH
from models.drift.kswin import FILLED, NEXT
from models.drift.scaling import BLOCK, IN_BLOCK, VALUES
from models.hoeffding import error_window as rows
from models.restoring.arrays import Arrays

LARGEST_ROW = 40  # buckets of 2^40 values: no stream has filled one


def check(a: Arrays, detector: Any) -> None:
    """Any detector: its counts, and what stands for a place or a level."""
    fresh = detector.state()
    a.fields(fresh, *fresh._fields)
    state = a.state
    for name in ("n", "counts"):
        if name in state:
            a.counts(name, state[name])
    if detector.name == "adwin":
        adwin(a, state["counts"], state["filled"], detector.parameters()["max_buckets"])
    elif detector.name == "kswin":
        size = len(state["window"])
        filled, following = int(state["counts"][FILLED]), int(state["counts"][NEXT])
        a.require(filled <= size and following < size, "counts", "has places beyond the window")
        a.finite("window", state["window"])
        a.random("random", state["random"])
    elif detector.name == "eddm":
        a.within("counts", state["counts"][3], 0, 2, "levels")


def adwin(a: Arrays, counts: NDArray[Any], filled: NDArray[Any], max_buckets: int, prefix: str = "") -> None:
    """Windows of models.drift.adwin, one or several. counts : (..., 3). filled : (..., 48)."""
    counts, filled = counts.reshape(-1, 3), filled.reshape(-1, ROWS)
    a.counts(prefix + "counts", counts)
    a.within(prefix + "filled", filled, 0, max_buckets, "buckets")
    a.require(not filled[:, LARGEST_ROW:].any(), prefix + "filled", "has buckets of more values than a stream has")
    last = np.where(filled.any(axis=1), ROWS - 1 - (filled[:, ::-1] > 0).argmax(axis=1), 0)
    a.equal(prefix + "counts", counts[:, LAST_ROW], last, "a highest row")
    a.equal(prefix + "counts", counts[:, WIDTH], filled @ (np.int64(1) << np.arange(ROWS)), "a number of values")
    a.require((counts[:, TIME] >= 0).all(), prefix + "counts", "has a time below 0")


def error_windows(a: Arrays, name: str, windows: NDArray[np.int32]) -> None:
    """Rows of models.hoeffding.error_window. windows : (n, 193)."""
    ranks = windows[:, rows.BUCKETS :].reshape(len(windows), rows.RANKS, rows.STEP)
    filled, errors = ranks[:, :, 0], ranks[:, :, 1:]
    a.within(name, windows[:, rows.TIME], 0, rows.CLOCK - 1, "times")
    a.within(name, filled, 0, rows.MAX_BUCKETS, "buckets")
    highest = np.where(filled.any(axis=1), rows.RANKS - 1 - (filled[:, ::-1] > 0).argmax(axis=1), 0)
    a.equal(name, windows[:, rows.HIGHEST], highest, "a highest rank")
    sizes = np.int64(1) << np.arange(rows.RANKS)
    a.within(name, errors, 0, sizes[:, None], "errors")
    there = np.arange(rows.MAX_BUCKETS + 1) < filled[:, :, None]
    a.require(not errors[~there].any(), name, "has errors in buckets that are not there")
    a.equal(name, windows[:, rows.WIDTH], filled @ sizes, "a number of values")
    a.equal(name, windows[:, rows.ERRORS], errors.sum(axis=(1, 2)), "a number of errors")


def scale(a: Arrays, name: str, values: NDArray[np.float64]) -> None:
    """models.drift.scaling: a scale, or (3,) zeros where nothing is scaled."""
    if len(values) == VALUES + BLOCK:
        a.whole(name, values[IN_BLOCK], 0, BLOCK, "values in a block")
    elif len(values) != VALUES:
        a.refuse(name, f"has {len(values)} numbers, not {VALUES + BLOCK}")
