"""The local Kafka: starts, is found again, keeps topics, and never outlives whom it was started for."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from riparian.app.errors import BrokerError
from riparian.app.kafka.local_broker import broker as local
from riparian.app.kafka.local_broker import java, ports, supervisor
from tests.broker.clients import administer, make_topics
from tests.broker.harness import PATIENCE
from tests.conftest import leftovers
from tests.processes import until

pytestmark = pytest.mark.broker

RIPARIAN = [sys.executable, "-c", "from riparian.app.cli import main; main()"]  # started as users start it


def riparian(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*RIPARIAN, *arguments], capture_output=True, text=True, timeout=PATIENCE)


def topics(bootstrap: str) -> set[str]:
    found: set[str] = administer(bootstrap, lambda client: client.list_topics())
    return set(found)


def ends(pid: int, started: str | None) -> None:
    """Wait until a process, which ran, has ended."""
    assert started is not None
    until(lambda: local.process_start(pid) != started)


def test_a_daemon_starts_once_is_seen_and_stops_and_one_in_the_foreground_ends_with_its_command(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"  # a space, as users have
    data, port = ["--data", str(folder)], str(ports.free_port())
    absent = riparian("broker", "status", *data, "--json")
    assert absent.returncode == 1
    assert json.loads(absent.stdout) == {"running": False, "data_dir": str(folder)}
    try:
        with ThreadPoolExecutor(2) as pool:  # two starts at once make one broker
            starts = [pool.submit(riparian, "broker", "start", *data, "--port", port, "--json") for _ in range(2)]
        record, other = (json.loads(one.result().stdout) for one in starts)
        assert record == other
        assert (record["running"], record["answers"]) == (True, True)
        assert record["bootstrap"] == f"127.0.0.1:{port}"
        assert record["version"] == java.kafka_version()
        make_topics(record["bootstrap"], {"kept": 1})
        classes = java.class_archive(java.find_java(), java.kafka_jars(folder, print)[0].parent)
        if sys.platform.startswith("linux") and classes is not None and classes.stat().st_size:
            assert str(classes) in Path(f"/proc/{record['pid']}/maps").read_text()

        again = riparian("broker", "start", *data)
        assert again.returncode == 0
        assert "running already" in again.stderr
        elsewhere = riparian("broker", "start", *data, "--port", "1")
        assert elsewhere.returncode == 2
        assert f"at port {port}, not 1" in elsewhere.stderr
        with pytest.raises(BrokerError, match=r"A broker runs on .* already"):
            local.LocalBroker(folder).start()
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

        command = [*RIPARIAN, "broker", "start", "--foreground", "--json", *data, "--port", port]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            record = json.loads(process.stdout.readline())
            started = local.process_start(record["pid"])
            assert started is not None
            assert "kept" in topics(record["bootstrap"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        assert local.process_start(record["pid"]) != started
    finally:
        local.stop(folder)


# What it holds is no Kafka, which would do nothing for it: that one goes, too, test_demo.py sees.
CALLER = """
import sys, threading, time
from pathlib import Path
from riparian.app.kafka.local_broker import broker as local

local._prepare, local.ready = lambda *_: ["sleep", "600"], lambda _: True
Path(sys.argv[1], "logs").mkdir(exist_ok=True)
broker = local.LocalBroker(Path(sys.argv[1]))
worker = threading.Thread(target=broker.start)  # a thread that ends must not take the broker along
worker.start()
worker.join()
time.sleep(0.6)
print(broker.pid if broker.alive else "dead", broker._supervised.process.pid, flush=True)
time.sleep(600)
"""


@contextmanager
def caller(folder: Path) -> "Iterator[tuple[subprocess.Popen[str], int, int]]":
    """A process that holds a LocalBroker started from one of its threads; Kafka's and the supervisor's ids."""
    process = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(folder)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        kafka, supervisor = process.stdout.readline().split()
        assert kafka != "dead"
        yield process, int(kafka), int(supervisor)
    finally:
        process.kill()
        process.communicate()
        local.stop(folder)


def test_a_killed_caller_or_supervisor_leaves_no_broker(tmp_path: Path) -> None:
    with caller(tmp_path) as (process, *pids):
        starts = {pid: local.process_start(pid) for pid in pids}
        process.kill()
        process.wait()
        for pid, started in starts.items():
            ends(pid, started)
    if not sys.platform.startswith("linux"):
        return  # PR_SET_PDEATHSIG is Linux's
    with caller(tmp_path) as (_, kafka, supervisor):
        started = local.process_start(kafka)
        os.kill(supervisor, signal.SIGKILL)
        ends(kafka, started)


def test_a_caller_that_is_gone_before_it_reads_the_pid_has_the_command_ended_without_a_traceback(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-I", "-S", supervisor.__file__, str(os.getpid()), str(tmp_path / "log"), "sleep", "600"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM & 0xFF, b"")


# It writes $WRITES as its archive of classes, ends with $CODE, and crashes by an archive that is not "whole".
FAKE_JAVA = """#!/bin/sh
case "$*" in
  -version) echo 'openjdk version "21.0.1"' >&2; exit;;
  *StorageTool*) exit;;
