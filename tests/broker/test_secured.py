"""Every command over TLS, with a password and with a client certificate, on real Kafka; and what a refusal says."""

import asyncio
import json
import logging
import shutil
import ssl
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.admin import NewTopic
from aiokafka.errors import KafkaError
from click.testing import CliRunner

from app.cli import cli
from app.errors import AccessError
from app.kafka.connection import Connection
from app.kafka.ports import free_port
from tests.broker import secured
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    send,
    stream_file,
    wait_for_state,
)
from tests.broker.secured import PASSWORD, Secured, certificate, secured_broker

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl makes the certificates"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found


def riparian(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, f"{arguments}: {result.exception!r} {result.output}"
    assert PASSWORD not in result.output
    return result.output


@pytest.mark.parametrize("way", ["scram", "mutual", "both", "oauth"])
def test_a_killed_worker_and_every_command(cluster, tmp_path, topic_name, monkeypatch, way):
    ways = {"scram": cluster.scram, "mutual": cluster.mutual, "both": cluster.both_of, "oauth": cluster.oauth_of}
    config = ways[way]()
    address = {"scram": cluster.sasl, "mutual": cluster.ssl, "both": cluster.both, "oauth": cluster.oauth}[way]
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, cluster.plain)
    n = 2000
    features, labels = instances(n)
    send(cluster.plain, spec.topics.features, features[:1000])
    send(cluster.plain, spec.topics.labels, labels[:1000])
    monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(config))
    with Worker(path, address, tmp_path) as worker:
        wait_for_state(cluster.plain, spec, 1000, 500, worker=worker)
        worker.kill()
        assert PASSWORD not in worker.output
    send(cluster.plain, spec.topics.features, features[1000:])
    send(cluster.plain, spec.topics.labels, labels[1000:])
    monkeypatch.delenv("RIPARIAN_KAFKA_CONFIG")
    data = tmp_path / "rows.csv"
    data.write_text("a,b,c,y\n" + "0.25,0.5,x,yes\n" * 50)
    option = ("--kafka-config", config)
    riparian("replay", path, data, "--target", "y", *option)
    riparian("check", path, *option)
    assert json.loads(riparian("lag", path, "--json", *option))

    monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(config))
    with Worker(path, address, tmp_path, web_port=(port := free_port())) as worker:
        learner = wait_for_state(cluster.plain, spec, n + 50, n + 50, worker=worker)
        command = Path(f"/proc/{worker.process.pid}/cmdline")
        if command.exists():
            assert PASSWORD.encode() not in command.read_bytes()
        for page in ("health", "metrics"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
                assert PASSWORD not in answer.read().decode()
        assert worker.stop() == 0
        assert PASSWORD not in worker.output
    oracle = check_against_oracle(cluster.plain, spec, learner)
    assert oracle.pending.counts["joined"] == n + 50
    assert len(predictions(cluster.plain, spec)) == n + 50
    monkeypatch.delenv("RIPARIAN_KAFKA_CONFIG")
    riparian("audit", path, *option)
    riparian("backtest", path, "--model", "last-label", *option)
    riparian("compare", path, *option)
    riparian("deadletters", "list", path, *option)
    riparian("inspect", path, *option)
    riparian("state", "verify", path, *option)
    riparian("export", path, tmp_path / "state", "--partition", 0, *option)
    riparian("import", path, tmp_path / "state", "--partition", 0, "--replace", *option)


def said(connection: Connection) -> str:
    from app.kafka.admin import wait_for_broker

    with pytest.raises(AccessError) as error:
        asyncio.run(wait_for_broker(connection, 60.0))  # what waiting does not mend is said at once
    sentence = str(error.value)
    assert "\n" not in sentence
    assert PASSWORD not in sentence
    return sentence


def test_each_refusal_is_one_sentence_with_its_true_reason(cluster):
    def of(path: Path | None, broker: str | None = None) -> str:
        return said(Connection.of(broker, path, {}))

    wrong = of(cluster.scram("wrong", sasl_password="wrong"))
    assert wrong.startswith(f'Kafka at {cluster.sasl} refuses sasl.username "worker" with this sasl.password')
    plain = {"sasl_mechanism": "PLAIN", "sasl_username": "plain"}
    assert "(PLAIN)" in of(cluster.scram("plain", **plain, sasl_password="wrong"))
    assert "not trusted" in of(cluster.scram("stranger", ssl_ca_location=str(cluster.folder / "stranger.crt")))
    assert "set it to ssl or sasl_ssl" in of(None, cluster.sasl)
    assert "set it to ssl or sasl_ssl" in of(None, cluster.ssl)
    assert "speaks no TLS on this port" in of(cluster.mutual(), cluster.plain)
    assert "wants a password on this port" in of(cluster.mutual(), cluster.sasl)
    bare = {"bootstrap_servers": cluster.ssl, "security_protocol": "ssl"}
    bare["ssl_ca_location"] = str(cluster.folder / "ca.crt")
    assert "wants a client certificate" in of(cluster.properties("bare", **bare))


def test_what_the_broker_or_the_endpoint_says_of_a_token(cluster):
    def of(path: Path) -> str:
        return said(Connection.of(None, path, {}))

    wanted = "wants a token, and there is none: sasl.oauthbearer.token.provider names nothing:x"
    assert wanted in of(cluster.oauth_of("none", provider="nothing:x"))
    expired = of(cluster.oauth_of("expired", provider="tests.broker.secured:expired_token"))
    assert "refuses the token (invalid_token)" in expired
    oidc = {
        "sasl_oauthbearer_method": "oidc",
        "sasl_oauthbearer_client_id": "riparian",
        "sasl_oauthbearer_client_secret": PASSWORD,
        "sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1:1/token",
    }
    assert "the token endpoint http://127.0.0.1:1/token does not answer" in of(
        cluster.oauth_of("away", provider="", **oidc)
    )
    tls = {"security_protocol": "sasl_ssl", "ssl_ca_location": str(cluster.folder / "ca.crt")}
    other = cluster.oauth_of("other", bootstrap_servers=cluster.sasl, **tls)
    assert "does not take sasl.mechanism=OAUTHBEARER" in of(other)
    assert "takes no password on this port" in of(cluster.oauth_of("plain", bootstrap_servers=cluster.plain))


def test_connections_outlive_their_tokens(cluster):
    """The broker ends a connection whose token has expired; the client comes back with a new one."""
    asked = secured.n_short
    connection = Connection.of(None, cluster.oauth_of("short", provider="tests.broker.secured:short_token"), {})

    async def send() -> None:
        producer = connection.producer(enable_idempotence=True)
        await producer.start()
        try:
            until = time.monotonic() + PATIENCE
            n = 0
            while secured.n_short < asked + 3:
                assert (await producer.send_and_wait("tokens", b"", partition=0)).offset == n
                n += 1
                assert time.monotonic() < until
                await asyncio.sleep(0.2)
        finally:
            await producer.stop()

    async def create() -> None:
        client = Connection(cluster.plain).admin()
        await client.start()
        await client.create_topics([NewTopic("tokens", 1, 1)])
        await client.close()

    asyncio.run(create())
    asyncio.run(send())


def test_a_password_sent_as_plain_is_in_no_debug_line(cluster, caplog):
    connection = Connection.of(None, cluster.scram("p", sasl_mechanism="PLAIN", sasl_username="plain"), {})

    async def ask() -> None:
        client = connection.admin()
        await client.start()
        await client.close()

    with caplog.at_level(logging.DEBUG, "aiokafka"):
        asyncio.run(ask())
    assert "Authenticated as plain via PLAIN" in caplog.text
    assert PASSWORD not in caplog.text


def test_renewed_certificates_are_taken_at_the_next_connection_of_a_running_client(cluster):
    """By one context, as a client keeps it."""
    for name in ("client", "ca"):
        shutil.copy(cluster.folder / f"{name}.crt", cluster.folder / f"renewed-{name}.crt")
    shutil.copy(cluster.folder / "client.key", cluster.folder / "renewed.key")
    names = {"certificate": "renewed-client.crt", "key": "renewed.key", "ca": "renewed-ca.crt"}
    files = {f"ssl_{name}_location": str(cluster.folder / file) for name, file in names.items()}
    settings = Connection.of(None, cluster.mutual("renewed", **files), {}).settings
    assert settings is not None
    context = settings.context()
    host, port = Connection(cluster.ssl).addresses[0]

    async def connect() -> str:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        try:
            await asyncio.wait_for(reader.read(1), 1.0)
        except TimeoutError:
            return "open"
        finally:
            writer.close()
        return "closed"

    assert asyncio.run(connect()) == "open"
    shutil.copy(cluster.folder / "stranger.crt", cluster.folder / "renewed-ca.crt")
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(connect())
    shutil.copy(cluster.folder / "ca.crt", cluster.folder / "renewed-ca.crt")
    certificate(cluster.folder, "other", ca="stranger")
    shutil.copy(cluster.folder / "other.crt", cluster.folder / "renewed-client.crt")
    shutil.copy(cluster.folder / "other.key", cluster.folder / "renewed.key")
    with pytest.raises(ssl.SSLError):
        asyncio.run(connect())
    certificate(cluster.folder, "next")
    shutil.copy(cluster.folder / "next.crt", cluster.folder / "renewed-client.crt")
    shutil.copy(cluster.folder / "next.key", cluster.folder / "renewed.key")
    assert asyncio.run(connect()) == "open"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_running_client_takes_the_password_that_its_file_has_now(cluster, mechanism):
    """A client keeps what it was made with; a reference and a properties file are read again."""
    secret = cluster.folder / "secret"
    user = {"sasl_mechanism": mechanism, "sasl_username": "plain" if mechanism == "PLAIN" else "worker"}
    for referred in (True, False):

        def write(password, referred=referred):
            secret.write_text(f"{password}\n")
            return cluster.scram("changing", **user, sasl_password=f"file:{secret}" if referred else password)

        connection = Connection.of(None, write("wrong"), {})

        async def connect(connection=connection, write=write) -> None:
            producer = connection.producer()
            for password in ("wrong", PASSWORD, "wrong"):
                write(password)
                if password == PASSWORD:
                    await producer.client.bootstrap()
                else:
                    with pytest.raises(KafkaError):
                        await producer.client.bootstrap()
            write(PASSWORD)
            secret.unlink(missing_ok=True)  # in the moment in which it is replaced
            assert str(producer.client._sasl_plain_password) == "wrong"
            await producer.client.close()

        asyncio.run(connect())


def test_a_worker_goes_on_with_a_password_that_was_changed(cluster, tmp_path, topic_name, monkeypatch):
    """First on the broker alone: it says that its password is refused, and goes on when its file has the new one."""
    new, secret = "another-battery$staple", cluster.folder / "rotated"
    secret.write_text(PASSWORD)
    asyncio.run(secured.change_password(cluster, "rotating", PASSWORD))
    config = cluster.scram("rotating", sasl_username="rotating", sasl_password=f"file:{secret}")
    monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(config))
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, cluster.plain)
    features, labels = instances(200)
    with Worker(path, cluster.sasl, tmp_path) as worker:
        send(cluster.plain, spec.topics.features, features[:100])
        send(cluster.plain, spec.topics.labels, labels[:100])
        wait_for_state(cluster.plain, spec, 100, 100, worker=worker)
        asyncio.run(secured.change_password(cluster, "rotating", new))
        cluster.broker.stop()
        cluster.broker.start()
        worker.wait_for("no access any more: Kafka at")
        assert 'refuses sasl.username "rotating" with this sasl.password (SCRAM-SHA-512)' in worker.output
        secret.write_text(new)
        send(cluster.plain, spec.topics.features, features[100:])
        send(cluster.plain, spec.topics.labels, labels[100:])
        learner = wait_for_state(cluster.plain, spec, 200, 200, worker=worker)
        assert worker.stop() == 0
        assert PASSWORD not in worker.output
        assert new not in worker.output
    check_against_oracle(cluster.plain, spec, learner)


