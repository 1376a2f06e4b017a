"""Numeric features whose numbers come as texts: the same columns as of numbers, whatever the format."""

import json
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from riparian.topics import records as r
from riparian.topics.codecs import CODECS, JsonCodec
from riparian.topics.formats.arrow.codec import ArrowCodec
from riparian.topics.formats.common.slots import IN_TEXT
from riparian.topics.records import Feature, Features, Mapping
from riparian.topics.schemas import Schemas
from tests.topics.arrow_records import raw as raw_arrow
from tests.topics.arrow_records import stream
from tests.topics.decoding import raw
from tests.topics.test_avro import encode, record, spec_of
from tests.topics.test_avro_block import both
from tests.topics.test_registered import KITS, a_row

AS_TEXT = Mapping("classification", (Feature("n0", "numeric", ("x", "n0")), Feature("c", "numeric", ("x", "c"), True)))
DECIMALS = ["12.30", "0", "-7", "1E+3", "0E-10", "6.02e23", " 5 ", "null", "", "1_000", "nan", "0x1", "1e999", "٣"]
GOOD, HUGE = 8, "1e999"  # how many of them are numbers as JSON has them, or null


def texts(n: int) -> list[str]:
    return [DECIMALS[i % len(DECIMALS)] for i in range(n)]


def check(found: Features, given: list[str]) -> None:
    """The slow twin: each text alone, by Python's own reader."""
    wanted = [text for text in given if text in DECIMALS[:GOOD]]
    assert np.array_equal(found.x[:, 1], [np.nan if text == "null" else float(text) for text in wanted], equal_nan=True)
    reasons = [r.NOT_FINITE if text == HUGE else r.WRONG_TYPE for text in given if text not in DECIMALS[:GOOD]]
    assert [one.reason for one in found.rejected] == reasons
    assert all(one.detail.startswith("x.c: expected a number, or a text that is one") for one in found.rejected)


@pytest.mark.parametrize("n", [1, 2, 14, 100])
def test_texts_in_json_are_numbers(n: int) -> None:
    given = texts(n)
    values: list[Any] = [json.dumps({"id": str(i), "x": {"n0": i, "c": text}}).encode() for i, text in enumerate(given)]
    codec = JsonCodec(AS_TEXT)
    check(codec.decode_features(raw(values), [None, None]), given)
    one_by_one = [codec.decode_features(raw([value]), [None, None]) for value in values]
    assert [len(found.rejected) for found in one_by_one] == [int(text not in DECIMALS[:GOOD]) for text in given]


def test_numbers_beside_texts_are_taken_and_nothing_else() -> None:
    values: list[Any] = [1, 2.5, None, 10**400, True, [1], {"a": 1}, "7"]
    found = JsonCodec(AS_TEXT).decode_features(
        raw([json.dumps({"id": str(i), "x": {"c": value}}).encode() for i, value in enumerate(values)]), [None, None]
    )
    assert found.position == [0, 1, 2, 7]
    assert np.array_equal(found.x[:, 1], [1.0, 2.5, np.nan, 7.0], equal_nan=True)
    assert [one.reason for one in found.rejected] == [r.NOT_FINITE, r.WRONG_TYPE, r.WRONG_TYPE, r.WRONG_TYPE]
    assert "found 'true'" in found.rejected[1].detail


@pytest.mark.parametrize("name", KITS)
def test_texts_of_registered_formats_are_numbers(name: str) -> None:
    rng, schemas, given = random.Random(1), Schemas(), texts(40)
    schemas.known[1] = KITS[name].row
    rows = [a_row(rng) | {"id": str(i)} for i in range(len(given))]
    for row, text in zip(rows, given, strict=True):
        row["x"]["c"] = text
    found = CODECS[name](AS_TEXT, schemas).decode_features(raw([KITS[name].value(row) for row in rows]), [None, None])
    check(found, given)


