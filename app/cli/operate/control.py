"""`riparian promote` and the other commands to a stream that runs."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import broker_option, json_option, load, stream_argument
from riparian.app.cli.terminal.parsing import parse_model
from riparian.app.errors import SpecError, StateError
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.state.checkpoint import Manifest
    from riparian.app.stream_file.spec import Spec
    from riparian.topics.commands import Command, EventRecord

SECONDS = 30.0
LATER = (
    "The command was sent, and takes effect before the next prediction: once features come, and a worker runs "
    "(riparian worker)."
)
WRITING = "The command was answered; the checkpoint comes once it is written."


def _answered(spec: "Spec", what: "Command", answers: "Mapping[int, EventRecord]", silent: list[int]) -> dict[str, Any]:
    """What --json shows of a command."""
    import msgspec

    return {
        "stream": spec.name,
        "id": what.id,
        "command": what.command,
        "answers": [msgspec.to_builtins(event) for event in answers.values()],
        "silent": silent,
    }


def _listed(partitions: Sequence[int]) -> str:
    return f"partition{'' if len(partitions) == 1 else 's'} {', '.join(map(str, partitions))}"


def _options(function: Any) -> Any:
    """What every command to a stream takes."""
    for option in (
        broker_option,
        json_option,
        click.option(
            "--wait",
            metavar="SECONDS",
            type=click.FloatRange(min=0.0),
            default=SECONDS,
            show_default=True,
            help="How long to wait for the answers of all partitions.",
        ),
        click.option("--by", metavar="NAME", help="Who asks, as the answers say. Default: USER@HOST."),
    ):
        function = option(function)
    return stream_argument(function)


def _made(name: str, doc: str, with_model: bool = True, loses: bool = False) -> click.Command:
    """A command that has at most a model to say. loses : what that has learned, so that a person is asked."""

    def run(stream: Path, connection: Connection, by: str | None, wait: float, as_json: bool, **given: Any) -> None:
        asks = given.pop("yes", True) is False and sys.stdin.isatty()

        def made(make: "Callable[..., Command]", spec: "Spec") -> "Command":
            if asks:
                click.confirm(f"{given['model']} loses what it has learned. Go on?", abort=True, err=True)
            return make(name, by, **given)

        _run(stream, connection, made, wait, as_json)

    run.__doc__ = doc
    # Arguments are read in the order in which they are declared from the inside out: STREAM.yaml first.
    declared = click.argument("model", metavar="MODEL")(run) if with_model else run
    if loses:
        declared = click.option("--yes", is_flag=True, help="Do not ask.")(declared)
    return click.command(name)(_options(declared))


def _run(
    stream: Path,
    connection: Connection,
    made: "Callable[[Callable[..., Command], Spec], Command]",
    wait: float,
    as_json: bool,
    rights_of: str = "control",
) -> None:
    from riparian.app.kafka import command_client
    from riparian.app.kafka.access import rights

    declared = load(stream, connection)
    command_client.check(declared)
    asyncio.run(rights.enter(declared, connection, rights_of))
    asked = made(command_client.command, declared)

    def show(event: "EventRecord") -> None:
        if not as_json:
            click.echo(f"partition {event.partition}: {event.event}: {event.sentence}")

    answers = asyncio.run(command_client.ask(declared, connection, asked, wait, show))
    silent = [partition for partition in declared.commanded if partition not in answers]
    if as_json:
        click.echo(json.dumps(_answered(declared, asked, answers, silent)))
    elif silent:
        click.echo(f"No answer from {_listed(silent)} in {wait:g} s. {LATER}")
    if silent or any(event.event != "applied" for event in answers.values()):
        raise SystemExit(1)


promote = _made(
    "promote",
    """Make a challenger of a running stream its champion.

    The champion of before goes on as a challenger. It takes effect right before the next prediction of each partition,
    with what the models have learned, their scores, and their predictions for the instances that wait.

    \b
    riparian promote elec.yaml nb

    Exit code 1: a partition refused, or did not answer in time.
    """,
)
demote = _made("demote", "Undo the last promotion of a running stream.", with_model=False)
freeze = _made("freeze", "Let a model of a running stream predict and not learn.")
thaw = _made("thaw", "Let a frozen model of a running stream learn again.")
reset = _made("reset", "Put a new model in the place of one of a running stream.", loses=True)
drop = _made("drop", "Remove a challenger of a running stream, with what it has learned.", loses=True)
pause = _made(
    "pause",
    """Withhold the predictions of a running stream.

    Each prediction is still written, for it records the order of records, with null y and p. Models go on learning.
    riparian resume ends it.
    """,
    with_model=False,
)
resume = _made("resume", "Have a paused stream publish its predictions again.", with_model=False)


@click.command("checkpoint")
@_options
def checkpoint(stream: Path, connection: Connection, by: str | None, wait: float, as_json: bool) -> None:
    """Have all partitions of a running stream write a checkpoint, and wait until they have.

    Exit code 1: one did not come in time.
    """
    from riparian.app.kafka import command_client
    from riparian.app.kafka.access import rights
    from riparian.app.state import asked, changelog

    spec = load(stream, connection)
    command_client.check(spec)
    asyncio.run(rights.enter(spec, connection, "apply"))

    def written(manifest: "Manifest") -> dict[str, Any]:
        age = max(0.0, time.time() - manifest.created_ms / 1000.0)
        return {"partition": manifest.partition, "sequence": manifest.sequence, "age_seconds": round(age, 3)}

    def show(manifest: "Manifest") -> None:
        if not as_json:
            said = written(manifest)
            click.echo(f"partition {said['partition']}: checkpoint {said['sequence']:,} is written")

    what = command_client.command("checkpoint", by)
    answers, found = asyncio.run(asked.ask(spec, connection, what, wait, on_written=show))
    silent = [partition for partition in spec.commanded if partition not in answers]
    missing = list[dict[str, Any]]()
    for partition in [one for one in range(spec.partitions) if one not in found]:
        _, findings = asyncio.run(changelog.read_whole(connection, spec.name, partition))
        none = {"partition": partition, "sequence": None, "age_seconds": None}
        missing.append(none if findings.manifest is None else written(findings.manifest))
    if as_json:
        checkpoints = [written(manifest) for manifest in found.values()]
        click.echo(
            json.dumps(_answered(spec, what, answers, silent) | {"checkpoints": checkpoints, "missing": missing})
        )
    elif missing:
        ages = [
            f"partition {one['partition']} "
            + ("(it has none)" if one["sequence"] is None else f"(the last one is {one['age_seconds']:,.0f} s old)")
            for one in missing
        ]
        click.echo(f"No checkpoint in {wait:g} s from {', '.join(ages)}. {LATER if silent else WRITING}")
    if missing:
        raise SystemExit(1)


@click.command("forget")
@_options
@click.option("--key", required=True, metavar="KEY=VALUE", help="Which key of `keys`, and the one to forget.")
def forget(stream: Path, connection: Connection, by: str | None, wait: float, as_json: bool, key: str) -> None:
    """Have a running stream forget what it knows of a card, or of another key.

    \b
    riparian forget payments.yaml --key card=4711

    What features over its past are made of goes, and labels of earlier records add nothing to it. Models keep what
    they have learned, and older checkpoints (checkpoint.keep) and Kafka's topics what they hold. The command that is
    sent has a hash of the key, and not the key.
    """
    name, equals, value = key.partition("=")
    if not equals or not value:
        raise click.UsageError(f"--key: expected KEY=VALUE, such as card=4711, found {key!r}; name both")

    def made(make: "Callable[..., Command]", spec: "Spec") -> "Command":
        from riparian.app.partition.keys.past import hashes_of, secret

        if name not in spec.keys:
            known = ", ".join(spec.keys) or "none"
            cure = "name one, or give the stream file of before, if it was dropped"
            raise SpecError(f'--key: expected one of keys ({known}), found "{name}"; {cure}')
        return make("forget", by, key=name, hash=hashes_of(secret(spec.name), [value]).tobytes().hex())

    _run(stream, connection, made, wait, as_json)


@click.command("add")
@_options
@click.argument("name", metavar="NAME")
@click.argument("model", metavar="MODEL[:PARAMETER=VALUE,…]")
def add(
    stream: Path,
    connection: Connection,
    by: str | None,
    wait: float,
    as_json: bool,
    name: str,
    model: str,
) -> None:
    """Add a challenger to a running stream, under a name of yours.

    \b
    riparian add elec.yaml small hoeffding-tree:grace_period=50

    It begins with nothing, and is in no stream file: riparian apply adds those of one.
    """
    learner, parameters = parse_model(model)

    def made(make: "Callable[..., Command]", spec: "Spec") -> "Command":
        try:
            spec.challenger(name, {"model": learner, **parameters})
        except ValueError as error:
            raise SpecError(str(error)) from None
        return make("add", by, model=name, definition={"model": learner, **parameters})

    _run(stream, connection, made, wait, as_json)


@click.command("apply")
@_options
def apply(stream: Path, connection: Connection, by: str | None, wait: float, as_json: bool) -> None:
    """Have a running stream go on by its changed stream file.

    Models that are equal continue. So do models whose state does not depend on the parameters that differ, and pools
    of opinions with other members. Other challengers start from scratch. Those that are not named are dropped. The
    champion has to be the running one. drift, promotion, the window or fading of metrics, and bounds and horizon of
    join change, too. Features are added and dropped: models keep those that they know, new challengers know all.
    Everything else changes at a restart, or never, and is refused.

    First it waits (--wait) for a checkpoint behind earlier commands.
    """

    def made(make: "Callable[..., Command]", spec: "Spec") -> "Command":
        from riparian.app.partition.lineup.model_commands import unsteerable
        from riparian.app.state.asked import settle
        from riparian.app.state.loading import prospects
        from riparian.app.stream_file import columns
        from riparian.app.stream_file.sections.models import AUTO

        behind = asyncio.run(settle(spec, connection, wait))
        if behind:
            raise StateError(
                f"no checkpoint of {_listed(behind)} holds the last command that was answered, in {wait:g} s, and the "
                "file is compared with checkpoints: have one written first (riparian checkpoint)"
            )
        # Where all learn one model, others come to the place at which the first one stands.
        found = asyncio.run(prospects(spec, connection, spec.commanded))
        refusals = [one for _, changes in found.values() for one in unsteerable(changes)]
        if refusals:
            raise SpecError(f"{stream}: {refusals[0]}")
        models, own = spec.models(), spec.own_on_drift()
        plain = {
            role: {"model": name, **parameters} | ({} if own[role] is None else {"on_drift": own[role]})
            for role, (name, parameters) in models.items()
        }
        champion, running = plain.pop("champion"), spec.running()
        features = keys = None
        if len(found) < len(spec.commanded) or any(changes.other_features for _, changes in found.values()):
            features = columns.plain(spec.features)
            if len(found) < len(spec.commanded) or any(changes.keyed for _, changes in found.values()):
                keys = columns.plain_keys(spec.keys)  # which workers of earlier versions do not read
            champion = {} if spec.champion.model == AUTO else champion  # chosen for other features; it goes on
        said = {"file": spec.models_digest(), "settings": running, "features": features, "keys": keys}
        return make("apply", by, champion=champion, challengers=plain, **said)

    _run(stream, connection, made, wait, as_json, "apply")
