"""A local broker as a secured cluster is: TLS with certificates on both sides, passwords (SCRAM) and access lists.

Certificates and passwords are made at the first start, below the broker's data directory, for its owner alone, and are
kept: `admin.properties` is for whoever grants rights, `client.properties` for a user that has none until then. Who
connects without certificate and password gets no answer; the controller's listener, on loopback as well, wants the
broker's own certificate.
"""

import os
import secrets
import socket
import ssl
import struct
import subprocess
from pathlib import Path

from app.errors import BrokerError

FOLDER = "secure"
ADMIN, USER = "admin", "riparian"
DAYS = 3650
PROPERTIES = """
listeners=SASL_SSL://127.0.0.1:${{port}},CONTROLLER://127.0.0.1:${{controller_port}}
advertised.listeners=SASL_SSL://127.0.0.1:${{port}}
inter.broker.listener.name=SASL_SSL
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:SSL
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:CN=broker
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.crt
ssl.client.auth=required
listener.name.controller.ssl.client.auth=required
listener.name.sasl_ssl.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username="{admin}" password="{password}";
"""


def is_secure(data_dir: Path) -> bool:
    """Whether the broker of a data directory was made so."""
    return (data_dir / FOLDER).is_dir()


def client_file(data_dir: Path, user: str = USER) -> Path:
    """The properties file of a user."""
    name = "admin" if user == ADMIN else "client"
    return data_dir / FOLDER / f"{name}.properties"


def make(data_dir: Path, port: int) -> tuple[str, list[str]]:
    """Certificates, passwords and properties files, as far as they are not there.

    Returns
    -------
    properties : str
        Lines of the broker's, with ${port} and ${controller_port} to be filled in.
    format_options : list of str
        Of Kafka's StorageTool, which knows the users from then on.

    Raises
    ------
    BrokerError
        The directory holds topics of a broker that was not secured, or there is no openssl.
    """
    folder = data_dir / FOLDER
    if not folder.is_dir():
        if (data_dir / "kafka" / "meta.properties").exists():
            raise BrokerError(
                f"the broker of {data_dir} was made without --secure: start it so, or choose another --data"
            )
        fresh = data_dir / f"{FOLDER}.new"
        fresh.mkdir(mode=0o700, parents=True, exist_ok=True)
        _certificates(fresh)
        for user in (ADMIN, USER):
            _write(fresh / f"{user}.password", secrets.token_urlsafe(24))
        fresh.replace(folder)
    words = {user: (folder / f"{user}.password").read_text(encoding="utf-8") for user in (ADMIN, USER)}
    for user in words:
        _write(client_file(data_dir, user), _client(folder, port, user))
    properties = PROPERTIES.format(
        folder=str(folder).replace("\\", "\\\\").replace("$", "$$"), admin=ADMIN, password=words[ADMIN]
    )
    options = []
    for user, password in words.items():
        options += ["--add-scram", f'SCRAM-SHA-512=[name={user},password="{password}"]']
    return properties, options


def answers(data_dir: Path, port: int, timeout_seconds: float = 2.0) -> bool:
    """Whether the broker lets the owner of the certificates in: it answers which requests it knows."""
    folder = data_dir / FOLDER
    versions, version, correlation = 18, 0, 1
    request = struct.pack(">hhih", versions, version, correlation, 8) + b"riparian"
    try:
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        context.load_cert_chain(folder / "client.crt", folder / "client.key")
        with (
            socket.create_connection(("127.0.0.1", port), timeout_seconds) as link,
            context.wrap_socket(link, server_hostname="127.0.0.1") as safe,
            safe.makefile("rb") as reader,
        ):
            safe.sendall(struct.pack(">i", len(request)) + request)
            head = reader.read(8)
    except OSError:
        return False
    return len(head) == 8 and struct.unpack(">ii", head)[1] == correlation


def _client(folder: Path, port: int, user: str) -> str:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": f"file:{folder / f'{user}.password'}",
        "ssl.ca.location": folder / "ca.crt",
        "ssl.certificate.location": folder / "client.crt",
        "ssl.key.location": folder / "client.key",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _write(path: Path, text: str) -> None:
    """For the owner alone."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _certificates(folder: Path) -> None:
    """An authority, and what the broker and its clients show: ca, broker, client."""
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    new = ["-newkey", "rsa:2048", "-nodes"]
    days = ["-days", str(DAYS)]
    _openssl(folder, "req", "-x509", *new, *days, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", *usage)
    _write(folder / "names", "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
    for name in ("broker", "client"):
        files = ["-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"]
        _openssl(folder, "req", *new, *files)
        signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", *days]
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.crt")
    _write(folder / "broker.pem", (folder / "broker.key").read_text() + (folder / "broker.crt").read_text())
    (folder / "ca.key").unlink()  # nothing else is to be signed


def _openssl(folder: Path, *arguments: str) -> None:
    try:
        umask = os.umask(0o077)
        try:
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, text=True)
        finally:
            os.umask(umask)
    except FileNotFoundError:
        raise BrokerError("--secure makes certificates with openssl, which is not there: install openssl") from None
    except subprocess.CalledProcessError as error:
        raise BrokerError(f"openssl made no certificate: {error.stderr.strip()[-300:]}") from None
