"""Fixtures of tests on real Kafka: streams on the run's broker, named after the test, and a secured broker."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.broker.harness import Stream
from tests.broker.secured import Secured, secured_broker


@pytest.fixture
def stream(broker: str, tmp_path: Path, topic_name: str) -> "partial[Stream]":
    """Makes a stream of the test's name, of the fields that it is given."""
    return partial(Stream, broker, tmp_path, topic_name)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with secured listeners and access lists, of this process alone."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificates")
    with secured_broker(tmp_path_factory.mktemp("secured")) as found:
        yield found
