"""`riparian deadletters` on a real Kafka: what is there, what it says, and retries, each letter once."""

import asyncio
import json

import pytest
from aiokafka.errors import KafkaConnectionError

from riparian.app import retries
from riparian.app.errors import BrokerError
from riparian.app.retries import CUT_OFF, NO_VALUE, OTHER_TOPIC, RETRIED, STILL, LetterFilter
from riparian.topics import names
from tests.broker.clients import Sent, send
from tests.broker.harness import instances

pytestmark = pytest.mark.broker

HOSTILE = b'{"id": "\x1b]0;owned\x07", "x": {"a": [bold]}'


def test_what_a_stream_file_rejected_is_retried_once_it_takes_it(stream):
    traced = {"predictions": {"trace": True}}
    s = stream(record={"max_bytes": 200}, **traced)
    topics = s.spec.topics
    features, labels = instances(300)
    padded = [one._replace(value=one.value + b" " * 200) if i % 3 else one for i, one in enumerate(features)]
    written = [(one.key, one.value, [("traceparent", parent(i))]) for i, one in enumerate(padded)]
    write(s, topics.features, written, [one.time for one in features])
    send(s.broker, topics.features, [Sent(HOSTILE, features[-1].time, b"\xff")])
    send(s.broker, topics.labels, [*labels, Sent(None, labels[-1].time, b"gone")])
    s.run(301)

    def run(command, *arguments):
        return s.riparian(f"deadletters {command}", *arguments)

    listed = json.loads(run("list", "--json"))
    counts = {(g["reason"], g["topic"]): (g["n"], g["retried"]) for g in listed["groups"]}
    assert counts == {
        ("too-large", topics.features): (200, 0),
        ("not-json", topics.features): (1, 0),
        ("tombstone", topics.labels): (1, 0),
    }
    assert "200" in run("list", "--reason", "too-large", "--since", "1h")
    assert "no dead letters of these" in run("list", "--since", "2999-01-01")

    shown = run("show", "--reason", "not-json")
    for text in ("\\x1b]0;owned\\x07", "[bold]", "\\xff"):
        assert text in shown
    assert shown.replace("\n", "").isprintable()
    (plain,) = json.loads(run("show", "--reason", "not-json", "--json"))["letters"]
    assert (plain["value"].encode(), plain["key_base64"], plain["source_offset"]) == (HOSTILE, "/w==", 300)

    # The same stream file rejects them still.
    report = json.loads(run("retry", "--json"))
    assert report["retried"] == {}
    assert report["left"] == {STILL: 201, NO_VALUE: 1}
    assert report["rejected"] == {"too-large": 200, "not-json": 1}

    s.change(**traced)
    dry = json.loads(run("retry", "--json", "--dry-run"))
    assert dry["dry_run"]
    report = json.loads(run("retry", "--json"))
    assert report["retried"] == dry["retried"] == {topics.features: 200}
    assert report["left"] == {STILL: 1, NO_VALUE: 1}
    assert "0 dead letters retried" in run("retry")
    assert json.loads(run("retry", "--json"))["left"] == {RETRIED: 200, STILL: 1, NO_VALUE: 1}
    assert json.loads(run("list", "--json"))["groups"][0]["retried"] == 200

    again = [r for r in s.read("features") if "riparian-retry-of" in dict(r.headers)]
    letters = {r.offset: r for r in s.read("deadletters")}
    assert len(again) == 200
    for record in again:
        topic, partition, offset = dict(record.headers)["riparian-retry-of"].decode().split("/")
        letter = letters.pop(int(offset))
        assert (topic, partition) == (topics.deadletters, "0")
        assert (record.key, record.value) == (letter.key, letter.value)
        assert record.timestamp >= letter.timestamp

    # The next worker reads over the mark, which is behind its last checkpoint.
    assert s.run(again[-1].offset + 1, 301).pending.counts["joined"] == 300
    ids = [prediction["id"] for prediction in s.predictions()]
    assert sorted(ids) == [f"{i:07d}" for i in range(300)]
    assert [record.headers for record in s.read("predictions")] == [(("traceparent", parent(int(i))),) for i in ids]


