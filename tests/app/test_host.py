"""What a worker of several streams ends with."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from riparian.app.errors import TopicError
from riparian.app.worker.faust_client.topic_watch import GrownError
from riparian.app.worker.host import Hosted, _failure


def hosted(name: str, failure: BaseException | None) -> Hosted:
    assignment: Any = SimpleNamespace(worker=SimpleNamespace(failure=failure))
    return Hosted(Path(name), None, assignment)


@pytest.mark.parametrize("signalled", [False, True])
def test_what_cannot_be_mended_by_beginning_again_is_told_first(signalled: bool) -> None:
    streams = [hosted("a.yaml", GrownError("4")), hosted("b.yaml", None), hosted("c.yaml", TopicError("gone"))]
    found = _failure(streams, signalled)
    assert isinstance(found, TopicError)
    assert str(found) == "c.yaml: gone"


def test_a_worker_that_was_told_to_stop_does_not_begin_again() -> None:
    streams = [hosted("a.yaml", GrownError("4"))]
    assert isinstance(_failure(streams, False), GrownError)
    assert _failure(streams, True) is None
    assert _failure([hosted("a.yaml", None)], False) is None
