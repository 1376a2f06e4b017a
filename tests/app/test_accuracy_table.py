"""The table of every learner on every data set: which cells it has, what stands in them, what it says is missing."""

import pytest

from benchmarks import accuracy
from riparian.app.dataset.files.data import DataFile
from riparian.app.evaluation.evaluate import evaluate, problem_for, spec_for
from riparian.models.registry import REGISTRY

GENERATED = ";".join(accuracy.GENERATED)


def problem(task, n):
    """Of a generated stream, under the name of a data set."""
    recipe = accuracy.Recipe({"classification": "sea", "regression": "friedman"}[task], n)
    file = accuracy.SyntheticFile(recipe)
    return file, problem_for(file)


def test_every_learner_is_in_it_at_its_defaults():
    data = {"a": problem("classification", 20), "b": problem("regression", 10)}
    found = accuracy.cases(data, accuracy.rows_of(accuracy.OURS), accuracy.BEST, None, 1.0)
    rows = {(case.row, case.data): case for case in found}
    assert len(rows) == len(found)
    for entry in REGISTRY.values():
        for name, task in (("a", "classification"), ("b", "regression")):
            listed = task in entry.tasks and not entry.slow and entry.name not in accuracy.BATCH
            assert ((entry.name, name) in rows) == listed
            if listed:
                assert rows[entry.name, name].spec.models()["champion"] == (entry.name, entry.defaults())
    mc = rows["hoeffding-tree leaf_prediction=mc", "a"].spec.models()["champion"]
    assert mc[1]["leaf_prediction"] == "mc"
    assert list(dict.fromkeys(case.row for case in found))[:3] == [
        "hoeffding-tree", "hoeffding-tree leaf_prediction=nb", "hoeffding-tree leaf_prediction=mc",
    ]  # fmt: skip
    assert set(accuracy.MOA) <= {case.row for case in found}
    assert {row.label for row in accuracy.ROWS} <= {case.row for case in found}
    assert ("hoeffding-tree leaf_prediction=mc", "b") not in rows  # of classes only
    auto = rows["auto", "a"].spec
    assert list(auto.models()) == ["champion"]
    assert auto.models()["champion"][0] == "opinion-pool"


def figures(accuracy, size):
    return {"accuracy": accuracy, "peak_live_bytes": size}


def test_what_one_seed_alone_has_is_in_no_mean():
    found = accuracy.together([figures(0.5, 10) | {"unforeseen": 3}, figures(0.7, 12)])
    assert "unforeseen" not in found
    assert (found["accuracy"], found["peak_live_bytes"], len(found["runs"])) == (pytest.approx(0.6), 12, 2)


def test_what_stands_in_the_cells():
    data = {name: problem("classification", n)[1] for name, n in (("elec", 1200), ("x", 30))}
    results = {
        "hoeffding-tree": {"elec": figures(0.8194, 1_234_567), "x": figures(0.5, 12)},
        "naive-bayes": {"elec": figures(0.7, 100), "x": {"failed": "12 of 30 in 5 s"}},
        "fimt-dd": {},
    }
    lines = accuracy.tables(results, "classification", data, accuracy.MOA)
    assert "| *rows x features* | *1,200 x 3* | *30 x 3* |" in lines
    assert "| hoeffding-tree | **81.94** (81.94) | **50.00** |" in lines
    assert "| naive-bayes | 70.00 (73.35) | failed |" in lines
    assert "| hoeffding-tree | 1,235 | 0.012 |" in lines
    assert lines[-3:] == ["Failed:", "", "- naive-bayes on x: 12 of 30 in 5 s"]
    assert not [line for line in lines if "fimt-dd |" in line]
    errors = {name: {"y": {"mae": mae, "peak_live_bytes": 1}} for name, mae in (("fimt-dd", 2.0), ("orto", 1.5))}
    lines = accuracy.tables(errors, "regression", {"y": problem("regression", 5)[1]}, {})
    assert {"| fimt-dd | 2 |", "| orto | **1.5** |"} <= set(lines)


def test_a_run_that_takes_too_long_or_fails_says_so(monkeypatch):
    file, found = problem("classification", 5000)
    told = []
    monkeypatch.setattr(accuracy, "advance", told.append)
    case = accuracy.Case("r", "d", file, found.spec("naive-bayes", {}), found.goal, found.n, None, 0.0)
    assert accuracy.measure(case) == {"failed": "250 of 5,000 in 0 s"}
    assert sum(told) == 5000
    assert accuracy.measure(case._replace(goal="nothing"))["failed"].startswith("DataError: sea has no column")
    assert accuracy.measure(case._replace(seconds=60.0))["n"] == 5000


def test_the_command_prints_the_tables(capsys):
    names = ["--models", "naive-bayes,last-label", "--sets", "agrawal", "--limit", "300", "--jobs", "1", "--seeds", "1"]
    accuracy.main(names)
    text = capsys.readouterr().out
    assert "What `auto` is" not in text
    file = accuracy.SyntheticFile(accuracy.GENERATED["agrawal"])
    for model in ("naive-bayes", "last-label"):
        spec, goal, n = spec_for(file, model, {}, limit=300)
        expected = evaluate(file, spec, goal, n, limit=300, points=accuracy.POINTS)
        assert f"| {model} | {100 * expected['accuracy']:.2f} |".replace("**", "") in text.replace("**", "")


@pytest.mark.data
def test_the_data_sets_are_there(data_dir):
    found = accuracy.data_sets(data_dir, list(accuracy.FILES), 1000)
    assert {name: problem.fields["task"] for name, (_, problem) in found.items()} == {
        **dict.fromkeys(("elec", "weather", "pendigits", "nursery", "splice"), "classification"),
        **dict.fromkeys(("fried", "abalone"), "regression"),
    }
    assert all(isinstance(file, DataFile) for file, _ in found.values())
