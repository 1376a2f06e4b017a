"""Tests over several processes (`--processes N`).

The run's process imports and collects everything, once. Each file of tests runs in a fork of it, N at a time, whose
memory is given back at the file's end: numba takes hundreds of megabytes to compile a family's kernels. Files that have
a costly fixture of a whole process in common (`IN_COMMON`) are one, so that it is made once. Tests on a
broker mostly wait: of the other files no more run at a time than there are cores, so that neither kind is left when the
other one is done, and then one more. Without the option tests run where they are, for a debugger. `--costs N` lists the
N files and the N tests that took most CPU, in their own process (with all that it waited for) and in those of the fork
server that they asked for.
"""

import contextlib
import gc
import os
import resource
import signal
import sys
import traceback
from collections import deque
from collections.abc import Iterable
from multiprocessing import connection
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, metavar="N", help="run each file of tests in a process, N at a time")
    parser.addoption("--costs", type=int, default=0, metavar="N", help="list the N files and tests that took most CPU")


COSTS = pytest.StashKey[list[tuple[float, int, str]]]()  # of files: seconds, and the peak of memory in kB
TESTS = pytest.StashKey[dict[str, float]]()  # seconds of each
ASKED = pytest.StashKey[dict[str, float]]()  # `forkserver.costs`


IN_COMMON = ("cluster",)  # fixtures


class File:
    """A process that runs tests, of one file, one after the other, and gives the reports of each.

    items : those whose reports have not come.
    """

    def __init__(self, items: list[pytest.Item]) -> None:
        self.items = deque(items)
        self.waits = need_broker(items)
        self._costs, self._name = items[0].config.stash.setdefault(COSTS, []), items[0].nodeid.partition("::")[0]
        self.reports, sink = connection.Pipe(duplex=False)
        self._pid = os.fork()
        if self._pid == 0:
            _run(items, sink)
        sink.close()

    def end(self) -> int:
        """End it, if it has not ended by itself: its wait status."""
        self.reports.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        _, status, used = os.wait4(self._pid, 0)
        self._costs.append((used.ru_utime + used.ru_stime, used.ru_maxrss, self._name))
        return status


def together(items: Iterable[pytest.Item]) -> list[list[pytest.Item]]:
    """The items that one process runs, file by file: those of a file, and of files with a fixture in common."""
    every: dict[Path, list[pytest.Item]] = {}
    for item in items:
        every.setdefault(item.path, []).append(item)
    places: dict[object, list[pytest.Item]] = {}
    for path, found in every.items():
        used = {name for item in found for name in getattr(item, "fixturenames", ())}
        place = next((name for name in IN_COMMON if name in used), path)
        places.setdefault(place, []).extend(found)
    return list(places.values())


def following(files: list[list[pytest.Item]], n_computing: int, n_cores: int) -> list[pytest.Item] | None:
    """Take the file that runs next off those that are left: of those that wait for a broker, where as many as there are
    cores compute already, and of the others, where not; of any, where none of these is left. None where that would
    compute beside more than there are cores: one of them has to end."""
    waits = n_computing >= n_cores
    at = next((i for i, items in enumerate(files) if need_broker(items) == waits), None)
    if at is None and n_computing > n_cores:
        return None
    return files.pop(at or 0)


def need_broker(items: Iterable[pytest.Item]) -> bool:
    """Whether one of them needs a broker, and so mostly waits for it."""
    return any(item.get_closest_marker("broker") for item in items)


class _Reporter:
    """In a file's process: sends the reports of each test."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        hook, before = item.config.hook, _used()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        made = [hook.pytest_report_to_serializable(config=item.config, report=one) for one in reports]
        self._sink.send((_used() - before, made))
        return True


def _used() -> float:
    """Seconds of CPU of this process, and of all that it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _run(items: list[pytest.Item], sink: Any) -> NoReturn:
    code = 1
    try:
        config = items[0].config
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:  # into files of its own
            capture.read_global_capture()
            capture.stop_global_capturing()
            capture.start_global_capturing()
        folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]
        folders._basetemp = folders.getbasetemp() / Path(items[0].location[0]).with_suffix("").as_posix().replace(
            "/", "-"
        )
        folders._basetemp.mkdir(exist_ok=True)
        config.pluginmanager.register(_Reporter(sink))
        for item, nextitem in zip(items, [*items[1:], None], strict=True):
            config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        fits = sys.modules.get("riparian.models.batch.process")
        if fits is not None:
            fits.PROCESSES.close()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    n = session.config.getoption("processes")
    if not n or session.testsfailed or session.config.option.collectonly:
        return None
    files, running = together(session.items), dict[Any, File]()
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
    gc.collect()
    gc.freeze()  # no process goes through all of this again
    try:
        while files or running:
            while files and len(running) < n:
                n_computing = sum(not file.waits for file in running.values())
                items = following(files, n_computing, n_cores)
                if items is None:
                    break
                file = File(items)
                running[file.reports] = file
            for ready in connection.wait(list(running)):
                rest = _take(running[ready])
                if rest is not None:
                    del running[ready]
                    files[:0] = [rest] if rest else []
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
    finally:
        for file in running.values():
            file.end()
    return True


def _take(file: File) -> list[pytest.Item] | None:
    """Report the test that has ended. Where the process has ended: the tests that are left, but for the one that was
    running, which has failed."""
    try:
        seconds, found = file.reports.recv()
    except EOFError:
        status = file.end()
        if file.items:
            _report(item := file.items.popleft(), [_lost(item, status)])
        return [*file.items]
    item = file.items.popleft()
    item.config.stash.setdefault(TESTS, {})[item.nodeid] = seconds
    hook = item.config.hook
    _report(item, [hook.pytest_report_from_serializable(config=item.config, data=one) for one in found])
    return None


def _lost(item: pytest.Item, status: int) -> pytest.TestReport:
    why = f"the process of this file ended with wait status {status}"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")


def _report(item: pytest.Item, reports: list[pytest.TestReport]) -> None:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    n, costs, asked = config.getoption("costs"), config.stash.get(COSTS, []), config.stash.get(ASKED, {})
    if not n or not costs:
        return
    files, peaks = dict[str, float](), dict[str, int]()
    for seconds, kilobytes, name in costs:  # a file has another process where one has died
        files[name] = files.get(name, 0.0) + seconds
        peaks[name] = max(peaks.get(name, 0), kilobytes >> 10)
    by_file = dict[str, float]()
    for test, seconds in asked.items():
        name = test.partition("::")[0]
        by_file[name] = by_file.get(name, 0.0) + seconds
    broker = by_file.pop("", 0.0)
    terminalreporter.section("seconds of CPU: all, of these its own process's, and MB of that one")
    for own, others in ((files, by_file), (config.stash.get(TESTS, {}), asked)):
        sums = {name: own.get(name, 0.0) + others.get(name, 0.0) for name in own}
        for name in sorted(sums, key=lambda name, sums=sums: -sums[name])[:n]:
            terminalreporter.write_line(f"{sums[name]:8.1f} {own[name]:8.1f} {peaks.get(name, ''):>6} {name}")
        terminalreporter.write_line("")
    used, waited = (sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    in_files, forked = sum(files.values()), sum(by_file.values())
    for seconds, what in (
        (in_files, "processes of files and what they started"),
        (forked, "workers and commands of the fork server"),
        (broker, "the broker that all share"),
        (waited - in_files - forked - broker, "the fork server itself"),
        (used, "collection and reports"),
    ):
        terminalreporter.write_line(f"{seconds:8.1f} {what}")
