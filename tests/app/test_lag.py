"""How far a stream is behind, of the offsets that are known."""

import pytest
from aiokafka import TopicPartition

from app.cli.lag import _show
from app.kafka.lag import LagReport, lag_of

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
