"""What Riparian depends on: bounded, locked with hashes, without addresses; listed; asked about."""

import hashlib
import json
import re
import socket
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from riparian.app.kafka.local_broker.java import jar_hashes, kafka_version
from supply import vulnerabilities
from supply.locks import FOLDER, pins
from supply.sbom import bill

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
WORKER = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
OTHERS = [Requirement(text) for texts in EXTRAS.values() for text in texts if not text.startswith("riparian[")]
BACKEND = [Requirement(text) for text in PROJECT["build-system"]["requires"]]


# bounds and locks ----------------------------------------------------------------------------------------------------


def test_every_requirement_has_an_upper_bound() -> None:
    for requirement in (*WORKER, *OTHERS, *BACKEND):
        assert {part.operator for part in requirement.specifier} & {"<", "<=", "==", "~="}, str(requirement)


def test_the_locks_are_pins_with_hashes_and_name_no_index() -> None:
    """A lock with an address would bind whoever installs to one index; `pins` refuses anything but pins."""
    for lock in ("build", "worker", "dev", "jdk"):
        assert pins(lock)
        assert not re.search(r"://|@|--(?!hash=)", (FOLDER / f"{lock}.txt").read_text()), lock


def test_a_lock_with_an_address_or_without_hashes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supply.locks.FOLDER", tmp_path)
    for line in ("--index-url http://127.0.0.1/", "six==1.17.0", f"six --hash=sha256:{'0' * 64}"):
        (tmp_path / "bad.txt").write_text(line + "\n")
        with pytest.raises(ValueError, match="make lock"):
            pins("bad")


def test_the_locks_are_one_resolution() -> None:
    """One version of a package in all of them; its marker may differ, as it says who wants it."""
    dev = {(pin.name, pin.version, pin.hashes) for pin in pins("dev")}
    for lock in ("worker", "build"):
        assert {(pin.name, pin.version, pin.hashes) for pin in pins(lock)} < dev


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [("worker", WORKER), ("dev", [*WORKER, *OTHERS, *BACKEND]), ("build", BACKEND)],
    ids=["worker", "dev", "build"],
)
def test_the_locks_hold_what_pyproject_asks_for(lock: str, wanted: list[Requirement]) -> None:
    """Else pip would install something, and `--no-deps` would hide that it does not fit: make lock."""
    jdk = [pin for pin in pins("jdk") if lock == "dev"]
    for requirement in wanted:
        found = [pin for pin in (*pins(lock), *jdk) if pin.name == canonicalize_name(requirement.name)]
        assert found, f"{requirement} is not locked: make lock"
        for pin in found:
            assert requirement.specifier.contains(pin.version), f"{requirement}, locked is {pin.version}: make lock"


def test_nothing_is_installed_without_hashes() -> None:
    """In the image and by make: with hashes, or Riparian alone. `LOCKED=0` is the exception, and says so."""
    makefile = re.sub(r"[$]\((PIP|UV)\)", "pip install", (ROOT / "Makefile").read_text())
    locked, _, unlocked = makefile.partition("ifeq ($(LOCKED),1)")[2].partition("endif")[0].partition("else\n")
    assert unlocked.count("pip install") == 1
    rest = makefile.replace(unlocked, "")
    for text in (locked, rest, (ROOT / "deploy/Dockerfile").read_text(), (ROOT / ".ci/run").read_text()):
        for line in re.findall(r"^[^#\n]*(?:pip|uv) install (.*)$", text, re.MULTILINE):
            assert line.startswith("--quiet") or "--require-hashes" in line or "--no-deps" in line, line
            safe = "--no-build-isolation", "--only-binary :all:", "$(DEV)"
            assert any(one in line for one in safe) or line.startswith("--quiet"), line
    assert re.search("^DEV .*--no-build-isolation", makefile, re.MULTILINE)
    assert locked.count("--require-hashes") == 3


