"""Which predictions and labels the live page reads, of topics in memory."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from aiokafka.structs import ConsumerRecord, TopicPartition

from riparian.app.page import tail
from riparian.app.page.view import StreamView
from riparian.app.stream_file.spec import loads
from tests.app.page_records import NOW
from tests.processes import PATIENCE

TEXT = """
name: payments
task: classification
partitions: {partitions}
learning: partition
features: {{a: numeric{more}}}
classes: [ok, fraud]
champion: {{model: last-label}}
"""
BY_CARD = """keys: {card: {max: 9}}
rekey: {features: orders, labels: frauds, by: card}
"""


class Topics:
    """A consumer of topics that are lists of records."""

    def __init__(self, logs: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        self.logs, self.at, self.n_labels_read = logs, dict[TopicPartition, int](), 0

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def topics(self) -> set[str]:
        return {tp.topic for tp in self.logs}

    def assign(self, tps: list[TopicPartition]) -> None:
        self.at = dict.fromkeys(tps, 0)

    def seek(self, tp: TopicPartition, at: int) -> None:
        self.at[tp] = at

    async def position(self, tp: TopicPartition) -> int:
        return self.at[tp]

    async def beginning_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 0)

    async def end_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.highwater(tp) for tp in tps}

    def highwater(self, tp: TopicPartition) -> int:
        return len(self.logs[tp])

    async def getmany(
        self, *tps: TopicPartition, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        await asyncio.sleep(0)
        found = {tp: self.logs[tp][self.at[tp] :][:max_records] for tp in tps or self.at}
        for tp, records in found.items():
            self.at[tp] += len(records)
            self.n_labels_read += len(records) * tp.topic.endswith("labels")
        return {tp: records for tp, records in found.items() if records}


def log(tp, values):
    return [
        ConsumerRecord(tp.topic, tp.partition, i, NOW + i, 0, None, value, None, 0, len(value), ())
        for i, value in enumerate(json.dumps(one).encode() for one in values)
    ]


def world(spec, n):
    """Of each partition n predictions, each fourth an alert. With `rekey.by` all partitions get all labels."""
    logs, labels = {}, {p: [] for p in range(spec.partitions)}
    for p in range(spec.partitions):
        tp, made = TopicPartition(spec.topics.predictions, p), []
        for i in range(n):
            y = "fraud" if i % 4 == 0 else "ok"
            places = {"offset": i, "label_offset": 0, "model": "last-label"}
            made.append({"id": f"{p}-{i}", "y": y, "p": {"ok": 0.5, "fraud": 0.5}, **places})
            for each in labels if spec.rekey else [p]:
                labels[each].append({"id": f"{p}-{i}", "y": y})
        logs[tp] = log(tp, made)
    for p, values in labels.items():
        tp = TopicPartition(spec.topics.labels, p)
        logs[tp] = log(tp, values)
    return logs


async def followed(kept, done):
    """Follow topics until something is so."""
    task = asyncio.ensure_future(kept.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while not done():
                await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(tail, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(tail, "AGAIN_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_stream_file_that_changes_makes_the_rows_anew():
    text = TEXT.format(partitions=2, more="")
    view = StreamView(loads(text), clock=lambda: NOW)
    topics = Topics(world(view.spec, 40))
    kept = tail.Tail([view], SimpleNamespace(consumer=lambda **_: topics))
    counts = lambda: kept.outcomes["payments"].alerts(None, None, 9)["counts"]  # noqa: E731

    async def run():
        await followed(kept, lambda: kept.outcomes["payments"].n_labels == 80)
        assert (counts()["alerts"], counts()["predictions"]) == (0, 80)
        view.renew(loads(text + "decision: {class: fraud, alert_rate: 0.01}\n"))
        await followed(kept, lambda: kept.read and counts()["right"] == 20)
        assert (counts()["alerts"], counts()["predictions"]) == (20, 80)
        same = kept.outcomes["payments"]
        view.renew(loads(text + "decision: {class: fraud, alert_rate: 0.01}\npredictions: {reasons: 3}\n"))
        before = topics.n_labels_read
        await followed(kept, lambda: kept.read)
        assert (kept.outcomes["payments"] is same, topics.n_labels_read) == (True, before)

    asyncio.run(run())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("more", ["", BY_CARD])
def test_the_labels_of_all_kept_predictions_are_found(monkeypatch, more):
    """Also where each partition gets the labels of all."""
    monkeypatch.setattr(tail, "MOST", 160)
    text = TEXT.format(partitions=4, more=", usual: {mean: a, by: card, half_life: 7d}" if more else "")
    spec = loads(text + "decision: {class: fraud, alert_rate: 0.01}\n" + more)
    view = StreamView(spec, clock=lambda: NOW)
    topics = Topics(world(spec, 40))
    kept = tail.Tail([view], SimpleNamespace(consumer=lambda **_: topics))
    outcomes = kept.outcomes["payments"]
    asyncio.run(followed(kept, lambda: kept.read and topics.n_labels_read >= 160 and outcomes.n_labels >= 160))
    assert outcomes.alerts(None, None, 9)["counts"]["right"] == 40
    assert (topics.n_labels_read, len(outcomes._early)) == (160, 0)
    assert [outcomes.of_id(p, f"{p}-7")["outcome"] for p in range(4)] == ["passed"] * 4
    assert outcomes.of_id(1, "0-7") is None
