"""What the live page makes of predictions and their labels, against slow twins: alerts, what came of them, figures."""

import threading

import numpy as np
import pytest

from riparian.app.page import alerts, outcomes, quality
from riparian.app.page.outcomes import Outcomes
from riparian.app.page.view import StreamView
from riparian.app.stream_file.spec import loads
from tests.app import naive_quality as naive
from tests.app.page_records import NOW, model

PAYMENTS = """
name: payments
task: classification
partitions: 2
learning: partition
features: {a: numeric}
classes: [ok, fraud]
champion: {model: last-label}
"""
RATE = "decision: {class: fraud, alert_rate: 0.01}\n"
WAITS = "join: {horizon: 2h, unlabelled: {is: ok, after: 2h}}\n"
FORECASTS = [
    "name: taps\ntask: regression\nfeatures: {a: numeric}\nlabel: {of: a, ahead: 1h}\n",
    "name: taps\ntask: classification\nfeatures: {a: numeric}\nlabel: {of: a, ahead: 1h, above: 5}\n",
]


def payments(more=RATE):
    return loads(PAYMENTS + more)


def said(id_, y="ok", p=0.01, **fields):
    return {"id": id_, "y": y, "p": {"ok": 1 - p, "fraud": p}, "offset": 0, "label_offset": 0, **fields}


def worlds():
    rng = np.random.default_rng(3)
    for n in (1, 2, 30, 700):
        for scores in (rng.random(n), rng.integers(0, 4, n) / 4, np.full(n, 0.3)):
            for share in (0.02, 0.5, 1.0):
                yield scores, rng.random(n) < share


def test_curves_are_what_each_threshold_gives():
    for score, own in worlds():
        curve = quality.precision_recall(score, own)
        if not own.any():
            assert curve["threshold"] == []
            assert quality.average_precision(score, own) is None
            continue
        assert len(curve["threshold"]) <= quality.POINTS + 2
        for threshold, *found in zip(*curve.values(), strict=True):
            assert found == pytest.approx(naive.at_threshold(score, own, threshold))
        assert curve["threshold"][0] == score.max()
        assert (curve["recall"][-1], curve["alerts"][-1]) == (1.0, 1.0)
        assert quality.average_precision(score, own) == pytest.approx(naive.average_precision(score, own))
        for threshold, found in zip(curve["threshold"], quality.costs(curve, own.mean(), 20.0, 3.0), strict=True):
            assert found == pytest.approx(naive.cost(score, own, threshold, 20.0, 3.0), abs=1e-12)


@pytest.mark.parametrize("most", [1, 2, 12])
def test_a_confusion_matrix_is_counted(most):
    rng = np.random.default_rng(1)
    for n, classes in ((0, 1), (1, 1), (300, 5)):
        label = rng.integers(0, classes, n).astype(float)
        named = np.where(rng.random(n) < 0.1, np.nan, rng.integers(-2, classes, n))
        assert quality.confusion(named, label, most) == naive.confusion(named, label, most)


def test_a_calibration_counts_what_came_of_what_was_said():
    for score, own in worlds():
        found = quality.calibration(score, own)
        assert sum(found["n"]) == len(score)
        assert len(found["n"]) <= quality.GROUPS
        start, ordered = 0, sorted(zip(score, own, strict=True), key=lambda one: one[0])
        for said_, came, low, high, n in zip(*(found[k] for k in ("said", "came", "low", "high", "n")), strict=True):
            part = ordered[start : start + int(n)]
            start += int(n)
            k = sum(is_own for _, is_own in part)
            assert said_ == pytest.approx(sum(value for value, _ in part) / n)
            assert came == pytest.approx(k / n)
            assert (low, high) == pytest.approx(naive.wilson(k, n), abs=1e-9)
            assert start == len(ordered) or ordered[start][0] > part[-1][0]  # equal scores are in one group


