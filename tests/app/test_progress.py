"""Whoever waits for kernels to be compiled is told why, and nobody else is."""

import threading
import time

import numba
import pytest

from riparian.app import compiling
from riparian.app.cli.terminal import progress as module
from riparian.app.cli.terminal.progress import progress
from riparian.app.evaluation import pool as pool_module
from riparian.app.evaluation.pool import Pool
from tests.conftest import jit
from tests.processes import until

pytestmark = jit


def compile_one(i=0):
    numba.njit(lambda x: x + i)(1)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)


def test_compiling_is_said_once(at_once, capsys):
    with progress("work"):
        compile_one()
        compile_one(2)
    said = capsys.readouterr()
    assert said.err.count(compiling.SENTENCE) == 1
    assert said.out == ""


def test_a_kernel_that_is_there_is_nothing_to_say(at_once, capsys):
    there = numba.njit(lambda x: x)
    there(1)
    with progress("work") as told:
        there(1)
        told(1)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_what_is_quickly_compiled_is_not_worth_a_line(monkeypatch, capsys):
    monkeypatch.setattr(module, "SLOW_SECONDS", 3600.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    with progress("work"):
        compile_one()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("slow", "total", "shown"), [(0.0, None, True), (3600.0, None, False), (3600.0, 10, True)])
def test_work_without_a_known_end_is_shown_once_it_is_slow(monkeypatch, capsys, slow, total, shown):
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, a terminal
    monkeypatch.setattr(module, "SLOW_SECONDS", slow)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    with progress("reading", total):
        time.sleep(0.3)
    assert ("reading" in capsys.readouterr().err) == shown


def test_a_terminal_shows_that_kernels_compile(at_once, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("work", only_compiling=True):
        time.sleep(0.1)
        assert capsys.readouterr().err == ""
        compile_one()
    said = capsys.readouterr().err
    assert "work: compiling kernels" in said
    assert compiling.SENTENCE not in said


def test_how_many_kernels_are_compiled_is_shown_and_said(at_once, monkeypatch, capsys):
    shown = ""

    def is_shown(text):
        nonlocal shown
        shown += capsys.readouterr().err
        return text in shown

    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)
    with progress("work", only_compiling=True) as work:
        work.kernels(0, 0)
        time.sleep(0.1)
        work.kernels(11, 40)
        until(lambda: is_shown("compiling kernel 12 of 40\n"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("work", only_compiling=True) as work:
        work.kernels(39, 40)
        until(lambda: is_shown("work: compiling kernel 40 of 40"))


def test_other_processes_tell_that_they_compile(at_once, monkeypatch, capsys):
    monkeypatch.setattr(pool_module, "LOOK_SECONDS", 0.01)
    with progress("work") as told, Pool(1, told, told.elsewhere) as pool:
        pool.map(compile_one, [1])
    assert compiling.SENTENCE in capsys.readouterr().err


def test_nothing_is_left_behind(at_once):
    before = threading.active_count()
    with pytest.raises(ValueError, match="x"), progress("work"):
        raise ValueError("x")
    assert threading.active_count() == before
    changes = []
    compiling.watch(changes.append)()
    compile_one()
    assert changes == []
