"""Tests over several processes."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.conftest import ASKING, ROOT
from tests.processes import PATIENCE
from tests.spread import following, together

DYING = """
import os
import pytest

@pytest.fixture(scope="module")
def once():
    yield [os.getpid()]
    print("the fixture ends")

def test_before(once):
    assert once == [os.getpid()]

def test_that_kills_its_process():
    os.kill(os.getpid(), 9)

def test_in_another_process(once):
    assert once == [os.getpid()]
    assert once == []
"""
LIVING = """
import pytest

def test_passes():
    print("seen by nobody")

@pytest.mark.skip(reason="not today")
def test_is_skipped():
    raise AssertionError
"""


def test_each_test_is_reported_where_processes_die(tmp_path):
    (tmp_path / "test_dying.py").write_text(DYING)
    (tmp_path / "test_living.py").write_text(LIVING)
    command = [sys.executable, "-m", "pytest", "-p", "tests.spread", "-p", "no:cacheprovider", "--processes", "2"]
    done = subprocess.run(
        [*command, "-rA", "--rootdir", tmp_path, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    # Where CI is set in the environment, pytest adds the whole message to each line.
    lines = [line.partition(" - ")[0] for line in done.stdout.splitlines()]
    passed = [line.rpartition("/")[2] for line in lines if line.startswith("PASSED")]
    failed = [line.rpartition("/")[2] for line in lines if line.startswith("FAILED")]
    assert sorted(passed) == ["test_dying.py::test_before", "test_living.py::test_passes"], done.stdout
    assert failed == ["test_dying.py::test_that_kills_its_process", "test_dying.py::test_in_another_process"]
    assert "this file ended with wait status 9" in done.stdout
    assert "At index 0 diff" in done.stdout or "Left contains one more item" in done.stdout
    assert "the fixture ends" in done.stdout  # what it prints when its module's last test has ended
    assert "not today" in done.stdout
    assert "2 failed, 2 passed, 1 skipped" in done.stdout


@pytest.fixture
def file(request):
    """Makes the tests of a file: one, with these markers."""

    def made(name, *markers):
        item = pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
        for marker in markers:
            item.add_marker(marker)
        return [item]

    return made


def test_as_many_files_compute_as_there_are_cores_and_the_others_wait(file):
    left = [file("w1", "broker"), file("w2", "broker"), file("c1"), file("c2"), file("c3"), file("c4")]

    def taken(n_computing):
        items = following(left, n_computing, 2)
        return items and items[0].name

    assert [taken(0), taken(1), taken(2), taken(2), taken(2)] == ["c1", "c2", "w1", "w2", "c3"]
    assert taken(3) is None  # nothing is left that waits: no further one computes
    assert taken(2) == "c4"
    left = [file("w3", "broker")]
    assert taken(0) == "w3"
    assert not left


def test_files_with_a_costly_fixture_in_common_are_one():
    def item(path, *fixtures):
        return SimpleNamespace(path=path, fixturenames=fixtures)

    secured, alone, lists = item("secured", "cluster"), item("alone", "tmp_path"), item("lists", "cluster")
    another = item("lists")
    assert together([secured, alone, lists, another]) == [[secured, lists, another], [alone]]


def test_the_broker_is_asked_for_where_a_test_needs_it_and_not_waited_for_at_the_end(monkeypatch, file):
    sleeps, popen = [sys.executable, "-c", "import time; time.sleep(3600)"], subprocess.Popen
    monkeypatch.setattr(conftest.subprocess, "Popen", lambda *_, **__: popen(sleeps))

    def asked(items, processes=2, collectonly=False):
        options = SimpleNamespace(collectonly=collectonly)
        config = SimpleNamespace(getoption=lambda _: processes, option=options, stash=pytest.Stash())
        conftest.pytest_collection_finish(SimpleNamespace(config=config, items=items))
        conftest.end_asking(config)  # or this test would never end
        return ASKING in config.stash

    needs = [*file("c1"), *file("w1", "broker")]
    assert asked(needs)
    assert not asked(file("c1"))
    assert not asked(needs, processes=None)
    assert not asked(needs, collectonly=True)
