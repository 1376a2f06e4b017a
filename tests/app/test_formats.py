"""The seam between formats and the rest: a second format, MessagePack, that only these tests know.

It reads records as plain dictionaries and writes predictions its own way. If the same rows give the same columns, the
same predictions and the same proof as with JSON, then nothing but a codec knows what a record's bytes mean.
"""

import asyncio
import json
import types
from functools import reduce

import msgspec
import numpy as np
import pytest
from aiokafka.structs import TopicPartition

from benchmarks.written import rows_of_arrays
from riparian.app.errors import SpecError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import Bounds
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.replay import Schedule, Timeline
from riparian.app.state.audit.proof import Proof, SentRecords
from riparian.app.state.loading import Loaded
from riparian.app.stream_file.spec import build
from riparian.app.worker.task import uncommitted_outputs as tail_of_outputs
from riparian.topics import codecs
from riparian.topics import records as r
from riparian.topics.codecs import Formats, JsonCodec
from riparian.topics.decoding.columns import ColumnDecoder, no_record
from riparian.topics.decoding.headers import inside
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Place, RawBatch
from riparian.topics.vocabulary import Vocabulary

PACK, UNPACK = msgspec.msgpack.encode, msgspec.msgpack.decode


def at(record, path):
    return reduce(lambda value, name: value.get(name) if isinstance(value, dict) else None, path, record)


class Reader:
    def __init__(self, mapping):
        self.mapping = mapping

    def decode(self, batch, bad):
        return [self._decode(i, value, bad) for i, value in enumerate(batch.values)]

    def _decode(self, i, value, bad):
        refused = no_record(value, self.mapping.max_bytes)
        if refused is not None:
            bad[i] = refused
            return {}
        try:
            return UNPACK(value)
        except msgspec.DecodeError as error:
            bad[i] = r.WRONG_TYPE, str(error)
            return {}

    def column(self, records, path):
        return [at(record, path) for record in records]

    feature = column

    def is_null(self, batch, i, path):
        above = at(UNPACK(batch.values[i]), path[:-1])
        return isinstance(above, dict) and path[-1] in above

    def missing(self, records, path):
        return [i for i, record in enumerate(records) if at(record, path) is None]

    def numbers(self, instances):
        x = np.full((len(instances), len(self.mapping.features)), np.nan)
        for j, feature in enumerate(self.mapping.features):
            if feature.type != r.NOMINAL:
                x[:, j] = [np.nan if v is None else v for v in self.column(instances, feature.path)]
        return x


class PackCodec(ColumnDecoder):
    def __init__(self, mapping, schemas=None):
        super().__init__(mapping, Reader(inside(mapping)), Reader(inside(mapping)))
        self._json = JsonCodec(mapping)

    def encode_predictions(self, columns):
        return [PACK([json.loads(value)]) for value in self._json.encode_predictions(columns)]

    def writer(self, labels_inside=False):
        plain = self._json.writer(labels_inside)
        return types.SimpleNamespace(
            features=lambda *given: [PACK(json.loads(value)) for value in plain.features(*given)],
            labels=lambda *given: [PACK(json.loads(value)) for value in plain.labels(*given)],
        )

    def read_place(self, value):
        found = self.read_prediction(value)
        return Place(found["offset"], found["label_offset"])

    def read_prediction(self, value):
        try:
            (found,) = UNPACK(value or b"")
        except (msgspec.DecodeError, TypeError) as error:
            raise ValueError(str(error)) from error
        return found


@pytest.fixture(autouse=True)
def pack(monkeypatch):
    monkeypatch.setitem(codecs.CODECS, "pack", PackCodec)


STREAM = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "b": {"type": "boolean", "from": "more.b"}, "c": {"type": "nominal", "max_values": 3}},
    "record": {"time": "ts", "y": "inside"},
    "champion": "hoeffding-tree",
    "challengers": {"nb": "naive-bayes"},
    "predictions": {"challengers": True},
}
BAGS = {
    "name": "s",
    "task": "multi-instance",
    "features": {"a": "numeric", "c": "nominal"},
    "classes": ["no", "yes"],
    "record": {"x": "bag", "max_instances": 3},
    "champion": "majority-class",
}