def test_a_worker_that_is_not_let_in_again_says_why_and_goes_on_when_it_is(cluster, tmp_path, topic_name, monkeypatch):
    """Its certificate is replaced by a stranger's, and connections end with the broker; then it is put back. A static
    member that is killed goes on under its id, without a rebalance."""
    for kind in ("crt", "key"):
        shutil.copy(cluster.folder / f"client.{kind}", cluster.folder / f"lost.{kind}")
    certificate(cluster.folder, "alien", ca="stranger")
    files = {"ssl_certificate_location": "lost.crt", "ssl_key_location": "lost.key"}
    files = {name: str(cluster.folder / file) for name, file in files.items()}
    monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(cluster.mutual("lost", **files)))
    monkeypatch.setenv("RIPARIAN_KAFKA_GROUP_INSTANCE_ID", "first")
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, cluster.plain)
    features, labels = instances(200)
    with Worker(path, cluster.ssl, tmp_path, session_timeout=60.0) as worker:
        send(cluster.plain, spec.topics.features, features[:100])
        send(cluster.plain, spec.topics.labels, labels[:100])
        wait_for_state(cluster.plain, spec, 100, 100, worker=worker)
        worker.kill()
    with Worker(path, cluster.ssl, tmp_path, session_timeout=60.0) as worker:
        send(cluster.plain, spec.topics.features, features[100:150])
        send(cluster.plain, spec.topics.labels, labels[100:150])
        wait_for_state(cluster.plain, spec, 150, 150, worker=worker)
        assert f"Successfully synced group riparian-{topic_name} with generation 1" in worker.output  # no rebalance
        for kind in ("crt", "key"):
            shutil.copy(cluster.folder / f"alien.{kind}", cluster.folder / f"lost.{kind}")
        cluster.broker.stop()
        cluster.broker.start()
        worker.wait_for("no access any more: Kafka at")
        assert "refuses the client certificate" in worker.output
        for kind in ("crt", "key"):
            shutil.copy(cluster.folder / f"client.{kind}", cluster.folder / f"lost.{kind}")
        send(cluster.plain, spec.topics.features, features[150:])
        send(cluster.plain, spec.topics.labels, labels[150:])
        learner = wait_for_state(cluster.plain, spec, 200, 200, worker=worker)
        assert worker.stop() == 0
    check_against_oracle(cluster.plain, spec, learner)
