"""Tokens for OAUTHBEARER: fetched once, renewed in time, and each failure of the endpoint is one sentence."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from riparian.app.kafka.client.tokens import Token, TokenError, Tokens, client_credentials, provider

SECRET = "open-sesame"


class Endpoint:
    """A token endpoint on 127.0.0.1. answer : status and body of the next answers. asked : what was sent."""

    def __init__(self) -> None:
        self.answer: tuple[int, Any] = 200, {"access_token": "t", "expires_in": 3600}
        self.asked: list[tuple[str, str]] = []
        this = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                this.asked.append((self.headers["Authorization"], form))
                status, body = this.answer
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def fetch(self) -> Callable[[], Token]:
        return client_credentials(self.url, "riparian", lambda: SECRET, "kafka", None)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_a_token_is_asked_for_once_by_all_clients(endpoint: Endpoint) -> None:
    tokens = Tokens(endpoint.fetch(), {"logicalCluster": "a"})

    async def ask() -> list[str]:
        return await asyncio.gather(*(tokens.token() for _ in range(5)))

    assert asyncio.run(ask()) == ["t"] * 5
    ((authorization, form),) = endpoint.asked
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == f"riparian:{SECRET}"
    assert form == "grant_type=client_credentials&scope=kafka"
    assert tokens.extensions() == {"logicalCluster": "a"}


def test_it_is_renewed_before_it_expires_and_used_while_that_fails() -> None:
    answers: list[Token | TokenError] = []

    def fetch() -> Token:
        found = answers.pop(0)
        if isinstance(found, TokenError):
            raise found
        return found

    tokens = Tokens(fetch, {})
    now = time.time()
    answers[:] = [Token("one", now + 1000), Token("two", now + 1000)]
    assert tokens.current() == "one"
    assert 795 < tokens._renew_at - now < 805
    assert tokens.current() == "one"
    tokens._renew_at = now - 1
    answers[:] = [TokenError("away")]
    assert tokens.current() == "one"
    answers[:] = [Token("two", now + 1000)]
    assert tokens.current() == "two"
    tokens._renew_at, tokens._token = now - 1, Token("two", now - 1)
    answers[:] = [TokenError("away"), Token("three", None), Token("four", None)]
    with pytest.raises(TokenError, match=r"^away$"):
        tokens.current()
    assert [tokens.current(), tokens.current()] == ["three", "four"]  # nobody said how long it holds


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {"error": "invalid_client", "error_description": SECRET}), r"\(HTTP 401, invalid_client\): correct"),
        ((500, b"no"), r"\(HTTP 500\)"),
        ((302, b""), r"\(HTTP 302\)"),
        ((200, b"no"), "answers without an access_token"),
        ((200, []), "answers without an access_token"),
        ((200, {"access_token": ""}), "answers without an access_token"),
        ((200, {"access_token": "a\x01b"}), "answers without an access_token"),
        ((200, {"access_token": "a", "expires_in": {}}), "answers without an access_token"),
        ((200, b"[" * 100_000), "answers without an access_token"),
    ],
)
def test_each_failure_is_one_sentence(endpoint: Endpoint, answer: tuple[int, Any], said: str) -> None:
    endpoint.answer = answer
    with pytest.raises(TokenError, match=said) as error:
        endpoint.fetch()()
    assert SECRET not in str(error.value)
    assert str(error.value).startswith(f"the token endpoint {endpoint.url} ")
    assert len(endpoint.asked) == 1


def test_an_absent_endpoint_is_one_sentence() -> None:
    with pytest.raises(TokenError, match=r"does not answer \(Connection refused\)"):
        client_credentials("http://127.0.0.1:1/token", "a", lambda: SECRET, None, None)()


def jwt(claims: dict[str, Any]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims)]
    return ".".join([*parts, ""])


def test_a_function_of_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"""
def plain(): return {jwt({"exp": 1234})!r}
def seconds(): return "t", 5678
def milliseconds(): return "t", 1_700_000_000_000
def wrong(): return None
def fails(): raise RuntimeError("no credentials")
class Signer:
    @staticmethod
    def token(): return "t", 5678.5
"""
    (tmp_path / "token_functions.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    def of(name: str) -> Token:
        return provider(f"token_functions:{name}")()

    assert of("plain").expires == 1234
    assert of("seconds") == ("t", 5678)
    assert of("milliseconds").expires == 1_700_000_000
    assert of("Signer.token").expires == 5678.5
    for name, said in (
        ("wrong", "gives neither a token"),
        ("fails", r"fails \(RuntimeError: no credentials\)"),
        ("none", "cannot be imported"),
    ):
        with pytest.raises(TokenError, match=said):
            of(name)
    with pytest.raises(TokenError, match="cannot be imported"):
        provider("no_such_module:a")()