def rows(n, seed=0):
    """Feature and label records, some of which cannot be used."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = {"a": float(rng.random()), "c": "uvwxyz"[rng.integers(4 + i // 200)]}
        record = {"id": f"i{i}", "x": x, "more": {"b": bool(rng.integers(2))}, "ts": 1.6e9 + i, "inside": None}
        for field in ("id", "x", "more", "ts"):
            if rng.random() < 0.05:
                record[field] = None
        if rng.random() < 0.02:
            record["ts"] = "yesterday"
        said = {"y": None if i % 30 == 7 else "up" if x["a"] > 0.5 else "down"}
        yield record, {"id": f"i{i}", **(said if i % 30 != 8 else {})}


def bags(n, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(n):
        bag = [{"a": float(rng.random()), "c": "uvw"[rng.integers(3)]} for _ in range(rng.integers(5))]
        yield {"id": i, "bag": None if i % 20 == 3 else bag}, {"id": i, "y": ["no", "yes", "perhaps"][rng.integers(3)]}


def batches(made, feature_encode, label_encode):
    """The records of both topics, and a tombstone in each."""
    n = len(made)
    stamps = [1000 + 10 * i for i in range(n)]
    return tuple(
        RawBatch(list(range(n)), [stamp + late for stamp in stamps], [None] * n, values)
        for late, values in (
            (0, [feature_encode(f) if i != 5 else None for i, (f, _) in enumerate(made)]),
            (45, [label_encode(label) if i != 6 else None for i, (_, label) in enumerate(made)]),
        )
    )


def as_json(record):
    return json.dumps(record).encode()


@pytest.mark.parametrize(("stream", "make"), [(STREAM, rows), (BAGS, bags)])
def test_columns_do_not_depend_on_the_format(stream, make):
    spec, found = build(stream, "s"), []
    for codec, encode in ((JsonCodec, as_json), (PackCodec, PACK)):
        features, labels = batches(list(make(300)), encode, encode)
        known, classes = spec.vocabularies(), spec.class_vocabulary()
        made = codec(spec.mapping())
        decoded = made.decode_features(features, known, classes), made.decode_labels(labels, classes)
        found.append((*decoded, [None if v is None else v.texts for v in known], classes.texts))
    for one, other in zip(found[0][:2], found[1][:2], strict=True):
        assert one.ids
        assert {rejected.reason for rejected in one.rejected} > {r.TOMBSTONE}
        for field, value in one._asdict().items():
            if field == "rejected":
                assert [(x.position, x.reason) for x in value] == [(x.position, x.reason) for x in other.rejected]
            elif isinstance(value, np.ndarray):
                assert value.tobytes() == getattr(other, field).tobytes()
            else:
                assert str(value) == str(getattr(other, field))  # NaN is NaN
    assert found[0][2:] == found[1][2:]


def fold(spec, features, labels):
    """What a worker sends for these records: keys, offsets and values; and the learner."""
    learner, merge = PartitionLearner(spec), PartitionGroup()
    merge.buffers["features"].add(features)
    merge.buffers["labels"].add(labels)
    outcome = learner.step(merge.release(EVERYTHING))
    values = learner.codec.encode_predictions(PredictionColumns(
        outcome.ids, outcome.p["champion"], learner.classes, "hoeffding-tree", outcome.offsets.tolist(),
        outcome.next_offsets["labels"].tolist(), challengers={"nb": outcome.p["nb"]},
    ))  # fmt: skip
    return outcome, values, learner


FORMATS = [Formats("pack", "json", "pack"), Formats("json", "pack", "json"), Formats("json", "json", "pack")]


@pytest.mark.parametrize("formats", FORMATS)
def test_input_and_output_formats_are_independent(formats, monkeypatch):
    encode = {"json": as_json, "pack": PACK}
    made = list(rows(400))
    _, plain, _ = fold(build(STREAM, "s"), *batches(made, as_json, as_json))
    spec = build({**STREAM, "codec": formats._asdict()}, "s")
    features, labels = batches(made, encode[formats.features], encode[formats.labels])
    outcome, values, _ = fold(spec, features, labels)
    read = spec.make_codec().read_prediction
    assert [read(value) for value in values] == [json.loads(value) for value in plain]

    # An audit recomputes each of them, and says so where one differs.
    for left_out, kinds in (([], {}), ([1], {"missing": 1})):
        proof = Proof(PartitionLearner(spec), len(features))
        sent = [i for i in range(len(values)) if i not in left_out]
        proof.expect(SentRecords(sent, [outcome.keys[i] for i in sent], [values[i] for i in sent]))
        merge = PartitionGroup(script=proof.script())
        merge.buffers["features"].add(features)
        merge.buffers["labels"].add(labels)
        proof.step(merge.release(EVERYTHING))
        proof.settle()
        assert dict(proof.counts) == kinds

    # The next owner of the partition reads back what was sent.
    async def read_to_end(connection, starts, take, *more, **options):
        tp = TopicPartition("s.predictions", 0)
        take(tp, [types.SimpleNamespace(offset=i, value=value, headers=[]) for i, value in enumerate(values)])
        return {tp: Bounds(0, len(values)) for tp in starts}

    monkeypatch.setattr(tail_of_outputs, "read_to_end", read_to_end)
    loaded = Loaded(PartitionLearner(spec), None, None, [])
    (tail,) = asyncio.run(tail_of_outputs.read_tails(spec, Connection("broker:9092"), [loaded]))
    assert tail.script.offsets.tolist() == outcome.offsets.tolist()
    assert tail.script.next_offsets["labels"].tolist() == outcome.next_offsets["labels"].tolist()


@pytest.mark.parametrize("formats", FORMATS)
def test_a_replay_writes_what_a_worker_reads(formats):
    spec = build({**STREAM, "codec": formats._asdict()}, "s")
    x, y = np.array([[0.5, 1.0, 2.0], [np.nan, 0.0, 0.0]]), np.array([1.0, 0.0])
    timeline = Timeline(spec, Schedule(1000, 1.0, 5))
    (rows,) = rows_of_arrays(spec, x, y)
    features, labels = timeline.features(rows), timeline.labels(2000, 10)
    codec, known, classes = spec.make_codec(), spec.vocabularies(), spec.class_vocabulary()
    read = codec.decode_features(RawBatch([0, 1], features.stamps, features.keys, features.values), known, classes)
    assert (read.ids, read.rejected) == (["0", "1"], [])
    assert read.x.tolist()[0] == [0.5, 1.0, 0.0]
    assert np.isnan(read.x[1, 0])
    told = codec.decode_labels(RawBatch([0, 1], labels.stamps, labels.keys, labels.values), classes)
    assert (told.ids, told.y, classes.texts) == (["0", "1"], [0, 1], ["1", "0"])


def test_an_unknown_format_is_a_sentence_with_the_known_ones():
    known = " or ".join(f'"{name}"' for name in codecs.CODECS)
    for given, where in (("orc", "codec"), ({"labels": "orc"}, "codec.labels")):
        with pytest.raises(SpecError, match=f'{where}: expected {known}, found "orc"; write {known}'):
            build({**STREAM, "codec": given}, "s")


def test_vocabularies_are_left_alone_by_a_refused_record():
    spec, classes = build(STREAM, "s"), Vocabulary(10)
    known = spec.vocabularies()
    batch = RawBatch([0], [0], [None], [PACK({"id": None, "x": {"c": "new"}})])
    assert PackCodec(spec.mapping()).decode_features(batch, known, classes).ids == []
    assert known[2].texts == []
