"""Batches that the kernel writes are, to the byte, those of the client's builder."""

import random
import types
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatch

from riparian.app.kafka.sending import COMPRESSION, Outputs
from riparian.app.kafka.wire_format.written_batches import WrittenBatch, written
from riparian.topics.slices import Slices

NOW = 1_700_000_000_000


def of_the_client(keys: Any, values: Any, size: int, codec: int) -> list[BatchBuilder]:
    batches = []
    for key, value in zip(keys, values, strict=True):
        if not batches or batches[-1].append(timestamp=NOW, key=key, value=value) is None:
            batches.append(BatchBuilder(size, codec))
            batches[-1].append(timestamp=NOW, key=key, value=value)
    return batches


@pytest.mark.parametrize("compression", COMPRESSION)
def test_batches_are_those_of_the_client(compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those that compression would make larger: they go as they are."""
    monkeypatch.setattr("time.time", lambda: NOW / 1000)  # gzip's header has the second in which it was made
    random_ = random.Random(compression)
    for trial in range(30):
        n, size = random_.choice([1, 2, 70, 400]), random_.choice([1, 200, 5_000, 1 << 20])
        largest = random_.choice([3, 70, 200, 20_000])
        keys = [random_.choice([None, b"", b"k%d" % i, bytes(random_.randrange(largest))]) for i in range(n)]
        values = [random_.choice([None, b"", b'{"y": %d}' % i, bytes(random_.randrange(largest))]) for i in range(n)]
        found = written(Slices.of(keys), Slices.of(values), size, COMPRESSION[compression], NOW)
        expected, plain = (of_the_client(keys, values, size, codec) for codec in (COMPRESSION[compression], 0))
        assert [one.record_count() for one in found] == [one.record_count() for one in expected], trial
        for one, other, larger in zip(found, expected, plain, strict=True):
            for batch in (one, other, larger):
                batch._set_producer_state(7, 3, 12)
            if len(other._build()) >= len(larger._build()):
                other = larger  # the client compresses also where it is no gain
            assert bytes(one._build()) == bytes(other._build())
            assert one.size() == other.size()
            assert one.closed()
            assert one._build() is one._build()  # of a batch that is sent again


def test_it_has_all_that_the_client_asks_of_a_batch() -> None:
    """Its private names, too: the versions of the client are bound in pyproject.toml."""
    batch, other = WrittenBatch(b"body", 1, NOW, 0), BatchBuilder(1000, 0)
    assert batch.append(timestamp=NOW, key=None, value=b"") is None  # it is whole
    kept = {"_builder", "_key_serializer", "_value_serializer"}  # of `append` and `_build`, which it replaces
    assert set(vars(other)) - kept <= set(vars(batch))


def test_predictions_in_one_buffer_are_sent_as_those_that_are_not() -> None:
    """Keys come as a list or as slices; where records have headers, the client writes them."""
    producer = types.SimpleNamespace(_message_accumulator=types.SimpleNamespace(_batch_size=500))
    outputs = Outputs(producer, 0, {}, "gzip")
    keys, values = [b"k%d" % i if i % 3 else None for i in range(40)], [b'{"y": %d}' % i for i in range(40)]
    made = []
    for some, others, headers in (
        (keys, values, None),
        (keys, Slices.of(values), None),
        (Slices.of(keys), Slices.of(values), None),
        (Slices.of(keys), Slices.of(values), [[]] * 40),
    ):
        batches = outputs.build(some, others, headers)
        assert isinstance(batches[0], WrittenBatch) == (headers is None and others is not values)
        records = [record for batch in batches for record in DefaultRecordBatch(bytes(batch._build()))]
        made.append([(record.key, record.value, record.headers) for record in records])
    assert made == [[(key, value, []) for key, value in zip(keys, values, strict=True)]] * 4
