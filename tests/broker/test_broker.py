"""The local Kafka: starts, is found again, keeps topics, and never outlives whom it was started for."""

import asyncio
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from click.testing import CliRunner

from app.cli.broker import command
from app.errors import BrokerError
from app.kafka import broker as local
from app.kafka import java, ports
from tests.broker.harness import PATIENCE
from tests.conftest import leftovers

pytestmark = pytest.mark.broker


def gone(pid: int, started: str, seconds: float = 20.0) -> bool:
    """Whether a process ends within some time."""
    deadline = time.monotonic() + seconds
    while local.process_start(pid) == started:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


RIPARIAN = [sys.executable, "-c", "from app.cli import main; main()"]


def riparian(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RIPARIAN, *arguments], capture_output=True, text=True, timeout=PATIENCE)


async def topics(bootstrap: str, create: str | None = None) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        if create is not None:
            await admin.create_topics([NewTopic(create, 1, 1)])
        while create is not None and create not in await admin.list_topics():  # a broker learns it after the controller
            await asyncio.sleep(0.1)
        return await admin.list_topics()
    finally:
        await admin.close()


@pytest.fixture
def daemon_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose daemon, if a test leaves one, is stopped."""
    folder = tmp_path / "a folder"  # a space, as users have
    yield folder
    local.stop(folder)


def test_a_daemon_starts_once_is_seen_and_stops(daemon_dir: Path) -> None:
    data = ["--data", str(daemon_dir)]
    port = str(ports.free_port())

    absent = riparian("broker", "status", *data, "--json")
    assert absent.returncode == 1
    assert json.loads(absent.stdout) == {"running": False, "data_dir": str(daemon_dir)}

    first = riparian("broker", "start", *data, "--port", port, "--json")
    assert first.returncode == 0, first.stderr
    record = json.loads(first.stdout)
    assert (record["running"], record["answers"]) == (True, True)
    assert record["bootstrap"] == f"127.0.0.1:{port}"
    assert record["version"] == java.kafka_version()
    assert asyncio.run(topics(record["bootstrap"], create="kept")) == ["kept"]

    again = riparian("broker", "start", *data)
    assert again.returncode == 0
    assert "running already" in again.stderr
    elsewhere = riparian("broker", "start", *data, "--port", "1")
    assert elsewhere.returncode == 2
    assert f"at port {port}, not 1" in elsewhere.stderr

    seen = riparian("broker", "status", *data, "--json")
    assert seen.returncode == 0
    assert json.loads(seen.stdout) == record

    started = local.process_start(record["pid"])
    stopped = riparian("broker", "stop", *data)
    assert stopped.returncode == 0
    assert str(record["pid"]) in stopped.stdout
    assert local.process_start(record["pid"]) != started
    assert riparian("broker", "status", *data).returncode == 1
    assert "No broker runs" in riparian("broker", "stop", *data).stdout


def test_topics_survive_an_outage_and_the_port_stays(tmp_path: Path) -> None:
    with local.LocalBroker(tmp_path) as broker:
        port, pid = broker.port, broker.pid
        asyncio.run(topics(broker.bootstrap, create="kept"))
        broker.kill()
        assert not broker.alive
        assert not ports.answers(port)
        broker.start()
        assert (broker.port, broker.alive) == (port, True)
        assert broker.pid != pid
        assert asyncio.run(topics(broker.bootstrap)) == ["kept"]
        with pytest.raises(BrokerError, match=r"A broker runs on .* already"):
            local.LocalBroker(tmp_path).start()
    assert not broker.alive
    assert local.status(tmp_path) is None


CALLER = """
import sys, threading, time
from pathlib import Path
from app.kafka.broker import LocalBroker

