"""Several models, grids and repeats: every run is that of a single evaluation, whatever ran beside it and where."""

import csv
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.cli.terminal.parsing import parse_delay, parse_grid, parse_model
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.shuffled import ShuffledFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile, write_csv
from riparian.app.errors import DataError, RiparianError, SpecError
from riparian.app.evaluation.evaluate import evaluate, problem_for, spec_for
from riparian.app.evaluation.figures.summary import AS_GIVEN, MEASURES, summarise
from riparian.app.evaluation.pool import Pool
from riparian.app.evaluation.sweep import Candidate, tasks_of
from tests.conftest import MARK, ROOT, leftovers
from tests.processes import PATIENCE, until

N = 1000
TIMED = ("seconds", "wall_seconds", "instances_per_second")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "agrawal.csv.gz"
    write_csv(SyntheticFile(Recipe("agrawal", N, 3)), path)
    return path


def invoke(*arguments):
    return CliRunner().invoke(cli, ["evaluate", *map(str, arguments)])


def evaluated(*arguments):
    found = invoke(*arguments, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def single(file, model, parameters, seed=0, delay=0, **options):
    spec, goal, n = spec_for(file, model, parameters, seed=seed, label_delay=delay, **options)
    return untimed(evaluate(file, spec, goal, n, label_delay=delay, limit=options.get("limit")))


def untimed(result):
    curves = {name: column for name, column in result["curves"].items() if name not in TIMED}
    return {**{key: value for key, value in result.items() if key not in (*TIMED, "label")}, "curves": curves}


def test_a_grid_is_its_single_runs(path):
    found = evaluated(
        path, "--model", "hoeffding-tree", "--model", "last-label", "--model", "hoeffding-tree:grace_period=77",
        "--grid", "grace_period=20,100", "--grid", "hoeffding-tree.delta=1e-3,0.1", "--set", "tie_threshold=0.2",
        "--label-delay", 9, "--repeats", 2, "--seed", 5, "--jobs", 2,
    )  # fmt: skip
    parameters = [
        {"tie_threshold": "0.2", "grace_period": g, "delta": d} for g in ("20", "100") for d in ("1e-3", "0.1")
    ]
    expected = [("hoeffding-tree", given) for given in parameters]
    expected.append(("last-label", {}))
    expected += [
        ("hoeffding-tree", {"grace_period": "77", "tie_threshold": "0.2", "delta": d}) for d in ("1e-3", "0.1")
    ]
    file = DataFile(path)
    runs = [single(file, model, given, seed, 9) for model, given in expected for seed in (5, 6)]
    assert [untimed(run) for run in found["runs"]] == runs
    assert len({json.dumps(run["curves"]["accuracy"]) for run in runs}) > 3


def test_what_the_json_of_several_holds(path):
    found = evaluated(path, "--model", "naive-bayes", "--model", "hoeffding-tree", "--jobs", 1)
    assert set(found) == {"data", "rows", "task", "label_delay", "repeats", "shuffled", "sort", "summary", "runs"}
    assert (found["data"], found["task"], found["repeats"]) == ("agrawal.csv.gz", "classification", 1)
    assert (found["shuffled"], found["sort"]) == (False, "accuracy")
    assert [run["model"] for run in found["runs"]] == ["naive-bayes", "hoeffding-tree"]
    for entry in found["summary"]:
        assert set(entry) == {"model", "parameters", "label", "best", "front", "repeats", "mean", "standard_error"}
        (run,) = [run for run in found["runs"] if run["model"] == entry["model"]]
        assert entry["mean"] == {key: run[key] for key in MEASURES if key in run}
        assert entry["standard_error"] == {}
        assert run["peak_state_bytes"] >= run["state_bytes"] > 0
    accuracies = [entry["mean"]["accuracy"] for entry in found["summary"]]
    assert accuracies == sorted(accuracies, reverse=True)
    assert [entry["best"] for entry in found["summary"]] == [True, False]
    alone = evaluated(path, "--model", "naive-bayes", "--sort", "kappa", "--jobs", 1)
    assert alone.keys() == found.keys()
    assert [untimed(run) for run in alone["runs"]] == [untimed(found["runs"][0])]


def test_models_beside_each_other_learn_of_classes_and_values_as_they_come(tmp_path):
    """More than the two classes and values that there is room for at first, some of them in a later block of rows."""
    path, n = tmp_path / "rows.csv", 12_000
    seen = np.where(np.arange(n) < n // 2, 3, 9)  # classes, and values, so far
    rng = np.random.default_rng(1)
    rows = zip(rng.integers(0, seen), rng.normal(size=n), strict=True)
    path.write_text("kind,x,y\n" + "".join(f"k{kind},{x + kind:.3f},class {kind}\n" for kind, x in rows))
    models = "naive-bayes", "hoeffding-tree", "majority-class"
    found = evaluated(path, *(word for model in models for word in ("--model", model)), "--jobs", 1)
    assert [untimed(run) for run in found["runs"]] == [single(DataFile(path), model, {}) for model in models]
    assert found["runs"][0]["accuracy"] > 0.9
    assert len(found["runs"][2]["classes"]) == 9


def result(task="classification", **values):
    return {"task": task, **values}


def test_means_standard_errors_and_order():
    chosen = [Candidate("a", {"x": "1"}), Candidate("b", {}), Candidate("c", {})]
    runs = [
        *(result(accuracy=v, kappa=0.1, state_bytes=10, n=5) for v in (0.5, 0.7, 0.75)),
        *(result(accuracy=v, kappa=0.3, state_bytes=30, n=5) for v in (0.8, 0.8, 0.8)),
        *(result(accuracy=v, state_bytes=20, n=5) for v in (0.1, 0.2, 0.3)),
    ]
    by = summarise(chosen, runs)
    assert [entry["label"] for entry in by] == ["b", "a x=1", "c"]
    assert [entry["best"] for entry in by] == [True, False, False]
    a = by[1]
    assert a["mean"] == {"accuracy": pytest.approx(0.65), "kappa": pytest.approx(0.1), "state_bytes": 10}
    assert a["standard_error"]["accuracy"] == pytest.approx(statistics.stdev([0.5, 0.7, 0.75]) / math.sqrt(3))
    assert by[0]["standard_error"]["accuracy"] == 0.0
    assert [entry["label"] for entry in summarise(chosen, runs, "state_bytes")] == ["a x=1", "c", "b"]
    assert [entry["label"] for entry in summarise(chosen, runs, "kappa")] == ["b", "a x=1", "c"]  # c has none: last
    given = summarise(chosen, runs, AS_GIVEN)
    assert [(entry["label"], entry["best"]) for entry in given] == [("a x=1", False), ("b", True), ("c", False)]
    errors = [result("regression", mae=v) for v in (2.0, 1.0, 3.0)]
    assert [entry["model"] for entry in summarise(chosen, errors)] == ["b", "a", "c"]
    with pytest.raises(SpecError, match="none of the runs has 'accuracy' to sort by: use mae"):
        summarise(chosen, errors, "accuracy")
    unscored = [result(state_bytes=k) for k in range(3)]
    assert [(entry["model"], entry["best"]) for entry in summarise(chosen, unscored)] == [
        ("a", False), ("b", False), ("c", False),
    ]  # fmt: skip


def test_rows_without_labels_are_evaluated_too(tmp_path):
    data, stream = tmp_path / "d.csv", tmp_path / "s.yaml"
    data.write_text("a,y\n1,?\n2,\n")
    stream.write_text("{name: s, task: classification, features: {a: numeric}, champion: last-label}")
    assert evaluated(data, "--stream", stream, "--model", "last-label")["runs"][0]["n"] == 0
    curve = tmp_path / "c.svg"
    several = invoke(data, "--stream", stream, "--model", "last-label", "--repeats", 2, "--jobs", 1, "--curve", curve)
    assert several.exit_code == 0, several.exception
    assert "last-label" in several.stdout
    assert curve.is_file()


def test_shuffles_are_seeded_and_are_those_of_a_shuffled_file(path, tmp_path):
    file = DataFile(path)
    every = range(len(file.names))
    (whole,) = file.blocks(every)
    (one,) = ShuffledFile(file, 1).blocks(every)
    (again,) = ShuffledFile(file, 1).blocks(every)
    (other,) = ShuffledFile(file, 2).blocks(every)
    assert one == again
    assert one.columns != other.columns != whole.columns
    rows, shuffled = [list(zip(*b.columns, b.lines, strict=True)) for b in (whole, one)]
    assert shuffled != rows
    assert sorted(shuffled) == sorted(rows)
    (cut,) = ShuffledFile(file, 1, 100).blocks((0, 2))
    assert sorted(cut.lines) == list(range(2, 102))
    assert ShuffledFile(file, 1, 100).count() == 100
    blocks = list(ShuffledFile(file, 1).blocks(every, size=400))
    assert [len(block) for block in blocks] == [400, 400, 200]
    assert [line for block in blocks for line in block.lines] == one.lines

    found = evaluated(path, "--model", "hoeffding-tree:grace_period=50", "--shuffle", "--repeats", 2, "--jobs", 1)
    assert found["shuffled"] is True
    for seed, run in enumerate(found["runs"]):
        copy = tmp_path / str(seed) / path.name.removesuffix(".gz")
        copy.parent.mkdir()
        (block,) = ShuffledFile(file, seed).blocks(every)
        with open(copy, "w", newline="") as out:
            csv.writer(out).writerows([file.names, *zip(*block.columns, strict=True)])
        expected = single(DataFile(copy), "hoeffding-tree", {"grace_period": 50}, seed)
        assert untimed(run) == {**expected, "data": path.name}
    (entry,) = found["summary"]
    accuracies = [run["accuracy"] for run in found["runs"]]
    assert accuracies[0] != accuracies[1]
    assert entry["mean"]["accuracy"] == pytest.approx(np.mean(accuracies))
    assert entry["standard_error"]["accuracy"] == pytest.approx(abs(accuracies[0] - accuracies[1]) / 2)


def test_generated_streams_are_data(tmp_path):
    found = evaluated(
        "--generate", "sea:noise=0", "-n", 900, "--drift", 400, "--to", "function=2", "--seed", 3, "--repeats", 2,
        "--model", "naive-bayes", "--jobs", 1,
    )  # fmt: skip
    for seed, run in enumerate(found["runs"], 3):
        path = tmp_path / f"{seed}.csv"
        arguments = ["sea", "-n", 900, "--set", "noise=0", "--drift", 400, "--to", "function=2", "--seed", seed, path]
        assert CliRunner().invoke(cli, ["generate", *map(str, arguments)]).exit_code == 0
        assert untimed(run) == {**single(DataFile(path), "naive-bayes", {}, seed), "data": "sea"}
    assert found["runs"][0]["accuracy"] != found["runs"][1]["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "naive-bayess"], "unknown model 'naive-bayess': did you mean 'naive-bayes'?"),
        (["--model", "naive-bayes", "--set", "delta=1"], "'naive-bayes' has no parameter 'delta': use one of window"),
        (
            ["--model", "naive-bayes", "--model", "hoeffding-tree", "--grid", "grace_periods=1"],
            "none of the models has a parameter 'grace_periods': did you mean 'grace_period'?",
        ),
        (
            ["--model", "hoeffding-tree", "--grid", "naive-bayes.delta=1"],
            "'naive-bayes.delta' is for the model 'naive-bayes': use one of hoeffding-tree",
        ),
        (
            ["--model", "hoeffding-tree", "--grid", "hoeffding-tree.gamma=1"],
            "model 'hoeffding-tree' has no parameter 'gamma': use one of",
        ),
        (["--model", "hoeffding-tree", "--grid", "delta"], "--grid is 'delta': write a parameter and its value, such"),
        (["--model", "hoeffding-tree", "--grid", "delta=1,,2"], "--grid is 'delta=1,,2': write the values to try"),
        (["--model", "hoeffding-tree", "--grid", "delta=1,1"], "--grid gives delta=1 twice"),
        (["--model", "hoeffding-tree", "--grid", "delta=1", "--set", "delta=1"], "by --set and by --grid: keep one"),
        (["--model", "hoeffding-tree", "--grid", "delta=0.1,2"], "'delta' of model 'hoeffding-tree' is '2': give"),
        (["--model", "naive-bayes", "--model", "naive-bayes"], "naive-bayes is given twice: keep one, or use --rep"),
        (["--model", "hoeffding-tree:delta"], "--model is 'delta': write a parameter and its value, such as --model"),
        (["--model", "fimt-dd", "--model", "naive-bayes"], "model 'fimt-dd' does not do classification: use one of"),
        (["--model", "naive-bayes", "--fading", "2"], "metrics.fading: expected a number below 1, found 2.0; lower it"),
        (["--model", "naive-bayes", "--repeats", "2", "--sort", "mae"], "none of the runs has 'mae' to sort by: use"),
    ],
)
def test_what_is_wrong_is_said(path, arguments, message):
    found = invoke(path, "--jobs", 1, *arguments)
    assert isinstance(found.exception, SpecError)
    assert message in str(found.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either DATA.csv.gz or --generate NAME"),
        (["DATA", "--generate", "sea"], "give either DATA.csv.gz or --generate NAME"),
        (["DATA", "-n", "5"], "-n says what to generate: add --generate NAME, or leave it out"),
        (["DATA", "--label-delay", "5m"], "name the column of times by --time for a duration"),
        (["DATA", "--label-delay", "-1"], "'-1' is no whole number"),
        (["DATA", "--label-delay", "5", "--time", "salary"], 'expected a duration such as 30m, found "5"'),
        (["DATA", "--shuffle", "--time", "salary"], "--shuffle and --time exclude each other"),
    ],
)
def test_usage(path, arguments, message):
    found = invoke(*(path if argument == "DATA" else argument for argument in arguments), "--model", "naive-bayes")
    assert found.exit_code == 2
    assert message in " ".join(found.output.replace("│", " ").split())


