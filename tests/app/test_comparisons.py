"""What the metrics topic says of challengers, put together."""

import pytest
from click.testing import CliRunner

from riparian.app.cli.operate.compare import _show, command
from riparian.app.cli.operate.deadletters import _show_groups
from riparian.app.comparisons import ComparisonSeries
from riparian.app.errors import SpecError
from riparian.app.retries import Group
from riparian.models.evaluation.comparison import Comparison, bound
from riparian.topics import reports
from riparian.topics.records import MetricsRecord
from tests.models.test_comparison import classified, score


def record(partition, time, comparison, model="nb"):
    fields = {"stream": "s", "name": "naive-bayes", "offset": 0, "label_offset": 0, "n": 9, "overall": {}}
    return MetricsRecord(partition=partition, time=time, model=model, comparison=comparison, **fields)


def said(n, difference, since=0, labels=None, low=-0.1, high=0.3, variance=0.2, reach=1.0, begun=1):
    return {
        **{"labels": labels or n - since, "since": since, "difference": difference, "low": low, "high": high},
        **{"champion": 0.4, "reach": reach, "confidence": 0.95, "error": 0.05},
        **{"total_labels": n, "total_difference": difference, "total_variance": variance, "total_champion": 0.4},
        "total_begun": begun,
    }


def test_a_row_is_the_last_record_and_since_when_its_span_is():
    found = ComparisonSeries()
    for time, n in ((1000, 100), (2000, 900), (3000, 1500)):
        found.take(reports.read_report(reports.write(record(0, time, said(n, 0.1, since=max(0, n - 1000), low=0.01)))))
    (row,) = found.rows()
    assert (row.partition, row.labels, row.since, row.verdict) == (0, 1000, 2000, "better")
    assert row.challenger_loss == pytest.approx(0.3)
    found.take(record(0, 4000, said(10, -0.2, low=-0.3, high=-0.1)))  # the comparison began anew
    (row,) = found.rows()
    assert (row.labels, row.since, row.verdict) == (10, 4000, "worse")
    found.take(record(0, 5000, None))
    assert found.rows() == []


def test_all_partitions_are_put_together():
    """Of three partitions that do not depend on each other, the variances of the sums add up."""
    y, older, newer = classified(6000, 3, 0.3, 0.1)
    found, parts = ComparisonSeries(), []
    for k, of in enumerate((slice(0, 1000), slice(1000, 2500), slice(2500, 6000))):
        part = Comparison("classification")
        score(part, y[of], older[of], newer[of])
        one = part.whole(0.05)
        told = said(one.n, one.difference, variance=one.variance) | {"total_champion": one.loss}
        found.take(record(k, 1000 + k, told))
        parts.append(one)
    *rows, together = found.rows()
    n = sum(one.n for one in parts)
    mean = sum(one.n * one.difference for one in parts) / n
    width = bound(n, sum(one.n * one.variance for one in parts), 0.05 / 4) / n
    assert (together.partition, together.labels, together.since) == (None, n, 1000)
    assert together.difference == pytest.approx(mean)
    assert (together.low, together.high) == pytest.approx((mean - width, mean + width))
    assert together.champion == pytest.approx(sum(one.n * one.loss for one in parts) / n)
    assert together.verdict == "better"
    assert len(rows) == 3


def test_a_stream_without_challengers_has_nothing_to_compare(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\ntask: classification\nfeatures: {a: numeric}\nchampion: last-label\n")
    result = CliRunner().invoke(command, [str(path)])
    assert isinstance(result.exception, SpecError)
    assert "has none to compare with the champion" in str(result.exception)


def test_what_runs_beside_auto_is_compared_too(tmp_path, monkeypatch):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\ntask: classification\nfeatures: {a: numeric}\n")

    async def nothing(*_):
        return ComparisonSeries()

    monkeypatch.setattr("riparian.app.kafka.access.rights.enter", nothing)
    monkeypatch.setattr("riparian.app.comparisons.read", nothing)
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code == 0, result.exception
    assert "No label has come yet that both the champion and a challenger had predicted" in result.output
    assert "Labels of rows that neither knew an answer for do not count." in result.output


def test_a_challenger_that_is_none_any_more_is_left_out():
    found = ComparisonSeries()
    for model in ("nb", "other"):
        found.take(record(0, 1, said(100, 0.1), model))
    assert [row.challenger for row in found.rows()] == ["nb", "other"]
    later = record(0, 2, said(50, 0.1), "before")  # nb was promoted, and the champion goes on as "before"
    later.offset = 9
    found.take(later)
    assert [row.challenger for row in found.rows()] == ["before"]


def test_names_are_whole(capsys):
    found, name = ComparisonSeries(), "a-challenger-with-a-name-as-long-as-names-of-teams-are-in-large-companies"
    found.take(record(0, 1, said(100, 0.1), name))
    _show("s", found.rows(), None)
    shown = capsys.readouterr().out
    assert name in shown


def test_topics_of_dead_letters_are_whole(capsys):
    name = "cards.payments.of.a.team.with.long.names.and.many.streams.in.production.features"
    _show_groups([Group(**dict.fromkeys(Group._fields, 0) | {"reason": "wrong-type", "field": "x.a", "topic": name})])
    out = capsys.readouterr().out
    assert name in out
    assert "wrong-type: the record has a field of another type than declared; the detail names it." in out