esac
for each; do case $each in -XX:Archive*) made=${each#*=};; -XX:Shared*) mapped=${each#*=};; esac; done
[ -z "$mapped" ] || [ "$(cat "$mapped")" = whole ] || exit 134
trap '[ -z "$made" ] || [ -z "$WRITES" ] || printf %s "$WRITES" > "$made"; exit "$CODE"' TERM
echo "$$ ${made:+records}${mapped:+maps}" >> "$0.log"
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize(
    ("writes", "code", "first", "later"),
    [
        ("whole", 143, ["records", "maps", "maps"], ["maps"]),
        ("", 143, ["records", ""], [""]),  # by a Java that makes none
        ("whole", 137, ["records", ""], ["records", ""]),  # by one that the system ended
        ("half", 143, ["records", ""], ["records", ""]),
    ],
)
def test_a_broker_starts_whatever_becomes_of_its_class_archive(
    writes: str, code: int, first: list[str], later: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made once, by the jars that are there, and again where it is damaged or of another Java."""
    program, folder, data = tmp_path / "bin" / "java", tmp_path / "jars", tmp_path / "data"
    program.parent.mkdir()
    program.write_text(FAKE_JAVA)
    program.chmod(0o755)
    folder.mkdir()
    log = tmp_path / "bin" / "java.log"
    asked: list[Path] = []
    monkeypatch.setattr(local, "kafka_jars", lambda fallback, _: asked.append(fallback) or [folder / "kafka.jar"])
    monkeypatch.setattr(local, "ready", lambda one: log.exists() and f"{one.pid} " in log.read_text())
    for name, value in {"JAVA_HOME": str(tmp_path), "WRITES": writes, "CODE": str(code)}.items():
        monkeypatch.setenv(name, value)

    def starts() -> list[str]:
        """What each Java that started did."""
        log.unlink(missing_ok=True)
        with local.LocalBroker(data):
            assert len(list(folder.iterdir())) == (later != first)
        return [line.split(" ")[1] for line in log.read_text().splitlines()]

    assert starts() == first
    assert starts() == later
    for archive in folder.iterdir():
        archive.chmod(0o644)
        archive.write_text(writes[:2])
    assert starts() == (first if writes else later)
    program.write_text(f"{FAKE_JAVA}# another")
    assert starts() == first
    (tmp_path / "jars.lock").unlink()
    (tmp_path / "jars.lock").mkdir()  # as good as another user's
    assert starts() == [""]
    assert asked == [data] * 5


def test_a_free_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is away for a moment finds it free when it comes back."""
    first = ports.free_port()
    monkeypatch.setattr(ports, "FREE_PORTS", range(first, first + 1))
    assert ports.port_is_free(first)
    with pytest.raises(BrokerError, match=r"Expected a free port .* found none"):
        ports.free_port()


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


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that records no classes, and whose Kafka says nothing."""
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    version = "echo 'openjdk version \"21.0.1\"' >&2"
    cases = f"-version) {version};; *-XX:Archive*) exit 1;; *kafka.Kafka*) exec sleep 600;;"
    fake.write_text(f'#!/bin/sh\ncase "$*" in {cases} esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def test_a_start_that_is_told_to_terminate_leaves_no_broker(silent: None, tmp_path: Path) -> None:
    command = [*RIPARIAN, "broker", "start", "--data", str(tmp_path), "--port", str(ports.free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        until((tmp_path / "broker.json").exists)
        running = local.status(tmp_path)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "Traceback" in said) == (130, False), said
    assert running is not None
    assert not local.alive(running)
    assert not (tmp_path / "broker.json").exists()


def test_a_broker_that_does_not_answer_in_time_is_ended(
    silent: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (local.LocalBroker(tmp_path).start, lambda seconds: local.start(tmp_path, seconds=seconds)):
        monkeypatch.setattr(local, "DEFAULT_PORT", ports.free_port())
        with pytest.raises(BrokerError, match=r"did not answer within 0 s"):
            start(seconds=0.4)
        assert not (tmp_path / "broker.json").exists()


def test_a_start_that_is_interrupted_before_it_is_recorded_leaves_no_broker(
    silent: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def interrupt(running: local.Running) -> None:
        begun.append(running)
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "_write_record", interrupt)
    with pytest.raises(KeyboardInterrupt):
        local.start(tmp_path, port=ports.free_port())
    assert [local.alive(one) for one in begun] == [False]


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
    lines: list[str] = []
    assert [path.name for path in java.kafka_jars(tmp_path, lines.append, hashes=listed)] == [jar]
    assert len(lines) == 2
    monkeypatch.setenv("PATH", str(tmp_path))  # cached now: no Maven needed, nothing said
    assert [path.name for path in java.kafka_jars(tmp_path, lines.append, hashes=listed)] == [jar]
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


def test_the_watch_for_left_over_processes_sees_one() -> None:
    mark = "TEST_RIPARIAN_MARK=seen"
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, "TEST_RIPARIAN_MARK": "seen"}
    )
    try:
        assert list(leftovers(mark, os.getpid())) == [child.pid]
    finally:
        child.communicate(b"\n")
    assert leftovers(mark, os.getpid()) == {}
