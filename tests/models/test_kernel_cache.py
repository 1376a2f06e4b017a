"""Compiled kernels are found again while nothing that they are made of has changed, and only then."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from models import kernel
from tests.conftest import jit

ROOT = Path(kernel.__file__).resolve().parents[1]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Three modules: a uses b by a kernel, c is apart."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "a.py").write_text("from models.b import (\n    step,\n)\n")
    (folder / "b.py").write_text("def step():\n    return 1\n")
    (folder / "c.py").write_text("import numpy\n")
    monkeypatch.setattr(kernel, "ROOT", tmp_path)

    def folders():
        kernel._imports.cache_clear()
        kernel._cache_dir.cache_clear()
        return {name: kernel._cache_dir(folder / f"{name}.py") for name in "abc"}

    yield folder, folders
    kernel._imports.cache_clear()
    kernel._cache_dir.cache_clear()


def test_an_edit_reaches_whoever_calls_the_kernel_and_nobody_else(package):
    folder, folders = package
    before = folders()
    assert folders() == before
    (folder / "b.py").write_text("def step():\n    return 2\n")
    after = folders()
    assert {name for name in "abc" if before[name] != after[name]} == {"a", "b"}


def test_what_a_file_imports_from_a_folder_is_all_of_the_folder(package):
    folder, folders = package
    (folder / "more").mkdir()
    (folder / "more" / "d.py").write_text("x = 1\n")
    (folder / "c.py").write_text("from models.more import d\n")
    before = folders()
    (folder / "more" / "d.py").write_text("x = 2\n")
    assert {name for name in "abc" if before[name] != folders()[name]} == {"c"}


def test_the_kernels_of_this_project_depend_on_their_helpers():
    files = kernel._imports(ROOT / "models" / "hoeffding" / "loop.py")
    assert ROOT / "models" / "observers.py" in files
    assert ROOT / "models" / "kernel.py" in files


KERNEL = """
import sys
import time
from models import kernel

if sys.argv[2:]:
    kernel.PATIENCE_SECONDS = 0.1

def scaled(factor):
    @kernel.kernel
    def run(x):
        return factor * x

    return run

def slowly(compile_one):
    def run(*args):
        time.sleep(0.5)
        return compile_one(*args)

    return run

for factor in map(int, sys.argv[1]):
    run = scaled(factor)
    run._compiler.compile = slowly(run._compiler.compile)
    found = run(10)
    print(factor, found, sum(run.stats.cache_misses.values()))
"""


@pytest.fixture
def start(tmp_path):
    """Starts processes that call variants of one kernel, a variant for each digit of their argument."""
    (tmp_path / "variants.py").write_text(KERNEL)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}

    def process(*arguments, source=tmp_path / "variants.py"):
        command = [sys.executable, str(source), *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    return process


def told(process):
    """(factor, what it gave for 10, how often it was compiled) of each variant."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return [tuple(map(int, line.split())) for line in out.splitlines()]


@jit
def test_processes_compile_each_variant_once_and_mix_up_none(start):
    processes = [start(factors) for factors in ("1234", "4321", "2143")]
    found = [row for process in processes for row in told(process)]
    assert all(result == 10 * factor for factor, result, _ in found)
    assert sorted(factor for factor, _, compiled in found if compiled) == [1, 2, 3, 4]
    # All of them are in the cache, under their own names.
    assert told(start("1234")) == [(factor, 10 * factor, 0) for factor in (1, 2, 3, 4)]


@jit
def test_a_process_that_was_stopped_while_it_compiled_is_not_waited_for_for_ever(start, tmp_path):
    assert told(start("1")) == [(1, 10, 1)]
    (lock,) = tmp_path.rglob("*.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert told(start("12", "impatient")) == [(1, 10, 1), (2, 20, 1)]
    assert told(start("12")) == [(1, 10, 0), (2, 20, 1)]  # without the lock, nothing was saved


@jit
def test_a_copy_of_the_source_elsewhere_finds_what_was_compiled(start, tmp_path):
    """Another checkout, or the same files written anew: neither place nor time of a source is looked at."""
    assert told(start("1")) == [(1, 10, 1)]
    elsewhere = tmp_path / "elsewhere" / tmp_path.name  # the name of the folder counts, as that of a family does
    elsewhere.mkdir(parents=True)
    (elsewhere / "variants.py").write_text(KERNEL)
    os.utime(elsewhere / "variants.py", (0, 0))
    assert told(start("1", source=elsewhere / "variants.py")) == [(1, 10, 0)]
