"""What the metrics topic says of challengers beside the champion, by partition and of all partitions together."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.structs import TopicPartition

from riparian.app.kafka.admin import check_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, read_to_end
from riparian.models.evaluation.comparison import bound, share
from riparian.topics import reports
from riparian.topics.records import MetricsRecord

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

BETTER, WORSE, OPEN = "better", "worse", "open"
# Of a challenger's record and a number of labels: ms of the first record with more of them compared, None where it is
# not known.
Since = Callable[[MetricsRecord, float], int | None]


class ChallengerComparison(NamedTuple):
    """A challenger beside the champion.

    Attributes
    ----------
    challenger : its role. partition : None for all together.
    learner : its model's name.
    labels, since : of the span that is told of, and ms of the first metrics record in it; None where none is kept.
    champion, challenger_loss : mean losses: errors per label, or absolute errors, each counted as `reach` at most.
    difference, low, high : how much lower the challenger's is, and its interval.
    verdict : "better" or "worse" where the interval does not hold 0, "open" where it does.
    """

    challenger: str
    partition: int | None
    learner: str
    labels: int
    since: int | None
    champion: float
    challenger_loss: float
    difference: float
    low: float
    high: float
    reach: float
    confidence: float
    verdict: str


class Last(NamedTuple):
    """The last record of a challenger in a partition, and (ms, labels compared) of those before it."""

    record: MetricsRecord
    before: list[tuple[int, float]]


class ComparisonSeries:
    """What metrics records say, record by record."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], Last] = {}
        self._newest: dict[int, tuple[int, ...]] = {}  # partition -> place up to which its last records count
        self._models: dict[tuple[str, int], MetricsRecord] = {}

    def take(self, record: MetricsRecord) -> None:
        """A record of a model."""
        key = record.model, record.partition
        self._newest[record.partition] = _place(record)
        self._models[key] = record
        if record.comparison is None or not is_compared(record):
            self._last.pop(key, None)  # the champion, or a comparison that will begin anew
            return
        labels, last = record.comparison["total_labels"], self._last.get(key)
        before = [] if last is None or labels < last.before[-1][1] else last.before
        before.append((record.time, labels))
        self._last[key] = Last(record, before)

    def models(self) -> dict[str, list[MetricsRecord]]:
        """Role -> its last records, of those that there still are."""
        found: dict[str, list[MetricsRecord]] = {}
        for (role, partition), record in self._models.items():
            if _place(record) == self._newest[partition]:
                found.setdefault(role, []).append(record)
        return found

    def rows(self) -> list[ChallengerComparison]:
        """Of the last records, challenger by challenger; without challengers that are none any more."""
        now = {key: last for key, last in self._last.items() if _place(last.record) == self._newest[key[1]]}

        def since(record: MetricsRecord, labels: float) -> int | None:
            before = now[record.model, record.partition].before
            return next((time for time, n in before if n > labels), None)

        return rows_of({key: last.record for key, last in now.items()}, since)


NEEDED = {
    *("labels", "since", "champion", "difference", "low", "high", "confidence", "reach", "error"),
    *(f"total_{name}" for name in ("labels", "difference", "variance", "champion", "begun")),
}

MOST = 1e50  # largest figure whose squares and quotients stay within float64


def is_compared(record: MetricsRecord) -> bool:
    """Whether a record says how a challenger does beside the champion; anybody may have written it."""
    said = record.comparison
    if said is None or not said.keys() >= NEEDED:
        return False
    if max(map(abs, said.values())) > MOST or not said["reach"] > 1 / MOST or not 1 / MOST < said["error"] < 1:
        return False
    return min(said["total_labels"], said["total_begun"]) >= 1 and max(said["labels"], said["total_begun"]) < 1e15


def rows_of(records: Mapping[tuple[str, int], MetricsRecord], since: Since) -> list[ChallengerComparison]:
    """Every challenger by partition, and of all partitions where there are several.

    records : (role, partition) -> the last record, of those that are compared.
    """
    listed = []
    for name in dict.fromkeys(name for name, _ in records):
        of = [records[key] for key in sorted(records) if key[0] == name]
        listed += [_row(record, since) for record in of]
        if len(of) > 1:
            listed.append(_together(name, of, since))
    return listed


def _place(record: MetricsRecord) -> tuple[int, ...]:
    return record.offset, record.index, record.label_offset, record.label_index


async def read(spec: "Spec", connection: Connection) -> ComparisonSeries:
    """What the metrics topic says of a stream's models.

    Raises
    ------
    TopicError
        A topic has another number of partitions than the stream file says.
    """
    found = ComparisonSeries()

    def take(_: TopicPartition, records: Sequence[Any]) -> None:
        for one in records:
            try:
                record = reports.read_report(one.value)
            except ValueError:  # not one of ours: that is for a worker to complain about
                continue
            if isinstance(record, MetricsRecord) and record.stream == spec.name:
                found.take(record)

    report = await check_topics(spec, connection)
    metrics = spec.topics.metrics
    starts = {TopicPartition(metrics, k): 0 for k in range(report.partitions.get(metrics, 0))}
    await read_to_end(connection, starts, take, isolation=EVERYTHING)
    return found


def _row(record: MetricsRecord, since: Since) -> ChallengerComparison:
    said = record.comparison or {}
    return ChallengerComparison(
        challenger=record.model,
        partition=record.partition,
        learner=record.name,
        labels=int(said["labels"]),
        since=since(record, said["since"]),
        champion=said["champion"],
        challenger_loss=said["champion"] - said["difference"],
        difference=said["difference"],
        low=said["low"],
        high=said["high"],
        reach=said["reach"],
        confidence=said["confidence"],
        verdict=_verdict(said["low"], said["high"]),
    )


def _together(name: str, records: Sequence[MetricsRecord], since: Since) -> ChallengerComparison:
    """All labels of all partitions since their comparisons began: partitions do not depend on each other, so variances
    add up. A statement of its own with the same confidence."""
    said = [record.comparison or {} for record in records]
    n, reach = sum(one["total_labels"] for one in said), max(one["reach"] for one in said)
    fields = "total_difference", "total_champion"
    mean, loss = (sum(one[field] * one["total_labels"] for one in said) / n for field in fields)
    variance = sum(one["total_variance"] * one["total_labels"] for one in said) / reach**2
    times = 1 + sum(int(one["total_begun"]) - 1 for one in said)  # each anew is another statement
    width = bound(int(n), variance, min(one["error"] for one in said) * share(0, times)) * reach / n
    begun = [time for record in records if (time := since(record, -1)) is not None]
    low, high = max(-reach, mean - width), min(reach, mean + width)
    return ChallengerComparison(
        name,
        None,
        records[0].name,
        int(n),
        min(begun) if len(begun) == len(records) else None,
        loss,
        loss - mean,
        mean,
        low,
        high,
        reach,
        said[0]["confidence"],
        _verdict(low, high),
    )


def _verdict(low: float, high: float) -> str:
    return BETTER if low > 0.0 else WORSE if high < 0.0 else OPEN
