"""`riparian deploy kubernetes`: Strimzi's resources, with the topics and the rights that are known elsewhere."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.kafka.access.acls import RIGHTS, needed
from riparian.app.kafka.access.strimzi import resource_name
from riparian.app.kafka.topics.creating import planned
from riparian.app.stream_file.spec import load
from tests.deploy import tools

# Kubernetes': RFC 1123, which no schema of a resource has
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
AUTHENTICATIONS = ("scram-sha-512", "tls", "tls-external")


@pytest.fixture(scope="module")
def schemas() -> dict[tuple[str, str], dict[str, Any]]:
    try:
        return {(k, api): tools.crd(k, api) for k in ("KafkaTopic", "KafkaUser") for api in ("v1", "v1beta2")}
    except tools.ToolError as error:
        pytest.skip(str(error))


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
@pytest.mark.parametrize("authentication", AUTHENTICATIONS)
def test_resources_are_of_strimzis_form(schemas, stream: Path, api: str, authentication: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")  # here, and not in each process that collects this file
    everybody = [word for user in RIGHTS for word in ("--for", user)]
    given = ("--cluster", "main", "--api", api, "--authentication", authentication)
    made = resources(str(stream), *given, *everybody)
    assert {one["kind"] for one in made} == {"KafkaTopic", "KafkaUser"}
    assert len({(one["kind"], one["metadata"]["name"]) for one in made}) == len(made)
    for one in made:
        assert one["apiVersion"] == f"kafka.strimzi.io/{api}"
        assert one["metadata"].keys() == {"name", "labels"}
        assert NAME.fullmatch(one["metadata"]["name"])
        assert one["metadata"]["labels"] == {"strimzi.io/cluster": "main"}
        jsonschema.Draft202012Validator(schemas[one["kind"], api]).validate(one)


@pytest.mark.parametrize("api", ["v1", "v1beta2"])
def test_strimzis_form_refuses_what_is_none_of_its_own(schemas, api: str) -> None:
    """So that the test above can fail."""
    jsonschema = pytest.importorskip("jsonschema")
    acl = {"resource": {"type": "topic", "name": "a"}, "operations": ["Read"]}
    for kind, spec in (
        ("KafkaTopic", {"partitions": 0}),
        ("KafkaTopic", {"replication": 1}),
        ("KafkaUser", {"authentication": {"type": "plain"}}),
        ("KafkaUser", {"authorization": {"type": "simple", "acls": [acl | {"operations": ["Reed"]}]}}),
        (
            "KafkaUser",
            {"authorization": {"type": "simple", "acls": [acl | {"resource": {"type": "transactional-id"}}]}},
        ),
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"spec": spec}, schemas[kind, api])


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


def test_several_streams_share_a_user_and_the_topics_that_both_read(tmp_path: Path) -> None:
    """As one worker runs them."""
    head = "task: classification\nfeatures: {a: numeric}\ntopics: {features: clicks}\n"
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(f"name: {file.stem}\n{head}")
    alone = [resources(str(file), "--cluster", "main") for file in files]
    made = resources(*map(str, files), "--cluster", "main")
    names = [one["metadata"]["name"] for one in made]
    assert len(set(names)) == len(names)
    assert names.count("clicks") == 1
    assert made[:-1] == alone[0][:-1] + [one for one in alone[1][:-1] if one["metadata"]["name"] != "clicks"]
    assert names[-1] == "riparian-a-b"

    def acls(user: dict[str, Any]) -> list[Any]:
        found: list[Any] = user["spec"]["authorization"]["acls"]
        return found

    assert acls(made[-1]) == acls(alone[0][-1]) + [acl for acl in acls(alone[1][-1]) if acl not in acls(alone[0][-1])]
    files[1].write_text(f"name: b\n{head}partitions: 2\n")
    refused = CliRunner().invoke(cli, ["deploy", "kubernetes", *map(str, files), "--cluster", "main"])
    assert str(refused.exception).startswith(f"{files[1]}: the topic clicks would have other partitions")
    files[1].write_text(f"name: a\n{head}")
    refused = CliRunner().invoke(cli, ["deploy", "kubernetes", *map(str, files), "--cluster", "main"])
    assert "a worker runs a stream once" in str(refused.exception)
    files[1].write_text(f"name: b\n{head}")
    given = ["deploy", "topics", "--broker", "k:1"]
    each = [CliRunner().invoke(cli, [*given, str(file)]).output.splitlines() for file in files]
    together = CliRunner().invoke(cli, [*given, *map(str, files)]).output.splitlines()
    assert together == list(dict.fromkeys([*each[0], *each[1]]))


def test_names_that_kubernetes_does_not_take_are_told_apart() -> None:
    assert resource_name("orders.features") == "orders.features"
    made = {resource_name(name) for name in ("My_Stream.a", "my-stream.a", "my_stream.a", "my..stream", "x" * 300, "_")}
    assert len(made) == 6
    for name in made:
        assert len(name) <= 253
        assert NAME.fullmatch(name)


def test_a_user_with_a_certificate_has_a_name_that_fits_into_one(tmp_path: Path) -> None:
    """Strimzi's operator refuses it otherwise, once the resource is there."""
    path = tmp_path / "s.yaml"
    names = set()
    for last in "ab":
        path.write_text(f"name: {'x' * 70}{last}\ntask: classification\nfeatures: {{a: numeric}}\n")
        for authentication in AUTHENTICATIONS:
            name = resources(str(path), "--cluster", "main", "--authentication", authentication)[-1]["metadata"]["name"]
            assert len(name) <= (64 if authentication == "tls" else 253)
            assert NAME.fullmatch(name)
            names.add(name)
    assert len(names) == 4
    given = ["deploy", "kubernetes", str(path), "--cluster", "main", "--authentication", "tls", "--user"]
    assert CliRunner().invoke(cli, [*given, "x" * 64]).exit_code == 0
    refused = CliRunner().invoke(cli, [*given, "x" * 65])
    assert refused.exit_code == 2
    assert "64 characters" in refused.output


@pytest.mark.parametrize("name", ["Ops", "a_b", "-a", "", "a..b"])
def test_a_users_name_that_kubernetes_does_not_take_is_refused(stream: Path, name: str) -> None:
    refused = CliRunner().invoke(cli, ["deploy", "kubernetes", str(stream), "--cluster", "main", "--user", name])
    assert refused.exit_code == 2
    assert "lower-case" in refused.output
