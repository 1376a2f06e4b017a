"""Tokens for OAUTHBEARER: of an OAuth 2.0 endpoint by client credentials (RFC 6749, section 4.4), or of a function of
the user's own. They are kept for all clients of a process, and renewed after four fifths of their life.

aiokafka asks for a token whenever it connects. An error that it shall survive has to be a `KafkaError`.
"""

import asyncio
import base64
import importlib
import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

log = logging.getLogger(__name__)

RENEWED_AFTER = 0.8  # share of a token's life after which it is renewed, as by librdkafka
SECONDS = 10.0  # longest wait for an answer of the endpoint, s
MAX_BYTES = 1_000_000  # largest answer, bytes
MILLISECONDS = 1e11  # expiry times above are in ms


class TokenError(KafkaError):  # type: ignore[misc]
    """There is no token: one sentence."""

    def __str__(self) -> str:
        return str(self.args[0])


class Token(NamedTuple):
    """expires : epoch seconds; None where nobody said."""

    text: str
    expires: float | None


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of a connection.

    Parameters
    ----------
    fetch : callable
        Gives a new token, or raises TokenError. Called in a thread, never twice at once.
    extensions : dict of str to str
        SASL extensions, sent beside the token.
    """

    def __init__(self, fetch: Callable[[], Token], extensions: dict[str, str]) -> None:
        self._fetch, self._extensions = fetch, extensions
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    async def token(self) -> str:
        return await asyncio.to_thread(self.current)

    def extensions(self) -> dict[str, str]:
        return self._extensions

    def current(self) -> str:
        """A token that has not expired. TokenError where there is none."""
        with self._lock:
            now = time.time()
            if self._token is not None and now < self._renew_at:
                return self._token.text
            try:
                token = self._fetch()
            except TokenError as error:
                if self._token is None or self._token.expires is None or now >= self._token.expires:
                    raise
                log.warning("the token is not renewed, and holds for %.0f s more: %s", self._token.expires - now, error)
                return self._token.text
            self._token = token
            self._renew_at = now if token.expires is None else now + RENEWED_AFTER * (token.expires - now)
            return token.text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirection would take the secret to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def client_credentials(
    url: str, name: str, secret: Callable[[], str], scope: str | None, ca: Path | None
) -> Callable[[], Token]:
    """Fetches tokens of an endpoint.

    secret : asked for each time. ca : PEM file or folder of the CAs to trust, instead of the system's."""
    place = urllib.parse.urlsplit(url)
    shown = f"{place.scheme}://{place.hostname}{f':{place.port}' if place.port else ''}{place.path}"
    form = {"grant_type": "client_credentials"} | ({} if scope is None else {"scope": scope})

    def fetch() -> Token:
        began = time.time()
        basic = base64.b64encode(f"{name}:{secret()}".encode()).decode()
        request = urllib.request.Request(
            url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {basic}", "Accept": "application/json"},
        )
        try:
            folder = ca is not None and ca.is_dir()
            context = ssl.create_default_context(
                cafile=None if ca is None or folder else str(ca), capath=str(ca) if folder else None
            )
            opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect)
            with opener.open(request, timeout=SECONDS) as answer:
                found = json.loads(answer.read(MAX_BYTES))
            text = found["access_token"]
            if not isinstance(text, str) or not text.isprintable() or not text:
                raise ValueError
            lifetime = found.get("expires_in")
            expires = _expiry_of(text) if lifetime is None else began + float(lifetime)
        except urllib.error.HTTPError as error:
            raise TokenError(
                f"the token endpoint {shown} refuses sasl.oauthbearer.client.id {name!r} (HTTP {error.code}"
                f"{_detail(error)}): correct the client, its secret or sasl.oauthbearer.scope"
            ) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise TokenError(
                    f"the token endpoint {shown} shows a certificate that is not trusted ({reason.verify_message}): "
                    "name the PEM file of its CA by https.ca.location"
                ) from None
            raise TokenError(
                f"the token endpoint {shown} does not answer ({getattr(reason, 'strerror', None) or reason}): see "
                "sasl.oauthbearer.token.endpoint.url, and that it runs"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise TokenError(
                f"the token endpoint {shown} answers without an access_token: see that "
                "sasl.oauthbearer.token.endpoint.url is the one for tokens"
            ) from None
        return Token(text, expires)

    return fetch


def _detail(error: urllib.error.HTTPError) -> str:
    """The error code in an answer (RFC 6749, section 5.2), which is no secret."""
    try:
        code = json.loads(error.read(MAX_BYTES))["error"]
    except Exception:
        return ""
    return f", {code}" if isinstance(code, str) and code.isidentifier() else ""


def _expiry_of(token: str) -> float | None:
    """When a JSON Web Token expires; None where it does not say, or is none."""
    try:
        claims = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except Exception:
        return None


def provider(path: str) -> Callable[[], Token]:
    """Fetches tokens by a function without arguments that gives the token, or the token and when it expires (epoch
    seconds or ms). path : "package.module:function"."""

    def fetch() -> Token:
        module, _, name = path.partition(":")
        try:
            function: Any = importlib.import_module(module)
            for part in name.split("."):
                function = getattr(function, part)
        except Exception as error:
            raise TokenError(
                f"sasl.oauthbearer.token.provider names {path}, which cannot be imported ({type(error).__name__}: "
                f"{error}): name a function as package.module:function"
            ) from None
        try:
            found = function()
        except Exception as error:
            raise TokenError(
                f"sasl.oauthbearer.token.provider {path} fails ({type(error).__name__}: {error})"
            ) from error
        text, expires = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if not isinstance(text, str) or not text or not isinstance(expires, int | float | None):
            raise TokenError(
                f"sasl.oauthbearer.token.provider {path} gives neither a token nor a token and its expiry: return a "
                "text, or a text and a number"
            )
        if expires is None:
            return Token(text, _expiry_of(text))
        return Token(text, expires / 1000 if expires > MILLISECONDS else float(expires))

    return fetch
