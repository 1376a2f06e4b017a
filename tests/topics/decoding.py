"""Records as codecs take them, and what two codecs make of them: for the tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from riparian.topics.formats.common.blocks import Block
from riparian.topics.records import RawBatch
from riparian.topics.slices import Texts


def raw(values: Any, headers: Any = None, keys: Sequence[bytes | None] | None = None) -> RawBatch:
    n = len(values)
    return RawBatch(list(range(n)), [0] * n, keys or [None] * n, values, headers)


def watch(monkeypatch: Any, reader: type[Any]) -> list[Block | None]:
    """Every block that a class of readers reads, None where the kernel took nothing."""
    found: list[Block | None] = []
    read = reader.read

    def watched(self: Any, values: Any, max_bytes: int) -> Block | None:
        found.append(read(self, values, max_bytes))
        return found[-1]

    monkeypatch.setattr(reader, "read", watched)
    return found


def same(one: Any, other: Any) -> None:
    for field, value in one._asdict().items():
        if field == "rejected":
            assert [x.position for x in value] == [x.position for x in getattr(other, field)]
        elif isinstance(value, np.ndarray):
            assert value.tobytes() == getattr(other, field).tobytes(), field
        else:
            columns = [list(v) if isinstance(v, Texts) else v for v in (value, getattr(other, field))]
            assert repr(columns[0]) == repr(columns[1]), field  # NaN is equal to NaN here
