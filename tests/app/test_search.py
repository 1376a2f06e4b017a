"""Random search, `auto`, and the front of accuracy against bytes."""

import csv
import json
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.cli.terminal.parsing import parse_ranges
from riparian.app.dataset.files.data import DataFile
from riparian.app.errors import DataError, SpecError
from riparian.app.evaluation.evaluate import problem_for
from riparian.app.evaluation.figures import pareto_front
from riparian.app.evaluation.sweep import ParameterRange, Search, candidates
from riparian.app.stream_file.spec import build

GENERATED = ["evaluate", "--generate", "agrawal", "-n", "1500", "--jobs", "1"]


def invoke(*arguments):
    found = CliRunner().invoke(cli, [*map(str, arguments)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_ranges_of_the_command_line():
    assert parse_ranges(["a=1..20", "m.b=1e-7..0.5:log", "c=x, y"]) == {
        "a": ParameterRange(1.0, 20.0),
        "m.b": ParameterRange(1e-7, 0.5, log=True),
        "c": ParameterRange(values=("x", "y")),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "--range is 'a': write a parameter and its value, such as --range grace_period=10..1000:log"),
        ("a=1", "write the least and the greatest value"),
        ("a=1..x", "write the least and the greatest value"),
        ("a=1..2..3", "write the least and the greatest value"),
        ("a=2..2", "the first value has to be less than the second one"),
        ("a=0..inf", "the first value has to be less than the second one"),
        ("a=1..2:lin", "the scale is 'lin', and can be log, or be left out"),
        ("a=0..2:log", "a logarithmic scale begins above 0"),
    ],
)
def test_ranges_that_cannot_be(text, message):
    with pytest.raises(SpecError) as found:
        parse_ranges([text])
    assert message in str(found.value)


def test_draws_are_even_on_their_scale():
    """Of 20,000: shares of the scale's quarters, and of whole numbers, those at the ends as well."""
    rng = np.random.default_rng(0)
    even = [ParameterRange(2.0, 6.0).draw(rng, False) for _ in range(20_000)]
    log = [ParameterRange(1e-8, 1.0, True).draw(rng, False) for _ in range(20_000)]
    whole = [ParameterRange(1.0, 4.0).draw(rng, True) for _ in range(20_000)]
    powers = [ParameterRange(1.0, 1000.0, True).draw(rng, True) for _ in range(20_000)]
    for values, edges in ((even, [2, 3, 4, 5, 6]), (log, [1e-8, 1e-6, 1e-4, 1e-2, 1.0])):
        assert min(values) >= edges[0]
        assert max(values) <= edges[-1]
        assert np.histogram(values, edges)[0] / 20_000 == pytest.approx([0.25] * 4, abs=0.015)
    assert all(float(f"{value:.4g}") == value for value in even + log)
    assert np.unique(whole, return_counts=True)[1] / 20_000 == pytest.approx([0.25] * 4, abs=0.015)
    assert {type(value) for value in whole + powers} == {int}
    assert (min(powers), max(powers)) == (1, 1000)
    below = np.log(np.array([1.5, 31.5, 1000.5]) / 0.5) / np.log(1000.5 / 0.5)
    assert [np.mean(np.array(powers) <= n) for n in (1, 31, 1000)] == pytest.approx(below, abs=0.015)


def test_a_search_is_seeded_and_a_models_draws_are_its_own():
    ranges = parse_ranges(["grace_period=10..1000:log", "hoeffding-tree.split_criterion=gini,info-gain"])

    def drawn(models, seed, n=6):
        found = candidates([(name, {}) for name in models], {}, {}, Search(n, ranges, seed))
        return [one for one in found if one.model == "hoeffding-tree"]

    alone = drawn(["hoeffding-tree"], 3)
    assert len(alone) == 6
    assert drawn(["hoeffding-tree"], 3, n=9)[:6] == alone
    assert drawn(["last-label", "extremely-fast-decision-tree", "hoeffding-tree"], 3) == alone
    assert drawn(["hoeffding-tree"], 4) != alone
    assert {type(one.parameters["grace_period"]) for one in alone} == {int}
    assert {one.parameters["split_criterion"] for one in alone} == {"gini", "info-gain"}
    few = candidates([("hoeffding-tree", {})], {}, {}, Search(50, {"grace_period": ParameterRange(7.0, 9.0)}, 0))
    assert sorted(one.parameters["grace_period"] for one in few) == [7, 8, 9]