def test_histograms_and_errors_lose_none():
    rng = np.random.default_rng(2)
    score = np.concatenate((rng.random(500) ** 8, [0.0, 1.0]))
    edges = quality.edges_of(score, odds=True)
    counts = quality.histogram(score, edges)
    assert sum(counts) == len(score)
    for low, high, n in zip(edges, edges[1:], counts, strict=False):
        assert n == sum(low <= value < high or value == high == 1.0 for value in score)
    came = rng.normal(size=300)
    off = quality.errors(came + rng.normal(size=300) + 2.0, came)
    assert sum(off["counts"]) == 300
    assert off["mae"] > off["bias"] > 1.7
    constant = quality.errors(np.ones(20), np.ones(20))
    assert (sum(constant["counts"]), constant["mae"]) == (20, 0.0)


@pytest.mark.parametrize("more", ["", "join: {horizon: 2h, unlabelled: {is: ok, after: 1h}}\n"])
def test_what_came_of_predictions(more):
    """Ids that come again, labels before their predictions, in other partitions, null and twice; a small ring."""
    rng = np.random.default_rng(5)
    most, kept, labels, clock = 60, [], [], [0, 0]
    found = Outcomes(payments(RATE + more), most)
    for step in range(400):
        partition, id_, time = int(rng.integers(2)), str(rng.integers(250)), NOW + 60_000 * step
        alert = bool(rng.random() < 0.3)
        key = partition, id_
        if not any(one[:2] == key for one in kept) and not any(label[:2] == key for label in labels):
            found.take(partition, step, 0, time, said(id_, "fraud" if alert else "ok", 0.4 if alert else 0.1))
            kept.append((partition, id_, alert, time))
            clock[partition] = time
        if rng.random() < 0.5:
            of = kept[-int(rng.integers(1, min(len(kept), most - 10) + 1))] if kept and rng.random() < 0.9 else None
            partition, id_ = of[:2] if of else (int(rng.integers(2)), "nobody")
            y = [None, "ok", "fraud"][int(rng.integers(3))]
            labels.append((partition, id_, y))
            found.label(partition, id_, y, time)
    numbers, rows = found.rows()
    assert (found.n, len(rows)) == (len(kept), most)
    given = ("fraud", 3_600_000 if more else None, "ok" if more else None)
    expected = [naive.outcome(one, labels, given[0], clock[one[0]], *given[1:]) for one in kept[-most:]]
    assert found.outcome(rows).tolist() == expected
    counted = found.alerts(None, None, 1000)["counts"]
    for kind in (outcomes.RIGHT, outcomes.WRONG, outcomes.WAITING, outcomes.NO_LABEL):
        assert counted[kind] == sum(one[2] and kind == out for one, out in zip(kept[-most:], expected, strict=True))
    assert counted[outcomes.MISSED] == expected.count("missed")
    times = [row["time"] for row in found.alerts(None, 1, 7)["rows"]]
    assert times == sorted((one[3] for one in kept[-most:] if one[0] == 1 and one[2]), reverse=True)[:7]
    assert {row["outcome"] for row in found.alerts("missed", None, 9)["rows"]} <= {"missed"}
    for number, one in zip(numbers, kept[-most:], strict=True):
        shown = found.of_id(one[0], one[1])
        assert shown is not None
        assert (shown["time"], shown["outcome"]) == (one[3], expected[int(number) - found.n + most])
    assert found.of_id(0, "nobody") is None


@pytest.mark.parametrize("label_first", [True, False])
def test_an_update_brings_the_label_of_the_prediction_that_waits(label_first):
    found = Outcomes(payments("decision: {class: fraud, alert_rate: 0.01}\njoin: {unlabelled: {is: ok, after: 1s}}\n"))
    hour = 3_600_000
    found.take(0, 0, 0, NOW, said("a", "fraud", 0.9, offset=7))
    found.take(0, 1, 0, NOW + hour, said("a", "fraud", 0.9, offset=8))  # an update without a label
    if label_first:
        found.label(0, "a", "fraud", NOW + hour, 9)
    found.take(0, 2, 0, NOW + 2 * hour, said("a", "ok", 0.1, offset=9))  # the update with the label
    if not label_first:
        found.label(0, "a", "fraud", NOW + hour, 9)
    assert [found.at(0, position, 0)["outcome"] for position in range(3)] == ["right", "no label", "no label"]
    again = Outcomes(
        payments(RATE + "topics: {labels: null}\n")
    )  # learned ids are not remembered: a label inside a further record is its own
    again.take(0, 0, 0, NOW, said("a", offset=1))
    for offset in (2, 3):
        again.label(0, "a", "fraud", NOW, offset)
        again.take(0, offset, 0, NOW, said("a", "fraud", 0.9, offset=offset))
    assert [again.at(0, position, 0)["outcome"] for position in (0, 2, 3)] == ["missed", "no label", "right"]
    late = NOW + 9 * 24 * hour  # beyond the horizon, another instance
    found.take(0, 3, 0, NOW, said("b", "fraud", 0.9, offset=10))
    found.take(0, 4, 0, late, said("b", "fraud", 0.9, offset=11))
    found.label(0, "b", "ok", late)
    assert found.at(0, 4, 0)["outcome"] == "wrong"


