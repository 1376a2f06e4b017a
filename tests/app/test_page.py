"""The live page without Kafka and browser: what is said, of which models, and by which requests."""

import graphlib
import re
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from riparian.app import comparisons
from riparian.app.errors import RiparianError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.ports import listen
from riparian.app.page import models, summary
from riparian.app.page.actions import Actions
from riparian.app.page.server import STATIC, Page, follow
from riparian.app.page.view import COUNTED_HOURS, HOUR_MS, MARKED, MOST_FIELDS, OTHER, OTHERS, StreamView
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.spec import loads
from riparian.topics import commands, reports
from riparian.topics.records import Distance, MetricsRecord
from tests.app.page_records import NOW, SHIFT, STREAM, compared, drift, letter, living, model, part, told, view_of


def test_nothing_yet_says_what_ends_it():
    found, said = told(view_of())
    assert found.kind == "empty"
    assert said.startswith(
        "No worker has run yet. Nothing is in taps.metrics yet. A worker writes the first figures 5 s"
    )
    assert found.cure == {"label": "Copy the start command", "command": "riparian worker taps.yaml"}


def test_all_is_well():
    found, said = told(living(view_of()))
    assert (found.kind, found.level) == ("good", "good")
    assert said == "All is well: 86.0 % of the predictions are right. Labels come, 2 partitions keep up."


def test_of_a_model_for_all_partitions_each_has_its_own_accuracy_and_the_model_is_there_once():
    view = StreamView(loads(STREAM.format(task="classification").replace("learning: partition", "learning: shared")))
    assert view.spec.shares
    for partition in (0, 1):
        view.take_report(part(partition))
    view.take_report(model(partition=0, accuracy=0.86, estimated={"accuracy": 0.9, "error": 0.1, "observed": 0.8}))
    own = {"accuracy": 0.7, "error": 0.0, "observed": 0.6}
    view.take_report(reports.write(MetricsRecord("taps", 1, NOW, "champion", "last-label", 9, 9, 0, {}, estimated=own)))
    view.take_drift(drift(), NOW - 90_000)
    for partition in (None, 0, 1):
        (row,) = [row for row in summary.models(view, partition) if row["role"] == "champion"]
        assert (row["value"], row["n"], row["nodes"]) == (0.86, 5000, 3)
        assert view.recent("champion", partition) == 0.86
        assert "objective:champion" in view.history(NOW - 60_000, NOW + 60_000, 10, partition)
    rows = summary.partitions(view, NOW)
    assert [row["score"] for row in rows] == [0.8, 0.6]
    assert [row["last_drift"] for row in rows] == [NOW - 90_000] * 2
    assert view.expected()[0] == pytest.approx(0.8)


def test_coverage_of_a_class_is_of_all_its_labels_over_partitions():
    view = view_of()
    for partition, n, coverage in ((0, 30.0, 0.2), (1, 10.0, 0.6)):
        classes = {"rare": {"n": n, "coverage": coverage}, "new": {"coverage": 1.0}, "other": {"n": 5.0}}
        fields = {"window": {"accuracy": 0.9}, "classes": classes}
        view.take_report(
            reports.write(MetricsRecord("taps", partition, NOW, "champion", "last-label", 9, 9, 40, {}, **fields))
        )
    rows = {partition: summary.models(view, partition)[0]["coverage"] for partition in (None, 1)}
    assert rows == {None: {"rare": pytest.approx(0.3)}, 1: {"rare": 0.6}}


def test_a_partition_without_a_worker_comes_first():
    view = living(view_of(), lag={"features": 5000})
    view.take_report(part(0, NOW + 40_000))
    found, said = told(view, NOW + 41_000)
    assert (found.kind, found.level) == ("nobody", "bad")
    assert said.startswith("Nobody works on partition 1.")
    assert (found.since, found.cure["command"]) == (NOW, "riparian worker taps.yaml")