def test_a_long_stream_has_as_many_points_as_asked(monkeypatch):
    """Steps are bounded, and several of them are a point; what comes after the last one is a point, too."""
    monkeypatch.setattr("riparian.app.evaluation.evaluate.LARGEST_BATCH", 64)
    for delay, expected in ((0, [320, 640, 960, 1280, 1500]), (700, [260, 580, 928, 1248, 1500])):
        arguments = [*GENERATED, "--model", "last-label", "--points", 5, "--label-delay", delay, "--json"]
        (run,) = json.loads(invoke(*arguments).stdout)["runs"]
        assert run["curves"]["n"] == expected
        assert run["curves"]["running_accuracy"][-1] == run["accuracy"]


def test_a_search_beside_a_grid():
    search = Search(3, {"delta": ParameterRange(1e-9, 1e-2, True)}, 1)
    models = [("hoeffding-tree", {}), ("hoeffding-tree", {"delta": "0.1"}), ("last-label", {})]
    found = candidates(models, {"tie_threshold": "0.2"}, {"grace_period": ["50", "90"]}, search)
    trees = [one.parameters for one in found if one.model == "hoeffding-tree"]
    deltas = [one["delta"] for one in trees[:3]]
    assert [(one["grace_period"], one["delta"]) for one in trees] == [
        *[("50", delta) for delta in deltas], *[("90", delta) for delta in deltas], ("50", "0.1"), ("90", "0.1"),
    ]  # fmt: skip
    assert {one["tie_threshold"] for one in trees} == {"0.2"}
    assert [one.parameters for one in found if one.model == "last-label"] == [{}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--search", 3], "give both"),
        (["--range", "delta=0.1..0.2"], "give both"),
        (["--search", 3, "--range", "dleta=0.1..0.2"], "did you mean 'delta'?"),
        (["--search", 3, "--range", "delta=0.1..0.2", "--grid", "delta=1,2"], "is given by --grid and by --range"),
        (["--search", 3, "--range", "binary_splits=0..2"], "--range of 'binary_splits' holds none of its values"),
        (["--search", 3, "--range", "grace_period=1.2..1.8"], "--range of 'grace_period' holds none of its values"),
        (["--search", 3, "--range", "delta=2..3"], "give a number in 1e-300 .. 1"),
        (["--measure", "auroc"], "--measure says what --curve FILE shows: add it"),
        (["--measure", "auc"], "'auc' is no measure of a curve: use accuracy, "),
        (["--measure", "recall:"], "is no measure of a curve"),
        (["--measure", "recall:c9", "--curve", "/dev/null/c.csv"], "none of the runs has a curve of 'recall:c9'"),
    ],
)
def test_what_cannot_be_searched(arguments, message):
    found = CliRunner().invoke(cli, [*GENERATED, "--model", "hoeffding-tree", *map(str, arguments)])
    assert found.exit_code != 0
    assert message in f"{found.output} {found.exception}"


def test_auto_is_what_a_stream_file_would_choose(tmp_path):
    path = tmp_path / "agrawal.csv.gz"
    invoke("generate", "agrawal", "-n", 400, path)
    found = json.loads(
        invoke("evaluate", path, "--model", "auto:max_bytes=10000000", "--model", "auto", "--jobs", 1, "--json").stdout
    )
    small, usual = found["runs"]
    assert [entry["model"] for entry in found["summary"]] == ["auto", "auto"]
    assert (small["auto"], small["model"]) == (True, "opinion-pool")
    problem = problem_for(DataFile(path))
    for run, given in ((small, {"max_bytes": 10_000_000}), (usual, {})):
        chosen = build({**problem.fields, "champion": {"model": "auto", **given}}, "f").resolved()
        assert run["model"] == chosen.model
        assert {key: run["parameters"][key] for key in chosen.parameters} == chosen.parameters
    nodes = [run["parameters"]["members"]["forest"]["max_nodes"] for run in (small, usual)]
    assert nodes[0] < nodes[1]
    shown = invoke("evaluate", path, "--model", "auto", "--set", "max_microseconds=5").stdout
    assert "opinion-pool (auto) on agrawal.csv.gz" in shown
    with pytest.raises(SpecError, match="has no parameter 'max_byte': did you mean 'max_bytes'"):
        invoke("evaluate", path, "--model", "auto", "--set", "max_byte=5")


