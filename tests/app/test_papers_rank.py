"""Comparing models over data sets: Demšar's worked example, scipy's tests, and the command."""

import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from benchmarks.papers import diagram, significance
from benchmarks.papers.comparison import compare, read
from benchmarks.papers.rank import main
from riparian.app.cli import cli
from riparian.app.errors import DataError, SpecError

# Demšar 2006, table 6: AUROC of C4.5 and of three tunings of it, on 14 data sets. In the last row but one the table
# says 0.975 twice, and ranks them 2 and 3.
EXAMPLE = """
0.763 0.768 0.771 0.798
0.599 0.591 0.590 0.569
0.954 0.971 0.968 0.967
0.628 0.661 0.654 0.657
0.882 0.888 0.886 0.898
0.936 0.931 0.916 0.931
0.661 0.668 0.609 0.685
0.583 0.583 0.563 0.625
0.775 0.838 0.866 0.875
1.000 1.000 1.000 1.000
0.940 0.962 0.965 0.962
0.619 0.666 0.614 0.669
0.972 0.981 0.975 0.9749
0.957 0.978 0.946 0.970
"""
VALUES = np.array([[float(value) for value in line.split()] for line in EXAMPLE.split("\n") if line])
LABELS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]


def test_the_worked_example_has_its_published_figures():
    mean = significance.ranks(VALUES, True).mean(axis=0)
    assert mean == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=6e-4)
    n, k = VALUES.shape
    uncorrected = 12 * n / (k * (k + 1)) * ((mean**2).sum() - k * (k + 1) ** 2 / 4)
    assert uncorrected == pytest.approx(9.28, abs=0.01)
    found = significance.friedman(VALUES)
    assert found.chi_squared > uncorrected  # for ties
    assert (found.chi_squared, found.p) == pytest.approx(stats.friedmanchisquare(*VALUES.T), rel=1e-12)
    assert found.f == pytest.approx((n - 1) * found.chi_squared / (n * (k - 1) - found.chi_squared))
    assert found.f_p < found.p < 0.05
    assert significance.critical_difference(k, n, 0.05) == pytest.approx(1.25, abs=0.005)
    assert significance.critical_difference(k, n, 0.10) == pytest.approx(1.12, abs=0.005)
    assert significance.wilcoxon(VALUES[:, 0], VALUES[:, 1]) < 0.05  # of C4.5 against C4.5+m, T = 12


def test_ranks_of_errors_and_of_equals():
    values = np.array([[1.0, 2.0, 2.0], [5.0, 5.0, 5.0]])
    assert significance.ranks(values, False).tolist() == [[1.0, 2.5, 2.5], [2.0, 2.0, 2.0]]
    assert significance.ranks(values, True).tolist() == [[3.0, 1.5, 1.5], [2.0, 2.0, 2.0]]
    assert significance.friedman(np.ones((4, 3))) == (0.0, 1.0, 0.0, 1.0)
    one_order = significance.friedman(np.tile([1.0, 2.0, 3.0], (6, 1)))
    assert (one_order.f, one_order.f_p) == (math.inf, 0.0)
    assert significance.wilcoxon(np.ones(5), np.ones(5)) == 1.0


def test_holm_steps_down():
    assert significance.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert significance.holm([0.5, 0.9]) == [1.0, 1.0]
    assert significance.holm([]) == []


def test_the_corrected_t_is_the_usual_one_with_more_variance():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0.3, 1.0, 12), rng.normal(0.0, 1.0, 12)
    usual, corrected = (significance.corrected_t(a - b, ratio) for ratio in (0.0, 1 / 9))
    expected = stats.ttest_rel(a, b)
    assert (usual.t, usual.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)
    assert corrected.t == pytest.approx(usual.t * math.sqrt((1 / 12) / (1 / 12 + 1 / 9)), rel=1e-12)
    assert corrected.p == pytest.approx(2 * stats.t.sf(abs(corrected.t), 11), rel=1e-12)
    assert (usual.n, usual.ratio, usual.mean) == (12, 0.0, pytest.approx((a - b).mean()))
    same = significance.corrected_t([0.1 + 0.2 - 0.3 + 0.4, 0.4, 0.4], 0.0)
    assert math.isnan(same.t)
    assert math.isnan(same.p)


def test_bars_of_a_picture_are_the_largest_groups():
    assert diagram.groups([1.0, 1.5, 2.0, 3.5, 4.0], 1.0) == [(0, 2), (3, 4)]
    assert diagram.groups([1.0, 1.8, 2.6], 1.0) == [(0, 1), (1, 2)]
    assert diagram.groups([1.0, 3.0], 1.0) == []
    assert diagram.groups([1.0, 1.0, 1.0], 0.5) == [(0, 2)]


