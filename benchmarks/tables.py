"""The public data sets as arrays, for benchmarks that call learners without the application.

Values and classes get their codes in order of first sight.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from riparian.app.dataset.files.data import DataFile
from riparian.models.contract import LEARN, PREDICT, Floats, Program, Schema

# Features that are categories though they look like numbers.
NOMINAL = {"elec": ("day",), "weather": (), "pendigits": (), "nursery": ("children",), "splice": ()}


class Table(NamedTuple):
    """Rows of a data set.

    x : (n, d) float64
    y : (n,) class codes, or targets
    """

    schema: Schema
    x: Floats
    y: Floats


def read(path: Path, nominal: tuple[str, ...] = (), task: str = "classification") -> Table:
    """A CSV whose last column is the class, or the target. nominal : features that are categories though they look like
    numbers."""
    file = DataFile(path)
    types = file.types(task=task, nominal=nominal)
    wanted = [file.position(name, "a feature") for name in (*types.features, types.target)]
    x, y = [], []
    codes: list[dict[str, int]] = [{} for _ in wanted]
    for block in file.blocks(wanted):
        columns = [
            file.numbers(block, at, name) if kind == "numeric" else encode(file.values(block, at, name), codes[at])
            for at, (name, kind) in enumerate(types.features.items())
        ]
        x.append(np.column_stack(columns))
        at = len(columns)
        regression = task == "regression"
        y.append(
            file.numbers(block, at, types.target)
            if regression
            else encode(file.values(block, at, types.target), codes[at])
        )
    n_values = tuple(types.n_values.get(name, 0) for name in types.features)
    return Table(Schema(n_values, 1 if regression else types.n_classes, task), np.concatenate(x), np.concatenate(y))


def encode(values: list[str | None], codes: dict[str, int]) -> Floats:
    """Codes in order of first sight, NaN where missing. Mutates codes."""
    return np.array([np.nan if v is None else codes.setdefault(v, len(codes)) for v in values], dtype=np.float64)


def test_then_train(y: Floats) -> Program:
    """Predict row 0, learn row 0, predict row 1, …"""
    n = len(y)
    op = np.tile(np.array([PREDICT, LEARN], np.int8), n)
    labels = np.full(2 * n, np.nan)
    labels[1::2] = y
    return Program(op, np.repeat(np.arange(n, dtype=np.int32), 2), labels, np.ones(2 * n))
