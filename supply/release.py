"""Builds and tries what a release consists of: `python -m supply.release`, which is `make release`.

In `dist/` afterwards: the source distribution, the wheel that is built from it, the bill of materials, and their
SHA-256 sums. Built from the last commit. Each of the two packages is installed in an empty environment, with what
supply/worker.txt locks, and run there from an empty folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from supply.sbom import bill

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
# What a new user does first, in an empty folder, without a broker.
TRIES = (
    ("riparian", "--version"),
    ("riparian", "models"),
    ("riparian", "generate", "sea", "sea.csv", "-n", "5000"),
    ("riparian", "evaluate", "sea.csv", "--model", "hoeffding-tree"),
    ("riparian", "init", "sea.csv", "--out", "sea.yaml"),
    ("riparian", "check", "sea.yaml"),
    ("python", "-c", "import riparian; riparian.create_learner"),
)


def run(command: Sequence[object], folder: Path, **environment: str) -> str:
    """The standard output of a command in a folder.

    Raises
    ------
    SystemExit
        It failed; with what it printed.
    """
    # Nothing of the checkout is found from there.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env={**inherited, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def obstacles(status: str, changelog: str, version: str) -> Iterator[str]:
    """Why the checkout is no release, in sentences. status : of `git status --porcelain`."""
    if status.strip():
        yield "The checkout has changes that no commit has: commit them, since the last commit is built."
    if f"## [{version}]" not in changelog:
        yield f"CHANGELOG.md has no section [{version}]: name it so, with the day."


def built(folder: Path) -> tuple[Path, Path]:
    """The source distribution of the last commit, and the wheel that is built from it, both in DIST."""
    stamp = run(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    source = folder / "source"
    source.mkdir()
    archive = folder / "source.tar"
    run(["git", "archive", "--output", archive, "HEAD"], ROOT)
    shutil.unpack_archive(archive, source, filter="data")
    sdist = DIST / run([sys.executable, "-c", BUILD, "build_sdist", DIST], source).split()[-1]
    shutil.unpack_archive(sdist, folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    name = run([sys.executable, "-c", BUILD, "build_wheel", DIST], unpacked, SOURCE_DATE_EPOCH=stamp).split()[-1]
    return sdist, DIST / name


def trial(package: Path, folder: Path) -> None:
    """Install a package in an empty environment, and run it there."""
    print(f"{package.name}: installing it in an empty environment", flush=True)
    place, empty = folder / f"environment-{package.suffix}", folder / f"empty-{package.suffix}"
    venv.create(place, with_pip=True)
    empty.mkdir()
    pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for lock in ("worker", "build"):
        run([*pip, "--require-hashes", "-r", ROOT / "supply" / f"{lock}.txt"], empty)
    run([*pip, "--no-deps", "--no-build-isolation", package], empty)
    for program, *arguments in TRIES:
        print(f"{package.name}: {program} {' '.join(arguments)}", flush=True)
        run([place / "bin" / program, *arguments], empty, XDG_CACHE_HOME=str(folder / "cache"))


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    status = run(["git", "status", "--porcelain"], ROOT)
    found = list(obstacles(status, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = built(folder)
        with zipfile.ZipFile(wheel) as file:
            print(f"{wheel.name}: {len(file.namelist()):,} files, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        for package in (wheel, sdist):
            trial(package, folder)
    (DIST / "riparian.cdx.json").write_text(bill() + "\n", encoding="utf-8")
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    print("".join(sums), end="")
    if found:
        raise SystemExit("Built and tried, but it is no release:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
