"""`python -m tests.forked MODULE ARGUMENTS`: a benchmark whose processes come from the fork server, without the seconds
that their imports take."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import processes
from tests import forkserver


class Popen(forkserver.Process):
    """As `benchmarks.processes.Child` uses that of `subprocess`: its standard output is a pipe."""

    def __init__(self, command: list[str], *, stdin: int, stdout: int, stderr: Any, cwd: Path) -> None:
        assert (command[:2], stdin, stdout) == ([sys.executable, "-m"], subprocess.DEVNULL, subprocess.PIPE)
        reads, writes = os.pipe()
        super().__init__(command[2:], stdout=writes, stderr=stderr.fileno(), cwd=cwd)
        os.close(writes)
        self.stdout = os.fdopen(reads, "rb")

    def communicate(self) -> tuple[bytes, None]:
        output = self.stdout.read()
        self.wait()
        return output, None


if __name__ == "__main__":
    named = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "TimeoutExpired")}
    processes.subprocess = SimpleNamespace(Popen=Popen, **named)  # type: ignore[assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
