"""Codecs: bytes of records to columns, and predictions to bytes.

A codec is made from a stream's `Mapping` and keeps no state of its own: what is learned while decoding, the codes of
nominal values and classes, is in the vocabularies that the caller passes in. Nothing that a record holds raises; a
record that cannot be used is in `rejected`, with its reason, and leaves no trace in the vocabularies.

Every step works on whole columns and turns to single records only where the column holds something unusual. What
becomes of a record depends on the record and on the vocabularies that the records before it left behind, so a batch
of n gives what n batches of 1 give.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from topics import records as r
from topics.layout import Layout, Leaf
from topics.predictions import PredictionWriter
from topics.records import Features, Floats, Labels, Mapping, Path, RawBatch, Rejected
from topics.scan import SHALLOW_BYTES, is_utf8, many_milliseconds, milliseconds, too_deep
from topics.vocabulary import MAX_TEXT, Scalar, Vocabulary, canonical


class Codec(Protocol):
    """What the engine asks of a codec."""

    def __init__(self, mapping: Mapping) -> None: ...

    def decode_features(
        self, batch: RawBatch, vocabularies: Sequence[Vocabulary | None], classes: Vocabulary | None = None
    ) -> Features:
        """vocabularies : one a feature, None for numeric ones. classes : for labels inside the feature records
        (None: regression)."""

    def decode_labels(self, batch: RawBatch, classes: Vocabulary | None = None) -> Labels:
        """classes : None for regression."""

    def encode_predictions(
        self,
        ids: Sequence[str],
        p: Floats,
        classes: Vocabulary | None,
        model: str,
        offsets: Sequence[int],
        label_offsets: Sequence[int],
        *,
        probabilities: bool = True,
        challengers: MappingOf[str, Floats] | None = None,
    ) -> list[bytes]:
        """p, challengers : (n, k) class probabilities (k may exceed the known classes), or (n, 1) values."""


ID = str | int | None
NUMBER = float | None
BOOLEAN = bool | None
SCALAR = str | int | float | bool | None
TIME = str | int | float | None

_TYPES = {r.NUMERIC: NUMBER, r.NOMINAL: SCALAR, r.BOOLEAN: BOOLEAN}
_WHERE = re.compile(r" - at `\$\.(.*)`$", re.DOTALL)

# Reads one JSON value, and takes nothing from it.
_SKIP = msgspec.json.Decoder(msgspec.Raw).decode

# position in the batch -> (reason, detail); the first reason found stays.
Bad = dict[int, tuple[str, str]]


class _Block(NamedTuple):
    """Numeric and boolean features of one object. take : object -> tuple of their values (one: the value)."""

    parent: Path
    columns: list[int]
    take: Callable[[Any], Any]


class _Reader:
    """What features and labels have in common: bytes to structs, ids, times, class codes."""

    def __init__(
        self, mapping: Mapping, leaves: list[Leaf], id_path: Path | None, time: Path | None, y: Path | None
    ) -> None:
        self.mapping, self.id, self.time, self.y = mapping, id_path, time, y
        self.classification = mapping.task != r.REGRESSION
        named = [
            *([Leaf(id_path, ID)] if id_path is not None else []),
            *([Leaf(time, TIME)] if time is not None else []),
            *([Leaf(y, SCALAR if self.classification else NUMBER)] if y is not None else []),
        ]
        self.layout = Layout([*named, *leaves])
        self.reasons = {".".join(path): reason for path, reason in ((time, r.WRONG_TIME), (y, r.WRONG_LABEL)) if path}

    def decode(self, values: list[bytes | None], bad: Bad) -> list[Any]:
        """The struct of each record; an empty one, and an entry in `bad`, where there is none."""
        decode = self.layout.decode
        try:
            # len(None) is a TypeError: a tombstone takes the other way as well.
            largest = max(map(len, values), default=0)  # type: ignore[arg-type]
            if largest <= self.mapping.max_bytes and (largest <= SHALLOW_BYTES or not any(map(too_deep, values))):  # type: ignore[arg-type]
                records = list(map(decode, values))  # type: ignore[arg-type]
                # The decoder does not look at the bytes of texts that it skips.
                if not all(map(bytes.isascii, values)):  # type: ignore[arg-type]
                    for i, value in enumerate(values):
                        if not is_utf8(value):  # type: ignore[arg-type]
                            records[i] = self._decode_one(i, value, bad)
                return records
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            pass
        return [self._decode_one(i, value, bad) for i, value in enumerate(values)]

    def _decode_one(self, i: int, value: bytes | None, bad: Bad) -> Any:
        if value is None:
            bad[i] = r.TOMBSTONE, "the record has no value"
        elif not value:
            bad[i] = r.EMPTY, "the value has no bytes"
        elif len(value) > self.mapping.max_bytes:
            bad[i] = r.TOO_LARGE, f"{len(value)} bytes, max_bytes is {self.mapping.max_bytes}"
        elif too_deep(value):
            bad[i] = r.TOO_DEEP, "nested more than 200 levels"
        elif not is_utf8(value):
            bad[i] = r.NOT_UTF8, "bytes that are not text"
        else:
            try:
                try:
                    return self.layout.decode(value)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    bad[i] = self._explain(value, error)
            except RecursionError:  # the stack was nearly used up before: not the record's fault, but no reason to stop
                bad[i] = r.TOO_DEEP, "nested too deeply for the stack that is left"
        return self.layout.empty

    def _explain(self, value: bytes, error: Exception) -> tuple[str, str]:
        """Reason and detail of a record that the typed decoder refuses. Broken JSON comes before wrong types, which
        the decoder may meet first."""
        if isinstance(error, msgspec.ValidationError):
            try:
                _SKIP(value)
            except msgspec.DecodeError as broken:
                error = broken
        message = str(error)
        if not isinstance(error, msgspec.ValidationError):
            return r.NOT_JSON, message[:200]
        at = _WHERE.search(message)
        if at is None:
            return r.WRONG_TYPE, message[:200]
        where, detail = at[1], f"{at[1]}: {message[: at.start()]}"
        if where in self.reasons:
            return self.reasons[where], detail[:200]
        return (r.NOT_FINITE if message.startswith("Number out of range") else r.WRONG_TYPE), detail[:200]

    def check_keys(self, keys: list[bytes | None], bad: Bad) -> None:
        """A prediction goes out with the key of its features."""
        try:
            if max(map(len, keys), default=0) <= r.MAX_KEY_BYTES:  # type: ignore[arg-type]
                return
        except TypeError:  # there are records without a key
            pass
        for i, key in enumerate(keys):
            if key is not None and len(key) > r.MAX_KEY_BYTES:
                bad.setdefault(i, (r.TOO_LARGE, f"a key of {len(key)} bytes, at most {r.MAX_KEY_BYTES}"))

    def ids(self, records: list[Any], keys: list[bytes | None], bad: Bad) -> list[str]:
        if self.id is None:
            return self._ids_of_keys(keys, bad)
        ids = self.layout.column(records, self.id)
        kinds = set(map(type, ids))
        if kinds == {int}:
            ids = list(map(str, ids))
        elif kinds != {str}:
            ids = [str(v) if type(v) is int else v for v in ids]
        return self._checked_ids(ids, ".".join(self.id), bad)

    def _ids_of_keys(self, keys: list[bytes | None], bad: Bad) -> list[str]:
        try:
            return self._checked_ids([key.decode() for key in keys], "the key", bad)  # type: ignore[union-attr]
        except (AttributeError, UnicodeDecodeError):
            pass
        ids: list[str | None] = []
        for i, key in enumerate(keys):
            ids.append(None)
            if key is not None:
                try:
                    ids[i] = key.decode()
                except UnicodeDecodeError:
                    bad.setdefault(i, (r.NOT_UTF8, "the key, which is the id, is not UTF-8"))
        return self._checked_ids(ids, "the key", bad)

    def _checked_ids(self, ids: list[Any], where: str, bad: Bad) -> list[str]:
        if not all(ids):
            for i, v in enumerate(ids):
                if not v:
                    bad.setdefault(i, (r.MISSING_ID, f"{where}: the id is {'empty' if v == '' else 'missing'}"))
            ids = [v or "" for v in ids]
        if max(map(len, ids), default=0) > MAX_TEXT:
            for i, v in enumerate(ids):
                if len(v) > MAX_TEXT:
                    bad.setdefault(i, (r.TOO_LONG, f"{where}: an id of {len(v)} characters, at most {MAX_TEXT}"))
        return ids

    def times(self, records: list[Any], bad: Bad) -> list[float | None] | None:
        if self.time is None:
            return None
        values = self.layout.column(records, self.time)
        if str not in set(map(type, values)):
            try:
                return many_milliseconds(values)
            except ValueError:
                pass
        times: list[float | None] = [None] * len(values)
        for i, value in enumerate(values):
            if value is not None:
                try:
                    times[i] = milliseconds(value)
                except ValueError as error:
                    bad.setdefault(i, (r.WRONG_TIME, f"{'.'.join(self.time)}: {error}"))
        return times


class _Column(NamedTuple):
    """Values of one vocabulary in the batch. at : column of x, or -1 for the label. starts : where the values of each
    record begin, and where they end; None where a record has one."""

    at: int
    name: str
    vocabulary: Vocabulary
    values: list[Scalar | None]
    starts: list[int] | None = None

    def span(self, i: int) -> slice:
        """The places of the values of record i."""
        return slice(i, i + 1) if self.starts is None else slice(self.starts[i], self.starts[i + 1])

    def record(self, place: int) -> int:
        """The record that a value is of."""
        return place if self.starts is None else bisect_right(self.starts, place) - 1


def _texts(values: list[Any]) -> list[str | None]:
    """Canonical texts of a column; None stays. Strings, the usual case, are not touched."""
    kinds = set(map(type, values))
    if kinds <= {str, type(None)}:
        return values
    if kinds == {int}:
        return list(map(str, values))
    return [None if v is None else canonical(v) for v in values]


def _codes(columns: list[_Column], bad: Bad) -> list[list[float]]:
    """Codes of all columns, record by record where there is something new: a record that one vocabulary refuses
    is seen by none. NaN for None and for records in `bad`."""
    texts = [_texts(column.values) for column in columns]
    try:
        return [
            list(map(column.vocabulary.codes.__getitem__, text)) for column, text in zip(columns, texts, strict=True)
        ]
    except KeyError:
        pass
    rows: set[int] = set()
    for column, text in zip(columns, texts, strict=True):
        new = set(text).difference(column.vocabulary.codes)
        if new:
            rows.update(column.record(place) for place, v in enumerate(text) if v in new)
    for i in sorted(rows):
        refused = bad.get(i)
        if refused is None:
            refused = _refusal(columns, texts, i)
        if refused is not None:
            bad[i] = refused
            for column, text in zip(columns, texts, strict=True):
                text[column.span(i)] = [None] * len(text[column.span(i)])
            continue
        for column in columns:
            for value in column.values[column.span(i)]:
                if value is not None:
                    column.vocabulary.code(value)
    return [list(map(column.vocabulary.codes.__getitem__, text)) for column, text in zip(columns, texts, strict=True)]


def _refusal(columns: list[_Column], texts: list[list[str | None]], i: int) -> tuple[str, str] | None:
    """Why a vocabulary cannot take record i, or None."""
    for column, text in zip(columns, texts, strict=True):
        vocabulary = column.vocabulary
        known = len(vocabulary)
        for value in dict.fromkeys(text[column.span(i)]):
            if value is None or value in vocabulary.codes:
                continue
            if vocabulary.closed:
                return r.UNKNOWN_VALUE, f"{column.name}: {value[:40]!r} is not among the declared values"
            if known >= vocabulary.limit:
                return r.NOMINAL_OVERFLOW, f"{column.name}: {value[:40]!r} is new, and {vocabulary.limit} are known"
            too_long = vocabulary.too_long(value)
            if too_long is not None:
                return r.TOO_LONG, f"{column.name}: a value of {too_long}"
            known += 1
    return None


class JsonCodec:
    """JSON objects, one a record, as the mapping lays them out. Fields that are not mapped are ignored.

    A bag's features are those of each object in the list at `mapping.x`; everything else is of the record.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        leaves = [Leaf(feature.path, _TYPES[feature.type]) for feature in mapping.features]
        self._bags = mapping.task == r.MULTI_INSTANCE
        # Where features are found: in the record, or in each instance of a bag.
        inside = Layout(leaves) if self._bags else None
        if inside is not None:
            leaves = [Leaf(mapping.x, list[inside.type] | None)]  # type: ignore[name-defined]
        self._features = _Reader(mapping, leaves, mapping.id, mapping.time, mapping.y)
        self._layout = inside or self._features.layout
        self._labels = _Reader(mapping, [], mapping.label_id, mapping.label_time, mapping.label_y)
        self._blocks = self._numeric_blocks()
        self._nominal = [(i, f) for i, f in enumerate(mapping.features) if f.type == r.NOMINAL]
        n = len(mapping.x)
        self._has_x = n > 0 and not self._bags and any(f.path[:n] == mapping.x for f in mapping.features)
        self._predictions = PredictionWriter()

    def _numeric_blocks(self) -> list[_Block]:
        layout = self._layout
        columns: dict[Path, list[int]] = {}
        for i, feature in enumerate(self.mapping.features):
            if feature.type != r.NOMINAL:
                columns.setdefault(feature.path[:-1], []).append(i)
        blocks = []
        for parent, indices in columns.items():
            names = [layout.attribute(self.mapping.features[i].path) for i in indices]
            # The whole object as a tuple takes 0.12 µs for ten fields, picking them takes 0.27 µs.
            whole = names == layout.attributes(parent) and len(names) > 1
            blocks.append(_Block(parent, indices, msgspec.structs.astuple if whole else attrgetter(*names)))
        return blocks

    def decode_features(
        self, batch: RawBatch, vocabularies: Sequence[Vocabulary | None], classes: Vocabulary | None = None
    ) -> Features:
        """Rows of x, ids, inline labels and event times of the records that can be used. See `Codec`."""
        reader, bad = self._features, Bad()
        records = reader.decode(batch.values, bad)
        reader.check_keys(batch.keys, bad)
        ids = reader.ids(records, batch.keys, bad)
        times = reader.times(records, bad)
        objects, starts = self._unpack(records, bad) if self._bags else (records, None)
        x = self._numbers(objects, bad)
        columns = [
            _Column(i, feature.name, vocabulary, self._layout.column(objects, feature.path), starts)
            for i, feature in self._nominal
            if (vocabulary := vocabularies[i]) is not None
        ]
        y = None if reader.y is None else reader.layout.column(records, reader.y)
        if y is not None and set(map(type, y)) <= {type(None)}:
            y = None
        if y is not None and classes is not None:
            columns.append(_Column(-1, ".".join(reader.y or ()), classes, y))
        for column, codes in zip(columns, _codes(columns, bad), strict=True):
            if column.at < 0:
                y = codes
            else:
                x[:, column.at] = codes
        if y is not None and classes is None:
            y = [float("nan") if v is None else v for v in y]
        sizes = None if starts is None else np.array(starts[1:], np.int64) - np.array(starts[:-1], np.int64)
        if not bad:
            return Features(None, ids, x, y, times, [], sizes)
        kept = [i for i in range(len(records)) if i not in bad]
        if sizes is None:
            x = x[kept]
        else:
            is_kept = np.zeros(len(records), bool)
            is_kept[kept] = True
            x, sizes = x[np.repeat(is_kept, sizes)], sizes[kept]
        return Features(kept, _take(ids, kept), x, _take(y, kept), _take(times, kept), _rejected(bad), sizes)

    def _unpack(self, records: list[Any], bad: Bad) -> tuple[list[Any], list[int]]:
        """The instances of all bags, and where those of each begin (and the last one's end). Those of a record that
        has been refused are left out."""
        bags, where = self._features.layout.column(records, self.mapping.x), ".".join(self.mapping.x)
        for i, bag in enumerate(bags):
            if bag is None:
                bad.setdefault(i, (r.MISSING_X, f"{where}: the instances are missing"))
            elif not bag:
                bad.setdefault(i, (r.EMPTY_BAG, f"{where}: a bag has at least one instance"))
            elif len(bag) > self.mapping.max_instances:
                most = f"at most {self.mapping.max_instances}"
                bad.setdefault(i, (r.TOO_MANY_INSTANCES, f"{where}: a bag of {len(bag)} instances, {most}"))
        if bad:
            bags = [[] if i in bad else bag for i, bag in enumerate(bags)]
        return list(chain.from_iterable(bags)), [0, *accumulate(map(len, bags))]

    def decode_labels(self, batch: RawBatch, classes: Vocabulary | None = None) -> Labels:
        """Ids, class codes or targets, and event times of the labels that can be used. See `Codec`."""
        reader, bad = self._labels, Bad()
        records = reader.decode(batch.values, bad)
        ids = reader.ids(records, batch.keys, bad)
        times = reader.times(records, bad)
        y = reader.layout.column(records, self.mapping.label_y)
        name = ".".join(self.mapping.label_y)
        if type(None) in set(map(type, y)):
            for i, value in enumerate(y):
                if value is None:
                    bad.setdefault(i, (r.WRONG_LABEL, f"{name}: the label is missing"))
        if classes is not None:
            y = _codes([_Column(-1, name, classes, y)], bad)[0]
        if not bad:
            return Labels(None, ids, y, times, [])
        kept = [i for i in range(len(records)) if i not in bad]
        return Labels(kept, _take(ids, kept), _take(y, kept), _take(times, kept), _rejected(bad))

    def _numbers(self, records: list[Any], bad: Bad) -> Floats:
        """x with its numeric and boolean columns filled in, NaN elsewhere."""
        layout, n = self._layout, len(records)
        if self._has_x:
            for i in layout.objects(records, self.mapping.x)[1]:
                bad.setdefault(i, (r.MISSING_X, f"{'.'.join(self.mapping.x)}: the features are missing"))
        x: Floats | None = None
        for block in self._blocks:
            objects, _ = layout.objects(records, block.parent)
            width = len(block.columns)
            values: Any = map(block.take, objects)
            if width > 1:
                values = chain.from_iterable(values)
            # None becomes NaN, true and false become 1 and 0.
            part = np.fromiter(values, np.float64, count=n * width).reshape(n, width)
            if width == len(self.mapping.features):
                return part
            if x is None:
                x = np.full((n, len(self.mapping.features)), np.nan)
            x[:, block.columns] = part
        return np.full((n, len(self.mapping.features)), np.nan) if x is None else x

    def encode_predictions(
        self,
        ids: Sequence[str],
        p: Floats,
        classes: Vocabulary | None,
        model: str,
        offsets: Sequence[int],
        label_offsets: Sequence[int],
        *,
        probabilities: bool = True,
        challengers: MappingOf[str, Floats] | None = None,
    ) -> list[bytes]:
        """Prediction records, one an id. See `Codec`."""
        return self._predictions.write(ids, p, classes, model, offsets, label_offsets, probabilities, challengers or {})


CODECS: dict[str, Callable[[Mapping], Codec]] = {"json": JsonCodec}


def _take(values: Any, kept: list[int]) -> Any:
    return None if values is None else [values[i] for i in kept]


def _rejected(bad: Bad) -> list[Rejected]:
    return [Rejected(i, *bad[i]) for i in sorted(bad)]
