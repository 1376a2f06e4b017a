"""Commands are read whole, or not at all: whatever stands in the control topic."""

import json
from typing import Any

import pytest

from riparian.topics import commands
from riparian.topics import records as r
from riparian.topics.commands import Command, EventRecord, WrongCommandError

GOOD: dict[str, Any] = {"id": "1", "command": "promote", "model": "nb", "by": "me", "asked": 3}


def reason(value: bytes | None) -> str:
    with pytest.raises(WrongCommandError) as error:
        commands.read_command(value)
    assert str(error.value)
    return error.value.reason


def test_a_command_is_read_as_it_was_written() -> None:
    command = Command("1", "add", "me", 3, "nb", {"model": "naive-bayes"})
    assert commands.read_command(commands.write(command)) == command
    assert commands.read_command(json.dumps(GOOD).encode()).model == "nb"
    event = EventRecord("s", 0, 1, "applied", "promote", 5, 3, 2, "done", id="1", control_offset=0)
    assert commands.read_event(commands.write(event)) == event
    with pytest.raises(ValueError, match="partition"):
        commands.read_event(b'{"stream": "s"}')


def test_what_is_none_has_its_reason() -> None:
    assert reason(None) == r.TOMBSTONE
    assert reason(b"") == r.EMPTY
    assert reason(b" " * 70_000) == r.TOO_LARGE
    assert reason(r.Unread.batch(1, 2, "zstd")) == r.UNREADABLE_BATCH
    for value in (b"{", b"[]", b"null", b"\xff", b"[" * 60_000, b'{"id": "\\ud800", "command": "demote"}'):
        assert reason(value) == r.WRONG_COMMAND


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "x" * 65},
        {"id": 3},
        {"command": "rm"},
        {"model": None},
        {"model": ""},
        {"model": "m" * 101},
        {"more": 1},
        {"asked": -1},
        {"asked": 1e300},
        {"definition": {"model": "naive-bayes"}},
        {"command": "add"},
        {"command": "demote"},
        {"command": "apply", "model": None},
        {"command": "apply", "model": None, "challengers": {"a": 3}, "champion": {}, "file": "x"},
        {"by": "b" * 201},
    ],
)
def test_a_field_that_is_wrong_is_no_command(wrong: dict[str, Any]) -> None:
    assert reason(json.dumps({**GOOD, **wrong}).encode()) == r.WRONG_COMMAND
