"""deploy/compose.yaml and deploy/Dockerfile as files: no container runs in these tests."""

import asyncio
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from aiokafka import AIOKafkaConsumer
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.local_broker.java import kafka_version
from riparian.app.kafka.local_broker.ports import free_port
from riparian.app.stream_file.spec import load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")


def arguments(service: str) -> list[str]:
    command = SERVICES[service]["command"]
    return command.split() if isinstance(command, str) else command


def test_compose_itself_reads_it() -> None:
    compose = ["docker", "compose"]
    if shutil.which("docker") is None or subprocess.run([*compose, "version"], capture_output=True).returncode != 0:
        pytest.skip("docker compose is not here")
    command = [*compose, "-f", str(FOLDER / "compose.yaml"), "--profile", "demo", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_mounted_is_there() -> None:
    mounts = [mount.split(":") for service in SERVICES.values() for mount in service.get("volumes", ())]
    files = [source for source, *_ in mounts if source.startswith(".")]
    assert len(files) >= 4
    assert [source for source in files if not (FOLDER / source).exists()] == []
    assert {source for source, *_ in mounts if not source.startswith(".")} == set(COMPOSE["volumes"])
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", ())) <= set(SERVICES), name


@pytest.mark.parametrize("service", ["worker", "traffic"])
def test_the_commands_have_the_options_that_are_given(service: str) -> None:
    name, *rest = arguments(service)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, rest, resilient_parsing=False)


def test_the_stream_is_valid_and_is_what_the_traffic_makes() -> None:
    mounts = dict(mount.split(":")[1::-1] for mount in SERVICES["worker"]["volumes"])
    spec = load(FOLDER / mounts["/etc/riparian/stream.yaml"])
    traffic = arguments("traffic")
    made = CliRunner().invoke(cli, ["generate", traffic[traffic.index("--generate") + 1], "--stream-file"])
    generated = yaml.safe_load(made.output)
    assert list(spec.features) == list(generated["features"])
    assert list(spec.classes or ()) == generated["classes"]


def test_prometheus_finds_the_worker() -> None:
    scraped = yaml.safe_load((FOLDER / "prometheus/prometheus.yaml").read_text())["scrape_configs"][0]
    found = scraped["dns_sd_configs"][0]
    assert found["names"] == ["worker"]
    assert f"EXPOSE {found['port']}\n" in DOCKERFILE
    worker = arguments("worker")
    assert worker[worker.index("--host") + 1] == "0.0.0.0"  # beyond its container
    assert "--port" not in worker
    command = cli.get_command(click.Context(cli), "worker")
    assert command is not None
    assert {option.name: option.default for option in command.params}["web_port"] == found["port"]


@pytest.mark.broker
def test_kafka_starts_with_these_settings(tmp_path: Path) -> None:
    """Apache Kafka itself, with ports and names of this machine."""
    inside = free_port()
    settings = {k.removeprefix("KAFKA_").lower(): v for k, v in SERVICES["kafka"]["environment"].items()}
    lines = [f"{k.replace('_', '.')}={v}" for k, v in settings.items() if k != "log_dirs"]
    here = {
        "//kafka:19092": f"//localhost:{inside}",
        "//:19092": f"//localhost:{inside}",
        "//:9092": "//localhost:9092",
    }
    here |= {":9092": ":${port}", ":9093": ":${controller_port}"}
    text = "\n".join(["", *lines, ""])
    for name, other in here.items():
        assert name in text
        text = text.replace(name, other)

    async def topics(address: str) -> set[str]:
        consumer = AIOKafkaConsumer(bootstrap_servers=address)
        await consumer.start()
        try:
            found: set[str] = await consumer.topics()
            return found
        finally:
            await consumer.stop()

    with LocalBroker(tmp_path, properties=text) as broker:
        for address in (f"localhost:{broker.port}", f"localhost:{inside}"):
            assert asyncio.run(topics(address)) == set()


def test_clients_reach_kafka_by_names_that_it_advertises() -> None:
    kafka = SERVICES["kafka"]
    assert kafka["image"] == f"apache/kafka:{kafka_version()}"
    advertised = dict(a.split("://") for a in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert SERVICES["worker"]["environment"]["RIPARIAN_BROKER"] == advertised["INSIDE"]
    assert kafka["ports"] == ["127.0.0.1:9092:9092"]
    assert advertised["OUTSIDE"] == "localhost:9092"


def test_images_of_others_are_of_one_version() -> None:
    """No tag that moves, like `latest` or `v3`."""
    images = [service["image"] for service in SERVICES.values() if "/" in service["image"]]
    assert len(images) == 3
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?$", image), image


def test_an_image_of_our_own_is_built_wherever_it_is_named() -> None:
    """Else compose looks for it in a registry."""
    own = {name: service["build"] for name, service in SERVICES.items() if "/" not in service["image"]}
    assert set(own) == {"worker", "traffic"}
    for build in own.values():
        assert (FOLDER / build["context"] / build["dockerfile"]).resolve() == FOLDER / "Dockerfile"


def test_nothing_is_open_to_other_machines() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_holds_what_the_package_is_built_of() -> None:
    copied = {word for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()}
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]
    assert {"riparian"} | {name.split(".")[1] for name in packages if "." in name} <= copied
    assert {"pyproject.toml", project["project"]["readme"]} <= copied
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} == {line for line in ignored if line.startswith("!")}


def test_the_image_runs_as_nobody_in_particular() -> None:
    lines = DOCKERFILE.splitlines()
    assert "USER riparian" in lines
    assert lines.index("USER riparian") < lines.index('ENTRYPOINT ["riparian"]')
    assert re.search(r"^HEALTHCHECK .*/health", DOCKERFILE, re.MULTILINE)
    minimum = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    python = re.search(r"^FROM python:(3\.\d+)\.\d+-slim-[a-z]+$", DOCKERFILE, re.MULTILINE)
    assert python
    assert tuple(map(int, python[1].split("."))) >= tuple(map(int, minimum.lstrip(">=").split(".")))
