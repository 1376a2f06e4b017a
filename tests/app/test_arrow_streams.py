"""Streams whose records are Arrow batches: predictions, states, dead letters and audits of the same rows as JSON."""

import json
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from riparian.app.state.audit.audit import _Audit
from riparian.app.stream_file.spec import build
from riparian.app.worker.task.dead_letters import letters
from riparian.topics.names import HEADER_DETAIL, HEADER_INDEX, HEADER_OFFSET, HEADER_REASON
from riparian.topics.places import BITS
from riparian.topics.records import RawBatch
from tests.app import test_places as places
from tests.app.test_audit import Row
from tests.topics.arrow_records import stream as written

STREAM = {**places.STREAM, "record": {"x": ""}}
MIXED = [("arrow", "arrow", "arrow"), ("arrow", "arrow", "json"), ("json", "arrow", "arrow"), ("arrow", "json", "json")]


def spec(features="json", labels="json", predictions="json"):
    return build({**STREAM, "codec": {"features": features, "labels": labels, "predictions": predictions}}, "s")


def rows(seed, n=240):
    """Rows of both topics; some have no id, or a value that cannot be used."""
    rng = np.random.default_rng(seed)
    features, labels = [], []
    for i in range(n):
        a = float(np.float32(rng.random() + (3 if i > n / 2 else 0)))
        features.append({"id": None if i % 31 == 7 else f"i{i}", "a": a, "c": "uvw"[rng.integers(3)]})
        labels.append({"id": f"i{i}", "y": None if i % 37 == 5 else "up" if a % 1 > 0.5 else "down"})
    return features, labels


def topic(made, types, rng, late, form):
    """The records of a topic in a format: `form` "arrow", or "json", a record a row at the same times."""
    found, at, offset = [], 0, 0
    while at < len(made):
        n = int(rng.integers(1, 25))
        part, stamp = made[at : at + n], 1000 + 40 * at + late
        if form == "arrow":
            columns = [pa.array([row[name] for row in part], kind) for name, kind in types.items()]
            value = written(pa.RecordBatch.from_arrays(columns, list(types)))
            found.append(Row(offset, stamp, None, value))
        else:
            found += [Row(at + i, stamp, None, json.dumps(row).encode()) for i, row in enumerate(part)]
        offset += 1 + int(rng.random() < 0.2)
        at += n
    return found


F_TYPES = {"id": pa.string(), "a": pa.float32(), "c": pa.dictionary(pa.int16(), pa.string())}
L_TYPES = {"id": pa.large_string(), "y": pa.string()}


def topics(seed, features, labels, n=240):
    rng = np.random.default_rng([3, seed])
    made = rows(seed, n)
    return topic(made[0], F_TYPES, rng, 0, features), topic(made[1], L_TYPES, rng, 700, labels)


@cache
def plain_fold():
    return places.fold(spec(), topics(0, "json", "json"), 1000)


@pytest.mark.parametrize(
    ("formats", "limit", "restart"),
    [(MIXED[0], 1, 0), (MIXED[0], 5, 2), (MIXED[0], 1000, 0), (MIXED[1], 5, 2), (MIXED[2], 3, 0), (MIXED[3], 5, 2)],
)
def test_rows_of_batches_are_predicted_as_records_of_json(formats, limit, restart):
    plain, wanted, rejected, _, told = plain_fold()
    learner, sent, dead, _, events = places.fold(spec(*formats), topics(0, *formats[:2]), limit, restart, keep=0)
    assert len(sent) == 232
    assert [places.bare(one) for one in sent] == [places.bare(one) for one in wanted]
    assert [(role, one.reason) for role, one in dead if role == "features"] == [
        (role, one.reason) for role, one in rejected if role == "features"
    ]
    assert len(dead) == len(rejected) == 8
    assert learner.pending.counts == plain.pending.counts
    assert plain.pending.counts["null_labels"] == 7
    assert [one.n for one in events] == [one.n for one in told]
    arrays, plain_arrays = learner.snapshot().arrays, plain.snapshot().arrays
    assert {name for name in arrays if arrays[name].tobytes() != plain_arrays[name].tobytes()} <= {"drift/signals"}


@pytest.mark.parametrize(("limit", "restart"), [(1000, 0), (5, 2)])
def test_distributions_are_tested_within_batches(limit, restart):
    def watched(form):
        drift = {"distributions": {"window": 100}}
        return build({**STREAM, "drift": drift, "codec": {"features": form, "labels": form}}, "s")

    plain, *_, told = places.fold(watched("json"), topics(0, "json", "json", 600), 1000, keep=0)
    made = topics(0, "arrow", "arrow", 600)
    learner, *_, events = places.fold(watched("arrow"), made, limit, restart, keep=0)
    shifts, wanted = ([(e.n, e.signal, e.shift) for e in found if e.shift] for found in (events, told))
    assert shifts == wanted
    assert (shifts[0][1], shifts[0][2].kind) == ("a", "range")
    arrays, plain_arrays = learner.snapshot().arrays, plain.snapshot().arrays
    names = [name for name in arrays if name.startswith("drift/distributions/") and not name.endswith("/times")]
    assert len(names) == 12
    for name in names:
        assert arrays[name].tobytes() == plain_arrays[name].tobytes()


