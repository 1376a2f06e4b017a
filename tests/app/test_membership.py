"""Which instance id a worker takes, and when a coordinator's answer means that another worker has taken its place."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetCommitResponse_v2
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatResponse_v0

from riparian.app.errors import BrokerError
from riparian.app.kafka.connection import Connection
from riparian.app.worker.faust_client.membership import FENCED_INSTANCE_ID, Heartbeat, ReplacedError, guard, instance_id

CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
UNKNOWN_MEMBER_ID = 25


@pytest.mark.parametrize(
    ("option", "setting", "environment", "host", "found"),
    [
        (None, None, CLUSTER, "orders-0", "orders-0"),
        (None, None, CLUSTER, "orders-worker-12", "orders-worker-12"),
        (None, None, {}, "orders-0", None),  # a machine of that name runs any number of workers
        (None, None, CLUSTER, "orders-5d4f8c7b9-x2k4z", None),  # pods of a Deployment
        (None, None, CLUSTER, "orders-5d4f8c7b9-24567", None),
        (None, None, CLUSTER, "orders-01", None),
        (None, None, CLUSTER, "orders", None),
        (None, "own", CLUSTER, "orders-0", "own"),
        ("option", "own", CLUSTER, "orders-0", "option"),
        ("none", "own", CLUSTER, "orders-0", None),
        (None, "none", CLUSTER, "orders-0", None),
        ("a" * 249, None, {}, "", "a" * 249),
    ],
)
def test_the_id_is_what_is_said_or_a_name_that_one_pod_has_for_good(option, setting, environment, host, found) -> None:
    assert instance_id(option, setting, environment, host) == found


@pytest.mark.parametrize("wrong", ["a b", "a/b", "..", ".", "a" * 250, "", "é"])
def test_an_id_that_kafka_would_refuse_is_refused_at_start(wrong) -> None:
    if wrong == "":
        assert instance_id(wrong, None, {}) is None
        return
    with pytest.raises(BrokerError, match="--instance-id"):
        instance_id(wrong, None, {})


def test_a_connection_is_given_another_id() -> None:
    plain = Connection("h:1")
    assert plain.with_instance(None) is plain
    named = plain.with_instance("w-0")
    assert (named.instance_id, named.bootstrap_servers) == ("w-0", "h:1")
    assert named.faust()["consumer_group_instance_id"] == "w-0"
    assert "consumer_group_instance_id" not in named.with_instance(None).faust()


class Coordinator(SimpleNamespace):
    """Answers each kind of request by a code of its own."""

    def __init__(self, **codes: int) -> None:
        super().__init__(member_id="m", generation=3, codes=codes, asked=[])

    async def _send_req(self, request: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, OffsetCommitRequest):
            return OffsetCommitResponse_v2([("t", [(0, 0), (1, self.codes["commit"])])])
        return HeartbeatResponse_v0(self.codes["named" if isinstance(request, Heartbeat) else "heartbeat"])


BEAT = HeartbeatRequest("g", 3, "m")
COMMIT = OffsetCommitRequest("g", 3, "m", -1, [])


@pytest.mark.parametrize(
    ("request_", "codes"),
    [
        (BEAT, {"heartbeat": UNKNOWN_MEMBER_ID, "named": FENCED_INSTANCE_ID}),
        (COMMIT, {"commit": UNKNOWN_MEMBER_ID, "named": FENCED_INSTANCE_ID}),
        (BEAT, {"heartbeat": FENCED_INSTANCE_ID}),  # as a join is answered
    ],
)
def test_a_member_that_was_replaced_says_so_once_and_does_not_join_again(request_, codes) -> None:
    coordinator, told = Coordinator(**codes), []
    guard(coordinator, "g", "w-0", told.append)
    for _ in range(3):
        with pytest.raises(KafkaError, match="w-0"):  # for the client a request that failed: it keeps its member id
            asyncio.run(coordinator._send_req(request_))
    assert [type(error) for error in told] == [ReplacedError]


@pytest.mark.parametrize("codes", [{"heartbeat": 0}, {"heartbeat": UNKNOWN_MEMBER_ID, "named": UNKNOWN_MEMBER_ID}])
def test_a_session_that_expired_is_no_replacement(codes) -> None:
    coordinator, told = Coordinator(**codes), []
    guard(coordinator, "g", "w-0", told.append)
    assert asyncio.run(coordinator._send_req(BEAT)).error_code == codes["heartbeat"]
    assert not told


def test_without_an_id_nothing_is_asked() -> None:
    coordinator = Coordinator(heartbeat=UNKNOWN_MEMBER_ID)
    guard(coordinator, "g", None, lambda error: None)
    assert asyncio.run(coordinator._send_req(BEAT)).error_code == UNKNOWN_MEMBER_ID
    assert len(coordinator.asked) == 1


def test_the_request_is_version_3_of_the_protocol() -> None:
    struct = Heartbeat("g", 3, "m", "w").prepare({12: (0, 4)})
    assert (struct.API_KEY, struct.API_VERSION) == (12, 3)
    assert struct.encode() == b"\x00\x01g" + b"\x00\x00\x00\x03" + b"\x00\x01m" + b"\x00\x01w"
