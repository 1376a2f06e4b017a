"""Mutations that all targets share: of bytes, of texts, and of what JSON, YAML and msgpack hold."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Random = np.random.Generator

# What has a meaning of its own somewhere: brackets, escapes, numbers at a bound, halves of characters.
_TEXTS = (
    *'{}[]",:.-+0 \t\n\r\\/\0\x0b\x7f',
    *("null", "true", "false", "NaN", "Infinity", "-Infinity", "-0", "-0.0", "0x1F", "1e999", "-1e999", "1e-400"),
    *("1.0", "1.", ".5", "01", "1e", "1E+2", "1e22", "9007199254740993", "9223372036854775808", "1" + "0" * 25),
    *("18446744073709551616", "1e11", "99999999999.5", "253402300800000", "9999-12-31T23:59:59.999Z", "12:30"),
    *('\\"', "\\u0000", "\\ud800", "\\ud83d\\ude00", "\\u00e9", "\\x", "é", "😀", "\u2028", "\ufeff", "\ud800"),
    *('"":', '"id":', '"id":"7",', '"x":{},', '"x":null,', '"y":"UP",', "{" * 9, "[" * 9, "}" * 9, "]" * 9),
    *("&a ", "*a", "<<: *a", "!!bool ", "!!int ", "!!python/name:os.system ", "? ", "- ", "|\n", ">\n"),
    *("---\n", "...\n", "#", "~", "yes", "1_000", "7d", "1e400s", "2024-01-01", "2024-01-01T00:00:00+25:00"),
)
TOKENS: tuple[bytes, ...] = (
    *(text.encode("utf-8", "surrogatepass") for text in _TEXTS),
    *(b"\xff", b"\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xed\xa0\x80"),
)

# Values to put where another was.
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 0.5, -0.0, 1.0, 1e-300, 1e22, 1.7976931348623157e308, 2**31, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), 2**64, 10**25, 1e11, 99_999_999_999.5, 1_700_000_000, 253_402_300_799_999),
    *(
        253_402_300_800_000,
        -1,
        -1e12,
        "",
        "a",
        "1",
        "1.0",
        "true",
        "null",
        "UP",
        "é",
        "😀",
        "\0",
        "a.b",
        "@key",
        "x" * 1024,
    ),
    *("x" * 1025, "é" * 600, "2024-01-01", "2024-01-01T00:00:00Z", "2024-W01-1", "20240101T0102", "0001-01-01"),
    *("9999-12-31T23:59:59+00:00", "9999-12-31T23:59:59-01:00", "12:30", "24:00", "nominal", "numeric", "none", "all"),
)


def pick(rng: Random, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def of_bytes(rng: Random, data: bytes, tokens: Sequence[bytes] = TOKENS) -> bytes:
    """One mutation: a bit or a byte changed, bytes taken away, put in, doubled, or moved."""
    if not data:
        return bytes(pick(rng, tokens))
    start = int(rng.integers(len(data)))
    stop = min(len(data), start + 1 + int(rng.exponential(4)))
    kind = int(rng.integers(8))
    if kind == 0:
        return data[:start] + bytes([data[start] ^ 1 << int(rng.integers(8))]) + data[start + 1 :]
    if kind == 1:
        return data[:start] + bytes([int(rng.integers(256))]) + data[start + 1 :]
    if kind == 2:
        return data[:start] + data[stop:]
    if kind == 3:
        return data[:start] + bytes(pick(rng, tokens)) + data[start:]
    if kind == 4:
        return data[:start] + bytes(pick(rng, tokens)) + data[stop:]
    if kind == 5:
        return data[:stop] + data[start:stop] * int(rng.integers(1, 4)) + data[stop:]
    if kind == 6:
        return data[:start]
    place = int(rng.integers(len(data)))
    return data[:place] + data[start:stop] + data[place:]


def of_value(rng: Random, value: Any, others: Sequence[Any] = SCALARS) -> Any:
    """A copy of a nested value with one mutation somewhere: another value, one less, one more, or one moved."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return copy.deepcopy(pick(rng, others))
    holder, key = pick(rng, places)
    kind = int(rng.integers(10))
    if kind < 4:
        holder[key] = copy.deepcopy(pick(rng, others))
    elif kind == 4:
        del holder[key]
    elif kind == 5:
        other, there = pick(rng, places)
        holder[key] = copy.deepcopy(other[there])
    elif kind == 6:
        holder[key] = pick(rng, ([], {}, [holder[key]], {"a": holder[key]}, [[[]]], [holder[key]] * 3))
    elif kind == 7 and isinstance(holder, dict):
        new = pick(rng, (*holder, "", "a", "id", "x", "y", "é", "model", "max_bytes"))
        holder[new] = holder.pop(key)
    elif kind == 8 and isinstance(holder[key], str):
        holder[key] = of_bytes(rng, holder[key].encode("utf-8", "surrogatepass")).decode(errors="replace")
    elif isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = pick(
            rng, (-holder[key], holder[key] + 1, holder[key] * 10, str(holder[key]), 10**9 * holder[key])
        )
    elif isinstance(holder, list):
        holder.insert(int(rng.integers(len(holder) + 1)), copy.deepcopy(pick(rng, others)))
    else:
        holder[pick(rng, ("", "a", "id", "x", "y", "é", "model", "max_bytes"))] = copy.deepcopy(pick(rng, others))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything that can be replaced in a nested value: what holds it, and its key or index."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def smaller(parts: Sequence[Any]) -> Iterator[list[Any]]:
    """The same sequence with some left out: halves, quarters, …, single ones (first of all a long one's halves)."""
    size = len(parts) // 2
    while size:
        for start in range(0, len(parts), size):
            left = [*parts[:start], *parts[start + size :]]
            if left:
                yield left
        size //= 2


def shorter(data: bytes) -> Iterator[bytes]:
    """The same bytes with some left out."""
    size = len(data) // 2
    while size:
        for start in range(0, len(data), size):
            yield data[:start] + data[start + size :]
        size //= 2
