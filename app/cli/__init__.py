"""The command `riparian`.

Each command lives in a module of its own and is imported when it is called, so that `riparian --help` and
`riparian broker status` do not wait for numba and Faust.
"""

import importlib
import sys
from typing import Any

import click

from app import __version__
from app.errors import RiparianError

# command name -> module under app.cli, which holds a click command named `command`
COMMANDS = {
    "audit": "audit",
    "broker": "broker",
    "check": "check",
    "dashboard": "dashboard",
    "demo": "demo",
    "evaluate": "evaluate",
    "export": "export",
    "generate": "generate",
    "import": "import_",
    "inspect": "inspect",
    "lag": "lag",
    "models": "models",
    "rank": "rank",
    "replay": "replay",
    "rollback": "rollback",
    "state": "state",
    "worker": "worker",
}


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"app.cli.{COMMANDS[name]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            found = self.get_command(ctx, name)
            if found is not None:
                rows.append((name, found.get_short_help_str(100)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="riparian")
def cli() -> None:
    """Streaming decision trees on Kafka: predict, join late labels, learn, report."""


def broker_option(function: Any) -> Any:
    """The option --broker, the same for every command that speaks to Kafka."""
    return click.option(
        "--broker",
        "broker",
        metavar="HOST:PORT",
        envvar="RIPARIAN_BROKER",
        default="127.0.0.1:9092",
        show_default=True,
        show_envvar=True,
        help="Kafka bootstrap server (several: separate by commas).",
    )(function)


def main() -> None:
    """Entry point: errors that a person can mend are one sentence and exit code 2."""
    try:
        cli.main(standalone_mode=False)
    except RiparianError as error:
        click.echo(f"riparian: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
