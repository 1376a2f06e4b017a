"""Arrow record batches as records: thousands of instances in one, a row each.

The value of a Kafka record is an IPC stream: a schema and its record batches, as every Arrow library writes it, without
compression of its own. A batch that cannot be read, or whose schema does not fit the stream file, is rejected as one. A
row that cannot be used is rejected alone, and its dead letter is a stream of that row.

Whatever bytes come, nothing is read beyond them: their claims are counted first (`messages`), and Arrow then
validates every buffer, offset and text (`validate(full=True)`) before a value is looked at.
"""

from collections.abc import Mapping as StepsOf
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from riparian.topics import records as r
from riparian.topics.decoding.columns import Bad, ColumnDecoder, listed, no_record
from riparian.topics.decoding.envelopes import Ignored
from riparian.topics.decoding.headers import inside
from riparian.topics.formats.arrow.columns import Fit, FoundColumn, Steps, fit, read, reason, written
from riparian.topics.formats.arrow.messages import open_batch, sound_batch
from riparian.topics.formats.arrow.predictions import Predictions
from riparian.topics.formats.arrow.rows import ArrowRecordWriter
from riparian.topics.formats.common import slots
from riparian.topics.formats.common.slots import Slot
from riparian.topics.names import FEATURES
from riparian.topics.places import BITS, IndexBits, index_of, place_of
from riparian.topics.records import Floats, Mapping, Packed, Path, RawBatch
from riparian.topics.slices import Coded, RepeatedValues, Texts

NO_STEPS: StepsOf[Path, Steps] = {}
_KNOWN_SCHEMAS = 256  # schemas that are remembered to fit, or not to, at most


class ArrowRows(Packed):
    """A record's rows.

    Parameters
    ----------
    first : place of the first row
    n : rows; 1 of a record that is rejected as one
    batch : what was read of it
    refused : reason and detail of a record that is rejected as one
    steps : of its schema, as in `columns.Fit`
    """

    def __init__(
        self,
        value: bytes,
        first: int,
        n: int,
        batch: Any = None,
        refused: tuple[str, str] | None = None,
        steps: StepsOf[Path, Steps] = NO_STEPS,
    ) -> None:
        self.value, self.first, self.n, self.refused, self._steps = value, first, n, refused, steps
        self._batch = batch
        self._found: dict[Path, FoundColumn] = {}

    def column(self, slot: Slot) -> FoundColumn:
        """The column of a slot, converted once."""
        found = self._found.get(slot.path)
        if found is None:
            if self._batch is None:
                self._batch = open_batch(self.value)
            found = self._found[slot.path] = read(self._batch, slot, self._steps.get(slot.path))
        return found

    def close(self) -> None:
        """All of its rows were decoded."""
        self._batch = None
        self._found.clear()

    def one(self, place: int) -> bytes:
        if self.n == 1:
            return self.value
        row = open_batch(self.value).slice(place - self.first, 1)
        # Without the words of other rows. What cannot be written alone is written as it came.
        try:
            columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in row.columns]
            return written(pa.RecordBatch.from_arrays(columns, row.schema.names))
        except (ValueError, pa.ArrowException):
            return self.value


class _RecordRows:
    """n rows: their numbers, and their other columns in parts: where a part begins, and its values."""

    def __init__(self, n: int, slots: Sequence[Slot], width: int) -> None:
        self.n = n
        self.x = np.full((n, width), np.nan)
        self.parts: dict[Path, list[tuple[int, Any]]] = {slot.path: [] for slot in slots}

    def __len__(self) -> int:
        return self.n

    def column(self, path: Path) -> Any:
        """A column of the rows: see `topics.decoding.columns.Reader`. Rows of records that are refused are missing."""
        parts = self.parts[path]
        values = [part for _, part in parts]
        whole = sum(map(len, values)) == self.n
        if values and all(isinstance(part, np.ndarray) for part in values):
            numbers = np.full(self.n, np.nan)
            for at, part in parts:
                numbers[at : at + len(part)] = part
            return numbers
        if values and all(isinstance(part, Coded) for part in values):
            coded = Coded.chained(values)
            if whole:
                return coded
            codes = np.full(self.n, len(coded.values))
            codes[np.concatenate([np.arange(at, at + len(part)) for at, part in parts])] = coded.codes
            return Coded([*coded.values, None], codes)
        if values and whole and all(isinstance(part, Texts) for part in values):
            return Texts.chained(values)
        column: list[Any] = [None] * self.n
        for at, part in parts:
            column[at : at + len(part)] = listed(part)
        return column


