"""By which figure a stream is judged: of its file alone, and where accuracy says little."""

import pytest

from riparian.app.evaluation.measures.objective import beside, candidates, most_frequent, objective_of, wilson
from riparian.app.stream_file.spec import loads

HEAD = "name: s\nfeatures: {a: numeric}\n"
PLAIN = HEAD + "task: classification\nchampion: {model: naive-bayes}\n"
SCORES = HEAD + "task: anomaly\nchampion: {model: half-space-trees}\n"
RECENT = {"accuracy": 0.995, "cost": 0.2, "alert_rate": 0.01, "auroc": 0.9, "mae": 3.0, "balanced_accuracy": 0.7}
CLASSES = {"ok": {"n": 995.0, "recall": 1.0}, "fraud": {"n": 5.0, "recall": 0.6, "precision": 0.3}}


@pytest.mark.parametrize(
    ("text", "most", "title", "value", "weight"),
    [
        (PLAIN, 0.6, "Accuracy", 0.995, 1000),
        (PLAIN, 0.995, "AUROC", 0.9, 1000),
        (PLAIN + "metrics: {fading: 0.99}\n", 0.995, "Balanced accuracy", 0.7, 1000),
        (PLAIN + "decision: {class: fraud, alert_rate: 0.01}\n", 0.995, "Recall at 1 % alerts", 0.6, 5),
        (PLAIN + "decision: {class: fraud, precision: 0.9}\n", 0.995, "Recall at 90 % precision", 0.6, 5),
        (PLAIN + "decision: {class: fraud, recall: 0.8}\n", 0.995, "Precision at 80 % recall", 0.3, 10),
        (PLAIN + "decision: {costs: {fraud: {ok: 20}}}\n", 0.995, "Cost per 1,000 labels", 200.0, 1000),
        (PLAIN + "decision: {costs: {fraud: {ok: a}}}\n", 0.995, "Cost per 1,000 labels (by a)", 200.0, 1000),
        (SCORES, 0.0, "AUROC", 0.9, 1000),
        (SCORES + "decision: {alert_rate: 0.001}\n", 0.0, "Recall at 0.1 % alerts", None, 0),
        (HEAD + "task: regression\nchampion: {model: last-label}\n", 0.0, "Mean absolute error", 3.0, 1000),
    ],
)
def test_a_stream_is_judged_by_what_its_file_asks_for(text, most, title, value, weight):
    spec = loads(text)
    found = objective_of(spec, most)
    assert (found.title, found.value(RECENT, CLASSES)) == (title, value)
    assert found.weight(RECENT, CLASSES, 1000) == weight
    assert found.key in candidates(spec)
    assert found.key not in {one.key for one in beside(spec, found)}
    assert found.text(value) in found.phrase(value or 0.0) or value is None


def test_an_interval_holds_its_share_as_often_as_it_says():
    """By every outcome of n labels: the mean of what holds is near 95 %, for shares that are not at an end."""
    from math import comb

    for share in (0.1, 0.3, 0.5, 0.9):
        held = 0.0
        for k in range(101):
            low, high = wilson(k / 100, 100)
            held += comb(100, k) * share**k * (1 - share) ** (100 - k) * (low <= share <= high)
        assert 0.92 < held < 0.98
    assert wilson(0.0, 1e-6) == (0.0, pytest.approx(1.0, abs=1e-5))


def test_the_most_frequent_class_is_that_of_all_partitions():
    assert most_frequent([]) == most_frequent([{}]) == 0.0
    assert most_frequent([{"a": {"n": 1.0}, "b": {"n": 3.0}}, {"a": {"n": 6.0}}, {"a": {}}]) == 0.7
