"""Every command over TLS, with a password and with a client certificate, on real Kafka; and what a refusal says."""

import asyncio
import json
import logging
import shutil
import ssl
import time
from pathlib import Path

import pytest
from aiokafka.errors import KafkaError

from riparian.app.errors import AccessError
from riparian.app.kafka.connection import Connection
from tests.broker import secured
from tests.broker.clients import make_topics
from tests.broker.harness import PATIENCE, Page, Stream, instances, riparian
from tests.broker.secured import PASSWORD, certificate

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("way", ["scram", "mutual", "oauth"])
def test_a_worker_and_a_command_by_each_of_the_ways(cluster, tmp_path, topic_name, monkeypatch, way):
    ways = {"scram": cluster.scram, "mutual": cluster.mutual, "oauth": cluster.oauth_of}
    config = ways[way]()
    address = {"scram": cluster.sasl, "mutual": cluster.ssl, "oauth": cluster.oauth}[way]
    s = Stream(cluster.plain, tmp_path, topic_name)
    s.give(instances(200))
    monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(config))
    with s.worker(broker=address) as worker:
        learner = s.reach(200, worker=worker)
        assert worker.stop() == 0
        assert PASSWORD not in worker.output
    s.check(learner)
    monkeypatch.delenv("RIPARIAN_KAFKA_CONFIG")
    assert json.loads(riparian("lag", s.path, "--kafka-config", config, "--json"))


def test_a_killed_worker_and_every_command(cluster, tmp_path, topic_name, monkeypatch):
    """By the listener that wants a certificate and a password."""
    config = cluster.both_of()
    s = Stream(cluster.plain, tmp_path, topic_name)
    n = 1000
    rows = instances(n)

    def run(command: str, *arguments: object) -> str:
        shown = riparian(*command.split(), s.path, *arguments, "--kafka-config", config)
        assert PASSWORD not in shown
        return shown

    s.give(rows, 0, n // 2)
    monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(config))
    with s.worker(broker=cluster.both, place="w") as worker:
        s.reach(n // 2, n // 4, worker)
        worker.kill()
        assert PASSWORD not in worker.output
    s.give(rows, n // 2)
    data = tmp_path / "rows.csv"
    data.write_text("a,b,c,y\n" + "0.25,0.5,x,yes\n" * 50)
    page = Page()
    with s.worker(broker=cluster.both, place="w", web_port=page.port, forked=False) as worker:
        monkeypatch.delenv("RIPARIAN_KAFKA_CONFIG")
        run("replay", data, "--label", "y")
        learner = s.reach(n + 50, worker=worker)
        command = Path(f"/proc/{worker.process.pid}/cmdline")
        if command.exists():
            assert PASSWORD.encode() not in command.read_bytes()
        for path in ("/health", "/metrics"):
            assert PASSWORD not in page.get(path)
        assert worker.stop() == 0
        assert PASSWORD not in worker.output
    assert s.check(learner).pending.counts["joined"] == n + 50
    assert len(s.predictions()) == n + 50
    for command in ("audit", "check", "compare", "deadletters list", "inspect", "state verify"):
        run(command)
    run("backtest", "--model", "last-label")
    run("export", tmp_path / "state", "--partition", 0)
    run("import", tmp_path / "state", "--partition", 0, "--replace")


def said(connection: Connection) -> str:
    from riparian.app.kafka.admin import wait_for_broker

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

    make_topics(cluster.plain, {"tokens": 1})
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

    async def connect(seconds: float = 1.0) -> str:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        try:
            await asyncio.wait_for(reader.read(1), seconds)
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
    with pytest.raises(ssl.SSLError):  # what Kafka says of it comes after the handshake
        asyncio.run(connect(PATIENCE))
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


def test_workers_that_are_not_let_in_again_say_why_and_go_on_when_they_are(cluster, tmp_path, topic_name, monkeypatch):
    """The password of one is changed, first on the broker alone; the certificate of the other is replaced by a
    stranger's. Connections end with the broker; then both have what they need. The other is a static member that was
    killed, and goes on under its id without a rebalance."""
    new, secret = "another-battery$staple", cluster.folder / "rotated"
    secret.write_text(PASSWORD)
    asyncio.run(secured.change_password(cluster, "rotating", PASSWORD))
    password = cluster.scram("rotating", sasl_username="rotating", sasl_password=f"file:{secret}")
    certificate(cluster.folder, "alien", ca="stranger")
    files = {"ssl_certificate_location": "lost.crt", "ssl_key_location": "lost.key"}
    files = {name: str(cluster.folder / file) for name, file in files.items()}

    def hold(owner: str) -> None:
        for kind in ("crt", "key"):
            shutil.copy(cluster.folder / f"{owner}.{kind}", cluster.folder / f"lost.{kind}")

    hold("client")
    first, second = (Stream(cluster.plain, tmp_path, f"{topic_name}-{i}") for i in range(2))
    rows = instances(200)
    monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(cluster.mutual("lost", **files)))
    static = {"broker": cluster.ssl, "session_timeout": 60.0, "place": "first"}
    with second.worker(**static) as other:
        second.give(rows, 0, 50)
        second.reach(50, worker=other)
        other.kill()
    with second.worker(**static) as other:
        second.give(rows, 50, 100)
        second.reach(100, worker=other)
        assert f"Successfully synced group riparian-{second.name} with generation 1" in other.output  # no rebalance
        monkeypatch.setenv("RIPARIAN_KAFKA_CONFIG", str(password))
        with first.worker(broker=cluster.sasl) as worker:
            first.give(rows, 0, 100)
            first.reach(100, worker=worker)
            asyncio.run(secured.change_password(cluster, "rotating", new))
            hold("alien")
            cluster.broker.stop()
            cluster.broker.start()
            for one, why in (
                (worker, 'refuses sasl.username "rotating" with this sasl.password (SCRAM-SHA-512)'),
                (other, "refuses the client certificate"),
            ):
                one.wait_for("no access any more: Kafka at")
                assert why in one.output
            secret.write_text(new)
            hold("client")
            for s, one in ((first, worker), (second, other)):
                s.give(rows, 100)
                s.check(s.reach(200, worker=one))
                assert one.stop() == 0
            assert PASSWORD not in worker.output
            assert new not in worker.output
