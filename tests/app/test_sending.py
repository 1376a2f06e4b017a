"""What becomes of an error of the broker, and how a producer is closed while there is none."""

import asyncio
import types

import pytest
from aiokafka import errors

from riparian.app.errors import AccessError, BrokerError
from riparian.app.kafka import sending
from riparian.app.kafka.client import error_codes
from riparian.app.kafka.sending import Outputs, broker_error, close
from riparian.app.kafka.topics.topic_warnings import compacted


@pytest.mark.parametrize(
    "error",
    [errors.MessageSizeTooLargeError, errors.RecordListTooLargeError, errors.PolicyViolationError,
     errors.InvalidTopicError],
)  # fmt: skip
def test_what_kafka_will_never_take_is_a_sentence(error):
    found = broker_error("s.predictions", error())
    assert isinstance(found, BrokerError)
    assert str(found).startswith(f"Kafka refuses what is written to s.predictions ({error.__name__}): ")
    assert ("max.message.bytes" in str(found)) == ("Large" in error.__name__)


def test_a_code_that_the_client_does_not_know_is_named():
    error_codes.learn()
    known = {code for code, kind in errors.kafka_errors.items() if kind.__name__ not in error_codes.NAMES.values()}
    assert {*range(1, 130)} <= known | error_codes.NAMES.keys()
    assert issubclass(errors.for_code(79), errors.MemberIdRequired)
    assert errors.for_code(129).__name__ == "REBOOTSTRAP_REQUIRED"
    error = errors.for_code(87)()
    assert isinstance(error, errors.UnknownError)
    assert not error.retriable
    said = str(broker_error("s.metrics", error))
    assert said.startswith(
        "Kafka refuses what is written to s.metrics (INVALID_RECORD): a topic with cleanup.policy=comp"
    )


def test_topics_that_kafka_compacts_are_named():
    policies = {"s.predictions": "compact,delete", "s.metrics": "compact", "s.drift": "delete", "s.deadletters": None}
    configs = {topic: {} if policy is None else {"cleanup.policy": policy} for topic, policy in policies.items()}
    predictions, metrics = compacted(configs, "h:1")
    assert predictions.startswith("s.predictions has cleanup.policy=compact,delete: records of one key replace each")
    assert metrics.endswith("--entity-type topics --entity-name s.metrics --add-config cleanup.policy=delete")


def test_a_topic_that_we_may_not_write_to_names_the_acl():
    found = broker_error("s.predictions", errors.TopicAuthorizationFailedError())
    assert isinstance(found, AccessError)
    assert "grant the ACL Write" in str(found)


@pytest.mark.parametrize(
    "error",
    [errors.ProducerFenced, errors.OutOfOrderSequenceNumber, errors.UnknownProducerId, errors.KafkaStorageError,
     errors.NotLeaderForPartitionError, errors.UnknownTopicOrPartitionError, errors.KafkaConnectionError,
     errors.KafkaTimeoutError, errors.NotEnoughReplicasError, errors.KafkaError],
)  # fmt: skip
def test_what_a_new_producer_may_do_better_is_tried_again(error):
    one = error()
    assert broker_error("t", one) is one


class Producer:
    """As the client's while no broker answers: `stop` and the sender's `close` never end by themselves."""

    def __init__(self, patient: bool = True) -> None:
        self.closed: list[str] = []
        self._sender = types.SimpleNamespace(close=lambda: self._wait("sender"))
        self.client = types.SimpleNamespace(close=lambda: self._wait("client", 0))
        self.patient = patient

    def stop(self):
        return self._wait("producer", 3600 if self.patient else 0)

    async def _wait(self, name: str, seconds: float = 3600) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            self.closed.append(name)


def test_closing_ends_without_a_broker(monkeypatch):
    monkeypatch.setattr(sending, "CLOSE_SECONDS", 0.01)
    for patient, closed in ((True, ["producer", "sender", "client"]), (False, ["producer"])):
        producer = Producer(patient)
        asyncio.run(close(producer))
        assert producer.closed == closed


def test_nobody_who_stops_waiting_takes_an_acknowledgement_from_others():
    async def run():
        sent = Outputs(Producer(), 0, {"t": 0})
        future = asyncio.get_running_loop().create_future()
        await sent._track("t", future)
        waiting = asyncio.create_task(sent.flush())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not future.done()
        future.set_exception(errors.MessageSizeTooLargeError())
        with pytest.raises(BrokerError):
            await sent.flush()

    asyncio.run(run())


def test_who_waits_for_a_record_of_a_closed_producer_learns_that_it_may_be_lost(monkeypatch):
    class Away:
        async def send(self, topic, **record):
            sent.append((topic, record))
            return asyncio.get_running_loop().create_future()

    async def closed(_):
        pass

    async def run():
        outputs = Outputs(Away(), 3, {"t.learned": 0}, homes={"t.learned": 0})
        futures = [await outputs.append("t.learned", value, 7) for value in (b"a", b"b")]
        futures[0].set_exception(errors.KafkaConnectionError())
        futures += [await outputs.append("t.learned", b"c", 7) for _ in range(20)]  # waits for none
        await outputs.stop()
        for future in futures:
            with pytest.raises(errors.KafkaError):
                await outputs.acknowledged("t.learned", future)

    sent = []
    monkeypatch.setattr(sending, "close", closed)
    asyncio.run(run())
    assert sent[1] == ("t.learned", {"partition": 0, "value": b"b", "timestamp_ms": 7})
