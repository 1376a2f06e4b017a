"""Targets in child processes, under limits of memory and time: what they find, a crash and an endless loop too.

`python -m tests.fuzz.children run TARGET …` is the child. It writes a line of JSON for each mistake, and the number of
the case in hand into a file, by which the parent knows what a child died of.
"""

import argparse
import base64
import faulthandler
import hashlib
import json
import os
import re
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.forkserver import Process
from tests.fuzz.target import TARGETS, Target, find, generator

CASES = Path(__file__).parent / "cases"
STANDSTILL = 600.0  # seconds after which a child that does nothing is ended: CPU time is what a case is limited in
TRIES = 300  # to make a case smaller
DIFFERENT = 20  # mistakes after which a child gives up


class Found(NamedTuple):
    """A case that fails. index : -1 of a file. said : the traceback, or how the child ended."""

    target: str
    index: int
    case: bytes
    said: str


class Outcome(NamedTuple):
    """What a child did. stopped : it came to no end of its own, so cases after `cases` were not run. grown : MB of
    memory that it took at most, beyond what it had before the first case. records : in its cases, of a target that
    counts them."""

    cases: int
    seconds: float
    found: list[Found]
    stopped: bool
    grown: float = 0.0
    records: int = 0


# The child ------------------------------------------------------------------------------------------------------------


def limit_memory(megabytes: int) -> None:
    """Of this process, from here on: what is taken already does not count."""
    status = Path("/proc/self/status").read_text()
    taken = int(re.findall(r"VmData:\s+(\d+) kB", status)[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (taken + megabytes * 1_000_000,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit(target: Target) -> None:
    limit_memory(target.megabytes)
    # A kernel in an endless loop does not hear Python's signals: C writes the traceback, then the default ends us.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)


def _failure(target: Target, case: bytes) -> str | None:
    """The traceback of a case that fails."""
    target.ready(case)
    signal.setitimer(signal.ITIMER_PROF, target.seconds)
    try:
        target.run(case)
    except KeyboardInterrupt:
        raise
    except BaseException:  # SystemExit, too
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return None


def kind_of(said: str) -> str:
    """What a traceback is known by: where it came from, and the kind of the error."""
    places = re.findall(r'File "([^"]+)", line (\d+)', said)
    ours = [place for place in places if "/site-packages/" not in place[0] and "/tests/" not in place[0]]
    error = next((line for line in reversed(said.splitlines()) if line and not line[0].isspace()), "")
    return f"{(ours or places or [('', '')])[-1]} {re.sub('[0-9]+', '0', error)[:60]}"


def _smaller(target: Target, case: bytes, said: str) -> tuple[bytes, str]:
    """A smaller case with a failure of the same kind."""
    kind, tries, again = kind_of(said), 0, True
    while again:
        again = False
        for candidate in target.shrink(case):
            tries += 1
            if tries > TRIES:
                return case, said
            other = _failure(target, candidate)
            if other is not None and kind_of(other) == kind:
                case, said, again = candidate, other, True
                break
    return case, said


def _child(name: str, cases: Iterator[tuple[int, bytes]], progress: int, seconds: float, shrink: bool) -> None:
    target = find(name)
    target.prepare()
    _limit(target)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    until = time.monotonic() + seconds
    kinds: set[str] = set()
    try:
        for index, case in cases:
            os.pwrite(progress, b"%20d" % index, 0)
            said = _failure(target, case)
            if said is not None and kind_of(said) not in kinds:
                kinds.add(kind_of(said))
                if shrink:
                    case, said = _smaller(target, case, said)
                print(json.dumps([index, base64.b64encode(case).decode(), said[-6000:]]), flush=True)
            if time.monotonic() > until or len(kinds) >= DIFFERENT:
                break
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.pwrite(progress, b"%20d %d %d" % (index + 1, grown, getattr(target, "n_records", 0)), 0)
    finally:
        target.close()


def _made(name: str, seed: int, first: int, count: int) -> Iterator[tuple[int, bytes]]:
    target = find(name)
    for index in range(first, first + count):
        yield index, target.make(generator(seed, name, index))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "files"])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10**12)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--progress", type=Path, required=True)
    parser.add_argument("files", type=Path, nargs="*")
    options = parser.parse_args(arguments)
    progress = os.open(options.progress, os.O_WRONLY)
    if options.what == "run":
        cases = _made(options.target, options.seed, options.first, options.count)
    else:
        cases = ((index, file.read_bytes()) for index, file in enumerate(options.files))
    _child(options.target, cases, progress, options.seconds, options.what == "run")