def test_without_a_worker_the_lag_is_what_the_topics_hold_and_figures_carry_their_age():
    view = living(view_of(), offset=900, label_offset=700, lag={"features": 3}, latency_p99=0.2)
    later = NOW + 60_000
    view.take_report(part(0, later, lag={"features": 5}, latency_p99=0.1))
    view.take_ends({("features", 1): (0, 17_000), ("labels", 1): (800, 1000), ("features", 0): (0, 9999)}, later)
    found = summary.status(view, later, "x")
    assert [row["lag"] for row in found["partitions"]] == [5, 16_100 + 200]  # labels that Kafka has deleted do not wait
    assert (found["tiles"]["lag"], found["tiles"]["lag_of"]) == (16_305, 1)
    assert (found["tiles"]["p99"], found["tiles"]["since"], found["works"]) == (0.1, None, True)
    assert view.history(NOW, later + 2000, 50)["lag"].mean[-1] == 16_305
    much = later + 600_000
    found = summary.status(view, much, "x")["tiles"]
    assert [found[name] for name in ("rate", "p50", "p99", "workers", "since")] == [None, None, None, 0, later]
    assert not summary.status(view, much, "x")["works"]
    assert summary.status(view, much, "x", 1)["tiles"]["since"] == NOW
    gone = summary.status(view, much, "x", away=later + 1000)
    assert (gone["verdict"]["kind"], gone["tiles"]["lag"], gone["tiles"]["since"]) == ("away", None, later + 1000)
    assert [row["state"] for row in gone["partitions"]] == ["up to date", "nobody"]


def test_scores_of_labels_that_wait_for_a_time_name_it_and_what_had_no_label():
    view = living(view_of())
    assert summary.judged(view, NOW)["scored_until"] is None
    assert summary.tiles(view, NOW, summary.partitions(view, NOW))["without_label"] == {}
    for partition, until in ((0, NOW - 500_000), (1, NOW - 900_000)):
        view.take_report(part(partition, NOW + 1000, scored_until=until))
        counters = {"joined": 40, "assumed": 30 + partition, "null_labels": 0, "corrections": 2}
        view.take_report(model(partition=partition, time=NOW + 1000, counters=counters))
    rows = summary.partitions(view, NOW + 1000)
    found = summary.tiles(view, NOW + 1000, rows)
    assert summary.judged(view, NOW + 1000)["scored_until"] == NOW - 900_000
    assert found["without_label"] == {"assumed": 61, "corrections": 4}
    assert summary.tiles(view, NOW + 1000, rows, 0)["without_label"] == {"assumed": 30, "corrections": 2}


def test_partitions_that_nobody_reads_are_told():
    view = living(view_of(), unread={"taps.features": [2, 3], "another": [7]})
    found, said = told(view)
    assert (found.kind, found.level) == ("unread", "bad")
    assert said.startswith("Partitions 2 and 3 of taps.features are not read. They were added since the stream began")
    assert summary.status(view, NOW, "x")["unread"] == {"taps.features": [2, 3]}


def test_a_page_follows_its_stream_file(tmp_path):
    text, path, read = STREAM.format(task="classification"), tmp_path / "taps.yaml", {}
    path.write_text(text)
    view = living(StreamView(loads(text)))
    follow(view, path, read)
    view.take_report(model("third", accuracy=0.5))
    assert "third" not in {row["role"] for row in summary.models(view)}
    path.write_text(text.replace("second:", "third: "))
    follow(view, path, read)
    view.take_report(model("third", accuracy=0.5))
    assert "third" in {row["role"] for row in summary.models(view)}
    for other, why in (
        (text.replace("name: taps", "name: others"), "it names another stream or other topics"),
        (text.replace("champion", "champ"), "champ"),
        (None, "No such file"),
    ):
        path.unlink() if other is None else path.write_text(other)
        follow(view, path, read)
        assert why in summary.status(view, NOW, "x")["file_said"]
        assert view.spec.partitions == 2
        path.write_text(text)
        follow(view, path, read)
        assert view.file_said is None
    view.grow(3)
    path.write_text(text.replace("second:", "third: "))
    follow(view, path, read)
    assert (view.spec.partitions, set(view.spec.models())) == (3, {"champion", "third"})


def test_a_drift_now_is_told_with_its_figures_until_it_is_past():
    view = living(view_of(), alarms=["champion"])
    view.take_drift(drift(action="replace-started"), NOW - 500)
    found, said = told(view)
    assert found.kind == "drift"
    assert said.startswith(
        "Errors of the champion rose from 15 % to 28 % in partition 0. Found by adwin. A fresh model is on trial"
    )
    for partition in (0, 1):
        view.take_report(part(partition, NOW + 1000, offset=950, instances=950, learned=950))
    assert told(view)[0].kind == "drift"  # for a minute, although a thousand labels have come since
    for partition in (0, 1):
        view.take_report(part(partition, NOW + 61_000, offset=990, instances=990, learned=990))
    assert told(view, NOW + 62_000)[0].kind == "good"


def test_a_partition_that_is_behind_says_whether_it_catches_up():
    view = living(view_of(), before={"lag": {"features": 4000}}, lag={"features": 2000, "labels": 0})
    found, said = told(view)
    assert found.kind == "behind"
    assert said.startswith("Partitions 0 and 1 are behind by 4,000 records")
    falls = living(view_of(), before={"lag": {"features": 1000}}, lag={"features": 2000})
    assert "They fall further behind." in told(falls)[1]


