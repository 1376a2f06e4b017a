"""`riparian init`: a first stream file, guessed from a data file or from the records of a topic."""

import asyncio
import json
import sys
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any

import click

from riparian.app.cli import broker_option, json_option
from riparian.app.errors import DataError, SpecError

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Connection
    from riparian.app.stream_file.draft import Draft


@click.command("init")
@click.argument("data", metavar="[FILE.csv]", required=False, type=click.Path(path_type=Path))
@click.option("--from-topic", "topic", metavar="TOPIC", help="Look at the records of a topic instead of a file.")
@click.option("--labels", "labels_topic", metavar="TOPIC", help="With --from-topic: the topic of the labels.")
@click.option("--label", metavar="COLUMN", help="The column, or field, to predict. [default: guessed by its name]")
@click.option(
    "--is",
    "is_",
    metavar="CLASS",
    help="With --labels: what each record says, such as clicked.",
)
@click.option(
    "--id",
    "id_",
    metavar="FIELD",
    help="With --from-topic: the field of the id, or @key; FIELD=FIELD of both topics. [default: guessed]",
)
@click.option(
    "--task", type=click.Choice(["classification", "regression", "anomaly"]), help="[default: guessed from the label]"
)
@click.option("--nominal", multiple=True, metavar="COLUMN", help="Nominal although it looks numeric. Repeatable.")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="No feature, such as an id. Repeatable.")
@click.option("--bag", metavar="COLUMN", help="A row is an instance of the bag that this column names.")
@click.option("--name", metavar="NAME", help="Of the stream. [default: the name of the file or topic]")
@click.option(
    "--out",
    metavar="STREAM.yaml",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; one that is there is never replaced. [default: NAME.yaml]",
)
@json_option
@broker_option
def command(data: Path | None, topic: str | None, as_json: bool, connection: "Connection", **given: Any) -> None:
    """Write a stream file that fits the data, with comments, as a first draft.

    Types of features, the label and the id are guessed; columns that teach a model nothing (ids, times, constants) are
    written as comments with the reason. Where the label is not clear, it is asked for; --task anomaly needs none.

    \b
    riparian init elec.csv.gz
    riparian init visits.csv --label bought --ignore session --out visits.yaml
    riparian init sensors.csv --task anomaly
    riparian init --from-topic shop.orders --labels shop.outcomes --broker 127.0.0.1:9092
    """
    if (data is None) == (topic is None):
        raise click.UsageError("give either FILE.csv or --from-topic TOPIC")
    of_topics = {"--labels": given["labels_topic"], "--is": given["is_"], "--id": given["id_"]}
    strangers = of_topics if topic is None else {"--bag": given["bag"]}
    for option, value in strangers.items():
        if value is not None:
            raise click.UsageError(f"{option} is {'for --from-topic TOPIC' if topic is None else 'for FILE.csv'}")
    for option, value in {"--label": given["label"], "--task": given["task"]}.items():
        if given["is_"] is not None and value not in (None, "classification"):
            raise click.UsageError(f"--is and {option} {value} exclude each other: --is names a class, and no field")

    from riparian.app.stream_file.draft import write
    from riparian.app.stream_file.durations import format_duration

    out: Path | None = given.pop("out")
    draft = _of_file(data, given) if data is not None else asyncio.run(_of_topic(topic or "", connection, given))
    if data is not None:
        draft = draft._replace(brought=_brought(draft, data))
    text, spec = write(draft)
    out = out or Path(f"{draft.name}.yaml")
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise DataError(f"{out} is there already and is not replaced: choose another --out, or remove it") from None
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror or error}): choose another --out") from None
    next_ = _next(draft, data, out, given["bag"], connection)
    if as_json:
        kept = list(spec.features)
        found = {"file": str(out), "stream": spec.name, "task": draft.task, "label": draft.label, "features": kept}
        click.echo(json.dumps(found | {"brought": list(draft.brought), "next": next_}))
        return
    n = len(draft.features) - len(spec.features)
    of = "" if draft.label is None else f" of {draft.label!r}"
    click.echo(
        f"{out}: {draft.task}{of}, {len(spec.features)} feature{'s'[: len(spec.features) != 1]}"
        + (f", {n} left out (the file says why)" if n else "")
    )
    for sentence in draft.brought:
        click.echo(sentence)
    if data is None and spec.label.ahead is not None:
        click.echo(
            f"Its label is {spec.label.of} as it is {format_duration(spec.label.ahead)} later, and until then no "
            "prediction has a value: label.ahead may be shorter, and --task anomaly needs no labels"
        )
    if (unlabelled := spec.join.unlabelled) is not None:
        click.echo(
            f"A record without a label counts as {unlabelled.is_} after {format_duration(unlabelled.after)}, and "
            "nothing is learned of it before: join.unlabelled.after may be shorter, or longer"
        )
    click.echo("next:")
    for line in next_:
        click.echo(f"  {line}")


