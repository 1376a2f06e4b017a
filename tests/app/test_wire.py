"""What connections send and receive is what it was: only copied less often."""

import asyncio
import inspect
import io
import random
import shutil
import ssl
import struct
from pathlib import Path
from typing import Any

import pytest
from aiokafka import conn
from aiokafka.protocol import fetch, produce, types
from aiokafka.protocol.api import Response
from aiokafka.protocol.struct import Struct

from riparian.app.kafka.client import wire
from riparian.app.kafka.client.wire import SMALL_BYTES, Receiver
from tests.broker.secured import certificates

SIZES = [0, 1, 4, 100, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, 300_000, 3_000_000]


async def receive(chunks: list[bytes], secure: Any = None) -> tuple[list[bytes], BaseException | None]:
    """The answers that a client reads of what a server sends in these chunks, as aiokafka reads them, and how it
    ended."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for i, chunk in enumerate(chunks):
            writer.write(chunk)
            await writer.drain()
            if i % 3 == 0:
                await asyncio.sleep(0)
        writer.close()

    server_context, client_context = secure or (None, None)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context)
    loop = asyncio.get_running_loop()
    closed, reader = loop.create_future(), asyncio.StreamReader(limit=conn.READER_LIMIT, loop=loop)
    transport, _ = await loop.create_connection(
        lambda: Receiver(closed, reader, loop=loop), *server.sockets[0].getsockname(), ssl=client_context,
        server_hostname="127.0.0.1" if secure else None,
    )  # fmt: skip
    found: list[bytes] = []
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            found.append(await reader.readexactly(size))
            if len(found) % 3 == 0:
                await asyncio.sleep(0.001)  # more comes than anybody waits for
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        assert reader.at_eof()
        return found, error
    finally:
        transport.close()
        await closed
        server.close()


def cut(random_: random.Random, data: bytes) -> list[bytes]:
    chunks, at = [], 0
    while at < len(data):
        n = random_.choice([1, 3, 5, 1000, SMALL_BYTES, 1 << 20])
        chunks.append(data[at : at + n])
        at += n
    return chunks


@pytest.mark.parametrize("seed", range(6))
def test_answers_of_any_size_come_whole_however_they_are_cut(seed: int) -> None:
    random_ = random.Random(seed)
    answers = [random_.randbytes(random_.choice(SIZES)) for _ in range(20)]
    chunks = cut(random_, b"".join(struct.pack(">i", len(one)) + one for one in answers))
    found, error = asyncio.run(receive(chunks))
    assert found == answers
    assert all(type(one) is bytes for one in found)
    assert isinstance(error, asyncio.IncompleteReadError)
    assert (error.partial, error.expected) == (b"", 4)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl makes the certificates")
def test_answers_come_whole_by_tls_too(tmp_path: Path) -> None:
    certificates(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    theirs = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    random_ = random.Random(9)
    answers = [random_.randbytes(size) for size in SIZES]
    chunks = cut(random_, b"".join(struct.pack(">i", len(one)) + one for one in answers))
    found, error = asyncio.run(receive(chunks, (ours, theirs)))
    assert found == answers
    assert isinstance(error, asyncio.IncompleteReadError)


@pytest.mark.parametrize("size", [10, SMALL_BYTES + 10, 1_000_000])
def test_a_connection_that_ends_within_an_answer_says_so(size: int) -> None:
    found, error = asyncio.run(receive([struct.pack(">i", 3) + b"abc", struct.pack(">i", size) + bytes(size - 1)]))
    assert found == [b"abc"]
    assert isinstance(error, asyncio.IncompleteReadError)
    assert error.expected == size


def test_a_size_below_zero_is_an_error() -> None:
    with pytest.raises(ValueError, match="fewer bytes than none"):
        asyncio.run(receive([struct.pack(">i", -1) + b"abc"]))


def a_value(random_: random.Random, kind: Any) -> Any:
    """Any value of one of the client's types, null too."""
    if isinstance(kind, types.Schema):
        return tuple(a_value(random_, field) for field in kind.fields)
    if isinstance(kind, types.Array):
        n = random_.choice([None, 0, 1, 3])
        return None if n is None else [a_value(random_, kind.array_of) for _ in range(n)]
    if isinstance(kind, types.String):
        return random_.choice([None, "", "ü" * random_.randrange(9)])
    if kind is types.Bytes:
        return random_.choice([None, b"", random_.randbytes(50)])
    bits = {"b": 8, "h": 16, "i": 32, "q": 64}[wire.NUMBERS[kind]]
    return random_.choice([-(1 << bits - 1), -1, 0, (1 << bits - 1) - 1])


def structures(of: type) -> list[Any]:
    found = [one for module in (fetch, produce) for one in vars(module).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, of) and "SCHEMA" in vars(one) and one.SCHEMA.fields]


def test_requests_of_numbers_and_answers_are_the_clients() -> None:
    wire.install()
    random_, answers, requests = random.Random(5), structures(Response), structures(produce.RequestStruct)
    assert len(answers) >= 20
    assert len(requests) >= 20
    for one in answers * 20:
        values = a_value(random_, one.SCHEMA)
        data = one.SCHEMA.encode(values)
        behind_a_header = io.BytesIO(b"1234" + data)
        behind_a_header.read(4)
        expected = Struct.decode.__func__(one, data)
        assert one.decode(data) == one.decode(behind_a_header) == expected
        assert list(vars(expected).values()) == list(values)
        with pytest.raises(ValueError, match="an answer"):
            one.decode(data[: random_.randrange(len(data))])
    for one in requests * 20:
        values = a_value(random_, one.SCHEMA)
        made = one(*values)
        assert wire._encode(made) == one.SCHEMA.encode(values)


def test_requests_to_write_records_are_the_clients() -> None:
    asked = 0
    for request in vars(produce).values():
        if isinstance(request, type) and issubclass(request, produce.RequestStruct) and request.SCHEMA.fields:
            topics = [("t", [(0, bytearray(b"abc")), (1, b"x" * 1000)]), ("ü", [(3, None)]), ("none", [])]
            values = {"required_acks": -1, "timeout": 3, "topics": topics, "transactional_id": "é"}
            made = request(**{name: values[name] for name in request.SCHEMA.names})
            assert wire._encode(made) == Struct.encode(made)
            asked += 1
    assert asked >= 9


def test_the_client_reads_and_makes_its_connections_so() -> None:
    """By private names: the versions of the client are bound in pyproject.toml."""
    source = inspect.getsource(conn.AIOKafkaConnection)
    assert "protocol = AIOKafkaProtocol(self._closed_fut, reader, loop=loop)" in source
    reads = [line.strip() for line in source.splitlines() if "reader." in line and "self" not in line]
    assert reads == ["resp = await reader.readexactly(4)", "resp = await reader.readexactly(size)"]