def result(path, data, values, task="classification", measure="accuracy", **about):
    """A file as `riparian evaluate --json` prints it. values : label -> its repeats."""
    runs = [
        {"label": label, "model": label, "seed": seed, measure: value}
        for label, row in values.items() for seed, value in enumerate(row)
    ]  # fmt: skip
    given = {"data": data, "task": task, "repeats": 1, "shuffled": False, "sort": measure, "summary": [], "runs": runs}
    path.write_text(json.dumps(given | about))
    return path


@pytest.fixture
def example(tmp_path):
    return [
        result(tmp_path / f"{i}.json", f"data {i}", {label: [value] for label, value in zip(LABELS, row, strict=True)})
        for i, row in enumerate(VALUES)
    ]


def test_a_comparison_of_files(example, tmp_path):
    found = compare(read(example))
    order = [3, 1, 2, 0]
    assert found["models"] == [LABELS[i] for i in order]
    assert np.array(found["values"]) == pytest.approx(VALUES[:, order])
    assert found["ranks"] == pytest.approx([1.964, 2.000, 2.893, 3.143], abs=6e-4)
    assert sum(found["best"]) == 14
    assert found["friedman"]["p"] == significance.friedman(VALUES).p
    assert len(found["pairs"]) == 6
    pair = found["pairs"][2]
    assert (pair["a"], pair["b"]) == ("C4.5+m+cf", "C4.5")
    assert (pair["wins"], pair["ties"], pair["losses"]) == (11, 1, 2)
    assert pair["wilcoxon"] == pytest.approx(stats.wilcoxon(VALUES[:, 3], VALUES[:, 0], zero_method="zsplit").pvalue)
    assert pair["wilcoxon"] < pair["holm"] < 6 * pair["wilcoxon"] + 1e-12
    assert [one["nemenyi"] for one in found["pairs"]] == [False] * 6  # 3.143 - 1.964 < 1.25
    assert all(one["t"] == [] for one in found["pairs"])
    assert compare(read(example), 0.1)["pairs"][2]["nemenyi"]  # > 1.12
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_models_may_come_in_files_of_their_own(tmp_path):
    files = [
        result(tmp_path / "1.json", "d", {"a": [0.5], "b": [0.6]}), result(tmp_path / "2.json", "d", {"c": [0.7]}),
        result(tmp_path / "3.json", "e", {"a": [0.5], "c": [0.7], "x": [0.1]}),
        result(tmp_path / "4.json", "e", {"b": [0.4]}, label_delay=0),
    ]  # fmt: skip
    sets = read(files)
    assert {name: list(trials) for name, trials in sets.trials.items()} == {
        "d": ["a", "b", "c"], "e": ["a", "c", "x"], "e (4)": ["b"],
    }  # fmt: skip
    found = compare(read(files[:3]))
    assert (found["models"], sorted(found["left_out"])) == (["c", "a"], ["b", "x"])
    assert "friedman" not in found


def test_errors_rank_the_other_way(tmp_path):
    files = [
        result(tmp_path / f"{k}.json", f"d{k}", {"a": [2.0 + k], "b": [1.0]}, "regression", "mae") for k in range(3)
    ]
    found = compare(read(files))
    assert (found["measure"], found["models"], found["pairs"][0]["wins"]) == ("mae", ["b", "a"], 3)


def test_single_data_sets_are_tested_where_repeats_are_pairs(tmp_path):
    rng = np.random.default_rng(3)
    repeats = {"a": rng.normal(0.8, 0.02, 8).tolist(), "b": rng.normal(0.7, 0.02, 8).tolist()}
    same = {"a": [0.8, 0.8], "b": [0.7, 0.7]}
    folds = {"a": [0.8], "b": [0.7]}
    by_fold = {"a": [0.9, 0.7, None, 0.8], "b": [0.7, 0.65, 0.1, 0.75]}
    paths = [
        result(tmp_path / "seeds.json", "seeds", repeats),
        result(tmp_path / "shuffled.json", "shuffled", repeats, shuffled=True),
        result(tmp_path / "same.json", "same", same),
        result(tmp_path / "folds.json", "folds", folds, folds=4),
    ]
    told = json.loads(paths[3].read_text())
    for run in told["runs"]:
        run["by_fold"] = {"accuracy": by_fold[run["label"]]}
    paths[3].write_text(json.dumps(told))
    (pair,) = compare(read(paths))["pairs"]
    tests = {test["data"]: test for test in pair["t"]}
    assert list(tests) == ["seeds", "same", "folds"]  # of shuffled rows the overlap is not known
    assert tests["seeds"]["p"] == pytest.approx(stats.ttest_rel(repeats["a"], repeats["b"]).pvalue)
    assert (tests["same"]["t"], tests["same"]["p"], tests["same"]["n"]) == (None, None, 2)
    assert (tests["folds"]["n"], tests["folds"]["ratio"]) == (3, 1 / 3)
    (pair,) = compare(read(paths, ratio=0.5))["pairs"]
    expected = significance.corrected_t(np.array(repeats["a"]) - np.array(repeats["b"]), 0.5)
    assert [test["p"] for test in pair["t"] if test["data"] == "shuffled"] == [pytest.approx(expected.p)]


