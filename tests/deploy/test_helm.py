"""The chart, rendered by Helm itself and checked against the schemas of Kubernetes and of operators."""

import json
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from riparian.app.cli import cli
from riparian.app.worker.task.partition_task import LAST_CHECKPOINT_SECONDS
from tests.deploy import tools
from tests.deploy.test_compose import DOCKERFILE

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm"
STREAM = ROOT / "deploy" / "streams" / "sine.yaml"
OLDEST, NEWEST = "1.27", "1.37"  # of Kubernetes; Chart.yaml has the oldest
EVERYTHING = {
    "ui": {"enabled": True, "actions": True},
    "keda": {"enabled": True, "authentication": "kafka"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True},
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "uiFrom": [{"podSelector": {"matchLabels": {"app": "proxy"}}}],
        "egress": [{"ports": [{"port": 8081}]}],
    },
    "kafka": {
        "bootstrapServers": "kafka:9093",
        "settings": {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "sine"},
        "secrets": {
            "sasl.password": {"secret": "sine", "key": "password"},
            "ssl.ca.location": {"secret": "cluster-ca-cert", "key": "ca.crt"},
        },
    },
    "env": [{"name": "RIPARIAN_STATE_KEY", "valueFrom": {"secretKeyRef": {"name": "models", "key": "key"}}}],
    "podLabels": {"team": "a"},
    "podAnnotations": {"a/b": "c"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "imagePullSecrets": [{"name": "registry"}],
    "extraArgs": ["--wait=300"],
}


@pytest.fixture(scope="module")
def helm() -> str:
    try:
        return tools.helm()
    except tools.ToolError as error:
        pytest.skip(str(error))


def run(helm: str, folder: Path, command: str, values: dict[str, Any], version: str, *more: str):
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    name = ["lint"] if command == "lint" else [command, "orders", "--namespace", "streams"]
    given = ["--values", str(folder / "values.yaml"), "--kube-version", f"{version}.0", *more]
    return subprocess.run([helm, *name, str(CHART), *given], capture_output=True, text=True)


def render(helm: str, folder: Path, values: dict[str, Any], version: str = NEWEST) -> dict[tuple[str, str], Any]:
    """(kind, name) -> resource."""
    values = {"stream": STREAM.read_text(), **values}
    done = run(helm, folder, "template", values, version)
    assert done.returncode == 0, done.stderr
    found = [resource for resource in yaml.safe_load_all(done.stdout) if resource is not None]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_what_is_rendered_fits_the_schemas(helm, tmp_path, values, version) -> None:
    jsonschema = pytest.importorskip("jsonschema")  # here, and not in each process that collects this file
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    if version == OLDEST:
        assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={OLDEST}.0-0"
    linted = run(helm, tmp_path, "lint", {"stream": STREAM.read_text(), **values}, version, "--strict")
    assert linted.returncode == 0, linted.stdout + linted.stderr
    found = render(helm, tmp_path, values, version)
    kinds = {kind for kind, _ in found}
    own = {"ConfigMap", "StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert kinds == (own | {"Deployment", *tools.CRDS} if values else own)
    for (kind, name), resource in found.items():
        assert resource["metadata"]["labels"]["app.kubernetes.io/instance"] == "orders", (kind, name)
        if kind in tools.CRDS:
            jsonschema.Draft202012Validator(tools.crd(kind)).validate(resource)
        else:
            kubernetes_validate.validate(resource, version, strict=True)


def test_a_schema_refuses_what_is_no_field_of_its_own() -> None:
    """So that the test above can fail."""
    jsonschema = pytest.importorskip("jsonschema")
    try:
        schemas = {kind: tools.crd(kind) for kind in tools.CRDS}
    except tools.ToolError as error:
        pytest.skip(str(error))
    for kind, spec in (
        ("ServiceMonitor", {"selector": {}, "endpoints": [{"prot": "web"}]}),
        ("ScaledObject", {"scaleTargetRef": {"name": "a"}, "triggers": [{"type": "kafka", "metadata": {}, "a": 1}]}),
        ("PrometheusRule", {"groups": [{"name": "a", "rules": [{"expr": "a", "alrt": "A"}]}]}),
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"spec": spec}, schemas[kind])


