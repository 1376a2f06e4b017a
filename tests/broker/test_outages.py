"""When Kafka is absent at the start, or goes away while a worker runs, as where its disk is full."""

import asyncio
import contextlib
import resource
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
from tests.broker.test_ui import Ui
from tests.processes import until
from tests.shared import PROPERTIES

pytestmark = pytest.mark.broker

AWAY = 1.5  # seconds for which clients find nobody, a few of their attempts


def test_an_absent_broker_is_one_sentence_and_an_exit_code(tmp_path, topic_name):
    path, _ = stream_file(tmp_path, topic_name)
    address = f"127.0.0.1:{free_port()}"
    lines = riparian("worker", path, "--broker", address, "--wait", 1, code=2).strip().splitlines()
    assert "trying again" in lines[0]
    assert lines[-1].startswith(f"riparian: Expected Kafka at {address}")


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


def test_a_broker_that_is_late_dies_stops_and_comes_back_elsewhere_costs_nothing(tmp_path, topic_name):
    """One worker waits for it, sees it die of a full disk while records are on their way, and then stopped in order; it
    comes back at another address, where the bootstrap servers find it. A page sees it gone, and there again."""
    late = LocalBroker(tmp_path / "broker", port=free_port(), properties=PROPERTIES)
    s = Stream(f"127.0.0.1:{late.port}", tmp_path, topic_name, topics_made=False)
    rows, ports = instances(4500, delay=20), [late.port]

    def goes_on(start: int, stop: int) -> Any:
        s.give(rows, start, stop)
        return s.reach(stop, worker=worker)

    with relayed(ports) as door, s.worker(broker=door) as worker:
        worker.wait_for("trying again")
        with late:
            worker.wait_for("Worker ready")
            goes_on(0, 1000)
            # A broker that is new has no coordinator of groups at first; what a busy one says late is another matter.
            assert "CoordinatorNotAvailable" not in worker.output
            with Ui(tmp_path, s.broker, s.path) as page:
                until(lambda: page.status(s.name)["works"])
                # No file may grow beyond this: to Kafka, the same as a full disk.
                largest = max(file.stat().st_size for file in late.data_dir.rglob("*.log"))
                resource.prlimit(late.pid, resource.RLIMIT_FSIZE, (largest + 30_000, largest + 30_000))
                with s.giving(rows, 1000, 4000, chunk=200):
                    until(lambda: not late.alive)
                    assert "have failed" in (late.data_dir / "logs" / "server.log").read_text()
                    until(lambda: page.status(s.name)["away"] is not None)
                    assert worker.process.poll() is None, worker.output[-3000:]
                    late.start()
                s.reach(4000, worker=worker)
                until(lambda: page.status(s.name)["away"] is None)
        time.sleep(AWAY)
        assert worker.process.poll() is None, worker.output[-3000:]
        with LocalBroker(late.data_dir, port=free_port(), properties=PROPERTIES) as elsewhere:
            ports.append(elsewhere.port)
            s.broker = elsewhere.bootstrap
            assert s.check(goes_on(4000, 4500)).pending.counts["joined"] == 4500
        # Without a broker, a worker that is told to stop does.
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
