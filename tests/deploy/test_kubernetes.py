"""`riparian deploy kubernetes`: Strimzi's resources, with the topics and the rights that are known elsewhere.

The schema here is our own reading of Strimzi's: its operator is no package that a test could fetch.
"""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from app.cli import cli
from app.kafka.acls import RIGHTS, needed
from app.kafka.creating import planned
from app.kafka.strimzi import resource_name
from app.stream_file.spec import load

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = (
    *("Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "AlterConfigs", "DescribeConfigs"),
    *("IdempotentWrite", "All"),
)


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, "required": list(properties)}


METADATA = closed(
    name={
        "type": "string",
        "maxLength": 253,
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    },
    labels=closed(**{"strimzi.io/cluster": {"type": "string", "minLength": 1}}),
)
SPECS = {
    "KafkaTopic": closed(
        topicName={"type": "string", "pattern": r"^[a-zA-Z0-9._-]{1,249}$"},
        partitions={"type": "integer", "minimum": 1},
        replicas={"type": "integer", "minimum": 1, "maximum": 32767},
        config={"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
    ),
    "KafkaUser": closed(
        authentication=closed(type={"enum": ["tls", "tls-external", "scram-sha-512"]}),
        authorization=closed(
            type={"const": "simple"},
            acls={
                "type": "array",
                "items": closed(
                    resource=closed(
                        type={"enum": ["topic", "group", "cluster", "transactionalId"]},
                        name={"type": "string"},
                        patternType={"enum": ["literal", "prefix"]},
                    ),
                    operations={
                        "type": "array",
                        "items": {"enum": list(OPERATIONS)},
                        "uniqueItems": True,
                        "minItems": 1,
                    },
                ),
            },
        ),
    ),
}


def resources(*arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, ["deploy", "kubernetes", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


@pytest.fixture(params=["plain", "rekey"])
def stream(request, tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    more = "rekey: {features: shop.orders}\nkafka: {prefix: team-a.}\n" if request.param == "rekey" else ""
    path.write_text(
        "name: My_Stream\ntask: classification\nfeatures: {a: numeric}\npartitions: 3\nreplication: 3\n"
        f"min_insync_replicas: 2\nretention: 7d\ncontrol: true\n{more}"
    )
    return path


@pytest.mark.parametrize("api", ["v1", "v1beta2"])
def test_resources_are_of_strimzis_form(stream: Path, api: str) -> None:
    made = resources(str(stream), "--cluster", "main", "--api", api)
    assert len({(one["kind"], one["metadata"]["name"]) for one in made}) == len(made)
    for one in made:
        assert one["apiVersion"] == f"kafka.strimzi.io/{api}"
        jsonschema.validate(one["metadata"], METADATA)
        jsonschema.validate(one["spec"], SPECS[one["kind"]])


def test_topics_are_those_that_a_worker_would_create(stream: Path) -> None:
    made = {one["spec"]["topicName"]: one["spec"] for one in resources(str(stream), "--cluster", "main")[:-1]}
    expected = planned(load(stream))
    assert list(made) == [one.name for one in expected]
    for one in expected:
        spec = made[one.name]
        assert (spec["partitions"], spec["replicas"]) == (one.partitions, one.replication)
        assert {name: str(value) for name, value in spec["config"].items()} == one.configs


@pytest.mark.parametrize("users", [("worker",), ("lag", "audit"), tuple(RIGHTS)])
def test_the_user_has_exactly_the_rights_of_the_commands(stream: Path, users: tuple[str, ...]) -> None:
    chosen = [word for user in users for word in ("--for", user)]
    made = resources(str(stream), "--cluster", "main", "--user", "ops", *chosen)[-1]
    assert (made["kind"], made["metadata"]["name"]) == ("KafkaUser", "ops")
    kinds = {"transactionalId": "transactional-id"}
    granted = [
        (
            kinds.get(acl["resource"]["type"], acl["resource"]["type"]),
            acl["resource"]["name"],
            operation,
            acl["resource"]["patternType"] == "prefix",
        )
        for acl in made["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    ]
    assert len(set(granted)) == len(granted)
    assert set(granted) == {tuple(right) for user in users for right in needed(load(stream), user)}


def test_names_that_kubernetes_does_not_take_are_told_apart() -> None:
    assert resource_name("orders.features") == "orders.features"
    made = {resource_name(name) for name in ("My_Stream.a", "my-stream.a", "my_stream.a", "my..stream", "x" * 300, "_")}
    assert len(made) == 6
    for name in made:
        jsonschema.validate(name, METADATA["properties"]["name"])
