"""The connection's settings: where they come from, what is refused with which sentence, and that no secret shows."""

import asyncio
import json
import os
import re
import shutil
import ssl
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from riparian.app import references
from riparian.app.cli import broker_option, cli
from riparian.app.cli.run import environment
from riparian.app.errors import BrokerError, SpecError, StateError
from riparian.app.kafka.client.settings import Settings
from riparian.app.kafka.client.sources import _of_file, read
from riparian.app.kafka.connection import Connection
from riparian.app.state import checkpoint
from riparian.app.stream_file.sections.kafka import NAMES
from riparian.app.stream_file.spec import Spec, load
from tests.broker import secured

SECRET = "open-sesame"
SASL = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": SECRET}
OAUTH = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "riparian",
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
}


def write(folder: Path, settings: dict[str, str] | str) -> Path:
    path = folder / "client.properties"
    lines = settings if isinstance(settings, str) else "".join(f"{k}={v}\n" for k, v in settings.items())
    path.write_text(lines)
    return path


def refused(folder: Path, settings: dict[str, str] | str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(BrokerError) as error:
        read(write(folder, settings), environment or {})
    said = str(error.value)
    assert SECRET not in said
    assert "\n" not in said
    return said


def test_plaintext_needs_no_settings() -> None:
    connection = Connection.of(None, None, {"PATH": "/bin", "RIPARIAN_KAFKA_SASL_PASSWORD": ""})
    assert (connection.settings, str(connection)) == (None, "127.0.0.1:9092")
    assert connection.arguments() == ["--broker", "127.0.0.1:9092"]


def test_the_order_of_places(tmp_path: Path) -> None:
    """Stream file, file of a variable, variables, file of the command line, --broker."""
    file = write(tmp_path, {**SASL, "bootstrap.servers": "first:1", "client.id": "file"})
    environment = {"RIPARIAN_KAFKA_BOOTSTRAP_SERVERS": "environment:2", "RIPARIAN_KAFKA_SASL_USERNAME": "v"}
    section = {"bootstrap.servers": "stream:3", "client.id": "stream", "client.rack": "stream"}

    def of(*given: Any, **more: Any) -> tuple[Any, ...]:
        found = Connection.of(*given, section, **more)
        assert found.settings is not None
        return str(found), found.settings.username, found.settings.client_id, found.settings.rack

    assert of(None, None, {}) == ("stream:3", None, "stream", "stream")
    assert of(None, file, {}) == ("first:1", "u", "file", "stream")
    assert of(None, file, environment) == ("environment:2", "v", "file", "stream")
    assert of(None, file, environment | {"RIPARIAN_BROKER": "older:4"}) == ("older:4", "v", "file", "stream")
    assert of(None, file, environment, file_first=True) == ("first:1", "u", "file", "stream")
    assert of("option:5", file, environment, file_first=True) == ("option:5", "u", "file", "stream")


def test_a_stronger_place_that_chooses_another_protocol_takes_the_weaker_s_password_out(tmp_path: Path) -> None:
    file = write(tmp_path, {**SASL, "ssl.ca.location": "/none"})
    found = read(file, {"RIPARIAN_KAFKA_SECURITY_PROTOCOL": "plaintext"})
    assert found is not None
    assert (found.protocol, found.password, found.ca) == ("plaintext", None, None)
    assert "sasl.username has no effect" in refused(
        tmp_path, {}, {"RIPARIAN_KAFKA_SECURITY_PROTOCOL": "plaintext", "RIPARIAN_KAFKA_SASL_USERNAME": "u"}
    )
    token = {"RIPARIAN_KAFKA_SASL_MECHANISM": "oauthbearer", "RIPARIAN_KAFKA_SASL_OAUTHBEARER_TOKEN_PROVIDER": "a:b"}
    found = read(write(tmp_path, SASL), token)
    assert found is not None
    assert (found.mechanism, found.username, found.password) == ("OAUTHBEARER", None, None)


STREAM = "name: s\ntask: regression\nfeatures: {a: numeric}\n"


def load_with(folder: Path, kafka: dict[str, Any], more: str = "") -> Spec:
    path = folder / "s.yaml"
    path.write_text(f"{STREAM}kafka: {json.dumps(kafka)}\n{more}")
    return load(path)


@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        ({"sasl.password": SECRET}, r"kafka: sasl.password: expected \$\{NAME\} .* or file:PATH"),
        ({"sasl.password": 12345678}, "kafka: sasl.password: expected a text"),
        ({"ssl.key.password": f"x${{{SECRET}}}"}, "ssl.key.password: expected .*found the secret itself"),
        ({"sasl.oauthbearer.client.secret": SECRET}, "client.secret: expected"),
        ({"sasl.pasword": SECRET}, 'found "sasl.pasword": did you mean sasl.password'),
        ({"group.instance.id": "one"}, "found one name for all workers"),
        ({"sasl.oauthbearer.token.provider": "os:getcwd"}, r"trust: expected \[code\]"),
    ],
)
def test_a_stream_file_holds_no_secret_and_runs_no_code(tmp_path: Path, kafka: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as error:
        load_with(tmp_path, kafka)
    assert re.search(said, str(error.value)), error.value
    assert SECRET not in str(error.value)
    assert "12345678" not in str(error.value)


def test_commands_take_the_stream_file_s_connection(tmp_path: Path) -> None:
    @click.command()
    @click.argument("stream", type=click.Path(path_type=Path))
    @broker_option
    def command(connection: Connection, stream: Path) -> None:
        assert connection.settings is not None
        password = connection.settings.password
        click.echo(f"{connection} {connection.settings.protocol} {password and password.get_secret_value()}")

    kafka = {**SASL, "bootstrap.servers": "stream:3", "sasl.password": "${P}"}
    assert load_with(tmp_path, kafka).kafka.settings == kafka
    stream = str(tmp_path / "s.yaml")

    def said(*arguments: str, **environment: str) -> str:
        given = ["--broker", "option:3", stream] if arguments else [stream]
        return CliRunner().invoke(command, given, env=environment, catch_exceptions=False).output.strip()

    assert said(P=SECRET) == f"stream:3 sasl_ssl {SECRET}"
    assert said("--broker", P=SECRET) == f"option:3 sasl_ssl {SECRET}"
    with pytest.raises(BrokerError, match=r"the stream file, kafka: sasl\.password refers to the environment variable"):
        said()
    assert load_with(tmp_path, {"sasl.oauthbearer.token.provider": "os:getcwd"}, "trust: code\n").trust == ["code"]


def test_rack_and_instance_go_to_the_clients(tmp_path: Path) -> None:
    connection = Connection.of(None, write(tmp_path, {"client.rack": "a", "group.instance.id": "w1"}), {})

    async def rack() -> Any:
        consumer = connection.consumer()
        try:
            return consumer._client_rack
        finally:
            await consumer.stop()

    assert asyncio.run(rack()) == "a"
    assert connection.rack == "a"
    assert connection.faust()["consumer_group_instance_id"] == "w1"


def test_a_command_takes_both_options_and_their_variables(tmp_path: Path) -> None:
    @click.command()
    @broker_option
    def command(connection: Connection) -> None:
        click.echo(f"{connection} {connection.settings and connection.settings.protocol}")

    file = str(write(tmp_path, {"bootstrap.servers": "first:1", **SASL}))

    def said(*arguments: str, **environment: str) -> str:
        return CliRunner().invoke(command, arguments, env=environment, catch_exceptions=False).output.strip()

    assert said() == "127.0.0.1:9092 None"
    assert said("--kafka-config", file) == "first:1 sasl_ssl"
    assert said(RIPARIAN_KAFKA_CONFIG=file) == "first:1 sasl_ssl"
    assert said(RIPARIAN_KAFKA_CONFIG=file, RIPARIAN_BROKER="variable:2") == "variable:2 sasl_ssl"
    assert said("--broker", "option:3", RIPARIAN_KAFKA_CONFIG=file, RIPARIAN_BROKER="variable:2") == "option:3 sasl_ssl"


def test_every_command_with_a_broker_has_the_file_too() -> None:
    def walk(found: click.Command) -> list[click.Command]:
        if isinstance(found, click.Group):
            context = click.Context(found)
            below = [found.get_command(context, name) for name in found.list_commands(context)]
            return [one for each in below if each is not None for one in walk(each)]
        return [found]

    options = [{name for p in command.params for name in p.opts} for command in walk(cli)]
    assert [found for found in options if ("--broker" in found) != ("--kafka-config" in found)] == []
    assert sum("--broker" in found for found in options) >= 12


def test_a_file_as_confluent_gives_it_and_what_a_value_may_refer_to(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    file = write(
        tmp_path,
        "# of the cluster\n\nbootstrap.servers = a:1, b:2\nsecurity.protocol=SASL_SSL\nsasl.mechanisms=plain\n"
        f"sasl.username=${{WHO}}\nsasl.password=file:{tmp_path / 'secret'}\n"
        "ssl.endpoint.identification.algorithm=none\n",
    )
    settings = read(file, {"WHO": "${NOT}"})
    assert settings is not None
    assert settings.password is not None
    assert (settings.username, settings.password.get_secret_value()) == ("${NOT}", SECRET)  # once, and no further
    client = Connection("a:1", settings)._settings()
    assert isinstance(client.pop("ssl_context"), ssl.SSLContext)
    assert client == {
        "bootstrap_servers": ["a:1"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "${NOT}",
        "sasl_plain_password": SECRET,
    }
    part = read(write(tmp_path, {**SASL, "sasl.password": "a${WHO}=b#c"}), {"WHO": "x"})
    assert part is not None
    assert part.password is not None
    assert part.password.get_secret_value() == "a${WHO}=b#c"  # a reference is the whole value or none


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("ssl.ca.locaton=x", r"line 1: .* found \"ssl.ca.locaton\": did you mean ssl.ca.location\?"),
        (SECRET, "line 1: expected name=value"),
        ("zzz=1", "the settings are bootstrap.servers, security.protocol"),
        ("client.id=a\nclient.id=b", "line 2: client.id is given a second time .*line 1"),
        ("security.protocol=tls", 'as one of plaintext, ssl, sasl_plaintext, sasl_ssl, found "tls"'),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, 'PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, found "GSSAPI"'),
        ({"sasl.username": "u"}, r"sasl.username has no effect with security.protocol=plaintext \(the default\)"),
        ({**SASL, "security.protocol": "ssl"}, "sasl.mechanism has no effect with security.protocol=ssl: set"),
        ({**SASL, "sasl.password": ""}, "sasl_ssl needs sasl.password, .* or set RIPARIAN_KAFKA_SASL_PASSWORD"),
        ({**SASL, "sasl.password": "${NONE}"}, "sasl.password refers to the environment variable NONE, which is not"),
        ({**SASL, "sasl.password": "file:/none"}, r"refers to the file /none, which cannot be read \(No such file"),
        ({"ssl.ca.location": "x"}, "ssl.ca.location has no effect .* set security.protocol to ssl"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/none"}, "ssl.ca.location names /none, which cannot be read"),
        (
            {"security.protocol": "ssl", "ssl.certificate.location": "x"},
            "ssl.certificate.location needs ssl.key.location beside it",
        ),
        ({"security.protocol": "ssl", "ssl.key.location": "x"}, "ssl.key.location needs ssl.certificate.location"),
        ({"security.protocol": "ssl", "ssl.key.password": SECRET}, "ssl.key.password needs ssl.key.location"),
        (
            {**OAUTH, "sasl.oauthbearer.client.secret": ""},
            "needs sasl.oauthbearer.client.secret, .* or name",
        ),
        ({**OAUTH, "sasl.password": SECRET}, "sasl.password has no effect with sasl.mechanism=OAUTHBEARER"),
        ({**SASL, "sasl.oauthbearer.scope": "s"}, "scope has no effect .*=PLAIN: set sasl.mechanism to OAUTHBEARER"),
        ({**OAUTH, "sasl.oauthbearer.token.provider": "a:b"}, "no effect beside sasl.oauthbearer.token.provider"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "ftp://h/"}, "expected .* as https://HOST/PATH"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": f"https://u:{SECRET}@h/"}, "without a password"),
        ({**OAUTH, "sasl.oauthbearer.extensions": "a"}, "as key=value pairs"),
        ({**OAUTH, "sasl.oauthbearer.method": "default"}, 'as one of oidc, found "default"'),
        ({**OAUTH, "https.ca.location": "/none"}, "https.ca.location names /none, which cannot be read"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path: Path, settings: dict[str, str] | str, said: str) -> None:
    assert re.search(said, refused(tmp_path, settings))


def test_a_variable_of_no_setting_is_refused_with_the_nearest(tmp_path: Path) -> None:
    said = refused(tmp_path, "", {"RIPARIAN_KAFKA_SASL_PASWORD": SECRET})
    assert "did you mean RIPARIAN_KAFKA_SASL_PASSWORD?" in said
    with pytest.raises(BrokerError, match=r"cannot be read \(No such file"):
        read(tmp_path / "absent", {})


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl makes the certificates")
def test_certificates_are_looked_at_when_a_command_starts(tmp_path: Path) -> None:
    secured.certificates(tmp_path)
    (tmp_path / "words").write_text("no certificate\n")
    base = {"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "ca.crt")}
    pair = {"ssl.certificate.location": str(tmp_path / "client.crt"), "ssl.key.location": str(tmp_path / "client.key")}
    assert read(write(tmp_path, base | pair), {})
    both = dict.fromkeys(pair, str(tmp_path / "client.pem"))
    assert read(write(tmp_path, base | both), {})

    said = refused(tmp_path, base | {"ssl.ca.location": str(tmp_path / "words")})
    assert "ssl.ca.location" in said
    assert "BEGIN CERTIFICATE" in said
    said = refused(tmp_path, base | pair | {"ssl.key.location": str(tmp_path / "server.key")})
    assert "cannot be used (key values mismatch)" in said
    secured._openssl(
        tmp_path, "pkcs8", "-topk8", "-in", "client.key", "-out", "locked.key", "-passout", f"pass:{SECRET}"
    )
    locked = base | pair | {"ssl.key.location": str(tmp_path / "locked.key")}
    assert "ssl.key.password where the key is encrypted" in refused(tmp_path, locked)
    assert "cannot be used" in refused(tmp_path, locked | {"ssl.key.password": "no"})
    assert read(write(tmp_path, locked | {"ssl.key.password": SECRET}), {})


def test_no_secret_shows(tmp_path: Path) -> None:
    file = write(tmp_path, SASL)
    connection = Connection.of("a:1", file, {})
    for shown in (str(connection), repr(connection), repr(connection.settings), str(connection.settings)):
        assert SECRET not in shown
    assert connection.settings is not None
    assert SECRET not in json.dumps(connection.settings.model_dump(mode="json"), default=str)
    assert connection.arguments() == ["--broker", "a:1", "--kafka-config", str(file)]
    assert SECRET not in repr(connection.faust())


def test_the_names_are_those_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "run" / "connect.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in page] == []
    assert tuple(field.alias for field in Settings.model_fields.values()) == NAMES
    blocks = re.findall(r"```properties\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        assert _of_file(write(tmp_path, block))["security.protocol"].value.lower() in ("ssl", "sasl_ssl")
    assert not any(name.startswith("RIPARIAN_KAFKA_") for name in os.environ)


def test_variables_that_nothing_reads_are_named(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("kafka: {sasl.password: '${RIPARIAN_PASSWORD_OF_S}'}\n")
    ours = {"RIPARIAN_STATE_KEY": "k", "RIPARIAN_BROKER": "h:1", "RIPARIAN_KAFKA_SASL_USERNAME": "u"}
    theirs = {
        "RIPARIAN_SERVICE_HOST": "10.0.0.1",
        "RIPARIAN_UI_PORT_8080_TCP": "tcp://…",
        "RIPARIAN_PASSWORD_OF_S": "p",
    }
    assert environment.unknown(ours | theirs | {"HOME": "/"}, [file]) is None
    said = environment.unknown({**ours, "RIPARIAN_MODEL_KEY": "k", "RIPARIAN_PASSWORD_OF_S": "p"}, [tmp_path / "none"])
    assert said is not None
    assert said.startswith(
        "nothing reads RIPARIAN_MODEL_KEY, RIPARIAN_PASSWORD_OF_S of the environment: Riparian knows"
    )
    assert "RIPARIAN_STATE_KEY" in said


def test_a_secret_is_read_from_a_small_file_alone(tmp_path):
    """A device has no end, and a pipe without a writer is opened when somebody writes."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_bytes(bytes(references.MOST_BYTES + 1))
    for path, reason in (("/dev/zero", "no regular file"), (pipe, "no regular file"), (large, "more than 1,048,576")):
        with pytest.raises(ValueError, match=reason):
            references.resolved(f"file:{path}", {})


def test_a_key_that_is_no_secret_is_a_sentence(monkeypatch):
    monkeypatch.setenv("RIPARIAN_STATE_KEY", "short")
    with pytest.raises(StateError, match="RIPARIAN_STATE_KEY has 5 characters: give a secret of at least 16"):
        checkpoint._key()