def test_labels_that_never_came_and_labels_that_stopped():
    view = living(view_of(), before={"learned": 0}, learned=0, labels=0, waiting=900)
    assert told(view)[1] == (
        "1,800 predictions are out, and labels are awaited. Nothing can be judged until the first come."
    )
    view = living(view_of())
    later = NOW + 600_000
    for partition in (0, 1):
        view.take_report(part(partition, later, offset=9000, instances=9000, waiting=8100))
    found, said = told(view, later + 1000)
    assert found.kind == "late"
    assert said.startswith(
        "Labels come no more. 16,200 instances wait. Figures are of then; a drift would not be seen."
    )


def test_a_page_that_begins_later_learns_from_earlier_records_when_something_moved():
    view = view_of()
    for partition in (0, 1):
        view.take_report(part(partition, NOW + 500_000, waiting=900, learned=900))
    assert told(view, NOW + 501_000)[0].kind == "good"  # nobody has seen labels stop
    for time in range(NOW, NOW + 500_000, 60_000):  # the last of them moved at NOW + 60 s
        moved = time >= NOW + 60_000
        for partition in (0, 1):
            view.take_report(
                part(partition, time, waiting=900, learned=900 - 5 * (not moved), offset=800 + 100 * moved)
            )
    found, _ = told(view, NOW + 501_000)
    assert (found.kind, found.since) == ("quiet", NOW + 60_000)
    for partition in (0, 1):  # another worker takes them
        view.take_report(part(partition, NOW + 530_000, waiting=900, learned=900, started=NOW + 529_000))
    found, _ = told(view, NOW + 531_000)
    assert (found.kind, found.since) == ("quiet", NOW + 60_000)
    for partition in (0, 1):
        view.take_report(part(partition, NOW + 560_000, started=NOW + 529_000, waiting=990, learned=900, offset=990))
    found, _ = told(view, NOW + 561_000)
    assert (found.kind, found.since) == ("late", NOW + 60_000)


def test_labels_that_meet_no_instance():
    view = living(view_of(), before={"learned": 0}, learned=0, waiting=900)
    none = "1,800 predictions are out, and none of the 1,800 labels that came was theirs."
    assert told(view)[1] == f"{none} Nothing can be judged yet."
    for partition in (0, 1):
        record = MetricsRecord("taps", partition, NOW, "champion", "last-label", 9, 9, 0, {}, counters={"expired": 850})
        view.take_report(reports.write(record))
    found, said = told(view)
    assert (found.kind, found.level) == ("unjoined", "worse")
    assert said == (
        f"{none} 1,700 instances waited for {format_duration(view.spec.join.horizon)} in vain: labels come later than "
        "join.horizon, or have other ids."
    )
    later = NOW + 20_000
    view.take_report(part(0, later, offset=9000, instances=9000, learned=4, unmet="labels do not meet: ids differ"))
    found, said = told(view, later + 1000)
    assert (found.kind, found.level) == ("unjoined", "worse")
    assert said.endswith("labels that came were theirs. Labels do not meet: ids differ.")


def test_labels_whose_instances_have_left():
    view = living(view_of())
    assert told(view)[0].kind == "good"

    def counted(time: int, joined: int, unmatched: int) -> None:
        view.take_report(model(time=time, counters={"joined": joined, "unmatched": unmatched}))

    counted(NOW - 3_700_000, 0, 0)
    counted(NOW + 1000, 5000, 9000)  # those of more than an hour ago do not count
    assert told(view, NOW + 2000)[0].kind == "good"
    counted(NOW + 3000, 5700, 9300)
    found, said = told(view, NOW + 4000)
    assert (found.kind, found.level) == ("in vain", "worse")
    assert said == (
        "30 % of the labels found no instance: 300 of the last 1,000. Their instances had waited for join.horizon, "
        f"{format_duration(view.spec.join.horizon)}, and left unlearned, or have other ids. "
        "86.0 % of the predictions are right."
    )
    view.take_report(model(time=NOW - 5000, counters={"joined": 0, "unmatched": 0}))  # of before, read later
    assert view.labels_in_vain() == (300, 1000)
    rows = summary.partitions(view, NOW + 4000)
    assert summary.tiles(view, NOW + 4000, rows)["without_label"] == {"unmatched": 9300}


