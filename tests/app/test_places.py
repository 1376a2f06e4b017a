"""Several instances in a record: their places in predictions, states, dead letters, tails and audits.

The format here has a JSON text a line. What is found must be what the same instances give as a record each, whatever
the batches.
"""

import asyncio
import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, Ends, PartitionGroup, RecordedOrder, RecordQueue
from riparian.app.state import checkpoint
from riparian.app.state.audit.audit import _Audit
from riparian.app.state.audit.drift_proof import DriftProof, SentRecords
from riparian.app.state.audit.proof import Proof
from riparian.app.stream_file.spec import build
from riparian.app.worker.task.dead_letters import letters
from riparian.topics import codecs, reports
from riparian.topics.formats.json.codec import JsonCodec
from riparian.topics.formats.json.predictions import place_reader
from riparian.topics.names import HEADER_INDEX, HEADER_OFFSET, INPUTS
from riparian.topics.places import BITS, IndexBits, begun, index_of, next_places, offset_of, place_of
from riparian.topics.records import Packed, Place, RawBatch
from tests.app.test_audit import Row, version

STREAM = {
    "name": "s",
    "task": "classification",
    "topics": {"labels": "s.l"},
    "features": {"a": "numeric", "c": "nominal"},
    "champion": "hoeffding-tree",
    "challengers": {"nb": "naive-bayes"},
    "drift": {"detectors": ["adwin", "page-hinkley", "kswin"], "on_drift": "reset", "features": "all"},
}
N = 240


@dataclass
class Lines(Packed):
    value: bytes
    first: int

    def __post_init__(self):
        self.lines = self.value.split(b"\n")

    def one(self, place):
        return self.lines[place - self.first]


class LinesCodec(JsonCodec):
    index_bits = IndexBits(BITS, BITS)

    def unpack(self, role, batch):
        rows = []
        for offset, stamp, key, value in zip(*batch[:4], strict=True):
            packed = Lines(value, place_of(offset, 0, BITS))
            rows += [(packed.first + i, stamp, key, packed) for i in range(len(packed.lines))]
        return RawBatch(*map(list, zip(*rows, strict=True)))

    def lines(self, batch):
        values = [packed.one(place) for place, packed in zip(batch.offsets, batch.values, strict=True)]
        return RawBatch(*batch[:3], values)

    def decode_features(self, batch, vocabularies, classes=None):
        return super().decode_features(self.lines(batch), vocabularies, classes)

    def decode_labels(self, batch, classes=None):
        return super().decode_labels(self.lines(batch), classes)


@pytest.fixture(autouse=True)
def lines(monkeypatch):
    monkeypatch.setitem(codecs.CODECS, "lines", lambda mapping, schemas: LinesCodec(mapping))


def stream(**codec):
    return build({**STREAM, "codec": codec or "json"}, "s")


def both():
    return stream(features="lines", labels="lines", predictions="json")


def instances(seed, n=N):
    """Texts of features and labels, with the time of each record; some cannot be read."""
    rng = np.random.default_rng(seed)
    features, labels = [], []
    for i in range(n):
        a = float(rng.random()) + (3 if i > n / 2 else 0)
        x = {"a": a, "c": "uvw"[rng.integers(3)]}
        features.append(b"?" if i % 31 == 7 else json.dumps({"id": i, "x": x}).encode())
        labels.append(b"{" if i % 37 == 5 else json.dumps({"id": i, "y": "up" if a % 1 > 0.5 else "down"}).encode())
    return features, labels


def grouped(texts, rng, late):
    """Records of several instances, with gaps between their offsets, as rows; and the same as a record each."""
    rows, alone, at, offset = [], [], 0, 0
    while at < len(texts):
        n = int(rng.integers(1, 20))
        stamp = 1000 + 40 * at + late
        part = texts[at : at + n]
        rows.append(Row(offset, stamp, None, b"\n".join(part)))
        alone += [Row(at + i, stamp, None, text) for i, text in enumerate(part)]
        offset += 1 + int(rng.random() < 0.2)
        at += n
    return rows, alone


def raw(rows):
    return RawBatch(*map(list, zip(*rows, strict=True)))


def topics_of(seed):
    rng = np.random.default_rng([3, seed])
    features, labels = instances(seed)
    return grouped(features, rng, 0), grouped(labels, rng, 700)


def merged(learner, topics, limit, script=None):
    buffers = learner.buffers()
    for role, rows in zip(INPUTS, topics, strict=True):
        buffers[role].add(raw(rows))
    return PartitionGroup(buffers, script, limit)


