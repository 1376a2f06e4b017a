"""The bill of materials as CycloneDX JSON: `python -m supply.sbom FILE`, which is `make sbom`.

It lists what is locked, with the hashes of all files of each version (for each platform one): what a worker needs is
`required`; what only tests and development need, `excluded`; Kafka's jars, which `riparian broker` fetches, `optional`.
"""

import sys
import tomllib
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from riparian.app.kafka.local_broker.java import jar_hashes
from supply.locks import FOLDER, Pin, pins


def _sha256(digests: tuple[str, ...]) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in digests]


def _package(pin: Pin, scope: ComponentScope) -> Component:
    purl = PackageURL("pypi", None, pin.name, pin.version)
    where = [Property(name="marker", value=pin.marker)] if pin.marker else []
    return Component(
        name=pin.name, version=pin.version, purl=purl, bom_ref=str(purl), scope=scope, hashes=_sha256(pin.hashes),
        properties=where,
    )  # fmt: skip


def bill() -> str:
    """The whole document, JSON of CycloneDX 1.6."""
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bom = Bom()
    root = bom.metadata.component = Component(
        name=project["name"], version=project["version"], type=ComponentType.APPLICATION, bom_ref=project["name"]
    )
    parts, seen = [], set()
    for lock in ("worker", "dev", "build", "jdk"):
        scope = ComponentScope.REQUIRED if lock == "worker" else ComponentScope.EXCLUDED
        # A version may be wanted here on each platform, there on one only.
        parts += [_package(pin, scope) for pin in pins(lock) if pin[:2] not in seen]
        seen |= {pin[:2] for pin in pins(lock)}
    for place, digest in jar_hashes().items():
        *group, artifact, version = place.parent.parts
        purl = PackageURL("maven", ".".join(group), artifact, version)
        parts.append(
            Component(
                name=artifact,
                group=".".join(group),
                version=version,
                purl=purl,
                bom_ref=str(purl),
                scope=ComponentScope.OPTIONAL,
                hashes=_sha256((digest,)),
            )
        )
    bom.components.update(parts)
    bom.register_dependency(root, parts)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def main() -> None:
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(bill() + "\n", encoding="utf-8")
    print(f"{target}: what is locked, as CycloneDX 1.6.")


if __name__ == "__main__":
    main()
