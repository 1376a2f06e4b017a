"""Helm, and the schemas of custom resources, each of one version: from Go's modules, which keep what they have fetched.
Strimzi is no Go module: Maven brings its classes, and its generator, which makes the schemas of them.

python -m tests.deploy.tools     gets what the tests of the chart need, which takes a minute or two once
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from app.errors import BrokerError
from app.kafka.java import find_java

HELM = "v3.16.4"
# A Go that is too old for Helm fetches this one, which is a module, too. Later ones do so by themselves.
TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.24.4.linux-amd64"
FIRST_THAT_SWITCHES = (1, 21)
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


def _go(go: str, *arguments: str, **environment: str) -> str:
    return _run([go, *arguments], environment)


@functools.cache
def _module(go: str, name: str) -> Path:
    """A module's files."""
    return Path(json.loads(_go(go, "mod", "download", "-json", name))["Dir"])


@functools.cache
def go() -> str:
    """A Go that builds Helm. ToolError where there is none."""
    found = shutil.which("go")
    if found is None:
        raise ToolError("Go is not here: apt-get install golang-go")
    version = re.search(r"go(\d+)\.(\d+)", _go(found, "version"))
    if version is not None and (int(version[1]), int(version[2])) >= FIRST_THAT_SWITCHES:
        return found
    folder = _module(found, TOOLCHAIN)
    mine = cache() / folder.name
    if not (mine / "bin" / "go").exists():  # a module's files are neither writable nor executable
        copied = mine.with_suffix(f".{os.getpid()}")
        shutil.copytree(folder, copied, copy_function=shutil.copy)
        for path in copied.rglob("*"):
            path.chmod(0o755)
        copied.rename(mine)
    return str(mine / "bin" / "go")


def helm() -> str:
    """Path of Helm; built where it is not here. ToolError where that cannot be done."""
    mine = cache() / f"helm-{HELM}"
    if not mine.exists():
        with (cache() / "helm.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not mine.exists():
                made = cache() / "bin"
                _go(go(), "install", f"helm.sh/helm/v3/cmd/helm@{HELM}", GOBIN=str(made))
                (made / "helm").rename(mine)
    return str(mine)


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


def crd(kind: str, version: str | None = None) -> dict[str, Any]:
    """The JSON Schema of a custom resource, with no field but those that are named. version : the newest, if None."""
    if kind in STRIMZI_CLASSES:
        content = json.loads((strimzi() / f"{kind}.json").read_text(encoding="utf-8"))
    else:
        module, path = CRDS[kind]
        content = yaml.safe_load((_module(go(), module) / path).read_text(encoding="utf-8"))
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
