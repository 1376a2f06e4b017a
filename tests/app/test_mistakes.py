"""Every command with what a person may get wrong: one sentence, and no traceback."""

import inspect
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from riparian.app.cli import UNUSABLE, cli
from riparian.app.errors import RiparianError
from riparian.app.kafka import admin
from riparian.app.partition import mapped

FILES = {
    "good.yaml": b"name: s\ntask: classification\nfeatures: {a: numeric}\n",
    "unclosed.yaml": b"name: [\n",
    "list.yaml": b"- name\n",
    "empty.yaml": b"",
    "bytes.yaml": bytes(range(256)),
    "data.csv": b"a,y\n1,x\n2,y\n",
    "bytes.csv": bytes(range(256)) * 4,
}
WORLDS = {
    "no file": ("none.yaml", "none.csv"),
    "not closed": ("unclosed.yaml", "data.csv"),
    "a list": ("list.yaml", "data.csv"),
    "nothing": ("empty.yaml", "data.csv"),
    "no text": ("bytes.yaml", "bytes.csv"),
    "a folder": ("folder", "folder"),
    "no broker": ("good.yaml", "data.csv"),
}
APART = {("broker", "start"), ("broker", "stop"), ("demo",), ("ui",)}  # start or end processes


def commands(
    group: click.Group, above: tuple[str, ...] = (), apart: Collection[tuple[str, ...]] = APART
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands by their words, but those apart."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name), apart)
        elif command is not None and (*above, name) not in apart:
            yield (*above, name), command


def arguments(path: tuple[str, ...], command: click.Command, stream: str, data: str) -> list[str]:
    found = list(path)
    options = [option for one in command.params for option in one.opts]
    for one in command.params:
        if isinstance(one, click.Argument):
            what = (one.metavar or one.name or "").lower()
            found += [stream] if "yaml" in what else [data] if "csv" in what or "file" in what else ["x"]
        elif one.required:
            found += [one.opts[0], "1"]
    for option, value in (("--broker", "127.0.0.1:1"), ("--wait", "0")):
        found += [option, value] if option in options else []
    return found


@pytest.mark.parametrize("world", WORLDS)
def test_a_mistake_is_one_sentence(world, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mapped, "_folder", None)  # of `worker`, and of no test that follows
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    # Commands wait 3 s for a broker, by a clock that is ten times as fast here.
    monkeypatch.setattr(admin, "time", SimpleNamespace(monotonic=lambda: 10.0 * time.monotonic()))
    wrong, callbacks = 0, set()
    for path, command in commands(cli):
        code = inspect.unwrap(command.callback).__code__
        if world == "no broker" and code in callbacks:
            continue  # each waits a while: one of those that are made alike
        callbacks.add(code)
        asked = arguments(path, command, *WORLDS[world])
        error = CliRunner().invoke(cli, asked).exception
        wrong += error is not None
        if isinstance(error, OSError):
            assert error.errno in UNUSABLE, (asked, error)
            assert error.filename, (asked, error)
        elif error is not None and not isinstance(error, SystemExit):
            assert isinstance(error, RiparianError), (asked, repr(error))
            assert "\n" not in str(error).strip(), asked
    assert wrong > 15
