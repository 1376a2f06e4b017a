"""When Kafka is absent at the start, or goes away while a worker runs."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.local_broker.ports import free_port
from tests.broker.harness import PATIENCE, Stream, instances, riparian, stream_file
from tests.shared import PROPERTIES

pytestmark = pytest.mark.broker

AWAY = 1.5  # seconds for which clients find nobody, a few of their attempts


def test_an_absent_broker_is_one_sentence_and_an_exit_code(tmp_path, topic_name):
    path, _ = stream_file(tmp_path, topic_name)
    address = f"127.0.0.1:{free_port()}"
    lines = riparian("worker", path, "--broker", address, "--wait", 1, code=2).strip().splitlines()
    assert "trying again" in lines[0]
    assert lines[-1].startswith(f"riparian: Expected Kafka at {address}")


def test_a_worker_started_before_its_broker_waits_for_it(own_broker, tmp_path, topic_name):
    s = Stream(own_broker.bootstrap, tmp_path, topic_name, topics_made=False)
    own_broker.stop()
    with s.worker() as worker:
        worker.wait_for("trying again")
        own_broker.start()
        worker.wait_for("Worker ready")
        s.give(instances(200))
        s.check(s.reach(200, worker=worker))
        assert worker.stop() == 0
        assert "ERROR" not in worker.output  # a broker that is new has no coordinator of groups at first


def test_a_broker_that_goes_and_comes_back_costs_nothing(own_broker, tmp_path, topic_name):
    """Stopped in order, and then killed, while records are on their way."""
    s = Stream(own_broker.bootstrap, tmp_path, topic_name)
    n = 4500
    rows = instances(n, delay=20)
    with s.worker() as worker:
        s.give(rows, 0, n // 3)
        s.reach(n // 3, worker=worker)
        for start, end in ((n // 3, own_broker.stop), (2 * n // 3, own_broker.kill)):
            with s.giving(rows, start, start + n // 3, pause=0.05, chunk=100):
                s.predicted(start + 300, worker)
                end()
                time.sleep(AWAY)
                assert worker.process.poll() is None, worker.output[-3000:]
                own_broker.start()
            learner = s.reach(start + n // 3, worker=worker)
        assert worker.stop() == 0
    assert s.check(learner).pending.counts["joined"] == n


@contextlib.contextmanager
def relayed(to: list[int]) -> Iterator[str]:
    """The address of a door to the last of the ports of 127.0.0.1 in `to`, which a test may add to."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to[-1])
        except OSError:
            return writer.close()
        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(relay, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()


def test_a_broker_that_comes_back_at_another_address_is_found_by_the_bootstrap_servers(
    own_broker, tmp_path, topic_name
):
    s = Stream(own_broker.bootstrap, tmp_path, topic_name)
    rows = instances(400)
    ports = [own_broker.port]
    with relayed(ports) as door, s.worker(broker=door) as worker:
        s.give(rows, 0, 200)
        s.reach(200, worker=worker)
        own_broker.stop()
        with LocalBroker(own_broker.data_dir, port=free_port(), properties=PROPERTIES) as second:
            ports.append(second.port)
            s.broker = second.bootstrap
            s.give(rows, 200)
            s.check(s.reach(400, worker=worker))
            assert worker.stop() == 0


def test_a_client_that_was_told_of_no_broker_by_a_connection_that_ended_asks_again(stream, monkeypatch):
    """As a fenced broker answers, whose connection then ends: the one that aiokafka would have asked again."""
    answers = 0

    async def send_and_forget(connection: AIOKafkaConnection, request: Any, **options: Any) -> Any:
        nonlocal answers
        answer = await send_as_ever(connection, request, **options)
        if isinstance(request, MetadataRequest):
            answers += 1
            if answers == 1:
                answer.brokers = []
                asyncio.get_running_loop().call_soon(connection.close)
        return answer

    async def produce() -> int:
        producer = Connection(s.broker).producer(enable_idempotence=True)
        await asyncio.wait_for(producer.start(), PATIENCE)
        try:
            return (await producer.send_and_wait(s.spec.topics.labels, b"", partition=0)).offset
        finally:
            await producer.stop()

    s = stream()
    send_as_ever = AIOKafkaConnection.send
    monkeypatch.setattr(AIOKafkaConnection, "send", send_and_forget)
    assert asyncio.run(produce()) == 0
    assert answers > 1
