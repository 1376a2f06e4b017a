"""Which of the ACLs that a command needs this client does not have.

A broker tells a client what it may do with each topic (in its answer about metadata). Groups and transactional ids are
asked about by requests that change nothing: a heartbeat of a member that there is not, the end of a transaction of a
producer that there is not. The broker looks at its lists before it looks at these.
"""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.admin import CreateAclsRequest, DescribeGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.transaction import EndTxnRequest
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from riparian.app.errors import AccessError, RiparianError
from riparian.app.kafka.access.acls import (
    ALTER,
    CONFIGS,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Right,
    needed,
)
from riparian.app.kafka.admin import admin_client, wait_for_broker
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

# By the numbers of Kafka's protocol.
_OPERATIONS = {READ: 3, WRITE: 4, CREATE: 5, DELETE: 6, ALTER: 7, DESCRIBE: 8, CONFIGS: 10}
_KINDS = {TOPIC: 2, GROUP: 3, TRANSACTIONAL_ID: 5}
_LITERAL, _PREFIXED, _ALLOW = 3, 4, 3
_UNKNOWN = -(2**31)

DENIED = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    ClusterAuthorizationFailedError,
)


def denied(error: BaseException | None) -> bool:
    """Whether an error, or what it came from, is that an ACL is missing."""
    seen: list[BaseException] = []  # an error that was raised from itself is its own cause
    while error is not None and not isinstance(error, DENIED) and error not in seen:
        seen.append(error)
        error = error.__cause__
    return isinstance(error, DENIED)


class _MetadataResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8")))),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
        ("operations", Int32),
    )


class _MetadataStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8  # the client's own end at 5, which tells nothing of operations
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _Metadata(Request[_MetadataStruct]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_MetadataStruct]) -> _MetadataStruct:
        return request_struct_class(self._topics, False, True, True)


async def missing(connection: Connection, rights: Sequence[Right]) -> list[Right]:
    """Those of `rights` that this client does not have, in their order; Create only of topics that are not there.

    None is missing where the broker does not tell: before Kafka 2.3, or as it does not know access lists.
    """
    topics = list(dict.fromkeys(right.name for right in rights if right.kind == TOPIC))
    async with admin_client(connection) as client:
        allowed, absent = await _topics(client, topics)
        found = []
        for right in rights:
            if right.kind == TOPIC:
                operations = allowed.get(right.name)
                has = operations is None or right.operation in operations
                has |= right.operation == CREATE and right.name not in absent
            else:
                has = await _has(client, right)
            if not has:
                found.append(right)
    return found


async def _topics(client: Any, topics: list[str]) -> tuple[dict[str, set[str] | None], set[str]]:
    """Topic -> what may be done with it (None where that is not told), and the topics that are not there."""
    try:
        answer = (await client._send_request(_Metadata(topics))).to_object()
    except (NotImplementedError, IncompatibleBrokerVersion):
        return {}, set()
    everywhere = _operations_of(answer["operations"]) or set()
    allowed: dict[str, set[str] | None] = {}
    absent = set()
    for topic in answer["topics"]:
        error = for_code(topic["error_code"])
        if error is TopicAuthorizationFailedError:
            allowed[topic["topic"]] = set()
            continue
        known = _operations_of(topic["operations"])
        allowed[topic["topic"]] = None if known is None else known | (everywhere & {CREATE})
        if error is UnknownTopicOrPartitionError:
            absent.add(topic["topic"])
    return allowed, absent


def _operations_of(bits: int) -> set[str] | None:
    return None if bits == _UNKNOWN else {name for name, number in _OPERATIONS.items() if bits >> number & 1}


async def _has(client: Any, right: Right) -> bool:
    if right.kind == TRANSACTIONAL_ID:
        # Of partition 0, for all. No producer has this id: where there is a transaction, it is another's.
        answer = await client._send_request(EndTxnRequest(f"{right.name}0", 2**62, 0, False))
        return for_code(answer.error_code) is not TransactionalIdAuthorizationFailed
    if right.operation == READ:
        answer = await client._send_request(HeartbeatRequest(right.name, -1, ""))
        return for_code(answer.error_code) is not GroupAuthorizationFailedError
    answer = (await client._send_request(DescribeGroupsRequest([right.name]))).to_object()
    return for_code(answer["groups"][0]["error_code"]) is not GroupAuthorizationFailedError


async def check(spec: "Spec", connection: Connection, command: str) -> None:
    """AccessError where this client may not do what a command needs; it names the ACL."""
    lacking = await lacks(spec, connection, command)
    if lacking:
        raise _denied(connection, command, lacking)


async def lacks(spec: "Spec", connection: Connection, command: str) -> list[Right]:
    """What is missing of what a command cannot do without."""
    return [right for right in await missing(connection, needed(spec, command)) if not right.dispensable]


def _denied(connection: Connection, command: str, lacking: Sequence[Right]) -> AccessError:
    more = len(lacking) - 1
    others = "" if not more else f"; {more} more {'is' if more == 1 else 'are'} missing"
    lister = "riparian check" if command == "worker" else f"riparian check --rights {command}"
    others += f", which {lister} STREAM.yaml {' '.join(connection.arguments())} lists" if more else ""
    return AccessError(f"Kafka at {connection}: {lacking[0].sentence(connection)}{others}")


async def enter(spec: "Spec", connection: Connection, command: str, seconds: float = 3.0) -> None:
    """Wait for the broker for so long, and see that this client may do what a command needs.

    Raises
    ------
    BrokerError
        None answers.
    AccessError
        It does not let us in, or an ACL is missing.
    """
    await wait_for_broker(connection, seconds)
    await check(spec, connection, command)


async def explained(spec: "Spec", connection: Connection, command: str, error: BaseException) -> AccessError:
    """The sentence for one of `DENIED`, which a command met on its way."""
    with contextlib.suppress(RiparianError):
        lacking = await lacks(spec, connection, command)
        if lacking:
            return _denied(connection, command, lacking)
    return AccessError(
        f"Kafka at {connection} does not allow what stream {spec.name} needs ({str(error).strip()}): riparian deploy "
        "acls prints what to grant"
    )


async def grant(connection: Connection, rights: Iterable[Right], principal: str) -> None:
    """Create the ACLs. AccessError where this client may not."""
    async with admin_client(connection) as client:
        for right in dict.fromkeys(rights):
            pattern = _PREFIXED if right.prefixed else _LITERAL
            operation = _OPERATIONS[right.operation]
            answer = await client._send_request(
                CreateAclsRequest(_KINDS[right.kind], right.name, pattern, principal, "*", operation, _ALLOW)
            )
            code, detail = answer.creation_responses[0]
            if code:
                raise AccessError(
                    f"Kafka at {connection} does not create ACLs for this client "
                    f"({detail or for_code(code).__name__}): connect as a user that may alter the "
                    "cluster's ACLs, such as one of super.users"
                )