def test_records_of_long_ago_have_no_latency():
    view = living(view_of())
    for seconds, shown in ((0.5, 0.5), (50_000_000.0, None)):
        view.take_report(part(0, NOW + 1000 + (shown is None), latency_p50=seconds, latency_p99=seconds))
        row = summary.partitions(view, NOW + 2000)[0]
        assert (row["p50"], row["p99"]) == (shown, shown)


def test_labels_of_one_class_that_come_first_are_news():
    view = living(view_of())
    view.take_report(part(0, NOW + 1000, early="labels of fraud come 16d before those of ok"))
    found, said = told(view)
    assert (found.kind, found.level) == ("early", "news")
    assert said.startswith("Labels of fraud come 16d before those of ok.")


def test_a_challenger_that_is_better_and_a_stream_that_rests():
    view = living(view_of())
    view.take_report(model("second", comparison=compared(), accuracy=0.91))
    assert told(view)[1] == (
        "second makes 5.0 fewer errors in 100 than the champion in partition 0. Surely 3.0 to 7.0, over 5,000 labels. "
        "86.0 % of the predictions are right."
    )
    view.take_report(model("second", partition=1, comparison=compared(), accuracy=0.91))
    assert told(view)[1].startswith("second makes 5.0 fewer errors in 100 than the champion.")
    assert "over 10,000 labels." in told(view)[1]
    worse = compared(difference=-0.05, low=-0.07, high=-0.03)
    view.take_report(model("second", partition=1, time=NOW + 1, comparison=worse, accuracy=0.5))
    assert told(view)[0].kind == "good"  # better here, worse there
    view = living(view_of())
    for partition in (0, 1):
        view.take_report(part(partition, NOW + 60_000))
    found, said = told(view, NOW + 61_000)
    assert found.kind == "quiet"
    assert said == "Nothing new comes. 86.0 % of the predictions are right."


def test_without_labels_what_is_expected_is_told():
    view = living(view_of())
    later = NOW + 600_000
    for partition in (0, 1):
        view.take_report(part(partition, later, offset=9000, instances=9000, waiting=8100))
        view.take_report(
            model(partition=partition, time=later, accuracy=0.86, estimated={"accuracy": 0.7, "error": 0.01})
        )
    assert told(view, later + 1000)[1].endswith("70.0 % of the predictions are expected to be right.")
    found = summary.tiles(view, later, summary.partitions(view, later))
    assert (found["expected"], found["expected_error"]) == (pytest.approx(0.7), pytest.approx(0.01))
    series = view.history(later - HOUR_MS, later + 1, 50)
    assert np.nanmax(series["estimated:champion"].mean) == pytest.approx(0.7)
    assert np.nanmax(series["estimate-error:champion"].mean) == pytest.approx(0.01)


def test_challengers_are_compared_as_the_command_does():
    """The rows of `riparian compare`, since when they are, and what the rule has proposed and not done yet."""
    view, found = living(view_of()), comparisons.ComparisonSeries()
    for time, n in ((NOW - 120_000, 900), (NOW - 60_000, 2500), (NOW, 5000)):
        for partition in (0, 1):
            for value in (
                model("champion", partition, time + partition, accuracy=0.86),
                model("second", partition, time + partition, comparison=compared(n, since=max(0, n - 3000))),
            ):
                view.take_report(value)
                found.take(reports.read_report(value))
    rows, expected = view.compared(), found.rows()
    assert [row.since for row in expected] == [NOW - 60_000, NOW - 59_999, NOW - 120_000]
    assert [row._replace(since=None) for row in rows] == [row._replace(since=None) for row in expected]
    for row, same in zip(rows, expected, strict=True):
        assert 0 <= same.since - row.since < 10_000  # a bucket
    assert [row.partition for row in view.compared(1)] == [1]
    assert not [name for name in view.history(NOW - HOUR_MS, NOW + 1, 50) if name.startswith("compared")]
    proposed = commands.EventRecord(
        "taps", 1, 0, "proposed", "promote", 3, 3, 0, "better", model="second", by="promotion"
    )
    view.take_command(commands.write(proposed), NOW + 1)
    said = summary.comparison(view)
    assert said["proposed"] == [{"challenger": "second", "partition": 1, "time": NOW + 1}]
    assert said["rule"] is None
    done = commands.EventRecord("taps", 1, 1, "applied", "promote", 4, 4, 0, "done", model="second", by="me")
    view.take_command(commands.write(done), NOW + 2)
    assert summary.comparison(view)["proposed"] == []
    view.take_report(model("second", time=NOW + 3, comparison=compared() | {"total_labels": 0.0}))  # anybody's
    assert [row.partition for row in view.compared()] == [1]


