"""Write deploy/broker/jars.sha256 anew: what Maven brings for the pom, for `make lock`.

`python -m supply.jars 3.6.2` writes those of another version of Kafka, for `make chaos KAFKA=3.6.2`.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from riparian.app.kafka.local_broker.java import BROKER_FILES, JAR_HASHES

VERSIONS = Path(__file__).resolve().parents[1] / "tests" / "chaos" / "kafka"


def main(version: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                "mvn", "-q", "-B", "-C", "-f", str(BROKER_FILES / "pom.xml"), "dependency:copy-dependencies",
                f"-DoutputDirectory={folder}", "-Dmdep.useRepositoryLayout=true",
                *([] if version is None else [f"-Dkafka.version={version}"]),
            ],
            check=True,
        )  # fmt: skip
        jars = sorted(Path(folder).rglob("*.jar"))
        lines = [f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.relative_to(folder)}\n" for jar in jars]
    (JAR_HASHES if version is None else VERSIONS / f"{version}.sha256").write_text("".join(lines), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
