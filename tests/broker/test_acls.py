"""Access lists on real Kafka: exactly those that are listed suffice, and each that is missing is named."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.protocol.admin import DeleteAclsRequest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.cli.terminal.parsing import WITH_RIGHTS
from riparian.app.errors import AccessError
from riparian.app.kafka.access import rights
from riparian.app.kafka.access.acls import CREATE, DESCRIBE, GROUP, READ, RIGHTS, TOPIC, Right, needed
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.lag import lag
from riparian.app.state.transfer import versions
from riparian.app.stream_file.spec import Spec
from tests.broker.clients import Sent, administer, create_topics, send
from tests.broker.harness import PATIENCE, Worker, instances, stored, stream_file, wait_for_state
from tests.broker.secured import LIMITED, Secured
from tests.broker.test_ui import Ui
from tests.processes import until

pytestmark = pytest.mark.broker
PRINCIPAL = f"User:{LIMITED}"
ANY, MATCH, ALLOW = 1, 3, 3


@pytest.fixture
def config(cluster: Secured) -> Path:
    return cluster.limited()


class Lists:
    """The access lists of the limited user, changed by a super user."""

    def __init__(self, cluster: Secured, config: Path) -> None:
        self.connection = Connection.of(None, config, {})
        self.master = Connection(cluster.plain)

    def lacks(self, wanted: Iterable[Right]) -> set[Right]:
        return set(asyncio.run(rights.missing(self.connection, list(wanted))))

    def grant(self, given: list[Right], wanted: list[Right]) -> None:
        """Give some, and wait until nothing is missing of what is wanted."""
        asyncio.run(rights.grant(self.master, given, PRINCIPAL))
        until(lambda: not self.lacks(wanted))

    def take(self, taken: Iterable[Right], wanted: Iterable[Right]) -> None:
        """Take some away, and wait until these are missing of what is wanted; what else may be done with their topics
        is missing, too, where nothing that is left lets a client know of the topic."""
        for right in taken:
            operation = rights._OPERATIONS[right.operation]
            pattern = rights._PREFIXED if right.prefixed else rights._LITERAL
            self._delete(rights._KINDS[right.kind], right.name, pattern, PRINCIPAL, "*", operation, ALLOW)

        def missing() -> bool:
            found = self.lacks(wanted)
            return set(taken) <= found and {right.name for right in found} == {right.name for right in taken}

        until(missing)

    def clear(self) -> None:
        self._delete(ANY, None, ANY, PRINCIPAL, None, ANY, ANY)

    def only(self, spec: Spec, command: str) -> list[Right]:
        """Exactly what is listed for a command on topics that are there."""
        self.clear()
        wanted = [right for right in needed(spec, command) if right.operation != CREATE]
        until(lambda: self.lacks(wanted) == set(wanted))
        self.grant(wanted, wanted)
        return wanted

    def _delete(self, *given: Any) -> None:
        administer(self.master.bootstrap_servers, lambda client: client._send_request(DeleteAclsRequest(*given)))


@pytest.fixture
def lists(cluster: Secured, config: Path) -> Iterator[Lists]:
    found = Lists(cluster, config)
    yield found
    found.clear()


def run(*arguments: object) -> tuple[int, str]:
    """Exit code and output of a command, in this process; 2 and the sentence of an error."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if isinstance(result.exception, AccessError):
        return 2, result.output + str(result.exception)
    return result.exit_code, f"{result.output}{result.exception or ''}"


def test_the_choice_of_commands_is_the_table() -> None:
    assert list(WITH_RIGHTS) == list(RIGHTS)


def test_what_is_listed_suffices_and_each_that_is_missing_is_named(cluster, config, lists, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name, control=True)
    data = tmp_path / "rows.csv"
    data.write_text("a,b,c,y\n" + "0.25,0.5,x,yes\n" * 50)
    option = ("--kafka-config", config)
    # A worker makes all topics by what it is given, learns, and cuts its changelog off.
    lists.grant(needed(spec, "worker"), needed(spec, "worker"))
    with Worker(path, cluster.oauth, tmp_path, options=option) as worker:
        worker.wait_for("Worker ready")
        features, labels = instances(500)
        send(cluster.plain, spec.topics.features, [*features, Sent(b"{", features[-1].time)])  # a dead letter
        send(cluster.plain, spec.topics.labels, labels)
        wait_for_state(cluster.plain, spec, 501, 500, worker=worker)
        lost = Right(TOPIC, spec.topics.features, READ)
        lists.take([lost], [lost])
        assert worker.process.wait(PATIENCE) == 2
        assert lost.sentence(lists.connection) in worker.output
        assert "Traceback" not in worker.output
    state = tmp_path / "state"
    sequence = asyncio.run(versions(spec, lists.master, 0))[1][0].manifest.sequence
    commands: dict[str, tuple[object, ...]] = {
        "worker": ("worker", path),
        "replay": ("replay", path, data, "--label", "y"),
        "check": ("check", path, "--rights", "check"),
        "lag": ("lag", path),
        "compare": ("compare", path),
        "audit": ("audit", path),
        "backtest": ("backtest", path, "--model", "last-label"),
        "explain": ("explain", path, "--id", "0000007"),
        "ui": ("ui", path, "--data-dir", tmp_path / "other"),
        "deadletters": ("deadletters", "list", path),
        "retry": ("deadletters", "retry", path),
        "control": ("promote", path, "nb", "--wait", 0),
        "apply": ("apply", path, "--wait", 0),
        "export": ("export", path, state, "--partition", 0),
        "inspect": ("inspect", path),
        "state": ("state", "verify", path),
        "import": ("import", path, state, "--partition", 0, "--replace"),
        "rollback": ("rollback", path, "--partition", 0, "--to", sequence),
        "grow": ("grow", path),
    }
    assert list(commands) == list(RIGHTS)
    everything: dict[Right, None] = {}
    for name, words in commands.items():
        wanted = lists.only(spec, name)
        everything |= dict.fromkeys(wanted)
        if name == "ui":
            with Ui(tmp_path, None, path, options=("--kafka-config", str(config))) as page:
                until(lambda page=page: page.status(spec.name)["progress"] is None)
                assert page.status(spec.name)["away"] is None
        elif name != "worker":
            code, said = run(*words, *option)
            assert code == (name in ("control", "apply")), f"{name}: {said}"  # nobody answers
        lost = next(right for right in wanted if not right.dispensable)
        lists.take([lost], wanted)
        code, said = run(*words, *option)
        assert (code, lost.sentence(lists.connection) in said) == (2, True), f"{name} without {lost}: {said}"
    # By halves, so that each is missing while others are not. Who may read or write may describe.
    apart = [right for right in everything if right.operation != DESCRIBE]
    lists.grant(apart, apart)
    for bit in range((len(apart) - 1).bit_length()):
        half = [right for i, right in enumerate(apart) if i >> bit & 1]
        lists.take(half, apart)
        lists.grant(half, apart)
    for right in everything:
        assert f"--allow-principal {PRINCIPAL} --operation {right.operation}" in right.sentence(lists.connection)