def test_a_label_before_its_prediction_counts_and_the_first_of_two():
    found = Outcomes(payments())
    found.label(0, "a", "fraud", NOW)
    found.label(1, "b", "fraud", NOW)
    found.take(0, 5, 0, NOW, said("a", "fraud", 0.9, reasons={"a": 0.5}))
    found.take(0, 6, 0, NOW, said("b"))
    found.label(0, "a", "ok", NOW)
    shown = found.at(0, 5, 0)
    assert (shown["outcome"], shown["label"], shown["reasons"], shown["score"]) == ("right", "fraud", {"a": 0.5}, 0.9)
    assert found.at(0, 6, 0)["outcome"] == "waiting"  # the label is of another partition
    assert found.at(0, 7, 0) is None
    corrected = Outcomes(payments(RATE + "label: {on_repeat: correct}\n"))
    corrected.take(0, 5, 0, NOW, said("a", "fraud", 0.9))
    for y in ("fraud", "ok"):
        corrected.label(0, "a", y, NOW)
    assert corrected.at(0, 5, 0)["outcome"] == "wrong"


def test_what_is_no_prediction_is_left_out_and_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(outcomes, "MOST_ALERTS", 3)
    monkeypatch.setattr(outcomes, "MOST_EARLY", 4)
    found = Outcomes(payments(), most=10)
    for made in ({}, said("a") | {"id": 5}, said("a", reasons=[1]), said("a") | {"p": "x"}, said("a") | {"y": []}):
        found.take(0, 0, 0, NOW, made)
    assert found.n == 0
    for i in range(40):
        found.take(0, i, 0, NOW + i, said(str(i % 13), "fraud", 0.5, reasons={"a": 0.1}))
        found.label(0, f"unknown {i}", "ok", NOW)
    assert len(found.kept) == 3
    assert len(found._early) == 4
    assert len(found._of) <= 10
    assert len(found.rows()[1]) == 10


def test_an_anomaly_alerts_above_its_threshold_and_costs_name_the_dearest_class():
    machines = loads(
        "name: machines\ntask: anomaly\nfeatures: {a: numeric}\nchampion: {model: half-space-trees}\n"
        "decision: {alert_rate: 0.01}\n"
    )
    found = Outcomes(machines)
    for i, (score, alert) in enumerate([(0.2, False), (0.9, True), (None, None), (0.8, True)]):
        found.take(0, i, 0, NOW + i, {"id": str(i), "y": score, "alert": alert, "offset": i, "label_offset": 0})
    for i, y in ((0, 1.0), (1, 1.0), (3, 0.0)):
        found.label(0, str(i), y, NOW)
    assert found.alerts(None, None, 9)["counts"] == {
        **{"right": 1, "wrong": 1, "waiting": 0, "no label": 0, "alerts": 2, "missed": 1, "predictions": 4}
    }
    shown = found.at(0, 1, 0)
    assert (shown["y"], shown["score"], shown["label"]) == (0.9, 0.9, "1")
    priced = payments("decision: {costs: {fraud: {ok: 20}, ok: {fraud: 2}}}\n")
    assert outcomes.alert_class(priced) == "fraud"
    assert outcomes.prices(priced, ["ok", "fraud"]) == (20.0, 2.0)
    assert alerts.threshold_of(StreamView(priced), None) == pytest.approx(2 / 22)
    by_amount = payments(
        "decision: {costs: {ok: {fraud: 2}, fraud: {ok: a}}}\n"
    )  # each payment has a threshold of its own
    assert outcomes.alert_class(by_amount) == "fraud"
    first = payments("decision: {costs: {fraud: {ok: a}, ok: {fraud: a}}}\n")  # of two that are as dear
    assert outcomes.alert_class(first) == "fraud"
    assert outcomes.prices(by_amount, ["ok", "fraud"]) is None
    assert alerts.threshold_of(StreamView(by_amount), None) is None


