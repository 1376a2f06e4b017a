"""`riparian models`: every learner, its tasks, parameters and paper."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from riparian.app.errors import SpecError

if TYPE_CHECKING:
    from riparian.models import entry as learners
    from riparian.models.streams import registry as streams

    Entry = learners.Entry | streams.StreamEntry

E = TypeVar("E", bound="Entry")


@click.command("models")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list, or one object for NAME.")
def command(name: str | None, as_json: bool) -> None:
    """List the learners, or show one: its tasks, parameters with ranges and defaults, and its paper."""
    from riparian.models.registry import REGISTRY, find

    show_registry("model", REGISTRY, find, name, as_json, "riparian models NAME shows its parameters and paper.")


def show_registry(
    kind: str,
    registry: Mapping[str, E],
    find: Callable[[str], E],
    name: str | None,
    as_json: bool,
    hint: str,
) -> None:
    """Print all entries of a registry, or the one of a name. SpecError where there is none of it."""
    if name is None:
        if as_json:
            click.echo(json.dumps([plain(entry) for entry in registry.values()]))
        else:
            table(kind, list(registry.values()), hint)
        return
    try:
        entry = find(name)
    except ValueError as error:
        raise SpecError(str(error)) from None
    if as_json:
        click.echo(json.dumps(plain(entry)))
    else:
        show(entry)


def plain(entry: "Entry") -> dict[str, Any]:
    """An entry as JSON."""
    return {
        "name": entry.name,
        "tasks": list(entry.tasks),
        "text": entry.text,
        "paper": entry.paper,
        "slow": getattr(entry, "slow", False),
        "free": list(getattr(entry, "free", ())),
        "parameters": [
            {**parameter._asdict(), "type": parameter.type.__name__, "choices": list(parameter.choices)}
            for parameter in entry.parameters
        ],
    }


def table(kind: str, entries: "Sequence[Entry]", hint: str) -> None:
    """Print one row per entry, without parameters: a learner has up to twenty."""
    from rich.console import Console

    from riparian.app.cli.terminal.console import plain_table

    found = plain_table([kind], whole=True)
    found.add_column("tasks", max_width=15)
    found.add_column("what it does")
    for entry in entries:
        slow = " (slow)" if getattr(entry, "slow", False) else ""
        found.add_row(entry.name + slow, ", ".join(entry.tasks), entry.text)
    console = Console()
    console.print(found)
    console.print(hint, highlight=False)


def show(entry: "Entry") -> None:
    from rich.console import Console

    from riparian.app.cli.terminal.console import plain_table

    console = Console(highlight=False)
    console.print(f"[bold]{entry.name}[/bold] ({', '.join(entry.tasks)})")
    console.print(entry.text)
    console.print(f"Paper: {entry.paper}")
    if not entry.parameters:
        console.print("It takes no parameters.")
        return
    table = plain_table(["parameter", "type", "default", "range", ""])
    for parameter in entry.parameters:
        default = "none" if parameter.default is None else str(parameter.default)
        table.add_row(
            parameter.name,
            parameter.type.__name__,
            default.lower() if parameter.type is bool else default,
            parameter.range,
            parameter.text,
        )
    console.print()
    console.print(table)
    free = getattr(entry, "free", ())
    if free:
        console.print(f"Its state goes on where these change: {', '.join(free)} (docs/reference/state.md).")
