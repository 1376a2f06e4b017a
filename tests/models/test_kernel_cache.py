"""Compiled kernels are found again while nothing that they are made of has changed, and only then."""

from pathlib import Path

import pytest

from models import kernel

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