def entry(label, accuracy, size):
    mean = {} if accuracy is None else {"accuracy": accuracy}
    return {"label": label, "model": label[0], "mean": {**mean, pareto_front.BYTES: size}, "front": None}


POINTS = [("a", 0.9, 500), ("b", 0.8, 100), ("c", 0.8, 200), ("d", 0.7, 100), ("e", 0.95, 900), ("f", 0.9, 500)]
ON = {"a", "b", "e", "f"}


def test_the_front_is_what_nothing_beats():
    entries = [entry(*point) for point in POINTS] + [entry("g", None, 1)]
    pareto_front.mark(entries, "accuracy")
    for one in entries[:-1]:
        rivals = [e for e in entries[:-1] if e is not one]
        beaten = any(
            e["mean"]["accuracy"] >= one["mean"]["accuracy"] and e["mean"][pareto_front.BYTES] <=
            one["mean"][pareto_front.BYTES] and e["mean"] != one["mean"] for e in rivals
        )  # fmt: skip
        assert one["front"] == (not beaten) == (one["label"] in ON)
    assert entries[-1]["front"] is None
    errors = [{"mean": {"mae": m, pareto_front.BYTES: b}, "front": False} for m, b in ((1.0, 10), (2.0, 5), (2.0, 10))]
    pareto_front.mark(errors, "mae")
    assert [one["front"] for one in errors] == [True, True, False]


def test_the_front_is_written(tmp_path):
    entries = [entry(*point) for point in POINTS] + [entry("g", None, 1)]
    pareto_front.mark(entries, "accuracy")
    for name in ("f.csv", "f.svg", "f.png", "again.svg"):
        pareto_front.write(tmp_path / name, entries, "accuracy")
    with open(tmp_path / "f.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["label", "model", "peak_live_bytes", "accuracy", "front"]
    assert [row[0] for row in rows] == ["b", "d", "c", "a", "f", "e"]
    assert {row[0] for row in rows if row[-1] == "1"} == ON
    assert (tmp_path / "f.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert ET.parse(tmp_path / "f.svg").getroot().get("width") == "576pt"
    assert struct.unpack(">II", (tmp_path / "f.png").read_bytes()[16:24]) == (8 * 120, 6 * 120)
    pareto_front.write(tmp_path / "nothing.svg", [], "accuracy")
    with pytest.raises(DataError, match="cannot be written"):
        pareto_front.write(tmp_path / "no" / "f.csv", [], "accuracy")
    with pytest.raises(SpecError, match=r"--front is 'f\.pdf': name a file that ends in"):
        invoke(*GENERATED, "--model", "last-label", "--front", "f.pdf")


def test_the_command_marks_the_front_and_writes_several_measures(tmp_path):
    shown = invoke(
        *GENERATED, "--model", "naive-bayes", "--model", "last-label", "--front", tmp_path / "f.csv",
        "--curve", tmp_path / "c.csv", "--measure", "auroc", "--measure", "live_bytes", "--measure", "wall_seconds",
        "--measure", "recall:c1", "--measure", "mean_running_accuracy",
        "--points", 5,
    ).stdout  # fmt: skip
    assert "*°  naive-bayes" in shown
    assert "°   last-label" in shown
    assert "° none is as good in accuracy and in bytes, and better in one" in shown
    assert (tmp_path / "f.csv").read_text().count(",1\n") == 2
    with open(tmp_path / "c.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "label", "model", "seed", "n", "auroc", "live_bytes", "wall_seconds", "recall:c1", "mean_running_accuracy",
    ]  # fmt: skip
    assert [int(row["n"]) for row in rows] == [300, 600, 900, 1200, 1500] * 2
    assert all(0.0 <= float(row["auroc"]) <= 1.0 and int(row["live_bytes"]) > 0 for row in rows)
    assert all(0.0 <= float(row["recall:c1"]) <= 1.0 for row in rows)
    times = [float(row["wall_seconds"]) for row in rows]
    assert times[:5] == sorted(times[:5])
