"""The way to a schema registry, by Confluent's HTTP API: the one place where it is asked.

What a registry says is bounded: an answer by its bytes, the references of a schema by their number and by all that they
hold. A schema beyond these bounds is one by which no record can be read: its text is not kept, but why. "There is no
such schema" is only what a registry says in so many words (error codes 40401 to 40403): a proxy's 404 is no such
answer, nor is a refused password. Everything else is a RegistryError, and whoever asked may ask again.

Secrets and certificates are read anew for each session, so what was renewed meanwhile is taken. No sentence quotes one.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from riparian.app.errors import RegistryError, UnreachableError
from riparian.app.references import resolved
from riparian.topics.schemas import AVRO, MAX_SCHEMA, Key, RegisteredSchema, Written

if TYPE_CHECKING:
    from riparian.app.stream_file.sections.codec import RegistrySpec
    from riparian.app.stream_file.spec import Spec

TIMEOUT_SECONDS = 5.0
MAX_ANSWER_BYTES = 4_000_000
MAX_REFERENCES = 200
MOST_ASKED = 1_000_000  # characters of schemas after which no more are asked for at a time
AT_ONCE = 8
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
MISSING = (40401, 40402, 40403)  # subject, version, schema


class _TooLargeError(RegistryError):
    """What was asked for is larger than anything that is read."""


class Registry:
    """A schema registry.

    Parameters
    ----------
    environment : mapping of str to str
        What `${NAME}` refers to.
    """

    def __init__(self, settings: "RegistrySpec", environment: Mapping[str, str]) -> None:
        self.settings = settings
        self._addresses = settings.addresses
        self._sent: set[str] = set()  # secrets of the last session, which an answer may hold
        self._environment = environment

    @classmethod
    def of(cls, spec: "Spec") -> "Registry | None":
        """The registry of a stream; None where it has none."""
        return None if spec.registry is None else cls(spec.registry, os.environ)

    def __str__(self) -> str:
        return self.settings.url

    # -- what is asked -----------------------------------------------------------------------------------------

    async def schemas(self, keys: Collection[Key]) -> dict[Key, RegisteredSchema | None]:
        """The schemas of ids and GUIDs; None for each that the registry says it does not have. Where they are large,
        only the first of them.

        Raises
        ------
        RegistryError
            It did not answer for one of them.
        """
        async with self._session() as session:
            found: dict[Key, RegisteredSchema | None] = {}
            left, size = list(keys)[::-1], 0

            async def ask() -> None:
                nonlocal size
                while left and size < MOST_ASKED:
                    key = left.pop()
                    found[key] = schema = await self._one(session, key)
                    size += 0 if schema is None else schema.size

            tasks = [asyncio.ensure_future(ask()) for _ in range(min(AT_ONCE, len(keys)))]
            try:
                await asyncio.gather(*tasks)
                return found
            finally:
                for task in tasks:
                    task.cancel()

    async def _one(self, session: aiohttp.ClientSession, key: Key) -> RegisteredSchema | None:
        try:
            found = await self._ask(session, "GET", "schemas", "ids" if isinstance(key, int) else "guids", key)
            return None if found is None else await self._whole(session, found)
        except _TooLargeError as error:
            return RegisteredSchema(AVRO, "", flaw=str(error))

    async def latest(self, subject: str) -> Written | None:
        """The latest schema of a subject and its id; None where there is no such subject."""
        async with self._session() as session:
            found = await self._ask(session, "GET", "subjects", subject, "versions", "latest")
            return None if found is None else Written(self._id(found), await self._whole(session, found))

    async def lookup(self, subject: str, schema: RegisteredSchema) -> int | None:
        """The id of a schema under a subject; None where it is not registered there."""
        async with self._session() as session:
            found = await self._ask(session, "POST", "subjects", subject, body=_body(schema))
            return None if found is None else self._id(found)

    async def register(self, subject: str, schema: RegisteredSchema) -> int:
        """Register a schema under a subject, where it is not yet; its id."""
        async with self._session() as session:
            found = await self._ask(session, "POST", "subjects", subject, "versions", body=_body(schema))
            if found is None:
                raise RegistryError(f"the registry {self} does not register schemas: see whether registry.url is right")
            return self._id(found)

    # -- how ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        settings = self.settings
        headers, auth = {"Accept": f"{CONTENT_TYPE}, application/json"}, None
        if settings.token is not None:
            token = self._secret("token", settings.token)
            headers["Authorization"], self._sent = f"Bearer {token}", {token}
        if settings.username is not None and settings.password is not None:
            password = self._secret("password", settings.password)
            auth = aiohttp.BasicAuth(settings.username, password, "utf-8")
            self._sent = {password, auth.encode().removeprefix("Basic ")}
        tls: Any = self._context() if settings.url.startswith("https:") else True
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=AT_ONCE),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
            headers=headers,
            auth=auth,
        ) as session:
            yield session

    def _secret(self, name: str, reference: str) -> str:
        try:
            return resolved(reference, self._environment)
        except ValueError as error:
            raise RegistryError(f"registry.{name} {error}") from None

    def _context(self) -> ssl.SSLContext:
        settings = self.settings
        try:
            context = ssl.create_default_context(cafile=settings.ca)
        except (OSError, ValueError) as error:
            raise RegistryError(
                f"registry.ca: expected a PEM file of certificates, found {settings.ca} ({_reason(error)}); correct it"
            ) from None
        if settings.certificate is not None:
            password = "" if settings.key_password is None else self._secret("key_password", settings.key_password)
            try:
                context.load_cert_chain(settings.certificate, settings.key, password)
            except (OSError, ValueError) as error:
                raise RegistryError(
                    f"registry.certificate: expected a certificate and its own key in PEM form, found "
                    f"{settings.certificate} ({_reason(error)}); correct certificate, key and key_password"
                ) from None
        return context

    async def _ask(
        self, session: aiohttp.ClientSession, method: str, *path: Any, body: Any = None
    ) -> dict[str, Any] | None:
        """The answer; None where the registry says that there is nothing of that name."""
        failed: list[UnreachableError] = []
        for address in list(self._addresses):
            try:
                found = await self._ask_one(session, method, address, *path, body=body)
            except UnreachableError as error:
                failed.append(error)
            else:
                self._addresses.sort(key=lambda one: one != address)  # the next question begins with it
                return found
        raise failed[-1]

    async def _ask_one(
        self, session: aiohttp.ClientSession, method: str, address: str, *path: Any, body: Any = None
    ) -> dict[str, Any] | None:
        url = URL("/".join([address, *(quote(str(part), safe="") for part in path)]), encoded=True)
        data, headers = (None, {}) if body is None else (json.dumps(body), {"Content-Type": CONTENT_TYPE})
        try:
            async with session.request(method, url, data=data, headers=headers, allow_redirects=False) as answer:
                status, content = answer.status, bytearray()
                async for part in answer.content.iter_any():
                    content += part
                    if len(content) > MAX_ANSWER_BYTES:
                        raise (_TooLargeError if status == 200 else RegistryError)(
                            f"the registry {self} answers with more than {MAX_ANSWER_BYTES:,} bytes"
                        )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise UnreachableError(self._unreachable(error)) from None
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if status == 200 and isinstance(found, dict):
            return found
        code = found.get("error_code") if isinstance(found, dict) else None
        if status == 404 and code in MISSING:
            return None
        raise (UnreachableError if status >= 500 or status == 429 else RegistryError)(self._refused(status, found))

    def _unreachable(self, error: Exception) -> str:
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
            return f"the registry {self} and this client do not trust each other ({_reason(error)}): see registry.ca"
        if isinstance(error, TimeoutError):
            return f"the registry {self} has not answered within {TIMEOUT_SECONDS:.0f} s: see whether it runs"
        return f"the registry {self} cannot be reached ({_reason(error)}): start it, or correct registry.url"

    def _refused(self, status: int, found: Any) -> str:
        detail = ""
        if isinstance(found, dict) and "message" in found:
            message = str(found["message"])
            for secret in filter(None, self._sent):
                message = message.replace(secret, "***")
            detail = f": {_printed(message, 200)}"
        cures = {
            401: "give registry.username and registry.password, or registry.token, that it knows",
            403: "let this user read the schemas (and for --register, write them)",
            409: "make its compatibility rule allow the schema, or name another subject",
            429: "let this user ask more often",
        }
        wrong = "see its log" if status >= 500 else "see whether registry.url is the address of a registry's API"
        cure = cures.get(status, wrong)
        return f"the registry {self} refuses with status {status}{detail}; {cure}"

    def _id(self, found: dict[str, Any]) -> int:
        number = found.get("id")
        if type(number) is not int or not 0 <= number < 2**32:
            raise RegistryError(f"the registry {self} names no id of a schema: see whether registry.url is right")
        return number

    async def _whole(self, session: aiohttp.ClientSession, found: dict[str, Any]) -> RegisteredSchema:
        """A schema with all that it refers to, directly or not."""
        known: dict[tuple[str, int], tuple[str, RegisteredSchema]] = {}
        itself = self._plain(found)
        size = len(itself.text)
        if size > MAX_SCHEMA:
            raise _TooLargeError(f"it has {size:,} characters, at most {MAX_SCHEMA:,}")

        async def add(answer: dict[str, Any]) -> None:
            nonlocal size
            references = answer.get("references") or ()
            for one in references if isinstance(references, list | tuple) else (references,):
                try:
                    name, place = str(one["name"]), (str(one["subject"]), int(one["version"]))
                    (name + place[0]).encode()
                except (KeyError, TypeError, ValueError, OverflowError):  # half a character, infinity
                    raise RegistryError(f"the registry {self} answers with a reference that is none") from None
                if place in known:
                    continue
                if len(known) == MAX_REFERENCES:
                    raise _TooLargeError(f"it refers to more than {MAX_REFERENCES} others")
                known[place] = name, RegisteredSchema(AVRO, "")
                below = await self._ask(session, "GET", "subjects", place[0], "versions", place[1])
                if below is None:
                    which = f"version {place[1]} of {_printed(place[0], 200)}"
                    raise RegistryError(f"the registry {self} has no {which}, which is used")
                plain = self._plain(below)
                size += len(plain.text)
                if size > MAX_SCHEMA:
                    raise _TooLargeError(f"it has more than {MAX_SCHEMA:,} characters with what it refers to")
                await add(below)
                known[place] = known.pop(place)[0], plain  # behind what it refers to itself

        await add(found)
        return itself._replace(references=tuple(known.values()))

    def _plain(self, found: dict[str, Any]) -> RegisteredSchema:
        if not isinstance(found.get("schema"), str):
            raise RegistryError(f"the registry {self} answers without a schema: see whether registry.url is right")
        return RegisteredSchema(_printed(found.get("schemaType") or AVRO, 40), found["schema"])


def _body(schema: RegisteredSchema) -> dict[str, Any]:
    return {"schema": schema.text, **({} if schema.kind == AVRO else {"schemaType": schema.kind})}


def _printed(detail: Any, most: int) -> str:
    """What a registry says, as it may stand in a sentence: no commands for a terminal, and no page of it."""
    return "".join(one if one.isprintable() else "?" for one in str(detail)[:most])


def _reason(error: BaseException) -> str:
    """A few words, without what could be a secret."""
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(inner, OSError) and inner.errno and not isinstance(inner, ssl.SSLError):
        return os.strerror(inner.errno).lower()
    for name in ("verify_message", "reason", "strerror"):
        if found := getattr(inner, name, None):
            return str(found).replace("_", " ").lower()
    return type(inner).__name__
