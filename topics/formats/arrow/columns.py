"""Columns of Arrow batches as the columns of the codec seam: found by their paths, checked by their types, converted.

Numbers come as float64 arrays, ids as slices of one text, nominal values and classes as codes of few: no object a row.
What a type cannot mean is known from the schema alone, so a batch that does not fit its stream file is refused as one.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from riparian.topics import records as r
from riparian.topics.decoding.paths import Index, dotted
from riparian.topics.decoding.times import SECONDS_BELOW
from riparian.topics.formats.common import slots as s
from riparian.topics.formats.common.slots import Slot, hint
from riparian.topics.records import Floats, Path
from riparian.topics.slices import Coded, Texts
from riparian.topics.vocabulary import MAX_TEXT

_FLOAT = pa.float64()
# Of decimals by their bits. Arrow looks others up behind the end of a table: zeros, or the end of the process.
_MOST_PLACES = {32: 9, 64: 18, 128: 38, 256: 76}
_INFINITE = "a number beyond float64, or infinite"


class FoundColumn(NamedTuple):
    """A column of a batch.

    values : (n,) float64, NaN where missing; or n objects, None where missing, as a list, Texts or Coded
    bad : (m,) rows that cannot be used: numbers that are infinite
    """

    values: Any
    bad: NDArray[np.int64] | None = None


Steps = tuple[int | Index, ...]  # numbers of fields, and places in lists


def resolve(schema: Any, path: Path) -> tuple[Any, Steps]:
    """The type of the column at a path, None where there is none, and the way there. Of two columns of a name, the last
    counts."""
    kind, steps = schema, list[int | Index]()
    for name in path:
        if isinstance(kind, pa.DataType) and pa.types.is_null(kind):
            break
        if isinstance(name, Index) and isinstance(kind, pa.DataType):
            if not _is_list(kind):
                return None, ()
            steps.append(name)
            kind = kind.value_type
        elif isinstance(kind, pa.Schema | pa.StructType):
            found = kind.get_all_field_indices(name)
            if not found:
                return None, ()
            steps.append(found[-1])
            kind = kind.field(found[-1]).type
        else:
            return None, ()
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return (kind.value_type if pa.types.is_dictionary(kind) else kind), tuple(steps)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: Any) -> bool:
    if pa.types.is_decimal(kind):
        return bool(abs(kind.scale) <= _MOST_PLACES[kind.bit_width])
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_moment(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


# What a slot may be in a schema. Null, a column of missing values, may be anything.
_FITS: dict[str, Callable[[Any], bool]] = {
    s.ID: lambda kind: _is_text(kind) or pa.types.is_integer(kind),
    s.TIME: lambda kind: _is_moment(kind) or _is_text(kind) or _is_number(kind),
    s.SCALAR: lambda kind: _is_text(kind) or _is_number(kind) or pa.types.is_boolean(kind),
    s.NUMBER: _is_number,
    s.TARGET: _is_number,
    s.FLAG: pa.types.is_boolean,
    s.OBJECT: pa.types.is_struct,
}
_EXPECTED = {s.SCALAR: "a text, a number or a boolean", s.OBJECT: "a struct", s.TIME: "a time, a number or a text"}


class Fit(NamedTuple):
    """How a schema fits what a stream maps.

    expected : a sentence where it does not
    steps : path of a slot -> the way to its column; without those that records can do without, and that are not there
    """

    expected: str | None
    steps: dict[Path, Steps]


def fit(schema: Any, slots: Sequence[Slot]) -> Fit:
    """Hold a schema against the slots of a kind of record."""
    ways: dict[Path, Steps] = {}
    for slot in slots:
        (kind, steps), path = resolve(schema, slot.path), dotted(slot.path)
        if kind is None:
            if slot.owner in ("record.time", "record.y", "label.time"):
                continue
            cure = hint(slot.path[-1], schema.names) or f"the batch has {_listed(schema.names)}"
            return Fit(f'{slot.owner}: expected the column "{path}", found none; {cure}', {})
        if not pa.types.is_null(kind) and not _FITS[slot.kind](kind):
            expected = _EXPECTED.get(slot.kind, slot.kind.strip())
            cure = s.in_text(slot, "a text" if _is_text(kind) else "")
            sentence = f'{slot.owner}: expected {expected} in the column "{path}", found {str(kind)[:80]}{cure}'
            return Fit(sentence, {})
        ways[slot.path] = steps
    return Fit(None, ways)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown or "no columns"


def at(batch: Any, steps: Steps) -> Any:
    """The array at the end of a way into a batch, with what is missing above it missing in it."""
    array = _plain(batch.column(steps[0]))
    for step in steps[1:]:
        if isinstance(step, Index):
            array = _item(array, step.number)
        else:  # the kernel costs 25 µs
            array = pc.struct_field(array, step) if array.null_count else array.field(step)
        array = _plain(array)
    return array


def _plain(array: Any) -> Any:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _item(array: Any, i: int) -> Any:
    """Item i of each list, missing where a list is shorter."""
    kind, n = array.type, len(array)
    if pa.types.is_fixed_size_list(kind):
        starts = (np.arange(n, dtype=np.int64) + array.offset) * kind.list_size
        there = np.full(n, i < kind.list_size)
    else:
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        starts, there = offsets[:-1], np.diff(offsets) > i
    if array.null_count:
        there &= array.is_valid().to_numpy(zero_copy_only=False)
    return array.values.take(pa.array(starts + i, mask=~there))


def numbers(array: Any) -> FoundColumn:
    """Numbers as float64: float32 exactly, the nearest of integers and decimals beyond. Of booleans 1 and 0."""
    n = len(array)
    if pa.types.is_null(array.type):
        return FoundColumn(np.full(n, np.nan))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if array.type != _FLOAT:
        array = array.cast(_FLOAT, safe=False)
    values: Floats = array.to_numpy(zero_copy_only=False)
    wrong = np.isinf(values)
    return FoundColumn(values, np.flatnonzero(wrong) if wrong.any() else None)


def scalars(array: Any) -> FoundColumn:
    """Texts, integers, floats or booleans, few of which differ: NaN is missing."""
    n = len(array)
    if pa.types.is_null(array.type):
        return FoundColumn(Coded([None], np.zeros(n, np.int64)))
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    words, codes = _cut(array.dictionary), array.indices
    if pa.types.is_decimal(words.type) or pa.types.is_floating(words.type):
        words = words.cast(pa.float64(), safe=False)
    values = [None if v != v else v for v in words.to_pylist()]
    infinite = [k for k, v in enumerate(values) if isinstance(v, float) and abs(v) == float("inf")]
    codes = codes.cast(pa.int64())
    if codes.null_count:
        codes = codes.fill_null(len(values))
    at = codes.to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(np.isin(at, infinite)) if infinite else None
    for k in infinite:
        values[k] = None
    return FoundColumn(Coded([*values, None], at), bad)


def _cut(array: Any) -> Any:
    """Texts without what is beyond MAX_TEXT by more than a character: such a record is rejected."""
    if not _is_text(array.type):
        return array
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    # As pc.max(pc.binary_length(array)), which costs 40 µs.
    width, ends = (np.int64 if pa.types.is_large_string(array.type) else np.int32), array.buffers()[1]
    if len(array) == 0 or ends is None:
        return array
    edges = np.frombuffer(ends, width, len(array) + 1, array.offset * np.dtype(width).itemsize)
    return pc.utf8_slice_codeunits(array, 0, MAX_TEXT + 1) if np.diff(edges).max() > MAX_TEXT else array


def ids(array: Any) -> FoundColumn:
    """Texts or integers."""
    if pa.types.is_null(array.type):
        return FoundColumn([None] * len(array))
    if pa.types.is_dictionary(array.type):
        return scalars(array)
    if pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    array = _cut(array)
    texts = None if array.null_count else _texts(array)
    return FoundColumn(array.to_numpy(zero_copy_only=False).tolist() if texts is None else texts)


def _texts(array: Any) -> Texts | None:
    """Texts none of which is missing, where all are ASCII."""
    width, (_, ends, data) = np.int64 if pa.types.is_large_string(array.type) else np.int32, array.buffers()
    if ends is None or data is None:
        return None
    edges = np.frombuffer(ends, width, len(array) + 1, array.offset * np.dtype(width).itemsize).astype(np.int64)
    text = data[int(edges[0]) : int(edges[-1])].to_pybytes()
    return Texts(text, edges[:-1] - edges[0], edges[1:] - edges[0]) if text.isascii() else None


def times(array: Any) -> FoundColumn:
    """ISO 8601, or numbers as `topics.decoding.times` takes them."""
    if pa.types.is_dictionary(array.type):
        if _is_text(array.type.value_type):
            return scalars(array)  # never as many texts as there are rows: a few bytes may claim them all
        array = array.dictionary_decode()
    if _is_text(array.type):
        return ids(array)
    if not _is_moment(array.type):
        return numbers(array)._replace(bad=None)  # what is infinite is no time, and said so
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"), safe=False)
    per_ms = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}[array.type.unit]
    whole = numbers(array.cast(pa.int64()))
    ms = whole.values / per_ms
    # Numbers that small are taken for seconds.
    return FoundColumn(np.where(np.abs(ms) < SECONDS_BELOW, ms / 1000.0, ms))


def missing(array: Any) -> FoundColumn:
    """1 where there is no struct, NaN where there is."""
    if pa.types.is_null(array.type):
        return FoundColumn(np.ones(len(array)))
    values = np.full(len(array), np.nan)
    if array.null_count:
        values[array.is_null().to_numpy(zero_copy_only=False)] = 1.0
    return FoundColumn(values)


_READ: dict[str, Callable[[Any], FoundColumn]] = {
    s.ID: ids,
    s.TIME: times,
    s.SCALAR: scalars,
    s.NUMBER: numbers,
    s.TARGET: numbers,
    s.FLAG: numbers,
    s.OBJECT: missing,
}


def read(batch: Any, slot: Slot, steps: Steps | None) -> FoundColumn:
    """The column of a slot. The batch has been validated, and its schema fits. steps : None where it has no such
    column."""
    if steps is None:
        return FoundColumn(Coded([None], np.zeros(batch.num_rows, np.int64)))
    return _READ[slot.kind](at(batch, steps))


def written(batch: Any) -> bytes:
    """A batch as a stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def reason(slot: Slot) -> tuple[str, str]:
    """Why a row is in `FoundColumn.bad`."""
    wrong = r.WRONG_LABEL if slot.reason == r.WRONG_LABEL else r.NOT_FINITE
    return wrong, f"{dotted(slot.path)}: {_INFINITE}"
