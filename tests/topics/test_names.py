"""Names on the wire stay what they are."""

import pytest

from riparian.topics import names


def test_topics_of_a_stream() -> None:
    assert [names.topic_name("elec", role) for role in (*names.INPUTS, *names.OUTPUTS)] == [
        "elec.features", "elec.labels", "elec.predictions", "elec.metrics", "elec.drift", "elec.deadletters",
    ]  # fmt: skip
    assert names.Topics._fields == (*names.INPUTS, *names.OUTPUTS, *names.STEERING, names.LEARNED)


def test_headers_of_a_dead_letter() -> None:
    assert names.dead_letter_headers("elec.features", 3, 12, "not-json", "größe: \ud800") == [
        ("riparian-topic", b"elec.features"),
        ("riparian-partition", b"3"),
        ("riparian-offset", b"12"),
        ("riparian-reason", b"not-json"),
        ("riparian-detail", "größe: ?".encode()),
        # as Kafka Connect's DeadLetterQueueReporter and Kafka Streams' ExceptionHandlerUtils call them
        ("__connect.errors.topic", b"elec.features"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"12"),
        ("__connect.errors.exception.class.name", b"not-json"),
        ("__connect.errors.exception.message", "größe: ?".encode()),
        ("__streams.errors.topic", b"elec.features"),
        ("__streams.errors.partition", b"3"),
        ("__streams.errors.offset", b"12"),
        ("__streams.errors.exception", b"not-json"),
        ("__streams.errors.message", "größe: ?".encode()),
    ]


@pytest.mark.parametrize("name", ["elec.features", "A-b_c.9", "x", "t" * 249])
def test_names_that_kafka_takes(name: str) -> None:
    names.check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "found nothing"),
        (".", 'found "."'),
        ("..", 'found ".."'),
        ("a b", 'found "a b"'),
        ("größe", "letters, digits"),
        ("a/b", "letters, digits"),
        ("a\n", "letters, digits"),
        ("t" * 250, "at most 249 characters, found 250"),
    ],
)
def test_names_that_kafka_refuses(name: str, said: str) -> None:
    with pytest.raises(ValueError, match="expected a topic name") as error:
        names.check_topic_name(name)
    assert said in str(error.value)


def test_a_dead_letter_is_cut_off_where_kafka_might_refuse_it() -> None:
    assert names.dead_letter(b"k", None) == (b"k", None, [])
    assert names.dead_letter(None, b"v" * 900_000) == (None, b"v" * 900_000, [])
    key, value, headers = names.dead_letter(b"k" * 70_000, b"v" * 2_500_000)
    assert (key, value) == (b"k" * 65_536, b"v" * (900_000 - 65_536))
    assert headers == [("riparian-key-size", b"70000"), ("riparian-size", b"2500000")]
    key, value, headers = names.dead_letter(b"k" * 300, b"v" * 300, 500)  # of a topic that takes little
    assert (key, value, headers) == (b"k" * 300, b"v" * 200, [("riparian-size", b"300")])
