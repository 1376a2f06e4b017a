"""An audit holds for what a worker did, however it went, and names what is not so."""

import asyncio
import json
from collections.abc import Callable
from functools import cache
from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.errors import StateError
from riparian.app.partition.changes import next_origin
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, Ends, PartitionGroup
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint
from riparian.app.state.audit.audit import CheckpointComparison, _Audit, _begin
from riparian.app.state.audit.proof import Proof, longest_ascent
from riparian.app.state.checkpoint import Stored
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.names import INPUTS
from riparian.topics.records import RawBatch
from tests.app.test_learner import STREAM, records

N = 150
JOIN = {"horizon": "150ms", "max_pending": 60, "max_labels": 40}
SPEC = build({**STREAM, "join": JOIN, "predictions": {"challengers": True}}, "test")
REGRESSION = build(
    {
        "name": "r",
        "task": "regression",
        "features": {"a": "numeric", "c": "nominal"},
        "champion": "last-label",
        "challengers": {"other": "last-label"},
        "record": {"y": None},
        "predictions": {"coverage": 0.6},
    },
    "test",
)
SAYING_MORE = build(
    {
        **STREAM,
        "join": JOIN,
        "predictions": {"coverage": 0.6, "calibrated": True},
        "decision": {"class": "p", "alert_rate": 0.3},
        "class_weights": {"p": 2},
    },
    "test",
)


class Row(NamedTuple):
    """A record, as far as an audit looks at it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[()] = ()


class Reader:
    """A topic in memory: read in pieces of any size, with control records (offsets without a record) after some."""

    def __init__(self, rows: list[Row], seed: int, first: int = 0) -> None:
        self.rows, self.rng, self.first = rows, np.random.default_rng(seed), first
        self.end = rows[-1].offset + 2 if rows else 0
        self.position = 0

    async def read(self, stop: int) -> list[Row]:
        found = [row for row in self.rows if self.position <= row.offset < min(stop, self.end)]
        found = found[: int(self.rng.integers(1, 40))]
        self.position = found[-1].offset + 1 if found else max(self.position, min(stop, self.end))
        return found


class Run(NamedTuple):
    """What a worker read, sent and stored."""

    spec: Spec
    features: list[Row]
    labels: list[Row]
    sent: list[Row]
    checkpoints: list[Stored]


def regression_records(seed: int, n: int) -> tuple[RawBatch, RawBatch]:
    rng = np.random.default_rng(seed)
    values = [json.dumps({"id": i, "x": {"a": rng.random(), "c": "uv"[rng.integers(2)]}}).encode() for i in range(n)]
    labels = [b"?" if i % 20 == 7 else json.dumps({"id": i, "y": rng.random()}).encode() for i in range(n)]
    stamps = sorted(rng.integers(0, 500, n).tolist())
    return (
        RawBatch(list(range(n)), stamps, [b"%d" % i for i in range(n)], values),
        RawBatch(list(range(n)), [stamp + 30 for stamp in stamps], [None] * n, labels),
    )


def spread(raw: RawBatch, rng: np.random.Generator) -> list[Row]:
    """Records with gaps between their offsets."""
    offsets = np.cumsum(1 + (rng.random(len(raw.offsets)) < 0.1)) - 1
    return [Row(*row) for row in zip(offsets.tolist(), raw.timestamps, raw.keys, raw.values, strict=True)]


def version(cut: Snapshot, sequence: int, outputs: int) -> Stored:
    encoder = checkpoint.Encoder("s", 0)
    encoder.take(cut)
    encoded = encoder.encode(sequence=sequence, created_ms=0, outputs={"predictions": outputs})
    return Stored(encoded.manifest, encoded.new)


def run(seed: int = 1, spec: Spec = SPEC, n: int = N) -> Run:
    """A worker's run: fetched and released in pieces that race, so that time does not give the order."""
    rng = np.random.default_rng([7, seed])
    raw = records(seed, n) if spec.task != "regression" else regression_records(seed, n)
    features, labels = (spread(batch, rng) for batch in raw)
    learner = PartitionLearner(spec)
    merge = PartitionGroup()
    values: list[Row] = []
    kept: list[Stored] = []
    at = [0, 0]
    while at != [n, n] or merge.n_waiting:
        for i, (buffer, rows) in enumerate(((merge.buffers["features"], features), (merge.buffers["labels"], labels))):
            piece = rows[at[i] : at[i] + int(rng.integers(0, 12))]
            at[i] += len(piece)
            if piece:
                buffer.add(RawBatch(*map(list, zip(*piece, strict=True))))
        ends = EVERYTHING if at == [n, n] else Ends(dict(zip(INPUTS, rng.integers(0, 2 * n, 2).tolist(), strict=True)))
        outcome = learner.step(merge.release(ends))
        encoded = learner.encode(outcome)
        values += [Row(0, 0, key, value) for key, value in zip(outcome.keys, encoded, strict=True)]
        if rng.random() < 0.15:
            kept.append(version(learner.snapshot(), len(kept) + 1, max(0, 2 * len(values) - 3)))
    # Every second offset of the predictions topic is a control record's.
    sent = [row._replace(offset=2 * i) for i, row in enumerate(values)]
    return Run(spec, features, labels, sent, kept)


