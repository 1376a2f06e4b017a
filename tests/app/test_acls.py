"""Access lists: what commands need, and the commands of Kafka's own tool that are printed."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.cli.terminal.parsing import WITH_RIGHTS
from riparian.app.kafka.access.acls import COPIERS, COPIES, GROUP, OWNERS, RIGHTS, SOURCES, STATE
from riparian.topics.names import INPUTS, LEARNED, OUTPUTS, STEERING
from tests.broker.harness import stream_file


def test_every_command_with_rights_is_known_to_the_command_line() -> None:
    assert list(WITH_RIGHTS) == list(RIGHTS)
    assert set(RIGHTS["worker"]) == {
        *INPUTS,
        *OUTPUTS,
        *STEERING,
        LEARNED,
        STATE,
        GROUP,
        OWNERS,
        SOURCES,
        COPIES,
        COPIERS,
    }


def test_commands_of_kafka_s_own_tool_are_printed(tmp_path: Path) -> None:
    path, _ = stream_file(tmp_path, "orders", topics={"features": "in", "labels": None})
    shown = CliRunner().invoke(
        cli, ["deploy", "acls", str(path), "--principal", "User:CN=a b", "--broker", "k:1", "--command-config", "x.p"]
    )
    assert shown.exit_code == 0, shown.output
    start = "kafka-acls.sh --bootstrap-server k:1 --command-config x.p --add --allow-principal 'User:CN=a b'"
    assert shown.output.splitlines() == [
        f"{start} --operation Read --operation Create --topic in",
        f"{start} --operation Read --operation Write --operation DescribeConfigs --operation Create"
        " --topic orders.predictions --topic orders.metrics --topic orders.drift --topic orders.deadletters",
        f"{start} --operation Read --operation Write --operation Delete --operation DescribeConfigs --operation Create"
        " --topic riparian-orders-state-changelog",
        f"{start} --operation Read --group riparian-orders",
        f"{start} --operation Write --resource-pattern-type prefixed --transactional-id riparian-orders-",
    ]


def test_topics_that_are_copied_have_rights_of_their_own(tmp_path: Path) -> None:
    rekey = {"features": "orders", "labels": ["paid", "returned"]}
    path, _ = stream_file(tmp_path, "s", rekey=rekey, kafka={"prefix": "team-a."})
    shown = CliRunner().invoke(cli, ["deploy", "acls", str(path), "--principal", "User:x", "--broker", "k:1"])
    start = "kafka-acls.sh --bootstrap-server k:1 --add --allow-principal User:x"
    assert f"{start} --operation Read --topic orders --topic paid --topic returned" in shown.output
    assert f"{start} --operation Read --operation Create --operation Write --topic s.features --topic s.labels" in (
        shown.output
    )
    assert f"{start} --operation Read --group team-a.riparian-s --group team-a.riparian-s-rekey" in shown.output
    lag = CliRunner().invoke(
        cli, ["deploy", "acls", str(path), "--principal", "User:x", "--broker", "k:1", "--for", "lag"]
    )
    assert "--operation Describe --group team-a.riparian-s --group team-a.riparian-s-rekey" in lag.output


@pytest.mark.parametrize("principal", ["riparian", "User:"])
def test_a_principal_has_a_type_and_a_name(tmp_path: Path, principal: str) -> None:
    path, _ = stream_file(tmp_path, "orders")
    shown = CliRunner().invoke(cli, ["deploy", "acls", str(path), "--principal", principal])
    assert shown.exit_code == 2
    assert "write User:NAME" in shown.output
