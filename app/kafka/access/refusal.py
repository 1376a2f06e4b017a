"""Why a cluster does not let a client in, in one sentence.

aiokafka writes the true reason into its log and raises "Unable to bootstrap", whatever it was. So, when a client could
not start, one connection is opened here step by step: to the port, TLS, and the password.
"""

import asyncio
import contextlib
import logging
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from riparian.app.errors import AccessError
from riparian.app.kafka.client.settings import OAUTH, Settings
from riparian.app.kafka.client.tokens import TokenError
from riparian.app.kafka.connection import Connection

SECONDS = 5.0
TAKES_NONE = "takes no password on this port: set security.protocol to {}, or name its port for SASL."
EXPIRED, WRONG_HOST, WRONG_ADDRESS = 10, 62, 64  # of OpenSSL's verification


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the clients' own log lines to themselves: what goes wrong is said in our sentence."""
    logger = logging.getLogger("aiokafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


async def start(client: Any, connection: Connection) -> None:
    """Start a client. AccessError with the true reason where Kafka is there and does not let it in."""
    try:
        await client.start()
    except (KafkaError, OSError) as error:
        reason = await refusal(connection)
        if reason is not None:
            raise AccessError(reason) from error
        raise
    if not client._client.cluster.brokers():  # what answers was no broker that lets us in
        reason = await refusal(connection)
        if reason is not None:
            raise AccessError(reason)


async def refusal(connection: Connection) -> str | None:
    """One sentence of the first bootstrap server that answers and refuses; None where none does."""
    for host, port in connection.addresses:
        with contextlib.suppress(OSError, KafkaError, asyncio.IncompleteReadError):
            reason = await _refusal(connection, host, port) or await _elsewhere(connection, host, port)
            if reason is not None:
                return f"Kafka at {host}:{port} {reason}"
    return None


async def _elsewhere(connection: Connection, host: str, port: int) -> str | None:
    """Where a broker has its clients call the cluster, if that cannot be reached from here: no request gets further
    than the first one."""
    opened = await connection.open(host, port, seconds=SECONDS)
    try:
        answer = await opened.send(MetadataRequest([]))
    finally:
        opened.close()
    named = [(one[1], one[2]) for one in answer.brokers]
    found = await asyncio.gather(*(_unreachable(*address) for address in named))
    if not found or None in found:
        return None
    calls = " and ".join(f"{name}:{at} ({why})" for (name, at), why in zip(named, found, strict=True))
    return (
        f"answers, and has its clients call {calls}, which cannot be reached from here: correct advertised.listeners "
        "of the broker, or make it known to this machine."
    )


async def _unreachable(host: str, port: int) -> str | None:
    """Why nothing can be reached there; None where something can."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), SECONDS)
    except socket.gaierror:
        return "the name is not known"
    except ConnectionRefusedError:
        return "nothing listens there"
    except TimeoutError:
        return f"no answer in {SECONDS:.0f} s"
    except OSError as error:
        return (error.strerror or type(error).__name__).lower()
    writer.close()
    return None


async def _refusal(connection: Connection, host: str, port: int) -> str | None:
    settings = connection.settings or Settings.model_validate({})
    _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), SECONDS)  # OSError: nobody is there
    writer.close()
    name = f"security.protocol={settings.protocol}"
    context = settings.context()
    if context is not None:
        reason = await _tls(host, port, context, settings)
        if reason is not None:
            return reason
        if not await _answers_tls(host, port) and await _answers_plain(connection, host, port):
            plain = "sasl_plaintext" if settings.sasl else "plaintext"
            return f"speaks no TLS on this port, and {name} does: name its port for TLS, or set {plain}."
    elif await _answers_tls(host, port):
        secure = "sasl_ssl" if settings.sasl else "ssl or sasl_ssl"
        return f"speaks TLS on this port, and {name} does not: set it to {secure}, or name the port without TLS."
    return await _kafka(connection, host, port, settings)


async def _tls(host: str, port: int, context: ssl.SSLContext, settings: Settings) -> str | None:
    """What is wrong with the certificates; None where nothing is, or where the port speaks no TLS."""
    certificate = (
        "set ssl.certificate.location and ssl.key.location."
        if settings.certificate is None
        else f"see ssl.certificate.location ({settings.certificate}), and whom the broker trusts."
    )
    try:
        await _handshake(host, port, context)
    except ssl.SSLCertVerificationError as error:
        found = f"shows a certificate that is not trusted ({error.verify_message})"
        if error.verify_code == EXPIRED:
            return "shows a certificate that has expired: renew it, or correct the clock of this machine."
        if error.verify_code in (WRONG_HOST, WRONG_ADDRESS):
            return (
                f"shows a certificate for another name ({error.verify_message.rstrip('.')}): name the broker as its "
                "certificate does, or set ssl.endpoint.identification.algorithm to none."
            )
        return f"{found}: name the PEM file of the CA that signed it by ssl.ca.location."
    except ssl.SSLError as error:
        reason = str(error.reason or "")
        if ("CERTIFICATE" in reason and "ALERT" in reason) or reason.endswith("HANDSHAKE_FAILURE"):
            wanted = "wants a client certificate" if settings.certificate is None else "refuses the client certificate"
            return f"{wanted} ({reason.replace('_', ' ').lower()}): {certificate}"
    except OSError:
        pass
    return None


async def _handshake(host: str, port: int, context: ssl.SSLContext) -> None:
    """A TLS handshake. A broker that refuses our certificate says so after it, where it would answer nothing else."""
    reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port, ssl=context), SECONDS)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.5)
    finally:
        writer.close()


async def _answers_tls(host: str, port: int) -> bool:
    """Whether a port speaks TLS at all, with whomever."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port, ssl=context), SECONDS)
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)  # it may refuse a client without a certificate, in TLS
    except OSError:
        return False
    writer.close()
    return True


