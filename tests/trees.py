"""The syntax trees of the sources, each parsed once in a process."""

import ast
import functools
from pathlib import Path


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's, as `ast.walk` gives them."""
    return tuple(ast.walk(tree(path)))