def fold(spec, topics, limit, restart=0, keep=1):
    """What a worker sends and stores: predictions, dead letters, states as (predictions before, snapshot), events.

    keep : a state after every so many steps; 0, none but for a restart.
    """
    learner, sent, dead, kept, events = PartitionLearner(spec), [], [], [], []
    merge, step = merged(learner, topics, limit), 0
    while (release := merge.release(EVERYTHING)).n:
        outcome = learner.step(release)
        sent += learner.encode(outcome)
        dead += [(role, one) for role in INPUTS for one in outcome.rejected[role]]
        events += outcome.drifts
        step += 1
        restarts = restart and step % restart == 0
        if restarts or (keep and step % keep == 0):
            kept.append((len(sent), version(learner.snapshot(), step, 0)))
        if restarts:
            manifest, chunks = kept[-1][1]
            learner = PartitionLearner(spec)
            learner.restore(checkpoint.decode(manifest, chunks))
            merge = merged(learner, topics, limit)  # all records again: those that were taken are skipped
    return learner, sent, dead, kept, events


def bare(prediction):
    found = json.loads(prediction)
    for field in ("offset", "index", "label_offset", "label_index"):
        found.pop(field, None)
    return found


def test_places_are_offsets_where_a_record_is_an_instance():
    places = np.array([3, 4, 9])
    assert (next_places(places, 0), begun(4, 0), offset_of(4, 0), index_of(4, 0)) == (
        pytest.approx([4, 5, 10]), 4, 4, 0,
    )  # fmt: skip
    packed = np.array([place_of(3, 0, BITS), place_of(3, 1, BITS), place_of(5, 0, BITS)])
    assert next_places(packed, BITS).tolist() == [place_of(3, 1, BITS), place_of(4, 0, BITS), place_of(6, 0, BITS)]
    assert (begun(place_of(3, 0, BITS), BITS), begun(place_of(3, 1, BITS), BITS)) == (3, 4)


@pytest.mark.parametrize(("limit", "restart"), [(1, 0), (1000, 0), (3, 1)])
def test_instances_in_one_record_are_folded_as_in_one_each(limit, restart):
    (packed, alone), (packed_labels, alone_labels) = topics_of(0)
    plain, wanted, rejected, _, told = fold(stream(), (alone, alone_labels), 1000)
    learner, sent, dead, _, events = fold(both(), (packed, packed_labels), limit, restart, keep=0)
    assert [bare(one) for one in sent] == [bare(one) for one in wanted]
    assert (len(sent), len(dead)) == (232, 15)
    assert sorted((role, one.value, one.reason) for role, one in dead) == sorted(
        (role, one.value, one.reason) for role, one in rejected
    )
    assert [(one.n, one.signal, one.detector, one.time) for one in events] == [
        (one.n, one.signal, one.detector, one.time) for one in told
    ]
    assert events
    # Of the states, only the places differ.
    (meta, arrays, *_), (plain_meta, plain_arrays, *_) = learner.snapshot(), plain.snapshot()
    assert {name for name in arrays if arrays[name].tobytes() != plain_arrays[name].tobytes()} <= {"drift/signals"}
    assert meta["feature_offset"] == packed[-1].offset + 1
    assert meta["feature_index"] == meta["label_index"] == 0
    assert "feature_index" not in plain_meta
    # Each prediction names its instance.
    texts = {row.offset: row.value.split(b"\n") for row in packed}
    for one in map(json.loads, sent):
        assert json.loads(texts[one["offset"]][one["index"]])["id"] == int(one["id"])
    assert {b"index", b"label_index"}.isdisjoint(wanted[0].split(b'"'))


def test_only_one_kind_of_record_may_hold_several():
    (packed, alone), (packed_labels, alone_labels) = topics_of(1)
    _, wanted, *_ = fold(stream(), (alone, alone_labels), 1000)
    for formats, topics in (
        ({"features": "lines"}, (packed, alone_labels)),
        ({"labels": "lines"}, (alone, packed_labels)),
    ):
        _, sent, *_ = fold(stream(**formats), topics, 5)
        assert [bare(one) for one in sent] == [bare(one) for one in wanted]


