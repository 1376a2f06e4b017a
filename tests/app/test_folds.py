"""Cross-validation and files of bags: folds, tables, and `riparian evaluate --folds`."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.table import read_table
from riparian.app.dataset.rows import rows_of_bags
from riparian.app.errors import DataError
from riparian.app.evaluation.folds import cross_validate, folds_of
from riparian.app.stream_file.spec import build
from riparian.models.contract import Bags
from riparian.models.registry import create
from riparian.topics.codecs import CODECS
from riparian.topics.formats.common.json_rows import Renderer
from riparian.topics.records import RawBatch
from riparian.topics.schemas import Schemas

BAGS = """bag,label,a,c
p,yes,1,red
p,yes,2.5,
q,no,?,blue
r,,4,red
s,yes,5,blue
"""


def file(tmp_path, text=BAGS):
    path = tmp_path / "bags.csv"
    path.write_text(text)
    return DataFile(path)


def bags_file(tmp_path, n=40):
    """Bags of up to three instances; a positive one has an instance beyond 2."""
    rng = np.random.default_rng(1)
    lines = ["bag,label,a,b"]
    for i in range(n):
        y = i % 2
        values = rng.normal(size=(1 + i % 3, 2))
        values[0, 0] += 4.0 * y
        lines += [f"b{i},{y},{a:.4f},{b:.4f}" for a, b in values]
    return file(tmp_path, "\n".join(lines) + "\n")


def test_a_table_of_bags(tmp_path):
    table = read_table(file(tmp_path), bag="bag")
    assert table.ids == ["p", "q", "s"]  # r has no label
    assert table.classes == ["no", "yes"]
    assert table.y.tolist() == [1.0, 0.0, 1.0]
    assert table.features == {"a": "numeric", "c": "nominal"}
    assert table.values == {"c": ["red", "blue"]}
    assert table.schema.n_values == (0, 2)
    assert table.schema.task == "multi-instance"
    assert isinstance(table.x, Bags)
    expected = [[1.0, 0.0], [2.5, np.nan], [np.nan, 1.0], [5.0, 1.0]]
    assert np.array_equal(table.x.x, expected, equal_nan=True)
    assert table.x.size.tolist() == [2, 1, 1]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_bags_of_a_file_are_published_as_they_are_read_back(tmp_path, size):
    """Rendered, in blocks of any size, and decoded again: the table."""
    path = bags_file(tmp_path)
    fields = {"name": "s", "task": "multi-instance", "classes": ["0", "1"], "champion": "miti"}
    spec = build({**fields, "features": {"b": "numeric", "a": "numeric"}}, "test")
    rows = list(rows_of_bags(path, spec, "bag", "label", size=size))
    assert [row.first for row in rows] == np.cumsum([0, *map(len, rows)])[:-1].tolist()
    renderer, values, labels = Renderer(spec.mapping()), [], []
    for block in rows:
        cut = len(block) // 2
        for part in (block.part(0, cut), block.part(cut, len(block))):
            values += renderer.features(part, [0] * len(part))
            labels += part.y
    raw = RawBatch(list(range(len(values))), [0] * len(values), [None] * len(values), values)
    found = CODECS["json"](spec.mapping(), Schemas()).decode_features(raw, spec.vocabularies(), spec.class_vocabulary())
    table = read_table(path, bag="bag")
    assert found.ids == table.ids
    assert found.sizes.tolist() == table.x.size.tolist()
    assert np.array_equal(found.x[:, ::-1], table.x.x)
    assert [float(json.loads(y)) for y in labels] == table.y.tolist()


def test_a_table_of_rows(tmp_path):
    found = read_table(file(tmp_path, "a,c,y\n1,u,p\n2,v,\n3,u,o\n"))
    assert found.x.tolist() == [[1.0, 0.0], [3.0, 0.0]]
    assert (found.classes, found.y.tolist()) == (["o", "p"], [1.0, 0.0])
    numbers = read_table(file(tmp_path, "a,y\n1,0.5\n2,?\n3,1e3\n"))
    assert (numbers.schema.task, numbers.y.tolist(), numbers.schema.n_outputs) == ("regression", [0.5, 1000.0], 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bag,label,a\np,1,1\nq,0,1\np,1,2\n", "line 4 of .* goes on with bag 'p', which began in line 2"),
        ("bag,label,a\np,1,1\np,0,1\n", "line 3 of .* gives bag 'p' the label '0', and line 2 gave it '1'"),
        ("bag,label,a\np,1,1\nq,1,1\n", "column 'label' of .* has 1 classes: bags have two"),
        ("bag,label\np,1\nq,0\n", "has no feature left beside the target 'label'"),
        ("group,label,a\np,1,1\nq,0,1\n", "has no column 'bag' for the bag of a row"),
    ],
)
def test_what_a_file_of_bags_must_not_be(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_table(file(tmp_path, text), bag="bag")


def test_folds_are_even_stratified_and_drawn_anew():
    y = np.array([0.0] * 31 + [1.0] * 12)
    fold = folds_of(y, 5, 1, True)
    assert np.bincount(fold).tolist() == [9, 9, 9, 8, 8]
    for c in (0.0, 1.0):
        counts = np.bincount(fold[y == c], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert folds_of(y, 5, 1, True).tolist() == fold.tolist()
    assert folds_of(y, 5, 2, True).tolist() != fold.tolist()


def test_every_row_is_predicted_by_a_learner_that_has_not_seen_it(tmp_path):
    """Two labels, and of 29 others the 15 of the other class: the majority is always wrong."""
    table = read_table(file(tmp_path, "a,y\n" + "".join(f"{i},{'pq'[i % 2]}\n" for i in range(30))))
    found = cross_validate(table, "majority-class", {}, 30, seed=3)
    assert (found["n"], found["accuracy"]) == (30, 0.0)
    with pytest.raises(DataError, match="30 rows or bags with a label for 31 folds: use --folds 30, or less"):
        cross_validate(table, "last-label", {}, 31)


def test_the_command(tmp_path):
    path = str(bags_file(tmp_path).path)
    options = ["--bag", "bag", "--folds", "4", "--set", "k=1", "--seed", "5"]
    done = CliRunner().invoke(cli, ["evaluate", path, "--model", "miti", *options, "--json"])
    assert done.exit_code == 0, done.output
    whole = json.loads(done.stdout)
    (one,) = whole["runs"]
    assert (whole["data"], whole["folds"], whole["repeats"], whole["summary"][0]["best"]) == ("bags.csv", 4, 1, True)
    assert (one["n"], one["folds"], one["task"], one["seed"]) == (40, 4, "multi-instance", 5)
    assert one["accuracy"] > 0.8
    assert one["parameters"]["k"] == 1.0
    assert {"kappa", "log_loss", "f1_macro", "auroc", "seconds", "state_bytes", "peak_live_bytes"} <= set(one)
    assert {name: found["n"] for name, found in one["classes"].items()} == {"0": 20, "1": 20}
    by_fold = one["by_fold"]["accuracy"]
    assert (len(by_fold), sum(by_fold) / 4) == (4, pytest.approx(one["accuracy"]))  # folds of ten bags
    assert not {"kappa_temporal", "mean_running_accuracy"} & (one.keys() | one["by_fold"].keys())
    models = ["--model", "miti", "--model", "last-label"]
    done = CliRunner().invoke(cli, ["evaluate", path, *models, "--bag", "bag", "--folds", "4", "--repeats", "3"])
    assert done.exit_code == 0, done.output
    assert "4 folds, mean ± standard error of 3 repeats" in done.stdout
    assert done.stdout.index("*°  miti") < done.stdout.index("last-label")


def test_bags_as_a_stream(tmp_path):
    """By the code of the worker: a label that comes ten bags later finds its bag waiting."""
    path = str(bags_file(tmp_path).path)
    given = ["--bag", "bag", "--json", "--set", "refit_every=5"]
    found = []
    for delay in (0, 10, 100):
        arguments = ["evaluate", path, "--model", "miti", *given, "--label-delay", str(delay)]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        found += json.loads(done.stdout)["runs"]
    assert [one["n"] for one in found] == [40, 40, 40]
    assert [one["label_delay"] for one in found] == [0, 10, 100]
    assert found[0]["accuracy"] > found[1]["accuracy"] > found[2]["accuracy"] == 0.0  # the last has learned nothing yet
    learner = create("miti", read_table(DataFile(path), bag="bag").schema, refit_every=5)
    hits, table = 0, read_table(DataFile(path), bag="bag")
    for i in range(40):
        p = learner.predict_many(table.take(np.array([i])))[0]
        hits += bool(p.any()) and p.argmax() == table.y[i]
        learner.learn_many(table.take(np.array([i])), table.y[i : i + 1])
    assert found[0]["accuracy"] == hits / 40


def test_options_that_exclude_each_other(tmp_path):
    path = str(bags_file(tmp_path).path)
    for options, message in (
        (["--bag", "bag", "--shuffle"], "--bag and --shuffle exclude each other"),
        (["--folds", "4", "--label-delay", "3"], "--folds and --label-delay exclude each other"),
        (["--folds", "4", "--time", "a"], "--folds and --time exclude each other"),
    ):
        done = CliRunner().invoke(cli, ["evaluate", path, "--model", "miti", *options])
        assert done.exit_code == 2
        assert message in done.output
