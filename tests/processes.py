"""Processes that others start, as tests look at them: which there are, and whether one is gone."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 400.0  # seconds until a test gives up waiting, on a busy machine too; nothing is asserted about times


def fitters(parent: int) -> list[int]:
    """Processes that fit batch learners for `parent`."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(line.split()[0]) for line in found.stdout.splitlines() if "riparian.models.batch.process" in line]


def gone(pid: int) -> bool:
    """Whether a process has ended, though nobody may have asked for its exit code yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until(condition: Callable[[], object], why: Callable[[], object] = lambda: "it did not happen") -> None:
    """Ask again and again until it is so. why : what is said where it never is."""
    deadline = time.monotonic() + PATIENCE
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < deadline, f"{why()} in {PATIENCE:.0f} s"
        time.sleep(min(max(0.05, 4 * (now - began)), 1.0))  # looking shall be little of what the machine does
