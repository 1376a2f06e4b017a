"""The command `riparian`.

Each command lives in a module of its own, named by `COMMANDS`, and is imported when it is called, so that
`riparian --help` and `riparian broker status` do not wait for numba and Faust.

- `setup/`: stream files and what a cluster is given; `run/`: workers, brokers, data and the page.
- `operate/`: commands to a stream that runs, its lag, dead letters and predictions; `state/`: its checkpoints.
- `evaluate/`: models over files or retained records; `terminal/`: options, progress and messages.
"""

import asyncio
import contextlib
import difflib
import errno
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from riparian.app import __version__
from riparian.app.errors import BrokerError, RiparianError, SpecError
from riparian.app.kafka.connection import DEFAULT, Connection

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

T = TypeVar("T")

# heading in `riparian --help` -> command name -> module under app.cli, which holds a click command named `command`, or
# as stands behind the colon
GROUPS = {
    "Start": {
        "init": "setup.init",
        "check": "setup.check",
        "models": "setup.models",
        "generate": "run.generate",
        "demo": "run.demo",
    },
    "Run": {
        "worker": "run.worker",
        "broker": "run.broker",
        "replay": "run.replay",
        "ui": "run.ui",
        "lag": "operate.lag",
        "deploy": "setup.deploy",
        "dashboard": "setup.dashboard",
    },
    "Judge": {
        "evaluate": "evaluate.evaluate",
        "backtest": "evaluate.backtest",
        "compare": "operate.compare",
        "explain": "operate.explain",
        "inspect": "operate.inspect",
    },
    "Steer": {
        "apply": "operate.control:apply",
        "add": "operate.control:add",
        "drop": "operate.control:drop",
        "promote": "operate.control:promote",
        "demote": "operate.control:demote",
        "freeze": "operate.control:freeze",
        "thaw": "operate.control:thaw",
        "reset": "operate.control:reset",
        "pause": "operate.control:pause",
        "resume": "operate.control:resume",
        "checkpoint": "operate.control:checkpoint",
        "forget": "operate.control:forget",
        "grow": "operate.grow",
    },
    "Repair": {
        "deadletters": "operate.deadletters",
        "audit": "state.audit",
        "state": "state.state",
        "export": "state.export",
        "import": "state.import_",
        "rollback": "state.rollback",
    },
}
# What others call it -> what it is here.
MEANT = {"train": ["worker", "evaluate"], "predict": ["worker"], "run": ["worker"], "start": ["worker"], "top": ["ui"]}
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}

OF_ONE_CLIENT = ("client.id", "group.instance.id")  # settings that say who a client is, not how it comes to Kafka


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            near = MEANT.get(name) or difflib.get_close_matches(name, COMMANDS, n=1)
            if near and not ctx.resilient_parsing:
                raise click.UsageError(f"No such command {name!r}: did you mean {' or '.join(near)}?", ctx)
            return None
        module, _, called = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"riparian.app.cli.{module}"), called or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in GROUPS.items():
            commands = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(heading):
                formatter.write_dl([(name, one.get_short_help_str(100)) for name, one in commands.items() if one])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="riparian")
def cli() -> None:
    """Streaming decision trees on Kafka: predict, join late labels, learn, report."""