def held(done: Run, begin: int = 0, until: int = 0, seed: int = 0) -> tuple[Proof, list[CheckpointComparison]]:
    """Audit a run from a checkpoint (0: the beginning) to another (0: the last prediction)."""
    learner = PartitionLearner(done.spec)
    left = done.checkpoints[begin : until or None]
    sent, features, labels = (Reader(rows, seed) for rows in (done.sent, done.features, done.labels))
    if begin:
        manifest, chunks = done.checkpoints[begin - 1]
        learner.restore(checkpoint.decode(manifest, chunks))
        sent.position = manifest.outputs["predictions"]
    features.position, labels.position = learner.offsets.values()
    proof = Proof(learner, features.end)
    stop = left[-1].manifest.meta["feature_offset"] if until else None
    compared = asyncio.run(
        _Audit(proof, sent, {"features": features, "labels": labels}).run(left, stop, lambda n, total: None)  # type: ignore[arg-type]
    )
    return proof, compared


@cache
def worked() -> Run:
    """Made by the first test that asks, not by each process that collects this file."""
    return run()


def test_the_run_is_worth_an_audit() -> None:
    fields = [json.loads(row.value or b"") for row in worked().sent]
    assert len(worked().sent) == N_SENT < N  # some features are rejected
    assert len(worked().checkpoints) > 5
    # The order is not that of the timestamps, and predictions are not all alike.
    merge = PartitionGroup()
    for buffer, rows in ((merge.buffers["features"], worked().features), (merge.buffers["labels"], worked().labels)):
        buffer.add(RawBatch(*map(list, zip(*rows, strict=True))))
    by_time = PartitionLearner(SPEC).step(merge.release(EVERYTHING))
    assert by_time.next_offsets["labels"].tolist() != [one["label_offset"] for one in fields]
    assert len({json.dumps(one["p"]) for one in fields}) > 10
    assert set(fields[-1]["challengers"]) == {"nb", "last", "most"}


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([SPEC, REGRESSION, SAYING_MORE]), st.data())
def test_what_a_worker_did_holds_from_and_to_every_checkpoint(seed: int, spec: Spec, data: st.DataObject) -> None:
    done = run(seed, spec, 100)
    begin = data.draw(st.integers(0, len(done.checkpoints)))
    until = data.draw(st.sampled_from([0, *range(begin + 1, len(done.checkpoints) + 1)]))
    proof, compared = held(done, begin, until, seed)
    assert proof.holds, proof.first
    assert [one.sequence for one in compared] == list(range(begin + 1, (until or len(done.checkpoints)) + 1))
    assert all(one.equal for one in compared)
    if not until:
        start = done.checkpoints[begin - 1].manifest.meta["feature_offset"] if begin else 0
        assert proof.n_compared == sum(json.loads(row.value or b"")["offset"] >= start for row in done.sent)