@pytest.mark.parametrize("name", KITS)
def test_a_text_in_the_place_of_a_number_names_the_cure(name: str) -> None:
    mapping, schemas = Mapping("classification", (Feature("c", "numeric", ("x", "c")),)), Schemas()
    schemas.known[1] = KITS[name].row
    codec = CODECS[name](mapping, schemas)
    row = a_row(random.Random(1)) | {"id": "1"}
    row["x"]["c"] = "1.5"
    value = KITS[name].value(row)
    (refused,) = codec.decode_features(raw([value]), [None, None]).rejected
    (problem,) = [each for each in codec.problems("features", KITS[name].row, "S") if each.slot.owner == "features.c"]
    for said in (refused.detail, problem.sentence):
        assert said.removesuffix(" (schema 1)").endswith(f"; {IN_TEXT}"), said
    taken = CODECS[name](AS_TEXT, schemas).problems("features", KITS[name].row, "S")
    assert [each for each in taken if each.slot.owner == "features.c"] == []


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("n", [2, 40])  # one by one, and by the kernel
@pytest.mark.parametrize("kind", [{"type": "bytes"}, {"type": "fixed", "name": "D", "size": 8}])
def test_decimals_of_avro_are_taken_as_by_plain_numbers(kind: Any, n: int, text: bool) -> None:
    decimal = kind | {"logicalType": "decimal", "precision": 16, "scale": 2}
    content = record(("id", "string"), ("c", ["null", decimal, "string"]))
    texts = ["12.30", "-7.00", None, "0.07", "90071992547409.93"]
    given = [None if one is None else Decimal(one) for one in (texts * n)[:n]]
    values = [encode(content, {"id": str(i), "c": one}) for i, one in enumerate(given)]
    spec = spec_of(features={"c": {"type": "numeric", "from": "c", "text": text}}, record={})
    found = both(spec, [content], values)
    assert found.rejected == []
    assert np.array_equal(found.x[:, 0], [np.nan if one is None else float(one) for one in given], equal_nan=True)
    (wrong,) = both(spec, [content], [encode(content, {"id": "1", "c": "n/a"})]).rejected
    assert wrong.reason == r.WRONG_TYPE
    assert "expected a number" in wrong.detail


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.float64()])
def test_columns_of_arrow_are_numbers(kind: Any) -> None:
    given = texts(40) if kind != pa.float64() else ["12.30", "-7"]
    column: Any = given if kind != pa.float64() else list(map(float, given))
    x = pa.StructArray.from_arrays([pa.array(range(len(given)), pa.float64()), pa.array(column, kind)], ["n0", "c"])
    table = pa.RecordBatch.from_arrays([pa.array(map(str, range(len(given)))), x], ["id", "x"])
    codec = ArrowCodec(AS_TEXT)
    check(codec.decode_features(raw_arrow([stream(table)], codec), [None, None]), given)


def test_a_bag_with_one_wrong_text_is_rejected_as_one() -> None:
    mapping = Mapping("multi-instance", (Feature("a", "numeric", ("a",), True),))
    bags = [[{"a": "1.5"}, {"a": 2}], [{"a": "3"}, {"a": "n/a"}], [{}]]
    values: list[Any] = [json.dumps({"id": str(i), "x": bag}).encode() for i, bag in enumerate(bags)]
    found = JsonCodec(mapping).decode_features(raw(values), [None])
    assert found.position == [0, 2]
    assert np.array_equal(found.x, [[1.5], [2.0], [np.nan]], equal_nan=True)
    assert [(one.position, one.reason) for one in found.rejected] == [(1, r.WRONG_TYPE)]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({"n0": "1"}, "x.n0: expected a number, found a text; `text: true` takes numbers that are texts"),
        ({"n0": ""}, "x.n0: expected a number, found ''"),
        ({"n0": "6.59 EUR"}, "x.n0: expected a number, found '6.59 EUR'"),
        ({"n0": "n/a " * 99}, f"x.n0: expected a number, found {('n/a ' * 10)!r}"),
        ({"n0": [1]}, "x.n0: expected a number, found a list"),
        ({"c": {}}, "x.c: expected true or false, a number or a text, found an object"),
        ([], "x: expected an object, found a list"),
    ],
)
def test_a_wrong_type_is_told_in_words(value: Any, detail: str) -> None:
    found = JsonCodec(AS_TEXT).decode_features(raw([json.dumps({"id": "1", "x": value}).encode()]), [None, None])
    assert [(one.reason, one.detail) for one in found.rejected] == [(r.WRONG_TYPE, detail)]
