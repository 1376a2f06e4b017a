"""Importance by permutation, held against a row at a time and against worlds in which it is known."""

import copy
import math

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.papers.permuting import LEAST_P, Permuted, importance, main
from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.topics.records import CLASSIFICATION, REGRESSION

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


@pytest.mark.parametrize(("name", "task"), [("hoeffding-tree", CLASSIFICATION), ("fimt-dd", REGRESSION)])
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


def test_no_row_that_could_be_tried_is_no_figure(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("a,b,y\n1,2,yes\n")
    assert importance(path, "hoeffding-tree") == {}
    assert CliRunner().invoke(main, [str(path), "--model", "hoeffding-tree"]).exit_code == 0
