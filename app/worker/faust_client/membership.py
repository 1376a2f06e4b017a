"""Static membership (KIP-345): a worker's place in the consumer group, which Kafka keeps while the worker is away.

A worker with an instance id that starts again within the session timeout gets its own partitions at once, and no other
worker is disturbed. The client sends the id when it joins, but not with its heartbeats, so it takes a member that was
replaced for one whose session has expired, and joins again: two workers of one id would take the partitions from each
other for ever. Here Kafka is asked which of both it is, and the worker that was replaced ends.
"""

import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import errors
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Int16, Int32, Schema, String

from riparian.app.errors import BrokerError

NONE = "none"
FENCED_INSTANCE_ID = 82  # the client has no error of this number
OFFSET_COMMIT = 8  # API key
_VALID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
# Pods of a StatefulSet, or of an indexed Job. Those of a Deployment end with five letters and digits, which may all be
# digits.
_ORDINAL = re.compile(r"[a-z0-9][-a-z0-9]*-(0|[1-9][0-9]{0,3})")


class ReplacedError(BrokerError):
    """Another worker has joined under the instance id of this one."""


def instance_id(option: str | None, setting: str | None, environment: Mapping[str, str], host: str = "") -> str | None:
    """The instance id of a worker; None for none.

    Parameters
    ----------
    option : str, optional
        Of --instance-id, the strongest; "none" for none.
    setting : str, optional
        group.instance.id among the settings of the connection.
    environment : mapping
        Where it says that this is a container of Kubernetes, and the name of the host ends with an ordinal, as that of
        a StatefulSet's pod does, that name is the default.
    host : str
        Instead of this host's name.

    Raises
    ------
    BrokerError
        Kafka would not take it.
    """
    given = option or setting
    if given is None and "KUBERNETES_SERVICE_HOST" in environment:
        host = host or socket.gethostname()
        given = host if _ORDINAL.fullmatch(host) else None
    if given is None or given == NONE:
        return None
    if _VALID.fullmatch(given) is None:
        raise BrokerError(
            f'--instance-id (group.instance.id): expected at most 249 letters, digits, ".", "_" and "-", found '
            f'"{given[:300]}"; write it as worker-0, or {NONE}'
        )
    return given


class _Answer(Response):  # type: ignore[misc]
    API_KEY = 12
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16))


class _Heartbeat(RequestStruct):  # type: ignore[misc]
    """The first version that names the instance; the client's own are 0 and 1."""

    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class Heartbeat(Request[_Heartbeat]):  # type: ignore[misc]
    """A heartbeat that names the instance, which Kafka answers by FENCED_INSTANCE_ID where the member was replaced."""

    API_KEY = 12

    def __init__(self, *fields: Any) -> None:
        self._fields = fields

    def build(self, request_struct_class: type[_Heartbeat]) -> _Heartbeat:
        return request_struct_class(*self._fields)


def guard(coordinator: Any, group: str, instance: str | None, replaced: Callable[[BaseException], None]) -> None:
    """Have a group's coordinator tell when another member has joined under its instance id, and not join again then.

    Parameters
    ----------
    coordinator : aiokafka's GroupCoordinator
    replaced : called once with a ReplacedError
    """
    if instance is None:
        return
    send, said = coordinator._send_req, False

    async def checked(request: Any) -> Any:
        nonlocal said
        member, generation = coordinator.member_id, coordinator.generation
        answer = await send(request)
        codes = _codes(answer)
        fenced = FENCED_INSTANCE_ID in codes
        if member and errors.UnknownMemberIdError.errno in codes:
            asked = await send(Heartbeat(group, generation, member, instance))
            fenced = asked.error_code == FENCED_INSTANCE_ID
        if not fenced:
            return answer
        error = ReplacedError(
            f"another worker has joined the group {group} with the instance id {instance} and goes on in place of this "
            "one: give each worker an id of its own (--instance-id), or let this one stay stopped if that one is its "
            "successor"
        )
        if not said:
            said = True
            replaced(error)
        raise errors.KafkaError(str(error))

    coordinator._send_req = checked


def _codes(answer: Any) -> set[int]:
    if answer.API_KEY == OFFSET_COMMIT:
        return {code for _, partitions in answer.topics for _, code in partitions}
    return {getattr(answer, "error_code", 0)}