def altered(change: Callable[[list[Row]], None], **fields: list[Row]) -> Run:
    sent = list(worked().sent)
    change(sent)
    return worked()._replace(sent=[row._replace(offset=2 * i) for i, row in enumerate(sent)], **fields)


def field(i: int, name: str = "offset") -> int:
    found: int = json.loads(worked().sent[i].value or b"")[name]
    return found


def put(sent: list[Row], i: int, **fields: object) -> None:
    """Alter fields of a prediction as it was sent."""
    sent[i] = sent[i]._replace(value=json.dumps({**json.loads(sent[i].value or b""), **fields}).encode())


AT = 60
EXTRA = 1000  # an offset that no record has
N_SENT = 120  # by the run


@pytest.mark.parametrize(
    ("change", "counts", "at"),
    [
        (lambda sent: put(sent, AT, y="other"), {"different": 1}, AT),
        (lambda sent: put(sent, AT, p={"p": 1.0}), {"different": 1}, AT),
        (lambda sent: put(sent, AT, id="x"), {"different": 1}, AT),
        (lambda sent: put(sent, AT, model="naive-bayes"), {"different": 1}, AT),
        (lambda sent: put(sent, AT, more=1), {"different": 1}, AT),
        (lambda sent: put(sent, AT, challengers={}), {"different": 1}, AT),
        (lambda sent: sent.__setitem__(AT, sent[AT]._replace(key=b"other")), {"different": 1}, AT),
        (lambda sent: put(sent, AT, label_offset=0), {"different": 1}, AT),
        (lambda sent: put(sent, AT, label_offset=EXTRA), {"different": 1}, AT),
        (lambda sent: put(sent, -1, label_offset=EXTRA), {"different": 1}, -1),
        (lambda sent: sent.pop(AT), {"missing": 1}, AT),
        (lambda sent: sent.pop(-1), {}, None),  # nothing says that it was to be sent
        (lambda sent: sent.insert(AT + 1, sent[AT]), {"repeated": 1}, AT),
        (lambda sent: sent.append(sent[AT]), {"repeated": 1}, AT),
        (lambda sent: sent.extend(sent[AT:]), {"repeated": N_SENT - AT}, AT),
        (lambda sent: sent.insert(AT, sent.pop(AT + 1)), {"out-of-order": 1}, AT + 1),
        (lambda sent: sent.append(sent.pop(AT)), {"out-of-order": 1}, AT),
        (lambda sent: sent.insert(AT, sent.pop(-3)), {"out-of-order": 1}, -3),
        (lambda sent: put(sent, AT, offset=EXTRA), {"missing": 1, "unfounded": 1}, AT),
        (lambda sent: put(sent, -1, offset=EXTRA), {"unfounded": 1}, EXTRA),
        (lambda sent: sent.insert(AT, Row(0, 0, b"k", b"{")), {"unreadable": 1}, None),
        (lambda sent: sent.insert(AT, Row(0, 0, b"k", None)), {"unreadable": 1}, None),
        (lambda sent: sent.clear(), {"missing": N_SENT}, 0),
    ],
)
def test_what_is_wrong_with_predictions_is_named(
    change: Callable[[list[Row]], None], counts: dict[str, int], at: int | None
) -> None:
    done = altered(change)
    if not done.sent:  # the audit ends with the last checkpoint then
        counts = {
            "missing": sum(field(i) < done.checkpoints[-1].manifest.meta["feature_offset"] for i in range(N_SENT))
        }
    proof, compared = held(done, seed=1)
    assert +proof.counts == counts
    assert (proof.first is None) == (not counts)
    if proof.first is not None:
        assert proof.first.offset == (EXTRA if at == EXTRA else None if at is None else field(at))
    assert {kind: len(found) for kind, found in proof.listed.items() if found} == counts
    if set(counts) <= {"repeated", "unreadable", "different", "out-of-order"}:
        assert all(one.equal for one in compared)  # the state is what the records made it


