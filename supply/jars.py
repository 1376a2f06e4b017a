"""Write deploy/broker/jars.sha256 anew: what Maven brings for the pom, for `make lock`."""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from riparian.app.kafka.local_broker.java import BROKER_FILES, JAR_HASHES


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                "mvn", "-q", "-B", "-C", "-f", str(BROKER_FILES / "pom.xml"), "dependency:copy-dependencies",
                f"-DoutputDirectory={folder}", "-Dmdep.useRepositoryLayout=true",
            ],
            check=True,
        )  # fmt: skip
        jars = sorted(Path(folder).rglob("*.jar"))
        lines = [f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.relative_to(folder)}\n" for jar in jars]
    JAR_HASHES.write_text("".join(lines), encoding="ascii")


if __name__ == "__main__":
    main()
