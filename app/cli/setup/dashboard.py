"""`riparian dashboard`: the files for Prometheus and Grafana, out of the installed package."""

import shutil
from pathlib import Path

import click

from riparian.app.errors import RiparianError

FILES = Path(__file__).resolve().parents[3] / "deploy"
FOLDERS = ("prometheus", "grafana")


@click.command("dashboard")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write to; made where it is not there.",
)
@click.option("--force", is_flag=True, help="Replace files that are there and differ.")
def command(out: Path, force: bool) -> None:
    """Write the Prometheus configuration, rules and alerts and the Grafana dashboards to a folder."""
    files = sorted(
        path.relative_to(FILES)
        for folder in FOLDERS
        for path in (FILES / folder).rglob("*")
        if path.suffix in (".yaml", ".json")
    )
    mine = [
        name for name in files if (out / name).exists() and (out / name).read_bytes() != (FILES / name).read_bytes()
    ]
    if mine and not force:
        raise RiparianError(
            f"{out / mine[0]} is there and differs{f', and {len(mine) - 1} more' if len(mine) > 1 else ''}: choose "
            "another --out, or replace with --force"
        )
    for name in files:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(FILES / name, out / name)
        click.echo(out / name)
