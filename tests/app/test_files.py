"""Files as people have them: what stands in them is what records of the same rows say, or a sentence."""

import bz2
import json
import lzma
import re
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.dataset.files.arrow import open_data
from riparian.app.dataset.instances import InstanceReader
from riparian.app.dataset.rows import rows_of_file
from riparian.app.errors import DataError
from riparian.app.evaluation.evaluate import evaluate, problem_for
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import loads
from riparian.topics.records import RawBatch


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def riparian(*arguments):
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    said = found.output + str(found.exception or "")
    return found.exit_code, " ".join(said.split())


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
    "numbers inside": ("regression", "null", ""),
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
    if not numbers:  # cells of another type than declared
        for i in range(20, 180, 9):
            rows[i][0] = ["19.11 C", "1e999", "inf", '"é"'][i % 4]
            rows[i + 1][1] = "maybe"
            if task != "classification":
                rows[i + 2][4] = ["n.v.", "1e999"][i % 2]
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
    assert (code, "rows rejected, as by a worker: 3 too-large (row 0: " in said) == (0, True), said


@pytest.mark.parametrize("labels", ["s.labels", "null"])
def test_a_text_where_a_number_is_declared_is_rejected_as_by_a_worker(write, labels):
    rows = [[f"{i % 7}.5", f"{i % 5}"] for i in range(60)]
    rows[8][0] = rows[9][0] = "19.11 C"
    rows[30][1] = "n.v."
    path = write("a,y\n" + "".join(",".join(row) + "\n" for row in rows))
    text = f"name: s\ntask: regression\nchampion: mean\nfeatures: {{a: numeric}}\ntopics: {{labels: {labels}}}\n"
    stream = write(text, "s.yaml")
    of = "labels" if labels != "null" else "rows"
    for models in ([], ["--model", "mean"]):
        code, said = riparian("evaluate", path, "--stream", stream, *models)
        assert code == 0, said
        assert (
            "rows rejected, as by a worker: 2 wrong-type (row 8: a: expected a finite number, found '19.11 C')" in said
        )
        assert f"{of} rejected, as by a worker: 1 wrong-label (row 30: " in said
        assert "expected a finite number, found 'n.v.')" in said
    (sent,) = rows_of_file(open_data(path), loads(text, "s"), "y")
    assert [sent.features[0][i] for i in (7, 8, 9)] == ["0.5", '"19.11 C"', '"19.11 C"']
    assert sent.y[29:31] == ["4.0", '"n.v."']
    with pytest.raises(DataError, match=r"line 10 of .* has '19.11 C' in column 'a'"):
        list(rows_of_file(open_data(path), loads(text + "codec: arrow\n", "s"), "y"))


def test_marks_of_numbers_beside_texts_are_not_guessed(write):
    path = write("a;y\n1.234;1\n951;2\nn.v.;3\n")
    stream = write("name: s\ntask: regression\nchampion: mean\nfeatures: {a: numeric}\n", "s.yaml")
    assert "line 4 of " in riparian("evaluate", path, "--stream", stream)[1]


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


def test_what_debezium_was_not_told_is_no_label(write):
    path = write("a,y\n" + "".join(f"{i % 5},{['u', 'v', '__debezium_unavailable_value'][i % 3]}\n" for i in range(90)))
    assert scored(path) == {"u": 30, "v": 30}


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


def test_rows_before_the_first_label_are_left_out_of_what_is_printed(write):
    rows = [f"{i % 10},{'yes' if i % 10 > 4 else 'no'}" for i in range(1000)]
    path = write("\n".join(["a,label", *rows]))
    stream = write("name: s\ntask: classification\nchampion: hoeffding-tree\nfeatures: {a: numeric}\n", "s.yaml")
    model = ("--model", "hoeffding-tree")
    found = json.loads(riparian("evaluate", path, *model, "--label-delay", 250, "--json")[1])
    run, late = found["runs"][0], found["runs"][0]["from_first_label"]
    assert (run["n"], late["left_out"], late["n"]) == (1000, 251, 749)  # rows 0 to 250 are predicted before label 0
    assert late["accuracy"] == pytest.approx(run["accuracy"] * 1000 / 749)
    assert sum(one["n"] for one in late["classes"].values()) == 749
    assert found["summary"][0]["mean"]["accuracy"] == late["accuracy"]
    shown = f"{late['accuracy']:.4%}"
    said = "251 rows before the first label came are left out; a worker counts them as wrong"
    for models in (model, (*model, "--repeats", 2, "--jobs", 1), ("--stream", stream)):
        code, printed = riparian("evaluate", path, *models, "--label-delay", 250)
        assert (code, said in printed) == (0, True)
        assert shown in printed or f" {100 * late['accuracy']:.2f}" in printed
    assert "from_first_label" not in json.loads(riparian("evaluate", path, *model, "--json")[1])["runs"][0]


