"""Evaluation against a naive loop over the rows, the command's figures, and the same figures for every cut."""

import csv
import gzip
import json
import re
from datetime import datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.cli.evaluate.table import show_whole
from riparian.app.cli.terminal import by_value
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile
from riparian.app.errors import DataError, SpecError
from riparian.app.evaluation import evaluate as module
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.evaluation.measures.objective import Objective
from riparian.app.stream_file.spec import loads
from riparian.models.contract import Schema
from riparian.models.drift import create as create_detector
from riparian.models.registry import create
from riparian.models.streams.registry import ConceptDrift
from tests.models.naive_prequential import NaivePrequential

N = 700


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Numeric, nominal and missing values, and some rows without a label."""
    rng = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("data") / "mixed.csv.gz"
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["u", "colour", "v", "label"])
        for _ in range(N):
            u, colour, v = rng.normal(), rng.choice(["red", "green", "blue", "?"]), rng.normal()
            label = "yes" if u + (colour == "red") > 0.3 else "no"
            writer.writerow([f"{u:.4f}", colour, "" if rng.random() < 0.1 else v, "" if rng.random() < 0.1 else label])
    return path


def naive(path, model, delay, times=range(N), **parameters):
    """Events in the order of time (that of rows, where no times are), features first on a tie: predict, or learn."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        rows = [row[-4:] for row in csv.reader(file)][1:]
    codes = [{}, {}, {}, {}]

    def value(j, text):
        if text in ("", "?"):
            return np.nan
        return float(codes[j].setdefault(text, len(codes[j]))) if j in (1, 3) else float(text)

    x = np.array([[value(j, text) for j, text in enumerate(row[:3])] for row in rows])
    y = [value(3, row[3]) for row in rows]
    learner = create(model, Schema((0, 4, 0), 2, "classification"), **parameters)
    twin = NaivePrequential("classification")
    predictions = {}
    for _, is_label, i in sorted((t + k * delay, k, i) for i, t in enumerate(times) for k in (0, 1)):
        if not is_label:
            predictions[i] = learner.predict_many(x[i : i + 1])[0]
        elif not np.isnan(y[i]):
            twin.score(int(y[i]), predictions[i].tolist())
            learner.learn_many(x[i : i + 1], np.array([y[i]]))
    return np.array([predictions[i] for i in range(len(rows))]), twin.metrics()


def run(source, model, delay=0, **options):
    file = source if isinstance(source, SyntheticFile) else DataFile(source)
    clock = options.get("clock")
    spec, goal, n = spec_for(file, model, options.pop("parameters", {}), label_delay=delay, **options)
    outcomes = []
    result = evaluate(file, spec, goal, n, label_delay=delay, clock=clock, on_outcome=outcomes.append)
    p = [outcome.p["champion"] for outcome in outcomes]
    width = max(part.shape[1] for part in p)  # capacity of classes, which grows
    return result, np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in p])


TREE = {"grace_period": 30, "tie_threshold": 0.3}


@pytest.mark.parametrize(
    ("model", "parameters", "delay"),
    [
        *(("hoeffding-tree", TREE, delay) for delay in (0, 1, 50, N - 1, N + 100)),
        *(("naive-bayes", {}, 50), ("last-label", {}, 0)),
    ],
)
def test_evaluation_equals_a_naive_loop(mixed, model, parameters, delay):
    result, predictions = run(mixed, model, delay, parameters=parameters)
    expected, metrics = naive(mixed, model, delay, **parameters)
    # Room for codes does not matter, the numbers do.
    assert np.array_equal(predictions[:, :2], expected)
    for key, value in metrics.items():
        assert result[key] == pytest.approx(value, rel=1e-12), key
    assert result["label_delay"] == delay


