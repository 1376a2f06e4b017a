"""When Kafka is absent at the start, or goes away while a worker runs."""

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest

from app.kafka.broker import LocalBroker
from app.kafka.connection import Connection
from app.kafka.ports import free_port
from tests.broker.harness import (
    PATIENCE,
    ROOT,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    send,
    stream_file,
    wait_for_state,
)

pytestmark = pytest.mark.broker


def test_an_absent_broker_is_one_sentence_and_an_exit_code(tmp_path, topic_name):
    path, _ = stream_file(tmp_path, topic_name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "app.cli", "worker", str(path), "--broker", f"127.0.0.1:{port}", "--wait", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert "trying again" in lines[0]
    assert lines[-1].startswith(f"riparian: Expected Kafka at 127.0.0.1:{port}")
    assert "Traceback" not in done.stderr


def test_a_worker_started_before_its_broker_waits_for_it(tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    local = LocalBroker(tmp_path / "kafka")
    local.start()
    address = local.bootstrap
    local.stop()
    with Worker(path, address, tmp_path) as worker:
        worker.wait_for("trying again")
        with local:
            features, labels = instances(200)
            worker.wait_for("Worker ready")
            send(address, spec.topics.features, features)
            send(address, spec.topics.labels, labels)
            check_against_oracle(address, spec, wait_for_state(address, spec, 200, 200, worker=worker))
            assert worker.stop() == 0
            assert "ERROR" not in worker.output  # a broker that is new has no coordinator of groups at first


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_that_goes_and_comes_back_costs_nothing(tmp_path, topic_name, way):
    path, spec = stream_file(tmp_path, topic_name)
    n = 4000
    features, labels = instances(n, delay=20)
    with LocalBroker(tmp_path / "kafka") as local:
        address = local.bootstrap
        create_topics(spec, address)
        with Worker(path, address, tmp_path) as worker:
            send(address, spec.topics.features, features[: n // 2])
            send(address, spec.topics.labels, labels[: n // 2])
            wait_for_state(address, spec, n // 2, n // 2, worker=worker)
            senders = [
                threading.Thread(
                    target=send, args=(address, topic, records[n // 2 :]), kwargs={"pause": 0.1, "chunk": 100}
                )
                for topic, records in ((spec.topics.features, features), (spec.topics.labels, labels))
            ]
            for sender in senders:
                sender.start()
            while len(predictions(address, spec)) < n // 2 + 300:
                time.sleep(0.1)
            (local.stop if way == signal.SIGTERM else local.kill)()
            time.sleep(5)
            assert worker.process.poll() is None, worker.output[-3000:]
            local.start()
            for sender in senders:
                sender.join()
            learner = wait_for_state(address, spec, n, n, worker=worker)
            assert worker.stop() == 0
        oracle = check_against_oracle(address, spec, learner)
        assert oracle.pending.counts["joined"] == n
        assert json.dumps(oracle.pending.counts)


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


def test_a_broker_that_comes_back_at_another_address_is_found_by_the_bootstrap_servers(tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    features, labels = instances(400)
    ports: list[int] = []
    with relayed(ports) as door, contextlib.ExitStack() as stack:
        with LocalBroker(tmp_path / "kafka") as first:
            ports.append(int(first.bootstrap.rpartition(":")[2]))
            create_topics(spec, first.bootstrap)
            worker = stack.enter_context(Worker(path, door, tmp_path))
            send(first.bootstrap, spec.topics.features, features[:200])
            send(first.bootstrap, spec.topics.labels, labels[:200])
            wait_for_state(first.bootstrap, spec, 200, 200, worker=worker)
        with LocalBroker(tmp_path / "kafka", port=free_port(ports[0])) as second:
            assert second.bootstrap != first.bootstrap
            ports.append(int(second.bootstrap.rpartition(":")[2]))
            send(second.bootstrap, spec.topics.features, features[200:])
            send(second.bootstrap, spec.topics.labels, labels[200:])
            learner = wait_for_state(second.bootstrap, spec, 400, 400, worker=worker)
            check_against_oracle(second.bootstrap, spec, learner)
            assert worker.stop() == 0


def test_a_client_that_was_told_of_no_broker_by_a_connection_that_ended_asks_again(
    broker, topic_name, tmp_path, monkeypatch
):
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
        producer = Connection(broker).producer(enable_idempotence=True)
        await asyncio.wait_for(producer.start(), PATIENCE)
        try:
            return (await producer.send_and_wait(spec.topics.labels, b"", partition=0)).offset
        finally:
            await producer.stop()

    _, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    send_as_ever = AIOKafkaConnection.send
    monkeypatch.setattr(AIOKafkaConnection, "send", send_and_forget)
    assert asyncio.run(produce()) == 0
    assert answers > 1
