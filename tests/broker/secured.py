"""A broker with secured listeners and access lists: SASL_SSL for users with passwords, SSL for client certificates, one
that wants both, and one without encryption: for OAuth tokens without a signature, and, so that hundreds of connections
cost little, for the password of the limited user.

Certificates are made by openssl, as keytool exports no private key. The plaintext listener stays, for the oracle.
"""

import base64
import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.local_broker.ports import free_port
from tests.shared import PROPERTIES

PASSWORD = "correct-horse$battery-staple"
LIMITED = "limited"  # a user with a password who may do what ACLs allow; the others are super users
LISTENERS = """
listeners=PLAINTEXT://127.0.0.1:${{port}},CONTROLLER://127.0.0.1:${{controller_port}},{listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:${{port}},{listeners}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,BOTH:SASL_SSL,OAUTH:SASL_PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:worker;User:rotating;User:plain;User:CN=client;User:oauth
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.crt
listener.name.ssl.ssl.client.auth=required
listener.name.both.ssl.client.auth=required
listener.name.both.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.both.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER,PLAIN
listener.name.oauth.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_limited="{password}";
listener.name.oauth.connections.max.reauth.ms=600000
listener.name.oauth.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_plain="{password}";
"""


class Secured(NamedTuple):
    """The addresses of the listeners, and the folder of the certificates."""

    plain: str
    sasl: str
    ssl: str
    both: str
    oauth: str
    folder: Path
    broker: LocalBroker

    def properties(self, name: str, **settings: str) -> Path:
        """A properties file; settings with _ for the dots of their names."""
        path = self.folder / f"{name}.properties"
        path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()))
        return path

    def scram(self, name: str = "scram", **changed: str) -> Path:
        settings = {
            "bootstrap_servers": self.sasl,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": "worker",
            "sasl_password": PASSWORD,
            "ssl_ca_location": str(self.folder / "ca.crt"),
        }
        return self.properties(name, **(settings | changed))

    def limited(self) -> Path:
        """For the user who may do what ACLs allow, without encryption."""
        return self.properties(
            LIMITED, bootstrap_servers=self.oauth, security_protocol="sasl_plaintext", sasl_mechanism="PLAIN",
            sasl_username=LIMITED, sasl_password=PASSWORD,
        )  # fmt: skip

    def oauth_of(self, name: str = "oauth", *, provider: str = "tests.broker.secured:token", **changed: str) -> Path:
        settings = {
            "bootstrap_servers": self.oauth,
            "security_protocol": "sasl_plaintext",
            "sasl_mechanism": "OAUTHBEARER",
        } | ({"sasl_oauthbearer_token_provider": provider} if provider else {})
        return self.properties(name, **(settings | changed))

    def both_of(self, name: str = "both", **changed: str) -> Path:
        settings = {
            "bootstrap_servers": self.both,
            "ssl_certificate_location": str(self.folder / "client.crt"),
            "ssl_key_location": str(self.folder / "client.key"),
        }
        return self.scram(name, **(settings | changed))

    def mutual(self, name: str = "mutual", **changed: str) -> Path:
        settings = {
            "bootstrap_servers": self.ssl,
            "security_protocol": "ssl",
            "ssl_ca_location": str(self.folder / "ca.crt"),
            "ssl_certificate_location": str(self.folder / "client.crt"),
            "ssl_key_location": str(self.folder / "client.key"),
        }
        return self.properties(name, **(settings | changed))


def token(lifetime: float = 3600.0, subject: str = "oauth") -> str:
    """A JSON Web Token without a signature, which the broker takes for the tests."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join([*encoded, ""])


n_short = 0  # tokens that were asked for


def short_token() -> str:
    """One that makes the broker end each connection after two seconds."""
    global n_short
    n_short += 1
    return token(2.0)


def expired_token() -> str:
    return token(-100.0)


class _AlterScramResponse(Response):  # type: ignore[misc]
    API_KEY = 51
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            CompactArray(
                ("user", CompactString("utf-8")),
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _AlterScramStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 51
    API_VERSION = 0
    RESPONSE_TYPE = _AlterScramResponse
    SCHEMA = Schema(
        ("deletions", CompactArray(("name", CompactString("utf-8")), ("mechanism", Int8), ("tags", TaggedFields))),
        (
            "upsertions",
            CompactArray(
                ("name", CompactString("utf-8")),
                ("mechanism", Int8),
                ("iterations", Int32),
                ("salt", CompactBytes),
                ("salted_password", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _AlterScram(Request[_AlterScramStruct]):  # type: ignore[misc]
    """Of one user: another password for SCRAM-SHA-512."""

    API_KEY = 51

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password

    def build(self, request_struct_class: type[_AlterScramStruct]) -> _AlterScramStruct:
        salt, iterations = b"salt", 4096
        salted = hashlib.pbkdf2_hmac("sha512", self._password.encode(), salt, iterations)
        return request_struct_class([], [(self._user, 2, iterations, salt, salted, {})], {})


async def change_password(cluster: Secured, user: str, password: str) -> None:
    """For SCRAM-SHA-512, on the broker; connections that are open stay so."""
    client = Connection(cluster.plain).admin()
    await client.start()
    try:
        answer = (await client._send_request(_AlterScram(user, password))).to_object()
        assert [one["error_code"] for one in answer["results"]] == [0], answer
    finally:
        await client.close()


# Of an elliptic curve: to make one, and a handshake of Kafka's, cost a fraction of what they do by RSA.
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    """A CA: NAME.key and NAME.crt."""
    _openssl(
        folder, "req", "-x509", *KEY, "-keyout", f"{name}.key", "-out", f"{name}.crt",
        "-days", "30", "-subj", f"/CN={name}",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip


def certificate(folder: Path, name: str, ca: str = "ca") -> None:
    """A certificate of 127.0.0.1: NAME.key, NAME.crt, and both in NAME.pem."""
    (folder / "names").write_text(
        "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n"
        "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    )
    _openssl(
        folder, "req", *KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr",
        "-subj", f"/CN={name}",
    )  # fmt: skip
    _openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial",
        "-days", "30", "-out", f"{name}.crt", "-extfile", "names",
    )  # fmt: skip
    (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())


def certificates(folder: Path) -> None:
    """All that a broker and its clients need: ca, server, client; and a CA that nobody trusts."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("ca", "stranger"):
        authority(folder, name)
    for name in ("server", "client"):
        certificate(folder, name)


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    certificates(folder / "certificates")
    addresses: dict[str, str] = {}
    for name in ("SASL_SSL", "SSL", "BOTH", "OAUTH"):
        addresses[name] = f"127.0.0.1:{free_port(*(int(one.rpartition(':')[2]) for one in addresses.values()))}"
    properties = LISTENERS.format(
        listeners=",".join(f"{name}://{address}" for name, address in addresses.items()),
        folder=folder / "certificates",
        password=PASSWORD.replace("$", "$$"),
    )
    options = []
    for kind in ("256", "512"):
        for name in ("worker", LIMITED):
            options += ["--add-scram", f'SCRAM-SHA-{kind}=[name={name},password="{PASSWORD}"]']
    with LocalBroker(
        folder / "broker", report=print, properties=properties + PROPERTIES, format_options=options
    ) as local:
        yield Secured(local.bootstrap, *addresses.values(), folder / "certificates", local)
