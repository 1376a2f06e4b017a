"""Predictions as Arrow batches: those of a step in one record, a row each.

Columns are the fields of the JSON ones: `id`, `y`, `p`, `model`, `offset`, `label_offset`, `index` and `label_index`
where records of the inputs hold several instances, `lower` and `upper`, `set`, `reasons`, `alert` and `features` where
these are asked for, `challengers`. y is the text of a class, or float64; p a map of class to float64; set a list of
texts; reasons and features maps of feature to float64; alert a boolean; challengers a struct with y and p, or y and
alert, of each. A record of the topic holds at most as many rows as fit it.

Within a worker, and where they are read back, predictions are single all the same: the JSON texts of their rows.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain, groupby
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from riparian.topics.formats.arrow.columns import written
from riparian.topics.formats.arrow.messages import sound_batch
from riparian.topics.formats.common.json_text import read_object
from riparian.topics.formats.common.predictions import alerts, besides, named
from riparian.topics.formats.json.predictions import JsonPredictionWriter, place_reader
from riparian.topics.names import CHAMPION
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import VALUES, Floats, Mapping
from riparian.topics.slices import Texts

MOST_ROWS = 10_000  # rows of a record, at most
ROOM_BESIDES = 8192  # bytes of a record besides its rows
MOST_ROW_BYTES = 20_000  # bytes that may be written without a look at each row

_TYPES = {"id": pa.string(), "model": pa.string(), "lower": pa.float64(), "upper": pa.float64()}
_TYPES |= {"set": pa.list_(pa.string()), "alert": pa.bool_()}
_MAPS = ("p", "reasons", "features")
_decode = msgspec.json.Decoder(list[dict[str, Any]]).decode
_encode = msgspec.json.Encoder().encode


class Predictions:
    """Writes and reads predictions."""

    def __init__(self, mapping: Mapping) -> None:
        self._write = JsonPredictionWriter().write
        self.place = place_reader(mapping.further)
        self.read = read_object
        self._y = pa.float64() if mapping.task in VALUES else pa.string()

    def encode(self, given: PredictionColumns) -> Sequence[bytes]:
        """The rows, as in `Codec`."""
        if given.classes is None:
            return self._write(given)
        # Classes by their texts: a column has values of one type.
        texts: Any = SimpleNamespace(values=given.classes.texts, texts=given.classes.texts)
        return self._write(given._replace(classes=texts))

    def pack(self, room: int, given: PredictionColumns) -> list[bytes] | None:
        """Records of predictions without their texts in between: what `join` makes of `encode`. None where a row might
        be so large that it has to be looked at by itself."""
        ids, p, classes, challengers = given.ids, given.p, given.classes, given.challengers
        reasons, decided = given.reasons, given.decided or {}
        texts = [] if classes is None else classes.texts
        width = sum(map(len, texts)) * 4 + 24 * len(texts) + 200
        width += max((sum(map(len, one)) * 4 + 24 * len(one) for one in reasons or () if one), default=0)
        width += max((sum(map(len, one)) * 4 + 24 * len(one) for one in given.features or ()), default=0)
        longest_id = int(ids.lengths.max(initial=0)) if isinstance(ids, Texts) else max(map(len, ids), default=0)
        width = width * (1 + len(challengers or ())) + 4 * longest_id
        if width > MOST_ROW_BYTES:
            return None
        opinion = partial(_opinion, texts=None if classes is None else texts, probabilities=given.probabilities)
        columns = {
            "id": _strings(ids),
            **opinion(p, decided.get(CHAMPION)),
            "model": pa.repeat(pa.scalar(given.model), len(ids)),
        }
        places = {"offset": given.offsets, "label_offset": given.label_offsets, **(given.further or {})}
        columns |= {name: pa.array(found, pa.int64()) for name, found in places.items()}
        columns |= {name: self._array(name, found) for name, found in besides(given, texts).items()}
        if challengers:
            parts = {role: opinion(output, decided.get(role)) for role, output in challengers.items()}
            if given.has_alerts:
                for role, part in parts.items():
                    part["alert"] = pa.array(alerts(challengers[role], decided.get(role)), pa.bool_())
            structs = [pa.StructArray.from_arrays(list(part.values()), list(part)) for part in parts.values()]
            columns["challengers"] = pa.StructArray.from_arrays(structs, list(parts))
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        for row_bytes in (batch.nbytes / len(ids) if len(ids) else width, width):  # most often the mean will do
            most = min(MOST_ROWS, max(1, int((room - ROOM_BESIDES) / (2 * row_bytes + 1))))
            made = [written(batch.slice(at, most)) for at in range(0, len(ids), most)]
            if max(map(len, made), default=0) <= room:
                break
        return made

    def join(self, values: Sequence[bytes], room: int) -> list[bytes]:
        """Records of rows. room : bytes that a record may have."""
        made, at, n_bytes = [], 0, 0
        for i, value in enumerate(values):
            n_bytes += len(value)
            if i > at and (n_bytes > room // 2 or i - at >= MOST_ROWS):
                made += self._batches(values[at:i])
                at, n_bytes = i, len(value)
        return [*made, *self._batches(values[at:])]

    def split(self, value: bytes | None) -> list[bytes]:
        """The rows of a record. ValueError where it is none."""
        batch, _ = sound_batch(value or b"")
        if not all(_is_plain(field.type) for field in batch.schema):
            raise ValueError("columns of another type than predictions have")
        try:
            return _rows(batch)
        except (pa.ArrowException, OSError, KeyError, TypeError) as error:
            raise ValueError(" ".join(str(error).split())[:200]) from None

    def _batches(self, values: Sequence[bytes]) -> list[bytes]:
        """One, unless the models changed: rows of a batch have the same fields."""
        rows = _decode(b"[" + b",".join(values) + b"]")
        runs = [list(run) for _, run in groupby(rows, lambda row: (list(row), list(row.get("challengers", ()))))]
        return [written(pa.RecordBatch.from_arrays(*self._columns(run))) for run in runs]

    def _columns(self, rows: list[dict[str, Any]]) -> tuple[list[Any], list[str]]:
        """Arrays and names; all rows have the same fields."""
        names = list(rows[0])
        return [self._array(name, [row[name] for row in rows]) for name in names], names

    def _array(self, name: str, column: Any) -> Any:
        if isinstance(column, np.ndarray):
            return pa.array(column, mask=np.isnan(column))
        if name == "challengers":
            parts = {role: self._columns([row[role] for row in column]) for role in column[0]}
            opinions = [pa.StructArray.from_arrays(*part) for part in parts.values()]
            return pa.StructArray.from_arrays(opinions, list(parts))
        if name in _MAPS:
            return _maps(column)
        return pa.array(column, (_TYPES | {"y": self._y}).get(name, pa.int64()))


def _opinion(out: Floats, decided: Floats | None, texts: list[str] | None, probabilities: bool) -> dict[str, Any]:
    """Columns y and p of the outputs of a model, as the JSON records have them."""
    if texts is None:
        return {"y": pa.array(out[:, 0], mask=np.isnan(out[:, 0]))}
    n, out = len(out), out[:, : len(texts)]
    k = out.shape[1]
    words, best, nothing = pa.array(texts[:k], pa.string()), np.zeros(n, np.int64), np.ones(n, bool)
    if k:
        best = named(out, None)
        nothing = out[np.arange(n), best] <= 0.0  # sooner than the maximum once more
        best = best if decided is None else named(out, decided)
    found = {"y": words.take(pa.array(best, mask=nothing))}
    if probabilities:
        known = out[~nothing] if nothing.any() else out
        edges = np.concatenate(([0], np.cumsum(np.where(nothing, 0, k)))).astype(np.int32)
        names = _again(texts[:k], len(known))
        ends = pa.array(edges, mask=np.append(nothing, False))  # missing where nothing begins
        found["p"] = pa.MapArray.from_arrays(ends, names, pa.array(np.ascontiguousarray(known).ravel()))
    return found


def _strings(texts: Sequence[str]) -> Any:
    """Texts as a column; a view of the bytes of those that stand one behind the other, as they came."""
    if not isinstance(texts, Texts) or not len(texts) or (texts.starts[1:] != texts.stops[:-1]).any():
        return pa.array(texts, pa.string())
    edges = np.append(texts.starts, texts.stops[-1]) - texts.starts[0]
    data = pa.py_buffer(texts.data).slice(int(texts.starts[0]), int(edges[-1]))
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(edges.astype(np.int32)), data)


def _again(texts: Sequence[str], n: int) -> Any:
    """The texts n times over, as a column."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    if not encoded or not n or n * ends[-1] >= 2**31:
        return pa.array(list(texts) * n, pa.string())
    edges = np.append(0, (np.arange(n)[:, None] * ends[-1] + ends).ravel()).astype(np.int32)
    data = pa.py_buffer(b"".join(encoded) * n)
    return pa.StringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), data)