def test_rules_and_boards_are_those_of_the_repository(helm, tmp_path) -> None:
    found = render(helm, tmp_path, EVERYTHING)
    groups = found["PrometheusRule", "orders"]["spec"]["groups"]
    files = [yaml.safe_load((ROOT / f"deploy/prometheus/{name}.yaml").read_text()) for name in ("rules", "alerts")]
    assert groups == [group for file in files for group in file["groups"]]
    boards = found["ConfigMap", "orders-dashboards"]["data"]
    there = {f"riparian-{path.name}": path.read_text() for path in (ROOT / "deploy/grafana").glob("*.json")}
    assert boards == there
    assert sum(map(len, boards.values())) < 1_000_000  # of a ConfigMap
    for path in (CHART / "files").iterdir():
        assert path.is_symlink(), f"{path} is a copy"
    ours = {**EVERYTHING, "prometheusRule": {"enabled": True, "docs": "https://docs.example.org/"}}
    rules = render(helm, tmp_path, ours)["PrometheusRule", "orders"]["spec"]["groups"]
    links = [rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"] if "alert" in rule]
    assert {link.partition("#")[0] for link in links} == {"https://docs.example.org/run/runbook.html"}


def test_the_alerts_find_the_job(helm, tmp_path) -> None:
    found = render(helm, tmp_path, EVERYTHING)
    monitor, service = found["ServiceMonitor", "orders"]["spec"], found["Service", "orders"]
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "riparian"
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_pods_are_what_the_image_and_the_commands_are(helm, tmp_path, values) -> None:
    found = render(helm, tmp_path, values)
    own = {"worker": found["StatefulSet", "orders"]}
    if values:
        own["ui"] = found["Deployment", "orders-ui"]
    for name, owner in own.items():
        pod = owner["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        command, *arguments = container["args"]
        assert command == name
        parsed = cli.get_command(click.Context(cli), command)
        assert parsed is not None
        environment = {one["name"]: one["value"] for one in container["env"] if "RIPARIAN_KAFKA" in one["name"]}
        assert not any("password" in value.lower() and "file:" not in value for value in environment.values())
        parsed.make_context(command, list(arguments))
        assert f"--uid {pod['securityContext']['runAsUser']}" in DOCKERFILE
        for each in (*pod["initContainers"], container):
            assert each["securityContext"]["readOnlyRootFilesystem"]
            assert each["resources"]["limits"]["memory"]
        mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert set(mounted.values()) <= {volume["name"] for volume in pod["volumes"]}
        assert "NUMBA_CACHE_DIR=/var/cache/riparian" in DOCKERFILE
        assert {"/var/cache/riparian", "/var/lib/riparian", "/tmp"} <= set(mounted)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe in (value for key, value in container.items() if key.endswith("Probe")):
            assert (probe.get("httpGet") or probe["tcpSocket"])["port"] in ports
        labels = owner["spec"]["template"]["metadata"]["labels"]
        assert owner["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_recovering_worker_is_alive_and_not_ready(helm, tmp_path) -> None:
    (container,) = render(helm, tmp_path, {})["StatefulSet", "orders"]["spec"]["template"]["spec"]["containers"]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/health", "liveness": "/health", "readiness": "/ready"}


def test_each_pod_has_an_instance_id_of_its_own_and_time_for_its_last_checkpoint(helm, tmp_path) -> None:
    set_ = render(helm, tmp_path, {})["StatefulSet", "orders"]["spec"]
    assert set_["serviceName"] == "orders"
    pod = set_["template"]["spec"]
    environment = {one["name"]: one for one in pod["containers"][0]["env"]}
    names = list(environment)
    assert environment["RIPARIAN_KAFKA_GROUP_INSTANCE_ID"]["value"] == "$(POD_NAMESPACE).$(POD_NAME)"
    # Kubernetes puts in only what stands before.
    assert names.index("POD_NAME") < names.index("RIPARIAN_KAFKA_GROUP_INSTANCE_ID") > names.index("POD_NAMESPACE")
    assert pod["terminationGracePeriodSeconds"] >= 2 * LAST_CHECKPOINT_SECONDS


def test_secrets_are_mounted_and_named_by_variables(helm, tmp_path) -> None:
    pod = render(helm, tmp_path, EVERYTHING)["StatefulSet", "orders"]["spec"]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert environment["RIPARIAN_KAFKA_SASL_PASSWORD"] == "file:/etc/riparian/kafka/sasl.password"
    assert environment["RIPARIAN_KAFKA_SSL_CA_LOCATION"] == "/etc/riparian/kafka/ssl.ca.location"
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "kafka"]
    items = {s["secret"]["name"]: s["secret"]["items"] for s in volume["projected"]["sources"]}
    assert items["sine"] == [{"key": "password", "path": "sasl.password"}]


def test_keda_scales_by_the_groups_lag(helm, tmp_path) -> None:
    found = render(helm, tmp_path, EVERYTHING)
    assert "replicas" not in found["StatefulSet", "orders"]["spec"]  # or Helm would set KEDA's number back
    scaled = found["ScaledObject", "orders"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == "orders"
    metadata = scaled["triggers"][0]["metadata"]
    assert (metadata["consumerGroup"], metadata["topic"], metadata["tls"]) == (
        "riparian-sine",
        "sine.features",
        "enable",
    )
    stream = STREAM.read_text() + "kafka: {prefix: team-a.}\ntopics: {features: clicks}\n"
    metadata = render(helm, tmp_path, {**EVERYTHING, "stream": stream})["ScaledObject", "orders"]["spec"]["triggers"][
        0
    ]["metadata"]
    assert (metadata["consumerGroup"], metadata["topic"]) == ("team-a.riparian-sine", "clicks")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"stream": ""}, "--set-file stream=STREAM.yaml"),
        ({"stream": "a: 1"}, "expected a stream file with a name"),
        ({"kafka": {"settings": {"sasl.password": "hunter2"}}}, "kafka.settings"),  # a ConfigMap is for many to read
        ({"replicsa": 3}, "replicsa"),
        ({"sessionTimeout": 100}, "sessionTimeout"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_installed(helm, tmp_path, values, said) -> None:
    done = run(helm, tmp_path, "template", {"stream": STREAM.read_text(), **values}, NEWEST)
    assert done.returncode != 0
    assert said in done.stderr
    assert "hunter2" not in done.stderr


def test_the_package_holds_what_it_links_to(helm, tmp_path) -> None:
    done = subprocess.run([helm, "package", str(CHART), "-d", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("riparian-*.tgz")
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"stream": STREAM.read_text(), **EVERYTHING}))
    command = [helm, "template", "orders", str(package), "-f", str(tmp_path / "values.yaml")]
    made = subprocess.run([*command, "--kube-version", f"{NEWEST}.0"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    boards = [one for one in yaml.safe_load_all(made.stdout) if one and one["metadata"]["name"] == "orders-dashboards"]
    assert all(json.loads(board)["panels"] for board in boards[0]["data"].values())


def test_the_values_of_the_guide_are_values_of_the_chart(helm, tmp_path) -> None:
    guide = (ROOT / "docs" / "run" / "deploy.md").read_text(encoding="utf-8")
    values = yaml.safe_load(guide.split("```yml\n")[1].split("```")[0])
    found = render(helm, tmp_path, values)
    assert found["StatefulSet", "orders"]["spec"]["replicas"] == values["replicas"]