class Reader:
    """A topic in memory, read in pieces of any size."""

    def __init__(self, rows, seed):
        self.rows, self.rng = rows, np.random.default_rng(seed)
        self.end = rows[-1].offset + 1 if rows else 0
        self.position = 0

    async def read(self, stop):
        found = [row for row in self.rows if self.position <= row.offset < stop][: int(self.rng.integers(1, 40))]
        self.position = found[-1].offset + 1 if found else max(self.position, min(stop, self.end))
        return found


def held(spec, topics, sent, kept, begin, until, seed=0):
    """Audit from a checkpoint (0: the beginning) to another (0: the last prediction)."""
    learner, readers = PartitionLearner(spec), [Reader(rows, seed) for rows in topics]
    told = Reader([Row(i, 0, None, value) for i, value in enumerate(sent)], seed)
    if begin:
        manifest, chunks = kept[begin - 1][1]
        learner.restore(checkpoint.decode(manifest, chunks))
        told.position = max(0, kept[begin - 1][0] - 2)
    for role, reader in zip(INPUTS, readers, strict=True):
        reader.position = learner.offsets[role]
    proof = Proof(learner, readers[0].end)
    left = [one for _, one in kept[begin : until or None]]
    stop = learner.logs.place_in(left[-1].manifest.meta, "features") if until else None
    audit = _Audit(proof, told, dict(zip(INPUTS, readers, strict=True)))
    return proof, asyncio.run(audit.run(left, stop, lambda n, total: None))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 100), st.integers(1, 30), st.data())
