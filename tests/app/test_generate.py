"""Synthetic streams as files: what is written reads back to the same bits, and a replay sends the same rows."""

import asyncio
import gzip
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile, write_csv
from riparian.app.dataset.rows import rows_of_file
from riparian.app.errors import DataError, SpecError
from riparian.app.stream_file.spec import load
from riparian.models.streams.registry import REGISTRY, ConceptDrift, open_source
from tests.app.test_replay import read

DRIFTING = Recipe(
    "agrawal", 900, 3, {"function": 3}, [ConceptDrift(300, 0, {"function": 1}), ConceptDrift(600, 50, {"function": 7})]
)
FEW = {"payments": {"customers": 30, "terminals": 40, "radius": 20}}
EVERY = [DRIFTING, *(Recipe(name, 700, 5, FEW.get(name, {})) for name in REGISTRY)]


def run(*arguments):
    return CliRunner().invoke(cli, ["generate", *map(str, arguments)])


def columns(file, **options):
    blocks = list(file.blocks(range(len(file.names)), **options))
    return [[text for block in blocks for text in block.columns[j]] for j in range(len(file.names))]


@pytest.mark.parametrize("given", EVERY, ids=lambda given: given.name)
def test_what_is_written_reads_back_to_the_same_bits(given, tmp_path):
    file = SyntheticFile(given)
    told = []
    size = write_csv(file, tmp_path / "s.csv.gz", told.append)
    assert size == (tmp_path / "s.csv.gz").stat().st_size
    assert told[-1] == given.n
    written = DataFile(tmp_path / "s.csv.gz")
    stream = open_source(given.name, given.seed, given.parameters, given.drifts).take(given.n)
    assert written.names == (*stream.names, "class" if stream.n_classes else "target")
    types = written.types()
    assert types.task == REGISTRY[given.name].tasks[0]
    assert types.features == {
        name: "nominal" if n_values else "numeric" for name, n_values in zip(stream.names, stream.n_values, strict=True)
    }
    assert file.types() == types
    for block in written.blocks(range(len(written.names)), size=given.n):
        for j, codes in enumerate([*stream.x.T, stream.y]):
            if file.texts[j] is None:
                assert written.numbers(block, j, "x").tobytes() == codes.tobytes()
            else:
                letter = "c" if j == len(stream.names) else "v"
                known = given.name == "payments" and letter == "c"
                assert block.columns[j] == [["ok", "fraud"][int(c)] if known else f"{letter}{int(c)}" for c in codes]
    # And the file that is not written is the one that is.
    assert file.names == written.names
    assert columns(file, size=64) == columns(written) == columns(file)
    assert columns(file, limit=100) == columns(written, limit=100)
    assert [block.lines for block in file.blocks((0,), size=500)] == [b.lines for b in written.blocks((0,), size=500)]
    assert (file.count(), file.count(10), file.count(10**9)) == (given.n, 10, given.n)
    (tmp_path / "s.yaml").write_text(run(given.name, "--stream-file").output)
    spec = load(tmp_path / "s.yaml")
    assert spec.task == types.task
    assert list(spec.features) == [name for name in file.names[:-1] if name not in file.ids]
    assert list(rows_of_file(file, spec)) == list(rows_of_file(written, spec))
    assert sum(map(len, rows_of_file(file, spec))) == given.n


def test_same_options_same_bytes_and_gzip_by_name(tmp_path):
    paths = [tmp_path / name for name in ("a.csv.gz", "b.csv.gz", "c.csv")]
    for path in paths:
        assert run("sea", "-n", 3000, "--seed", 2, path).exit_code == 0
    one, two, plain = (path.read_bytes() for path in paths)
    assert one == two
    assert gzip.decompress(one) == plain
    assert one[3:8] == bytes(5)  # neither a name nor a time in gzip's header
    assert run("sea", "-n", 3000, "--seed", 3, paths[1]).exit_code == 0
    assert paths[1].read_bytes() != one
    # the first rows of a longer stream are those of a shorter one
    assert run("sea", "-n", 9000, "--seed", 2, paths[2]).exit_code == 0
    assert paths[2].read_bytes().startswith(plain)


