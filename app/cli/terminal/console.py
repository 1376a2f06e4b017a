"""Where tables are printed, and how."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

WIDE = 10_000  # characters, where no terminal says how many: Rich would cut what does not fit into 80


def stdout_console() -> Console:
    """Standard output, without colours of its own for numbers and names."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = WIDE
    return made


def plain_table(texts: Sequence[str], figures: Sequence[str] = (), *, whole: bool = False, **options: bool) -> Table:
    """Without lines, of columns with these headings. whole : whether no cell is broken into lines. options : Rich's."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **options)  # type: ignore[arg-type]
    for headings, justify in ((texts, "left"), (figures, "right")):
        for heading in headings:
            table.add_column(heading, justify=justify, no_wrap=whole)  # type: ignore[arg-type]
    return table
