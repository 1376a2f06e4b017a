"""Challengers beside the champion in the fold: what a twin says, and what goes on with which pair."""

import pytest

from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import build
from riparian.models.evaluation.comparison import Comparison
from tests.app.test_drift import FILE, fold, records
from tests.models.naive_comparison import NaiveComparison

CHALLENGERS = {
    "classification": {"bayes": "naive-bayes", "most": "majority-class"},
    "regression": {"mean": "mean", "tree": "fimt-dd"},
}


def stream(task, **changes):
    champion = "last-label"
    drift = {"detectors": {"adwin": {"delta": 0.01}}, "on_drift": "reset"}
    return build(
        {**FILE, "task": task, "champion": champion, "challengers": CHALLENGERS[task], "drift": drift} | changes, "s"
    )


DECIDED = {"decision": {"class": "up", "alert_rate": 0.2}, "classes": ["down", "up"]}


@pytest.mark.parametrize(("task", "changes"), [("classification", {}), ("classification", DECIDED), ("regression", {})])
def test_what_is_compared_are_the_predictions_that_were_made(task, changes, monkeypatch):
    """The twin is shown each label with the rows of predictions, one by one; of a target with the classes named."""
    twins = {}

    def said(out, named, row):
        if named is None or named[row, 0] != named[row, 0]:
            return out[row].tolist()
        return [float(code == named[row, 0]) for code in range(out.shape[1])]

    def score(self, program, older, newer, by_cost=None):
        twin = twins.setdefault(id(self), (self, NaiveComparison(task)))[1]
        for op, row, y in zip(program.op, program.row, program.y, strict=True):
            if op:
                names = (None, None) if by_cost is None else (by_cost.older, by_cost.newer)
                twin.score(y, said(older, names[0], row), said(newer, names[1], row))
        real(self, program, older, newer, by_cost)

    real = Comparison.score
    monkeypatch.setattr(Comparison, "score", score)
    learner = fold(stream(task, **changes), records(task), 64)[0]
    champion = learner.roles["champion"].metrics.metrics()["n"]
    assert len(learner.lineup.comparing.figures()) == 2
    for (name, figures), (_, twin) in zip(learner.lineup.comparing.figures().items(), twins.values(), strict=True):
        assert name in CHALLENGERS[task]
        told = twin.advantages(0.05 / 2)
        decided = [one for one in told if one[3] > 0 or one[4] < 0] or sorted(told, key=lambda one: one[4] - one[3])
        found = [figures[field] for field in ("since", "labels", "difference", "low", "high")]
        assert found == pytest.approx(decided[0], rel=1e-9)
        assert figures["total_labels"] <= champion


def test_a_comparison_goes_on_with_its_pair_only():
    task = "classification"
    spec = stream(task)
    learner = fold(spec, records(task), 1000)[0]
    cut = learner.snapshot()

    def after(**changes):
        restored = PartitionLearner(stream(task, **changes))
        restored.restore(cut)
        return restored.figures().compared

    known = learner.figures().compared
    assert after() == known
    # A new name goes on with its state; a new challenger begins.
    renamed = after(challengers={"b": "naive-bayes", "one": {"model": "hoeffding-tree"}})
    assert {**renamed["b"]} == known["bayes"]
    assert set(renamed) == {"b"}
    # Champion and challenger have changed places: that is another champion.
    assert after(champion="naive-bayes", challengers={"last": "last-label", "most": "majority-class"}) == {}


def test_a_state_without_comparisons_is_read_and_they_begin():
    spec, data = stream("classification"), records("classification")
    learner = fold(spec, data, 1000)[0]
    cut = learner.snapshot()
    arrays = {name: array for name, array in cut.arrays.items() if not name.startswith("compared/")}
    older = PartitionLearner(spec)
    older.restore(cut._replace(arrays=arrays))
    assert older.figures().compared == {}


def test_a_comparison_goes_on_where_both_of_its_roles_do():
    learner = fold(stream("classification"), records("classification"), 1000)[0]
    comparing, roles, known = learner.lineup.comparing, learner.roles, learner.figures().compared
    roles["bayes"].name = "other"
    comparing.line_up({"champion": roles["champion"], "other": roles["bayes"], "most": roles["most"]})
    assert comparing.figures() == {"other": known["bayes"], "most": known["most"]}
    comparing.line_up({"champion": roles["champion"], "most": roles["most"]})
    assert comparing.figures()["most"]["low"] > known["most"]["low"]  # one challenger less shares the confidence
    comparing.line_up({"champion": roles["champion"], "most": roles["most"], "other": roles["bayes"]})
    assert set(comparing.figures()) == {"most"}
    comparing.line_up({"champion": roles["most"], "most": roles["champion"]})
    assert comparing.figures() == {}
