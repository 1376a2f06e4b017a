"""`riparian explain`: one prediction, what came of it, and why."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from riparian.app.cli import broker_option, json_option, load, since_option, stream_argument, with_rights
from riparian.app.errors import safe
from riparian.app.kafka.connection import Connection

SHOWN = 5  # classes, or members of a pool


@click.command("explain")
@stream_argument
@click.argument("id_", metavar="ID", required=False)
@click.option(
    "--id",
    "given",
    metavar="ID",
    help="The id of the instance, as its features have it, where it begins with a dash, say.",
)
@since_option
@json_option
@broker_option
def command(
    stream: Path, id_: str | None, given: str | None, since: int | None, as_json: bool, connection: Connection
) -> None:
    """Look up a prediction of STREAM.yaml by its id: what was predicted, what came of it, and why.

    Of a tree, the tests from the root to the leaf are shown, as the model was at that moment. For that the records
    since the checkpoint before it are folded again in memory. Nothing is changed, and workers may run.

    \b
    riparian explain elec.yaml 17
    """
    if (id_ is None) == (given is None):
        raise click.UsageError(
            f"expected one ID, found {'none' if id_ is None else 'two'}: riparian explain STREAM.yaml ID"
        )
    wanted = id_ if given is None else given
    assert wanted is not None
    spec = load(stream, connection)

    from riparian.app.cli.terminal.progress import progress
    from riparian.app.page.predictions import explained

    async def run() -> dict[str, Any]:
        with progress(f"stream {spec.name}") as advance:
            return await explained(
                spec, connection, wanted, since=since, on_progress=lambda what, done, total: advance(done, total)
            )

    found = with_rights(spec, connection, "explain", run)
    click.echo(json.dumps(found) if as_json else "\n".join(map(safe, lines(found))))


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000.0).astimezone().isoformat(sep=" ", timespec="milliseconds")


def _value_text(y: Any) -> str:
    """What a prediction says, as JSON has it."""
    from riparian.topics.vocabulary import canonical

    return "nothing" if y is None else canonical(y)


def _shares(p: Any) -> str:
    if not isinstance(p, dict):
        return ""
    return ", ".join(f"{name} {value:.1%}" for name, value in list(p.items())[:SHOWN])


def lines(found: dict[str, Any]) -> list[str]:
    """What was found, for people."""
    champion = found["said"][0]
    shown = [
        f"{found['id']}: {_value_text(champion['y'])} by {champion['learner']} at {_time(found['time'])}",
        f"  {found['topic']}[{found['partition']}] at {found['position']:,}; features {found['offset']:,}, next label "
        f"{found['label_offset']:,}",
    ]
    label = found["label"]
    if label is None and found["labels_read"] is None:
        shown.append("  its label is a later value of the stream, and is not read here")
    elif label is None:
        silence = f": without one it is learned as {found['silence']}" if found.get("silence") else ""
        shown.append(f"  no label has come ({found['labels_read']:,} labels were read after it){silence}")
    else:
        named = "null (none will come)" if label["y"] is None else label["y"]
        shown.append(f"  label {named} at {_time(label['time'])}, offset {label['offset']:,}")
    for row in found["said"]:
        judged = {True: "right", False: "wrong"}.get(row.get("right"), "")
        if "error" in row:
            judged = f"off by {row['error']:,.6g}"
        alert = {True: "an alert", False: "no alert"}.get(row.get("alert"), "")
        parts = (row["role"], _value_text(row["y"]), alert, judged, _shares(row["p"]))
        shown.append("  " + ": ".join(part for part in parts if part))
    if found["why"] is None:
        return [*shown, f"  why: {found['why_not']}"]
    return [*shown, *_reasons(found["why"])]


def _reasons(why: dict[str, Any]) -> list[str]:
    begin = "the beginning"
    if why["checkpoint"]:
        begin = f"checkpoint {why['checkpoint']:,} (offset {why['checkpoint_offset']:,})"
    same = "each as it was sent" if why["same"] else "not all as they were sent, so the model may have been another"
    values = (f"{name} = {'missing' if value is None else value}" for name, value in why["features"].items())
    shown = [f"  made again from {begin}: {why['folded']:,} predictions, {same}", f"  features: {', '.join(values)}"]
    for model in why["models"]:
        shown += _added(model)
        weights = list(model["members"].items())
        if weights:
            most = ", ".join(f"{name} {weight:.3f}" for name, weight in weights[:SHOWN])
            more = f", and {len(weights) - SHOWN} more" if len(weights) > SHOWN else ""
            shown.append(
                f"  {model['role']} ({model['learner']}): members by weight: {most}{more}; of {weights[0][0]}:"
            )
        if "outside" in model:
            shown += _outside(model)
        elif not model["trees"]:
            shown.append(f"  {model['role']} ({model['learner']}): no tree to show")
        for number, tree in enumerate(model["trees"], 1):
            of = f", tree {number}" if len(model["trees"]) > 1 else ""
            shown.append(f"  {model['role']} ({model['learner']}){of}:")
            for depth, step in enumerate(tree["steps"]):
                weight = "" if step["weight"] is None else f"  [{step['weight']:,.6g}]"
                shown.append(f"    {'  ' * depth}{step['if'] or 'root'}{weight}  {step['said']}".rstrip())
            if not tree["whole"]:
                shown.append("    and on by several branches at once: its tests are soft")
        if model["more_trees"]:
            shown.append(f"    and {model['more_trees']:,} trees more")
    return shown


def _added(model: dict[str, Any]) -> list[str]:
    """What features added to the prediction of a model, where it says so."""
    added = model.get("added")
    if added is None:
        return []
    of = "the value" if added["of"] is None else f"the probability of {added['of']}"
    shown = [f"  {model['role']} ({model['learner']}): {of}, {added['prediction']:.4g}, is"]
    parts = [("without values", added["begin"]), *added["features"].items()]
    return shown + [f"    {value:+.4g}  {name}" for name, value in parts]


def _outside(model: dict[str, Any]) -> list[str]:
    """Of an anomaly."""
    begin = f"  {model['role']} ({model['learner']})"
    if not model["outside"]:
        return [f"{begin}: no feature alone is outside of what the last instances had"]
    parts = (
        f"{name} = {one['value']:.6g} is outside of {one['low']:.6g} .. {one['high']:.6g}"
        for name, one in model["outside"].items()
    )
    return [f"{begin}: {', '.join(parts)}"]
