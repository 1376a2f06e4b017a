"""How far a stream is behind, of the offsets that are known."""

import pytest
from aiokafka import TopicPartition

from riparian.app.cli.operate.lag import _show
from riparian.app.kafka.topics.lag import LagReport, lag_of

PART = TopicPartition("s.features", 0)


@pytest.mark.parametrize(
    ("start", "end", "known", "behind"),
    [(0, 9, [4, 2], 5), (0, 9, [], None), (3, 9, [0], 6), (9, 9, [0], 0), (0, 4, [9], 0)],
)
def test_what_kafka_has_deleted_is_not_waited_for(start, end, known, behind):
    assert lag_of(PART, start, end, known, None).lag == behind


def test_what_was_deleted_unprocessed_is_said(capsys):
    rows = (lag_of(PART, 120_000, 120_000, [0], 0), lag_of(TopicPartition("s.labels", 0), 5, 9, [7], 7))
    _show("s", LagReport("riparian-s", 1, rows), 2)
    shown = capsys.readouterr().out
    assert "2 records behind." in shown
    assert "s.features, partition 0: Kafka has deleted 120,000 records that were not processed" in shown
    assert "s.labels, partition" not in shown


def test_names_are_whole_and_what_waits_to_be_copied_is_told_apart(capsys):
    """In a pipe of 80 columns both topics were `cards.payments.…`."""
    names = [f"cards.payments.of.a.team.with.long.names.{kind}" for kind in ("features", "labels")]
    rows = [lag_of(TopicPartition(name, 0), 0, 9, [7], 7) for name in names]
    rows.append(lag_of(TopicPartition("cards.payments", 0), 0, 5, [2], 2)._replace(copied=True))
    rows[0] = rows[0]._replace(foreign=9)
    _show("s", LagReport("riparian-s", 1, tuple(rows)), 7)
    shown = capsys.readouterr().out
    assert all(name in shown for name in names)
    assert "7 records behind, 3 of them not copied yet." in shown
    assert f"The offsets of the group riparian-s for {names[0]}[0] are none of a checkpoint" in shown
