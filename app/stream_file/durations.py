"""Durations as people write them: "250ms", "5s", "3m", "2h", "7d". Seconds as floats inside."""

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
PATTERN = r"[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)"
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)")
# Beyond it, milliseconds no longer fit the integers that Kafka has for them.
LONGEST_SECONDS = 36_500 * UNITS["d"]


def parse_duration(value: Any, *, example: str = "7d") -> float:
    """Seconds of a duration.

    Raises
    ------
    ValueError
        What was expected, found, and how to write it.
    """
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        shown = f'"{value}"' if isinstance(value, str) else value
        raise ValueError(f"expected a duration such as {example}, found {shown}; write a number and ms, s, m, h or d")
    seconds = round(float(found[1]) * UNITS[found[2]], 9)
    if seconds > LONGEST_SECONDS:
        raise ValueError(f'expected a duration of at most 36500d, found "{value}"; shorten it')
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest way to write `seconds`, to a billionth: 604800 is "7d", 0.25 is "250ms"."""
    for unit, size in sorted(UNITS.items(), key=lambda item: -item[1]):
        amount = round(seconds / size, 9)
        if amount >= 1 and amount == int(amount):
            return f"{int(amount)}{unit}"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def rounded_up(seconds: float) -> str:
    """A duration in the largest unit that it has one of, not shorter: 2157976 is "25d"."""
    size = max((one for one in UNITS.values() if one <= seconds), default=UNITS["ms"])
    return format_duration(math.ceil(seconds / size) * size)


def duration(example: str, least: float = 0.0) -> Any:
    """The type of a field that holds a duration of at least `least` seconds."""

    def parse(value: Any) -> float:
        seconds = parse_duration(value, example=example)
        if seconds < least:
            raise ValueError(f'expected a duration of at least {format_duration(least)}, found "{value}"; lengthen it')
        return seconds

    schema = {"type": "string", "pattern": f"^{PATTERN}$", "examples": [example]}
    return Annotated[float, BeforeValidator(parse), WithJsonSchema(schema)]
