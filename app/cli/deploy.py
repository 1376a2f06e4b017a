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


for_option = click.option(
    "--for",
    "users",
    type=click.Choice(WITH_RIGHTS),
    multiple=True,
    default=["worker"],
    show_default=True,
    help="The command that the rights are for. Repeatable.",
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
@for_option
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


@command.command("kubernetes")
@stream_argument
@click.option("--cluster", required=True, metavar="NAME", help="Name of Strimzi's Kafka resource.")
@click.option("--user", metavar="NAME", help="Name of the KafkaUser.  [default: riparian-STREAM]")
@click.option(
    "--authentication",
    type=click.Choice(["scram-sha-512", "tls", "tls-external"]),
    default="scram-sha-512",
    show_default=True,
    help="How the user is known to Kafka.",
)
@for_option
@click.option(
    "--api",
    type=click.Choice(["v1", "v1beta2"]),
    default="v1",
    show_default=True,
    help="Version of Strimzi's API; v1beta2 before Strimzi 0.49.",
)
def kubernetes(
    stream: Path, cluster: str, user: str | None, authentication: str, users: tuple[str, ...], api: str
) -> None:
    """Print Strimzi's KafkaTopic and KafkaUser resources for STREAM.yaml.

    Its topics, as workers would create them, and a user with the rights that commands need, and no more. No broker and
    no cluster is asked.

    \b
    riparian deploy kubernetes orders.yaml --cluster main | kubectl -n kafka apply -f -
    """
    import yaml

    from app.kafka import strimzi
    from app.kafka.acls import needed
    from app.stream_file.spec import load

    spec = load(stream)
    rights = list(dict.fromkeys(right for one in users for right in needed(spec, one)))
    longest = strimzi.longest_name(authentication)
    if user is not None and strimzi.resource_name(user, longest) != user:
        raise click.BadParameter(
            f"{user!r} is no name of a KafkaUser: give at most {longest} characters of lower-case letters, digits, "
            "hyphens and dots, with a letter or a digit at both ends",
            param_hint="--user",
        )
    named = user or strimzi.resource_name(f"riparian-{spec.name}", longest)
    resources = [*strimzi.topics(spec, cluster, api), strimzi.user(named, cluster, rights, authentication, api)]
    click.echo(yaml.safe_dump_all(resources, sort_keys=False), nl=False)