def test_options_of_the_command_line():
    assert parse_model("naive-bayes") == ("naive-bayes", {})
    assert parse_model("a:x=1, y = b") == ("a", {"x": "1", "y": "b"})
    assert parse_grid(["a=1, 2", "m.b=x"]) == {"a": ["1", "2"], "m.b": ["x"]}
    assert (parse_delay("7", None), parse_delay("0", "t"), parse_delay("1.5s", "t")) == (7, 0.0, 1.5)


def test_tasks_cover_every_run_once_and_are_many_enough(path):
    file = DataFile(path)
    chosen = [Candidate("hoeffding-tree", {"grace_period": 1 + i}) for i in range(37)]
    problem = problem_for(file)
    for jobs, repeats in ((1, 1), (2, 1), (2, 3), (8, 1), (64, 2)):
        tasks = tasks_of([(file, problem)] * repeats, chosen, range(repeats), jobs=jobs)
        assert sorted(place for task in tasks for place in task.places) == list(range(37 * repeats))
        for task in tasks:
            for spec, place in zip(task.specs, task.places, strict=True):
                assert spec.models()["champion"][1]["grace_period"] == 1 + place // repeats
                assert spec.seed == place % repeats
        assert max(len(task.specs) for task in tasks) <= 16
        assert len(tasks) >= min(37 * repeats, 4 * jobs) or jobs == 1


