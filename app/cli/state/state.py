"""`riparian state`: what the changelog holds, and whether it is complete and unaltered."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import broker_option, json_option, load, partition_option, stream_argument, with_rights
from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.state.changelog import Changelog
    from riparian.app.state.integrity import Findings
    from riparian.app.stream_file.spec import Spec


@click.group("state")
def command() -> None:
    """Show and verify the state that a stream's changelog holds."""


@command.command()
@stream_argument
@partition_option
@json_option
@broker_option
def show(stream: Path, partition: int | None, as_json: bool, connection: Connection) -> None:
    """Show the last checkpoint of each partition, and the size of its changelog.

    Reads the changelog topic and changes nothing; workers may run or not.
    """
    spec, found = _read(stream, partition, connection)
    shown = [_summary(k, log, findings) for k, (log, findings) in found.items()]
    if as_json:
        click.echo(json.dumps({"stream": spec.name, "partitions": shown}))
        return
    for entry in shown:
        _show(spec.name, entry)


@command.command()
@stream_argument
@partition_option
@json_option
@broker_option
def verify(stream: Path, partition: int | None, as_json: bool, connection: Connection) -> None:
    """Hash every chunk again and compare the manifest with the chunks.

    Ends with exit code 0 where all is sound, 2 where something is missing or altered. Chunks that no manifest needs any
    more are counted (and named by --json); they do no harm, and the worker deletes them once the log has grown.
    """
    spec, found = _read(stream, partition, connection)
    if as_json:
        click.echo(
            json.dumps({"stream": spec.name, "partitions": [findings.plain() for _, findings in found.values()]})
        )
    else:
        for k, (log, findings) in found.items():
            print_state(spec.name, k, log, findings)
    damaged = [k for k, (_, findings) in found.items() if not findings.sound]
    if damaged:
        named = ", ".join(map(str, damaged))
        first = found[damaged[0]][1]
        if first.manifest is None:  # a key that is missing, a newer format: an older checkpoint mends neither
            raise StateError(f"the state of stream {spec.name} cannot be read in partition {named}: {first.damage[0]}")
        raise StateError(
            f"the state of stream {spec.name} is damaged in partition {named}: go back to an older checkpoint "
            "(riparian rollback), or import an export (riparian import)"
        )


def _read(
    stream: Path, partition: int | None, connection: Connection
) -> "tuple[Spec, dict[int, tuple[Changelog, Findings]]]":
    """The partitions' changelogs; StateError where none that is asked for has any state."""
    spec = load(stream, connection)

    from riparian.app.state.changelog import check_partition, no_state, read_whole

    wanted = range(spec.partitions) if partition is None else [partition]
    for k in wanted:
        check_partition(spec, k)

    async def run() -> "dict[int, tuple[Changelog, Findings]]":
        return {k: await read_whole(connection, spec.name, k) for k in wanted}

    found = with_rights(spec, connection, "state", run)
    if not any(log.items for log, _ in found.values()):
        raise no_state(spec, wanted[0])
    return spec, found


def _summary(partition: int, log: "Changelog", findings: "Findings") -> dict[str, Any]:
    """What is shown of a partition: JSON-serialisable."""
    from riparian.app.state import checkpoint
    from riparian.app.state.integrity import parts

    summary: dict[str, Any] = {
        "partition": partition,
        "sound": findings.sound,
        "changelog": {"records": log.n_records, "bytes": log.n_bytes, "end": log.end},
        "orphaned": len(findings.orphaned),
    }
    manifest = findings.manifest
    if manifest is None:
        return {**summary, "sequence": None}
    key = checkpoint.manifest_key(partition)
    needed = [key, *(checkpoint.chunk_key(partition, digest) for digest in manifest.chunks())]
    meta = manifest.meta
    waiting = meta.get("waiting") or {  # format 1
        name: manifest.arrays[array][1][0]
        for name, array in (("instances", "pending/arrived"), ("labels", "pending/label_since"))
        if array in manifest.arrays
    }
    return {
        **summary,
        "stream": manifest.stream,
        "sequence": manifest.sequence,
        "version": manifest.version,
        "created": manifest.created_ms,
        "age_seconds": round(max(0.0, time.time() - manifest.created_ms / 1000.0), 3),
        "offset": meta["feature_offset"],
        "label_offset": meta["label_offset"],
        "outputs": manifest.outputs,
        "models": {role: {"model": name, "parameters": given} for role, (name, given) in meta["models"].items()},
        "instances": meta["n_instances"],
        "labels": meta["n_labels"],
        "waiting": waiting,
        "live": {"records": len(needed), "bytes": sum(len(name) + len(log.items.get(name, b"")) for name in needed)},
        "manifest_bytes": len(log.items[key]),
        "parts": [part._asdict() for part in parts(manifest, log.items)],
        "past": [
            {
                "sequence": past.sequence,
                "created": past.created_ms,
                "offset": past.feature_offset,
                "label_offset": past.label_offset,
            }
            for past in manifest.past
        ],
    }


