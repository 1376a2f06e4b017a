"""What models learn from that learn the log of all partitions: the rows of one piece of it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import kept_names, renamed
from riparian.app.partition.predictions.decision_policy import DECIDED, decided_name
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Bags, Floats, Program
from riparian.models.predictions.decision import DECIDED_WIDTH
from riparian.topics.records import VALUES

Ints = NDArray[np.int64]


class InstanceRows(Protocol):
    """What models learn from: instances in rows, and what is kept beside each. The pending store, or `LearnedRows`."""

    out: dict[str, Floats]
    counts: dict[str, int]

    @property
    def slab(self) -> Floats | Bags:
        """The features of the rows."""

    @property
    def next_arrival(self) -> int:
        """The number that the next instance will have."""

    def arrivals(self) -> Ints:
        """For each operation of the last program, the number of its instance's arrival."""

    def arrival(self, i: int) -> int:
        """The number of the instance in place i of those that wait."""

    def n_before(self, number: int) -> int:
        """How many wait of those that arrived before the one of this number."""

    def taken_over(self, program: Program, at: int) -> int:
        """The number of the first instance that a model predicts which takes over at operation `at` of the program."""

    def lasting(self, number: int) -> int | None:
        """Of the number of an arrival, what a state has of it where nothing watches errors."""

    def begun(self, names: Iterable[str]) -> dict[str, int]:
        """Since which arrival outputs are there that are new."""

    def erase(self, name: str, rows: NDArray[np.int32]) -> None:
        """What stands in an output says nothing, of these rows."""

    def forget(self, name: str, before: int = ...) -> None:
        """What stands in an output was not predicted, of instances that arrived before the one of this number."""


class LearnedRows:
    """What the models of a replica learn from, in place of the pending store: the rows of one record of the log.

    The number of an instance's arrival is here how many instances the model had learned, and commands obeyed, that
    predicted it.
    """

    def __init__(self, task: str) -> None:
        self._decides = task not in VALUES
        self.slab: Floats | Bags = np.zeros((0, 0))
        self.out: dict[str, Floats] = {}
        self.counts = {"joined": 0}
        self._at: Ints = np.zeros(0, np.int64)
        self._widths: dict[str, int] = {}

    @property
    def next_arrival(self) -> int:
        return self.counts["joined"]

    def lasting(self, number: int) -> int | None:
        return number

    def begun(self, names: Iterable[str]) -> dict[str, int]:
        """Since which arrival outputs are learned that are new: what is in the log may have others of their name."""
        return dict.fromkeys(names, self.next_arrival)

    def settle(self, spec: Spec) -> None:
        """Nothing here depends on a stream file."""

    def add(self, name: str, key: str, memos: Sequence[str], width: int) -> None:
        """A model begins. memos : of what it keeps besides its predictions."""
        self._keep([name, *kept_names(name, memos)], width)
        if self._decides:  # whatever this stream file says: what was decided is what counts, on each replica
            self._keep([decided_name(name)], DECIDED_WIDTH)

    def exchange(self, name: str, memos: Sequence[str], fresh: Sequence[str], width: int) -> None:
        """A model keeps these from here on. fresh : those of them that are new."""
        stay = {name, decided_name(name), *kept_names(name, memos)}
        self._widths = {one: n for one, n in self._widths.items() if one.partition("/")[0] != name or one in stay}
        self.out = {one: self.out[one] for one in self._widths}
        self._keep(kept_names(name, fresh), width)

    def _keep(self, names: Sequence[str], width: int) -> None:
        self._widths |= dict.fromkeys(names, width)
        self.out |= {name: np.zeros((0, width)) for name in names}

    def rename(self, names: Mapping[str, str]) -> None:
        """Models get other names. names : of before -> from here on."""
        self._widths = {renamed(name, names): width for name, width in self._widths.items()}
        self.out = {renamed(name, names): out for name, out in self.out.items()}

    def drop(self, name: str) -> None:
        """A model goes."""
        self._widths = {other: n for other, n in self._widths.items() if other.partition("/")[0] != name}
        self.out = {other: self.out[other] for other in self._widths}

    def resize(self, width: int) -> None:
        """Outputs have room for so many classes."""
        self._keep([name for name in self._widths if not name.endswith(DECIDED)], width)

    def fitting(self, out: Mapping[str, Floats]) -> dict[str, Floats]:
        """What was predicted for no more classes than came with labels: no worker predicts more."""
        return {name: one for name, one in out.items() if one.shape[1] <= self._widths.get(name, one.shape[1])}

    def fill(self, x: Floats, at: Ints, parts: Sequence[tuple[int, Mapping[str, Floats]]]) -> None:
        """Take rows. parts : how many rows, and what was predicted for them; what a model did not predict is NaN."""
        self.slab, self._at = x, at
        for name, width in self._widths.items():
            self.out[name], start = np.zeros((len(x), width)), 0
            for n, out in parts:
                to, start = self.out[name][start : start + n], start + n
                if name in out:
                    to[:, : out[name].shape[1]] = out[name]
                else:
                    to[:, 0] = np.nan

    def arrivals(self) -> Ints:
        return self._at

    def taken_over(self, program: Program, at: int) -> int:
        """The first number of those that a model predicts which takes over at operation `at` of the program that was
        just learned."""
        return self.counts["joined"] - len(program.op) + at

    def n_before(self, number: int) -> int:
        """The number of an arrival in a state: instances of any partition may wait."""
        return number

    def arrival(self, i: int) -> int:
        return i

    def erase(self, name: str, rows: NDArray[np.int32]) -> None:
        self.out[name][rows] = np.nan

    def forget(self, name: str, before: int = 0) -> None:
        """Whatever is not the model's own shows by its number."""