def test_a_prediction_for_a_record_that_was_rejected_or_is_not_there_is_unfounded() -> None:
    offsets = {field(i) for i in range(N_SENT)}
    there = {row.offset for row in worked().features}
    rejected = min(there - offsets - set(range(20)))
    gap = min(set(range(20, field(-1))) - there)
    for offset in (rejected, gap):
        place = sum(one < offset for one in offsets)

        def change(sent: list[Row], offset: int = offset, place: int = place) -> None:
            sent.insert(place, sent[place])
            put(sent, place, offset=offset)

        for seed in range(3):  # it may be the last of a piece
            proof, compared = held(altered(change), seed=seed)
            assert +proof.counts == {"unfounded": 1}
            assert proof.first is not None
            assert (proof.first.offset, proof.first.position) == (offset, 2 * place)
            assert all(one.equal for one in compared)


def test_what_was_sent_and_what_the_fold_gives_are_told() -> None:
    proof, _ = held(altered(lambda sent: put(sent, AT, y="other")))
    assert proof.first is not None
    plain = proof.first.plain()
    original = json.loads(worked().sent[AT].value or b"")
    assert plain["sent"] == {**original, "y": "other"}
    assert {**plain["made"], "p": None} == {**original, "p": None}
    assert (plain["kind"], plain["position"]) == ("different", 2 * AT)
    assert (plain["offset"], plain["label_offset"]) == (original["offset"], original["label_offset"])
    json.dumps(plain)


def test_an_altered_label_is_found_behind_it_and_in_the_state() -> None:
    n_found = 0
    for i, row in enumerate(worked().labels[20:60], 20):
        value = json.loads(row.value) if row.value and row.value.startswith(b'{"id"') else {}
        if value.get("y") != "p":
            continue
        labels = list(worked().labels)
        labels[i] = row._replace(value=json.dumps({**value, "y": "q"}).encode())
        proof, compared = held(worked()._replace(labels=labels))
        assert all(one.equal for one in compared if one.label_offset <= row.offset)
        unequal = [one for one in compared if not one.equal]
        if proof.first is None or not unequal:
            continue  # its instance had left, or had been learned
        n_found += 1
        assert proof.first.kind == "different"
        assert proof.first.label_offset is not None
        assert proof.first.label_offset > row.offset
        assert any(name.startswith("models/") for one in unequal for name in one.parts)
    assert n_found >= 2


def test_an_altered_state_is_found_and_its_part_is_named() -> None:
    cut = checkpoint.decode(*worked().checkpoints[4])
    cut.arrays["metrics/nb/sums"][0] += 1.0
    kept = list(worked().checkpoints)
    kept[4] = version(cut, 5, 0)
    proof, compared = held(worked()._replace(checkpoints=kept))
    assert proof.holds
    assert [one.sequence for one in compared if not one.equal] == [5]
    assert compared[4].parts == ["metrics/nb/sums"]


def test_classes_of_probability_0_may_be_listed_or_not() -> None:
    def without_zeros(sent: list[Row], extra: dict[str, float]) -> None:
        for i, row in enumerate(sent):
            found = json.loads(row.value or b"")
            if found["p"] is not None:
                found["p"] = {name: value for name, value in found["p"].items() if value} | extra
            sent[i] = row._replace(value=json.dumps(found).encode())

    assert held(altered(lambda sent: without_zeros(sent, {})))[0].holds
    assert held(altered(lambda sent: without_zeros(sent, {"new": 0.0})))[0].holds
    assert not held(altered(lambda sent: without_zeros(sent, {"new": 1e-300})))[0].holds


