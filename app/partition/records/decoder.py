"""Decodes feature and label records of a partition. Values and classes get codes by first sight in it. Pure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.records.partition_group import Piece
from riparian.app.stream_file.mapping import series_field
from riparian.app.stream_file.spec import Spec
from riparian.topics.codecs import Codec, JsonCodec
from riparian.topics.decoding.paths import dotted
from riparian.topics.records import MULTI_INSTANCE, Features, Labels, Path, RawBatch
from riparian.topics.vocabulary import MISSING, Scalar, Vocabulary


def present(spec: Spec) -> list[int] | None:
    """The columns of the features that records have; None: all."""
    recorded = spec.recorded
    found = [j for j, name in enumerate(spec.features) if name in recorded]
    return found if len(found) < len(spec.features) else None


MOST_TEXTS = 100  # values and classes, at most, that decoders are compared by
Likeness = tuple[Any, ...]


class PartitionDecoder:
    """Of one partition.

    Attributes
    ----------
    values : list of Vocabulary or None
        Of each nominal feature, None of a numeric one.
    classes : Vocabulary, optional
    codec : Codec
    keys : list of str
        Those that are read of records.
    """

    codec: Codec
    keys: list[str]
    _present: list[int] | None = None  # columns of the features that records have; None: all
    _unseen: Sequence[int] = ()  # columns of features that no instance has had, of the first `_n_columns`
    _n_columns = 0
    _series: tuple[int, Path] | None = None  # the field of `label.by` (series_field), until an instance has it
    _columns: tuple[Any, Any] = None, None  # for which features records are decoded
    _read_as: Spec | None = None  # one that says so
    _settled: Spec | None = None  # by which they are, if in the most usual way

    def __init__(self, spec: Spec, partition: int = 0) -> None:
        self._partition = partition
        self.values, self.classes = spec.vocabularies(), spec.class_vocabulary()
        self.settle(spec)
        self._series = series_field(spec)

    def restore(self, values: Sequence[list[Scalar] | None], classes: list[Scalar] | None) -> None:
        """Know what a state knows."""
        for vocabulary, state in zip((*self.values, self.classes), (*values, classes), strict=True):
            if vocabulary is not None:
                vocabulary.restore(state or [])

    def widen(self, spec: Spec) -> None:
        """Rows have all columns of this stream file from here on; records are read as before, until `settle`."""
        new = spec.vocabularies()[len(self.values) :]
        if new and self._present is None:
            self._present = list(range(len(self.values)))
        self.values += new

    def reads(self, spec: Spec) -> bool:
        """Whether records are read as this stream file says."""
        if spec is not self._read_as and (spec.features, spec.gone) != self._columns:
            return False
        self._read_as = spec
        return True

    def settle(self, spec: Spec) -> None:
        """Records have the features of this stream file from here on, whose columns are there."""
        if not self.reads(spec):
            self._columns, self._mapping, self._read_as = (spec.features, spec.gone), spec.mapping(), spec
            self.codec, self._present, self.keys = spec.make_codec(self._partition), present(spec), list(spec.keys)
            self._series = self._series and series_field(spec)  # keys before it may have come or gone
            reads, bags = self._mapping, spec.task == MULTI_INSTANCE
            plain = type(self.codec) is JsonCodec and reads.partition is None and not (reads.keys or bags)
            self._settled = spec if plain else None

    def known(self) -> list[Any]:
        """The values of each feature, and the classes, as states have them."""
        return [None if one is None else one.state() for one in (*self.values, self.classes)]

    def likeness(self) -> Likeness | None:
        """Of decoders where it is equal, each reads usual records as the others do (`joint_decoding`). None where
        nothing else is known to."""
        texts = [one.texts for one in (*self.values, self.classes) if one is not None]
        if self._settled is None or sum(map(len, texts)) > MOST_TEXTS:
            return None
        return id(self._settled), len(self.values), *map(tuple, texts)

    def features(
        self, raw: RawBatch, values: Sequence[Vocabulary | None] | None = None, classes: Vocabulary | None = None
    ) -> Features:
        """Feature records, with a column for each feature that there ever was. values, classes : whose codes they get;
        this partition's where none are given."""
        if values is None:
            values, classes = self.values, self.classes
        if self._present is None:
            return self.codec.decode_features(raw, values, classes)
        found = self.codec.decode_features(raw, [values[j] for j in self._present], classes)
        x = np.full((len(found.x), len(values)), np.nan)
        x[:, self._present] = found.x
        return found._replace(x=x)

    def labels(self, raw: RawBatch) -> Labels:
        """Label records."""
        return self.codec.decode_labels(raw, self.classes)

    # -- what is rejected, with values and classes as they are known -------------------------------------------

    def predicted(self, piece: Piece) -> NDArray[np.bool_]:
        """Which of the feature records are not rejected."""
        return self._accepted(piece, self._present, self.values, self.codec)

    def suits(self, piece: Piece, files: Sequence[Spec]) -> bool:
        """Whether none of these stream files, which commands bring, rejects a feature record. A command takes effect
        before an instance that is predicted after it, since that records where it did."""
        n = len(self.values)

        def accepted(spec: Spec) -> NDArray[np.bool_]:
            values, codec = [*self.values, *spec.vocabularies()[n:]], spec.make_codec(self._partition)
            return self._accepted(piece, present(spec), values, codec)

        return all(bool(accepted(spec)[0]) for spec in files)

    def _accepted(
        self, piece: Piece, columns: list[int] | None, values: Sequence[Vocabulary | None], codec: Codec
    ) -> NDArray[np.bool_]:
        vocabularies = [v for v in (*self.values, self.classes) if v is not None]
        known = [vocabulary.state() for vocabulary in vocabularies]
        chosen = values if columns is None else [values[j] for j in columns]
        position = codec.decode_features(piece.raw, chosen, self.classes).position
        for vocabulary, state in zip(vocabularies, known, strict=True):
            vocabulary.restore(state)
        accepted = np.full(len(piece.offsets), position is None)
        if position is not None:
            accepted[position] = True
        return accepted

    # -- features that no record has ---------------------------------------------------------------------------

    def note_seen(self, features: Features) -> None:
        """These records have come."""
        x = features.x
        if self._series is not None and any(text not in MISSING for text in features.keys[self._series[0]]):
            self._series = None
        if x.shape[1] > self._n_columns:
            self._unseen = [*self._unseen, *range(self._n_columns, x.shape[1])]
            self._n_columns = x.shape[1]
        if self._unseen and len(x):
            self._unseen = [j for j in self._unseen if np.isnan(x[:, j]).all()]

    def never_seen(self) -> list[str]:
        """Features of the records, and the field of `label.by`, that no instance had since the state was loaded."""
        columns = self._present or range(len(self.values))
        unseen = {*self._unseen, *range(self._n_columns, len(self.values))}
        mapping = self._mapping
        named = zip(mapping.features[: mapping.n_columns], columns, strict=True)
        paths = [feature.path for feature, j in named if j in unseen]
        return [*map(dotted, paths), *([] if self._series is None else [dotted(self._series[1])])]
