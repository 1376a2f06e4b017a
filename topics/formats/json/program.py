"""What JSON records that are alike have in common: the program by which `kernel` walks them.

It is made of one record: what stands between the values is the same in all of them, and each value is one of a field
that the stream maps, or is passed over.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.topics.decoding.paths import Index
from riparian.topics.formats.common import slots as s
from riparian.topics.formats.common.blocks import Shape
from riparian.topics.formats.json import kernel as k
from riparian.topics.records import Path

MOST_LINES = 2000

_TOKEN = re.compile(rb'[ \t\n\r]*(?:([{}\[\]:,])|"([^"\\\x00-\x1f]*)"|(true|false|null|-?[0-9][0-9.eE+-]*))')
_ANY = k.TEXT | k.WHOLE | k.REAL | k.TRUTH | k.NULL
_TAKEN = {
    s.ID: k.TEXT | k.WHOLE | k.NULL,
    s.TIME: k.TEXT | k.WHOLE | k.REAL | k.NULL,
    s.SCALAR: _ANY,
    s.TARGET: k.REAL | k.NULL,
}


class JsonProgram(NamedTuple):
    """code : (lines, 4) uint64. wanted : uint64."""

    code: NDArray[np.uint64]
    wanted: NDArray[np.uint64]


class _Value(NamedTuple):
    """A scalar of a record, or the beginning of an object (stop = start): its path, and where it stands."""

    path: Path
    start: int
    stop: int


class _UnusualError(Exception):
    """No program can be made of the record."""


def program(shape: Shape, value: bytes) -> JsonProgram | None:
    """The program of a record that the decoder takes; None where there is none, since other records would hardly be
    like it, or a name may mean another one."""
    at = {slot.path: i for i, slot in enumerate(shape.slots)}
    place = {i: column for column, i in enumerate(shape.numbers)} | {i: cell for cell, i in enumerate(shape.others)}
    around = {one[:n] for one in at for n in range(1, len(one))}  # paths of objects with fields that are mapped
    around |= {slot.path for slot in shape.slots if slot.kind == s.OBJECT}
    code: list[tuple[int, int, int, int]] = []
    words: list[int] = []
    done = 0

    def same(until: int) -> None:
        text = value[done:until]
        if text:
            padded = text + bytes(8 - len(text) % 8)
            mask = (1 << 8 * (len(text) % 8)) - 1
            code.append((k.SAME, len(text), len(words), mask))
            words.extend(int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8))

    try:
        for path, start, stop in _values(value):
            i = at.get(path)
            slot = None if i is None else shape.slots[i]
            if start == stop:
                if slot is None:
                    continue
                if slot.kind != s.OBJECT:
                    return None
                same(start)
                code.append((k.THERE, place[at[path]], 0, 0))
            elif path in around:
                continue  # null in place of an object: like all that stands between the values
            else:
                same(start)
                if slot is None:
                    code.append((k.SKIP, 0, 0, 0))
                elif slot.kind in (s.NUMBER, s.FLAG):
                    code.append((k.NUMBER if slot.kind == s.NUMBER else k.FLAG, place[at[path]], 0, 0))
                else:
                    code.append((k.VALUE, place[at[path]], _TAKEN[slot.kind], 0))
            done = stop
            if len(code) > MOST_LINES:
                return None
    except _UnusualError:
        return None
    same(len(value))
    code.append((k.END, 0, 0, 0))
    return JsonProgram(np.array(code, np.uint64), np.array([*words, 0], np.uint64))


def _values(value: bytes) -> Iterator[_Value]:
    """The values of a record, in their order; _UnusualError where a name has an escape or comes twice in an object."""
    around: list[Any] = []  # of each object and array that is open: the names so far, or the number of the item
    path: list[str] = []
    at, expects_name = 0, False
    end = len(value.rstrip(b" \t\n\r"))
    while at < end:
        found = _TOKEN.match(value, at)
        if found is None:
            raise _UnusualError
        at = found.end()
        sign, text, scalar = found.groups()
        if sign in (b"{", b"["):
            yield _Value(tuple(path), at, at)
            around.append(set() if sign == b"{" else 0)
            expects_name = sign == b"{"
            path.append("" if sign == b"{" else Index("[0]"))
        elif sign in (b"}", b"]"):
            if not around:
                raise _UnusualError
            around.pop()
            path.pop()
            expects_name = False
        elif sign == b",":
            if not around:
                raise _UnusualError
            if isinstance(around[-1], set):
                expects_name = True
            else:
                around[-1] += 1
                path[-1] = Index(f"[{around[-1]}]")
        elif sign == b":":
            continue
        elif expects_name:
            if text is None:
                raise _UnusualError
            name = text.decode()
            if name in around[-1]:
                raise _UnusualError
            around[-1].add(name)
            path[-1], expects_name = name, False
        else:
            start = found.start(3) if scalar is not None else found.start(2) - 1
            yield _Value(tuple(path), start, at)
