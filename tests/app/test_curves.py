"""Curves of evaluations as CSV, SVG and PNG: what stands in the files."""

import csv
import importlib.util
import json
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.errors import DataError, RiparianError, SpecError
from riparian.app.evaluation.figures import curves

SVG = "{http://www.w3.org/2000/svg}"
ARGUMENTS = [
    "evaluate", "--generate", "sea", "-n", "1200", "--drift", "600", "--to", "function=2", "--jobs", "1",
    "--model", "naive-bayes", "--model", "last-label", "--repeats", "2", "--points", "6", "--json",
]  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The JSON of a command, and the folder of its curves."""
    folder = tmp_path_factory.mktemp("curves")
    files = [part for form in ("csv", "svg", "png") for part in ("--curve", str(folder / f"c.{form}"))]
    found = CliRunner().invoke(cli, [*ARGUMENTS, *files])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout), folder


def test_the_csv_is_the_curves_of_all_runs(written):
    found, folder = written
    with open(folder / "c.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["label", "model", "seed", "n", "accuracy"]
    best, other = (entry["label"] for entry in found["summary"])
    assert [row[0] for row in rows] == [best] * 12 + [other] * 12
    for run in found["runs"]:
        assert run["curves"]["n"] == [200, 400, 600, 800, 1000, 1200]
        mine = [row for row in rows if row[1:3] == [run["model"], str(run["seed"])]]
        points = zip(run["curves"]["n"], run["curves"]["accuracy"], strict=True)
        assert [(int(row[3]), float(row[4])) for row in mine] == list(points)


def test_the_svg_draws_every_model_its_legend_and_the_drift(written):
    _, folder = written
    root = ET.parse(folder / "c.svg").getroot()
    assert root.tag == f"{SVG}svg"
    assert (root.get("width"), root.get("height")) == ("648pt", "324pt")  # 9 x 4.5 inches
    groups = {group.get("id", "") for group in root.iter(f"{SVG}g")}
    assert {"legend_1", "matplotlib.axis_1", "matplotlib.axis_2"} <= groups
    dashed = [path for path in root.iter(f"{SVG}path") if "stroke-dasharray" in path.get("style", "")]
    assert len(dashed) >= 2  # the drift, and its line in the legend
    bands = [path for path in root.iter(f"{SVG}path") if "opacity: 0.2" in path.get("style", "")]
    assert len(bands) + len([g for g in groups if g.startswith("FillBetween")]) >= 2
    assert CliRunner().invoke(cli, [*ARGUMENTS, "--curve", str(folder / "again.svg")]).exit_code == 0
    assert (folder / "again.svg").read_bytes() == (folder / "c.svg").read_bytes()


def test_the_png_is_a_picture_of_the_size(written):
    data = (written[1] / "c.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (9 * 120, 4.5 * 120)


def test_bands_are_means_and_standard_errors():
    found = (([10, 20], [0.5, 0.7]), ([10, 20], [0.7, 0.7]), ([5, 15, 25], [0.6, None, 0.8]))
    runs = [{"curves": {"n": n, "m": values}} for n, values in found]
    n, mean, error = curves.band(runs, "m")
    assert n.tolist() == [10, 20]
    expected = np.array([[0.5, 0.7], [0.7, 0.7], [0.65, 0.75]])
    assert mean == pytest.approx(expected.mean(axis=0))
    assert error == pytest.approx(expected.std(axis=0, ddof=1) / 3**0.5)
    n, mean, error = curves.band(runs[:1], "m")
    assert (n.tolist(), mean.tolist(), error.tolist()) == ([10, 20], [0.5, 0.7], [0, 0])
    assert [len(part) for part in curves.band([{"curves": {"n": []}}], "m")] == [0, 0, 0]


def test_what_is_wrong_is_said_before_anything_runs(tmp_path, monkeypatch):
    def run(path):
        return CliRunner().invoke(cli, ["evaluate", "absent.csv", "--model", "naive-bayes", "--curve", str(path)])

    found = run(tmp_path / "c.pdf").exception
    assert isinstance(found, SpecError)
    assert str(found).endswith("c.pdf': name a file that ends in .csv, .svg or .png")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = run(tmp_path / "c.png").exception
    assert isinstance(found, RiparianError)
    assert "c.png needs matplotlib, which is not installed: pip install 'matplotlib<4,>=3.8'" in str(found)
    assert "there is no file absent.csv" in str(run(tmp_path / "c.csv").exception)
    with pytest.raises(DataError, match="cannot be written"):
        curves.write(tmp_path / "no" / "c.csv", [], ["mae"], "")
