"""Paths into a record: how they are written, which a stream file may name, and which of them exclude each other.

`customer.age` is a field of an object, `items[0].price` one of the first object of an array.
"""

import re
from collections.abc import Sequence

from riparian.topics.records import Path

MAX_INDEX = 999
_PART = re.compile(r"([^\[\]]*)((?:\[[0-9]+\])*)")
_INDEX = re.compile(r"\[([0-9]+)\]")

# A field name that not every decoder can take: in JSON it would have to be escaped.
_FORBIDDEN = frozenset('"\\') | {chr(i) for i in range(32)}


class Index(str):
    """A place in an array as a part of a path, `[0]` for the first one. A text of this form is the name of a field."""

    __slots__ = ()

    @property
    def number(self) -> int:
        return int(self[1:-1])


def parse(text: str) -> Path:
    """A path from its text. ValueError where it is none."""
    path: list[str] = []
    for i, part in enumerate(text.split(".")):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(
                f'expected a path such as items[0].price, found "{text}"; write names that hold brackets in a list'
            )
        name, places = found.groups()
        if name or i > 0 or not places:
            path.append(name)
        path += [Index(f"[{int(place)}]") for place in _INDEX.findall(places)]
    return tuple(path)


def dotted(path: Path) -> str:
    """The text of a path."""
    text = ".".join(path)
    return text.replace(".[", "[") if any(isinstance(part, Index) for part in path) else text


def check_path(path: Path) -> None:
    """ValueError where a path cannot be decoded."""
    if not path or any(not name for name in path):
        raise ValueError(
            f'expected a path of field names joined by ".", found "{dotted(path)}"; write it like customer.age'
        )
    for name in path:
        if isinstance(name, Index) and name.number > MAX_INDEX:
            raise ValueError(f"expected an index of at most {MAX_INDEX}, found {name.number}; leave the field out")
        if not _FORBIDDEN.isdisjoint(name):
            raise ValueError(
                f"expected a field name without quotes, backslashes and control characters, found {name!r}; "
                "rename the field in the records"
            )


def first_conflict(paths: Sequence[Path]) -> tuple[int, int] | None:
    """The first two paths, by index, that cannot both be decoded: they are equal, one is the other's beginning, or one
    leads into an array where the other one leads into an object."""
    ends: dict[Path, int] = {}
    inner: dict[Path, int] = {}
    arrays: dict[tuple[Path, bool], int] = {}
    for i, path in enumerate(paths):
        for k, part in enumerate(path):
            other = arrays.get((path[:k], not isinstance(part, Index)))
            if other is not None:
                return other, i
            arrays.setdefault((path[:k], isinstance(part, Index)), i)
        beginnings = [path[:k] for k in range(1, len(path))]
        for known in (ends.get(path), inner.get(path), *map(ends.get, beginnings)):
            if known is not None:
                return known, i
        ends[path] = i
        for beginning in beginnings:
            inner.setdefault(beginning, i)
    return None
