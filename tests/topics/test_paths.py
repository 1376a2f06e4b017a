"""Paths: how they are written, and how arrays are decoded by them."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.written import rows_of_arrays
from riparian.app.errors import SpecError
from riparian.app.replay import Schedule, Timeline
from riparian.app.stream_file.spec import build
from riparian.topics import records as r
from riparian.topics.decoding.paths import Index, dotted, parse
from riparian.topics.records import RawBatch
from tests.topics.decoding import raw

STREAM = {
    "name": "s",
    "task": "regression",
    "features": {
        "a": {"type": "numeric", "from": "rows[0][2]"},
        "b": {"type": "numeric", "from": ["rows", 1, 0]},
        "c": {"type": "nominal", "from": "items[1].c"},
        "d": {"type": "numeric", "from": ["items[1]"]},
    },
    "record": {"id": "ids[0]", "y": None},
    "label": {"id": "[0]", "y": "[1].y"},
    "champion": "fimt-dd",
}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a[0].b", ("a", Index("[0]"), "b")),
        ("a[10][2]", ("a", Index("[10]"), Index("[2]"))),
        ("[3].a", (Index("[3]"), "a")),
    ],
)
def test_paths_are_written_with_dots_and_places(text, path):
    assert parse(text) == path
    assert [type(part) for part in parse(text)] == [type(part) for part in path]
    assert dotted(path) == text


@given(st.lists(st.one_of(st.text("ab", min_size=1), st.integers(0, 999).map(lambda i: Index(f"[{i}]"))), min_size=1))
def test_the_text_of_a_path_reads_back(parts):
    assert parse(dotted(tuple(parts))) == tuple(parts)


@pytest.mark.parametrize("text", ["a[", "a]", "a[x]", "a[-1]", "a[]", "a[0]b", "a[[0]]", "a[1.5]"])
def test_a_path_that_is_none_is_a_sentence(text):
    with pytest.raises(SpecError, match=r"record\.id: expected a path such as items\[0\]\.price"):
        build({**STREAM, "record": {"id": text}}, "s")


def test_places_that_exclude_each_other_are_sentences():
    for path, said in (
        ("rows.x", 'found "rows.x"; a field holds a value or other fields'),
        ("rows[0]", 'found "rows[0]"; a field holds a value or other fields'),
        ("rows[0][2]", "which features.a reads too"),
        ("rows[1000]", "expected an index of at most 999, found 1000"),
    ):
        with pytest.raises(SpecError, match=re.escape(said)):
            build({**STREAM, "features": {**STREAM["features"], "z": {"type": "numeric", "from": path}}}, "s")


def decoded(*records):
    spec = build(STREAM, "s")
    known = spec.vocabularies()
    return spec.make_codec().decode_features(raw([json.dumps(one).encode() for one in records]), known)


def test_values_are_taken_out_of_arrays():
    found = decoded(
        {"ids": ["i", 7], "rows": [[0, "x", 2.5, {}], [1]], "items": [None, {"c": "u", "x": []}], "items[1]": 4},
        {"ids": ["j"], "rows": [[0, 1]], "items": []},
        {"ids": ["k"], "rows": [None, [None, 1]], "items": None},
    )
    assert (found.ids, found.rejected) == (["i", "j", "k"], [])
    np.testing.assert_array_equal(found.x, [[2.5, 1, 0, 4], [np.nan] * 4, [np.nan] * 4])


@pytest.mark.parametrize(
    ("record", "detail"),
    [
        ({"ids": ["i"], "rows": [[0, 0, "two"]]}, "rows[0][2]: "),
        ({"ids": ["i"], "rows": {"0": 1}}, "rows: "),
        ({"ids": ["i"], "items": [0, 1]}, "items[1]: "),
    ],
)
def test_a_wrong_type_is_named_by_its_place(record, detail):
    (bad,) = decoded(record).rejected
    assert bad.reason == r.WRONG_TYPE
    assert bad.detail.startswith(detail)


def test_an_array_without_an_id_has_none():
    assert [bad.reason for bad in decoded({"ids": []}, {"ids": [None, "i"]}, {}).rejected] == [r.MISSING_ID] * 3


def test_a_replay_writes_arrays():
    spec = build({**STREAM, "task": "regression"}, "s")
    timeline = Timeline(spec, Schedule(0, 1.0, 1))
    (rows,) = rows_of_arrays(spec, np.array([[0.5, 1.0, 2.0, 3.0]]), np.array([7.0]))
    (value,) = timeline.features(rows).values
    assert json.loads(value) == {
        "ids": ["0"], "rows": [[None, None, 0.5], [1.0]], "items": [None, {"c": "2"}], "items[1]": 3.0
    }  # fmt: skip
    (label,) = timeline.labels(9, 1).values
    assert json.loads(label) == ["0", {"y": 7.0}]
    found = spec.make_codec().decode_labels(RawBatch([0], [0], [None], [label]))
    assert (found.ids, found.y) == (["0"], [7.0])
