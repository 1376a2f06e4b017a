"""What copying by ids rests on, without Kafka: Java's partitioner, ids on both sides, the order of time, headers."""

import asyncio
import json
from types import SimpleNamespace

import numpy as np
import pytest
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition
from faust.types import TP

from riparian.app.kafka.access.rights import denied
from riparian.app.kafka.topics.partitioner import murmur2, partitions_of
from riparian.app.stream_file.spec import build
from riparian.app.worker.repartition.claims import is_ours, new_id, offsets
from riparian.app.worker.repartition.order import CopyOrder
from riparian.topics.names import (
    HEADER_SOURCE,
    HEADER_UNREAD,
    own_headers,
    rekey_id,
    retry_id,
    source_of,
    transactional_id,
)
from riparian.topics.records import UNREADABLE_BATCH, RawBatch

# Of the tests of Kafka's own client for Java (UtilsTest.testMurmur2): signed, as Java has them.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_the_hash_is_that_of_java() -> None:
    assert murmur2(list(JAVA)).view(np.int32).tolist() == list(JAVA.values())
    for n in (1, 4, 7):
        assert partitions_of(list(JAVA), n).tolist() == [(h & 0x7FFFFFFF) % n for h in JAVA.values()]


def batch(*values: object, keys: list[bytes | None] | None = None, headers: list | None = None) -> RawBatch:
    encoded = [v if isinstance(v, bytes | None) else json.dumps(v).encode() for v in values]
    n = len(encoded)
    return RawBatch(list(range(n)), [0] * n, keys or [b"k"] * n, encoded, headers)


def stream(**fields: object):
    base = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}
    return build({**base, "rekey": {"features": "in", "labels": ["one", "two"]}, **fields})


def test_a_number_and_its_text_are_one_id_on_both_sides() -> None:
    codec = stream().make_codec()
    values = {"id": 5, "x": {"a": 1}}, {"id": "5", "x": {"a": 1}}, {"id": "ü", "x": {}}
    assert codec.ids("features", batch(*values)) == ["5", "5", "ü"]
    assert codec.ids("labels", batch({"id": "5", "y": 1}, {"id": 5, "y": 1})) == ["5", "5"]


def test_ids_are_those_that_decoding_gives_and_none_where_it_rejects_them() -> None:
    codec = stream(record={"id": "o.id"}, label={"id": "@key", "y": "y"}).make_codec()
    values = (
        {"o": {"id": 7}, "x": {"a": 1}},
        {"o": {}, "x": {"a": 1}},
        b"{oops",
        None,
        {"o": {"id": ""}},
        {"o": {"id": True}},
    )
    found = codec.ids("features", batch(*values))
    assert found == ["7", None, None, None, None, None]
    decoded = codec.decode_features(batch(*values), [None], stream().class_vocabulary())
    assert decoded.ids == ["7"]
    assert codec.ids("labels", batch({"y": 1}, {"y": 1}, {"y": 1}, keys=[b"7", None, b"\xff"])) == ["7", None, None]
    by_header = stream(record={"id": "@header:who"}).make_codec()
    headers = [[("who", b"9")], [], [("who", b"\xff")]]
    assert by_header.ids("features", batch({"x": {}}, {"x": {}}, {"x": {}}, headers=headers)) == ["9", None, None]


def test_a_copy_of_what_could_not_be_read_says_so() -> None:
    spec = stream()
    headers = [[(HEADER_UNREAD, b"the batch of offsets 3 to 9: a bomb")], []]
    rejected = spec.make_codec().decode_labels(batch(None, None, headers=headers), spec.class_vocabulary()).rejected
    assert (rejected[0].reason, rejected[0].detail) == (
        UNREADABLE_BATCH,
        "in the source: the batch of offsets 3 to 9: a bomb",
    )
    assert rejected[1].reason == "tombstone"
    by_value = stream(label={"id": "@key", "y": "[0]"}).make_codec()  # a header that is a record is none, either
    forged = batch(None, keys=[b"7"], headers=[[(HEADER_UNREAD, b'["a"]')]])
    (bad,) = by_value.decode_labels(forged, spec.class_vocabulary()).rejected
    assert bad.reason == UNREADABLE_BATCH
    for text in (b"\xff", b"x" * 299 + "é".encode(), b"\xff" * 100_000):  # not written by us
        found = spec.make_codec().decode_features(batch(None, headers=[[(HEADER_UNREAD, text)]]), [None]).rejected
        assert [bad.reason for bad in found] == [UNREADABLE_BATCH]
        assert len(found[0].detail) <= 300


def test_the_place_of_a_source_is_read_back() -> None:
    assert source_of([("a", None), (HEADER_SOURCE, b"x/0/1"), (HEADER_SOURCE, b"a.b-c/3/12")]) == ("a.b-c", 3, 12)
    for text in (
        b"",
        b"x",
        b"x/1",
        b"x/1/",
        b"x/-1/2",
        b"x/1/2/3",
        b"x/1/" + b"9" * 4301,
        b"x/" + b"9" * 20 + b"/1",
        None,
    ):
        assert source_of([(HEADER_SOURCE, text)]) is None
    assert source_of([]) is None
    large = [("own", b"x" * 10_000), (HEADER_SOURCE, b"x/0/1")]
    assert own_headers(large) == [(HEADER_SOURCE, b"x/0/1"), ("riparian-headers-size", b"10023")]