def test_a_page_of_figures():
    rng = np.random.default_rng(7)
    view = StreamView(payments(), clock=lambda: NOW)
    found = Outcomes(view.spec)
    score = rng.random(2000) ** 6
    own = rng.random(2000) < score
    for i, (p, is_own) in enumerate(zip(score.tolist(), own.tolist(), strict=True)):
        found.take(i % 2, i, 0, NOW + i, said(str(i), "fraud" if p >= 0.3 else "ok", p))
        if i < 1500:
            found.label(i % 2, str(i), "fraud" if is_own else "ok", NOW + i)
    figures = quality.figures(found, 0.3, None)
    assert (figures["predictions"], figures["empty"], figures["labels"], figures["n"]) == (2000, 0, 1500, 1500)
    hits = int(np.sum(own[:1500] & (score[:1500] >= 0.3)))
    assert (figures["decided"]["hits"], figures["decided"]["missed"]) == (hits, int(own[:1500].sum()) - hits)
    assert figures["decided"]["recall"] == hits / own[:1500].sum()
    codes = figures["confusion"]["classes"].index("fraud")
    assert figures["confusion"]["counts"][codes][codes] == hits
    assert sum(figures["scores"]["all"]) == 2000
    assert sum(figures["scores"]["own"]) == own[:1500].sum()
    assert figures["curve"]["average"] == pytest.approx(naive.average_precision(score[:1500], own[:1500]))
    assert len(figures["calibration"]["said"]) == quality.GROUPS
    # Empty ones, from before the first label or of a pause, are none that a label tells anything of.
    found.take(0, 2000, 0, NOW + 2000, said("2000", None) | {"p": None})
    found.label(0, "2000", "ok", NOW + 2000)
    more = quality.figures(found, 0.3, None)
    assert (more["predictions"], more["empty"], more["labels"], more["n"]) == (2000, 1, 1500, 1500)
    # Labels of frauds come first: before the time of the others is up they say too much.
    waiting = Outcomes(payments(RATE + "join: {unlabelled: {is: ok, after: 2h}}\n"))
    for i in range(100):
        waiting.take(0, i, 0, NOW + 100_000 * i, said(str(i), p=0.5))
        if i % 3 == 0:
            waiting.label(0, str(i), "fraud", NOW)
    assert quality.figures(waiting, None, None)["n"] == 28
    assert quality.figures(waiting, None, None, early=True)["n"] == 28 + 24
    assert quality.figures(waiting, None, 1)["n"] == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PAYMENTS, "Write decision: {class: CLASS, alert_rate: 0.01}"),
        (PAYMENTS + RATE, "Write predictions: {reasons: {top: 3, of: alerts}}"),
        (PAYMENTS.replace("classification", "regression").replace("classes: [ok, fraud]\n", ""), "A value is no alert"),
        (PAYMENTS + RATE + "predictions: {probabilities: false}\n", "Remove predictions: {probabilities: false}"),
        *((text, "Labels of label.of are not read here") for text in FORECASTS),
    ],
)
def test_what_to_set_is_said(text, sentence):
    spec = loads(text)
    assert any(sentence in said_ for said_ in alerts.missing(spec))
    figures = quality.figures(Outcomes(spec), None, None)
    assert (figures["n"], figures["labels"]) == (0, None if text in FORECASTS else 0)


