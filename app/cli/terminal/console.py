"""Where tables are printed."""

from rich.console import Console

WIDE = 10_000  # characters, where no terminal says how many: Rich would cut what does not fit into 80


def stdout_console() -> Console:
    """Standard output, without colours of its own for numbers and names."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = WIDE
    return made
