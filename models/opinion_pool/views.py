"""What members see of instances where that is not all: fewer nominal values, and mean targets beside them.

A leaf that observes a nominal feature keeps numbers of each value: with thousands of values trees take gigabytes, and
learn little, since most values come too rarely in any leaf. A member may be shown

- only the first `max_values` values of a nominal feature, in the order of their codes, which is that of first sight;
  others are missing to it;
- of some nominal features, besides, the mean target of the labels that came with the value so far, as one more numeric
  feature behind the others (ordered target statistics: Prokhorenkova et al. 2018).

Of a classification the target is 1 where the label is not of the first class, else 0. With n the weight of a value's
labels, m their mean and o the mean of all, a member is shown

    (n m + PRIOR o) / (n + PRIOR),

of a classification the log odds of that, with o from half a label more of either kind, so that it is never 0 or 1. All
are from the labels before that place of the program alone. n counts to MOST: from there on means forget as they learn.
What is learned of an instance is shown as it is right before its label, which is not in it.

State: for each such feature `target_f`, (1 + values, 2) float64: weight and mean, of all labels in row 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LEARN, Floats, Program, Schema
from riparian.models.joined import grown
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel

PRIOR = 20.0  # labels
MOST = 1000.0  # labels
WEIGHT, MEAN = range(2)
TARGET = "target_"  # and the number of a feature: its array in a state


class View(NamedTuple):
    """What a member sees. max_values : of each nominal feature, or of the first features, 0 for all; None for all.
    target_means : features, ascending."""

    max_values: int | tuple[int, ...] | None = None
    target_means: tuple[int, ...] = ()

    def nominal(self, schema: Schema) -> list[int]:
        """The features of target_means that are nominal; of others there is no mean."""
        return [f for f in self.target_means if f < schema.n_features and schema.n_values[f] > 0]

    def most(self, schema: Schema) -> list[int]:
        """Of each feature, the values that are seen, 0 for all."""
        if self.max_values is None or isinstance(self.max_values, int):
            return [self.max_values or 0] * schema.n_features
        return [*self.max_values, *(0 for _ in schema.n_values)][: schema.n_features]

    def schema(self, schema: Schema) -> Schema:
        """The schema that the member has."""
        n_values = [min(n, most or n) for n, most in zip(schema.n_values, self.most(schema), strict=True)]
        return schema._replace(n_values=(*n_values, *(0 for _ in self.nominal(schema))))


ALL = View()


class Views:
    """What all members of a pool see, and the mean targets of values.

    Parameters
    ----------
    schema : Schema
        Of the pool.
    views : of each member.
    """

    def __init__(self, schema: Schema, views: Sequence[View]) -> None:
        self.schema, self.views = schema, list(views)
        self._others = [view for view in dict.fromkeys(self.views) if view != ALL]
        self._features = sorted({f for view in self._others for f in view.nominal(schema)})
        self._tables = [np.zeros((1 + schema.n_values[f], 2)) for f in self._features]
        self._join()
        self.prepare(0)

    def _join(self) -> None:
        """The tables as kernels take them: one after the other."""
        self._first = np.cumsum([0, *(len(table) for table in self._tables)], dtype=np.int64)
        self._table = np.concatenate([np.zeros((0, 2)), *self._tables])
        self._tables = [self._table[a:b] for a, b in zip(self._first[:-1], self._first[1:], strict=True)]

    @property
    def width(self) -> int:
        """Numbers of a row, beside those of the instance itself."""
        return sum(view.schema(self.schema).n_features for view in self._others) + len(self._features)

    def prepare(self, n: int) -> None:
        """Room for a chunk of n rows."""
        self._seen = {view: np.zeros((n, view.schema(self.schema).n_features)) for view in self._others}
        self._means = np.zeros((n if self._others else 0, len(self._features)))

    def show(self, chunk: Program, now: NDArray[np.int32], rows: Floats, classes: bool) -> "Shown":
        """A chunk as members see it. Learns the mean targets of its labels.

        now : of each label, the row that is predicted once more right before it, or -1. classes : of a classification.
        """
        if not self._others:
            return Shown({ALL: rows}, chunk)
        label = chunk.op == LEARN
        if self._features:
            follow(
                chunk.row, chunk.y, chunk.w, label, classes, rows, np.array(self._features), self._first, self._table,
                self._means,
            )  # fmt: skip
        found = {ALL: rows}
        for view, seen in self._seen.items():
            columns = np.array([self._features.index(f) for f in view.nominal(self.schema)], np.int64)
            most = [most if n else 0 for n, most in zip(self.schema.n_values, view.most(self.schema), strict=True)]
            look(rows, np.array(most, np.int64), self._means, columns, seen)
            found[view] = seen[: len(rows)]
        return Shown(found, chunk._replace(row=np.where(label & (now >= 0), now, chunk.row)))

    def described(self, view: View, part: Any) -> Any:
        """What a member describes: a mean target's column by the number of its feature, and "target_mean", true."""
        of, d = view.nominal(self.schema), self.schema.n_features
        if not of:
            return part
        if isinstance(part, list):
            return [self.described(view, one) for one in part]
        if not isinstance(part, dict):
            return part
        found = {key: self.described(view, value) for key, value in part.items()}
        if isinstance(part.get("feature"), int) and part["feature"] >= d:
            found |= {"feature": of[part["feature"] - d], "target_mean": True}
        for key in ("importance", "variance"):  # of each column
            if key in part:
                found[key] = part[key][:d]
                for j, f in enumerate(of):
                    found[key][f] += part[key][d + j]
        return found

    def resize(self, schema: Schema) -> None:
        sizes = (1 + schema.n_values[f] for f in self._features)
        self._tables = [grown(table, n, 2) for table, n in zip(self._tables, sizes, strict=True)]
        self.schema = schema
        self._join()

    def state(self) -> dict[str, NDArray[Any]]:
        return {f"{TARGET}{f}": table for f, table in zip(self._features, self._tables, strict=True)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._tables = [np.array(state[name], np.float64) for name in self.state()]
        self._join()


class Shown(NamedTuple):
    """A chunk as members see it. rows : by their views. learning : the chunk as those that learn run it: what was
    predicted earlier is learned as it is seen now, in the row that is predicted once more right before the label."""

    rows: Mapping[View, Floats]
    learning: Program


@kernel(inline=True)
def code_of(value, n_values):
    """The code of a nominal value, -1 where it is missing or outside the schema."""
    if value >= 0.0 and value < n_values:
        return np.int64(value)
    return np.int64(-1)


@kernel
def follow(row, y, w, label, classes, slab, features, first, table, means):
    """Write into means : (rows, features) what each row is shown where it is predicted, and learn the labels.

    row, y, w, label : of operations in order; whether they are labels. first : of each feature its first row in
    `table`, and one more. Mutates table, means. O(operations features).
    """
    for i in range(len(row)):
        r = row[i]
        if label[i] and not w[i] > 0.0:
            continue
        target = y[i]
        if classes:
            target = 1.0 if y[i] > 0.0 else 0.0
        for j in range(len(features)):
            whole = first[j]
            code = code_of(slab[r, features[j]], first[j + 1] - whole - 1)
            if label[i]:
                _learn(table, whole, target, w[i])
                if code >= 0:
                    _learn(table, whole + 1 + code, target, w[i])
            elif code < 0:
                means[r, j] = np.nan
            else:
                n = table[whole + 1 + code, WEIGHT]
                total = n * table[whole + 1 + code, MEAN]
                every = table[whole, MEAN]
                if classes:
                    every = (table[whole, WEIGHT] * every + 0.5) / (table[whole, WEIGHT] + 1.0)
                mean = (total + PRIOR * every) / (n + PRIOR)
                means[r, j] = log(mean / (1.0 - mean)) if classes else mean


@kernel(inline=True)
def _learn(table, at, target, w):
    n = min(table[at, WEIGHT] + w, MOST)
    table[at, WEIGHT] = n
    table[at, MEAN] += min(1.0, w / n) * (target - table[at, MEAN])


@kernel
def look(slab, most, means, columns, seen):
    """Write the rows of the slab into `seen` as a member sees them. most : (d,), values of a feature, 0 for all.
    columns : those of `means` that it sees behind the features. Mutates seen. O(n d)."""
    d = len(most)
    for r in range(len(slab)):
        for f in range(d):
            value = slab[r, f]
            seen[r, f] = np.nan if most[f] > 0 and value >= most[f] else value
        for j in range(len(columns)):
            seen[r, d + j] = means[r, columns[j]]