# The parent -----------------------------------------------------------------------------------------------------------


def _watch(
    name: str, arguments: list[str], tell: Callable[[int], None]
) -> tuple[int, int, str, list[list[Any]], float, int]:
    """Run a child: its exit code, the case it came to, what it wrote to standard error, what it found, the MB by which
    it has grown, and the records that it counted."""
    with (
        tempfile.NamedTemporaryFile() as progress,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile() as err,
    ):
        command = ["tests.fuzz.children", *arguments, "--progress", progress.name]
        child = Process(command, stdout=out.fileno(), stderr=err.fileno())
        try:
            at, moved = -1, time.monotonic()
            while child.poll() is None:
                time.sleep(0.1)
                now = _read(progress.name)
                if now != at:
                    at, moved = now, time.monotonic()
                    tell(at)
                elif time.monotonic() - moved > STANDSTILL:
                    child.send_signal(signal.SIGPROF)
                    child.wait(timeout=STANDSTILL)
        finally:
            child.kill()
            child.wait()
        out.seek(0)
        err.seek(0, os.SEEK_END)
        err.seek(max(0, err.tell() - 9000))
        said = re.sub("\nExtension modules: .*", "", err.read().decode(errors="replace"))
        grown, n_records = map(int, Path(progress.name).read_text()[20:].split() or (0, 0))
        lines = [json.loads(line) for line in out if line.strip()]
        return child.returncode, _read(progress.name), said, lines, grown / 1000, n_records


def _read(progress: str) -> int:
    written = Path(progress).read_text()
    return int(written[:20]) if written else -1


def ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def run(
    name: str,
    seed: int,
    first: int = 0,
    count: int = 10**12,
    seconds: float = 1e9,
    tell: Callable[[int], None] = lambda at: None,
) -> Outcome:
    """Cases of a target in one child, until the first one that ends it."""
    arguments = ["run", name, f"--seed={seed}", f"--first={first}", f"--count={count}", f"--seconds={seconds}"]
    began = time.monotonic()
    code, at, said, lines, grown, n_records = _watch(name, arguments, tell)
    found = [Found(name, index, base64.b64decode(case), error) for index, case, error in lines]
    if code == 0:
        return Outcome(at - first, time.monotonic() - began, found, False, grown, n_records)
    if at < 0:
        raise RuntimeError(f"the child of {name} did not begin: {ended(code)}\n{said}")
    case = find(name).make(generator(seed, name, at))
    found.append(Found(name, at, case, f"{said}\n{ended(code)}"))
    return Outcome(at + 1 - first, time.monotonic() - began, found, True)


def replay(name: str, files: Sequence[Path]) -> list[Found]:
    """Run the cases in files; those that fail."""
    found: list[Found] = []
    rest = list(files)
    while rest:
        code, at, said, lines, *_ = _watch(name, ["files", name, *map(str, rest)], lambda at: None)
        found += [Found(name, -1, rest[index].read_bytes(), error) for index, _, error in lines]
        if code == 0:
            break
        if at < 0:
            raise RuntimeError(f"the child of {name} did not begin: {ended(code)}\n{said}")
        found.append(Found(name, -1, rest[at].read_bytes(), f"{said}\n{ended(code)}"))
        rest = rest[at + 1 :]
    return found


def shrink_crash(one: Found, tries: int = 12) -> Found | None:
    """A smaller case of what ends a child, each tried in a child of its own; None where it ends none alone."""

    def fails(case: bytes) -> Found | None:
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(case)
            return next(iter(replay(one.target, [Path(file.name)])), None)

    found, again = fails(one.case), True
    while found is not None and again:
        again = False
        for candidate in find(one.target).shrink(found.case):
            tries -= 1
            smaller = fails(candidate) if tries >= 0 else None
            if smaller is not None:
                found, again = smaller, True
                break
            if tries < 0:
                break
    return found


def save(one: Found) -> Path:
    """Keep a case that fails: `make test` runs it from now on."""
    file = CASES / one.target / hashlib.blake2b(one.case, digest_size=6).hexdigest()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(one.case)
    return file


if __name__ == "__main__":
    main()
