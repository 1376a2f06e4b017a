"""Arrow batches of rows, and what codecs make of them: for the tests."""

from itertools import pairwise
from struct import Struct

import numpy as np
import pyarrow as pa

from riparian.app.stream_file.spec import build
from riparian.topics.formats.arrow.messages import _Table
from riparian.topics.records import RawBatch

STREAM = {
    "name": "s",
    "task": "classification",
    "topics": {"labels": "s.l"},
    "record": {"x": "", "time": "ts", "y": "y"},
    "label": {"time": "ts"},
    "features": {
        "a": "numeric",
        "b": {"type": "numeric", "from": "in.b"},
        "c": "nominal",
        "d": "boolean",
        "e": {"type": "numeric", "from": "list[1]"},
        "f": {"type": "nominal", "from": "in.deep.f"},
    },
}
SPEC = build(STREAM, "s")


def stream(batch, batches=1, compression=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    size = -(-batch.num_rows // batches) or 1
    with pa.ipc.new_stream(sink, batch.schema, options=options) as out:
        for at in range(0, batch.num_rows, size):
            out.write_batch(batch.slice(at, size))
        if not batch.num_rows:
            out.write_batch(batch)
    return sink.getvalue().to_pybytes()


MARKED = {"marked": b"\1\0" * 8}  # metadata that hold the number by which a schema says that it is big-endian


def big_endian(value, schema):
    """A stream as a big-endian machine writes it, which pyarrow does not. value : its schema has MARKED as metadata."""
    data, at = bytearray(value), 0
    words = [kind for field in schema for kind in _words(field.type)]
    while at < len(value) and (size := int.from_bytes(value[at + 4 : at + 8], "little")):
        metadata, body = at + 8, at + 8 + size
        root = int.from_bytes(value[metadata : metadata + 4], "little")
        message = _Table(memoryview(value)[metadata:body], root)
        kind, header = message.number(1, Struct("<B")), message.table(2)
        at = body + message.number(3, Struct("<q"))
        if kind == 1:
            mark = value.index(MARKED["marked"], metadata) - metadata
            slot = metadata + header._fields + 4  # where the offset of its first field stands
            data[slot : slot + 2] = (mark + mark % 2 - header._at).to_bytes(2, "little")
            continue
        widths = _widths(words.pop(0)) if kind == 2 else [one for field in schema for one in _widths(field.type)]
        for (begin, n), width in zip((header.table(1) if kind == 2 else header).pairs(2), widths, strict=True):
            begin += body
            for one in range(begin, begin + n // width * width, width):
                data[one : one + width] = data[one : one + width][::-1]
    return bytes(data)


def _words(kind):
    """The types of the dictionaries in a column."""
    if pa.types.is_dictionary(kind):
        return [kind.value_type]
    return [one for i in range(kind.num_fields) for one in _words(kind.field(i).type)]


def _widths(kind):
    """Bytes of the numbers in each buffer of a column."""
    t = pa.types
    if t.is_null(kind):
        return []
    if t.is_string(kind) or t.is_binary(kind) or t.is_list(kind):
        return [1, 4, *(_widths(kind.value_type) if t.is_list(kind) else [1])]
    if t.is_large_string(kind) or t.is_large_list(kind):
        return [1, 8, *(_widths(kind.value_type) if t.is_large_list(kind) else [1])]
    if t.is_struct(kind):
        return [1, *(one for field in kind for one in _widths(field.type))]
    if t.is_fixed_size_list(kind):
        return [1, *_widths(kind.value_type)]
    if t.is_dictionary(kind):
        return _widths(kind.index_type)
    return [1, max(1, kind.bit_width // 8)]


def raw(values, codec=None, role="features"):
    n = len(values)
    batch = RawBatch(list(range(n)), [1000 + i for i in range(n)], [b"k%d" % i for i in range(n)], list(values))
    return batch if codec is None else codec.unpack(role, batch)


def decoded(codec, batch, spec=SPEC, cuts=()):
    """What a codec makes of rows, cut into parts, with the vocabularies after."""
    known, classes = spec.vocabularies(), spec.class_vocabulary()
    edges = [0, *cuts, len(batch)]
    parts = [batch.part(a, b) for a, b in pairwise(edges)]
    found = [codec.decode_features(part, known, classes) for part in parts]
    rejected = [
        (a + one.position, one.reason, one.ignored)
        for a, part in zip(edges, found, strict=False)
        for one in part.rejected
    ]
    x = np.concatenate([part.x for part in found])
    y = [v for part in found for v in ([float("nan")] * len(part.ids) if part.y is None else list(map(float, part.y)))]
    times = [v for part in found for v in (part.times or [])]
    words = [None if v is None else v.texts for v in known]
    texts = [] if classes is None else classes.texts
    return [i for part in found for i in part.ids], x.tobytes(), repr(y), times, rejected, words, texts


def rows(n, seed):
    rng = np.random.default_rng(seed)

    def some(value, share=0.15):
        return None if rng.random() < share else value

    found = []
    for i in range(n):
        deep = some({"f": some(["u", "v", "ü" * 3][rng.integers(3)])})
        found.append(
            {
                "id": "" if i % 29 == 3 else some(f"id{i}", 0.02),
                "ts": some(1_700_000_000_000 + 1000 * i),
                "y": some(["up", "down"][rng.integers(2)], 0.5),
                "a": some(float(np.float32(rng.normal()))),
                "in": some({"b": some(int(rng.integers(-(2**60), 2**60))), "deep": deep}),
                "c": some(["p", "q", "r" * 2000][int(rng.integers(50) % 26 % 3 if i % 7 else 2)], 0.1),
                "d": some(bool(rng.integers(2))),
                "list": some([some(float(v)) for v in rng.random(rng.integers(4))]),
            }
        )
    return found


TYPES = {
    "id": pa.string(),
    "ts": pa.timestamp("ms", "UTC"),
    "y": pa.dictionary(pa.int8(), pa.string()),
    "a": pa.float32(),
    "in": pa.struct([("b", pa.int64()), ("deep", pa.struct([("f", pa.large_string())]))]),
    "c": pa.string(),
    "d": pa.bool_(),
    "list": pa.list_(pa.float64()),
}


def table(made, types=None):
    types = {**TYPES, **(types or {})}
    return pa.RecordBatch.from_arrays([pa.array([r[k] for r in made], types[k]) for k in types], list(types))
