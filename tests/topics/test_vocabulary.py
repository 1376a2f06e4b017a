"""Codes in order of first sight, one for every way to write a value, bounded, restored."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riparian.topics.decoding import text_kernel
from riparian.topics.slices import Texts, of_texts
from riparian.topics.vocabulary import UNKNOWN, Vocabulary, canonical

SCALARS = st.one_of(st.text(max_size=3), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        ("1.0", "1.0"),
        (1, "1"),
        (-1, "-1"),
        (1.0, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (1e300, "1e+300"),
        (2.0**53, "9007199254740992.0"),
        (2.0**53 - 1, "9007199254740991"),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        (False, "false"),
    ],
)
def test_canonical_text(value: Any, text: str) -> None:
    assert canonical(value) == text


def test_codes_come_in_order_of_first_sight() -> None:
    vocabulary = Vocabulary(3)
    assert [vocabulary.code(v) for v in ("red", 1, "red", "1", 1.0, True, "blue", "red")] == [0, 1, 0, 1, 1, 2, -1, 0]
    assert vocabulary.values == ["red", 1, True]
    assert vocabulary.texts == ["red", "1", "true"]
    assert len(vocabulary) == 3


def test_finding_learns_nothing() -> None:
    vocabulary = Vocabulary(3)
    assert vocabulary.find("red") == UNKNOWN
    assert len(vocabulary) == 0
    vocabulary.code("red")
    assert vocabulary.find("red") == 0


def test_declared_values_come_first_and_close_it() -> None:
    vocabulary = Vocabulary(1, ["b", "a"])
    assert (vocabulary.find("b"), vocabulary.find("a")) == (0, 1)
    assert vocabulary.code("c") == UNKNOWN


def test_capacity_is_a_power_of_two_within_the_limit() -> None:
    vocabulary = Vocabulary(5)
    capacities = []
    for i in range(6):
        capacities.append(vocabulary.capacity)
        vocabulary.code(i)
    assert capacities == [2, 2, 2, 4, 4, 5]
    assert Vocabulary(100, ["a", "b", "c"]).capacity == 3
    assert Vocabulary(100, ["a"]).capacity == 2
    assert Vocabulary(1).capacity == 2


@pytest.mark.parametrize("declared", [["a", "a"], [1, "1"], [1, 1.0], [True, "true"]])
def test_a_value_is_declared_once(declared: list[Any]) -> None:
    with pytest.raises(ValueError, match="expected every value once"):
        Vocabulary(5, declared)


@pytest.mark.parametrize("arguments", [(0,), (5, [])])
def test_a_vocabulary_holds_something(arguments: Any) -> None:
    with pytest.raises(ValueError, match="at least one value"):
        Vocabulary(*arguments)


def test_a_closed_one_may_have_been_extended_at_its_end() -> None:
    vocabulary = Vocabulary(1, ["a", "b", "c"])
    vocabulary.restore(["a", "b"])
    assert vocabulary.values == ["a", "b", "c"]
    for state in (["b"], ["a", "c"], ["a", "b", "c", "d"]):
        with pytest.raises(ValueError, match="only add values at the end"):
            vocabulary.restore(state)


def test_a_limit_that_was_lowered() -> None:
    with pytest.raises(ValueError, match="raise the limit"):
        Vocabulary(1).restore(["a", "b"])


@given(before=st.lists(SCALARS), after=st.lists(SCALARS), limit=st.integers(1, 8))
def test_restored_it_goes_on_as_if_nothing_had_happened(before: list[Any], after: list[Any], limit: int) -> None:
    one = Vocabulary(limit)
    codes = [one.code(v) for v in before]
    assert len(one) == len(set(map(canonical, one.values))) <= limit
    assert all(code == one.find(v) for code, v in zip(codes, before, strict=True))
    other = Vocabulary(limit)
    other.restore(one.state())
    assert [one.code(v) for v in after] == [other.code(v) for v in after]
    assert one.state() == other.state()
    assert one.texts == other.texts
    assert one.capacity == other.capacity


def test_integers_that_no_encoder_writes_are_kept_as_texts() -> None:
    vocabulary = Vocabulary(10)
    for value in (2**64 - 1, 2**64, -(2**63), -(2**63) - 1):
        vocabulary.code(value)
    assert vocabulary.values == [2**64 - 1, str(2**64), -(2**63), str(-(2**63) - 1)]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(vocabulary.state())) == vocabulary.values
    assert vocabulary.find(2**64) == vocabulary.find(str(2**64)) == 1


@pytest.mark.parametrize("n_known", [0, 1, 8, 9, 300, 4096, 4097])
def test_texts_of_records_are_found_as_a_dictionary_finds_them(n_known):
    rng = np.random.default_rng(n_known)
    known = ["", "ü", *(f"{'w' * (k % 11)}{k}" for k in range(n_known))][:n_known]
    by_text = {text: float(k) for k, text in enumerate(known)}
    asked = [one for one in rng.choice(known, 5000).tolist() if one.isascii()] if known else []
    texts = of_texts(asked)
    found = text_kernel.codes(Texts(texts.data, texts.starts, texts.stops), known)
    expected = [by_text[one] for one in asked] if n_known <= text_kernel.MOST else None
    assert (None if found is None else found.tolist()) == expected
    for other in ("w", "w99999", "y" * 2000, "u"):
        texts = of_texts([*asked[:20], other, *asked[20:70]])
        assert text_kernel.codes(Texts(texts.data, texts.starts, texts.stops), known) is None
