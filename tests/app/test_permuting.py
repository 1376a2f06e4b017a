"""Importance by permutation, held against a row at a time and against worlds in which it is known."""

import copy
import csv
import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from app.cli import cli
from app.evaluation.permuting import LEAST_P, Permuted
from models.contract import Schema
from models.registry import create
from topics.records import CLASSIFICATION, REGRESSION

NAMES = ["a", "b", "c"]


def naive(model, steps, task, window, seed):
    """As the papers describe it: each row by itself, each feature by itself, the loss with and without."""
    random, before = np.random.default_rng(seed), []
    rises = {name: [] for name in NAMES}

    def loss(row, y):
        told = copy.deepcopy(model).predict_many(np.array([row]))[0]
        if task == REGRESSION:
            return None if math.isnan(told[0]) else abs(told[0] - y)
        return None if max(told) == 0.0 else -math.log(max(told[int(y)], LEAST_P))

    for x, y in steps:
        if before:
            rows = [i for i in range(len(x)) if not math.isnan(y[i])]
            random.random(len(rows))  # whether a row is tried: here all are
            donors = random.integers(0, len(before), (len(NAMES), len(rows)))
            for k, i in enumerate(rows):
                usual = loss(x[i], y[i])
                for j, name in enumerate(NAMES):
                    other = list(x[i])
                    other[j] = before[donors[j, k]][j]
                    if usual is not None:
                        rises[name].append(loss(other, y[i]) - usual)
        before = (before + list(x))[-window:]
        known = ~np.isnan(y)
        model.learn_many(x[known], y[known])
    return {name: (np.mean(found), np.std(found) / math.sqrt(len(found))) for name, found in rises.items()}


@pytest.mark.parametrize(
    ("name", "task"), [("hoeffding-tree", CLASSIFICATION), ("naive-bayes", CLASSIFICATION), ("fimt-dd", REGRESSION)]
)
def test_it_is_what_a_row_at_a_time_comes_to(name, task):
    random = np.random.default_rng(3)
    x = random.normal(size=(600, 3))
    x[:, 2] = random.integers(0, 4, 600)
    x[random.random(600) < 0.1, 0] = np.nan
    y = np.where(x[:, 1] + (x[:, 2] == 1) > 0.4, 1.0, 0.0) if task == CLASSIFICATION else x[:, 1] * 3 + x[:, 2]
    y[random.random(600) < 0.1] = np.nan
    steps = [(x[i : i + 50], y[i : i + 50]) for i in range(0, 600, 50)]
    models = [create(name, Schema((0, 0, 4), 2 if task == CLASSIFICATION else 1, task), seed=1) for _ in range(2)]
    found = Permuted(NAMES, task, 600, window=120, seed=7)
    for rows, labels in steps:
        found.step(models[0], rows, labels)
        known = ~np.isnan(labels)
        models[0].learn_many(rows[known], labels[known])
    measure = "log_loss" if task == CLASSIFICATION else "mae"
    expected = naive(models[1], steps, task, 120, 7)
    told = found.result()
    assert {one: (told[one][measure], told[one]["standard_error"]) for one in NAMES} == {
        one: (pytest.approx(mean, rel=1e-9, abs=1e-12), pytest.approx(error, rel=1e-9, abs=1e-12))
        for one, (mean, error) in expected.items()
    }
    assert list(told) == sorted(NAMES, key=lambda one: -told[one][measure])
    assert found.since().keys() == set(NAMES)
    assert found.since() == {}


def run(path, *options):
    result = CliRunner().invoke(cli, ["evaluate", str(path), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def turning(tmp_path_factory):
    """The label is that of `first`, and from the middle on that of `second`; `noise` says nothing, and some are bad."""
    random = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("data") / "turning.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "noise", "colour", "y"])
        for i in range(6000):
            first, second, noise = random.normal(size=3).round(4)
            said = (first if i < 3000 else second) > 0
            label = "" if random.random() < 0.05 else "yes" if said else "no"
            writer.writerow([first, second, noise, random.choice(["red", "blue", ""]), label])
    return path


def test_what_the_label_depends_on_is_important_while_it_does(turning):
    model = ("--model", "adaptive-random-forest:n_models=5", "--label-delay", "100")
    plain = json.loads(run(turning, *model, "--json"))["runs"][0]
    found = json.loads(run(turning, *model, "--importance", "--json"))
    one = found["runs"][0]
    sizes = {"live_bytes", "mean_live_bytes", "peak_live_bytes"}  # with room for longer programs
    timed = {"seconds", "wall_seconds", "instances_per_second", "importance", "curves"} | sizes
    assert {k: v for k, v in one.items() if k not in timed} == {k: v for k, v in plain.items() if k not in timed}
    importance = one["importance"]
    assert {*list(importance)[:2]} == {"first", "second"}
    for name in ("first", "second"):
        assert importance[name]["log_loss"] > 10 * importance[name]["standard_error"]
        assert importance[name]["error"] > 0.1
    for name in ("noise", "colour"):
        assert abs(importance[name]["log_loss"]) < 0.02
    curves = ([v for v in one["curves"][f"importance:{name}"] if v is not None] for name in ("first", "second"))
    then, now = map(np.array, curves)
    assert np.median(then[5:25]) > 0.2 > np.median(then[-10:])
    assert np.median(now[5:25]) < 0.05 < 0.2 < np.median(now[-10:])
    assert found["summary"][0]["importance"]["first"].keys() == {"log_loss", "error"}


def test_it_is_shown_and_drawn(turning, tmp_path):
    drawn = tmp_path / "worth.csv"
    models = ("--model", "hoeffding-tree", "--model", "naive-bayes", "--limit", "2000", "--jobs", "1")
    shown = run(turning, *models, "--importance", "--curve", str(drawn), "--measure", "importance:first")
    assert "rise of log loss with the values of other rows in the feature" in shown
    assert "importance:first" in drawn.read_text()
    alone = run(turning, *models[:2], "--limit", "2000", "--importance")
    assert "fall of accuracy" in alone
    refused = CliRunner().invoke(cli, ["evaluate", str(turning), *models[:2], "--folds", "2", "--importance"])
    assert refused.exit_code == 2
    assert "--folds and --importance exclude each other" in refused.output


def test_no_row_that_could_be_tried_is_no_figure(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("a,b,y\n" + "1,2,yes\n" * 3)
    assert (
        json.loads(run(path, "--model", "hoeffding-tree", "--importance", "--json", "--points", "1"))["runs"][0][
            "importance"
        ]
        == {}
    )
    run(path, "--model", "hoeffding-tree", "--model", "naive-bayes", "--importance", "--points", "1")
