"""Feature and label records as Arrow batches, for replays."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from riparian.topics import records as r
from riparian.topics.decoding.headers import inside
from riparian.topics.decoding.paths import Index, dotted
from riparian.topics.formats.arrow.columns import written
from riparian.topics.formats.common.json_rows import Renderer
from riparian.topics.records import Mapping, Path

_decode = msgspec.json.Decoder(list[Any]).decode


class ArrowRecordWriter:
    """Writes the records of a stream: see `topics.codecs.RecordWriter`. Its rows are JSON texts until they are joined.

    Parameters
    ----------
    labels_inside : bool
        Whether labels go into the feature records.
    """

    def __init__(self, mapping: Mapping, labels_inside: bool) -> None:
        plain = Renderer(inside(mapping), labels_inside)
        self.features, self.labels = plain.features, plain.labels
        number = {r.NUMERIC: pa.float64(), r.BOOLEAN: pa.bool_()}
        values = inside(mapping)
        self._features: dict[Path, Any] = {f.path: number[f.type] for f in values.features if f.type in number}
        self._labels: dict[Path, Any] = {}
        if mapping.task in r.VALUES:
            self._features |= {} if values.y is None else {values.y: pa.float64()}
            self._labels |= {values.label_y: pa.float64()} if values.label_y else {}

    def join_features(self, values: Sequence[bytes]) -> bytes:
        """One record of rows that `features` gave."""
        return self._join(values, self._features)

    def join_labels(self, values: Sequence[bytes]) -> bytes:
        """One record of rows that `labels` gave."""
        return self._join(values, self._labels)

    @staticmethod
    def _join(values: Sequence[bytes], kinds: dict[Path, Any]) -> bytes:
        rows = _decode(b"[" + b",".join(values) + b"]")
        arrays = [_array((name,), [row[name] for row in rows], kinds) for name in rows[0]]
        return written(pa.RecordBatch.from_arrays(arrays, list(rows[0])))


def _array(path: Path, column: list[Any], kinds: dict[Path, Any]) -> Any:
    """Columns of numbers have their type whatever is in them; all others the one of their values, or texts."""
    first = next((value for value in column if value is not None), None)
    if isinstance(first, dict):
        rows = [value or {} for value in column]
        parts = {name: _array((*path, name), [row.get(name) for row in rows], kinds) for name in first}
        return pa.StructArray.from_arrays(list(parts.values()), list(parts))
    if isinstance(first, list):
        n = max(map(len, column))
        places = [(*path, Index(f"[{i}]")) for i in range(n)]
        parts_ = [_array(place, [value[i] for value in column], kinds) for i, place in enumerate(places)]
        # A column of nulls alone takes any type, and says none.
        arrays = [
            part for place, part in zip(places, parts_, strict=True) if part.null_count < len(column) or place in kinds
        ]
        types = list(dict.fromkeys(part.type for part in arrays)) or [pa.string()]
        if len(types) > 1:
            raise ValueError(
                f'expected values of one type in the list "{dotted(path)}", as Arrow has them, found '
                f"{' and '.join(map(str, types))}; give each a field of its own"
            )
        items = pa.array(
            [value for row in zip(*(p.to_pylist() for p in parts_), strict=True) for value in row], types[0]
        )
        return pa.FixedSizeListArray.from_arrays(items, n)
    if path in kinds:
        numbers = kinds[path] == pa.float64()  # integers beyond 2 ** 53, too
        return pa.array([None if v is None else float(v) for v in column] if numbers else column, kinds[path])
    if first is None or len({type(value) for value in column if value is not None}) > 1:
        return pa.array(
            [None if v is None else v if isinstance(v, str) else msgspec.json.encode(v).decode() for v in column],
            pa.string(),
        )
    return pa.array(column)
