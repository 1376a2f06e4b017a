"""What the decoder does not say by itself: event times, the depth of nesting, the kind of a broken record.

All of it depends on the bytes of one record alone. In particular the depth is counted here, because the JSON decoder
stops where the interpreter's stack happens to end, and a record must not be good in one place and bad in another.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from topics.records import Floats

MAX_DEPTH = 200
# Values of at most this many bytes cannot be nested deeper than MAX_DEPTH: every level opens and closes.
SHALLOW_BYTES = 2 * MAX_DEPTH

# Numbers below are seconds, numbers from it on are milliseconds (as ms, it is in March 1973).
SECONDS_BELOW = 1e11
# The first millisecond of the year 10000.
END_OF_TIME_MS = 253_402_300_800_000.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Always matches from a quote on, to the end of the text if need be: linear, whatever the bytes.
_STRING = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)
_BRACKETS = b"[]{}"
_OTHERS = bytes(byte for byte in range(256) if byte not in _BRACKETS)


def too_deep(value: bytes) -> bool:
    """Whether a JSON text is nested deeper than MAX_DEPTH. Costs two scans, more only where brackets abound."""
    if len(value) <= SHALLOW_BYTES or value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", value).translate(None, _OTHERS), dtype=np.uint8)
    opens = (brackets == ord("[")) | (brackets == ord("{"))
    return bool(len(brackets)) and int(np.cumsum(np.where(opens, 1, -1)).max()) > MAX_DEPTH


def is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def milliseconds(value: str | int | float) -> float:
    """An event time as ms since 1970: a number of seconds or milliseconds, or ISO 8601 (UTC unless it says so).

    Raises
    ------
    ValueError
        Where it is none of them, or beyond the year 9999.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            ms = (moment - _EPOCH) / _MILLISECOND
        except (ValueError, OverflowError):
            raise ValueError(f"expected ISO 8601 or a number, found {value[:40]!r}") from None
    else:
        try:
            ms = float(value)
        except OverflowError:
            raise ValueError("expected a time before the year 10000, found a huge number") from None
        if -SECONDS_BELOW < ms < SECONDS_BELOW:
            ms *= 1000.0
    if not -END_OF_TIME_MS < ms < END_OF_TIME_MS:
        raise ValueError(f"expected a time before the year 10000, found {ms:.6g} ms")
    return ms


def many_milliseconds(values: Sequence[int | float]) -> list[float | None]:
    """`milliseconds` of many numbers at once, None for None. Raises ValueError where any of them does."""
    try:
        ms: Floats = np.fromiter(values, np.float64, count=len(values))
    except OverflowError:
        raise ValueError("huge number") from None
    np.multiply(ms, 1000.0, out=ms, where=np.abs(ms) < SECONDS_BELOW)
    missing = np.isnan(ms)
    if not (missing | (np.abs(ms) < END_OF_TIME_MS)).all():
        raise ValueError("beyond the year 9999")
    result: list[float | None] = ms.tolist()
    if missing.any():
        result = [None if v != v else v for v in result]
    return result
