"""The bench of the frontier, with our learners alone: MOA is not fetched for a test."""

import json

import numpy as np
from click.testing import CliRunner
from sklearn.metrics import accuracy_score, cohen_kappa_score

from benchmarks.frontier import agreement, main, reason
from benchmarks.peers import PeerError


def test_agreement_is_that_of_scikit_learn():
    random = np.random.default_rng(2)
    y = random.integers(0, 4, 500)
    for named in (np.where(random.random(500) < 0.6, y, random.integers(-1, 4, 500)), y, np.full(500, -1)):
        found = agreement(y, named)
        assert abs(found["accuracy"] - accuracy_score(y, named)) < 1e-12
        assert abs(found["kappa"] - cohen_kappa_score(y, named)) < 1e-12


def test_runs_are_kept_and_not_repeated(tmp_path):
    results = tmp_path / "runs.jsonl"
    options = ["--n", "400", "--only", "led,sea", "--learners", "random", "--delays", "0,50", "--data", str(tmp_path)]
    done = CliRunner().invoke(main, [*options, "--results", str(results)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert {(row["stream"], row["delay"]) for row in rows} == {
        (f"{name}, {how}", late) for name in ("led", "sea") for how in ("abrupt", "gradual") for late in (0, 50)
    }
    assert all(0.1 < row["accuracy"] < 1.0 and row["seconds"] > 0 for row in rows)
    assert "no stream has runs of ours and of MOA's" in done.output
    with results.open("a") as file:
        file.write('{"stream": "half')
    again = CliRunner().invoke(main, [*options, "--results", str(results)], catch_exceptions=False)
    assert again.exit_code == 0
    assert len(results.read_text().splitlines()) == len(rows) + 1


def test_a_table_has_the_learners_that_have_figures_and_streams_of_both_sides(tmp_path):
    results, common = tmp_path / "runs.jsonl", {"size": 400, "delay": 0}
    ours = [{**common, "stream": f"{one}, abrupt", "learner": "auto", "n": 400, "accuracy": 0.9, "kappa": 0.8,
             "seconds": 0.04, "bytes": 2e6} for one in ("led", "sea")]  # fmt: skip
    moa = [
        {**common, "stream": "led, abrupt", "learner": name, "failed": "stopped"} for name in ("MOA kNN", "MOA Heros")
    ]
    moa[0] |= {"n": 400, "accuracy": 0.7, "kappa": 0.6, "seconds": 0.4, "bytes": None}
    results.write_text("".join(json.dumps(row) + "\n" for row in [*ours, *moa]))
    options = ["--n", "400", "--only", "led, abrupt,sea, abrupt", "--delays", "0", "--data", str(tmp_path), "--show"]
    shown = CliRunner().invoke(main, [*options, "--results", str(results)], catch_exceptions=False).output
    assert "| accuracy, %, labels at once | led, abrupt | mean | rank |" in shown
    assert "| auto | 90.00 | 90.00 |  |" in shown
    assert "| MOA kNN | 1,000 |" in shown
    assert "Heros" not in shown


def test_why_a_run_failed_names_no_folder():
    said = "java failed: Exception in thread main\n  no rows.arff at 3 rows/s (file:/a/b/rows.arff, '/d/e/rows.n')\n"
    assert reason(PeerError(said)) == "no rows.arff at 3 rows/s (rows.arff, 'rows.n')"
    assert reason(PeerError("java: stopped")) == "java: stopped"
