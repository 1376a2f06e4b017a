"""Parquet and Arrow files, and sets of files: the same rows as CSV are the same cells, and give the same bits."""

import csv
import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.dataset.dated import DatedFile
from riparian.app.dataset.files.arrow import ArrowFile, DataFiles, open_data
from riparian.app.dataset.files.data import DataFile
from riparian.app.errors import DataError

N = 3000


def table(n=N, seed=0):
    """Rows as those of elec, and a column of each other type that there is."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    day = rng.integers(1, 8, n)
    return pa.table(
        {
            "day": pa.array([str(v) for v in day]).dictionary_encode(),
            "period": pa.array(x[:, 0]),
            "price": pa.array([None if v < 0.05 else float(v) for v in x[:, 1]]),
            "single": pa.array(x[:, 0].astype(np.float32)),
            "count": pa.array(rng.integers(-(2**40), 2**40, n)),
            "cost": pa.array([Decimal(int(v)).scaleb(-2) for v in rng.integers(-9999, 9999, n)], pa.decimal128(9, 2)),
            "open": pa.array([None if v == 3 else bool(v % 2) for v in day]),
            "at": pa.array([datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=i) for i in range(n)]),
            "class": pa.array(["UP" if a > b else "DOWN" for a, b in x]),
        }
    )


def write(folder: Path, rows: pa.Table, name: str = "rows") -> dict[str, Path]:
    """The rows in every form."""
    paths = {form: folder / f"{name}.{form}" for form in ("parquet", "arrow", "arrows", "csv")}
    pa.parquet.write_table(rows, paths["parquet"], row_group_size=1000)
    with pa.ipc.new_file(paths["arrow"], rows.schema) as out:
        out.write_table(rows, max_chunksize=700)
    with pa.ipc.new_stream(paths["arrows"], rows.schema) as out:
        out.write_table(rows, max_chunksize=9000)
    with paths["csv"].open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(rows.column_names)
        for row in rows.to_pylist():
            cells = [v.isoformat() if isinstance(v, datetime.datetime) else v for v in row.values()]
            writer.writerow(["" if v is None else str(v).lower() if isinstance(v, bool) else v for v in cells])
    return paths


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    return write(tmp_path_factory.mktemp("forms"), table())


@pytest.mark.parametrize("form", ["parquet", "arrow", "arrows"])
def test_the_cells_are_those_of_the_csv_file(forms, form):
    plain, file = DataFile(forms["csv"]), open_data(forms[form])
    assert isinstance(file, ArrowFile)
    assert file.names == plain.names
    for columns, limit in (([0, 2, 8], None), (range(9), 1500), ([3, 3], 1), ([7], 0)):
        one, other = ([[], []] for _ in range(2))
        for found, source in ((one, plain), (other, file)):
            for block in source.blocks(columns, limit, 512):
                assert len(block) <= 512
                found[0] += zip(*block.columns, strict=True)
                found[1] += block.lines
        assert one[0] == other[0]
        assert other[1] == list(range(1, len(other[0]) + 1))
    assert file.count() == N


@pytest.mark.parametrize("form", ["parquet", "arrow", "arrows"])
def test_the_same_rows_give_the_same_figures_to_the_bit(forms, form):
    def evaluated(path):
        done = CliRunner().invoke(
            cli, ["evaluate", str(path), "--model", "naive-bayes", "--label", "class", "--nominal", "day", "--json"]
        )
        assert done.exit_code == 0, done.output
        (run,) = json.loads(done.stdout)["runs"]
        return {
            name: run[name] for name in ("n", "accuracy", "kappa", "kappa_temporal", "log_loss", "auroc", "classes")
        }

    one = evaluated(forms["csv"])
    assert one["n"] == N
    assert evaluated(forms[form]) == one


def test_a_dictionary_is_nominal_whatever_it_looks_like(forms):
    assert open_data(forms["parquet"]).types().features["day"] == "nominal"
    assert DatedFile(open_data(forms["parquet"]), []).types().features["day"] == "nominal"  # as `evaluate` reads it
    assert DataFile(forms["csv"]).types().features["day"] == "numeric"


def test_texts_of_a_set_are_those_of_each_file(tmp_path):
    one = pa.table({"a": ["1.0", "2.0", "1"], "y": ["u", "v", "u"]})
    for i in range(2):
        pa.parquet.write_table(one, tmp_path / f"{i}.parquet")
    for path in (tmp_path / "0.parquet", tmp_path):
        file = open_data(path)
        assert file.values(next(file.blocks([0, 1])), 0, "a")[:3] == ["1.0", "2.0", "1"]


def test_sets_of_files_are_one_after_the_other(tmp_path):
    parts = [table(300, seed) for seed in range(3)]
    for i, part in enumerate(parts):
        (tmp_path / f"{i}").mkdir()
        form = "csv" if i == 1 else "parquet"
        write(tmp_path / f"{i}", part)[form].rename(tmp_path / f"part-{i}.{form}")
    (tmp_path / "_SUCCESS").write_text("")
    whole = write(tmp_path / "0", pa.concat_tables(parts).unify_dictionaries(), "whole")
    for path in (tmp_path, tmp_path / "part-*"):
        file = open_data(path)
        assert isinstance(file, DataFiles)
        assert [one.path.name for one in file.files] == ["part-0.parquet", "part-1.csv", "part-2.parquet"]
        for limit in (None, 450, 300, 0):
            rows = [row for block in file.blocks(range(9), limit, 100) for row in zip(*block.columns, strict=True)]
            plain = DataFile(whole["csv"]).blocks(range(9), limit, 100)
            assert rows == [row for block in plain for row in zip(*block.columns, strict=True)]
        assert file.path == path
        assert file.types(target="class").n == 900
    pa.parquet.write_table(parts[0].rename_columns([*"abcdefgh", "class"]), tmp_path / "part-9.parquet")
    with pytest.raises(DataError, match=r"part-9\.parquet has the columns a, b, .* a set of files"):
        open_data(tmp_path)
    with pytest.raises(DataError, match="holds no file"):
        open_data(tmp_path / "none-*")


def test_times_with_zones_and_fine_units(tmp_path):
    moment = datetime.datetime(2024, 5, 1, 12, 0, 0, 250_000, datetime.UTC)
    rows = pa.table(
        {
            "zone": pa.array([moment, None], pa.timestamp("ms", "Europe/Berlin")),
            "fine": pa.array([1_714_564_800_123_456_789, 0], pa.timestamp("ns")),
            "date": pa.array([moment.date(), None]),
            "none": pa.nulls(2),
            "y": pa.array([float("nan"), float("inf")]),
        }
    )
    pa.parquet.write_table(rows, tmp_path / "rows.parquet")
    file = open_data(tmp_path / "rows.parquet")
    (block,) = file.blocks(range(5))
    assert block.columns == [
        ["2024-05-01T12:00:00.250000+00:00", ""],
        ["2024-05-01T12:00:00.123456", "1970-01-01T00:00:00"],
        ["2024-05-01", ""],
        ["", ""],
        ["", "inf"],
    ]
    with pytest.raises(DataError, match=r"line 2 of .* has 'inf' in column 'y'"):
        file.numbers(block, 4, "y")


def test_what_cannot_be_read_is_a_sentence(tmp_path, forms, monkeypatch):
    lists = tmp_path / "lists.parquet"
    pa.parquet.write_table(pa.table({"a": [[1], [2]], "y": [1, 2]}), lists)
    with pytest.raises(DataError, match=r"column 'a' of .* holds list"):
        list(open_data(lists).blocks([0]))
    assert next(open_data(lists).blocks([1])).columns == [["1", "2"]]
    for form in ("parquet", "arrow", "arrows"):
        whole = forms[form].read_bytes()
        for keep in (8, len(whole) // 2):
            broken = tmp_path / f"broken.{form}"
            broken.write_bytes(whole[:keep])
            with pytest.raises(DataError, match=r"cannot be read .* get a complete copy"):
                for _ in open_data(broken).blocks(range(9)):
                    pass
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pyarrow is missing: pip install 'pyarrow<"):
        open_data(lists)
    assert open_data(forms["csv"]).names[0] == "day"  # which does without
