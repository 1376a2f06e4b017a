"""Compares models that were evaluated on several data sets, by statistical tests.

    riparian evaluate elec.csv.gz --model hoeffding-tree --model naive-bayes --json > elec.json
    riparian evaluate weather.csv.gz --model hoeffding-tree --model naive-bayes --json > weather.json
    python -m benchmarks.papers.rank elec.json weather.json --picture ranks.svg

RESULT.json is what `riparian evaluate --json` prints, one file a data set, or several with other models. Models that
are not on all data sets are left out.
"""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.papers import diagram
from benchmarks.papers.comparison import compare, read
from riparian.app.errors import RiparianError
from riparian.app.evaluation.measures.measures import MEASURES

FILE_WIDTH = 200  # characters, where no terminal says how many
MOST_DATA = 8  # data sets that have a column


@click.command()
@click.argument("results", metavar="RESULT.json…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--measure", type=click.Choice(list(MEASURES)), metavar="MEASURE", help="[default: accuracy, or mae]")
@click.option(
    "--alpha", type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True), default=0.05, show_default=True,
    metavar="A", help="Level of the tests.",
)  # fmt: skip
@click.option(
    "--ratio",
    type=click.FloatRange(min=0.0),
    metavar="R",
    help="Test rows for each training row of a repeat, for the t-tests of shuffled rows. [default: none of these]",
)
@click.option(
    "--picture",
    "pictures",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg|.png",
    help="Draw the mean ranks and their critical difference. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    results: tuple[Path, ...],
    measure: str | None,
    alpha: float,
    ratio: float | None,
    pictures: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Compare models over data sets: mean ranks, and whether they differ."""
    wrong = next((picture for picture in pictures if picture.suffix.lower() not in diagram.FORMS), None)
    if wrong is not None:
        raise click.UsageError(f"--picture is {str(wrong)!r}: name a file that ends in {' or '.join(diagram.FORMS)}")
    try:
        found = compare(read(results, measure, ratio), alpha)
        for picture in pictures:
            diagram.write(picture, found["models"], found["ranks"], found["critical_difference"])
    except RiparianError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(found))
    else:
        show(found)


def show(found: dict[str, Any]) -> None:
    """Mean ranks, the tests of all models together, and the pairs."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    measure, alpha, n = MEASURES[found["measure"]], found["alpha"], len(found["data"])
    console.print(f"[bold]{measure.text}[/bold] on {n} data sets, {len(found['models'])} models")
    data = found["data"] if n <= MOST_DATA else []
    table = _table(["model"], ["mean rank", "best on", *data])
    for i, label in enumerate(found["models"]):
        values = [measure.form.format(row[i]) for row in found["values"]] if data else []
        table.add_row(label, f"{found['ranks'][i]:.2f}", f"{found['best'][i]:.4g}", *values)
    console.print(table)
    if "friedman" in found:
        test = found["friedman"]
        f = "inf" if test["f_p"] == 0.0 and test["f"] > 1e12 else f"{test['f']:.4g}"
        console.print(
            f"Friedman: χ² {test['chi_squared']:.4g}, p {test['p']:.2g}; F of Iman and Davenport {f}, "
            f"p {test['f_p']:.2g}"
        )
    console.print(f"critical difference of mean ranks (Nemenyi, {alpha:g}): {found['critical_difference']:.4g}")
    singles = any(pair["t"] for pair in found["pairs"])
    headings = ["wins", "ties", "losses", "p (Wilcoxon)", "p (Holm)", "ranks differ", *(["t-tests"] if singles else [])]
    table = _table(["model", "against"], headings)
    for pair in found["pairs"]:
        counts = [str(pair[key]) for key in ("wins", "ties", "losses")]
        tests = [f"{pair['wilcoxon']:.2g}", f"{pair['holm']:.2g}", "yes" if pair["nemenyi"] else "no"]
        table.add_row(pair["a"], pair["b"], *counts, *tests, *([_single(pair["t"], measure, alpha)] if singles else []))
    console.print(table)
    if singles:
        console.print("t-tests: data sets where the model is better, and worse, than the other one", style="dim")
    if found["left_out"]:
        console.print(f"left out, as not on all data sets: {', '.join(found['left_out'])}", style="dim")


def _table(left: list[str], right: list[str]) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in (*left, *right):
        made.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return made


def _single(tests: list[dict[str, Any]], measure: Any, alpha: float) -> str:
    """ "better/worse of all" of the t-tests that are below alpha."""
    sure = [test["mean"] for test in tests if test["p"] is not None and test["p"] < alpha]
    better = sum((mean > 0.0) == measure.greater for mean in sure)
    return f"{better} and {len(sure) - better} of {len(tests)}"


if __name__ == "__main__":
    main()
