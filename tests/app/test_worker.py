"""The worker: what its log leaves out and whom it names, where it listens, and how several streams are told apart."""

import asyncio
import json
import logging
import socket
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import yaml
from click.testing import CliRunner

from riparian.app.cli import broker_option
from riparian.app.cli.run.worker import command, prepare
from riparian.app.cli.terminal.messages import JsonFormatter
from riparian.app.errors import RiparianError
from riparian.app.kafka import admin
from riparian.app.kafka.access import rights
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker import ports
from riparian.app.state import growing
from riparian.app.stream_file.spec import load
from riparian.app.worker import host as worker
from riparian.app.worker.naming import STREAM, Named


def test_a_line_that_comes_again_and_again_is_written_now_and_then(monkeypatch):
    now = 0.0
    monkeypatch.setattr(worker.time, "monotonic", lambda: now)
    repeated = worker.Repeated()

    def shown(text, *args, name="aiokafka"):
        return repeated.filter(logging.LogRecord(name, logging.ERROR, "", 0, text, args, None))

    assert shown("no broker at %s", "a")
    assert not shown("no broker at %s", "b")
    assert shown("something else")
    assert shown("no broker at %s", "a", name="aiokafka.conn")
    now = worker.REPEAT_SECONDS
    assert shown("no broker at %s", "a")
    assert not shown(worker.REBALANCING, "riparian-elec")
    token = STREAM.set("fraud")  # what another stream has said says nothing of this one
    assert shown("no broker at %s", "a")
    assert not shown("no broker at %s", "a")
    STREAM.reset(token)


def test_lines_name_the_stream_that_they_are_about():
    record = logging.LogRecord(
        "riparian.app.worker.assignment", logging.WARNING, "", 0, "partition %d: 100%%", (3,), None
    )
    lines = Named(logging.Formatter("%(levelname)s %(message)s"))
    assert lines.format(record) == "WARNING partition 3: 100%"
    token = STREAM.set("fraud")
    assert lines.format(record) == "WARNING fraud: partition 3: 100%"
    assert lines.format(record) == "WARNING fraud: partition 3: 100%"
    line = json.loads(JsonFormatter().format(record))
    assert (line["stream"], line["message"]) == ("fraud", "partition 3: 100%")
    STREAM.reset(token)
    assert "stream" not in json.loads(JsonFormatter().format(record))


def _file(folder, name, **fields):
    path = folder / f"{len(list(folder.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump({"name": name, "task": "classification", "features": {"a": "numeric"}, **fields}))
    return str(path)


def _refused(*arguments):
    found = CliRunner().invoke(command, [*arguments, "--wait", "0", "--port", "0"])
    assert isinstance(found.exception, RiparianError), found.output
    return str(found.exception)


def test_two_files_of_one_stream_are_refused(tmp_path):
    """Also with two prefixes, and so two groups: their state is one."""
    first = _file(tmp_path, "orders")
    for second in (first, _file(tmp_path, "orders", kafka={"prefix": "team-"})):
        said = _refused(first, second, "--broker", "127.0.0.1:1")
        assert said.startswith(f'{second}: name is "orders", as in {first}, and a worker runs a stream once: leave one')


def test_each_of_several_streams_is_reached_as_its_file_says(tmp_path):
    """And what stops one is told by its file's name, which a stream alone does not need."""
    there = _file(tmp_path, "there", kafka={"bootstrap.servers": "127.0.0.1:1"})
    here = _file(tmp_path, "here")
    assert "127.0.0.1:1" in _refused(there)
    assert not _refused(there).startswith(there)
    assert _refused(there, here).startswith(f"{there}: ")
    assert "127.0.0.1:1" in _refused(there, here)
    assert _refused(here, there, "--broker", "127.0.0.1:2").startswith(f"{here}: ")


def test_a_failure_names_the_file_of_its_stream_once():
    error = RiparianError("the disk is full; make room")
    assert str(error.within("a.yaml")) == "a.yaml: the disk is full; make room"
    assert str(error.within("a.yaml")) == "a.yaml: the disk is full; make room"


def test_a_port_that_is_taken_is_one_sentence_or_the_next_one():
    with ports.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RiparianError, match=f"port {port} of 127.0.0.1 is in use.*another by --port"):
            ports.listen("127.0.0.1", port)
        with ports.listen("127.0.0.1", port, or_next=True) as found:
            assert found.getsockname()[1] > port
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    with ports.listen("0.0.0.0", 0) as everywhere:
        assert everywhere.getsockname()[0] == "0.0.0.0"
    with pytest.raises(RiparianError, match=r"cannot listen on 192\.0\.2\.1:6066 \(.*--host"):
        ports.listen("192.0.2.1", 6066)  # nobody's, for documentation


def test_a_command_of_one_connection_takes_what_all_files_say(tmp_path):
    """As `riparian ui` does, which shows several streams."""

    @click.command()
    @click.argument("streams", nargs=-1, type=click.Path(path_type=Path))
    @broker_option
    def show(streams, connection):
        click.echo(str(connection))

    def said(*arguments):
        found = CliRunner(env={"RIPARIAN_BROKER": "127.0.0.1:9"}).invoke(show, list(arguments))
        return found.output.strip() if found.exception is None else str(found.exception)

    one, two = (_file(tmp_path, name, kafka={"bootstrap.servers": "127.0.0.1:1"}) for name in "ab")
    none, prefixed = _file(tmp_path, "c"), _file(tmp_path, "d", kafka={"prefix": "team-"})
    assert said(one, two) == said(one) == said(two)
    assert said(none, prefixed) == said(none) == said() == "127.0.0.1:9"
    assert said(one, none).startswith(
        f"{none}: kafka names another connection than that of {one}, and this command has"
    )
    assert said(one, none, "--broker", "127.0.0.1:2") == "127.0.0.1:2"


def test_what_is_no_error_of_kafka_stays_itself_before_a_worker_starts(tmp_path, monkeypatch):
    """One client does all that is asked then; a full disk is none of its errors, and waiting mends nothing."""
    made, closed = [], []

    class Client:
        _client = SimpleNamespace(cluster=SimpleNamespace(brokers=lambda: {1}))

        async def start(self):
            made.append(self)

        async def close(self):
            closed.append(self)

    async def there(*_):
        pass

    async def asks(_, connection, *__):
        for _ in range(2):
            async with admin.admin_client(connection):
                assert closed == []

    async def full(*_):
        raise OSError(28, "No space left on device", "state")

    for owner, name, stand_in in (
        (admin, "wait_for_broker", there),
        (rights, "check", asks),
        (growing, "sized", full),
        (Connection, "admin", lambda *_, **__: Client()),
    ):
        monkeypatch.setattr(owner, name, stand_in)
    spec = load(_file(tmp_path, "s"))
    with pytest.raises(OSError, match="No space left on device: 'state'"):
        asyncio.run(prepare(spec, Connection("127.0.0.1:1"), 0.0, print))
    assert len(made) == 1
    assert made == closed