@pytest.mark.parametrize("how", ["ctrl-c", "kill"])
def test_no_process_outlives_the_command(path, how):
    """Ctrl-C goes to the whole group of a terminal; kill -9 to the parent only."""
    grid = ",".join(map(str, range(1, 100)))
    mark = f"{MARK.partition('=')[0]}_OWN={how}{os.getpid()}"
    command = [
        sys.executable,
        "-m",
        "riparian.app.cli",
        "evaluate",
        str(path),
        "--model",
        "hoeffding-tree",
        "--jobs",
        "2",
    ]
    parent = subprocess.Popen(
        [*command, "--grid", f"grace_period={grid}", "--repeats", "2"],
        cwd=ROOT,
        env={**os.environ, mark.partition("=")[0]: mark.partition("=")[2]},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # What a shell runs in the background ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        until(lambda: len(leftovers(mark, parent.pid)) >= 2 or parent.poll() is not None)
        assert parent.poll() is None, parent.stderr.read()
        for pid in leftovers(mark, parent.pid):
            blocked = re.search(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[1]
            assert int(blocked, 16) & 1 << (signal.SIGINT - 1)  # no traceback of theirs between the parent's words
        if how == "kill":
            parent.kill()
        else:
            os.killpg(parent.pid, signal.SIGINT)
        out, errors = parent.communicate(timeout=PATIENCE)
        if how == "ctrl-c":
            assert (out, errors.strip()) == (b"", b"")
        assert parent.returncode == (-signal.SIGKILL if how == "kill" else 130)
        until(lambda: not leftovers(mark, os.getpid()))
    finally:
        parent.kill()


def die(_):
    os._exit(3)


def test_errors_of_other_processes_are_sentences(tmp_path):
    data, stream = tmp_path / "d.csv", tmp_path / "s.yaml"
    data.write_text("a;y\n" + "1;x\n2;z\n" * 40 + "two;x\n")  # a text among numbers leaves open what their marks mean
    stream.write_text("{name: s, task: classification, features: {a: numeric}, champion: last-label}")
    found = invoke(data, "--stream", stream, "--model", "last-label", "--repeats", 2, "--jobs", 2)
    assert isinstance(found.exception, DataError)
    assert "line 82" in str(found.exception)
    assert "'two' in column 'a'" in str(found.exception)
    with (
        pytest.raises(RiparianError, match="ended from outside, perhaps for lack of memory: use fewer --jobs"),
        Pool(1) as pool,
    ):
        pool.map(die, [1, 2])