def test_transactional_ids_of_copiers_are_nobody_else_s() -> None:
    one, other = new_id("s"), new_id("s")
    assert one != other
    assert is_ours("s", one)
    assert not is_ours("t", one)
    for foreign in ("", "riparian-s-", transactional_id("s", 0), retry_id("s", 0), rekey_id("s-t", "0")[1:]):
        assert not is_ours("s", foreign)


def test_a_coordinator_that_says_nothing_is_not_taken_for_one_without_offsets() -> None:
    """What its answer does not name would be copied unfenced. That one which is loading is asked again: test_admin."""

    class Silent:
        async def find_coordinator(self, group: str) -> int:
            return 1

        async def _send_request(self, request: object, node: int) -> SimpleNamespace:
            return SimpleNamespace(error_code=0, topics=[])

    with pytest.raises(KafkaError, match=r"does not say how far a\[1\] was copied"):
        asyncio.run(offsets(Silent(), "g", [TopicPartition("a", 1)]))


# -- order ------------------------------------------------------------------------------------------------------------


def raw(offsets: list[int], stamps: list[int]) -> RawBatch:
    return RawBatch(offsets, stamps, [None] * len(offsets), [b""] * len(offsets))


def test_a_limit_counts_copies() -> None:
    features, labels = TP("f", 0), TP("l", 0)
    order = CopyOrder({features: 0, labels: 0}, {labels: 64})
    order.buffers[features].add(raw([*range(200)], [*range(200)]))
    order.buffers[labels].add(raw([0, 1, 2], [50, 50, 50]))
    cuts = []
    while order.n_waiting:
        pieces = order.release(100, force=True).pieces
        cuts.append((len(pieces[features].offsets), len(pieces[labels].offsets)))
    assert cuts == [(51, 0), (0, 1), (0, 1), (36, 1), (100, 0), (13, 0)]
    order.buffers[labels].add(raw([3, 4], [0, 0]))
    assert len(order.release(9, force=True).order) == 1


A, B, C = TP("a", 0), TP("a", 1), TP("b", 0)


def order_of(released) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of what was released, in order."""
    pieces = [(tp, iter(piece.offsets.tolist())) for tp, piece in released.pieces.items()]
    return [(*pieces[source][0], next(pieces[source][1])) for source in released.order.tolist()]


def test_nothing_goes_before_the_others_have_delivered_something_later() -> None:
    order = CopyOrder({A: 0, B: 0})
    order.buffers[A].add(raw([0, 1, 2], [10, 20, 30]))
    assert not len(order.release(100).order)
    order.buffers[B].add(raw([0, 1], [15, 25]))
    assert order_of(order.release(100)) == [("a", 0, 0), ("a", 1, 0), ("a", 0, 1), ("a", 1, 1)]
    # B ended at offset 2 when we asked, and has been read so far: what A had then goes, and nothing after.
    order.buffers[A].add(raw([3], [40]))
    assert order_of(order.release(100, {A: 3, B: 2}, [B])) == [("a", 0, 2)]
    assert not order.nothing_below({A: 4, B: 2})
    assert order.nothing_below({A: 3, B: 2})
    # A backlog that is not read to its end goes on where the others are.
    assert order_of(order.release(100, {A: 9, B: 2}, [B])) == [("a", 0, 3)]


def test_nothing_waits_where_it_is_forced_and_a_limit_keeps_the_order() -> None:
    order = CopyOrder({A: 0, B: 5, C: 0})
    order.buffers[A].add(raw([0, 1, 2], [10, 20, 30]))
    order.buffers[B].add(raw([5, 6], [5, 25]))
    assert order_of(order.release(2, force=True)) == [("a", 1, 5), ("a", 0, 0)]
    assert order_of(order.release(2, force=True)) == [("a", 0, 1), ("a", 1, 6)]
    assert order.n_waiting == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_backlog_comes_in_the_order_of_time_however_it_is_fetched(seed: int) -> None:
    """The slow twin sorts what there is."""
    rng = np.random.default_rng(seed)
    stamps = np.sort(rng.choice(50_000, 3000, replace=False)) + 10**12
    of = rng.choice(3, 3000, p=[0.7, 0.25, 0.05])
    tps = [A, B, C]
    held = {tp: stamps[of == i].tolist() for i, tp in enumerate(tps)}
    twin = sorted((stamp, tp, k) for tp, found in held.items() for k, stamp in enumerate(found))
    order, at = CopyOrder(dict.fromkeys(tps, 0)), dict.fromkeys(tps, 0)
    ends = {tp: len(found) for tp, found in held.items()}
    released = []
    while len(released) < 3000:
        for tp in tps:
            n = int(rng.integers(0, 200))
            part = held[tp][at[tp] : at[tp] + n]
            if part:
                order.buffers[tp].add(raw(list(range(at[tp], at[tp] + len(part))), part))
                at[tp] += len(part)
        limit = int(rng.integers(1, 500))
        if rng.random() < 0.5:
            done = [tp for tp in tps if at[tp] >= ends[tp]]
            released += order_of(order.release(limit, ends, done))
        else:
            released += order_of(order.release(limit))
    assert released == [(*tp, k) for _, tp, k in twin]


def test_an_error_that_was_raised_from_itself_is_looked_at_once() -> None:
    """`raise error from error`, as where a sentence for an error may be the error itself."""
    error, denial = KafkaError(), TopicAuthorizationFailedError()
    error.__cause__ = error
    assert not denied(error)
    error.__cause__ = denial
    assert denied(error)
