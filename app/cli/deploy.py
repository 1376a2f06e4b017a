"""`riparian deploy`: what a cluster has to be given before a stream runs on it."""

import asyncio
from pathlib import Path

import click

from app.cli import broker_option
from app.cli.parsing import WITH_RIGHTS
from app.kafka.connection import Connection


@click.group("deploy")
def command() -> None:
    """Print what a Kafka cluster has to be given for a stream."""


stream_argument = click.argument("stream", metavar="STREAM.yaml", type=click.Path(dir_okay=False, path_type=Path))
server_option = click.option(
    "--bootstrap-server", metavar="HOST:PORT", help="As the printed commands have it. [default: --broker]"
)
config_option = click.option(
    "--command-config", metavar="FILE", help="As the printed commands have it: properties for Kafka's tools."
)


@command.command("topics")
@stream_argument
@server_option
@config_option
@broker_option
def topics(stream: Path, bootstrap_server: str | None, command_config: str | None, connection: Connection) -> None:
    """Print the kafka-topics.sh commands that create the topics of STREAM.yaml, as workers would.

    For clusters where somebody else creates topics (create_topics: never in the stream file). No broker is asked.

    \b
    riparian deploy topics orders.yaml --bootstrap-server kafka:9093
    """
    from app.kafka.creating import commands
    from app.stream_file.spec import load

    for line in commands(load(stream), bootstrap_server or str(connection), command_config):
        click.echo(line)


@command.command("acls")
@stream_argument
@click.option("--principal", required=True, metavar="User:NAME", help="Who shall have the rights.")
@click.option(
    "--for",
    "users",
    type=click.Choice(WITH_RIGHTS),
    multiple=True,
    default=["worker"],
    show_default=True,
    help="The command that the rights are for. Repeatable.",
)
@server_option
@config_option
@click.option("--apply", is_flag=True, help="Grant the rights at once, by the connection of --kafka-config.")
@broker_option
def acls(
    stream: Path,
    principal: str,
    users: tuple[str, ...],
    bootstrap_server: str | None,
    command_config: str | None,
    apply: bool,
    connection: Connection,
) -> None:
    """Print the kafka-acls.sh commands that let a principal run commands of Riparian with STREAM.yaml.

    They grant what is needed and no more. Without --apply no broker is asked.

    \b
    riparian deploy acls orders.yaml --principal User:riparian
    riparian deploy acls orders.yaml --principal User:ops --for lag --for audit
    """
    from app.kafka.acls import lines, needed
    from app.stream_file.spec import load

    if not principal.partition(":")[2]:
        raise click.BadParameter(f"{principal!r} has no type: write User:NAME", param_hint="--principal")
    spec = load(stream)
    rights = list(dict.fromkeys(right for user in users for right in needed(spec, user)))
    for line in lines(rights, principal, bootstrap_server or str(connection), command_config):
        click.echo(line)
    if apply:
        from app.kafka.rights import grant

        asyncio.run(grant(connection, rights, principal))
        click.echo(f"granted at {connection}: {len(rights)} ACLs", err=True)
