"""What an installed Riparian has: every subpackage, and the files that start a broker.

The packages are listed one by one in pyproject.toml, so a new one can be forgotten; in a checkout nobody would notice.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supply.release import BUILD, obstacles, run

ROOT = Path(__file__).resolve().parents[1]
SETUP = "from setuptools import setup; setup()"
PACKAGES = ("app", "models", "topics")
DATA = ("deploy/broker", "deploy/grafana", "deploy/prometheus")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree that a wheel holds, built as in a release, by the source distribution of a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source, target = folder / "source", folder / "site-packages"
    source.mkdir()
    for name in ("riparian", *PACKAGES, "deploy"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    sdist = run([sys.executable, "-c", BUILD, "build_sdist", folder], source).split()[-1]
    shutil.unpack_archive(folder / sdist, folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    assert not (unpacked / "tests").exists()
    run([sys.executable, "-c", SETUP, "-q", "build_py", "--build-lib", target], unpacked)
    return target


def test_the_wheel_holds_every_module(installed: Path) -> None:
    sources = {"riparian" / path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    sources |= {path.relative_to(ROOT) for path in (ROOT / "riparian").glob("*.py")}
    built = {path.relative_to(installed) for path in installed.rglob("*.py")}
    assert len(sources) > 10
    assert sources - built == set(), "list their packages under [tool.setuptools] in pyproject.toml"
    assert built - sources == set()


def test_the_wheel_holds_every_file_that_is_not_python(installed: Path) -> None:
    wanted = {
        "riparian" / path.relative_to(ROOT)
        for name in (*PACKAGES, *DATA)
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".nbi", ".nbc"} and "jars" not in path.parts
    }
    built = {path.relative_to(installed) for path in installed.rglob("*") if path.is_file() and path.suffix != ".py"}
    assert {
        Path("riparian/deploy/broker") / name for name in ("pom.xml", "server.properties", "log4j2.properties")
    } <= built
    assert wanted == built


def test_an_installed_riparian_runs_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    script = """
import json, sys
import riparian
from riparian.app.kafka.local_broker import broker, java
from riparian.app.cli import cli, COMMANDS
assert "riparian.deploy" not in sys.modules
print(json.dumps([riparian.__file__, java.kafka_version(), str(java.BROKER_FILES)]))
"""
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    module, version, files = json.loads(done.stdout)
    assert Path(module).is_relative_to(installed)
    assert Path(files) == installed / "riparian" / "deploy" / "broker"
    assert version[0].isdigit()


def test_it_takes_one_name_and_works_beside_modules_of_any_name(installed: Path, tmp_path: Path) -> None:
    assert [path.name for path in installed.iterdir()] == ["riparian"]
    for name in ("models.py", "topics.py"):
        (tmp_path / name).write_text("raise ImportError('not ours')")
    (tmp_path / "app").mkdir()
    code = "import riparian; from riparian.app.cli import cli; print(riparian.create_learner.__module__)"
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "riparian.models.registry\n", done.stderr


def test_a_checkout_with_changes_or_without_its_section_is_no_release():
    assert list(obstacles("", "## [0.1.0] - 2026-12-01\n", "0.1.0")) == []
    (changes,) = obstacles(" M README.md\n", "## [0.1.0]\n", "0.1.0")
    assert "no commit has" in changes
    (section,) = obstacles("", "## [Unreleased]\n\n## [0.1.0]\n", "0.2.0")
    assert "no section [0.2.0]" in section


def test_a_command_that_fails_ends_a_release_with_what_it_printed(tmp_path):
    with pytest.raises(SystemExit, match=r"failed:\nprinted"):
        run([sys.executable, "-c", "print('printed'); raise SystemExit(3)"], tmp_path)