@given(st.lists(st.integers(0, 6), max_size=9), st.booleans())
def test_the_longest_ascent(values: list[int], strict: bool) -> None:
    def ascends(chosen: tuple[int, ...]) -> bool:
        pairs = pairwise(chosen)
        return all(values[a] < values[b] if strict else values[a] <= values[b] for a, b in pairs)

    found = tuple(longest_ascent(np.array(values, np.int64), strict=strict).tolist())
    assert ascends(found)
    best = max(n for n in range(len(values) + 1) if any(map(ascends, combinations(range(len(values)), n))))
    assert len(found) == best


def test_of_a_piece_that_was_sent_twice_the_first_stays() -> None:
    assert longest_ascent(np.array([3, 4, 5, 3, 4, 5, 6]), strict=True).tolist() == [0, 1, 2, 6]


def test_topics_that_do_not_reach_back_are_refused_with_the_checkpoint_that_can() -> None:
    kept = []
    for k in (3, 4, 5):
        learner = PartitionLearner(SPEC)
        learner.places["features"], learner.places["labels"] = 100 * k, 90 * k
        kept.append(version(learner.snapshot(), k, 100 * k))

    def begin(start: int | None, first: int, label_first: int, sent_first: int = 0) -> int | None:
        sent, features, labels = (SimpleNamespace(first=n) for n in (sent_first, first, label_first))
        inputs = {"features": features, "labels": labels}
        found = _begin(SPEC, 0, kept, start, kept[-1], sent, inputs)  # type: ignore[arg-type]
        return None if found is None else found.manifest.sequence

    assert begin(None, 0, 0) is None
    assert begin(3, 300, 270, 300) == 3
    with pytest.raises(StateError, match=r"do not reach back to the beginning \(s.features begins at 350, .*from 4"):
        begin(None, 350, 0)
    with pytest.raises(StateError, match=r"s.labels begins at 271, .*begin at checkpoint 4"):
        begin(3, 0, 271)
    with pytest.raises(StateError, match=r"reach back to checkpoint 3 .*begin at checkpoint 5, with --from 5"):
        begin(3, 0, 0, 401)
    with pytest.raises(StateError, match=r"begins at 501.*there is no checkpoint to begin at"):
        begin(None, 501, 0)
    with pytest.raises(StateError, match=r"no checkpoint 6 .*holds 3, 4, 5"):
        begin(6, 0, 0)


def test_a_fold_of_another_stream_file_is_refused_with_the_checkpoint_after_which_it_is_this_ones() -> None:
    content = {**STREAM, "join": JOIN}
    before, now = build(content, "test"), build({**content, "challengers": {"nb": "naive-bayes"}}, "test")
    kept = []
    learner = PartitionLearner(before)
    for k in range(1, 8):
        learner.places["features"] = learner.places["labels"] = 100 * k
        kept.append(version(learner.snapshot(), k, 100 * k))
        if k in (3, 5):  # a worker is started, the first time with a changed stream file
            learner = PartitionLearner(now)
            learner.restore(checkpoint.decode(*kept[-1]))
        if k == 5:  # models are rolled back
            learner.origin = next_origin(learner.snapshot().meta)

    def begin(spec: Spec, start: int | None, last: int) -> int | None:
        nothing = SimpleNamespace(first=0)
        found = _begin(spec, 0, kept, start, kept[last - 1], nothing, {"features": nothing, "labels": nothing})  # type: ignore[arg-type]
        return None if found is None else found.manifest.sequence

    assert begin(before, None, 3) is None
    assert begin(before, 2, 3) == 2
    assert [begin(now, start, 5) for start in (3, 4)] == [3, 4]  # a start at 3 changes the same
    assert begin(now, 6, 7) == 6
    with pytest.raises(StateError, match=r"made with another stream file \(.* is new .*\): audit with that one"):
        begin(before, None, 5)
    for start in (None, 2):
        with pytest.raises(
            StateError, match=r"does not follow from its records from .*at offset 300 the stream file was.*--from 3"
        ):
            begin(now, start, 5)
    for start in (None, 3, 4, 5):
        with pytest.raises(StateError, match=r"at offset 500 .*models were rolled back; .*--from 6"):
            begin(now, start, 7)