def test_cuts_do_not_matter(mixed, monkeypatch):
    delay = 7
    whole, whole_p = run(mixed, "hoeffding-tree", delay)
    for size in (1, 13):
        monkeypatch.setattr(module, "LARGEST_BATCH", size)
        monkeypatch.setattr(module, "CURVE_POINTS", 1)
        result, predictions = run(mixed, "hoeffding-tree", delay)
        assert predictions.tobytes() == whole_p.tobytes()
        assert {k: result[k] for k in ("n", "accuracy", "kappa", "log_loss")} == {
            k: whole[k] for k in ("n", "accuracy", "kappa", "log_loss")
        }


def test_result_is_json_with_the_documented_keys(mixed):
    result, _ = run(mixed, "naive-bayes")
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    keys = "model parameters data n accuracy kappa kappa_temporal log_loss f1_macro instances_per_second state_bytes"
    keys += " balanced_accuracy auroc mean_running_accuracy n_nodes n_leaves depth wall_seconds classes"
    keys += " live_bytes mean_live_bytes peak_live_bytes peak_state_bytes"
    assert {*keys.split(), "seconds", "curves"} <= set(result)
    assert not {"mae", "rmse", "r2", "rejected"} & set(result)
    assert result["data"] == "mixed.csv.gz"
    counts = result["curves"]["n"]
    assert counts == sorted(set(counts))
    assert counts[-1] == result["n"]
    assert all(0.0 <= accuracy <= 1.0 for accuracy in result["curves"]["accuracy"])
    assert {len(column) for column in result["curves"].values()} == {len(counts)}
    assert result["curves"]["running_accuracy"][-1] == result["accuracy"]


def test_coverage_is_told_of_each_class_too(mixed):
    result, _ = run(mixed, "naive-bayes", coverage=0.8)
    classes = result["classes"].values()
    assert all(0.0 < one["coverage"] <= 1.0 for one in classes)
    weighted = sum(one["n"] * one["coverage"] for one in classes) / sum(one["n"] for one in classes)
    assert weighted == pytest.approx(result["coverage"], abs=0.02)  # nothing was said for the first labels


