"""Topics that do not stay as they were while a worker runs: added partitions are told, and what is gone ends it."""

import logging
from pathlib import Path
from typing import Any

import pytest

from riparian.app.errors import TopicError
from riparian.app.worker.faust_client import topic_watch
from riparian.app.worker.faust_client.topic_watch import GrownError, TopicWatch
from riparian.topics.names import changelog_topic
from tests.broker.harness import stream_file


def watched(tmp_path: Path, **fields: Any) -> tuple[TopicWatch, dict[str, int | None]]:
    _, spec = stream_file(tmp_path, "s", partitions=2, **fields)
    watch = TopicWatch(spec)
    there: dict[str, int | None] = dict.fromkeys((*filter(None, spec.topics.model_dump().values()), "s-state"), 2)
    there[changelog_topic("s")] = 2
    if spec.topics.learned is not None:
        there[spec.topics.learned] = 1
    return watch, there


def test_partitions_that_are_added_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch, there = watched(tmp_path, control=True)
    watch.compare(there)
    assert watch.unread == {}
    assert not caplog.records
    grown = there | {"s.labels": 4, "s.control": 3, "s.predictions": 3, "s.learned": 2, "s.features": None}
    for _ in range(2):
        watch.compare(grown)
    assert watch.unread == {"s.labels": [2, 3], "s.control": [2]}
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 4
    wait = "are not read: the stream has 2, and it has them, too, as soon as features and labels both do"
    assert f"partitions 2 and 3 of s.labels {wait}" in said
    assert "partition 2 of s.predictions is not used: the stream has 2" in said
    assert "partition 1 of s.learned is not used: the stream has 1" in said
    watch.compare(grown | {"s.labels": 5})
    assert "partitions 2, 3 and 4 of s.labels" in caplog.records[-1].getMessage()


@pytest.mark.parametrize(
    ("found", "in_vain", "goes_on"),
    [
        ({"s.labels": 4, "s.features": 3}, 0, True),  # with 3
        ({"s.labels": 4}, 0, False),
        ({"s.labels": 4, "s.features": 6}, 4, False),  # as could not be had at the start
        ({"s.labels": 5, "s.features": 6}, 4, True),
        ({"s.predictions": 3}, 0, False),
        ({"s.predictions": 4, changelog_topic("s"): 4}, 4, False),  # others are on their way
        (dict.fromkeys(("s.predictions", "s.metrics", "s.drift", "s.deadletters", changelog_topic("s")), 4), 4, True),
    ],
)
def test_a_stream_whose_topics_have_grown_begins_again(
    tmp_path: Path, found: dict[str, int], in_vain: int, goes_on: bool
) -> None:
    watch, there = watched(tmp_path)
    watch.in_vain = in_vain, 2
    if not goes_on:
        watch.compare(there | found)
        return
    with pytest.raises(GrownError, match=f"the stream s goes on with {min(found.values())} partitions; it had 2"):
        watch.compare(there | found)


@pytest.mark.parametrize(("fields", "in_vain"), [({}, (4, 2)), ({"grow": "ask"}, (0, 0))])
def test_a_stream_begins_again_once_its_changelog_was_given_partitions(
    tmp_path: Path, fields: dict[str, str], in_vain: tuple[int, int]
) -> None:
    """By whoever makes topics, or by a command: then they get their first checkpoints, before the outputs are asked
    for."""
    watch, there = watched(tmp_path, **fields)
    watch.in_vain = in_vain
    grown = there | {"s.labels": 4, "s.features": 4}
    watch.compare(grown)
    with pytest.raises(GrownError, match="goes on with 4 partitions"):
        watch.compare(grown | {changelog_topic("s"): 4})
    again, _ = watched(tmp_path, **fields)
    again.in_vain = 4, 4
    for _ in range(2):
        again.compare(grown | {changelog_topic("s"): 4})


def test_a_stream_that_would_not_be_exact_stays_as_it_is(tmp_path: Path) -> None:
    past = {"a": "numeric", "n": {"count": "card", "half_life": "1h"}}
    watch, there = watched(tmp_path, keys={"card": {"from": "@key", "max": 100}}, features=past)
    watch.compare(there | dict.fromkeys(there, 4))
    assert watch.unread == {"s.features": [2, 3], "s.labels": [2, 3]}
    with pytest.raises(ValueError, match=r"features\.n: expected 2 partitions, since with others the records of a key"):
        watch._spec.with_partitions(4)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"s.deadletters": 0},
            "the topic s.deadletters was deleted while the worker ran: start the worker again, which",
        ),
        ({"s.metrics": 0}, "the topic s.metrics was deleted"),
        ({"s.features": 0}, "the topic s.features was deleted while the worker ran: bring its records back"),
        ({"s.learned": 0}, "the topic s.learned was deleted while the worker ran: bring its records back"),
        ({"s.control": 0}, "the topic s.control was deleted while the worker ran: start the worker again"),
        ({changelog_topic("s"): 0}, "was deleted while the worker ran: start the worker again to make the state anew"),
        ({"s.labels": 1}, "s.labels was deleted .* created again with other partitions: expected 2, found 1"),
    ],
)
def test_a_topic_that_stays_away_ends_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, int], said: str
) -> None:
    watch, there = watched(tmp_path, control=True)
    without = {topic: n for topic, n in (there | found).items() if n != 0}
    now = [0.0]
    monkeypatch.setattr(topic_watch.time, "monotonic", lambda: now[0])
    now[0] = 100.0
    watch.compare(without)  # a broker that starts may not know all at once
    watch.compare(there)
    now[0] = 200.0
    watch.compare(without)
    now[0] = 220.0
    with pytest.raises(TopicError, match=said):
        watch.compare(without)