broker = LocalBroker(Path(sys.argv[1]))
worker = threading.Thread(target=broker.start)  # a thread that ends must not take the broker along
worker.start()
worker.join()
time.sleep(0.6)
print(broker.pid if broker.alive else "dead", broker._supervisor.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process that holds a LocalBroker started from one of its threads; Kafka's and the supervisor's ids."""
    process = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(tmp_path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    kafka, supervisor = process.stdout.readline().split()
    assert kafka != "dead"
    yield process, int(kafka), int(supervisor)
    process.kill()
    process.wait()
    process.stdout.close()
    local.stop(tmp_path)


def test_a_killed_caller_leaves_no_broker(caller: tuple[subprocess.Popen[str], int, int]) -> None:
    process, kafka, supervisor = caller
    starts = {pid: local.process_start(pid) for pid in (kafka, supervisor)}
    assert None not in starts.values()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert all(gone(pid, started) for pid, started in starts.items())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_a_killed_supervisor_leaves_no_broker(caller: tuple[subprocess.Popen[str], int, int]) -> None:
    _, kafka, supervisor = caller
    started = local.process_start(kafka)
    assert started is not None
    os.kill(supervisor, signal.SIGKILL)
    assert gone(kafka, started)


def test_a_foreground_broker_ends_with_its_command(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path), "--port", str(ports.free_port())]
    process = subprocess.Popen(
        [*RIPARIAN, "broker", "start", "--foreground", "--json", *data],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    record = json.loads(process.stdout.readline())
    started = local.process_start(record["pid"])
    assert started is not None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    process.stdout.close()
    assert gone(record["pid"], started, 0.0)


def test_two_starts_at_once_make_one_broker(daemon_dir: Path) -> None:
    port = ports.free_port()
    found: list[local.Running] = []
    threads = [threading.Thread(target=lambda: found.append(local.start(daemon_dir, port=port))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] == found[1]


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"Port {port} of 127.0.0.1 is in use by another program"):
            local.start(tmp_path, port=port)
    assert local.status(tmp_path) is None


def test_a_port_of_another_broker_says_so(broker: str, tmp_path: Path) -> None:
    port = int(broker.rpartition(":")[2])
    with pytest.raises(BrokerError, match="in use by a Kafka broker that was not started from this data directory"):
        local.start(tmp_path, port=port)


def test_a_broken_storage_shows_the_last_lines(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    with pytest.raises(BrokerError, match=r"(?s)Kafka ended while starting.*node id 7"):
        local.LocalBroker(tmp_path).start()
    assert not (tmp_path / "broker.json").exists()
    with pytest.raises(BrokerError, match=r"(?s)Kafka ended while starting.*node id 7"):
        local.start(tmp_path, port=ports.free_port())
    assert not (tmp_path / "broker.json").exists()


def test_a_broker_that_does_not_answer_in_time_is_ended(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"did not answer within 0 s"):
        local.LocalBroker(tmp_path).start(seconds=0.4)
    assert not (tmp_path / "broker.json").exists()


def test_a_reused_process_id_is_not_killed(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        record = {"data_dir": str(tmp_path), "pid": bystander.pid, "started": "1", "port": 9, "version": "0"}
        (tmp_path / "broker.json").write_text(json.dumps(record))
        assert local.status(tmp_path) is None
        assert local.stop(tmp_path) is None
        assert bystander.poll() is None
    finally:
        bystander.communicate(b"\n")


def test_missing_java_and_old_java_name_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled_java", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(BrokerError, match=r"found none: install it .*default-jre-headless.*apache/kafka"):
        java.find_java()
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(BrokerError, match=r"Java 17 or later, found .*java \(version 8\)"):
        java.find_java()


def test_a_bundled_java_stands_in_for_a_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = tmp_path / "bundled"
    bundled.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    bundled.chmod(0o755)
    monkeypatch.setattr(java, "_bundled_java", lambda: str(bundled))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java.find_java() == str(bundled)


def test_missing_maven_names_the_package_unless_jars_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerError, match=r"needs Maven.*apt-get install maven"):
        java.kafka_jars(tmp_path, print)
    fetched = tmp_path / "bin" / "mvn"
    fetched.parent.mkdir()
    jar = f"kafka_2.13-{java.kafka_version()}.jar"
    fetched.write_text(
        '#!/bin/sh\nfor a; do case $a in -DoutputDirectory=*) d="${a#*=}";; esac; done\n'
        f'mkdir -p "$d"; : > "$d/{jar}"\n'
    )
    fetched.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fetched.parent}:/usr/bin:/bin")
    with pytest.raises(BrokerError, match=rf"(?s){re.escape(jar)} \(altered\), .*log4j-core-\S+ \(missing\)"):
        java.kafka_jars(tmp_path, print)
    assert list(tmp_path.rglob("*.jar")) == []
    listed = tmp_path / "jars.sha256"
    listed.write_text(f"{hashlib.sha256(b'').hexdigest()}  org/apache/kafka/kafka_2.13/1/{jar}\n")
    monkeypatch.setattr(java, "JAR_HASHES", listed)
    lines: list[str] = []
    assert [path.name for path in java.kafka_jars(tmp_path, lines.append)] == [jar]
    assert len(lines) == 2
    monkeypatch.setenv("PATH", str(tmp_path))  # cached now: no Maven needed, nothing said
    assert [path.name for path in java.kafka_jars(tmp_path, lines.append)] == [jar]
    assert len(lines) == 2


def test_a_failed_download_shows_what_maven_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no route to host'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BrokerError, match=r"(?s)exit code 1.*no route to host"):
        java.kafka_jars(tmp_path, print)
    assert [path.name for path in (tmp_path / "cache" / "riparian").iterdir() if path.is_dir()] == []


def test_an_unwritable_cache_falls_back_to_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert java.cache_dir(tmp_path / "data") == tmp_path / "data"


def test_help_names_the_three_commands() -> None:
    shown = CliRunner().invoke(command, ["--help"]).output
    assert all(name in shown for name in ("start", "stop", "status"))


def test_the_watch_for_left_over_processes_sees_one() -> None:
    mark = "RIPARIAN_TEST_MARK=seen"
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, "RIPARIAN_TEST_MARK": "seen"}
    )
    try:
        assert list(leftovers(mark, os.getpid())) == [child.pid]
    finally:
        child.communicate(b"\n")
    assert leftovers(mark, os.getpid()) == {}
