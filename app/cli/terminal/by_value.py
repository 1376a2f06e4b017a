"""Quality by the value of a feature, as a table."""

from collections.abc import Iterable
from typing import Any

from rich.markup import escape
from rich.text import Text

from riparian.app.cli.terminal.console import plain_table, stdout_console
from riparian.app.errors import safe

MOST = 12  # values of a feature


def show(found: Iterable[dict[str, Any]]) -> None:
    """found : as `app.evaluation.measures.by_value.tables` has them. A value that is surely worse is marked."""
    console = stdout_console()
    for each in found:
        factor, form = (100.0, "{:.1f}") if each["share"] else (1.0, "{:.4g}")

        def text(value: float | None, sign: str = "", factor: float = factor, form: str = form) -> str:
            return "" if value is None else form.replace(":", f":{sign}").format(factor * value)

        unit = " %" if each["share"] else ""
        table = plain_table([escape(safe(each["feature"]))], ["share %", f"now{unit}", f"before{unit}", "adds"])
        table.add_column("")
        for row in each["values"][:MOST]:
            figures = (f"{100.0 * row['share']:.1f}", text(row["now"]), text(row["before"]), text(row["adds"], "+"))
            table.add_row(Text(safe(row["value"])), *figures, "surely worse" if row["since"] else "")
        console.print(table)
        if len(each["values"]) > MOST:
            console.print(f"and {len(each['values']) - MOST:,} more, which --json lists", style="dim")