def test_another_file_under_a_locked_name_and_version_is_refused(tmp_path: Path) -> None:
    """pip, in the words of the Makefile, of a wheel that is not the locked one. Nothing is fetched."""
    wheel = tmp_path / "sixty-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("sixty.py", "import os")
        file.writestr("sixty-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sixty\nVersion: 1.0\n")
        file.writestr("sixty-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("sixty-1.0.dist-info/RECORD", "sixty.py,,\n")
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(tmp_path), "--target"]
    for digest, code in ((hashlib.sha256(wheel.read_bytes()).hexdigest(), 0), ("0" * 64, 1)):
        lock, target = tmp_path / "lock.txt", tmp_path / f"installed-{code}"
        lock.write_text(f"sixty==1.0 \\\n    --hash=sha256:{digest}\n")
        options = ["--require-hashes", "--no-build-isolation", "-r", str(lock)]
        done = subprocess.run([*pip, str(target), *options], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert (target / "sixty.py").exists() == (code == 0)
        assert ("DO NOT MATCH THE HASHES" in done.stderr) == (code == 1)


# bill of materials ---------------------------------------------------------------------------------------------------


def test_the_bill_of_materials_is_valid_and_whole() -> None:
    text = bill()
    from cyclonedx.schema import SchemaVersion  # here, and not in each process that collects this file
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    parts = json.loads(text)["components"]
    by_scope = {scope: {part["purl"] for part in parts if part["scope"] == scope} for scope in ("required", "optional")}
    assert by_scope["required"] == {f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins("worker")}
    assert len(by_scope["optional"]) == len(jar_hashes())
    kafka = f"pkg:maven/org.apache.kafka/kafka_2.13@{kafka_version()}"
    assert kafka in by_scope["optional"], "another Kafka in pom.xml than in jars.sha256: make lock"
    assert all(part["hashes"] for part in parts)
    purls = [part["purl"] for part in parts]
    assert len(purls) == len(set(purls))


# known vulnerabilities -----------------------------------------------------------------------------------------------


class Database(BaseHTTPRequestHandler):
    """OSV's interface, which knows of one vulnerability in six."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        package = asked["package"]
        vulnerability = {
            "id": "TEST-2026-1",
            "aliases": ["CVE-0000-1"],
            "summary": "made up",
            "affected": [{"package": package, "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "9.0"}]}]}],
        }
        body = json.dumps({"vulns": [vulnerability]} if package["name"] == "six" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def database() -> Iterator[tuple[str, ...]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Database)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield ("--vulnerability-service", "osv", "--osv-url", f"http://127.0.0.1:{server.server_port}/v1/query")
    server.shutdown()
    server.server_close()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "lock.txt"
    file.write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\nclick==8.3.3 --hash=sha256:{'0' * 64}\n")
    return file


def test_a_known_vulnerability_is_named_and_fails(
    database: tuple[str, ...], lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vulnerabilities.main((database,), lock) == 1
    shown = capsys.readouterr().out
    assert "six 1.17.0 has a known vulnerability, CVE-0000-1, mended in 9.0" in shown
    assert "of 2 locked packages" in shown


@pytest.mark.parametrize("name", ["TEST-2026-1", "CVE-0000-1"])
def test_an_accepted_vulnerability_is_said_with_its_reason(
    name: str,
    database: tuple[str, ...],
    lock: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(vulnerabilities, "FOLDER", tmp_path)
    row = '[[accepted]]\nid = "{}"\npackage = "six"\nreason = "Made up."\n'
    (tmp_path / "accepted.toml").write_text(row.format(name) + row.format("CVE-0000-2"))
    assert vulnerabilities.main((database,), lock) == 0
    shown = capsys.readouterr().out
    assert f"accepted: six {name}: Made up." in shown
    assert "six CVE-0000-2 is not found any more" in shown


@pytest.mark.parametrize("row", ['id = "A-1"\npackage = "six"', 'id = "A-1"\npackage = "six"\nreason = " "'])
def test_an_accepted_vulnerability_needs_a_reason(row: str, tmp_path: Path) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text(f"[[accepted]]\n{row}\n")
    with pytest.raises(SystemExit, match="reason"):
        vulnerabilities.accepted(file)


def test_without_an_answer_it_is_skipped_with_a_word(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens, or somebody who never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        services = tuple(
            ("--vulnerability-service", "osv", "--osv-url", f"http://127.0.0.1:{found.getsockname()[1]}/")
            for found in (taken, silent)
        )
        assert vulnerabilities.main(services, lock, seconds=3.0) == 0
    assert "not asked about" in capsys.readouterr().out


def test_what_is_accepted_is_in_order() -> None:
    vulnerabilities.accepted(FOLDER / "accepted.toml")
