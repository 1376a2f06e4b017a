"""What is written in Arrow batches: the instances of a replay, and predictions."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.errors import DataError
from riparian.app.replay import ReplayRecords, together
from riparian.app.stream_file.spec import build
from riparian.topics.formats.arrow.codec import ArrowCodec
from riparian.topics.formats.arrow.columns import written
from riparian.topics.formats.json.codec import JsonCodec
from riparian.topics.places import BITS, place_of
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.slices import Texts
from tests.topics.arrow_records import SPEC, STREAM, decoded, raw, rows


@pytest.mark.parametrize("first", [0.5, None])
def test_what_a_replay_writes_is_read_as_its_json(first):
    made = [{**row, "id": f"i{k}", "list": [first, 1.5]} for k, row in enumerate(rows(40, 3))]
    codec, plain = ArrowCodec(SPEC.mapping()), JsonCodec(SPEC.mapping())
    texts = [json.dumps({k: v for k, v in row.items() if k != "ts"}).encode() for row in made]
    joined = codec.writer().join_features(texts)
    assert decoded(codec, raw([joined], codec)) == decoded(plain, raw(texts))
    labels = [json.dumps({"id": f"i{k}", "y": k % 2, "ts": None}).encode() for k in range(5)]
    one = codec.decode_labels(raw([codec.writer().join_labels(labels)], codec, "labels"), SPEC.class_vocabulary())
    two = plain.decode_labels(raw(labels), SPEC.class_vocabulary())
    assert (one.ids, one.y) == (two.ids, two.y)


def test_a_list_of_numbers_and_texts_is_refused_with_a_sentence():
    row = json.dumps({**rows(1, 3)[0], "ts": None, "list": ["a", 1.5]}).encode()
    with pytest.raises(DataError, match=r"""one type in the list "list", as Arrow has them, found string and double"""):
        together(ReplayRecords([b"i0"], [row], [1000]), ArrowCodec(SPEC.mapping()).writer().join_features, 10)


@pytest.mark.parametrize("challengers", [None, ["nb"]])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_predictions_are_joined_and_split(task, challengers):
    changed = {"task": task} if task == "classification" else {"task": task, "record": {"x": ""}}
    spec = build({**STREAM, **changed, "codec": "arrow"}, "s")
    codec, classes = spec.make_codec(), spec.class_vocabulary()
    for word in ["up", 1, True] if classes is not None else []:
        classes.code(word)
    p = (
        np.array([[0.1, 0.7, 0.2], [0.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
        if classes is not None
        else np.array([[1.5], [np.nan], [-0.0]])
    )
    named = {"challengers": dict.fromkeys(challengers, p)} if challengers else {}
    if challengers:
        named["reasons"] = [{"b": 2.5, "ü": -1.0}, None, {"a": 0.5}]
        named["features"] = [{"n": 1.0, "ü": 0.25}, {}, {"n": 2.0}]
        named["regions"] = np.array([[1.0, 0.0, 1.0], [0, 0, 0], [1, 1, 1]])
        if classes is None:
            named["regions"] = np.array([[0.5, 2.5], [np.nan, np.nan], [-1.0, 1.0]])
    columns = PredictionColumns(
        ["a", "b", "ü"], p, classes, "m", [1, 1, 2], [0, 0, 3], further={"index": [0, 1, 0], "label_index": [2, 3, 0]},
        **named,
    )  # fmt: skip
    values, packed = codec.encode_predictions(columns), codec.pack_predictions(10**6, columns)
    assert [row for record in packed for row in codec.split_predictions(record)] == values
    records = codec.join_predictions(values, 10**6)
    assert pa.ipc.open_stream(packed[0]).read_all().equals(pa.ipc.open_stream(records[0]).read_all())
    assert [row for record in records for row in codec.split_predictions(record)] == values
    assert len(records) == 1
    whole = pa.ipc.open_stream(records[0]).read_all().to_pydict()
    assert whole["y"] == (["1", None, "up"] if classes is not None else [1.5, None, -0.0])
    assert whole["offset"] == [1, 1, 2]
    assert whole["label_index"] == [2, 3, 0]
    if challengers:
        assert whole["reasons"] == [[("b", 2.5), ("ü", -1.0)], None, [("a", 0.5)]]
        assert whole["features"] == [[("n", 1.0), ("ü", 0.25)], [], [("n", 2.0)]]
    if challengers and classes is None:
        assert (whole["lower"], whole["upper"]) == ([0.5, None, -1.0], [2.5, None, 1.0])
    elif challengers:
        assert whole["set"] == [["up", "true"], None, ["up", "1", "true"]]
    if classes is not None:
        assert whole["p"][0] == [("up", 0.1), ("1", 0.7), ("true", 0.2)]
    assert codec.read_place(values[1]).places(codec.index_bits) == (place_of(1, 1, BITS), place_of(0, 3, BITS))
    fewer = codec.encode_predictions(
        PredictionColumns(["d"], p[:1], classes, "other", [3], [0], challengers={"more": p[:1]})
    )
    several = codec.join_predictions([*values, *fewer, *values], 10**6)
    assert len(several) == 3  # the models were others
    assert [row for record in several for row in codec.split_predictions(record)] == [*values, *fewer, *values]
    small = codec.join_predictions(values, 2 * len(values[0]))
    assert len(small) == 3
    assert [row for record in small for row in codec.split_predictions(record)] == values
    for wrong in (None, b"", b"{}", records[0][:-60]):
        with pytest.raises(ValueError):
            codec.split_predictions(wrong)


@given(st.integers(0, 10**6), st.integers(0, 6), st.booleans(), st.sampled_from([None, ["one"], ["one", "two"]]))
@settings(max_examples=30, deadline=None)
def test_predictions_are_packed_as_their_texts_say(seed, n_classes, probabilities, challengers):
    rng = np.random.default_rng(seed)
    spec = build({**STREAM, "codec": "arrow"}, "s")
    codec, classes, n = spec.make_codec(), spec.class_vocabulary(), int(rng.integers(0, 40))
    for k in range(n_classes):
        classes.code(["ü" * k + "c", k, bool(k % 2), k / 2][k % 4])

    def outputs():
        p = rng.random((n, 8)) * (rng.random((n, 1)) < 0.7)
        p[rng.random((n, 8)) < 0.05] = np.nan
        return p

    columns = {
        "ids": [f"i{i}" for i in range(n)], "p": outputs(), "classes": classes, "model": "m",
        "offsets": rng.integers(0, 99, n).tolist(), "label_offsets": rng.integers(0, 99, n).tolist(),
        "probabilities": probabilities, "further": {"index": list(range(n)), "label_index": [0] * n},
        "challengers": {role: outputs() for role in challengers} if challengers else None,
        "decided": {role: rng.integers(0, 4, n).astype(float) for role in ("champion", *(challengers or ()))},
        "reasons": [{"b": 0.5} if i % 2 else None for i in range(n)] if challengers else None,
        "features": [{"n": i / 4} if i % 3 else {} for i in range(n)] if probabilities else None,
    }  # fmt: skip
    if n_classes == 0 and seed % 2:
        columns |= {
            "classes": None,
            "reasons": None,
            "decided": {role: rng.choice([0.0, 1.0, np.nan], n) for role in columns["decided"]},
        }
    room = int(rng.choice([100, 3000, 10**6]))
    packed = codec.pack_predictions(room, PredictionColumns(**columns))
    assert [row for record in packed for row in codec.split_predictions(record)] == codec.encode_predictions(
        PredictionColumns(**columns)
    )
    assert codec.pack_predictions(10**6, PredictionColumns(**{**columns, "ids": ["x" * 6000] * n})) is None or n == 0
    edges = np.cumsum([2, *(len(one) + int(seed % 2) for one in columns["ids"])])
    data = b"ab" + b"".join(one.encode() + b"-" * int(seed % 2) for one in columns["ids"])
    texts = Texts(data, edges[:-1], edges[1:] - seed % 2)
    for name in ("offsets", "label_offsets"):
        columns[name] = np.array(columns[name], np.int64)
    assert codec.pack_predictions(room, PredictionColumns(**{**columns, "ids": texts})) == packed


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a" * 1000] * 3).dictionary_encode(),
        pa.array(["a" * 1000] * 3, pa.string_view()),
        pa.RunEndEncodedArray.from_arrays([3], ["a" * 1000]),
        pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "", ""), pa.array([b"a"] * 3)),
    ],
    ids=["dictionary", "views", "runs", "extension"],
)
def test_records_that_say_one_text_for_many_rows_are_no_predictions(column, deep):
    """Each row would be a text of its own, however few bytes stand for all of them."""
    codec, column = ArrowCodec(SPEC.mapping()), pa.StructArray.from_arrays([column], ["y"]) if deep else column
    assert codec.split_predictions(written(pa.record_batch({"y": ["a"] * 3}))) == [b'{"y":"a"}'] * 3
    with pytest.raises(ValueError, match="columns of another type than predictions have"):
        codec.split_predictions(written(pa.record_batch({"y": column})))