def letter(offset: int, value: bytes | None, *headers: tuple[str, bytes], topic: str, partition: int = 0):
    about = names.dead_letter_headers(topic, partition, offset, "wrong-type", "d")
    return b"k%d" % offset, value, [*about, *headers]


def parent(i: int) -> bytes:
    return b"00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-01" % (i + 1)


def write(s, topic: str, letters: list, times: list[int] | None = None) -> None:
    async def go() -> None:
        async with s.connection.producer(enable_idempotence=True) as producer:
            for (key, value, headers), time in zip(letters, times or [None] * len(letters), strict=True):
                await producer.send(topic, value, key, 0, time, headers=headers)

    asyncio.run(go())


def good(i: int) -> bytes:
    return json.dumps({"id": str(i), "x": {"a": 1.0, "b": 2.0, "c": "x"}}).encode()


@pytest.fixture
def s(stream, monkeypatch):
    """A stream with 100 letters that can be retried, and some that cannot; few of them a transaction."""
    s = stream()
    features = s.spec.topics.features
    some = [letter(i, good(i), ("trace", b"t"), topic=features) for i in range(100)]
    others = [
        letter(100, b'{"id": "1', (names.HEADER_SIZE, b"2500000"), topic=features),
        letter(101, good(101), topic=features, partition=1),
        letter(102, good(102), topic="secrets"),
        letter(103, None, topic=features),
        (b"k", b"not a letter", []),
    ]
    write(s, s.spec.topics.deadletters, [*some[:50], *others, *some[50:]])
    monkeypatch.setattr(retries, "CHUNK", 20)
    return s


def ids(s) -> list[str]:
    """Of the records that a reader of committed transactions sees, in order."""

    async def go() -> list[str]:
        async with retries.reading(s.connection, s.spec.topics.features, 0) as reader:
            return [json.loads(r.value)["id"] for r in await reader.read(reader.end)]

    return asyncio.run(go())


def retried(s):
    return asyncio.run(retries.retry(s.spec, s.connection, LetterFilter()))


def test_a_retry_that_was_killed_goes_on(s, monkeypatch):
    written = []

    async def dies(self, producer, tp, letters):
        written.append(len(letters))
        if len(written) == 3:
            producer.commit_transaction = never
        await write_(self, producer, tp, letters)

    async def never() -> None:
        monkeypatch.undo()
        raise KafkaConnectionError("the process is killed here: records and mark are sent, and not committed")

    write_ = retries._Retry._write
    monkeypatch.setattr(retries._Retry, "_write", dies)
    with pytest.raises(BrokerError, match="run the command again"):
        retried(s)
    n = sum(written[:2])
    report = retried(s)
    assert report.retried == {s.spec.topics.features: 100 - n}
    assert report.left == {RETRIED: n, CUT_OFF: 1, OTHER_TOPIC: 2, NO_VALUE: 1, STILL: 0}
    assert ids(s) == [str(i) for i in range(100)]
    assert {dict(r.headers)["trace"] for r in s.read("features")} == {b"t"}
    assert retried(s).retried == {}


def test_of_two_retries_at_once_the_first_is_refused(s, monkeypatch):
    async def both() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        write_ = retries._Retry._write

        async def slow(self, producer, tp, letters):
            if not begun.is_set():
                await write_(self, producer, tp, letters)
                begun.set()
                await go_on.wait()
                return
            await write_(self, producer, tp, letters)

        monkeypatch.setattr(retries._Retry, "_write", slow)
        first = asyncio.create_task(retries.retry(s.spec, s.connection, LetterFilter()))
        await begun.wait()
        second = await retries.retry(s.spec, s.connection, LetterFilter())
        go_on.set()
        with pytest.raises(BrokerError, match="another riparian deadletters retry"):
            await first
        assert second.retried[s.spec.topics.features] + second.left[RETRIED] == 100

    asyncio.run(both())
    assert ids(s) == [str(i) for i in range(100)]