def test_regression(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("a,y\n1,0.5\n2,1.5\n3,4.0\n4,?\n5,2.0\n")
    result, predictions = run(path, "last-label")
    np.testing.assert_array_equal(predictions[:, 0], [np.nan, 0.5, 1.5, 4.0, 4.0])
    assert result["mae"] == pytest.approx((1.0 + 2.5 + 2.0) / 3)
    assert (result["n"], result["unpredicted"]) == (3, 1)  # nothing was known of the first row
    assert {"rmse", "r2"} <= set(result)
    assert not {"accuracy", "kappa", "log_loss"} & set(result)


STREAM = """
name: s
task: classification
features:
  v: numeric
  colour: {type: nominal, max_values: 2}
champion: {model: last-label}
challengers: {nb: naive-bayes}
classes: ["yes", "no"]
metrics: {window: 50}
seed: 3
"""


def test_stream_file_says_what_the_data_are(mixed):
    file = DataFile(mixed)
    spec, goal, n = spec_for(file, "naive-bayes", {}, stream=loads(STREAM))
    assert list(spec.features) == ["v", "colour"]
    assert list(spec.models()) == ["champion"]
    assert spec.models()["champion"][0] == "naive-bayes"
    assert (spec.metrics.window, spec.seed, spec.classes) == (50, 3, ["yes", "no"])
    result = evaluate(file, spec, goal, n)
    with gzip.open(mixed, "rt") as lines:
        colours = [row[1] for row in csv.reader(lines)][1:]
    known = list(dict.fromkeys(c for c in colours if c != "?"))[:2]
    refused = sum(c not in (*known, "?") for c in colours)
    assert refused > 100
    assert result["rejected"] == refused
    assert spec_for(file, "naive-bayes", {}, stream=loads(STREAM), window=9)[0].metrics.window == 9


def test_options_that_exclude_each_other(mixed):
    file = DataFile(mixed)
    with pytest.raises(SpecError, match="--task and --stream exclude each other"):
        spec_for(file, "naive-bayes", {}, stream=loads(STREAM), task="regression")
    for option, value in {"nominal": ["v"], "ignore": ["v"], "max_values": 5}.items():
        with pytest.raises(SpecError, match=f"--{option.replace('_', '-')} and --stream exclude each other"):
            spec_for(file, "naive-bayes", {}, stream=loads(STREAM), **{option: value})
    spec, goal, n = spec_for(file, "naive-bayes", {}, stream=loads(STREAM.replace("  v:", "  w:")))
    with pytest.raises(DataError, match="no column 'w' for a feature or key of the stream"):
        evaluate(file, spec, goal, n)


def test_too_many_classes_are_refused(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("a,y\n" + "".join(f"1,c{i}\n" for i in range(1001)))
    with pytest.raises(DataError, match="has 1001 classes, at most 1000"):
        spec_for(DataFile(path), "naive-bayes", {})


def invoke(*arguments):
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def test_command_prints_json_or_a_table(mixed):
    found = invoke(
        "evaluate", mixed, "--model", "hoeffding-tree", "--set", "grace_period=50", "--label-delay", 5, "--json"
    )
    assert found.exit_code == 0, found.output
    (result,) = json.loads(found.stdout)["runs"]
    assert result["parameters"]["grace_period"] == 50
    expected, _ = run(mixed, "hoeffding-tree", 5, parameters={"grace_period": 50})
    assert result["accuracy"] == expected["accuracy"]
    table = invoke("evaluate", mixed, "--model", "hoeffding-tree", "--set", "grace_period=50", "--label-delay", 5)
    assert f"{result['accuracy']:.4%}" in table.stdout
    assert "5 instances late" in table.stdout


def test_columns_of_times_and_ids(tmp_path):
    """A concept on the hour and the weekday, which neither the time itself nor an id tells."""
    rows = [datetime(2026, 1, 1) + timedelta(hours=7 * i) for i in range(2000)]
    path = tmp_path / "shop.csv"
    lines = [f"O-{i},{t.isoformat()},{int(t.hour < 6 and t.weekday() != 6)}" for i, t in enumerate(rows)]
    path.write_text("\n".join(["order,at,late", *lines]))
    tree = ("evaluate", path, "--model", "hoeffding-tree")
    refused = invoke(*tree)
    assert isinstance(refused.exception, DataError)
    assert "--ignore order" in str(refused.exception)
    assert "no feature left" in str(invoke(*tree, "--ignore", "order").exception)
    for more in ((), ("--folds", "2")):
        found = invoke(*tree, "--ignore", "order", "--date-parts", "at", "--json", *more)
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout)["runs"][0]["accuracy"] > 0.9
        assert "left out" not in found.stderr
        left = invoke(*tree, "--max-values", "2000", "--json", *more)
        assert left.stderr.count("column 'at' holds times and is left out") == 1
        assert "left out" not in invoke(*tree, "--ignore", "at", "--max-values", "2000", *more).stderr
    timed = invoke(*tree, "--ignore", "order", "--date-parts", "at", "--time", "at", "--label-delay", "1d", "--json")
    assert json.loads(timed.stdout)["clock"] == "at"
    assert "left out" not in timed.stderr


def test_the_table_of_several_models_counts_drifts(tmp_path):
    generated = ("--generate", "sea:noise=0.0", "-n", 4000, "--drift", 2000, "--to", "function=3")
    several = ("evaluate", *generated, "--model", "naive-bayes", "--model", "last-label", "--jobs", "1")
    found = json.loads(invoke(*several, "--detector", "adwin", "--detector", "ddm", "--json").stdout)
    runs = {run["model"]: run["changes"] for run in found["runs"]}
    for entry in found["summary"]:
        for name, n in entry["drifts"].items():
            changes = [c for c in runs[entry["model"]] if c["detector"] == name and c["level"] == "drift"]
            assert n == len(changes)
    assert max(entry["drifts"]["adwin"] for entry in found["summary"]) > 0
    table = invoke(*several, "--detector", "adwin", "--detector", "ddm").stdout.splitlines()
    assert table[1].split()[-4:] == ["adwin", "drifts", "ddm", "drifts"]
    for entry in found["summary"]:
        row = next(line.split() for line in table if entry["model"] in line)
        assert row[-2:] == [f"{entry['drifts'][name]:g}" for name in ("adwin", "ddm")]
    assert "drifts" not in invoke(*several).stdout


MOMENTS = "2026-11-21T12:00:{:06.3f}Z"


@pytest.fixture(scope="module")
def timed(mixed, tmp_path_factory):
    """`mixed` with a column of times: ties, steps back, and as ISO 8601 the same. Path, milliseconds."""
    rng = np.random.default_rng(8)
    steps = rng.choice([0, 0, 1, 5, 40, -30], N)
    times = 10_000 + np.cumsum(steps)
    with gzip.open(mixed, "rt") as lines:
        header, *rows = list(csv.reader(lines))
    folder = tmp_path_factory.mktemp("timed")
    for name, texts in (
        ("seconds", [str(t / 1000) for t in times]),
        ("iso", [MOMENTS.format(t / 1000) for t in times]),
    ):
        with open(folder / f"{name}.csv", "w", newline="") as out:
            csv.writer(out).writerows([["at", *header], *([text, *row] for text, row in zip(texts, rows, strict=True))])
    return folder, np.maximum.accumulate(times)


@pytest.mark.parametrize(("delay", "size"), [(0, 50), (0.001, 50), (1.2, 50), (1000.0, 50), (0.05, 1)])
def test_delays_in_time_equal_a_naive_order_of_events(timed, delay, size, monkeypatch):
    folder, times = timed
    monkeypatch.setattr(module, "LARGEST_BATCH", size)
    expected, metrics = naive(folder / "seconds.csv", "hoeffding-tree", round(delay * 1000), times, **TREE)
    for name in ("seconds", "iso"):
        result, predictions = run(folder / f"{name}.csv", "hoeffding-tree", delay, parameters=TREE, clock="at")
        assert np.array_equal(predictions[:, :2], expected)
        assert (result["n"], result["label_delay"], result["clock"]) == (metrics["n"], delay, "at")
        assert not {"expired", "evicted"} & set(result)


@pytest.mark.parametrize("more", [(), ("--model", "naive-bayes")])
def test_labels_later_than_the_horizon_are_told(timed, more):
    folder, _ = timed
    path = folder / "short.yaml"
    text = STREAM.replace("max_values: 2", "max_values: 9")
    for horizon, told in (("100ms", True), ("1s", False)):
        path.write_text(text.replace("seed: 3", f"join: {{horizon: {horizon}}}"))
        late = ("evaluate", folder / "seconds.csv", "--stream", path, "--time", "at", "--label-delay", "200ms", *more)
        done = invoke(*late)
        assert ("labels come 200ms late, and instances wait for 100ms (join.horizon" in done.stderr) == told
        assert "instances expired (join.horizon)" in done.stdout or not told
        if more:
            (result,) = json.loads(invoke(*late, "--json").stdout)["runs"]
            assert (result["n"] == 0, result.get("expired", 0) > 500) == (told, told)


def test_command_with_times(timed):
    path = timed[0] / "iso.csv"
    given = ["evaluate", path, "--model", "naive-bayes", "--label-delay", "50ms", "--time"]
    assert list(spec_for(DataFile(path), "naive-bayes", {}, clock="at")[0].features) == ["u", "colour", "v"]
    found = json.loads(invoke(*given, "at", "--json").stdout)
    assert (found["label_delay"], found["clock"]) == (0.05, "at")
    assert "labels 50ms late" in invoke(*given, "at").stdout
    for column, message in {
        "label": "would be the target and the time",
        "then": "no column 'then' for the time of a row",
        "colour": "in column 'colour': expected a time",
    }.items():
        assert message in str(invoke(*given, column).exception)


def test_parts_of_the_times_of_a_generated_stream():
    made = ["--generate", "payments", "-n", "300", "--time", "time", "--date-parts", "time", "--label-delay", "1h"]
    ignored = [argument for name in ("card", "terminal", "labelled") for argument in ("--ignore", name)]
    given = ["evaluate", *made, *ignored, "--model", "naive-bayes", "--json"]
    found = CliRunner().invoke(cli, given)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["runs"][0]["n"] == 300
    absent = CliRunner().invoke(cli, [*given, "--ignore", "time_day"])
    assert "time_hour, time_weekday" in str(absent.exception)


def test_detectors_watch_the_errors_and_change_nothing_else():
    recipe = Recipe("stagger", 3000, 0, {}, [ConceptDrift(1500, 0, {"function": 2})])
    arguments = ["evaluate", "--generate", "stagger", "-n", 3000, "--drift", 1500, "--to", "function=2"]
    arguments += ["--model", "naive-bayes"]
    file = SyntheticFile(recipe)
    plain, p = run(file, "naive-bayes")
    codes, y = {}, []
    for block in file.blocks((3,)):
        y += [codes.setdefault(text, len(codes)) for text in block.columns[0]]
    scored = p.max(axis=1) > 0.0
    errors = (p.argmax(axis=1) != np.array(y))[scored].astype(float)
    (found,) = json.loads(invoke(*arguments, "--detector", "adwin", "--detector", "ddm", "--json").stdout)["runs"]
    for name in ("adwin", "ddm"):
        levels = create_detector(name).update_many(errors)
        changes = [c for c in found["changes"] if c["detector"] == name and c["level"] != "warning"]
        assert [c["n"] for c in changes] == (np.flatnonzero(levels == 2) + 1).tolist()
        drifts = [c["n"] for c in changes if c["level"] == "drift"]
        assert any(1500 < n < 1700 for n in drifts)
    same = set(plain) - {"seconds", "wall_seconds", "instances_per_second", "curves"}
    assert {key: found[key] for key in same} == {key: plain[key] for key in same}
    assert found["curves"]["accuracy"] == plain["curves"]["accuracy"]
    shown = invoke(*arguments, "--detector", "ddm").stdout
    assert "ddm: drift at 1,5" in shown
    assert "drift" not in invoke(*arguments).stdout


def test_a_stream_file_as_it_is_says_what_its_rule_would_have_done(tmp_path):
    """Its models come to the figures of each alone; whether it proposes or acts, the rule speaks first at one row."""
    path, generated = (
        tmp_path / "sine.yaml",
        ["--generate", "sine", "-n", "9000", "--drift", "5000", "--to", "function=1"],
    )
    options = ["evaluate", *generated, "--label-delay", "50", "--stream", str(path), "--json"]

    def asked(*more, mode="automatic"):
        path.write_text(
            "{name: s, task: classification, features: {x1: numeric, x2: numeric, x3: numeric, x4: numeric}, "
            "classes: [c0, c1], champion: last-label, challengers: {tree: hoeffding-tree, nb: naive-bayes}, "
            f"control: true, promotion: {mode}, drift: {{distributions: {{window: 300}}}}, metrics: {{window: 500}}}}"
        )
        done = CliRunner().invoke(cli, [*options, *more])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    found, proposed = asked(), asked(mode="propose")
    first, word = found["promotions"][0], proposed["promotions"][0]
    assert (first["event"], word["event"]) == ("applied", "proposed")
    assert (first["row"], first["model"]) == (word["row"], word["model"])
    assert first["row"] % 250 == 50  # labels are looked at so often, and come so late
    assert first["models"]["champion"] != "last-label"
    assert set(proposed["models"]) == {"champion", "tree", "nb"}
    for role, model in (("champion", "last-label"), ("tree", "hoeffding-tree"), ("nb", "naive-bayes")):
        (alone,) = asked("--model", model, mode="propose")["runs"]
        assert proposed["models"][role]["overall"].items() >= {k: alone[k] for k in ("n", "accuracy", "kappa")}.items()
    assert {one["detector"] for one in found["drifts"]} >= {"adwin"}
    assert {one["signal"] for one in found["distances"]} == {"x1", "x2", "x3", "x4", "prediction"}
    assert 0.0 <= found["models"]["champion"]["estimated"]["accuracy"] <= 1.0
    done = CliRunner().invoke(cli, options[:-1])
    assert f"row {proposed['promotions'][0]['row']:,}: proposed: " in done.stdout
    for wrong, why in (
        ([], "give --model NAME, or --stream"),
        (["--stream", str(path), "--grid", "a=1"], "--grid is about"),
    ):
        done = CliRunner().invoke(cli, ["evaluate", *generated, *wrong])
        assert done.exit_code == 2
        assert why in done.stderr


@pytest.mark.parametrize("codec", ["json", "arrow"])
def test_predictions_of_a_stream_file_as_it_is_are_those_that_are_scored(tmp_path, codec):
    """Each is a line, as a worker's record, in JSON whatever the stream's format is."""
    stream, data, out = tmp_path / "s.yaml", tmp_path / "d.csv", tmp_path / "p.jsonl"
    x = np.random.default_rng(0).normal(size=(600, 2))
    labels = np.where(x[:, 0] + 0.3 * x[:, 1] > 0.0, "yes", "no")
    rows = zip(*x.T.tolist(), labels, strict=True)
    data.write_text("a,b,label\n" + "".join(f"{a},{b},{label}\n" for a, b, label in rows))
    stream.write_text(
        f"{{name: s, task: classification, codec: {codec}, features: {{a: numeric, b: numeric}}, "
        "champion: naive-bayes, challengers: {last: last-label}, predictions: {challengers: true, reasons: 1}}"
    )
    options = ["evaluate", str(data), "--stream", str(stream), "--label-delay", "40", "--predictions", str(out)]
    found = json.loads(invoke(*options, "--json").stdout)["models"]
    said = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["id"] for one in said] == [str(i) for i in range(600)]
    assert {one["y"] for one in said[:41]} == {None}  # label 0 comes after row 40
    for role, named in (
        ("champion", [one["y"] for one in said]),
        ("last", [one["challengers"]["last"]["y"] for one in said]),
    ):
        assert np.mean(np.array(named) == labels) == pytest.approx(found[role]["overall"]["accuracy"], abs=1e-12)
    assert all(len(one["reasons"]) == 1 for one in said[100:])
    for wrong, why in (
        ([*options, "--model", "naive-bayes"], "leave --model out"),
        ([*options[:-2], "--state", "s.state", "--model", "naive-bayes"], "leave --model out"),
        ([*options[:-1], str(tmp_path / "no" / "p.jsonl")], "No such file"),
    ):
        done = CliRunner().invoke(cli, wrong)
        assert done.exit_code != 0
        assert why in done.stderr


