"""`riparian generate`: synthetic streams with known truth, as files. Their options are those of `replay` too."""

import functools
import json
import time
from pathlib import Path
from typing import Any

import click

from riparian.app.cli.terminal.parsing import WIDTH, N, recipe

MADE = ("n", "settings", "seed", "drifts", "concepts")
_OPTIONS = (
    click.option("-n", "n", type=click.IntRange(min=1), metavar="N", help=f"Instances. [default: {N}]"),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the stream. Repeatable."
    ),
    click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of all random numbers. [default: 0]"),
    click.option(
        "--drift",
        "drifts",
        multiple=True,
        metavar="AT[:gradual[:WIDTH]]",
        help="Another concept from instance AT on (the first is 0), or around it, over about WIDTH instances "
        f"[default: {WIDTH}]. Repeatable; each takes the --to in the same place.",
    ),
    click.option(
        "--to",
        "concepts",
        multiple=True,
        metavar="KEY=VALUE[,…]",
        help="What the new concept has other than --set says: function=5.",
    ),
)


def recipe_options(function: Any) -> Any:
    """The options that say what to generate: the parameter `made`, of those of `recipe` by name."""

    @functools.wraps(function)
    def collected(*args: Any, **given: Any) -> Any:
        return function(*args, made={name: given.pop(name) for name in MADE}, **given)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


@click.command("generate")
@click.argument("name", required=False)
@click.argument("out", metavar="[OUT.csv.gz]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@recipe_options
@click.option("--list", "listing", is_flag=True, help="List the streams, or show NAME: parameters, ranges, paper.")
@click.option("--stream-file", "stream_file", is_flag=True, help="Print a stream file for NAME instead of rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary, or the list, as JSON.")
def command(
    name: str | None,
    out: Path | None,
    made: dict[str, Any],
    listing: bool,
    stream_file: bool,
    as_json: bool,
) -> None:
    """Write a synthetic stream to a file: CSV with a header, the class last, gzipped if it ends in .gz.

    Same options, same bytes. Nominal values are v0, v1, …, classes c0, c1, …

    \b
    riparian generate --list
    riparian generate agrawal -n 1000000 --set function=3 agrawal.csv.gz
    riparian generate sea --drift 50000 --to function=2 sea.csv.gz
    riparian generate stagger --drift 30000:gradual:5000 --to function=1 --drift 60000 --to function=2 stagger.csv
    """
    if listing:
        from riparian.app.cli.setup.models import show_registry
        from riparian.models.streams.registry import REGISTRY, find

        hint = "riparian generate --list NAME shows parameters, ranges, defaults and the paper."
        show_registry("stream", REGISTRY, find, name, as_json, hint)
        return
    if name is None:
        raise click.UsageError("name a stream: riparian generate --list shows them")

    from riparian.app.dataset.files.synthetic import SyntheticFile, write_csv

    file = SyntheticFile(recipe(name, **made))
    if stream_file:
        import yaml

        click.echo(yaml.safe_dump(file.stream_file(), sort_keys=False, default_flow_style=None, width=120), nl=False)
        return
    if out is None:
        raise click.UsageError(f"name the file to write: riparian generate {name} {name}.csv.gz")

    from riparian.app.cli.terminal.progress import progress

    started = time.perf_counter()
    with progress(f"{name} to {out.name}", file.count()) as advance:
        n_bytes = write_csv(file, out, advance)
    seconds = time.perf_counter() - started
    if as_json:
        found = {"stream": file.recipe.plain(), "file": str(out), "bytes": n_bytes, "seconds": round(seconds, 3)}
        click.echo(json.dumps(found))
        return
    click.echo(f"{out}: {file.count():,} instances of {name}, {n_bytes:,} bytes, {seconds:.1f} s")
