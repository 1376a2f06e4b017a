"""Files as people have them: what stands in them is what records of the same rows say, or a sentence."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from app.cli import cli
from app.dataset.arrow import open_data
from app.dataset.instances import InstanceReader
from app.dataset.rows import rows_of_file
from app.evaluation.evaluate import evaluate, problem_for
from app.partition.learner import PartitionLearner
from app.stream_file.spec import loads
from topics.records import RawBatch


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def riparian(*arguments):
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return found.exit_code, " ".join(found.output.split())


STREAM = """
name: s
task: {task}
champion: {champion}
topics: {{features: f, labels: {labels}}}
features:
  a: numeric
  b: boolean
  c: nominal
  d: {{type: nominal, values: [1, 2, 2.5, x]}}
{more}
"""
CASES = {
    "labels in a topic": ("classification", "l", "max_classes: 3"),
    "labels inside": ("classification", "null", "classes: [1, 0]"),
    "few bytes": ("classification", "l", "record: {max_bytes: 120}\nmax_class_bytes: 20"),
    "few bytes, labels inside": ("classification", "null", "record: {max_bytes: 120}"),
    "numbers": ("regression", "l", "record: {max_bytes: 100}"),
    "anomalies": ("anomaly", "l", ""),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("numbers", [True, False])
def test_a_row_is_decoded_as_the_record_that_a_replay_makes_of_it(write, case, numbers):
    task, labels, more = CASES[case]
    champion = {"regression": "mean", "anomaly": "half-space-trees"}.get(task, "majority-class")
    spec = loads(STREAM.format(task=task, labels=labels, more=more, champion=champion), case)
    rng = np.random.default_rng(8)
    texts = ["1", "1.0", "2.50", "2", "", "3e0"] + ([] if numbers else ["x", "é" * 40, "t" * 1100, "1.0.2"])
    marks = ["1", "0", "1.0", ""] + ([] if task == "anomaly" else ["2"])
    if task == "classification" and not numbers:
        marks += ["ok", "k" * 90]
    rows = [
        [f"{rng.normal():.3g}", *(rng.choice(one) for one in (["true", "no", "1.0", ""], texts, texts, marks))]
        for _ in range(200)
    ]
    file = open_data(write("a,b,c,d,y\n" + "".join(",".join(row) + "\n" for row in rows)))
    learner, codec = PartitionLearner(spec), spec.make_codec()
    writer = codec.writer(labels_inside=labels == "null")
    values, classes = spec.vocabularies(), None if learner.classes is None else spec.class_vocabulary()
    blocks = zip(
        InstanceReader(file, spec, "y", learner).read(None, 33), rows_of_file(file, spec, "y", size=33), strict=True
    )
    reasons = set()
    for found, sent in blocks:
        n = len(sent)
        raw = RawBatch(list(range(n)), [0] * n, [None] * n, writer.features(sent, [0] * n))
        features = codec.decode_features(raw, values, classes)
        kept = list(range(n)) if features.position is None else features.position
        assert np.array_equal(found.x[kept], features.x, equal_nan=True)
        assert [(one.position, one.reason) for one in found.rejected] == [
            (one.position, one.reason) for one in features.rejected
        ]
        reasons |= {one.reason for one in found.rejected} | {one.reason for one in found.labels_rejected}
        y = np.full(n, np.nan)
        if labels == "null":
            y[kept] = np.nan if features.y is None else features.y
        else:
            there = [i for i, one in enumerate(sent.y) if one is not None]
            m = len(there)
            records = writer.labels([sent.ids[i] for i in there], [sent.y[i] for i in there], [0] * m)
            of_labels = codec.decode_labels(RawBatch(list(range(m)), [0] * m, [None] * m, records), classes)
            taken = range(m) if of_labels.position is None else of_labels.position
            y[[there[i] for i in taken]] = of_labels.y
            assert [(one.position, one.reason) for one in found.labels_rejected] == [
                (there[one.position], one.reason) for one in of_labels.rejected
            ]
        assert np.array_equal(found.y, y, equal_nan=True)
    assert [v and v.values for v in learner.vocabularies] == [v and v.values for v in values]
    assert reasons or (numbers and task == "anomaly")


def test_what_a_worker_rejects_is_rejected_and_said(write):
    rows = "".join(f"{i % 7},{'y' * 200 if i % 3 else 'n'}\n" for i in range(60))
    path = write("a,label\n" + rows)
    stream = write("name: s\ntask: classification\nchampion: naive-bayes\nfeatures: {a: numeric}\n", "s.yaml")
    said = "labels rejected, as by a worker: 40 too-long (row 1: label: a value of 200 bytes as JSON, at most 128)"
    for models in ([], ["--model", "naive-bayes"], ["--model", "naive-bayes", "--repeats", "2", "--jobs", "1"]):
        assert said in riparian("evaluate", path, "--stream", stream, *models)[1]
        found = json.loads(riparian("evaluate", path, "--stream", stream, *models, "--json")[1])
        result = found if not models else found["runs"][0]
        assert result["rejected"] == 40
        assert result["rejections"][0]["reason"] == "too-long"
    wide = write(",".join(f"x{i}" for i in range(900)) + ",y\n" + ("0.12345," * 900 + "u\n") * 3, "wide.csv")
    text = "name: s\ntask: classification\nchampion: naive-bayes\nrecord: {max_bytes: 9000}\nfeatures:\n"
    stream = write(text + "".join(f"  x{i}: numeric\n" for i in range(900)), "s.yaml")
    code, said = riparian("evaluate", wide, "--stream", stream, "--model", "majority-class")
    assert (code, "rows rejected, as by a worker: 3 too-large (row 0: " in said) == (0, True)


def scored(path, **options):
    """Name of a class -> labels scored of it."""
    file = open_data(path)
    problem = problem_for(file, **options)
    result = evaluate(file, problem.spec("majority-class", {}), problem.goal, problem.n)
    return {name: one["n"] for name, one in result["classes"].items() if one["n"]}


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["1.0", "0.0", "", "1", "0"], {"1", "0"}),
        (["1.5", "1.50", "2.0"], {"1.5", "2"}),
        (["1e0", "1", "0"], {"1", "0"}),
        (["007", "7", "7.0"], {"007", "7", "7.0"}),  # a code, so none of them is a number
        (["1.0", "1.0.2", "1"], {"1.0", "1.0.2", "1"}),  # versions
        (["1.0", "NA", "0.0"], {"1", "NA", "0"}),
    ],
)
def test_a_class_is_the_value_of_its_cell_where_all_are_numbers(write, labels, classes):
    path = write("a,y\n" + "".join(f"{i % 5},{label}\n" for i, label in enumerate(labels * 20)))
    assert set(scored(path, task="classification")) == classes


def test_numbers_as_classes_and_values_are_those_of_records_in_every_form(write, tmp_path):
    pa = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    n = 120
    x, y = [float(i % 3) for i in range(n)], [None if i % 9 == 0 else float(i % 2) for i in range(n)]
    table = pyarrow.table({"a": x, "b": [0.5] * n, "y": y})
    pa.write_table(table, tmp_path / "d.parquet")
    text = "a,b,y\n" + "".join(f"{a},0.5,{'' if b is None else b}\n" for a, b in zip(x, y, strict=True))
    stream = "name: s\ntask: classification\nclasses: [1, 0]\nchampion: naive-bayes\nfeatures:\n"
    spec = loads(stream + "  a: {type: nominal, values: [0, 1, 2]}\n  b: numeric\n", "s")
    for path in (write(text), tmp_path / "d.parquet"):
        assert scored(path) == {"1": 53, "0": 53}
        assert scored(path, stream=spec) == {"1": 53, "0": 53}
        assert scored(path, nominal=["a"]) == {"1": 53, "0": 53}
        (rows,) = rows_of_file(open_data(path), spec)
        assert (set(rows.y), set(rows.features[0])) == ({'"1"', '"0"', None}, {'"0"', '"1"', '"2"'})
        out = tmp_path / f"{path.suffix}.yaml"
        assert riparian("init", path, "--out", out)[0] == 0
        assert 'classes: ["1", "0"]' in out.read_text()


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        # Another column says which mark is the point.
        ("u;r\n895;0,87\n1.237;0,86\n", [895, 1237], ""),
        ("u;r\n895;0.87\n1,237;0.86\n", [895, 1237], ""),
        # The column itself does.
        ("u;r\n1.234.567;x\n1.234,5;x\n", [1234567, 1234.5], ""),
        ("u\tr\n1,234.5\tx\n951\tx\n", [1234.5, 951], ""),
        ("u;r\n1,234;x\n0,5;x\n", [1.234, 0.5], ""),
        # Nothing does.
        ("u;r\n951;x\n1,234;x\n", [951, 1234], "'u' has numbers such as 1,234, which are read as thousands; if they"),
        ("u;r\n1951;x\n1,234;x\n", [1951, 1.234], "'u' has numbers such as 1,234, which are read as fractions; if "),
        ("u;r\n951;x\n1.234;x\n", [951, 1.234], "'u' has numbers such as 1.234, which are read as fractions; if they"),
    ],
)
def test_marks_in_numbers_mean_what_they_mean_in_the_column(write, text, expected, said):
    file = open_data(write(text))
    types = file.types(task="classification")
    (block,) = file.blocks((0,))
    assert (types.features, file.numbers(block, 0, "u").tolist()) == ({"u": "numeric"}, expected)
    assert said in " ".join(types.remarks())
    assert bool(said) == bool(types.remarks())


def test_texts_between_semicolons_stay_as_they_are(write):
    rows = [("1,2", "3,5"), ("1,3", "B"), ("A", "3,5")] * 30
    path = write("size;price;label\n" + "".join(f"{size};0,092;{label}\n" for size, label in rows))
    assert scored(path) == {"3,5": 60, "B": 30}
    stream = "name: s\ntask: classification\nchampion: naive-bayes\nfeatures: {size: nominal, price: numeric}\n"
    (rows,) = rows_of_file(open_data(path), loads(stream, "s"))
    assert (set(rows.features[0]), set(rows.y)) == ({'"1,2"', '"1,3"', '"A"'}, {'"3,5"', '"B"'})
    assert set(rows.features[1]) == {"0.092"}