@pytest.mark.parametrize(("seed", "formats"), enumerate(MIXED[:3], 1))
def test_an_audit_holds_within_batches(formats, seed):
    made = topics(seed, *formats[:2])
    _, sent, _, kept, _ = places.fold(spec(*formats), made, 7, keep=2)
    assert sum(bool(one.manifest.meta.get("label_index")) for _, one in kept) > 4
    codec = spec(*formats).make_codec()
    for begin, until in ((0, 0), (9, 20), (len(kept) - 1, 0)):
        done = [*sent]
        before = kept[begin - 1][0] if begin else 0
        if codec.join_predictions is not None:
            # A record a step or so, the first of which may begin before the checkpoint.
            done = [one for at in range(0, len(sent), 13) for one in codec.join_predictions(sent[at : at + 13], 10**6)]
            before = before // 13
        kept_here = [(before, one) for _, one in kept]
        proof, compared = places.held(spec(*formats), made, done, kept_here, begin, until, seed)
        assert proof.holds, (proof.first, begin, until)
        assert compared
        assert all(one.equal for one in compared)


def test_an_audit_finds_a_row_that_differs():
    made = topics(1, "arrow", "arrow")
    codec = spec("arrow", "arrow", "arrow").make_codec()
    _, sent, *_ = places.fold(spec("arrow", "arrow", "arrow"), made, 50, keep=0)
    wrong = json.loads(sent[90])
    changed = [*sent[:90], json.dumps({**wrong, "y": "elsewhere"}).encode(), *sent[91:]]
    records = [codec.join_predictions(changed[at : at + 40], 10**6)[0] for at in range(0, len(changed), 40)]
    proof, _ = places.held(spec("arrow", "arrow", "arrow"), made, records, [], 0, 0)
    assert dict(proof.counts) == {"different": 1}
    assert (proof.first.offset, proof.first.feature_index) == (wrong["offset"], wrong["index"])
    assert proof.first.position == 2
    # A record that is none is named, and what it held is missing.
    proof, _ = places.held(spec("arrow", "arrow", "arrow"), made, [*records[:2], b"none", *records[3:]], [], 0, 0)
    assert dict(proof.counts) == {"unreadable": 1, "missing": 40}


def test_dead_letters_are_a_row_or_a_batch():
    features, labels = topics(0, "arrow", "arrow")
    renamed = written(pa.record_batch({"id": ["a", "b"], "A": [1.0, 2.0], "c": ["u", "v"]}))
    more = [Row(features[-1].offset + 1, features[-1].timestamp, None, value) for value in (b"hostile",)]
    more.append(Row(features[-1].offset + 2, features[-1].timestamp, None, renamed))
    _, sent, dead, _, _ = places.fold(spec("arrow", "arrow"), (features + more, labels), 100)
    assert len(sent) == 232
    of_features = [one for role, one in dead if role == "features"]
    made = letters(0, {"s.features": of_features}, {}, 10**6, {"s.features": BITS})
    about = list(map(dict, made.headers))
    values = {row.offset: row.value for row in features}
    for value, headers in zip(made.values[:-2], about[:-2], strict=True):
        assert headers[HEADER_REASON] == b"missing-id"
        whole = pa.ipc.open_stream(values[int(headers[HEADER_OFFSET])]).read_all()
        assert (
            pa.ipc.open_stream(value).read_all().to_pylist() == whole.slice(int(headers[HEADER_INDEX]), 1).to_pylist()
        )
    assert [one[HEADER_REASON] for one in about[-2:]] == [b"malformed", b"unusable-schema"]
    assert made.values[-2:] == [b"hostile", renamed]
    assert b'features.a: expected the column "a", found none' in about[-1][HEADER_DETAIL]
    # A retry sends the row, which is a record of one.
    codec = spec("arrow", "arrow").make_codec()
    again = codec.unpack("features", RawBatch([0], [0], [None], [made.values[0]]))
    assert again.offsets == [0]


def test_the_audit_reads_no_more_of_a_record_than_a_checkpoint_has(monkeypatch):
    """A checkpoint in the middle of the last record: what is left of it is not folded."""
    made = topics(1, "arrow", "arrow")
    _, sent, _, kept, _ = places.fold(spec("arrow", "arrow"), made, 4, keep=4)
    last = next(i for i in range(len(kept) - 1, 0, -1) if kept[i][1].manifest.meta["feature_index"])
    taken = []
    fold = _Audit._fold

    async def spied(self, stops):
        await fold(self, stops)
        taken.append(all(self.proof.learner.places[role] <= stop for role, stop in stops.items()))

    monkeypatch.setattr(_Audit, "_fold", spied)
    proof, compared = places.held(spec("arrow", "arrow"), made, sent, kept, 0, last + 1)
    assert proof.holds
    assert compared[-1].equal
    assert all(taken)
