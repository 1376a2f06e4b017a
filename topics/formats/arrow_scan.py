"""Arrow records that are like one that Arrow has read: the same bytes but for numbers, so a kernel can say that they
are sound, and where their buffers are.

A producer's records begin with one and the same schema, and their messages have one layout. A `Form` is learned from
the first of them, which Arrow has read and validated. What differs from it, and what the kernel does not know, is
Arrow's to read (`topics.formats.arrow.open_batch`); what the kernel takes is what Arrow would give.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from topics.formats import arrow_kernel as k
from topics.formats.arrow_columns import Steps
from topics.formats.arrow_messages import MOST_BYTES, MOST_ROWS, dictionaries, layout
from topics.formats.cells import view
from topics.records import Floats, Path
from topics.slices import Texts
from topics.vocabulary import MAX_TEXT

_BEFORE = 8  # bytes before the metadata of a message: a mark, and its size
_MARK = b"\xff\xff\xff\xff"
_MORE_ROWS = 64  # than bytes, as `arrow_messages.weigh` has it
MOST_COLUMNS = 4096

_Kind = tuple[int, int]  # of arrow_kernel, and the width


def _kind(kind: Any) -> _Kind | None:
    """What the kernel calls a type; None of one that it does not know."""
    t = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return None
    if t.is_null(kind):
        return k.NONE, 0
    if t.is_boolean(kind):
        return k.BITS, 0
    if t.is_string(kind) or t.is_large_string(kind):
        return k.TEXT, 8 if t.is_large_string(kind) else 4
    if t.is_binary(kind) or t.is_large_binary(kind):
        return k.BINARY, 8 if t.is_large_binary(kind) else 4
    # Not what has values that Arrow refuses: times of a day, dates in milliseconds, decimals.
    if t.is_integer(kind) or t.is_floating(kind) or t.is_timestamp(kind) or t.is_duration(kind) or t.is_date32(kind):
        return k.FIXED, kind.bit_width // 8
    return None


class _Column(NamedTuple):
    """A column as it stands in the kernel's table. type : Arrow's. words : row of the column that holds its dictionary,
    -1 for none. width : of texts, bytes of the places where they end; else 0."""

    row: int
    type: Any
    words: int
    width: int = 0


class Form:
    """What the records of a producer have in common.

    Attributes
    ----------
    columns : steps to a column -> it.
    """

    def __init__(self, head: bytes, columns: dict[Steps, _Column], tables: Sequence[Any]) -> None:
        self.head = head
        self.columns = columns
        self._tables = tables
        self._rows = len(tables[-1])

    def matches(self, data: Any, longs: Any, begin: int, n_bytes: int) -> tuple[int, NDArray[np.int64]] | None:
        """How many rows a record has, and what is found of its columns; None where Arrow has to read it."""
        found = np.empty((self._rows, k.FOUND_COLUMNS), np.int64)
        n, total = k.check(data, longs, begin, *self._tables, found)
        if not 0 < n <= min(MOST_ROWS, n_bytes + _MORE_ROWS) or total > MOST_BYTES:
            return None
        return n, found


def learn(value: bytes, schema: Any) -> Form | None:
    """The form of a record that Arrow has read; None of one that is not usual. schema : Arrow's."""
    metadata = _messages(value)
    if not metadata:
        return None
    head, rest = metadata[0][1], [(begin, one, layout(one)) for begin, one in metadata[1:]]
    ids = dictionaries(head)
    if not rest or any(found is None for _, _, found in rest) or rest[-1][2].dictionary is not None:  # type: ignore[union-attr]
        return None
    known: dict[int, int] = {}  # id of a dictionary -> its message
    for m, (_, _, found) in enumerate(rest[:-1]):
        if found is None or found.dictionary is None or found.dictionary in known:
            return None
        known[found.dictionary] = m
    rows: list[list[int]] = []
    firsts: list[int] = []
    kinds: dict[int, Any] = {}
    columns: dict[Steps, _Column] = {}
    fields = _flattened(schema)
    if fields is None or len(fields) != len(ids) or len(fields) > MOST_COLUMNS:
        return None
    for number, (_, kind) in zip(ids, fields, strict=True):
        if number is not None and pa.types.is_dictionary(kind):
            kinds[number] = kind.value_type
        elif number is not None or pa.types.is_dictionary(kind):
            return None
    for _, _, found in rest[:-1]:
        kind = kinds.get(found.dictionary)  # type: ignore[union-attr, arg-type]
        plain = None if kind is None else _kind(kind)
        if plain is None or plain[0] in (k.NONE, k.STRUCT):
            return None
        firsts.append(len(rows))
        rows.append([*plain, 0, 0, -1])
        if (found.n_nodes, found.n_buffers) != (1, _n_buffers(plain[0])):  # type: ignore[union-attr]
            return None
    firsts.append(len(rows))
    n_buffers = 0
    for i, (number, (steps, kind)) in enumerate(zip(ids, fields, strict=True)):
        if pa.types.is_dictionary(kind):
            if number not in known:
                return None
            width, message = kind.index_type.bit_width // 8, known[number]
            plain = k.CODES, -width if pa.types.is_signed_integer(kind.index_type) else width
            columns[steps] = _Column(len(rows), kind, firsts[message])
        elif pa.types.is_struct(kind):
            plain, message = (k.STRUCT, 0), -1
        else:
            plain, message = _kind(kind), -1
            if plain is None:
                return None
            columns[steps] = _Column(len(rows), kind, -1, plain[1] if plain[0] == k.TEXT else 0)
        rows.append([*plain, i, n_buffers, message])
        n_buffers += _n_buffers(plain[0])
    last = rest[-1][2]
    if last is None or (last.n_nodes, last.n_buffers) != (len(fields), n_buffers):
        return None
    edges, at = [*firsts, len(rows)], 0
    messages = []
    for m, (_, one, found) in enumerate(rest):
        assert found is not None
        messages.append([at, len(one), found.body, found.rows, found.nodes, found.buffers, edges[m], edges[m + 1]])
        at += len(one)
    tables = [
        _frozen(b"".join(one for _, one, _ in rest)),
        _frozen(b"".join(found.fixed for _, _, found in rest if found is not None)),
        np.array(messages, np.int64),
        np.array(rows, np.int64).reshape(-1, k.COLUMN_COLUMNS),
    ]
    return Form(value[: metadata[0][0] + len(head)], columns, tables)


