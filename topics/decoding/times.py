"""Event times: what a record may hold, as milliseconds since 1970."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from riparian.topics.records import Floats

# Numbers below are seconds, numbers from it on are milliseconds (as ms, it is in March 1973).
SECONDS_BELOW = 1e11
# The first millisecond of the year 10000.
END_OF_TIME_MS = 253_402_300_800_000.0

# Logical types by which Kafka Connect and Debezium name the unit of a time -> milliseconds of one, in every format.
UNITS = {
    "org.apache.kafka.connect.data.Date": 86_400_000.0,
    "org.apache.kafka.connect.data.Timestamp": 1.0,
    "io.debezium.time.Date": 86_400_000.0,
    "io.debezium.time.Timestamp": 1.0,
    "io.debezium.time.MicroTimestamp": 1e-3,
    "io.debezium.time.NanoTimestamp": 1e-6,
}
# Others are no moments where they are numbers: a time of day, a year, a span.
_OTHERS = ("org.apache.kafka.connect.data.Time", "io.debezium.time.")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def is_no_moment(name: object) -> bool:
    """Whether a logical type of Kafka Connect or Debezium is of numbers that are no moments."""
    return isinstance(name, str) and name.startswith(_OTHERS) and name not in UNITS


def in_unit(value: float, unit: float) -> float:
    """A number of units, of so many ms, as `milliseconds` wants it: seconds where it would take it for seconds."""
    ms = value * unit if unit >= 1 else value / round(1 / unit)
    return ms / 1000 if -SECONDS_BELOW < ms < SECONDS_BELOW else ms


def milliseconds(value: str | int | float) -> float:
    """An event time as ms since 1970: a number of seconds or milliseconds, or ISO 8601 (UTC unless it names a zone).

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


def many_milliseconds(values: Sequence[int | float] | Floats) -> list[float | None]:
    """`milliseconds` of many numbers at once, None for None, or NaN in an array. Raises ValueError where any of them
    does."""
    try:
        ms: Floats = (
            np.array(values) if isinstance(values, np.ndarray) else np.fromiter(values, np.float64, len(values))
        )
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
