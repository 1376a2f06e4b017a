"""The client of a schema registry, on a server that answers as one does, and as one does not."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from riparian.app.errors import RegistryError, UnreachableError
from riparian.app.registry import client
from riparian.app.registry.client import Registry
from riparian.app.stream_file.sections.codec import RegistrySpec
from riparian.topics.schemas import AVRO, JSON, RegisteredSchema, Written

GUID = "0e3e1f2a-1111-2222-3333-444455556666"
PASSWORD = "correct-horse"
GONE = [{"name": "x", "subject": "gone", "version": 1}]


def asked(
    what: Any, answer: Any, environment: dict[str, str] | None = None, **settings: Any
) -> tuple[Any, list[web.Request]]:
    """What `what(registry)` gives on a server that gives `answer`: path -> (status, JSON or text)."""

    async def run() -> tuple[Any, list[web.Request]]:
        seen: list[web.Request] = []

        async def handle(request: web.Request) -> web.Response:
            seen.append(request)
            status, body = answer.get(request.raw_path, (404, {"error_code": 40403, "message": "not found"}))
            text = body if isinstance(body, str) else json.dumps(body)
            return web.Response(status=status, text=text, headers={"Location": "http://127.0.0.1:1/"})

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(app) as server:
            registry = Registry(RegistrySpec(url=str(server.make_url("/api")), **settings), environment or {})
            return await what(registry), seen

    return asyncio.run(run())


def test_schemas_by_id_and_guid_with_what_they_refer_to() -> None:
    ref = [{"name": "com.X", "subject": "x/y", "version": 3}]
    base = [{"name": "com.Base", "subject": "base", "version": 1}]
    found, seen = asked(
        lambda registry: registry.schemas([1, GUID, 9]),
        {
            "/api/schemas/ids/1": (200, {"schema": "text", "references": [*ref, *base]}),
            f"/api/schemas/guids/{GUID}": (200, {"schema": "{}", "schemaType": "JSON"}),
            "/api/subjects/x%2Fy/versions/3": (200, {"schema": "x", "references": base}),
            "/api/subjects/base/versions/1": (200, {"schema": "base"}),
        },
    )
    below = ("com.Base", RegisteredSchema(AVRO, "base")), ("com.X", RegisteredSchema(AVRO, "x"))
    assert found == {1: RegisteredSchema(AVRO, "text", below), GUID: RegisteredSchema(JSON, "{}"), 9: None}
    assert all("schemaregistry" in request.headers["Accept"] for request in seen)


def test_subjects() -> None:
    answer = {
        "/api/subjects/a%2Fb/versions/latest": (200, {"id": 4, "schema": "s"}),
        "/api/subjects/a": (200, {"id": 5}),
    }
    answer["/api/subjects/a/versions"] = (200, {"id": 6})
    assert asked(lambda r: r.latest("a/b"), answer)[0] == Written(4, RegisteredSchema(AVRO, "s"))
    assert asked(lambda r: r.latest("c"), answer)[0] is None
    assert asked(lambda r: r.lookup("a", RegisteredSchema(AVRO, "s")), answer)[0] == 5
    assert asked(lambda r: r.lookup("b", RegisteredSchema(AVRO, "s")), answer)[0] is None
    assert asked(lambda r: r.register("a", RegisteredSchema(AVRO, "s")), answer)[0] == 6


def test_secrets_come_from_elsewhere_and_go_nowhere_else(tmp_path: Path) -> None:
    answer = {"/api/schemas/ids/1": (200, {"schema": "s"})}
    ask = lambda registry: registry.schemas([1])  # noqa: E731
    _, (request,) = asked(ask, answer, {"P": PASSWORD}, username="ü", password="${P}")
    assert request.headers["Authorization"] == "Basic w7w6Y29ycmVjdC1ob3JzZQ=="
    token = tmp_path / "token"
    token.write_text("t1\n")
    _, (request,) = asked(ask, answer, token=f"file:{token}")
    assert request.headers["Authorization"] == "Bearer t1"
    for settings in ({"token": "${NONE}"}, {"username": "u", "password": f"file:{tmp_path}/none"}):
        with pytest.raises(RegistryError, match=r"registry\.(token|password) refers to the .* which"):
            asked(ask, answer, **settings)
    with pytest.raises(RegistryError) as error:
        asked(ask, {"/api/schemas/ids/1": (401, {"message": "no"})}, {"P": PASSWORD}, username="u", password="${P}")
    assert PASSWORD not in str(error.value)
    assert "refuses with status 401: no; give registry.username" in str(error.value)
    # A registry, or a proxy before it, that repeats what it was sent.
    for settings in ({"token": "${P}"}, {"username": "u", "password": "${P}"}):
        echo = {"message": f"Bearer {PASSWORD}, Basic dTpjb3JyZWN0LWhvcnNl, no"}
        with pytest.raises(RegistryError, match=r"Bearer \*\*\*, ") as error:
            asked(ask, {"/api/schemas/ids/1": (401, echo)}, {"P": PASSWORD}, **settings)
        assert "username" not in settings or "dTpjb3JyZWN0LWhvcnNl" not in str(error.value)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((404, "<html>no such page</html>"), RegistryError, "status 404; see whether registry.url"),
        ((404, {"error_code": 0, "message": "no resource"}), RegistryError, "status 404: no resource"),
        ((404, {"error_code": 40401}), None, None),
        ((403, {"error_code": 40301}), RegistryError, "let this user read the schemas"),
        ((302, ""), RegistryError, "status 302"),
        ((500, {"error_code": 50001, "message": "store"}), UnreachableError, "status 500: store; see its log"),
        ((429, ""), UnreachableError, "status 429; let this user ask more often"),
        ((200, "not json"), RegistryError, "status 200"),
        ((200, "[" * 100_000), RegistryError, "status 200"),
        ((200, {"id": 1}), RegistryError, "answers without a schema"),
        ((200, {"schema": "s", "references": [{"name": "x"}]}), RegistryError, "a reference that is none"),
        ((200, {"schema": "s", "references": 5}), RegistryError, "a reference that is none"),
        ((200, {"schema": "s", "references": [{**GONE[0], "version": math.inf}]}), RegistryError, "that is none"),
        ((200, {"schema": "s", "references": [{**GONE[0], "subject": "\ud800"}]}), RegistryError, "that is none"),
        ((403, {"message": "\x1b[2J" + "x" * 999}), RegistryError, r"status 403: \?\[2Jx{196}; let"),
        ((200, {"schema": "s", "references": GONE}), RegistryError, "of gone"),
        ((403, {"message": "x" * client.MAX_ANSWER_BYTES}), RegistryError, "more than 4,000,000 bytes"),
    ],
)  # fmt: skip
def test_only_the_registry_s_own_words_say_that_a_schema_is_not_there(answer: Any, kind: Any, said: str | None) -> None:
    ask = lambda registry: registry.schemas([1])  # noqa: E731
    if kind is None:
        assert asked(ask, {"/api/schemas/ids/1": answer})[0] == {1: None}
        return
    with pytest.raises(RegistryError, match=said) as error:
        asked(ask, {"/api/schemas/ids/1": answer})
    assert type(error.value) is kind


def test_of_several_addresses_the_first_that_answers_is_asked() -> None:
    async def run() -> None:
        asked = []

        async def handle(request: web.Request) -> web.Response:
            asked.append(str(request.url))
            return web.Response(status=503 if request.path.startswith("/away") else 200, text='{"schema": "s"}')

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(app) as server:
            urls = ["http://127.0.0.1:9", str(server.make_url("/away")), str(server.make_url("/here")) + "/"]
            registry = Registry(RegistrySpec(url=", ".join(urls)), {})
            assert await registry.schemas([1]) == {1: RegisteredSchema(AVRO, "s")}
            assert await registry.schemas([2]) == {2: RegisteredSchema(AVRO, "s")}
            assert [url.partition("/schemas")[0][-5:] for url in asked] == ["/away", "/here", "/here"]
            with pytest.raises(UnreachableError, match=r"status 503"):
                await Registry(RegistrySpec(url=",".join(urls[:2])), {}).schemas([1])

    asyncio.run(run())


def test_schemas_beyond_all_bounds_are_known_as_such_and_not_kept() -> None:
    """Their records are dead letters: they would wait for ever for an answer that can be read."""
    chain = {f"/api/subjects/s{i}/versions/1": (200, {"schema": "x", "references": [
        {"name": f"n{i + 1}", "subject": f"s{i + 1}", "version": 1}]}) for i in range(300)}  # fmt: skip
    large = {f"/api/subjects/l{i}/versions/1": (200, {"schema": "x" * 300_000}) for i in range(9)}
    answer = {**chain, **large, "/api/schemas/ids/1": (200, {"schema": "x" * client.MAX_ANSWER_BYTES})}
    answer["/api/schemas/ids/2"] = 200, {"schema": "x" * 1_000_001}
    answer["/api/schemas/ids/3"] = 200, {"schema": "x", "references": [{"name": "n", "subject": "s0", "version": 1}]}
    answer["/api/schemas/ids/4"] = (
        200, {"schema": "x", "references": [{"name": f"l{i}", "subject": f"l{i}", "version": 1} for i in range(9)]},
    )  # fmt: skip
    found, seen = asked(lambda registry: registry.schemas([1, 2, 3, 4]), answer)
    flaws = {key: schema.flaw for key, schema in found.items()}
    assert [schema.size for schema in found.values()] == [0] * 4
    assert flaws[1].endswith("answers with more than 4,000,000 bytes")
    assert flaws[2] == "it has 1,000,001 characters, at most 1,000,000"
    assert flaws[3] == "it refers to more than 200 others"
    assert flaws[4] == "it has more than 1,000,000 characters with what it refers to"
    assert sum("/subjects/l" in request.path for request in seen) == 4
    # Where all are large, the first of them are told.
    answer = {f"/api/schemas/ids/{i}": (200, {"schema": "x" * 600_000}) for i in range(100)}
    found, seen = asked(lambda registry: registry.schemas(range(100)), answer)
    assert 2 <= len(found) <= 1 + client.AT_ONCE
    assert len(seen) == len(found)


def test_a_registry_that_is_not_there(tmp_path: Path) -> None:
    def ask(**settings: Any) -> None:
        asyncio.run(Registry(RegistrySpec(**settings), {}).schemas([1]))

    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9 cannot be reached \(.*refused\): start it"):
        ask(url="http://127.0.0.1:9")
    with pytest.raises(RegistryError, match=r"registry\.ca: expected a PEM file"):
        ask(url="https://127.0.0.1:9", ca=str(tmp_path / "none"))
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(RegistryError, match=r"registry\.certificate: expected a certificate and its own key"):
        ask(url="https://127.0.0.1:9", certificate=str(tmp_path / "ca.pem"))
