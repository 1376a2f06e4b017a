"""Dead letters of records and of predictions, each once, and none larger than its topic takes."""

from riparian.app.partition.outcome import DeadLetter
from riparian.app.worker.task.dead_letters import letters, sendable
from riparian.topics.names import (
    HEADER_HEADERS_SIZE,
    HEADER_KEY_SIZE,
    HEADER_OFFSET,
    HEADER_RETRIED,
    HEADER_SIZE,
    HEADER_TOPIC,
)
from riparian.topics.records import PREDICTION_TOO_LARGE, TOO_LARGE


def test_those_that_were_sent_are_not_sent_again():
    rejected = {
        "f": [DeadLetter(offset, b"k", b"v", TOO_LARGE, "d") for offset in (3, 5, 9)],
        "l": [DeadLetter(4, None, None, TOO_LARGE, "d")],
    }
    made = letters(0, rejected, {"f": 6}, 1_000_000)
    assert [dict(headers)[HEADER_OFFSET] for headers in made.headers] == [b"9", b"4"]
    assert made.reasons == [TOO_LARGE] * 2


def test_headers_of_the_record_are_kept_without_those_that_are_ours():
    own = [("ce_id", b"1"), ("riparian-topic", b"forged"), ("riparian-retried", b"0-9"), ("empty", None)]
    headers = letters(0, {"f": [DeadLetter(3, b"k", b"v", TOO_LARGE, "d", own)]}, {}, 50_000).headers[0]
    assert headers[:2] == [own[0], own[3]]
    assert dict(headers)[HEADER_TOPIC] == b"f"
    assert HEADER_RETRIED not in dict(headers)
    many = [("n", b"v" * 9000)]
    made = letters(0, {"f": [DeadLetter(3, b"k", b"v" * 70_000, TOO_LARGE, "d", many)]}, {}, 50_000)
    assert dict(made.headers[0])[HEADER_HEADERS_SIZE] == b"9001"
    assert "n" not in dict(made.headers[0])


def test_what_the_topic_does_not_take_is_cut_off():
    made = letters(0, {"f": [DeadLetter(3, b"k" * 70_000, b"v" * 70_000, TOO_LARGE, "d")]}, {}, 50_000)
    key, value, headers = made.keys[0], made.values[0], dict(made.headers[0])
    assert key is not None
    assert 49_000 < len(key) + len(value or b"") < 50_000
    assert (headers[HEADER_KEY_SIZE], headers[HEADER_SIZE]) == (b"70000", b"70000")


def test_predictions_that_their_topic_does_not_take_are_told():
    values = [b"v" * n for n in (100, 2000, 1500)]
    keys = [None, None, b"k" * 900]
    assert sendable([1, 2, 3], keys, values, 100_000) == (keys, values, [], None)
    assert sendable([1, 2, 3], keys, values, 100_000, first=2) == (keys[2:], values[2:], [], None)
    found = sendable([1, 2, 3], keys, values, 2100)
    assert [(one.offset, one.reason) for one in found.too_large] == [
        (2, PREDICTION_TOO_LARGE),
        (3, PREDICTION_TOO_LARGE),
    ]
    assert found.too_large[0].detail == "a prediction of 2000 bytes, of 2100 that its topic takes"
    assert (found.keys, found.values) == (keys[:1], values[:1])
    # What was sent before is not sent again, and is named again: its dead letter may be missing.
    again = sendable([1, 2, 3], keys, values, 2100, first=2)
    assert (again.keys, again.values, again.too_large) == ([], [], found.too_large)


def test_traces_stay_with_their_predictions():
    values, traces = [b"v" * n for n in (100, 3000, 100, 100)], [[("traceparent", b"%d" % i)] for i in range(4)]
    keys = [b"0", b"1", b"2", b"3"]
    made = sendable([5, 6, 7, 8], keys, values, 3000, 1, traces)
    assert (made.keys, made.headers, [one.offset for one in made.too_large]) == ([b"2", b"3"], traces[2:], [6])
    assert sendable([5, 6, 7, 8], keys, values, 100_000, 3, traces).headers == traces[3:]