async def _answers_plain(connection: Connection, host: str, port: int) -> bool:
    """Whether a port answers Kafka's requests without TLS."""
    try:
        opened = await connection.open(host, port, secured=False, seconds=SECONDS)
    except (OSError, KafkaError):
        return False
    opened.close()
    return True


async def _oauth(connection: Connection, host: str, port: int, settings: Settings) -> str | None:
    """What the token endpoint says, or the broker to the token. The client takes the broker's no for a yes: it does not
    read what the broker answers to a token (RFC 7628, section 3.2.2), and is cut off at its next request."""
    try:
        token = await settings.tokens.token()
    except TokenError as error:
        return f"wants a token, and there is none: {error}."
    opened = await connection.open(host, port, sasl=False, seconds=SECONDS)
    try:
        handshake = await opened.send(SaslHandShakeRequest(OAUTH))
        if handshake.error_code == IllegalSaslStateError.errno:
            return TAKES_NONE.format("ssl" if settings.tls else "plaintext")
        if OAUTH not in handshake.enabled_mechanisms:
            return f"does not take sasl.mechanism={OAUTH}: set one that its listener enables."
        extensions = "".join(f"\x01{key}={value}" for key, value in settings.extensions.items())
        first = f"n,,\x01auth=Bearer {token}{extensions}\x01\x01".encode()
        answer = await opened.send(SaslAuthenticateRequest(first))
        if answer.error_code == 0 and not answer.sasl_auth_bytes:
            return None
        status = re.search(rb'"status"\s*:\s*"([\w-]+)"', answer.sasl_auth_bytes or b"")
        why = f" ({status[1].decode()})" if status else ""
        return (
            f"refuses the token{why}: see its issuer, audience, scope and lifetime, and what the broker expects of it."
        )
    finally:
        opened.close()


async def _kafka(connection: Connection, host: str, port: int, settings: Settings) -> str | None:
    """What the broker says to our password, token, or to none."""
    if settings.oauth:
        return await _oauth(connection, host, port, settings)
    who = f'sasl.username "{settings.username}"'
    try:
        opened = await connection.open(host, port, seconds=SECONDS)
    except (SaslAuthenticationFailed, AuthenticationFailedError):
        return (
            f"refuses {who} with this sasl.password ({settings.mechanism}): correct them, and see that the user exists "
            "for this sasl.mechanism."
        )
    except UnsupportedSaslMechanismError:
        return f"does not take sasl.mechanism={settings.mechanism}: set one that its listener enables."
    except IllegalSaslStateError:
        without = "ssl" if settings.tls else "plaintext"
        return TAKES_NONE.format(without)
    try:
        # Whoever needs a password names the mechanisms for it; whoever needs none refuses to speak of it.
        if not settings.sasl:
            answer = await opened.send(SaslHandShakeRequest("PLAIN"))
            if answer.error_code != IllegalSaslStateError.errno:
                with_password = "sasl_ssl" if settings.tls else "sasl_plaintext"
                return (
                    f"wants a password on this port: set security.protocol to {with_password}, and sasl.mechanism, "
                    "sasl.username and sasl.password, or name its port without one."
                )
    finally:
        opened.close()
    return None