@pytest.mark.parametrize("terminal", [False, True])
def test_figures_of_a_stream_file_as_it_is_are_not_cut(terminal, monkeypatch, capsys):
    """Rich cuts a column that does not fit, and takes a pipe to be 80 characters wide."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda _: terminal))
    one = {"overall": {"accuracy": 0.71744}, "recent": {"accuracy": 0.712}, "estimated": {"accuracy": 0.713801}}
    models = {
        "champion": one | {"learner": "opinion-pool"},
        "naive-bayes": one | {"learner": "hoeffding-adaptive-tree"},
    }
    found = {"task": "classification", "rows": 9, "data": "d.csv", "label_delay": 0, "models": models}
    found["objective"] = Objective("accuracy", "Accuracy")._asdict()
    show_whole(found | {"promotions": [], "drifts": []})
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(shown.count(text) == 2 for text in ("71.7440%", "71.2000%", "71.3801%"))
    assert "hoeffding-adaptive-tree" in shown
    assert "AUROC" not in shown


def test_intervals_of_a_stream_file_as_it_is_are_told(capsys):
    one = {"learner": "fimt-dd", "overall": {"mae": 2.7, "coverage": 0.9007, "interval_width": 11.5}, "estimated": {}}
    models = {"champion": one | {"recent": {"mae": 2.8}}}
    found = {"task": "regression", "rows": 9, "data": "d.csv", "label_delay": 0, "models": models}
    found["objective"] = Objective("mae", "Mean absolute error", greater=False, share=False)._asdict()
    show_whole(found | {"promotions": [], "drifts": []})
    assert "champion: labels held by interval or set 90.0700%, mean width" in capsys.readouterr().out


def test_of_a_rare_class_its_recall_is_shown_and_no_accuracy(capsys):
    classes = {"fraud": {"n": 40.0, "recall": 0.625, "precision": 0.5}, "ok": {"n": 7960.0, "recall": 0.997}}
    recent = {"fraud": {"n": 5.0, "recall": 0.8}}
    one = {"learner": "opinion-pool", "overall": {"accuracy": 0.9951, "classes": classes}, "classes": recent}
    one |= {"recent": {"accuracy": 0.9961}, "estimated": {"accuracy": 0.99}}
    found = {"task": "classification", "rows": 8000, "data": "d.csv", "label_delay": 0, "models": {"champion": one}}
    found["objective"] = Objective("recall", "Recall at 1 % alerts", of="fraud")._asdict()
    show_whole(found | {"promotions": [], "drifts": []})
    shown = capsys.readouterr().out
    assert "Recall at 1 % alerts" in shown
    assert "62.5000%     80.0000%" in shown
    assert not any(text in shown for text in ("accuracy", "99."))


def test_a_stream_file_s_segments_are_told(tmp_path):
    """The shares of a feature's values sum to one, and what they add to the change."""
    rng = np.random.default_rng(5)
    rows = [(rng.normal(), "PQ"[int(rng.random() < 0.4)]) for _ in range(6000)]
    lines = [f"{a:.6f},{land},{'np'[int(a > 0) ^ int(land == 'Q' and i > 4500)]}" for i, (a, land) in enumerate(rows)]
    data, stream = tmp_path / "d.csv", tmp_path / "s.yaml"
    data.write_text("\n".join(["a,land,y", *lines, ""]))
    stream.write_text(
        "name: s\ntask: classification\nfeatures: {a: numeric, land: nominal}\nclasses: [n, p]\n"
        "champion: naive-bayes\nchallengers: {}\nmetrics: {segments: [land]}\n"
    )
    options = ["evaluate", str(data), "--stream", str(stream)]
    done = CliRunner().invoke(cli, [*options, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    (table,) = found["segments"]
    assert (table["feature"], {row["value"] for row in table["values"]} >= {"P", "Q"}) == ("land", True)
    assert sum(row["share"] for row in table["values"]) == pytest.approx(1.0)
    assert table["values"][0]["value"] == "Q"
    assert table["values"][0]["since"] > 0
    shown = CliRunner().invoke(cli, options).stdout
    assert re.search(r"^Q +[0-9.]+ .*surely worse", shown, re.MULTILINE), shown


def test_values_of_records_give_a_terminal_no_commands(capsys):
    row = {"share": 0.5, "now": 0.9, "before": 0.8, "adds": 0.1, "since": 0}
    values = [{"value": "\x1b]0;owned\x07a\nb\u202e"}, *({"value": f"v{i}"} for i in range(13))]
    by_value.show([{"feature": "[red]c\x1b", "share": True, "values": [row | value for value in values]}])
    head, first, *others, last = capsys.readouterr().out.splitlines()
    assert head.startswith("[red]c\\x1b ")
    assert first.startswith("\\x1b]0;owned\\x07a\\nb\\u202e ")
    assert (len(others), last) == (11, "and 2 more, which --json lists")
