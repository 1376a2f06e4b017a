"""Keep one child process alive for exactly as long as the process that asked for it.

Run as a program of its own, by its path (it imports nothing of Riparian's and starts in 20 ms):

    python -I -S supervisor.py CALLER_PID LOG_FILE COMMAND...

It starts the command, prints the command's pid on standard output, and waits. The caller holds the other end of
standard input. The command is ended (SIGTERM, then SIGKILL) when that end closes, when the caller is no longer our
parent, or when we are told to terminate. So a caller that is killed with -9 leaves nothing behind:

- the pipe closes when the caller dies, unless a process that the caller forked still holds a copy;
- our parent changes when the caller dies, whatever happened to the pipe;
- if we are killed ourselves, Linux sends the command SIGKILL (PR_SET_PDEATHSIG). That signal fires when the *thread*
  that forked ends, so it is set here, where there is one thread, and not in the caller, which may start a broker from a
  worker thread.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.25
GRACE_SECONDS = 10.0


class Supervised:
    """The caller's side: a command that lives until `end`, or as long as this process. log : of its output."""

    def __init__(self, log: str, command: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid()), log, *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def end(self) -> int:
        """Have the command ended, wait for that, and return its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


def _die_with_parent() -> None:
    """In the child, before exec: be killed when the supervisor dies (Linux; elsewhere nothing happens)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end(child: "subprocess.Popen[bytes]", grace_seconds: float = GRACE_SECONDS) -> int:
    """Terminate a child, kill it when it does not listen, and return its exit code."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            child.kill()
    return child.wait()


def supervise(caller: int, log: str, command: list[str]) -> int:
    """Run `command` until it ends or the process `caller` does; return the exit code."""
    terminated = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to answer
    with open(log, "ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent,
        )
    try:
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more: standard input has ended, too
            os.write(1, f"{child.pid}\n".encode())
        os.close(1)
        while child.poll() is None and not terminated and os.getppid() == caller:
            readable, _, _ = select.select([0], [], [], POLL_SECONDS)
            if readable and not os.read(0, 64):
                break
    finally:
        code = end(child)
    return code


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), sys.argv[2], sys.argv[3:]) & 0xFF)