def test_predictions_that_are_paused_are_told_until_they_go_on():
    view = living(StreamView(loads(STREAM.format(task="classification") + "control: true\n")))

    def give(what, partition, number, time):
        fields = ("applied", what, 3, 3, 0, "done")
        view.take_command(commands.write(commands.EventRecord("taps", partition, number, *fields, by="ann")), time)

    give("pause", 0, 0, NOW - 3000)
    give("pause", 1, 0, NOW - 2000)
    found, said = told(view)
    assert (found.kind, found.since) == ("paused", NOW - 3000)
    assert said.startswith("Predictions are paused in partitions 0 and 1 by ann. They come without a value")
    give("resume", 1, 1, NOW - 1000)
    give("resume", 1, 1, NOW - 1000)  # read twice
    assert told(view)[1].startswith("Predictions are paused in partition 0 by ann")
    give("resume", 0, 1, NOW)
    give("pause", 0, 0, NOW - 3000)  # of the days before, which are read later
    assert told(view)[0].kind == "good"


def test_scores_that_rank_no_better_than_by_chance_are_not_well():
    view = view_of("anomaly")
    for partition in (0, 1):
        view.take_report(part(partition, NOW - 1000, offset=800, instances=800, learned=800))
        view.take_report(part(partition))
        view.take_report(model(partition=partition, auroc=0.385))
    found, said = told(view)
    assert found.kind == "poor"
    assert said == "Scores rank no better than by chance: AUROC 0.385. By chance it is 0.5."


def test_a_shift_without_labels_is_told_with_its_shares():
    view = living(view_of())
    fields = {"model": None, "signal": "a", "detector": "two-sample", "before": 0.5, "after": 0.09}
    view.take_drift(drift(**fields, shift=SHIFT), NOW - 500)
    assert "The values of a have changed: 9 % up to 0.5, 50 % before" in told(view)[1]
    assert view.events[-1].shift.after == SHIFT.after
    view.take_drift(drift(**fields | {"model": "champion", "signal": "prediction"}, shift=SHIFT), NOW - 400)
    assert "The predictions of the champion have changed" in told(view)[1]
    distance = [Distance("a", 0.1, 0.2, 0.0, outside=0.3), Distance("prediction", 0.4, 0.9, 0.0, "champion")]
    view.take_report(part(1, NOW + 1, distances=distance))
    rows = summary.distances(view)
    assert [(row["partition"], row["signal"], row["hellinger"]) for row in rows] == [
        (1, "prediction", 0.4),
        (1, "a", 0.1),
    ]
    assert summary.distances(view, 0) == []


