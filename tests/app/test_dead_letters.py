"""Dead letters as they are read back: hostile ones, marks of retries, and what is shown of them."""

import asyncio
import contextlib
import random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from aiokafka import TopicPartition
from click.testing import CliRunner

from riparian.app import retries
from riparian.app.cli import cli
from riparian.app.errors import safe
from riparian.app.retries import DeadLetterRecord, LetterFilter, Overview, Ranges, letter_of, mark, marked
from riparian.app.stream_file.spec import loads
from riparian.topics.names import HEADER_RETRIED, dead_letter_headers


class Record(NamedTuple):
    headers: Any
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    partition: int = 0
    offset: int = 7
    timestamp: int = 1000


def headers(**changed: bytes | None) -> list[tuple[str, bytes]]:
    made = dict(dead_letter_headers("s.features", 0, 12, "not-json", "détail")) | {
        f"riparian-{name.replace('_', '-')}": value for name, value in changed.items()
    }
    return [(name, value) for name, value in made.items() if value is not None]


def test_a_letter_is_read_from_its_headers():
    read = letter_of(Record(headers()))
    assert read == DeadLetterRecord(
        0, 7, 1000, "s.features", 0, 12, "not-json", "détail", b"k", b"v", (), (None, None, None)
    )
    assert not read.cut_off
    assert letter_of(Record(headers(size=b"70"))).sizes == (70, None, None)
    assert letter_of(Record(headers(key_size=b"70"))).cut_off
    assert letter_of(Record(headers(headers_size=b"9000"))).cut_off
    came = [("ce_id", b"1"), ("empty", None), ("ce_id", b"2")]
    assert letter_of(Record([*came, *headers()])).headers == tuple(came)


@pytest.mark.parametrize(
    "of",
    [
        [],
        [("riparian-topic", None)],
        headers(topic=None),
        headers(topic=b"\xff"),
        headers(offset=b"x"),
        headers(offset=b""),
        headers(partition=b"9" * 5000),
        headers(reason=None),
        headers(detail=b"\xff"),
        headers(size=b"many"),
    ],
)
def test_what_no_worker_wrote_is_no_letter(of):
    assert letter_of(Record(of)) is None


def test_marks_say_which_letters_were_retried():
    offsets = [3, 4, 5, 9, 12, 13]
    assert mark(offsets) == b"3-5,9,12-13"
    assert marked(Record([(HEADER_RETRIED, mark(offsets))])) == [(3, 6), (9, 10), (12, 14)]
    for text in (b"", b"-", b"x", b"\xff", b"9" * 40 + b"-"):
        assert all(start < stop for start, stop in marked(Record([(HEADER_RETRIED, text)])))
    assert marked(Record([])) == []
    assert marked(Record([(HEADER_RETRIED, None)])) == []


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_a_set(seed):
    rng = random.Random(seed)
    ranges, twin = Ranges(), set[int]()
    for _ in range(60):
        start = rng.randrange(200)
        stop = start + rng.randrange(0, 25)
        ranges.add(start, stop)
        twin.update(range(start, stop))
        assert [offset in ranges for offset in range(230)] == [offset in twin for offset in range(230)]


def test_groups_count_what_is_wanted():
    overview = Overview(LetterFilter(["not-json"], since=100))
    letter = letter_of(Record(headers()))
    for offset, stamp in enumerate([100, 99, 300, 200]):
        overview.take(letter._replace(offset=offset, timestamp=stamp))
    overview.take(letter._replace(reason="empty", timestamp=500))
    overview.take(letter._replace(topic="s.labels", timestamp=500, offset=4, partition=1))
    overview.mark(0, [(2, 5)])
    assert overview.groups() == [
        ("not-json", "", "s.features", 0, 3, 100, 300, 2),
        ("not-json", "", "s.labels", 0, 1, 500, 500, 0),
    ]
    assert (overview.left(0), overview.left(1), overview.left(2)) == ([0], [4], [])


def test_letters_are_about_a_field_where_their_reason_is():
    letter = letter_of(Record(headers()))
    wrong = letter._replace(reason="wrong-type", detail="x.amount: expected a number, found a text")
    assert [one.field for one in (letter, wrong, wrong._replace(detail="no colon"))] == ["", "x.amount", ""]
    assert wrong._replace(reason="not-json").field == ""
    assert wrong._replace(detail="f" * 101 + ": long").field == ""
    wanted = LetterFilter(["wrong-type"], fields=["x.amount"])
    assert wanted.has(wrong)
    assert not wanted.has(wrong._replace(detail="x.age: expected a number, found a text"))


def test_what_a_terminal_would_obey_is_shown_as_escapes():
    assert safe(b"\x1b[2J\r\n\x07 gr\xc3\xbc\xc3\x9fe \xff") == "\\x1b[2J\\r\\n\\x07 grüße \\\\xff".replace(
        "\\\\", "\\"
    )
    assert safe("\u202eabc\u200b\u2028") == "\\u202eabc\\u200b\\u2028"
    assert safe("plain [bold]text[/]") == "plain [bold]text[/]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--reason", "bad-luck"], "'bad-luck' is no reason: use tombstone"),
        (["list", "--since", "yesterday"], "neither a duration such as 24h nor a time"),
        (["show", "--at", "17"], "write PARTITION/OFFSET"),
        (["show", "--limit", "0"], "0 is not in the range"),
    ],
)
def test_a_mistake_is_named(tmp_path, arguments, said):
    command, *options = arguments
    result = CliRunner().invoke(cli, ["deadletters", command, str(tmp_path / "s.yaml"), *options])
    assert result.exit_code == 2
    assert said in result.output


def test_what_a_retry_counts_are_records_of_the_topics_that_it_writes_to(monkeypatch):
    """Of a copy that is the topic that it came from (`rekey`)."""
    spec = loads(
        "name: s\ntask: classification\nrekey: {features: shop.orders, labels: shop.paid}\nfeatures: {a: numeric}"
    )
    records = [
        Record([*came, *dead_letter_headers("s.features", 0, 12, "not-json", "")], value=b'{"id": "1", "x": {"a": 1}}')
        for came in ([("riparian-source", b"shop.orders/2/5")], [])
    ]
    records = [record._replace(offset=i) for i, record in enumerate(records)]

    async def read(tps, connection, take, overview):
        for record in records:
            take(letter_of(record))
        return {tp: SimpleNamespace(end=len(records)) for tp in tps}

    class Reader:
        position, seek = 0, staticmethod(lambda offset: None)

        async def read(self, end, most):
            at, self.position = self.position, end
            return records[at:end]

    @contextlib.asynccontextmanager
    async def reading(*_):
        yield Reader()

    monkeypatch.setattr(retries, "read", read)
    monkeypatch.setattr(retries, "reading", reading)
    limits = dict.fromkeys(("s.features", "s.labels", *spec.sources), 1_000_000)
    work = retries._Retry(spec, None, LetterFilter(), limits, None, True)

    async def run():
        return [at async for at in work._partition(TopicPartition("s.deadletters", 0), None)]

    asyncio.run(run())
    assert work.retried == {"shop.orders": 1, "s.features": 1}
