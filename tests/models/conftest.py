"""Under pytest-xdist each file of learners runs in a process of its own, a fork of the one that has collected it: the
hundreds of megabytes in which numba compiles a family's kernels are given back at the file's end.

Without pytest-xdist tests run where they are, for a debugger.
"""

import faulthandler
import os
import pickle
import signal
import sys
import traceback
from typing import NoReturn

import pytest
from _pytest.runner import runtestprotocol

from tests.conftest import XDIST_WORKER


class Fork:
    """A child that runs the tests of a file, one after the other, and writes the reports of each."""

    def __init__(self, items: list[pytest.Item]) -> None:
        source, sink = os.pipe()
        # Its thread would not be in the child, which would wait for it where a test fails.
        faulthandler.cancel_dump_traceback_later()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(source)
            _run(items, sink)
        os.close(sink)
        self._reports = os.fdopen(source, "rb")

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """Of the test that is next. Where the child ends meanwhile, or the test takes too long, it has failed."""
        try:
            nodeid, found = pickle.load(self._reports)
        except (EOFError, pickle.UnpicklingError, pytest.fail.Exception) as error:
            _forks.remove(self)
            why = f"the process of this file ended with wait status {self.end()}: {error}"
            return [pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")]
        assert nodeid == item.nodeid
        hook = item.config.hook
        return [hook.pytest_report_from_serializable(config=item.config, data=one) for one in found]

    def end(self) -> int:
        """End the child, if it has not ended by itself: its wait status."""
        self._reports.close()
        os.kill(self._pid, signal.SIGKILL)
        return os.waitpid(self._pid, 0)[1]


def _run(items: list[pytest.Item], sink: int) -> NoReturn:
    try:
        config = items[0].config
        with os.fdopen(sink, "wb") as out:
            for item, nextitem in zip(items, [*items[1:], None], strict=True):
                reports = runtestprotocol(item, log=False, nextitem=nextitem)
                every = [config.hook.pytest_report_to_serializable(config=config, report=one) for one in reports]
                pickle.dump((item.nodeid, every), out)
                out.flush()
            fits = sys.modules.get("riparian.models.batch.process")
            if fits is not None:
                fits.PROCESSES.close()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


_forks: list[Fork] = []  # at most one, of the file in hand


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if XDIST_WORKER is None:
        return None
    if not _forks:
        of_file = [one for one in item.session.items if one.path == item.path]
        _forks.append(Fork(of_file[of_file.index(item) :]))
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = _forks[0].reports(item)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    if nextitem is None or nextitem.path != item.path:
        pytest_sessionfinish()
    return True


def pytest_sessionfinish() -> None:
    while _forks:
        _forks.pop().end()