def _maps(column: Sequence[dict[str, float] | None]) -> Any:
    there = [p or {} for p in column]
    edges = np.zeros(len(there) + 1, np.int32)
    np.cumsum(list(map(len, there)), out=edges[1:])
    missing = np.array([*(p is None for p in column), False])
    names = pa.array(chain.from_iterable(there), pa.string(), size=int(edges[-1]))
    values = pa.array(chain.from_iterable(map(dict.values, there)), pa.float64(), size=int(edges[-1]))
    return pa.MapArray.from_arrays(pa.array(edges, mask=missing), names, values)


def _is_plain(kind: Any) -> bool:
    """Whether values are as many bytes as they take: a text may stand for those of many rows elsewhere."""
    t = pa.types
    shared = t.is_dictionary(kind) or t.is_run_end_encoded(kind) or t.is_string_view(kind) or t.is_binary_view(kind)
    shared |= isinstance(kind, pa.BaseExtensionType) or t.is_list_view(kind) or t.is_large_list_view(kind)
    return not shared and all(_is_plain(kind.field(i).type) for i in range(kind.num_fields))


def _rows(batch: Any) -> list[bytes]:
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.to_pylist()
        if name in _MAPS:
            values = [None if p is None else dict(p) for p in values]
        elif name == "challengers":
            for one in values:
                for opinion in (one or {}).values():
                    if opinion.get("p") is not None:
                        opinion["p"] = dict(opinion["p"])
        columns.append(values)
    return [_encode(dict(zip(batch.schema.names, row, strict=True))) for row in zip(*columns, strict=True)]