class _ArrowReader:
    """Reads the records of one kind: see `topics.decoding.columns.FeatureReader`."""

    def __init__(self, mapping: Mapping, of: Sequence[Slot], of_features: bool) -> None:
        self.slots = list({slot.path: slot for slot in reversed(of)}.values())[::-1]  # the first of each path
        self._width = len(mapping.features) if of_features else 0
        self._numeric: dict[Path, list[int]] = {}  # of features: path -> columns of x
        for j, feature in enumerate(mapping.features if of_features else ()):
            if not feature.is_scalar:
                self._numeric.setdefault(feature.path, []).append(j)
        self._schemas: dict[bytes, Fit] = {}  # digest -> how it fits

    # -- fetched records to rows

    def table(self, value: bytes, first: int) -> ArrowRows:
        """What a record holds. Whatever its bytes, nothing raises."""
        try:
            batch, key = sound_batch(value, self._schemas)
            refusal, steps = self._fit(key, batch.schema)
        except ValueError as error:
            return ArrowRows(value, first, 1, None, (r.MALFORMED, f"no Arrow stream that can be read: {error}"))
        if refusal is not None:
            return ArrowRows(value, first, 1, None, (r.UNUSABLE_SCHEMA, refusal))
        if batch.num_rows == 0:
            return ArrowRows(value, first, 1, None, Ignored(r.NO_ROW, "a batch without rows"))
        return ArrowRows(value, first, batch.num_rows, batch, steps=steps)

    def _fit(self, key: bytes, schema: Any) -> Fit:
        if key not in self._schemas:
            if len(self._schemas) >= _KNOWN_SCHEMAS:
                self._schemas.clear()
            self._schemas[key] = fit(schema, self.slots)
        return self._schemas[key]

    def unpack(self, batch: RawBatch) -> RawBatch:
        if not len(batch):
            return batch
        values: list[Any] = list(batch.values)
        firsts = place_of(np.asarray(batch.offsets, np.int64), 0, BITS)
        for i, value in enumerate(values):
            if no_record(value, len(value or b"")) is None:
                values[i] = self.table(value, int(firsts[i]))
        sizes = np.array([value.n if isinstance(value, ArrowRows) else 1 for value in values], np.int64)
        ends = np.cumsum(sizes)
        # The place of each row: that of its record's first one, and how many there are before it.
        offsets = np.repeat(firsts - (ends - sizes), sizes) + np.arange(ends[-1])
        stamps = np.repeat(np.asarray(batch.timestamps, np.int64), sizes)
        headers = None if batch.headers is None else list(RepeatedValues.of(batch.headers, sizes))
        return RawBatch(
            offsets, stamps, RepeatedValues.of(batch.keys, sizes), RepeatedValues.of(values, sizes), headers
        )

    # -- rows to columns

    def decode(self, batch: RawBatch, bad: Bad) -> _RecordRows:
        records, at = _RecordRows(len(batch), self.slots, self._width), 0
        values = (
            batch.values
            if isinstance(batch.values, RepeatedValues)
            else RepeatedValues.of(batch.values, [1] * len(batch))
        )
        for value, m in values.runs():
            if isinstance(value, ArrowRows):
                if value.refused is None:
                    self._take(value, index_of(int(batch.offsets[at]), BITS), m, at, records, bad)
                if value.refused is not None:
                    bad.update(dict.fromkeys(range(at, at + m), value.refused))
            else:
                bad[at] = no_record(value, len(value or b"")) or (r.MALFORMED, "no Arrow stream")
            at += m
        return records

    def _take(self, table: ArrowRows, start: int, m: int, at: int, records: _RecordRows, bad: Bad) -> None:
        """Rows of a table. Nothing of it is kept that the table itself does not keep."""
        taken, stop = [], start + m
        try:
            for slot in self.slots:
                found = table.column(slot)
                taken.append(found.values[start:stop])
                if found.bad is not None:
                    wrong = found.bad[(found.bad >= start) & (found.bad < stop)]
                    for i in wrong.tolist():
                        bad.setdefault(at + i - start, reason(slot))
        except (ValueError, pa.ArrowException, MemoryError) as error:
            table.refused = r.MALFORMED, f"a column cannot be read: {' '.join(str(error).split())[:200]}"
            return
        for slot, part in zip(self.slots, taken, strict=True):
            records.parts[slot.path].append((at, part))
            for j in self._numeric.get(slot.path, ()):
                records.x[at : at + m, j] = part
        if stop == table.n:
            table.close()

    def column(self, records: Any, path: Path) -> Any:
        return records.column(path)

    feature = column

    def is_null(self, batch: RawBatch, i: int, path: Path) -> bool:
        """Always: a batch without the column of the label is refused as one."""
        return True

    def missing(self, records: Any, path: Path) -> list[int]:
        where = [at + np.isfinite(part).nonzero()[0] for at, part in records.parts[path]]
        found: list[int] = np.concatenate(where).tolist() if where else []
        return found

    def numbers(self, instances: Any) -> Floats:
        x: Floats = instances.x
        return x


class ArrowCodec(ColumnDecoder):
    """The codec of Arrow: see `topics.codecs.Codec`."""

    index_bits = IndexBits(BITS, BITS)

    def __init__(self, mapping: Mapping) -> None:
        within = inside(mapping)
        features = _ArrowReader(within, slots.of_features(within)[0], True)
        labels = _ArrowReader(within, slots.of_labels(within), False)
        super().__init__(mapping, features, labels)
        self._readers = features, labels
        made = Predictions(mapping)
        self.encode_predictions = made.encode
        self.read_place, self.read_prediction = made.place, made.read
        self.join_predictions = made.join
        self.pack_predictions = made.pack  # type: ignore[method-assign, assignment]
        self.split_predictions = made.split  # type: ignore[method-assign]

    def unpack(self, role: str, batch: RawBatch) -> RawBatch:
        """The rows of the batches, with their places."""
        features, labels = self._readers
        return (features if role == FEATURES else labels).unpack(batch)

    def writer(self, labels_inside: bool = False) -> ArrowRecordWriter:
        return ArrowRecordWriter(self.mapping, labels_inside)
