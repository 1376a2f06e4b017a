"""Where tables are printed, and how."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

WIDE = 10_000  # characters, where no terminal says how many: Rich would cut what does not fit into 80


def stdout_console() -> Console:
    """Standard output, without colours of its own for numbers and names."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = WIDE
    return made


def plain_table(texts: Sequence[str], figures: Sequence[str] = (), *, whole: bool = False, **options: Any) -> Table:
    """Without lines, of columns with these headings. whole : whether no cell is broken into lines. options : Rich's."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **options)
    fit: Any = {"no_wrap": whole, "overflow": "ellipsis" if whole else "fold"}
    for heading in texts:
        table.add_column(heading, **fit)
    for heading in figures:
        table.add_column(heading, justify="right", **fit)
    return table
