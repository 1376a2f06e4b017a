"""Times and nesting."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riparian.topics.decoding.times import many_milliseconds, milliseconds
from riparian.topics.formats.common.json_text import MAX_DEPTH, too_deep


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0.0),
        (1_700_000_000, 1.7e12),
        (1_700_000_000.25, 1_700_000_000_250.0),
        (1_700_000_000_000, 1.7e12),
        (99_999_999_999, 99_999_999_999_000.0),
        (100_000_000_000, 1e11),
        (-1, -1000.0),
        ("1970-01-01", 0.0),
        ("1970-01-01T00:00:01", 1000.0),
        ("1970-01-01T00:00:01Z", 1000.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("2024-05-01T12:00:00.123456Z", 1_714_564_800_123.456),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000.0),
    ],
)
def test_times(value: Any, ms: float) -> None:
    assert milliseconds(value) == ms
    if not isinstance(value, str):
        assert many_milliseconds([value, None]) == [ms, None]


@pytest.mark.parametrize(
    "value", ["", "now", "1700000000", "2024-13-01", "9999-12-31T23:59:59-01:00", 2.6e14, -1e300, 10**400]
)
def test_what_is_no_time(value: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        milliseconds(value)
    if not isinstance(value, str):
        with pytest.raises(ValueError):
            many_milliseconds([value])


JSONS = st.recursive(
    st.one_of(st.integers(), st.text('[]{}"\\ a')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[{"\\'), inner),
)


def depth(value: Any) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@given(value=JSONS, wraps=st.integers(MAX_DEPTH - 6, MAX_DEPTH + 3))
def test_depth_counts_what_a_parser_would_meet(value: Any, wraps: int) -> None:
    for i in range(wraps):
        value = {"k": value} if i % 2 else [value]
    assert too_deep(json.dumps(value).encode()) == (depth(value) > MAX_DEPTH)


@pytest.mark.parametrize("value", [b'"' + b'\\"' * 130_000, b'"' * 260_001, b"\\" * 260_000, b'["' * 130_000])
def test_a_scan_is_linear(value: bytes) -> None:
    """A quadratic one would not come back from a quarter of a megabyte of quotes."""
    too_deep(b"[" * 201 + value)


@pytest.mark.filterwarnings("error")
def test_huge_numbers_are_no_times_and_no_warnings() -> None:
    with pytest.raises(ValueError, match="beyond the year 9999"):
        many_milliseconds([1e308, 5.0])
    assert many_milliseconds([5.0, -5.0, 2e11, None]) == [5000.0, -5000.0, 2e11, None]
