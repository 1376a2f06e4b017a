"""Batches of outputs in each compression, written by a fenced producer and read back."""

import asyncio

import pytest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.sending import COMPRESSION, Outputs, fenced_producer
from tests.broker.clients import create_topics, read
from tests.broker.harness import stream_file

pytestmark = pytest.mark.broker

VALUES = [b'{"id": "%d", "y": "UP", "p": {"UP": 0.75, "DOWN": 0.25}}' % i for i in range(2000)]


def test_batches_are_compressed_as_the_stream_file_says_and_single_records_are_not(broker, tmp_path, topic_name):
    _, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    topic = spec.topics.predictions
    sizes = {}

    async def run() -> None:
        for name, number in COMPRESSION.items():
            producer = await fenced_producer(Connection(broker), spec.name, [TopicPartition(topic, 0)])
            outputs = Outputs(producer, 0, {topic: 0}, name)
            (probe,) = outputs.build([None] * len(VALUES), VALUES)
            data = bytes(probe._build())
            sizes[name] = len(data)
            assert MemoryRecords(data).next_batch().compression_type == number
            await outputs.send(topic, outputs.build([None] * len(VALUES), VALUES))
            assert producer._message_accumulator._compression_type == 0
            await outputs.write(topic, [(b"k", b"chunk")])
            await outputs.stop()

    asyncio.run(run())
    assert [record.value for record in read(broker, topic)] == [*VALUES, b"chunk"] * len(COMPRESSION)
    assert max(size for name, size in sizes.items() if name != "none") < sizes["none"] / 2
