"""A real schema registry: Apicurio, in memory, with Confluent's API under /apis/ccompat/v7.

Its archive comes from Maven, once, into the user's cache, and is held against its SHA-256, as Kafka's jars are.
"""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

from riparian.app.kafka.local_broker.java import cache_dir, find_java, locked
from riparian.app.kafka.local_broker.ports import free_port

VERSION = "2.6.13.Final"
SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
NAME = f"apicurio-registry-app-{VERSION}"
START_SECONDS = 180.0


def folder_of(fallback: Path) -> Path:
    """The registry's files, fetched at the first call."""
    cache = cache_dir(fallback)
    folder = cache / f"registry-{SHA256[:12]}"
    if not folder.is_dir():
        with locked(cache / f"{folder.name}.lock"):
            if not folder.is_dir():
                _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    assert maven is not None, "the schema registry of the tests comes from Maven: install it (apt-get install maven)"
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent) as scratch:
        command = [
            maven, "-q", "-B", "-C", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
            f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all", f"-DoutputDirectory={scratch}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        archive = Path(scratch) / f"{NAME}-all.tar.gz"
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert found == SHA256, f"Maven brought another {archive.name}: {found}"
        files = Path(scratch) / "files"
        with tarfile.open(archive) as tar:
            tar.extractall(files, filter="data")
        files.rename(folder)


class LocalRegistry:
    """A registry process on a free port of 127.0.0.1, ended with the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = folder_of(folder)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def __enter__(self) -> "LocalRegistry":
        self._log: IO[bytes] = (self._folder / "registry.log").open("wb")
        command = [
            find_java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1",
            "-jar", str(self._files / f"{NAME}-runner.jar"),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT, cwd=self._folder)
        until = time.monotonic() + START_SECONDS
        try:
            while True:
                try:
                    with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                        return self
                except (urllib.error.URLError, OSError):
                    said = (self._folder / "registry.log").read_text(errors="replace")[-2000:]
                    assert self.process.poll() is None, said
                    assert time.monotonic() < until, said
                    time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()
