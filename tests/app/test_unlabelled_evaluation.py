"""`riparian evaluate` of anomalies without labels: alerts are counted, as a worker would name them."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import build
from tests.app.test_anomaly import step

MODEL = {"model": "half-space-trees", "height": 6, "window": 50}
STREAM = {
    "name": "s", "task": "anomaly", "features": {"a": "numeric", "b": "numeric"},
    "topics": {"labels": None}, "record": {"y": None},
    "champion": MODEL, "challengers": {"low": {**MODEL, "height": 3}}, "decision": {"alert_rate": 0.05},
}  # fmt: skip
N = 1234


@pytest.fixture
def files(tmp_path):
    """Paths of a file of features, and of stream files with other fields."""
    x = np.random.default_rng(0).normal(size=(N, 2))
    x[::40] += 8.0
    data = tmp_path / "a.csv"
    data.write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in x))

    def stream(**fields):
        path = tmp_path / "s.yaml"
        path.write_text(json.dumps({name: one for name, one in {**STREAM, **fields}.items() if one != "none"}))
        return str(path)

    return str(data), stream


def evaluated(*arguments):
    done = CliRunner().invoke(cli, ["evaluate", *arguments])
    assert done.exit_code == 0, done.output + done.stderr
    return done.stdout


def of_worker(data):
    """Whether each row is an alert of each model, null in the beginning; and the figures at the end."""
    with open(data) as file:
        rows = [
            {"id": str(i), "x": {name: float(value) for name, value in row.items()}}
            for i, row in enumerate(csv.DictReader(file))
        ]
    learner = PartitionLearner(build({**STREAM, "predictions": {"challengers": True}}, "test"))
    outcome = step(learner, rows)
    return {role: found[:, 0] for role, found in outcome.decided.items()}, learner.figures()


@pytest.mark.parametrize("labels_topic", [False, True])
def test_the_models_of_a_stream_file_name_what_a_worker_would(files, labels_topic):
    data, stream = files
    path = stream(**({"topics": "none", "record": "none"} if labels_topic else {}))
    found, (alerts, figures) = json.loads(evaluated(data, "--stream", path, "--json")), of_worker(data)
    assert (found["rows"], found["task"], found["instances_per_second"] > 0) == (N, "anomaly", True)
    assert "label_delay" not in found
    for role, one in found["models"].items():
        assert (one["predictions"], one["alerts"]) == (N, int((alerts[role] == 1.0).sum()))
        edges = [*(part["row"] for part in one["tenths"]), N]
        assert edges == [N * i // 10 for i in range(11)]
        for part, a, b in zip(one["tenths"], edges[:-1], edges[1:], strict=True):
            assert (part["predictions"], part["alerts"]) == (b - a, int((alerts[role][a:b] == 1.0).sum()))
        assert one["overall"]["alert_rate"] == figures.overall[role]["alert_rate"]
        assert one["recent"]["threshold"] == figures.recent[role]["threshold"]
        assert one["live_bytes"] > 0
    assert found["models"]["champion"]["alerts"] > 20
    out = Path(data).with_suffix(".jsonl")
    shown = evaluated(data, "--stream", path, "--predictions", str(out))
    said = [json.loads(line)["alert"] for line in out.read_text().splitlines()]
    assert said == [None if np.isnan(one) else bool(one) for one in alerts["champion"]]
    assert f"{N:,} rows of a.csv, no labels" in shown
    assert re.search(rf"champion +half-space-trees +{N:,} +{found['models']['champion']['alerts']} +\d", shown)
    assert re.search(r"from row +champion +low", shown)


@pytest.mark.parametrize(
    "fields", [{"join": {"unlabelled": {"after": "1d"}, "horizon": "2d"}}, {"label": {"on_repeat": "correct"}}]
)
def test_what_a_stream_file_has_of_labels_is_nothing_to_a_file_without(files, fields):
    data, stream = files
    plain, found = (
        json.loads(evaluated(data, "--stream", stream(topics="none", record="none", **more), "--json"))
        for more in ({}, fields)
    )
    assert found["models"]["champion"]["alerts"] == plain["models"]["champion"]["alerts"] > 20


def test_one_model_and_its_curve(files, tmp_path):
    data, stream = files
    path = stream()
    arguments = (data, "--stream", path, "--model", "half-space-trees:height=6,window=50")
    (found,) = json.loads(evaluated(*arguments, "--json"))["runs"]
    alerts, figures = of_worker(data)
    assert (found["predictions"], found["alerts"]) == (N, int((alerts["champion"] == 1.0).sum()))
    assert found["alert_rate"] == figures.overall["champion"]["alert_rate"]
    assert found["threshold"] == found["curves"]["threshold"][-1] == figures.recent["champion"]["threshold"]
    assert found["curves"]["n"][-1] == N
    assert {"n", "label_delay", "classes", "unpredicted", "evicted"}.isdisjoint(found)
    shown = " ".join(evaluated(*arguments, "--curve", str(tmp_path / "c.csv")).split())
    assert "half-space-trees on a.csv, no labels" in shown
    assert f"alerts {found['alerts']} threshold of the score" in shown
    assert "alert rate over about the last 2,000 predictions" in shown
    with open(tmp_path / "c.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["n"]) for row in rows] == found["curves"]["n"]
    assert float(rows[-1]["alert_rate"]) == figures.recent["champion"]["alert_rate"]


def test_several_models_stand_as_given(files):
    data, stream = files
    models = [f"half-space-trees:height={height},window=50" for height in (6, 3)]
    arguments = (data, "--stream", stream(), "--model", models[0], "--model", models[1], "--jobs", "1")
    found, shown = json.loads(evaluated(*arguments, "--json")), evaluated(*arguments)
    assert found["sort"] == "given"
    assert [one["best"] for one in found["summary"]] == [False, False]
    assert [one["parameters"]["height"] for one in found["summary"]] == ["6", "3"]
    assert "alerts %" in shown
    assert "the best" not in shown
    ranked = json.loads(evaluated(*arguments, "--sort", "alert_rate", "--json"))["summary"]
    rates = [one["mean"]["alert_rate"] for one in ranked]
    assert rates == sorted(rates)


@pytest.mark.parametrize(
    ("fields", "arguments", "said"),
    [
        ({"decision": "none"}, [], "has no labels, so there is nothing to score: decision: {alert_rate: 0.01} in the"),
        (
            {"decision": "none", "topics": "none", "record": "none"},
            [],
            "is a feature, and no column of labels was named by --label, so there is nothing to score",
        ),
        ({}, ["--label-delay", "3"], "--label-delay is about labels, and there are none"),
        ({}, ["--model", "auto", "--detector", "adwin"], "--detector is about labels"),
        ({}, ["--model", "auto", "--front", "f.csv"], "--front is of AUROC, which needs labels"),
        ({"task": "regression", "champion": "mean", "challengers": {}, "decision": "none", "topics": "none",
          "record": "none"}, [], "would be the target and is a feature"),
    ],
)  # fmt: skip
def test_what_only_labels_tell_is_refused(files, fields, arguments, said):
    data, stream = files
    done = CliRunner().invoke(cli, ["evaluate", data, "--stream", stream(**fields), *arguments])
    assert done.exit_code != 0
    assert said in " ".join(f"{done.stderr} {done.exception}".split())
