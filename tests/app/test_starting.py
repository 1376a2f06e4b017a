"""What a start does without: a worker that was killed predicts again as soon as it is back."""

import json
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from riparian.app.cli.run import starting
from tests import forkserver
from tests.broker.secured import authority
from tests.conftest import jit
from tests.processes import PATIENCE

ROOT = Path(starting.__file__).resolve().parents[2]
STREAM = """
name: quick
task: classification
features: {amount: numeric, country: nominal}
champion: hoeffding-tree
drift: {}
"""
# The command up to the moment when its event loop would begin, and what was imported by then.
WORKER = """
import gc, json, sys
from riparian.app.cli import main
from riparian.app.cli.run import worker

async def nothing(spec, *_):
    return spec, (0, 0), []

def told():
    from aiohttp import connector

    contexts = [connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED]
    read = sum(len(context.get_ca_certs()) for context in contexts)
    print(json.dumps({"modules": list(sys.modules), "collecting": gc.isenabled(), "certificates": read}))
    sys.exit()

worker.prepare, gc.freeze = nothing, told  # which comes first when all is made
main()
"""
COMMAND = """
import json, sys
from riparian.app.cli import main
try:
    main()
finally:
    print(json.dumps({"modules": list(sys.modules)}))
"""


@pytest.fixture
def run(tmp_path):
    """What a command says last, in a process of its own."""
    (tmp_path / "stream.yaml").write_text(STREAM)

    def told(code, *arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE
        )
        return json.loads(done.stdout.splitlines()[-1])

    return told


def loaded(told, *names):
    """Which of the modules were imported, or one below them."""
    return {name for name in names if any(f"{module}.".startswith(f"{name}.") for module in told["modules"])}


@jit
def test_a_worker_imports_nothing_that_its_stream_does_not_need(run):
    arguments = "worker", "stream.yaml", "--port", "0"
    compiling = "numba.np.arraymath", "numba.np.linalg", "numba.cpython.unicode", "numba.typed.typeddict"
    told = run(WORKER, *arguments)
    if loaded(told, *compiling):  # it has compiled some, and the next one finds them
        told = run(WORKER, *arguments)
    of_others = "rich", "faust.livecheck", "faust.cli", "fastavro", "pyarrow", "google.protobuf"
    elsewhere = (
        "scipy.linalg",
        "scipy.special",
        "sklearn",
        "river",
        "matplotlib",
        "riparian.app.page",
        "riparian.app.evaluation",
    )
    assert not loaded(told, *compiling, *of_others, *elsewhere)
    assert not told["collecting"]
    assert told["certificates"] == 0
    # Names that are asked for do exist.
    assert loaded(told, "faust.app", "numba.core", "aiohttp.web") == {"faust.app", "numba.core", "aiohttp.web"}


def test_commands_that_only_read_a_stream_file_wait_for_no_kernel_and_no_client(run):
    heavy = "numba", "faust", "aiokafka", "aiohttp", "scipy"
    assert not loaded(run(COMMAND, "--help"), *heavy, "numpy", "msgspec", "pydantic", "rich")
    assert not loaded(run(COMMAND, "worker", "--help"), *heavy, "numpy", "msgspec", "pydantic", "rich")
    told = run(COMMAND, "check", "stream.yaml")
    assert not loaded(told, *heavy)
    assert loaded(told, "pydantic") == {"pydantic"}


CERTIFICATES = """
import ssl, sys
from riparian.app.cli.run import starting

starting.quickly()
from aiohttp import connector

context = connector._SSL_CONTEXT_VERIFIED
assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
before = len(context.get_ca_certs())
context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
print("[%d, %d, %d]" % (before, len(context.get_ca_certs()), len(ssl.create_default_context().get_ca_certs())))
"""


def test_certificates_of_the_system_are_there_for_whoever_uses_the_client_of_aiohttp(run, tmp_path, monkeypatch):
    authority(tmp_path, "ca")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    before, then, expected = run(CERTIFICATES)
    assert before == 0
    assert then == expected == 1
    assert ssl.SSLContext.set_default_verify_paths is ssl._ssl._SSLContext.set_default_verify_paths


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dashboard", "--out", "file/x"], r"file/x.* cannot be used \(Not a directory\)"),
        (["broker", "start", "--data", "file/x", "--port", "1"], r"file/x.* cannot be used \(Not a directory\)"),
        (
            ["worker", "s.yaml", "--broker", "127.0.0.1:1", "--data-dir", "file/x"],
            "--data-dir: file/x cannot be written",
        ),
    ],
)
def test_a_folder_that_cannot_be_written_is_named_in_one_sentence(tmp_path, arguments, said):
    (tmp_path / "file").touch()
    (tmp_path / "s.yaml").write_text("name: s\ntask: classification\nfeatures: {a: numeric}\nchampion: naive-bayes\n")
    done = forkserver.run(["riparian.app.cli", *arguments], cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(said, done.stderr), done.stderr