def test_drifts_of_the_command(tmp_path):
    path = tmp_path / "s.csv"
    found = run(
        "sea", "-n", 4000, "--set", "noise=0", "--drift", 1000, "--to", "function=2",
        "--drift", "3000:gradual:10", "--to", "function=1,noise=1", "--json", path,
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    summary = json.loads(found.stdout)
    assert summary["stream"] == {
        "name": "sea",
        "n": 4000,
        "seed": 0,
        "parameters": {"function": 0, "noise": 0.0},
        "drifts": [
            {"at": 1000, "width": 0, "parameters": {"function": 2, "noise": 0.0}},
            {"at": 3000, "width": 10, "parameters": {"function": 1, "noise": 1.0}},
        ],
    }
    assert summary["bytes"] == path.stat().st_size
    a, b, _, label = columns(DataFile(path))
    total = np.array(a, float) + np.array(b, float)
    above = np.array(label) == "c1"
    assert (above[:1000] == (total[:1000] > 8)).all()
    assert (above[1000:2900] == (total[1000:2900] > 7)).all()
    assert (above[3100:] != (total[3100:] > 9)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seaa", "x.csv"], "unknown stream 'seaa': did you mean 'sea'?"),
        (["sea", "--set", "function=5", "x.csv"], "'function' of stream 'sea' is '5': give a whole number in 0 .. 3"),
        (["sea", "--set", "function", "x.csv"], "such as --set function=3"),
        (["sea", "--drift", "5", "x.csv"], "--drift is given 1 times and --to 0 times"),
        (["sea", "--to", "function=1", "x.csv"], "--drift is given 0 times and --to 1 times"),
        (["sea", "--drift", "5:abrupt", "--to", "function=1", "x.csv"], "--drift is '5:abrupt': write"),
        (["sea", "--drift", "5:gradual:0", "--to", "function=1", "x.csv"], "--drift is '5:gradual:0': write"),
        (["sea", "--drift", "5:gradual:9:9", "--to", "function=1", "x.csv"], "--drift is '5:gradual:9:9': write"),
        (["sea", "--drift", "x", "--to", "function=1", "x.csv"], "--drift is 'x': write"),
        (["sea", "--drift", "5", "--to", "function", "x.csv"], "such as --to function=2"),
        (["sea", "--drift", "5", "--to", "noise=1,noise=0", "x.csv"], "--to gives 'noise' twice"),
        (["sea", "--drift", "0", "--to", "function=1", "x.csv"], "a drift at 0 comes after one at 0"),
        (["sea", "-n", "9", "--drift", "9", "--to", "function=1", "x.csv"], "9 is beyond the 9 instances"),
        (["sine", "--drift", "5", "--to", "n_irrelevant=0", "x.csv"], "other features or classes"),
        (["random-rbf", "--set", "seed=3", "x.csv"], "random-rbf has no parameter 'seed': write --seed 3"),
        (["--list", "seaa"], "unknown stream 'seaa'"),
    ],
)
def test_what_is_wrong_is_said(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(*arguments)
    assert isinstance(found.exception, SpecError)
    assert message in str(found.exception)
    assert not list(tmp_path.iterdir())


def test_usage(tmp_path):
    assert "name a stream" in run().output
    assert "name the file to write: riparian generate sea sea.csv.gz" in run("sea").output


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path):
    found = run("sea", tmp_path / "absent" / "s.csv")
    assert isinstance(found.exception, DataError)
    assert "cannot be written (No such file or directory)" in str(found.exception)
    (tmp_path / "s.csv").write_text("before")

    def interrupt(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_csv(SyntheticFile(DRIFTING), tmp_path / "s.csv", interrupt)
    assert (tmp_path / "s.csv").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_payments_without_a_label_have_an_empty_class(tmp_path):
    path = tmp_path / "p.csv"
    found = run("payments", "-n", 20_000, "--set", "labels=fraud", path)
    assert found.exit_code == 0, found.output
    assert found.output.endswith("s\n")
    lines = path.read_text().splitlines()
    assert lines[0] == "time,card,terminal,amount,labelled,class"
    assert re.fullmatch(r"15225\d{5}\.0,v\d+,v\d+,\d+\.\d+,null,", lines[1])
    assert {line.rpartition(",")[2] for line in lines[1:]} == {"", "fraud"}
    assert "features: {amount: numeric}" in run("payments", "--stream-file").output


@pytest.mark.broker
def test_a_replay_sends_what_a_file_would_hold(broker, topic_name, tmp_path):
    options = ["-n", "500", "--seed", "4", "--drift", "200:gradual:50", "--to", "function=5"]
    sent = []
    for suffix in ("-made", "-read"):
        stream, data = tmp_path / f"s{suffix}.yaml", tmp_path / "s.csv.gz"
        text = run("agrawal", "--stream-file").output
        stream.write_text(text.replace("name: agrawal", f"name: {topic_name}{suffix}", 1))
        assert run("agrawal", *options, data).exit_code == 0
        source = ["--generate", "agrawal", *options] if suffix == "-made" else [str(data)]
        found = CliRunner().invoke(cli, ["replay", str(stream), *source, "--broker", broker, "--json"])
        assert found.exit_code == 0, found.output
        summary = json.loads(found.stdout)
        assert (summary["features"], summary["labels"]) == (500, 500)
        assert summary["data"] == ("agrawal" if suffix == "-made" else "s.csv.gz")
        spec = load(stream)
        topics = [asyncio.run(read(broker, topic, 1))[0] for topic in (spec.topics.features, spec.topics.labels)]
        sent.append([[(record.key, record.value) for record in topic] for topic in topics])
    assert sent[0] == sent[1]
    assert len(sent[0][0]) == 500


@pytest.mark.broker
def test_a_replay_keeps_the_days_of_payments(broker, topic_name, tmp_path):
    stream = tmp_path / "s.yaml"
    stream.write_text(run("payments", "--stream-file").output.replace("name: payments", f"name: {topic_name}", 1))
    made = ["--generate", "payments", "-n", "300", "--time", "time", "--label-delay", "7d"]
    found = CliRunner().invoke(cli, ["replay", str(stream), *made, "--broker", broker])
    assert found.exit_code == 0, found.output
    spec, times = load(stream), open_source("payments").take(300).x[:, 0] * 1000
    features, labels = (asyncio.run(read(broker, topic, 1))[0] for topic in (spec.topics.features, spec.topics.labels))
    assert [record.timestamp for record in features] == times.tolist()
    assert [record.timestamp for record in labels] == (times + 7 * 86_400_000).tolist()


def test_a_link_in_the_way_leads_nowhere(tmp_path):
    """Somebody's file is not written over, where a folder is not ours alone."""
    (tmp_path / "theirs").write_text("kept")
    (tmp_path / "d.csv.part").symlink_to(tmp_path / "theirs")
    assert run("sea", "-n", 10, tmp_path / "d.csv").exit_code == 0
    assert (tmp_path / "theirs").read_text() == "kept"
    assert not (tmp_path / "d.csv").is_symlink()