def _show(stream: str, entry: dict[str, Any]) -> None:
    from rich.console import Console

    from riparian.app.cli.terminal.console import plain_table
    from riparian.topics.names import PREDICTIONS

    console = Console(highlight=False)
    changelog = entry["changelog"]
    if entry["sequence"] is None:
        remark = "no state yet" if entry["sound"] else "no manifest that can be read: see riparian state verify"
        console.print(f"{stream}, partition {entry['partition']}: {remark}")
        return
    live = entry["live"]
    created = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(entry["created"] / 1000.0))
    console.print(
        f"[bold]{stream}, partition {entry['partition']}[/bold]: checkpoint {entry['sequence']:,} of {created} "
        f"({entry['age_seconds']:,.0f} s old), format {entry['version']}"
    )
    console.print(
        f"next feature offset {entry['offset']:,}, next label offset {entry['label_offset']:,}, predictions read back "
        f"from {entry['outputs'].get(PREDICTIONS, 0):,}"
    )
    waiting = entry["waiting"]
    console.print(
        f"{entry['instances']:,} instances, {entry['labels']:,} labels; waiting: {waiting.get('instances', 0):,} "
        f"instances, {waiting.get('labels', 0):,} labels"
    )
    for role, model in entry["models"].items():
        given = ", ".join(f"{name}={value}" for name, value in model["parameters"].items())
        console.print(f"{role}: {model['model']}{f' ({given})' if given else ''}", markup=False)
    table = plain_table(["part"], ["arrays", "bytes", "chunks", "stored bytes"])
    for part in entry["parts"]:
        numbers = (part["n_arrays"], part["n_bytes"], part["n_chunks"], part["stored_bytes"])
        table.add_row(part["name"], *(f"{number:,}" for number in numbers))
    table.add_row("manifest", "", "", "", f"{entry['manifest_bytes']:,}")
    console.print(table)
    console.print(
        f"changelog: {changelog['records']:,} records, {changelog['bytes']:,} bytes; live: {live['records']:,} "
        f"records, {live['bytes']:,} bytes ({changelog['bytes'] / live['bytes']:.1f} times)"
    )
    kept = [
        f"{past['sequence']:,} ({(entry['created'] - past['created']) / 1000:,.0f} s before)" for past in entry["past"]
    ]
    if kept:
        console.print(f"kept to roll back to: checkpoint {', '.join(kept)}")
    if not entry["sound"]:
        console.print("The state is damaged: see riparian state verify.")


def print_state(stream: str, partition: int, log: "Changelog", findings: "Findings") -> None:
    """Print what was found in a partition."""
    where = f"{stream}, partition {partition}"
    if not log.items:
        click.echo(f"{where}: no state yet")
        return
    number = "no manifest to read" if findings.manifest is None else f"checkpoint {findings.manifest.sequence:,}"
    click.echo(f"{where}: {number}, {findings.n_chunks:,} chunks hashed, {'sound' if findings.sound else 'damaged'}")
    for sentence in findings.damage:
        click.echo(f"  {sentence}")
    for sequence in findings.gone:
        click.echo(f"  checkpoint {sequence:,} cannot be gone back to: a chunk of it is missing or altered")
    n = len(findings.orphaned)
    if n and findings.manifest is not None:
        chunks = "chunk is" if n == 1 else "chunks are"
        click.echo(f"  {n:,} {chunks} needed no more, and cut off once the log has grown (--json lists all)")
