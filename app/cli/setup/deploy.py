"""`riparian deploy`: what a cluster has to be given before streams run on it; of several files, for all of them."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import broker_option, json_option, streams_argument
from riparian.app.cli.run.worker import check_apart
from riparian.app.cli.terminal.parsing import WITH_RIGHTS
from riparian.app.errors import SpecError
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.kafka.access.acls import Right
    from riparian.app.stream_file.spec import Spec


@click.group("deploy")
def command() -> None:
    """Print what a Kafka cluster has to be given for a stream."""


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


def load(files: Sequence[Path]) -> "list[Spec]":
    from riparian.app.stream_file import spec

    specs = [spec.load(file) for file in files]
    check_apart(specs, files)
    return specs


def all_needed(specs: "Sequence[Spec]", users: Sequence[str]) -> "list[Right]":
    """Each right once that one of the commands `users` needs with one of the streams."""
    from riparian.app.kafka.access.acls import needed

    return list(dict.fromkeys(right for spec in specs for user in users for right in needed(spec, user)))


def _show(commands: Sequence[str], as_json: bool, **about: Any) -> None:
    """Print the commands, a line each, or as one JSON object with what they are about."""
    click.echo(json.dumps({**about, "commands": commands}) if as_json else "\n".join(commands))


@command.command("topics")
@streams_argument
@server_option
@config_option
@json_option
@broker_option
def topics(
    streams: tuple[Path, ...],
    bootstrap_server: str | None,
    command_config: str | None,
    as_json: bool,
    connection: Connection,
) -> None:
    """Print the kafka-topics.sh commands that create the topics of the streams, as workers would.

    For clusters where somebody else creates topics (create_topics: never in the stream file). No broker is asked.

    \b
    riparian deploy topics orders.yaml --bootstrap-server kafka:9093
    """
    from riparian.app.kafka.topics.creating import planned

    server = bootstrap_server or str(connection)
    # A line for each: streams may share topics.
    found = {one.command(server, command_config): one._asdict() for spec in load(streams) for one in planned(spec)}
    _show([*found], as_json, topics=[*found.values()])


@command.command("acls")
@streams_argument
@click.option("--principal", required=True, metavar="User:NAME", help="Who shall have the rights.")
@for_option
@server_option
@config_option
@click.option("--apply", is_flag=True, help="Grant the rights at once, by the connection of --kafka-config.")
@json_option
@broker_option
def acls(
    streams: tuple[Path, ...],
    principal: str,
    users: tuple[str, ...],
    bootstrap_server: str | None,
    command_config: str | None,
    apply: bool,
    as_json: bool,
    connection: Connection,
) -> None:
    """Print the kafka-acls.sh commands that let a principal run commands of Riparian with the streams.

    They grant what is needed and no more. Without --apply no broker is asked.

    \b
    riparian deploy acls orders.yaml --principal User:riparian
    riparian deploy acls orders.yaml --principal User:ops --for lag --for audit
    """
    from riparian.app.kafka.access.acls import lines

    if not principal.partition(":")[2]:
        raise click.BadParameter(f"{principal!r} has no type: write User:NAME", param_hint="--principal")
    rights = all_needed(load(streams), users)
    found = lines(rights, principal, bootstrap_server or str(connection), command_config)
    _show(found, as_json, principal=principal, rights=[right._asdict() for right in rights])
    if apply:
        from riparian.app.kafka.access.rights import grant

        asyncio.run(grant(connection, rights, principal))
        click.echo(f"granted at {connection}: {len(rights)} ACLs", err=True)


@command.command("kubernetes")
@streams_argument
@click.option("--cluster", required=True, metavar="NAME", help="Name of Strimzi's Kafka resource.")
@click.option("--user", metavar="NAME", help="Name of the KafkaUser.  [default: riparian-STREAM...]")
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
@json_option
def kubernetes(
    streams: tuple[Path, ...],
    cluster: str,
    user: str | None,
    authentication: str,
    users: tuple[str, ...],
    api: str,
    as_json: bool,
) -> None:
    """Print Strimzi's KafkaTopic and KafkaUser resources for the streams.

    Their topics, as workers would create them, and one user with the rights that commands need, and no more. No broker
    and no cluster is asked.

    \b
    riparian deploy kubernetes orders.yaml --cluster main | kubectl -n kafka apply -f -
    """
    import yaml

    from riparian.app.kafka.access import strimzi

    specs = load(streams)
    longest = strimzi.longest_name(authentication)
    if user is not None and strimzi.resource_name(user, longest) != user:
        raise click.BadParameter(
            f"{user!r} is no name of a KafkaUser: give at most {longest} characters of lower-case letters, digits, "
            "hyphens and dots, with a letter or a digit at both ends",
            param_hint="--user",
        )
    named = user or strimzi.resource_name("-".join(["riparian", *(spec.name for spec in specs)]), longest)
    resources: dict[str, dict[str, Any]] = {}
    for file, spec in zip(streams, specs, strict=True):
        for topic in strimzi.topics(spec, cluster, api):
            name = topic["spec"]["topicName"]
            if resources.setdefault(name, topic) != topic:
                raise SpecError(
                    f"{file}: the topic {name} would have other partitions or settings than by an earlier file: let "
                    "both files say the same of it"
                )
    made = [*resources.values(), strimzi.user(named, cluster, all_needed(specs, users), authentication, api)]
    if as_json:  # which kubectl takes as well
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
    else:
        click.echo(yaml.safe_dump_all(made, sort_keys=False), nl=False)