def _of_file(data: Path, given: dict[str, Any]) -> "Draft":
    from riparian.app.dataset.files.arrow import open_data
    from riparian.app.dataset.guessing.fitting import of_rows
    from riparian.app.dataset.guessing.from_file import TIMES, likely_label, of_file, words

    file = open_data(data)
    options = {key: given[key] for key in ("name", "label", "task", "nominal", "ignore", "bag")}
    kept = [name for name in file.names if name not in (*given["ignore"], given["bag"])]
    asks = options["label"] is None and options["task"] != "anomaly" and sys.stdin.isatty()
    asks = asks and not any(TIMES & set(words(name)) for name in kept)  # else a later value may be the label
    if asks and likely_label(kept) is None and kept:
        options["label"] = click.prompt(
            "Which column is the label?", type=click.Choice(kept), default=kept[-1], show_choices=len(kept) <= 12
        )
    try:
        draft = of_file(file, **options)
        return draft if given["bag"] is not None else of_rows(draft, file)
    finally:
        for remark in file.reading_remarks(file.names):
            click.echo(f"riparian: {remark}", err=True)


def _brought(draft: "Draft", data: Path) -> list[str]:
    """Sentences on what shares of labels bring, where keys are proposed."""
    from riparian.app.cli.terminal.progress import progress
    from riparian.app.stream_file.draft import of_labels, proposed

    if draft.moments is None or draft.clock is not None or not of_labels(proposed(draft)[0]):
        return []
    from riparian.app.evaluation.shares import brought

    with progress("trying what shares of labels bring") as advance:
        try:
            return brought(draft, data, advance)
        except (DataError, SpecError) as error:
            return [f"What a share of labels brings could not be tried: {error}"]


async def _of_topic(topic: str, connection: "Connection", given: dict[str, Any]) -> "Draft":
    from riparian.app.dataset.guessing.fitting import of_topics
    from riparian.app.dataset.guessing.from_file import stream_name
    from riparian.app.kafka.admin import wait_for_broker
    from riparian.app.kafka.topics.sample import sample
    from riparian.topics.names import FEATURES, LABELS, topic_name

    stem = topic.removesuffix(f".{FEATURES}")
    beside = topic_name(stem, LABELS) if stem != topic else None
    await wait_for_broker(connection, timeout_seconds=3.0)
    features, there = await sample(connection, topic, beside)
    named = given["labels_topic"] or (beside if there else None)
    labels = None if named is None else (await sample(connection, named))[0]
    known = {key: given[key] for key in ("label", "id_", "task", "nominal", "ignore", "is_")}
    if labels is None and given["is_"] is not None:
        raise click.UsageError("--is needs the topic whose records say it: name it by --labels TOPIC")
    return of_topics(features, labels, name=given["name"] or stream_name(stem), **known)


def _next(draft: "Draft", data: Path | None, out: Path, bag: str | None, connection: "Connection") -> list[str]:
    """Commands that can follow."""
    if data is None:
        there = f"{quote(str(out))} {join(connection.arguments())}"
        return [f"riparian {command} {there}" for command in ("check", "worker", "ui --open")]
    how = f"--stream {quote(str(out))}" if bag is None else f"--bag {quote(bag)} --model stochastic-gradient-tree"
    data_, out_ = quote(str(data)), quote(str(out))
    last = "" if draft.label is None else f" --label {quote(draft.label)}"
    last = last if draft.clock is None else f" --time {quote(draft.clock)}"
    return [
        f"riparian check {out_}",
        f"riparian evaluate {data_} {how}{last}",
        f"riparian replay {out_} {data_}{last}" + (f" --bag {quote(bag)}" if bag is not None else ""),
        f"riparian worker {out_}",
    ]