def test_an_audit_holds_from_and_to_checkpoints_within_records(seed, limit, data):
    codecs.CODECS["lines"] = lambda mapping, schemas: LinesCodec(mapping)
    (packed, _), (packed_labels, _) = topics_of(seed)
    topics = packed, packed_labels
    _, sent, _, kept, _ = fold(both(), topics, limit, keep=1 + 12 // limit)
    assert limit > 5 or any(one.manifest.meta["feature_index"] for _, one in kept)
    begin = data.draw(st.integers(0, len(kept)))
    until = data.draw(st.sampled_from([0, *range(begin + 1, len(kept) + 1)]))
    proof, compared = held(both(), topics, sent, kept, begin, until, seed)
    assert proof.holds, proof.first
    assert len(compared) == len(kept[begin : until or None])
    assert all(one.equal for one in compared)


def test_an_audit_finds_what_differs_and_names_the_instance():
    (packed, _), (packed_labels, _) = topics_of(2)
    _, sent, *_ = fold(both(), (packed, packed_labels), 9)
    wrong = json.loads(sent[100])
    wrong["y"] = "elsewhere"
    changed = [*sent[:50], *sent[51:100], json.dumps(wrong).encode(), *sent[101:], sent[60]]
    proof, _ = held(both(), (packed, packed_labels), changed, [], 0, 0)
    assert dict(proof.counts) == {"missing": 1, "different": 1, "repeated": 1}
    lost = json.loads(sent[50])
    assert (proof.first.offset, proof.first.feature_index) == (lost["offset"], lost["index"])
    assert proof.first.plain()["feature_index"] == lost["index"]


def test_a_tail_is_followed_within_a_record():
    """A new owner reads the order back, and goes on where the last prediction was, in the middle of a record."""
    (packed, _), (packed_labels, _) = topics_of(4)
    spec = both()
    learner = PartitionLearner(spec)
    merge, sent = merged(learner, (packed, packed_labels), 4), []
    ends, rng = place_of(0, 0, BITS), np.random.default_rng(5)
    while (
        release := merge.release(Ends({"features": 2**61, "labels": ends}))
    ).n:  # in an order that time would not give
        sent += learner.encode(learner.step(release))
        ends += int(rng.integers(0, 3)) << BITS
    while (release := merge.release(EVERYTHING)).n:
        sent += learner.encode(learner.step(release))
    codec = spec.make_codec()
    places = [codec.read_place(value).places(codec.index_bits) for value in sent]
    for n in (1, 57, 150, len(sent)):
        again = PartitionLearner(spec)
        merge, made = merged(again, (packed, packed_labels), 1000, RecordedOrder.of(INPUTS, places[:n])), []
        while merge.script is not None and (release := merge.release()).n:
            made += again.encode(again.step(release))
        assert made == sent[:n]
        assert again.places["features"] == learner.buffers()["features"].next_offset or index_of(
            again.places["features"], BITS
        ) in (0, places[n - 1][0] % (1 << BITS) + 1)


def test_dead_letters_name_the_instance_and_hold_it_alone():
    (packed, _), (packed_labels, _) = topics_of(0)
    _, _, dead, _, _ = fold(both(), (packed, packed_labels), 50)
    of_features = [one for role, one in dead if role == "features"]
    texts = {row.offset: row.value.split(b"\n") for row in packed}
    made = letters(0, {"s.features": of_features}, {}, 10**6, {"s.features": BITS})
    for value, headers in zip(made.values, map(dict, made.headers), strict=True):
        assert texts[int(headers[HEADER_OFFSET])][int(headers[HEADER_INDEX])] == value == b"?"
    # Those that an owner before has sent are not sent again.
    third = of_features[2].offset
    left = letters(0, {"s.features": of_features}, {"s.features": third + 1}, 10**6, {"s.features": BITS})
    assert len(left.values) == len(of_features) - 3
    assert HEADER_INDEX not in dict(letters(0, {"t": of_features[:1]}, {}, 10**6).headers[0])


def test_a_buffer_goes_on_in_a_record_and_says_where_kafka_is_to_be_read():
    codec = LinesCodec(both().mapping())
    buffer = RecordQueue(place_of(4, 2, BITS), bits=BITS, unpack=lambda batch: codec.unpack("features", batch))
    assert buffer.fetch_offset == 4
    batch = RawBatch([4, 7], [10, 11], [None] * 2, [b"a\nb\nc\nd", b"e\nf\ng"])
    assert buffer.add(batch, place_of(7, 1, BITS)) == 2
    assert (len(buffer), buffer.fetch_offset, buffer.done_offset) == (3, 7, 4)
    assert buffer.take(2).after().tolist() == [place_of(4, 3, BITS), place_of(5, 0, BITS)]
    assert buffer.done_offset == 7
    buffer.add(batch.part(1))
    assert (len(buffer), buffer.fetch_offset) == (3, 8)
    assert [packed.one(place) for place, packed in zip(*buffer.take(3).raw[0:4:3], strict=True)] == [b"e", b"f", b"g"]
    assert buffer.done_offset == 8


def test_a_state_within_a_record_needs_the_format_that_reads_it():
    (packed, _), (packed_labels, _) = topics_of(0)
    _, _, _, kept, _ = fold(both(), (packed, packed_labels), 3)
    within = next(one for _, one in kept if one.manifest.meta["feature_index"])
    whole = next(
        one for _, one in kept if not one.manifest.meta["feature_index"] and not one.manifest.meta["label_index"]
    )
    with pytest.raises(Exception, match="stands within the record at offset"):
        PartitionLearner(stream()).restore(checkpoint.decode(*within))
    learner = PartitionLearner(stream())
    learner.restore(checkpoint.decode(*whole))
    assert learner.places == learner.offsets
    back = PartitionLearner(both())
    back.restore(learner.snapshot())
    assert back.offsets == learner.offsets
    assert back.places["features"] == place_of(learner.offsets["features"], 0, BITS)


def test_events_of_drift_are_compared_by_places():
    (packed, _), (packed_labels, _) = topics_of(0)
    *_, events = fold(both(), (packed, packed_labels), 1000)
    written = [reports.write(event) for event in events]
    assert any(b'"index"' in value for value in written)
    proof = DriftProof(SentRecords(list(range(len(written))), [None] * len(written), written), 0, bits=BITS)
    learner = PartitionLearner(both())
    merge = merged(learner, (packed, packed_labels), 11)
    while (release := merge.release(EVERYTHING)).n:
        proof.step(learner.step(release))
    proof.settle()
    assert proof.holds
    assert proof.n_compared == len(events)


def test_what_a_record_says_of_its_place_is_read_back():
    assert Place(3, 4).places(IndexBits()) == (3, 4)
    assert Place(3, 4, 5, 6).places(IndexBits(BITS, BITS)) == (place_of(3, 5, BITS), place_of(4, 6, BITS))


@pytest.mark.parametrize(
    "of", [{"offset": 2**63}, {"offset": 10**400}, {"offset": -1}, {"label_offset": 2**63}, {"offset": 2**43}]
)
def test_a_place_that_kafka_cannot_have_is_none(of):
    """It would leave an int64 in whoever reads the predictions back: a worker that recovers, an audit, the page."""
    read = place_reader()(json.dumps({"offset": 1, "label_offset": 1, **of}).encode())
    with pytest.raises(ValueError, match="it is of offset"):
        read.places(IndexBits(20, 20))
    for value in (b'{"q":' + b"[" * 100_000, b"\xff", None):
        with pytest.raises(ValueError, match=""):
            place_reader()(value)
