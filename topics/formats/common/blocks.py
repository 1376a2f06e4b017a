"""Records as columns, one by one or many at once: what is the same whatever a record is made into.

A format reads a record into an object of its own. It may know how to make columns of many records at once (`Blocks`);
what reads one of them remains the truth about it.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from riparian.topics.decoding.columns import Bad
from riparian.topics.formats.common.slots import FLAG, NUMBER, Slot
from riparian.topics.records import Feature, Floats, Mapping, Path


class Shape:
    """What a stream maps of a kind of record.

    Parameters
    ----------
    instances : Shape, optional
        What it maps of each instance of a bag.
    needs_one : bool
        Whether a record has to have one of the features, for they stand nowhere else.

    Attributes
    ----------
    places : path -> place of its value in the tuple that a reader gives, but for numbers and flags of features.
    numbers : slots of numeric and boolean features; the last value of the tuple is theirs.
    """

    def __init__(self, slots: Sequence[Slot], instances: "Shape | None" = None, *, needs_one: bool = False) -> None:
        self.slots = list(slots)
        self.needs_one = needs_one
        self.instances = instances
        self.numbers = [i for i, slot in enumerate(slots) if slot.kind in (NUMBER, FLAG)]
        self.others = [i for i, slot in enumerate(slots) if slot.kind not in (NUMBER, FLAG)]
        self.places = {slots[i].path: place for place, i in enumerate(self.others)}
        self.empty = (*(None for _ in self.others), (None,) * len(self.numbers))

    def column(self, records: Sequence[Any], path: Path) -> list[Any]:
        """The values of a slot in tuples."""
        return list(map(itemgetter(self.places[path]), records))


class Block:
    """Records as columns.

    Attributes
    ----------
    numbers : (n, m) numbers and flags of features, NaN where missing.
    columns : of each other slot, n values, None where missing: a list, or Texts.
    left : the records that are to be read one by one; `put` gives them their values.
    """

    def __init__(self, numbers: Floats, columns: list[Any], left: list[int]) -> None:
        self.numbers, self.columns, self.left = numbers, columns, left

    def __len__(self) -> int:
        return len(self.numbers)

    def put(self, columns: Sequence[Sequence[Any]], numbers: Floats) -> None:
        """Fill in the records that were left: their columns, and their numbers."""
        self.numbers[self.left] = numbers
        for place, values in enumerate(columns):
            column = self.columns[place] = list(self.columns[place])
            for i, value in zip(self.left, values, strict=True):
                column[i] = value


class Blocks(Protocol):
    """Reads many records at once, and none that a function would not read to the same bits."""

    def warm_up(self) -> None:
        """Compile what there is to compile, or load it."""

    def read(self, values: Sequence[Any], max_bytes: int) -> Block | None:
        """The records as columns; None where it would be no gain. max_bytes : larger records are left."""


class Records(list[Any]):
    """Records as tuples, and the numbers of all of them: (n, m)."""

    numbers: Floats


class ColumnReader:
    """Columns of records that are read one by one, or as a block: what is the same whatever a record is made into. See
    `topics.decoding.columns.FeatureReader`.

    Parameters
    ----------
    features : those of the mapping; none of label records.
    shape, blocks : of what is mapped, and what makes a reader of blocks; None where there is none.
    layout : has `column(records, path)`, for records that are no block. inside : likewise, for what features are found
        in where that is not the record.
    """

    few = 3  # records; fewer are sooner read one by one than as a block

    def __init__(
        self,
        mapping: Mapping,
        features: Sequence[Feature],
        shape: Shape,
        blocks: Callable[[], Blocks] | None,
        layout: Any,
        inside: Any = None,
    ) -> None:
        self.max_bytes, self.shape, self.layout, self.inside = mapping.max_bytes, shape, layout, inside or layout
        self._in_x = [j for j, feature in enumerate(features) if not feature.is_scalar]
        self._width = len(features)
        self._make_blocks = blocks
        self._blocks: Blocks | None = None

    def _read_left(self, values: list[Any], bad: Bad) -> Any:
        """The records that a block leaves, one by one."""
        raise NotImplementedError

    def _narrow(self, instances: Any) -> Floats:
        """(n, m) numbers and flags of features, of records or of the instances of bags."""
        return np.zeros((len(instances), 0))

    def warm_up(self) -> None:
        """Compile what reads blocks, or load it."""
        if (blocks := self._block_reader()) is not None:
            blocks.warm_up()

    def _block_reader(self) -> Blocks | None:
        if self._blocks is None and self._make_blocks is not None:
            self._blocks = self._make_blocks()
        return self._blocks

    def _block(self, values: Sequence[Any], bad: Bad) -> Block | None:
        """The records as a block, those that it leaves filled in; None where they are not to be read so."""
        blocks = self._block_reader() if len(values) >= self.few else None
        block = None if blocks is None else blocks.read(values, self.max_bytes)
        if block is not None and block.left:
            found = Bad()
            records = self._read_left([values[i] for i in block.left], found)
            bad.update((block.left[k], why) for k, why in found.items())
            slots = (self.shape.slots[i] for i in self.shape.others)
            block.put([self.layout.column(records, slot.path) for slot in slots], self._numbers(records))
        return block

    def column(self, records: Any, path: Path) -> Any:
        return self._of(self.layout, records, path)

    def _of(self, layout: Any, records: Any, path: Path) -> Any:
        if isinstance(records, Block):
            return records.columns[self.shape.places[path]]
        return layout.column(records, path)

    # -- of features -------------------------------------------------------------------------------------------

    def missing(self, records: Any, path: Path) -> list[int]:
        there = self.column(records, path)
        return [i for i, one in enumerate(there) if one is None] if None in there else []

    def feature(self, instances: Any, path: Path) -> Any:
        return self._of(self.inside, instances, path)

    def numbers(self, instances: Any) -> Floats:
        found = self._numbers(instances)
        if len(self._in_x) == self._width:
            return found
        x = np.full((len(instances), self._width), np.nan)
        x[:, self._in_x] = found
        return x

    def _numbers(self, instances: Any) -> Floats:
        return instances.numbers if isinstance(instances, Block | Records) else self._narrow(instances)