def test_alerts_are_a_share_of_the_rows_that_the_classes_count(write):
    rows = [f"{i % 10},{'yes' if i % 10 > 4 else 'no'}" for i in range(1000)]
    path = write("\n".join(["a,label", *rows]))
    stream = write(
        "name: s\ntask: classification\nchampion: hoeffding-tree\nfeatures: {a: numeric}\nclasses: ['no', 'yes']\n"
        "decision: {class: 'yes', alert_rate: 0.2}\n",
        "s.yaml",
    )
    given = ("evaluate", path, "--stream", stream, "--label-delay", 250, "--json")
    run = json.loads(riparian(*given, "--model", "hoeffding-tree")[1])["runs"][0]
    late = run["from_first_label"]
    assert late["alert_rate"] == pytest.approx(run["alert_rate"] * 1000 / 749)
    (whole,) = json.loads(riparian(*given)[1])["models"].values()
    assert whole["from_first_label"]["alert_rate"] == late["alert_rate"]
    assert whole["overall"]["classes"].keys() == {"no", "yes"}
    for name, figures in whole["from_first_label"]["classes"].items():
        assert figures.items() <= late["classes"][name].items()
    shown = riparian(*given[:-1])[1]
    assert f"champion: alert rate {late['alert_rate']:.4%}" in shown
    assert f"{late['classes']['yes']['recall']:.4f}" in shown


def test_the_target_is_named_and_so_is_another_one_that_is_meant(write):
    path = write("label,u,v\n" + "".join(f"{'yn'[i % 2]},{i % 7},{i % 5 / 2}\n" for i in range(80)))
    code, said = riparian("evaluate", path, "--model", "mean")
    assert code == 0
    assert "'v', the last column, is predicted: --label label predicts 'label'" in said
    assert "on data.csv, target 'v', labels at once" in said
    found = CliRunner().invoke(cli, ["evaluate", str(path), "--model", "naive-bayes", "--label", "label", "--json"])
    assert (json.loads(found.stdout)["runs"][0]["target"], found.stderr) == ("label", "")


def test_a_column_with_another_text_in_each_row_is_no_feature(write):
    path = write("name,v,y\n" + "".join(f"n{i},{i % 7},{i % 2}\n" for i in range(200)))
    file = open_data(path)
    types = file.types()
    assert types.features == {"v": "numeric"}
    assert "column 'name' has another text in nearly each row" in types.remarks()[0]
    assert file.types(nominal=["name"]).features == {"name": "nominal", "v": "numeric"}


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (["0.153", "-1.57", "inf", "0.25"], "column 'y' of .* holds numbers, and 'inf' in it is none: write nothing"),
        ([*map(str, range(40)), "Low"], "column 'y' of .* holds numbers, and 'Low' in it is none: write nothing"),
        (["54.42%", "6.55%"], "column 'y' of .* is not numeric, as '54.42%' shows: where these are numbers, write"),
        (["€12,792", "€84"], "column 'y' of .* is not numeric, as '€12,792' shows: where these are numbers, write"),
    ],
)
def test_a_label_with_a_stray_text_names_it(write, cells, sentence):
    path = write("a,y\n" + "".join(f'{i % 9},"{cell}"\n' for i, cell in enumerate(cells * 30)))
    for command in (["evaluate", "--model", "mean", "--label"], ["init", "--label"]):
        code, said = riparian(command[0], path, *command[1:], "y", "--task", "regression")
        assert code != 0
        assert re.search(sentence, said)
    if "holds numbers" in sentence:  # and what it would be is not guessed
        assert re.search(sentence, riparian("evaluate", path, "--model", "mean")[1])
        assert open_data(path).types(task="classification").n_classes == len(set(cells))


def test_labels_of_anomalies_are_marks(write):
    path = write("a,y\n" + "".join(f"{i},{'yn'[i % 2]}\n" for i in range(60)))
    said = riparian("evaluate", path, "--model", "half-space-trees", "--task", "anomaly")[1]
    assert "column 'y' of" in said
    assert "has 'y': expected 1 of an anomaly, and 0 of what is none" in said


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("0.5,red,y", "'0.5' is a value of its column, too"),
        ("7.576,c,y", "'7.576' is a number"),
        ("0,1,2", ""),
        ("a,b,c", ""),
        ("a,b,u", ""),
    ],
)
def test_a_first_row_that_may_be_none_of_names_is_said(write, header, what):
    path = write(f"{header}\n" + "".join(f"{i % 7 / 2},{['red', 'blue'][i % 2]},{'uv'[i % 2]}\n" for i in range(60)))
    if header == "0,1,2":
        header += ",x"
        path.write_text(header + "\n" + "".join(f"{i % 7},{i % 3},{i % 5},{'uv'[i % 2]}\n" for i in range(60)))
    remarks = " ".join(open_data(path).types().remarks())
    assert ("is taken for names, and " + what in remarks) == bool(what)