def test_a_command_grants_what_commands_need(cluster, lists, tmp_path, topic_name):
    """By the listener that wants a certificate and a password; to nobody by a user who may not."""
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, cluster.plain)
    own = ("--kafka-config", cluster.both_of("limited-both", sasl_username=LIMITED))
    words = ("deploy", "acls", path, "--principal", PRINCIPAL, "--for", "lag", "--for", "check", "--apply")
    code, said = run(*words, *own)
    assert (code, "does not create ACLs for this client" in said) == (2, True), said
    check = ("check", path, "--rights", "check", *own)
    assert run(*check)[0] == 2
    code, said = run(*words, "--kafka-config", cluster.both_of("admin"))
    assert (code, f"granted at {cluster.both}: " in said) == (0, True), said
    until(lambda: not lists.lacks([*needed(spec, "lag"), *needed(spec, "check")]))
    for command in (check, ("lag", path, *own)):
        code, said = run(*command)
        assert code == 0, said


def test_a_group_that_may_not_be_asked_about_is_not_one_without_workers(cluster, lists, tmp_path, topic_name):
    """The client drops what Kafka says of a whole group; `riparian import` would then write beside workers."""
    _, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, cluster.plain)
    wanted = needed(spec, "lag")
    group = next(right for right in wanted if right.kind == GROUP)
    others = [right for right in wanted if right != group]
    lists.grant(others, others)
    with pytest.raises(AccessError, match=re.escape(group.sentence(lists.connection))):
        asyncio.run(lag(spec, lists.connection))
    lists.grant([group], wanted)
    assert asyncio.run(lag(spec, lists.connection)).workers == 0


def test_what_is_listed_suffices_to_copy_topics_and_for_those_who_write_them(
    cluster, config, lists, tmp_path, topic_name
):
    rekey = {"features": f"{topic_name}.orders", "labels": f"{topic_name}.payments"}
    _, sources = stream_file(tmp_path, f"{topic_name}-sources", topics=rekey)
    create_topics(sources, cluster.plain)
    path, spec = stream_file(tmp_path, topic_name, rekey=rekey)
    data = tmp_path / "rows.csv"
    data.write_text("a,b,c,y\n" + "0.25,0.5,x,yes\n" * 50)
    option = ("--kafka-config", config)
    lists.grant(needed(spec, "worker"), needed(spec, "worker"))
    with Worker(path, cluster.oauth, tmp_path, options=option) as worker:
        features, labels = instances(300)
        send(cluster.plain, rekey["features"], [*features, Sent(b"{", features[-1].time)])
        send(cluster.plain, rekey["labels"], labels)

        def joined() -> bool:
            found = stored(cluster.plain, spec)
            return found is not None and found.pending.counts["joined"] == 300

        until(lambda: joined() or worker.process.poll() is not None)
        assert worker.process.poll() is None, worker.output
        lost = Right(TOPIC, rekey["features"], READ)
        lists.take([lost], [lost])
        assert worker.process.wait(PATIENCE) == 2, worker.output[-3000:]
        assert lost.sentence(lists.connection) in worker.output
    commands = {
        "replay": ("replay", path, data, "--label", "y"),
        "check": ("check", path, "--rights", "check"),
        "lag": ("lag", path),
        "retry": ("deadletters", "retry", path),
        "export": ("export", path, tmp_path / "state", "--partition", 0),
        "import": ("import", path, tmp_path / "state", "--partition", 0, "--replace"),
    }
    for name, words in commands.items():
        lists.only(spec, name)
        code, said = run(*words, *option)
        assert code == 0, f"{name}: {said}"