def test_what_cannot_be_compared(tmp_path):
    one = result(tmp_path / "1.json", "d", {"a": [0.5], "b": [0.6]})
    again = result(tmp_path / "2.json", "d", {"b": [0.6]})
    other = result(tmp_path / "3.json", "e", {"a": [0.5], "x": [0.6]})
    errors = result(tmp_path / "4.json", "f", {"a": [0.5]}, "regression", "mae")
    (tmp_path / "5.json").write_text('{"data": 1}')
    (tmp_path / "6.json").write_text("no")
    for paths, kind, message in (
        ([one], DataError, "the results are of one data set, d: give those of two or more"),
        ([one, again], DataError, "both have 'b' on d: leave one of them out"),
        ([one, other], DataError, "1 model is on all data sets, and 'b' is not on all"),
        ([one, errors], DataError, "4.json is of a regression, "),
        ([one, tmp_path / "5.json"], DataError, "is no result: write one by riparian evaluate … --json > 5.json"),
        ([one, tmp_path / "6.json"], DataError, "is no result"),
        ([one, tmp_path / "7.json"], DataError, "cannot be read"),
    ):
        with pytest.raises(kind) as found:
            compare(read(paths))
        assert message in str(found.value)
    with pytest.raises(SpecError, match="none of the results has 'auroc': choose another --measure"):
        read([one, other], "auroc")
    said = CliRunner().invoke(main, [str(one)])
    assert said.exit_code == 1
    assert "Error: the results are of one data set, d" in said.output


def test_the_command(example, tmp_path):
    arguments = [*map(str, example)]
    pictures = [part for name in ("r.svg", "r.png", "again.svg") for part in ("--picture", str(tmp_path / name))]
    done = CliRunner().invoke(main, [*arguments, *pictures])
    assert done.exit_code == 0, done.output
    for text in ("14 data sets, 4 models", "C4.5+m+cf       1.96", "Friedman: χ² 10.2", "0.05): 1.254", "wins"):
        assert text in done.stdout, text
    root = ET.parse(tmp_path / "r.svg").getroot()
    assert root.tag.endswith("svg")
    bars = [path for path in root.iter() if "stroke-width: 4" in path.get("style", "")]
    assert len(bars) == 1  # none differ: one bar over all
    assert (tmp_path / "r.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert (tmp_path / "r.png").read_bytes()[:4] == b"\x89PNG"
    as_json = CliRunner().invoke(main, [*arguments, "--json", "--alpha", "0.1"])
    assert json.loads(as_json.stdout) == compare(read(example), 0.1)
    refused = CliRunner().invoke(main, [*arguments, "--picture", "r.csv"])
    assert "--picture is 'r.csv': name a file that ends in .svg or .png" in refused.output


def test_what_evaluate_prints_can_be_ranked(tmp_path):
    """Two concepts of one generator are two data sets; two models in one file, one more in another."""
    for k in (1, 2):
        for name, models in (("both", ["naive-bayes", "last-label"]), ("third", ["majority-class"])):
            given = [part for model in models for part in ("--model", model)]
            made = ["--generate", f"agrawal:function={k}", "-n", "400", "--repeats", "3", "--jobs", "1", "--json"]
            done = CliRunner().invoke(cli, ["evaluate", *made, *given])
            assert done.exit_code == 0, done.output
            (tmp_path / f"{name}{k}.json").write_text(done.stdout)
    files = sorted(str(path) for path in tmp_path.glob("*.json"))
    found = json.loads(CliRunner().invoke(main, [*files, "--json"]).stdout)
    assert found["data"] == ["agrawal", "agrawal (both2)"]
    assert sorted(found["models"]) == ["last-label", "majority-class", "naive-bayes"]
    assert found["models"][0] == "naive-bayes"
    assert {test["n"] for pair in found["pairs"] for test in pair["t"]} == {3}
    assert {test["ratio"] for pair in found["pairs"] for test in pair["t"]} == {0.0}
