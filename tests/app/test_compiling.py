"""Kernels that a command lacks are compiled by other processes, and a worker that waits for them answers."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from riparian.app.kafka.local_broker.ports import listen
from riparian.app.worker.exposition.web import Compiling
from riparian.models.kernels import cache as kernel_cache
from tests.conftest import jit
from tests.processes import PATIENCE

KERNELS = """
import numpy as np
from riparian.models.kernels.kernel import kernel

@kernel
def add(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total

@kernel
def smallest(x):
    least = x[0]
    for i in range(len(x)):
        least = min(least, x[i])
    return least

@kernel
def both(x):
    return add(x) - smallest(x)

@kernel
def pair(x):
    return x[0], x[1]

def call():
    first, second = pair(np.arange(2.0) + add(np.arange(3.0)))
    return both(np.array([first, second, smallest(np.ones(1))]))

kernels = add, smallest, both, pair
"""

COMMAND = """
import sys
from riparian.app import compiling
from riparian.models.kernels.cache import kernels_of
from kernels import call, kernels

if __name__ == "__main__":
    if "list" in sys.argv:
        print(*(kernel.py_func.__name__ for kernel, _ in kernels_of(call)))
        sys.exit()
    said = set()
    compiling.call(call, lambda *one: said.add(one))
    print(call(), sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels), max(said, default=None))
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "command.py").write_text(COMMAND)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": str(kernel_cache.ROOT)}

    def command(*arguments):
        line = [sys.executable, str(tmp_path / "command.py"), *arguments]
        done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
        return done.stdout.strip()

    return command


@jit
def test_what_a_call_lacks_is_compiled_by_other_processes(run):
    assert run("list") == "add pair smallest both"  # what Python calls, and in this order
    result, compiled_here, *said = run().split(maxsplit=2)
    assert (result, compiled_here) == ("7.0", "0")
    assert said[0].endswith(", 4)")
    assert run() == "7.0 0 None"  # and next time nobody is told anything


@jit
def test_a_kernel_that_is_there_is_called_and_one_that_is_not_is_refused(run, tmp_path, monkeypatch):
    from tests.models.test_kernel_cache import ROOT

    code = (
        "from riparian.models.kernels.cache import NotCompiledError, compile_none\n"
        "import numpy as np, kernels\n"
        "kernels.add(np.ones(2))\n"
        "with compile_none():\n"
        "    print(kernels.add(np.ones(3)))\n"
        "    try:\n"
        "        kernels.both(np.ones(3))\n"
        "    except NotCompiledError:\n"
        "        print('refused')\n"
        "print(kernels.both(np.ones(3)))\n"
    )
    environment = {
        **os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "other"), "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"
    }  # fmt: skip
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.split() == ["3.0", "refused", "2.0"]


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_worker_that_compiles_is_alive_and_not_ready():
    web = listen("127.0.0.1", 0)
    port = web.getsockname()[1]
    with web:
        with Compiling(web, ["fraud"]) as told:
            told(0, 0)
            told(11, 40)
            status, body = get(port, "/health")
            assert (status, body["status"], body["stream"]) == (200, "compiling", "fraud")
            assert body["kernels"] == {"compiled": 11, "of": 40}
            assert get(port, "/ready") == (503, {"status": "compiling"})
        # The socket is the web server's now.
        assert web.fileno() >= 0
        web.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            web.accept()


def test_a_worker_without_a_web_server_answers_nobody():
    with Compiling(None, ["fraud"]) as told:
        told(1, 2)