def test_files_are_read_however_they_are_packed(write, tmp_path):
    text = "a,b,y\n1,x,u\n2,z,v\n"
    packed = {"d.csv.bz2": bz2.compress(text.encode()), "d.csv.xz": lzma.compress(text.encode())}
    for name, data in packed.items():
        (tmp_path / name).write_bytes(data)
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("folder/d.csv", text)
        archive.writestr("__MACOSX/d.csv", "nothing")
    for name in (*packed, "d.zip"):
        file = open_data(tmp_path / name)
        assert (file.names, file.count()) == (("a", "b", "y"), 2)
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", text)
        archive.writestr("b.csv", text)
    with zipfile.ZipFile(tmp_path / "sheet.dat", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    (tmp_path / "broken.bz2").write_bytes(bz2.compress(text.encode() * 99)[:-20])
    (tmp_path / "cut.zip").write_bytes((tmp_path / "d.zip").read_bytes()[:40])
    for name, sentence in {
        "two.zip": r"holds 2 files \(a.csv, b.csv\): expected one, so unpack it",
        "sheet.dat": "is a spreadsheet: save its sheet as CSV",
        "broken.bz2": "is damaged",
        "cut.zip": "is damaged",
        "list.json": "holds JSON: expected CSV",
        "lines.json": "holds JSON: expected CSV",
        "quote.csv": "line 3 of .* begins a row that ends in line 6, since a quote in it is not closed",
    }.items():
        texts = {"list.json": '[\n{"a": 1, "b": 2}]', "lines.json": '[{"a": 1, "b": 2},\n{"a": 1}]'}
        texts["quote.csv"] = 'a,b\n1,2\n3,"4\n5,6\n7,8\n9,1\n'
        if name in texts:
            write(texts[name], name)
        with pytest.raises(DataError, match=sentence):
            open_data(tmp_path / name).count()


def test_the_column_of_row_numbers_that_pandas_writes_is_no_feature(write):
    path = write(",a,y\n" + "".join(f"{i},{i % 7 / 2},{'uv'[i % 2]}\n" for i in range(60)))
    types = open_data(path).types()
    assert (types.features, types.remarks()) == ({"a": "numeric"}, [])
    assert riparian("init", path, "--out", path.with_suffix(".yaml"))[0] == 0
    assert "Unnamed" not in path.with_suffix(".yaml").read_text()


def test_init_says_why_no_column_is_a_feature(write):
    rows = "".join(f"{'nil' if i == 40 else i * 1.5},{i % 7}.5,k\n" for i in range(200))
    code, said = riparian("init", write("isig,y,site\n" + rows), "--label", "y")
    assert code != 0
    for reason in ("'isig' is left out: it holds numbers and texts such as \"nil\"", "'site' is left out: it is \"k\""):
        assert reason in said


PATHS = """
name: s
task: anomaly
champion: half-space-trees
decision: {alert_rate: 0.1}
features:
  price: {type: numeric, from: x.amount}
  card: {type: nominal, from: x.card_id, values: [a, b]}
"""


@pytest.mark.parametrize("mark", [",", ";"])
def test_a_column_may_have_the_last_name_of_its_path(write, mark):
    rows = "".join(f"{i % 9}{mark}{'ab'[i % 2]}{mark}{i % 2}\n" for i in range(300))
    stream, data = write(PATHS, "s.yaml"), []
    sent = []
    for header in ("price,card,y", "amount,card_id,y"):
        path = write(header.replace(",", mark) + "\n" + rows)
        data.append(json.loads(riparian("evaluate", path, "--stream", stream, "--label", "y", "--json")[1]))
        file, spec = open_data(path), loads(PATHS, "s")
        file.find(spec.mapping().features)
        sent.append(list(rows_of_file(file, spec, "y")))
    assert data[0] == data[1]
    assert data[0]["rows"] == 300
    assert sent[0] == sent[1]
    unlabelled = write("".join(f"{line}\n" for line in ("amount,card_id", *["1,a"] * 9)))
    assert "9 rows of data.csv, no labels" in riparian("evaluate", unlabelled, "--stream", stream)[1]
    assert "would be the target" in riparian("replay", write(PATHS + "topics: {labels: l}\n", "s.yaml"), unlabelled)[1]


@pytest.mark.parametrize(
    "features",
    [
        "{a: {type: numeric, from: buyer.id}, b: {type: numeric, from: seller.id}}",
        "{a: {type: numeric, from: x.id}, id: {type: numeric, from: x.b}}",
    ],
)
def test_a_column_that_two_features_may_mean_is_not_taken(write, features):
    path = write("id,y\n1,u\n")
    stream = write(f"name: s\ntask: classification\nchampion: naive-bayes\nfeatures: {features}\n", "s.yaml")
    assert "has no column 'a'" in riparian("evaluate", path, "--stream", stream)[1]


def test_a_column_of_which_no_label_is_taken_is_no_label(write):
    path = write("a,b,c\n" + "".join(f"{i},{i % 7},x{i % 3}\n" for i in range(50)))
    stream = write("{name: s, task: regression, features: {a: numeric, b: numeric}, champion: fimt-dd}", "s.yaml")
    code, said = riparian("evaluate", path, "--stream", stream, "--label", "c")
    assert code != 0
    assert "each of 50 labels is rejected (row 0: c: expected a finite number, found 'x0'): name another" in said