def _frozen(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _n_buffers(kind: int) -> int:
    return {k.NONE: 0, k.STRUCT: 1, k.TEXT: 3, k.BINARY: 3}.get(kind, 2)


def _flattened(schema: Any) -> list[tuple[Steps, Any]] | None:
    """The fields of a schema, depth first, with their steps and types; None where the kernel does not know one."""
    found: list[tuple[Steps, Any]] = []

    def add(steps: Steps, kind: Any) -> bool:
        found.append((steps, kind))
        if isinstance(kind, pa.BaseExtensionType):
            return False
        if pa.types.is_struct(kind):
            return all(add((*steps, i), kind.field(i).type) for i in range(kind.num_fields))
        if pa.types.is_dictionary(kind):
            return not isinstance(kind.value_type, pa.BaseExtensionType) and not pa.types.is_nested(kind.value_type)
        return _kind(kind) is not None

    return found if all(add((i,), field.type) for i, field in enumerate(schema)) else None


def _messages(value: bytes) -> list[tuple[int, bytes]]:
    """Where the metadata of each message begins, and it; none where they are framed otherwise."""
    found, at, data = list[tuple[int, bytes]](), 0, memoryview(value)
    while at < len(value):
        size = int.from_bytes(data[at + 4 : at + _BEFORE], "little")
        if bytes(data[at : at + 4]) != _MARK:
            return []
        if size == 0:
            break
        metadata = bytes(data[at + _BEFORE : at + _BEFORE + size])
        known = layout(metadata)
        if found and known is None:
            return []
        found.append((at + _BEFORE, metadata))
        at += _BEFORE + size
        if known is not None:
            at += int.from_bytes(metadata[known.body : known.body + 8], "little")
    return found


class Scan:
    """A record that has a form: where its buffers are.

    n : rows
    """

    def __init__(self, value: bytes, form: Form) -> None:
        self._value, self._form = value, form
        data = np.frombuffer(value, np.uint8)
        self._data, self._longs = data, view(data, "<i8")
        self._doubles: Any = None
        self._floats: Any = None
        matched = form.matches(data, self._longs, len(form.head), len(value))
        self.n, self._found = matched or (0, np.empty((0, 0), np.int64))

    def array(self, steps: Steps) -> Any:
        """The column at the end of a way, as Arrow's array; None of a struct, of which none is missing."""
        column = self._form.columns.get(steps)
        return None if column is None else self._array(column.row, column.type, column.words)

    def texts(self, steps: Steps) -> Texts | None:
        """The column at the end of a way as slices of the record, where it holds texts, and none is missing or long."""
        column = self._form.columns.get(steps)
        if column is None or column.width == 0:
            return None
        nulls, _, values, _, texts, _, n = self._found[column.row].tolist()
        if nulls:
            return None
        width = np.int64 if column.width == 8 else np.int32
        edges = np.frombuffer(self._value, width, n + 1, values).astype(np.int64) + texts
        found = Texts(self._value, edges[:-1], edges[1:])
        return found if found.lengths.max() <= MAX_TEXT else None

    def digits(self, steps: Steps) -> Texts | None:
        """The column at the end of a way as texts, where it holds whole numbers, and none is missing."""
        column = self._form.columns.get(steps)
        if column is None or column.words >= 0 or not pa.types.is_integer(column.type):
            return None
        nulls, _, values, _, _, _, n = self._found[column.row].tolist()
        if nulls:
            return None
        width, signed = column.type.bit_width // 8, pa.types.is_signed_integer(column.type)
        out, stops = np.empty(20 * n, np.uint8), np.empty(n, np.int64)
        k.digits(self._data, values, -width if signed else width, out, stops)
        return Texts(out[: stops[-1]].tobytes(), np.append(0, stops[:-1]), stops)

    def _array(self, row: int, kind: Any, words: int = -1) -> Any:
        nulls, valid, values, n_bytes, texts, text_bytes, n = self._found[row].tolist()
        if pa.types.is_null(kind):
            return pa.nulls(n)
        buffer = pa.py_buffer(self._value)
        bits = None if valid < 0 else buffer.slice(valid, (n + 7) // 8)
        if pa.types.is_dictionary(kind):
            dictionary = self._array(words, kind.value_type)
            codes = pa.Array.from_buffers(kind.index_type, n, [bits, buffer.slice(values, n_bytes)], nulls)
            return pa.DictionaryArray.from_arrays(codes, dictionary)
        buffers = [bits, buffer.slice(values, n_bytes)]
        if _kind(kind)[0] in (k.TEXT, k.BINARY):  # type: ignore[index]
            buffers.append(buffer.slice(texts, text_bytes))
        return pa.Array.from_buffers(kind, n, buffers, nulls)

    def fill(self, numbers: NDArray[np.int64], start: int, x: Floats) -> bool:
        """Write numbers from row `start` on to x; whether any is infinite. numbers : of `numbers_of`."""
        if self._doubles is None:
            self._doubles, self._floats = view(self._data, "<f8"), view(self._data, "<f4")
        return bool(k.fill(self._data, self._longs, self._doubles, self._floats, numbers, self._found, start, x, 0))


def numbers_of(form: Form, ways: Mapping[Path, Steps], columns: Mapping[Path, Sequence[int]]) -> Any:
    """What `Scan.fill` is given for columns of x; None where one is not of a type that the kernel knows."""
    t, rows = pa.types, []
    for path, places in columns.items():
        column = form.columns.get(ways.get(path, ()))
        if column is None or column.words >= 0:
            return None
        kind = column.type
        if t.is_boolean(kind):
            said = k.TRUTH, 0
        elif t.is_floating(kind) and not t.is_float16(kind):
            said = k.FLOAT, kind.bit_width // 8
        elif t.is_integer(kind):
            said = (k.SIGNED if t.is_signed_integer(kind) else k.UNSIGNED), kind.bit_width // 8
        else:
            return None
        rows += [(column.row, j, *said) for j in places]
    return np.array(rows, np.int64).reshape(-1, 4)


def warm_up() -> None:
    """Compile the kernels, or load them from the cache."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"a": [1.0], "b": pa.array(["x"]).dictionary_encode(), "c": ["y"], "d": [True], "e": [1]})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    value = sink.getvalue().to_pybytes()
    form = learn(value, batch.schema)
    if form is not None:
        numbers = numbers_of(form, {("a",): (0,)}, {("a",): [0]})
        Scan(value, form).fill(numbers, 0, np.empty((1, 1)))
        Scan(value, form).digits((4,))
