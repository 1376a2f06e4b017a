"""Bags of instances: batches against single records, every reason of their own."""

import json
import math
from typing import Any

import numpy as np
import pytest

from riparian.topics import records as r
from riparian.topics.codecs import JsonCodec
from riparian.topics.records import Feature, Features, Mapping
from riparian.topics.vocabulary import Vocabulary
from tests.topics.decoding import raw

MAPPING = Mapping(
    "multi-instance",
    (
        Feature("a", "numeric", ("a",)),
        Feature("c", "nominal", ("c",)),
        Feature("n", "boolean", ("deep", "n")),
        Feature("d", "nominal", ("deep", "d")),
    ),
    x=("molecule", "shapes"),
    time=("ts",),
    max_instances=3,
)
CLASSES = [0, 1]


def fresh() -> tuple[list[Any], Vocabulary]:
    return [None, Vocabulary(2), Vocabulary(2, [False, True]), Vocabulary(2, ["u", "v"])], Vocabulary(2, CLASSES)


def decode(*bags: Any, **record: Any) -> Features:
    values = [json.dumps({"id": str(i), "molecule": {"shapes": bag}, **record}).encode() for i, bag in enumerate(bags)]
    return JsonCodec(MAPPING).decode_features(raw(values), *fresh())


def test_a_bag_becomes_rows() -> None:
    found = decode([{"a": 1, "c": "red", "deep": {"n": True}}, {"a": 2}], [{"c": "blue", "z": []}], y=1)
    assert found.position is None
    assert found.sizes is not None
    assert found.sizes.tolist() == [2, 1]
    nan = math.nan
    expected = [[1.0, 0.0, 1.0, nan], [2.0, nan, nan, nan], [nan, 1.0, nan, nan]]
    assert np.array_equal(found.x, expected, equal_nan=True)
    assert found.x.flags.c_contiguous
    assert found.y == [1.0, 1.0]


@pytest.mark.parametrize(
    ("bag", "reason", "detail"),
    [
        (None, r.MISSING_X, "molecule.shapes: the instances are missing"),
        ([], r.EMPTY_BAG, "molecule.shapes: a bag has at least one"),
        ([{}] * 4, r.TOO_MANY_INSTANCES, "molecule.shapes: a bag of 4 instances, at most 3"),
        ({}, r.WRONG_TYPE, "molecule.shapes: "),
        ({"a": 1}, r.WRONG_TYPE, "molecule.shapes: "),
        ([{"a": 1}, None], r.WRONG_TYPE, "molecule.shapes[1]: "),
        ([{"a": 1}, 5], r.WRONG_TYPE, "molecule.shapes[1]: "),
        ([{"a": 1}, {"a": "1"}], r.WRONG_TYPE, "molecule.shapes[1].a: "),
        ([{"a": 10**400}], r.NOT_FINITE, "molecule.shapes[0].a: "),
        ([{"deep": {"d": "u"}}, {"deep": {"d": "w"}}], r.UNKNOWN_VALUE, "d: 'w'"),
        ([{"c": "x"}, {"c": "y"}, {"c": "z"}], r.NOMINAL_OVERFLOW, "c: 'z' is new, and 2 are known"),
        ([{"c": "v" * 1025}], r.TOO_LONG, "c: "),
    ],
)
def test_every_fault_of_a_bag(bag: Any, reason: str, detail: str) -> None:
    found = decode([{"a": 1}], bag, [{"a": 2}, {"a": 3}])
    (bad,) = found.rejected
    assert (bad.position, bad.reason) == (1, reason)
    assert bad.detail.startswith(detail)
    assert found.position == [0, 2]
    assert found.sizes is not None
    assert found.sizes.tolist() == [1, 2]
    assert found.x[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_a_bag_that_is_refused_leaves_no_trace() -> None:
    codec, (vocabularies, classes) = JsonCodec(MAPPING), fresh()
    bags = [[{"c": "p"}, {"c": "q"}, {"c": "r"}], [{"c": "q"}], [{"c": "p"}, {"c": "q"}], [{"c": "r"}]]
    values = [json.dumps({"id": "i", "molecule": {"shapes": bag}}).encode() for bag in bags]
    found = codec.decode_features(raw(values), vocabularies, classes)
    assert [bad.position for bad in found.rejected] == [0, 3]
    assert vocabularies[1].values == ["q", "p"]
    assert found.x[:, 1].tolist() == [0.0, 1.0, 0.0]