def _connection(broker: str | None, config: Path | None, streams: Sequence[Path]) -> Connection:
    """The connection of both options, the environment and the `kafka` that all stream files have."""
    context = click.get_current_context()

    def option(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    given = broker if option("broker") else None
    sections = [_section(stream) or {} for stream in streams] or [{}]
    ways = [{name: value for name, value in section.items() if name not in OF_ONE_CLIENT} for section in sections]
    differs = next((stream for stream, way in zip(streams, ways, strict=False) if way != ways[0]), None)
    if differs is not None and not (option("broker") or option("kafka_config")):
        raise SpecError(
            f"{differs}: kafka names another connection than that of {streams[0]}, and this command has one for all "
            "streams: name it by --broker or --kafka-config, or give streams of one cluster"
        )
    section = sections[0] if differs is None else None
    return Connection.of(given, config, os.environ, section, file_first=option("kafka_config"))


def _section(stream: Path) -> dict[str, str] | None:
    """The stream file's `kafka`; None where it has none, or a wrong one: loading the file says what is wrong."""
    try:
        if "kafka" not in stream.read_text(encoding="utf-8"):
            return None
    except (OSError, UnicodeDecodeError):
        return None

    from pydantic import ValidationError

    from riparian.app.stream_file.sections.kafka import KafkaSpec
    from riparian.app.stream_file.strict_yaml import read_yaml

    try:
        return KafkaSpec.model_validate(read_yaml(stream).get("kafka", {})).settings
    except (SpecError, ValidationError):
        return None


stream_argument = click.argument("stream", metavar="STREAM.yaml", type=click.Path(path_type=Path, dir_okay=False))
grid_option = click.option(
    "--grid",
    multiple=True,
    metavar="[NAME.]KEY=A,B,…",
    help="Try every value, in all combinations with those of other --grid. Repeatable.",
)
partition_option = click.option("--partition", type=int, default=None, help="Only this partition.  [default: all]")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _since(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    from riparian.app.cli.terminal.parsing import parse_since

    return None if text is None else parse_since(text)


since_option = click.option(
    "--since", metavar="WHEN", callback=_since, help="Look at what came since: 2h, 7d, or 2026-05-01T12:00 (UTC)."
)


def streams_argument(function: Any, required: bool = True) -> Any:
    """The stream files of a command that takes several."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.argument("streams", nargs=-1, required=required, metavar="STREAM.yaml...", type=kind)(function)


def broker_option(
    function: Any, default: str | None = DEFAULT, help: str = "Kafka bootstrap server", each: bool = False
) -> Any:
    """The options --broker and --kafka-config, the same for every command that speaks to Kafka: the parameter
    `connection`, which is None where nothing is given and there is no default. each : instead a list, `connections`,
    with one for each of the command's `streams`."""
    config = click.option(
        "--kafka-config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        envvar="RIPARIAN_KAFKA_CONFIG",
        show_envvar=True,
        help="Properties of the connection: bootstrap.servers, security.protocol, sasl.username, ssl.ca.location, …",
    )
    broker = click.option(
        "--broker",
        metavar="HOST:PORT",
        envvar="RIPARIAN_BROKER",
        default=default,
        show_default=default is not None,
        show_envvar=True,
        help=help + (" (several: separate by commas)." if default else ""),
    )

    @functools.wraps(function)
    def connected(*args: Any, broker: str | None, kafka_config: Path | None, **given: Any) -> Any:
        if each:
            connections = [_connection(broker, kafka_config, [stream]) for stream in given["streams"]]
            return function(*args, connections=connections, **given)
        stream = given.get("stream")
        connection = _connection(broker, kafka_config, given.get("streams", [stream] if stream else []))
        anything = broker or kafka_config or connection.settings
        return function(*args, connection=connection if anything else None, **given)

    return broker(config(connected))


def load(stream: Path, connection: Connection | None = None) -> "Spec":
    """What a stream file declares; with a connection, by as many partitions as the stream has there by now."""
    from riparian.app.stream_file import spec

    found = spec.load(stream)
    if connection is not None:
        from riparian.app.state.growing import sized

        with contextlib.suppress(BrokerError):  # the command has its own sentence on it
            return asyncio.run(sized(found, connection))
    return found


def with_rights(spec: "Spec", connection: Connection, command: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `work` gives, by a client that may do what `command` does (`app.kafka.access.acls`)."""
    from riparian.app.kafka.access import rights

    async def run() -> T:
        await rights.enter(spec, connection, command)
        return await work()

    return asyncio.run(run())


# What is wrong with a file or folder that a person has named, or that nobody has.
UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOSPC)


def main() -> None:
    """Entry point: errors that a person can fix are one sentence and exit code 2."""
    try:
        cli.main(standalone_mode=False)
    except RiparianError as error:
        from riparian.app.cli.terminal.messages import show

        show(str(error), logging.ERROR)
        sys.exit(2)
    except OSError as error:
        from riparian.app.cli.terminal.messages import show

        if error.errno not in UNUSABLE or error.filename is None:
            raise
        show(f"{error.filename} cannot be used ({error.strerror}): name another place, or grant it", logging.ERROR)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
