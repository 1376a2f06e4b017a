"""Values of records, read from any format, as columns.

A format reads records (`Reader`); `ColumnDecoder` makes ids, times, rows of x, and codes of nominal values and classes
of what was read, and gives which records cannot be used. It keeps no state: what is learned while decoding is in the
vocabularies that the caller passes in. A record that cannot be used is in `rejected`, with its reason, and does not
change the vocabularies.

Every step works on whole columns and turns to single records only where the column holds something unusual. The result
for a record depends on the record and on the vocabularies after the records before it, so one batch of n gives the same
as n batches of 1.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from riparian.topics import records as r
from riparian.topics.decoding import headers
from riparian.topics.decoding.envelopes import Ignored
from riparian.topics.decoding.headers import header_of
from riparian.topics.decoding.paths import dotted
from riparian.topics.decoding.times import many_milliseconds, milliseconds
from riparian.topics.names import FEATURES, HEADER_UNREAD
from riparian.topics.places import IndexBits, index_of, offset_of
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Features, Floats, Labels, Mapping, Path, RawBatch, Rejected
from riparian.topics.schemas import Key, RegisteredSchema
from riparian.topics.slices import Coded, Slices, Texts
from riparian.topics.vocabulary import MAX_TEXT, MISSING, UNTOLD, Vocabulary, canonical

# position in the batch -> (reason, detail); the first reason found stays.
Bad = headers.Bad


class Reader(Protocol):
    """How a format reads records of one kind, such as labels, of one stream: what is left by
    `topics.decoding.headers.inside` of its mapping. Fields in headers are not its business.

    What it reads has the types that the mapping asks for, or is None: an id is a text or an integer; a time a number or
    ISO 8601; a label, and a nominal value, a scalar; the label of a regression a number. A record of which this is not
    so goes to `bad`, with its reason.
    """

    def decode(self, batch: RawBatch, bad: Bad) -> Any:
        """The values of a batch as records, in a form of the format's own: one that holds nothing, and an entry in
        `bad`, where there is none (`no_record` comes before any other reason). Nothing that a value holds raises."""

    def column(self, records: list[Any], path: Path) -> Any:
        """The field at `path` of each record, None where it is missing: a list, or Coded; Texts where all are texts;
        an array of float64, NaN where missing, where all are numbers."""


class LabelReader(Reader, Protocol):
    """Labels, which may be null."""

    def is_null(self, batch: RawBatch, i: int, path: Path) -> bool:
        """Whether the field at `path` of record i, of which `column` gives None, is there and null."""


class FeatureReader(Reader, Protocol):
    """Features besides. An instance is what the features are found in: the record, or one of the list of a bag."""

    def missing(self, records: list[Any], path: Path) -> list[int]:
        """The records that have no object at `path`."""

    def numbers(self, instances: list[Any]) -> Floats:
        """(n, d) x with its numeric and boolean columns filled in (true is 1, false 0), NaN elsewhere. d : features
        that stand in the values."""

    def feature(self, instances: list[Any], path: Path) -> Any:
        """The nominal feature at `path` of each instance, None where it is missing."""


class ColumnDecoder:
    """Decodes batches of a stream: the half of every codec that no format changes.

    Parameters
    ----------
    features, labels : readers of the format

    Attributes
    ----------
    headers : headers.HeaderSelection
        Which batches have to have their headers. A format that needs them for itself sets it.
    prediction : Schema, optional
        By which predictions are written. A format of a registry sets it.
    index_bits : IndexBits
        Of the places of its records. A format with many instances in a record has some, and unpacks them.
    join_predictions : callable, optional
        Several prediction records as few: of a format that does not send each by itself. It also splits them.
    """

    prediction: RegisteredSchema | None = None
    index_bits = IndexBits()
    join_predictions: Callable[[Sequence[bytes], int], list[bytes]] | None = None

    def __init__(self, mapping: Mapping, features: FeatureReader, labels: LabelReader) -> None:
        self.mapping = mapping
        self._features, self._labels = features, labels
        self._bags = mapping.task == r.MULTI_INSTANCE
        self._nominal = [(i, f) for i, f in enumerate(mapping.features[: mapping.n_columns]) if f.type == r.NOMINAL]
        n = len(mapping.x)
        self._in_text = [(i, f) for i, f in enumerate(mapping.features) if f.in_text]
        self._has_x = n > 0 and not self._bags and any(f.path[:n] == mapping.x for f in mapping.features)
        self.headers = headers.wanted(mapping)
        self._in_value = [i for i, f in enumerate(mapping.features) if header_of(f.path) is None]
        self._numbers_in_headers = [
            (i, name, headers.NUMBER if f.type == r.NUMERIC else headers.BOOLEAN)
            for i, f in enumerate(mapping.features)
            if (name := header_of(f.path)) is not None and f.type != r.NOMINAL
        ]

    def decode_features(
        self, batch: RawBatch, vocabularies: Sequence[Vocabulary | None], classes: Vocabulary | None = None
    ) -> Features:
        """Rows of x, ids, inline labels and event times of the records that can be used.

        Parameters
        ----------
        vocabularies : sequence of Vocabulary or None
            One a feature, None for numeric ones.
        classes : Vocabulary, optional
            For labels inside the feature records. None: regression.
        """
        mapping, reader, bad = self.mapping, self._features, Bad()
        if not len(batch):
            x, sizes = np.zeros((0, mapping.n_columns)), np.zeros(0, np.int64) if self._bags else None
            return Features(None, [], x, None, None, [], sizes, [[]] * len(mapping.keys))
        batch = _with_unread(batch)
        records = reader.decode(batch, bad)
        fields = _Fields(reader, records, batch, bad, mapping.max_bytes)
        check_keys(batch.keys, bad)
        ids = _ids(fields, mapping.id) if mapping.partition is None else self._places(batch)
        times = _times(fields, mapping.time)
        objects, starts = self._unpack(records, bad) if self._bags else (records, None)
        if self._has_x:
            for i in reader.missing(records, mapping.x):
                bad.setdefault(i, (r.MISSING_X, f"{dotted(mapping.x)}: the features are missing"))
        x = self._widened(reader.numbers(objects), fields)
        for i, feature in self._in_text:
            name = dotted((*mapping.x, *feature.path) if self._bags else feature.path)
            x[:, i] = _numbers(fields.feature(objects, feature.path), name, bad, starts)
        keys = [_key(fields, mapping, objects, at) for at in mapping.keys]
        if mapping.n_hidden:
            x = x[:, : mapping.n_columns].copy()
        columns = [
            _CodedColumn(i, feature.name, vocabulary, fields.feature(objects, feature.path), starts)
            for i, feature in self._nominal
            if (vocabulary := vocabularies[i]) is not None
        ]
        y = None if mapping.y is None else fields.label(mapping.y, classes)
        if y is not None and not isinstance(y, Texts) and len(_missing(y)) == len(y):
            y = None
        if y is not None and mapping.task == r.ANOMALY:
            fields.check_marks(mapping.y or (), y)
        if y is not None and classes is not None:
            columns.append(_CodedColumn(-1, dotted(mapping.y or ()), classes, y))
        for column, codes in zip(columns, _codes(columns, bad), strict=True):
            if column.at < 0:
                y = codes
            else:
                x[:, column.at] = codes
        if y is not None and classes is None and not isinstance(y, np.ndarray):
            y = [float("nan") if v is None else v for v in y]
        sizes = None if starts is None else np.array(starts[1:], np.int64) - np.array(starts[:-1], np.int64)
        if not bad:
            return Features(None, ids, x, y, times, [], sizes, keys)
        kept = [i for i in range(len(records)) if i not in bad]
        keys = [_take(column, kept) for column in keys]
        if sizes is None:
            x = x[kept]
        else:
            is_kept = np.zeros(len(records), bool)
            is_kept[kept] = True
            x, sizes = x[np.repeat(is_kept, sizes)], sizes[kept]
        return Features(kept, _take(ids, kept), x, _take(y, kept), _take(times, kept), _rejected(bad), sizes, keys)

    def _places(self, batch: RawBatch) -> list[str]:
        """Of each instance of features the partition and offset of its record, and which of several it is there."""
        bits, partition = self.index_bits.features, self.mapping.partition
        if not bits:
            return [f"{partition}@{place}" for place in batch.offsets]
        return [f"{partition}@{offset_of(place, bits)}.{index_of(place, bits)}" for place in batch.offsets]

    def _widened(self, x: Floats, fields: "_Fields") -> Floats:
        """x with the features that stand in headers: numbers filled in, NaN for nominal ones."""
        d = len(self.mapping.features)
        if len(self._in_value) == d:
            return x
        wide = np.full((len(x), d), np.nan)
        wide[:, self._in_value] = x
        for i, name, kind in self._numbers_in_headers:
            wide[:, i] = [np.nan if value is None else value for value in fields.header(name, kind)]
        return wide

    def _unpack(self, records: list[Any], bad: Bad) -> tuple[list[Any], list[int]]:
        """The instances of all bags, and where those of each begin (and the last one's end). Those of a record that
        has been rejected are left out."""
        bags, where = self._features.column(records, self.mapping.x), dotted(self.mapping.x)
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

    def unpack(self, role: str, batch: RawBatch) -> RawBatch:
        """Records as they are: each is an instance."""
        return batch

    def pack_predictions(self, room: int, columns: PredictionColumns) -> list[bytes] | None:
        """None: each prediction is a record."""
        return None

    def split_predictions(self, value: bytes | None) -> Sequence[bytes | None]:
        """A record as it is: it is one prediction."""
        return [value]

    def warm_up(self) -> None:
        """Nothing: only formats with kernels have something to compile."""

    def ids(self, kind: str, batch: RawBatch) -> list[str | None]:
        """The id of each record of "features" or "labels"; None where it cannot be read, or nothing else of the record
        can. Other mistakes of a record are not looked for."""
        features = kind == FEATURES
        reader, bad = self._features if features else self._labels, Bad()
        fields = _Fields(reader, reader.decode(batch, bad), batch, bad, self.mapping.max_bytes)
        by_place, path = features and self.mapping.partition is not None, self.mapping.id
        found = self._places(batch) if by_place else _ids(fields, path if features else self.mapping.label_id)
        return [None if i in bad else one for i, one in enumerate(found)]

    def texts_of(self, key: int, batch: RawBatch) -> list[str | None]:
        """Texts of a key in records: see `topics.codecs.Codec`."""
        reader, bad = self._features, Bad()
        records = reader.decode(batch, bad)
        fields = _Fields(reader, records, batch, bad, self.mapping.max_bytes)
        found = _key(fields, self.mapping, records, self.mapping.keys[key])
        return [None if i in bad or not one else one for i, one in enumerate(found)]

    def unknown(self, kind: str, batch: RawBatch) -> dict[Key, list[int]]:
        """None: only the formats of a registry need schemas."""
        return {}

    def named(self, kind: str, batch: RawBatch) -> set[Key]:
        """None."""
        return set()

    def prepare(self, keys: Collection[Key]) -> None:
        """Nothing."""

    def problems(self, kind: str, schema: RegisteredSchema, name: str) -> list[Any]:
        """None."""
        return []

    def decode_labels(self, batch: RawBatch, classes: Vocabulary | None = None) -> Labels:
        """Ids, class codes or targets, and event times of the labels that can be used; NaN of a label that is null.
        classes : None: regression."""
        mapping, reader, bad = self.mapping, self._labels, Bad()
        if not len(batch):
            return Labels(None, [], [], None, [])
        batch = _with_unread(batch)
        fields = _Fields(reader, reader.decode(batch, bad), batch, bad, mapping.max_bytes)
        ids = _ids(fields, mapping.label_id)
        times = _times(fields, mapping.label_time)
        y: Any = Coded([mapping.label_is], np.zeros(len(batch), np.int64))  # that a record is there says it
        if mapping.label_is is None:
            y = fields.label(mapping.label_y, classes)
        if mapping.task == r.ANOMALY:
            fields.check_marks(mapping.label_y, y)
        name, missing = dotted(mapping.label_y) or "label.is", [] if isinstance(y, Texts) else _missing(y)
        null = {
            i for i in missing if i not in bad and not _untold(batch.values[i]) and fields.is_null(mapping.label_y, i)
        }
        if classes is not None:
            y = _codes([_CodedColumn(-1, name, classes, y)], bad)[0]
            missing = _missing(np.array(y, np.float64)) if missing or bad else []
        elif missing and not isinstance(y, np.ndarray):
            y = [float("nan") if v is None else v for v in y]
        for i in missing:
            if i not in null:
                bad.setdefault(i, _no_label(name, batch.values[i]))
        if not bad:
            return Labels(None, ids, y, times, [])
        kept = [i for i in range(len(batch)) if i not in bad]
        return Labels(kept, _take(ids, kept), _take(y, kept), _take(times, kept), _rejected(bad))


_UNTOLD = [text.encode() for text in UNTOLD]


def _untold(value: Any) -> bool:
    """Whether Debezium did not get what is missing in a record: never of a row of many in one."""
    return isinstance(value, bytes) and any(text in value for text in _UNTOLD)


def _no_label(name: str, value: Any) -> tuple[str, str] | Ignored:
    """Why a record has no label."""
    if _untold(value):
        return Ignored(r.UNAVAILABLE, f"{name}: the label has not changed, and Debezium was not told it")
    return r.WRONG_LABEL, f"{name}: the label is missing"


class _Fields(NamedTuple):
    """The columns of a batch, wherever they stand: in values, which the format has read, or in headers."""

    reader: Reader
    records: list[Any]
    batch: RawBatch
    bad: Bad
    max_bytes: int

    def header(self, name: str, kind: str, reason: str | None = None) -> list[Any]:
        return headers.column(self.batch, name, kind, self.bad, self.max_bytes, reason)

    def column(self, path: Path, kind: str, reason: str | None = None) -> Any:
        name = header_of(path)
        return self.reader.column(self.records, path) if name is None else self.header(name, kind, reason)

    def label(self, path: Path, classes: Vocabulary | None) -> Any:
        return self.column(path, headers.NUMBER if classes is None else headers.TEXT, r.WRONG_LABEL)

    def is_null(self, path: Path, i: int) -> bool:
        """Whether a label that was read as None is there, and null."""
        name = header_of(path)
        if name is not None:
            return name in dict((self.batch.headers or ())[i])
        reader: Any = self.reader  # of labels
        return bool(reader.is_null(self.batch, i, path))

    def check_marks(self, path: Path, y: Any) -> None:
        """Labels of anomalies are 1, or 0 of what is none."""
        y = listed(y)
        if not set(y) <= {0, 1, None}:
            for i, value in enumerate(y):
                if value not in (0, 1, None):
                    sentence = f"{dotted(path)}: expected 1 of an anomaly, or 0, found {value:g}"
                    self.bad.setdefault(i, (r.WRONG_LABEL, sentence))

    def feature(self, instances: list[Any], path: Path) -> Any:
        """Of the nominal feature at `path`."""
        name = header_of(path)
        if name is not None:
            return self.header(name, headers.TEXT)
        reader: Any = self.reader  # of features
        return reader.feature(instances, path)


def _with_unread(batch: RawBatch) -> RawBatch:
    """A batch with `Unread` in place of values that could not be read where the records were copied from."""
    if batch.headers is None or None not in batch.values:
        return batch
    values = list(batch.values)
    for i, value in enumerate(values):
        if value is None and (why := dict(batch.headers[i]).get(HEADER_UNREAD)) is not None:
            values[i] = r.Unread(b"in the source: " + why)  # anybody can write the header, a record in it, too
    return batch.with_values(values)


def no_record(value: bytes | None, max_bytes: int) -> tuple[str, str] | None:
    """Why there is no record to decode, whatever the format; None where there is one. max_bytes : of the mapping."""
    if value is None:
        return r.TOMBSTONE, "the record has no value"
    if isinstance(value, r.Unread):
        return r.UNREADABLE_BATCH, value[:300].decode(errors="replace")  # a copy's header, which anybody can write
    if isinstance(value, r.Unknown):
        return r.UNKNOWN_SCHEMA, "the registry does not know the schema that the record names"
    if not value:
        return r.EMPTY, "the value has no bytes"
    if len(value) > max_bytes:
        return r.TOO_LARGE, f"{len(value)} bytes, max_bytes is {max_bytes}"
    return None


def check_keys(keys: Sequence[bytes | None], bad: Bad) -> None:
    """A prediction goes out with the key of its features."""
    if isinstance(keys, Slices) and keys.lengths.max(initial=0) <= r.MAX_KEY_BYTES:
        return
    if isinstance(keys, Coded) and max((len(key or b"") for key in keys.values), default=0) <= r.MAX_KEY_BYTES:
        return
    try:
        if max(map(len, keys), default=0) <= r.MAX_KEY_BYTES:  # type: ignore[arg-type]
            return
    except TypeError:  # there are records without a key
        if keys.count(None) == len(keys):
            return
    for i, key in enumerate(keys):
        if key is not None and len(key) > r.MAX_KEY_BYTES:
            bad.setdefault(i, (r.TOO_LARGE, f"a key of {len(key)} bytes, at most {r.MAX_KEY_BYTES}"))


def _ids(fields: _Fields, path: Path | None) -> Sequence[str]:
    if path is None:
        return _ids_of_keys(fields.batch.keys, fields.bad)
    ids = fields.column(path, headers.TEXT)
    if isinstance(ids, Texts) and (lengths := ids.lengths).min(initial=1) and lengths.max(initial=0) <= MAX_TEXT:
        return ids
    kinds = set(map(type, ids))
    if kinds == {int}:
        ids = list(map(str, ids))
    elif kinds != {str}:
        ids = [str(v) if type(v) is int else v for v in ids]
    return _checked_ids(ids, path, fields.bad)


def _ids_of_keys(keys: Sequence[bytes | None], bad: Bad) -> list[str]:
    try:
        return _checked_ids([key.decode() for key in keys], None, bad)  # type: ignore[union-attr]
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
    return _checked_ids(ids, None, bad)


def _checked_ids(ids: list[Any], path: Path | None, bad: Bad) -> list[str]:
    """path : where they stand; None: they are keys."""
    if all(ids) and max(map(len, ids), default=0) <= MAX_TEXT:
        return ids
    where = "the key" if path is None else dotted(path)
    if not all(ids):
        for i, v in enumerate(ids):
            if not v:
                bad.setdefault(i, (r.MISSING_ID, f"{where}: the id is {'empty' if v == '' else 'missing'}"))
        ids = [v or "" for v in ids]
    for i, v in enumerate(ids):
        if len(v) > MAX_TEXT:
            bad.setdefault(i, (r.TOO_LONG, f"{where}: an id of {len(v)} characters, at most {MAX_TEXT}"))
    return ids


def _key(fields: _Fields, mapping: Mapping, records: list[Any], at: int | None) -> Any:
    """The texts of a key; None where it is missing."""
    if at is None:
        keys, where = (
            [None if k is None else k.decode("utf-8", "surrogateescape") for k in fields.batch.keys],
            "the key",
        )
        return _checked_key(keys, where, fields.bad)
    feature = mapping.features[at]
    values = fields.feature(records, feature.path)
    if isinstance(values, Coded):
        values = Coded(_texts(values.values), values.codes)
    return _checked_key(values if isinstance(values, Texts | Coded) else _texts(values), feature.name, fields.bad)


def _checked_key(texts: Any, where: str, bad: Bad) -> Any:
    if isinstance(texts, Texts):
        longest = int(texts.lengths.max(initial=0))
    else:
        longest = max((len(v or "") for v in (texts.values if isinstance(texts, Coded) else texts)), default=0)
    for i, v in enumerate(texts if longest > MAX_TEXT else ()):
        if len(v or "") > MAX_TEXT:
            bad.setdefault(i, (r.TOO_LONG, f"{where}: a key of {len(v)} characters, at most {MAX_TEXT}"))
    return texts


def _times(fields: _Fields, path: Path | None) -> list[float | None] | None:
    if path is None:
        return None
    values = fields.column(path, headers.TIME, r.WRONG_TIME)
    if isinstance(values, np.ndarray) or str not in set(map(type, values)):
        try:
            return many_milliseconds(values)
        except ValueError:
            pass
    times: list[float | None] = [None] * len(values)
    for i, value in enumerate(listed(values)):
        if value is not None:
            try:
                times[i] = milliseconds(value)
            except ValueError as error:
                fields.bad.setdefault(i, (r.WRONG_TIME, f"{dotted(path)}: {error}"))
    return times


def _missing(values: Any) -> list[int]:
    """The places of what is missing."""
    found: list[int]
    if isinstance(values, np.ndarray):
        found = np.isnan(values).nonzero()[0].tolist()
    elif isinstance(values, Coded):
        nothing = [k for k in values.used() if values.values[k] is None]
        found = np.isin(values.codes, nothing).nonzero()[0].tolist() if nothing else []
    elif type(None) in set(map(type, values)):
        found = [i for i, value in enumerate(values) if value is None]
    else:
        found = []
    return found


def listed(values: Any) -> Any:
    """Numbers as a list, None where missing; anything else as it is."""
    return [None if v != v else v for v in values.tolist()] if isinstance(values, np.ndarray) else values


def _numbers(values: Any, name: str, bad: Bad, starts: list[int] | None) -> Floats:
    """Numbers that may be texts, as in a header, NaN where missing. starts : as in `_CodedColumn`."""
    found = np.full(len(values), np.nan)
    for place, value in enumerate(listed(values)):
        if value in MISSING:
            continue
        try:
            if type(value) is str:
                read = headers.number(value.encode())
            elif type(value) is bool:
                raise ValueError(value)
            else:
                read = float(value)
            found[place] = np.nan if read is None else read
        except (ValueError, OverflowError) as error:
            huge = headers.is_beyond(error)
            what = "a number beyond float64" if huge else f"{canonical(value)[:40]!r}"
            why = r.NOT_FINITE if huge else r.WRONG_TYPE
            record = place if starts is None else bisect_right(starts, place) - 1
            bad.setdefault(record, (why, f"{name}: expected a number, or a text that is one, found {what}"))
    return found


class _CodedColumn(NamedTuple):
    """Values of one vocabulary in the batch.

    at : column of x, or -1 for the label
    starts : where the values of each record begin, and where they end; None where a record has one
    """

    at: int
    name: str
    vocabulary: Vocabulary
    values: Any  # list of scalars and None, Coded, or Texts
    starts: list[int] | None = None

    def span(self, i: int) -> slice:
        """The places of the values of record i."""
        return slice(i, i + 1) if self.starts is None else slice(self.starts[i], self.starts[i + 1])

    def record(self, place: int) -> int:
        """The record that a value is of."""
        return place if self.starts is None else bisect_right(self.starts, place) - 1


def _texts(values: Any) -> list[str | None]:
    """Canonical texts of a column; None stays. Strings, the usual case, are not touched."""
    if isinstance(values, Texts):
        return list(values)
    if isinstance(values, Coded):
        return list(Coded(_texts(values.values), values.codes))
    kinds = set(map(type, values))
    if kinds <= {str, type(None)}:
        return values  # type: ignore[no-any-return]
    if kinds == {int}:
        return list(map(str, values))
    return [None if v is None else canonical(v) for v in values]


def _codes(columns: list[_CodedColumn], bad: Bad) -> list[Any]:
    """Codes of all columns, record by record where there is something new: a record that one vocabulary refuses
    is seen by none. NaN for None and for records in `bad`."""
    found = [_known(column) for column in columns]
    if all(codes is not None for codes in found):
        return found
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
    pairs = list(zip(columns, texts, strict=True))
    for i in sorted(rows):
        rejected = bad.get(i)
        if rejected is None:
            if all(v in column.vocabulary.codes for column, text in pairs for v in text[column.span(i)]):
                continue  # new to this batch, and seen in a record before this one
            rejected = _reason(columns, texts, i)
        if rejected is not None:
            bad[i] = rejected
            for column, text in zip(columns, texts, strict=True):
                text[column.span(i)] = [None] * len(text[column.span(i)])
            continue
        for column in columns:
            for value in column.values[column.span(i)]:
                if value is not None:
                    column.vocabulary.code(value)
    return [list(map(column.vocabulary.codes.__getitem__, text)) for column, text in zip(columns, texts, strict=True)]


def _known(column: _CodedColumn) -> Floats | None:
    """The codes of values that no object was made of, where all of them are known; else None."""
    if isinstance(column.values, Coded):
        return _translated(column.values, column.vocabulary)
    if not isinstance(column.values, Texts):
        return None
    from riparian.topics.decoding.text_kernel import codes  # numba, which the texts come from, too

    return codes(column.values, column.vocabulary.texts)


def _translated(values: Coded, vocabulary: Vocabulary) -> Floats | None:
    used = values.used()
    found = [vocabulary.codes.get(text) for text in _texts([values.values[k] for k in used])]
    if None in found:
        return None
    codes = np.full(len(values.values), np.nan)
    codes[used] = found
    return codes[values.codes]


def _reason(columns: list[_CodedColumn], texts: list[list[str | None]], i: int) -> tuple[str, str] | None:
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


def _take(values: Any, kept: list[int]) -> Any:
    if isinstance(values, Texts | Coded):
        return values.take(kept)
    if isinstance(values, np.ndarray):
        return values[kept]
    return None if values is None else [values[i] for i in kept]


def _rejected(bad: Bad) -> list[Rejected]:
    return [Rejected(i, *bad[i], isinstance(bad[i], Ignored)) for i in sorted(bad)]