def test_the_threshold_is_the_median_over_partitions():
    view = StreamView(loads(PAYMENTS.replace("payments", "taps") + RATE), clock=lambda: NOW)
    assert alerts.about(view, None)["threshold"] is None
    for partition, threshold in ((0, 0.2), (1, 0.4)):
        view.take_report(model(partition=partition, threshold=threshold, alert_rate=0.01))
    assert alerts.about(view, None)["threshold"] == pytest.approx(0.3)
    assert alerts.about(view, 1)["threshold"] == 0.4
    assert alerts.about(view, 1)["target"] == ["alert_rate", 0.01]


def test_where_records_are_older_than_their_predictions_it_is_said():
    """Of a replay: `join.unlabelled` waits in the time of records, which a prediction does not say."""
    view = StreamView(payments(RATE + WAITS))
    for ago, more, expected in ((0, WAITS, False), (30 * 86_400_000, WAITS, True), (30 * 86_400_000, "", False)):
        for early in (False, True):
            found = Outcomes(payments(RATE + more), most=4)
            steps = [lambda: found.take(0, 0, 0, NOW, said("a")), lambda: found.label(0, "a", "fraud", NOW - ago)]  # noqa: B023
            for step in steps[::-1] if early else steps:
                step()
            assert (alerts.BEHIND in alerts.about(view, None, found)["missing"]) == expected
            for i in range(4):  # it is said as long as one of them is kept
                found.take(0, i, 0, NOW, said(f"b {i}"))
            assert alerts.BEHIND not in alerts.about(view, None, found)["missing"]


def test_alerts_are_counted_by_partition_beyond_those_with_reasons(monkeypatch):
    monkeypatch.setattr(outcomes, "MOST_ALERTS", 3)
    found = Outcomes(payments(), most=30)
    for i in range(40):
        found.take(i % 3 % 2, i, 0, NOW + i, said(str(i), "fraud" if i % 2 else "ok"))
    for partition in (None, 0, 1, 2):
        assert found.n_alerts(partition) == found.alerts(None, partition, 99)["counts"]["alerts"]
    assert found.n_alerts() == 15


class Watched(np.ndarray):
    """Calls back in the middle of taking a prediction."""

    def __setitem__(self, at, value):
        super().__setitem__(at, value)
        if isinstance(at, int):
            self.amid()


def test_a_prediction_is_taken_at_once_for_other_threads():
    """A new partition, and a ring that is overwritten: each row that is shown has its own id."""
    found, seen, threads = Outcomes(payments(RATE + WAITS), most=2), [], []
    for i in range(2):
        found.take(0, i, 0, NOW, said(f"a {i}", "fraud"))

    def amid():
        def ask():
            seen.extend((row["id"], row["partition"], row["position"]) for row in found.alerts(None, None, 9)["rows"])

        threads.append(threading.Thread(target=ask))
        threads[0].start()
        threads[0].join(0.3)  # it waits until the prediction is there
        found.matured(found.rows()[1])  # every row's partition has a time

    found._rows = found._rows.view(Watched)
    found._rows.amid = amid
    found.take(1, 5, 0, NOW, said("b", "fraud"))
    threads[0].join()
    assert sorted(seen) == [("a 1", 0, 1), ("b", 1, 5)]


@pytest.mark.parametrize(("n", "share"), [(40, 0.5), (400, 0.5), (2000, 0.1), (3000, 1.0), (900, 0.0)])
def test_average_precision_over_time_is_that_of_each_span(n, share):
    rng = np.random.default_rng(n)
    time, score, own = rng.integers(0, n, n), rng.integers(0, 30, n) / 30, rng.random(n) < share
    found = quality.average_over_time(time, score, own)
    wanted = naive.average_over_time(time.tolist(), score.tolist(), own.tolist(), quality.SPANS, quality.LEAST_SPAN)
    assert len(wanted) == min(quality.SPANS, int(own.sum()) // quality.LEAST_SPAN) * (
        own.sum() >= 2 * quality.LEAST_SPAN
    )
    assert [one[:2] for one in wanted] == list(zip(found["from"], found["to"], strict=True))
    assert found["value"] == pytest.approx([one[2] for one in wanted])
    assert found["chance"] == pytest.approx([one[3] for one in wanted])
