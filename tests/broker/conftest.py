"""Fixtures of tests on real Kafka: streams on the run's broker, named after the test, and brokers that may suffer."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.local_broker.ports import free_port
from tests.broker.harness import Stream
from tests.broker.secured import Secured, secured_broker
from tests.shared import PROPERTIES


@pytest.fixture
def stream(broker: str, tmp_path: Path, topic_name: str) -> "partial[Stream]":
    """Makes a stream of the test's name, of the fields that it is given."""
    return partial(Stream, broker, tmp_path, topic_name)


@pytest.fixture(scope="session")
def waiting_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of this process alone that nobody has started; its port is held."""
    local = LocalBroker(tmp_path_factory.mktemp("own"), port=free_port(), properties=PROPERTIES)
    yield local
    local.stop()


@pytest.fixture
def own_broker(waiting_broker: LocalBroker) -> LocalBroker:
    """A broker of this process alone, which runs, and which a test may stop, kill and start again."""
    waiting_broker.start()
    return waiting_broker


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with secured listeners and access lists, of this process alone."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificates")
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found