HUGE = "1" + "0" * 400
HOSTILE = {
    "waiting": (part(), '"waiting":0', f'"waiting":{HUGE}'),
    "lag": (part(), '"features":0', f'"features":{HUGE}'),
    "time": (part(), f'"time":{NOW}', f'"time":{HUGE}'),
    "started": (part(), '"started":', f'"started":{HUGE},"s":'),
    "partition": (model(), '"partition":0', f'"partition":{2**63}'),
    "before partition 0": (model(), '"partition":0', '"partition":-1'),
    "text": (model(), '"n":5000', '"n":"5000"'),
    "score": (model(accuracy=0.5), "0.5", "1e400"),
    "depth": (model(), "{", '{"other":' + "[" * 100_000),
    "not UTF-8": (model(), "champion", "\xff"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_record_that_no_worker_writes_is_counted_and_changes_nothing(name):
    """Each of these ended the page at every start, or would have been kept."""
    whole, there, instead = HOSTILE[name]
    value = whole.replace(there.encode(), instead.encode("latin-1"), 1)
    assert value != whole
    view = living(view_of())
    before = summary.status(view, NOW, "x")
    view.take_report(value)
    assert summary.status(view, NOW, "x") == before | {
        "left_out": [{"topic": "taps.metrics", "why": "unreadable", "n": 1}]
    }


@pytest.mark.parametrize("accuracy", [5.0, -1.0])
def test_a_share_beyond_0_and_1_leaves_the_page(accuracy):
    view = living(view_of())
    for partition in (0, 1):
        view.take_report(model(partition=partition, accuracy=accuracy, time=NOW + 1))
    row = summary.status(view, NOW, "x")["models"][0]
    assert 0.0 <= row["low"] <= row["high"] <= 1.0


def test_a_model_that_is_gone_gives_its_colour_back():
    view = living(StreamView(loads(STREAM.format(task="classification") + "control: true\n"), clock=lambda: NOW))
    for i in range(40):
        view.take_report(model(f"made-up-{i}", time=NOW + i, accuracy=0.5))
        mine = {row["name"]: row["look"] for row in summary.models(view)}
        assert len(set(mine.values())) == min(len(mine), summary.LOOKS)
        assert view.looks.keys() <= {*mine, "second", "champion", "last-label"}


def test_of_a_pool_the_weights_of_the_members_that_it_has_are_kept_over_time():
    def told(time, partition=0, **members):
        record = msgspec.json.decode(model("champion", partition, time, accuracy=0.8), type=MetricsRecord)
        view.take_report(reports.write(msgspec.structs.replace(record, members=members or None)))

    def lines(pool, partition=None):
        found = view.history(NOW - 600_000, NOW + 1, 300, partition, pool)
        return {
            name: [*each.mean[~np.isnan(each.mean)].tolist()] for name, each in found.items() if ":champion:" in name
        }

    view = view_of()
    told(NOW - 20_000, tree=0.75, bayes=0.25)
    told(NOW - 10_000, tree=0.25, bayes=0.5, last=0.0)  # `last` is new
    told(NOW - 30_000, tree=1.0, gone=0.5)  # of the days before, read later
    assert lines(None) == lines("second") == {}
    found = {"believed:champion:tree": [1.0, 0.75, 0.25], "believed:champion:bayes": [0.25, 0.5]}
    assert lines("champion") == found | {"believed:champion:last": [0.0]}
    assert summary.models(view)[0]["members"] == ["bayes", "tree", "last"]
    other = view_of()
    other.restore(tuple(rest) for _, *rest in view.dirty())
    assert other.series.keys() == view.series.keys()
    told(NOW, 1, tree=1.0, bayes=0.0)
    assert lines("champion", 1) == {"believed:champion:tree": [1.0], "believed:champion:bayes": [0.0]}
    told(NOW)  # another model was promoted
    assert lines("champion", 0) == {}
    assert view.forgotten == {f"0/believed:champion:{name}" for name in ("tree", "bayes", "last")}
    many = b",".join(b'"m%d":0.1' % i for i in range(65))
    view.take_report(model("champion", time=NOW + 1)[:-1] + b',"members":{%s}}' % many)
    assert view.left_out == {("metrics", "unreadable"): 1}


def test_what_is_of_another_stream_partition_or_model_or_of_tomorrow_is_counted():
    view = living(view_of())
    view.take_report(part().replace(b'"taps"', b'"other"', 1))
    view.take_report(part(2))
    for i in range(1000):
        view.take_report(model(f"made-up-{i}", accuracy=0.5))
    view.take_report(part(0, NOW + 86_400_000))
    assert view.take_drift(drift(), NOW + 86_400_000) is None
    assert view.take_drift(drift(detector="x" * 300), NOW) is None
    assert view.left_out == {
        ("metrics", "foreign"): 1002,
        ("metrics", "ahead"): 1,
        ("drift", "ahead"): 1,
        ("drift", "unreadable"): 1,
    }
    assert {role for role, _ in view.models} == {"champion"}
    # Commands bring models that no stream file names: the last few of them are kept.
    steered = StreamView(loads(STREAM.format(task="classification") + "control: true\n"), clock=lambda: NOW)
    for i in range(1000):
        steered.take_report(model(f"made-up-{i}", partition=i % 2, time=NOW + i, accuracy=0.5))
    assert {role for role, _ in steered.models} == {f"made-up-{i}" for i in range(1000 - OTHERS, 1000)}
    assert len(steered.series) == 2 * OTHERS
    assert len(steered.forgotten) == 2 * (1000 - OTHERS)


def test_dead_letters_that_no_worker_wrote_are_counted_and_reasons_are_ours():
    view = view_of()
    assert view.take_letter(letter({"riparian-topic": None})) is None
    assert view.take_letter(letter({"riparian-reason": None})) is None
    assert view.take_letter(letter({"riparian-partition": str(2**63).encode()})) is None
    assert view.take_letter(letter(time=NOW + 86_400_000)) is None
    assert view.left_out == {("deadletters", "unreadable"): 3, ("deadletters", "ahead"): 1}
    for i in range(1000):
        view.take_letter(letter({"riparian-reason": b"made up %d" % i}, time=NOW - i * HOUR_MS))
    assert {reason for _, reason, _ in view.n_letters} == {OTHER}
    assert len(view.n_letters) <= COUNTED_HOURS + 1
    for _ in range(3):
        view.take_marks(0, [(2 * i, 2 * i + 1) for i in range(MARKED)])
    assert view.letters[-1].time == NOW


def test_the_champion_auto_is_called_so_and_keeps_the_name_of_its_series() -> None:
    view = StreamView(loads("name: taps\ntask: classification\nfeatures: {a: numeric}\n"), clock=lambda: NOW)
    record = MetricsRecord("taps", 0, NOW, "champion", "opinion-pool", 5, 5, 5, {}, {"accuracy": 0.8})
    view.take_report(reports.write(record))
    champion = summary.models(view)[0]
    assert [champion[key] for key in ("role", "name", "title", "learner")] == [
        "champion", "opinion-pool", "auto", "auto"
    ]  # fmt: skip
    told = summary.status(view, NOW, "taps.yaml")
    assert (told["objective"]["champion"], [one["name"] for one in told["reigns"]]) == ("auto", ["auto"])
    assert [one["title"] for one in summary.models(view_of())] == ["last-label", "second"]
    named = "name: taps\ntask: classification\nfeatures: {a: numeric}\nchallengers: {opinion-pool: last-label}\n"
    assert [(one["name"], one["title"]) for one in summary.models(StreamView(loads(named)))] == [
        ("champion", "auto"), ("opinion-pool", "opinion-pool")
    ]  # fmt: skip


def test_dead_letters_are_counted_by_field_and_equal_ones_are_one_row():
    view = view_of()
    for i in range(30):
        about = {"riparian-reason": b"wrong-type", "riparian-detail": (b"x.a: is", b"x.b: is")[i % 2]}
        view.take_letter(letter(about, time=NOW + i, offset=i))
    view.take_letter(letter({"riparian-topic": b"taps.labels"}, time=NOW - 1, offset=30))
    view.take_marks(0, [(28, 29), (4, 5)])
    assert view.letters_since(NOW) == {("wrong-type", "x.a"): 15, ("wrong-type", "x.b"): 15, ("not-json", ""): 1}
    rows = [(one.reason, one.detail, one.at, n, n_retried) for one, n, n_retried in view.alike()]
    assert rows == [
        ("wrong-type", "x.b: is", 29, 15, 0),
        ("wrong-type", "x.a: is", 26, 15, 2),  # the newest that was not retried
        ("not-json", "why", 30, 1, 0),
    ]
    for i in range(2 * MOST_FIELDS):  # as many as anybody makes up
        view.take_letter(letter({"riparian-reason": b"wrong-type", "riparian-detail": b"made-up-%d: no" % i}))
    assert len(view.letters_since(NOW)) <= MOST_FIELDS + 1
    later = NOW + 2 * COUNTED_HOURS * HOUR_MS  # what was counted then takes no room
    view.clock = lambda: later
    for i in range(2 * MOST_FIELDS):
        of_bag = {"riparian-reason": b"wrong-type", "riparian-detail": b"x[%d].a: no" % i}
        view.take_letter(letter(of_bag, time=later))
    assert view.letters_since(later) == {("wrong-type", "x.a"): 2 * MOST_FIELDS}


def test_letters_may_be_retried_where_another_stream_file_can_read_them() -> None:
    view, whole = view_of(), letter()
    reasons = (b"not-json", b"wrong-type", b"tombstone", b"prediction-too-large", b"made-up")
    for i, reason in enumerate(reasons):
        view.take_letter(letter({"riparian-reason": reason}, time=NOW + i, offset=i))
    view.take_letter(letter({"riparian-size": b"1000000"}, time=NOW + 5, offset=5))
    whole.value, whole.offset = None, 6
    view.take_letter(whole)
    assert {one.at for one in view.letters if view.may_retry(one)} == {0, 1}
    view.take_marks(0, [(0, 1)])
    assert {one.at for one in view.letters if view.may_retry(one)} == {1}


def test_what_came_between_goes_to_its_place_and_old_history_changes_nothing_now():
    view = living(view_of())
    newest = view.partitions[0].last
    view.take_report(part(0, NOW - HOUR_MS, instances=3, learned=3))
    assert view.partitions[0].last == newest
    assert [event.kind for event in view.events] == ["assigned", "assigned"]  # one of each partition, told once
    for seconds in (0, 10, 20):  # of a worker before: it has its rates, and is no news of now
        time = NOW - 3 * HOUR_MS + 1000 * seconds
        view.take_report(part(0, time, started=NOW - 4 * HOUR_MS, instances=5 * seconds, learned=0))
    assert view.partitions[0].last == newest
    found = view.history(NOW - 4 * HOUR_MS, NOW, 400, 0)
    assert np.nanmax(found["in"].mean[:200]) == 5.0
    assert np.nanmax(found["learned"].mean[:200]) == 0.0
    assert (view.events[0].kind, view.events[0].time) == ("assigned", NOW - 4 * HOUR_MS)
    view.take_drift(drift(), NOW)
    view.take_drift(drift(n=3), NOW - 5)
    view.take_drift(drift(), NOW)  # read twice
    assert [event.n for event in view.events if event.kind == "drift"] == [3, 90]
    for time in (5, 3, 4):
        view.take_letter(letter(time=time))
    assert [letter.time for letter in view.letters] == [3, 4, 5]


@pytest.mark.parametrize(
    ("level", "action", "kind"),
    [
        ("warning", None, "warning"),
        ("drift", "alert", "drift"),
        ("drift", "reset", "reset"),
        ("drift", "replace-started", "replace-started"),
        (None, "replaced", "replaced"),
        (None, "dropped", "dropped"),
    ],
)
def test_an_event_is_named_after_what_was_done_or_else_seen(level: str | None, action: str | None, kind: str) -> None:
    view = view_of()
    view.take_drift(drift(level=level, action=action), NOW)
    assert view.events[0].kind == kind


def test_a_command_is_told_and_models_that_are_gone_are_left_out():
    view = living(StreamView(loads(STREAM.format(task="classification") + "control: true\n")))
    view.take_report(model("second", accuracy=0.7))
    value = commands.write(
        commands.EventRecord(
            "taps", 0, 0, "applied", "promote", 3, 3, 0, "second is the champion", model="second", by="me", id="x"
        )
    )
    event = view.take_command(value, NOW + 1)
    assert (event.kind, event.action, event.by, event.said) == ("applied", "promote", "me", "second is the champion")
    assert view.events[-1] == event
    by_rule = commands.EventRecord("taps", 0, 1, "proposed", "promote", 9, 9, 0, "second is better", by="promotion")
    assert view.take_command(commands.write(by_rule), NOW + 2).kind == "proposed"
    assert view.take_command(b"{", NOW) is None
    for time in (NOW + 1000, NOW + 2000):
        for role in ("champion", "last-label"):
            view.take_report(model(role, time=time, accuracy=0.7))
    rows = summary.models(view, 0)
    assert [(row["role"], row["learner"]) for row in rows] == [("champion", "last-label"), ("last-label", "last-label")]


def test_a_port_that_is_taken_is_a_sentence_with_the_option_of_the_command():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RiparianError, match="perhaps by another worker or page: choose another by --port, or"):
            listen("127.0.0.1", port)


# -- models ------------------------------------------------------------------------------------------------------------


def test_a_tree_for_the_browser_has_the_sums_of_its_leaves():
    nodes = [
        {
            "id": 0,
            "depth": 0,
            "parent": None,
            "weight": 9,
            "feature": "a",
            "threshold": 0.5,
            "children": [1, 2],
            "value": {},
        },
        {"id": 1, "depth": 1, "parent": 0, "weight": 6.0, "value": {"no": 6.0, "yes": 0.0}},
        {"id": 2, "depth": 1, "parent": 0, "weight": 2.0, "value": {"no": 0.0, "yes": 4.0}},
    ]
    (tree,) = models.trees_of(nodes)
    root, left, right = tree["nodes"]
    assert (root["weight"], root["value"]) == (8.0, {"no": 6.0, "yes": 2.0})
    assert (left["if"], right["if"]) == ("a ≤ 0.5", "a > 0.5")
    assert root["children"] == [1, 2]
    assert models.trees_of([nodes[1] | {"parent": None}]) == []


# -- what the browser runs ---------------------------------------------------------------------------------------------


def test_the_page_s_modules_import_each_other_in_one_direction():
    imported = {
        path.name: re.findall(r'^import .* from "\./(.+)";$', path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in STATIC.glob("*.js")
    }
    assert {"format.js", "pages.js"} <= {*imported["main.js"]}
    assert (
        tuple(graphlib.TopologicalSorter(imported).static_order())[-1] == "main.js"
    )  # CycleError where one is a circle


# -- the server's requests ---------------------------------------------------------------------------------------------


def test_the_docs_name_each_request_and_its_method():
    page = Page(SimpleNamespace(views=[], connection=None), {}, None, actions=Actions(Connection("127.0.0.1:9092")))
    served = {
        (route.method, route.resource.canonical)
        for route in page.application().router.routes()
        if route.method != "HEAD" and route.resource is not None
    }
    docs = (Path(__file__).parents[2] / "docs" / "run" / "monitor.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(GET|POST) ([^`?]+)(?:\?[^`]*)?` \|", docs, re.MULTILINE))
    assert described == served - {("GET", "/"), ("GET", "/static/{name}")}
