"""`riparian dashboard`: the files for Prometheus and Grafana, out of the installed package."""

import json
from pathlib import Path

import click

from riparian.app.cli import json_option
from riparian.app.errors import RiparianError

FILES = Path(__file__).resolve().parents[3] / "deploy"
FOLDERS = ("prometheus", "grafana")
SITE = "https://riparian.example.org/"  # site_url of mkdocs.yml, where the alerts' runbook_url leads


@click.command("dashboard")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write to; made where it is not there.",
)
@click.option("--docs", metavar="URL", default=SITE, help="Where you serve the documentation: alerts link its runbook.")
@click.option("--force", is_flag=True, help="Replace files that are there and differ.")
@json_option
def command(out: Path, docs: str, force: bool, as_json: bool) -> None:
    """Write the Prometheus configuration, rules and alerts and the Grafana dashboards to a folder."""
    address = f"{docs.removesuffix('/')}/".encode()
    files = {
        path.relative_to(FILES): path.read_bytes().replace(SITE.encode(), address)
        for folder in FOLDERS
        for path in sorted((FILES / folder).rglob("*"))
        if path.suffix in (".yaml", ".json")
    }
    mine = [name for name, content in files.items() if (out / name).exists() and (out / name).read_bytes() != content]
    if mine and not force:
        raise RiparianError(
            f"{out / mine[0]} is there and differs{f', and {len(mine) - 1} more' if len(mine) > 1 else ''}: choose "
            "another --out, or replace with --force"
        )
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    written = [str(out / name) for name in files]
    click.echo(json.dumps({"files": written}) if as_json else "\n".join(written))
