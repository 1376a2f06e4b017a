"""The demo as people run it: a process of its own, which ends well and leaves nothing behind however it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from riparian.app.kafka.local_broker.ports import free_port
from tests.broker.clients import administer
from tests.broker.harness import PATIENCE, ROOT, riparian
from tests.conftest import leftovers
from tests.processes import until

pytestmark = pytest.mark.broker


class Demo(NamedTuple):
    """A demo on its way. mark : in the environment of every process that it starts."""

    process: "subprocess.Popen[str]"
    mark: str

    def wait_for(self, pattern: str) -> str:
        """Read its output up to the line that matches."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no {pattern!r} in:\n{''.join(seen)}")

    def finish(self) -> str:
        """The rest of its output."""
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self.process.wait(PATIENCE)
        return rest

    def processes(self) -> dict[int, str]:
        """Its own process and all that it started."""
        return leftovers(self.mark, os.getpid())

    def wait_until_gone(self) -> None:
        until(lambda: not self.processes(), self.processes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: the demo must run in it again and again."""
    return tmp_path_factory.mktemp("demo")


Start = Callable[..., Demo]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts demos in the folder; what is left of them is killed."""
    started: list[Demo] = []

    def begin(*arguments: str) -> Demo:
        mark = f"RIPARIAN_DEMO={uuid.uuid4().hex}"
        name, _, value = mark.partition("=")
        environment = {k: v for k, v in os.environ.items() if k != "RIPARIAN_BROKER"}
        environment |= {name: value, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "riparian.app.cli", "demo", "--port", str(free_port()), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=environment,
        )
        started.append(Demo(process, mark))
        return started[-1]

    yield begin
    for demo in started:
        for pid in demo.processes():
            os.kill(pid, signal.SIGKILL)
        demo.process.wait()
        assert demo.process.stdout is not None
        demo.process.stdout.close()


def topics(broker: str) -> set[str]:
    """The names of all topics of a broker."""
    return set(administer(broker, lambda client: client.list_topics()))


def test_the_demo_ends_with_a_summary_and_leaves_nothing(folder: Path, start: Start) -> None:
    demo = start("--rows", "3000")
    page = demo.wait_for(r"^Live page: http").split()[2]
    with urllib.request.urlopen(f"{page}api/streams/payments", timeout=PATIENCE) as answer:
        assert json.loads(answer.read())["name"] == "payments"
    address = demo.wait_for(r"^Metrics: http").split()[1]
    assert any("kafka.Kafka" in command for command in demo.processes().values())
    assert any("riparian.app.cli worker" in command for command in demo.processes().values())
    demo.wait_for(r" of 3,000 predicted")  # plain lines, without a terminal
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        assert 'riparian_instances_total{partition="0",stream="payments"}' in answer.read().decode()
    output = demo.finish()
    assert demo.process.returncode == 0, output
    assert not demo.processes()
    assert re.search(r"^3,000 payments in [\d.]+ s", output, re.MULTILINE)
    assert "riparian promote tree" in output
    assert "fraud is large payments by stolen cards" in output
    assert not (folder / ".riparian" / "demo" / "broker" / "kafka").exists()


def test_on_a_broker_that_runs_already_it_is_told_to_terminate_and_its_topics_go(start: Start, broker: str) -> None:
    """In the folder of a run before."""
    before = topics(broker)
    demo = start("--broker", broker, "--no-page", "--rows", "60000")
    demo.wait_for(r"^[1-9][\d,]* of 60,000 predicted")
    assert not any("riparian.app.cli ui" in command for command in demo.processes().values())
    during = topics(broker) - before
    assert any(re.fullmatch(r"payments-demo-[0-9a-f]{6}\.labels", topic) for topic in during)
    demo.process.send_signal(signal.SIGTERM)
    output = demo.finish()
    assert demo.process.returncode == 130, output
    assert "Traceback" not in output
    until(lambda: not any("payments-demo" in topic for topic in topics(broker)))  # gone a moment after it is answered
    assert not demo.processes()


def test_killed_with_9_it_leaves_no_orphan(folder: Path, start: Start) -> None:
    demo = start()
    demo.wait_for(r"^Metrics: http")
    before = demo.processes()
    assert len(before) >= 7  # itself, Kafka, the worker, the live page, and what watches over each
    demo.process.kill()
    demo.process.wait()
    demo.wait_until_gone()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--broker", "nowhere"), "Expected --broker as HOST:PORT"),
        (("--rows", "0"), "--rows"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in riparian("demo", *arguments, code=2, cwd=folder)
