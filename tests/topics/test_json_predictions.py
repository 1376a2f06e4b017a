"""What JsonCodec writes of predictions: golden bytes, since other programs read them, and the same bits read back."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.topics.codecs import JsonCodec
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.vocabulary import Vocabulary
from tests.topics.test_codecs import FLAT, NUMERIC


def test_golden_predictions() -> None:
    codec, classes = JsonCodec(NUMERIC), Vocabulary(10)
    for label in ("UP", 7, True):
        classes.code(label)
    p = np.array([[0.1 + 0.2, 0.7, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.25, 0.25, 0.25, 0.0], [0.0] * 4])
    written = codec.encode_predictions(
        PredictionColumns(["a", 'b"', "c", "d"], p, classes, "hoeffding-tree", [1, 2, 3, 4], np.array([0, 0, 9, 9]))
    )
    assert written == [
        b'{"id":"a","y":7,"p":{"UP":0.30000000000000004,"7":0.7,"true":0.0},"model":"hoeffding-tree","offset":1,'
        b'"label_offset":0}',
        b'{"id":"b\\"","y":true,"p":{"UP":0.0,"7":0.0,"true":1.0},"model":"hoeffding-tree","offset":2,"label_offset":0}',
        b'{"id":"c","y":"UP","p":{"UP":0.25,"7":0.25,"true":0.25},"model":"hoeffding-tree","offset":3,"label_offset":9}',
        b'{"id":"d","y":null,"p":null,"model":"hoeffding-tree","offset":4,"label_offset":9}',
    ]


def test_golden_predictions_of_a_regression() -> None:
    codec = JsonCodec(FLAT)
    values = np.array([[1.5], [np.nan]])
    assert codec.encode_predictions(PredictionColumns(["a", "b"], values, None, "last-label", [1, 2], [0, 1])) == [
        b'{"id":"a","y":1.5,"model":"last-label","offset":1,"label_offset":0}',
        b'{"id":"b","y":null,"model":"last-label","offset":2,"label_offset":1}',
    ]


def test_golden_predictions_with_challengers() -> None:
    codec, classes = JsonCodec(NUMERIC), Vocabulary(10, ["no", "yes"])
    champion, other = np.array([[0.5, 0.5]]), {"nb": np.array([[0.25, 0.75]]), "last": np.array([[0.0, 0.0]])}
    arguments = (["a"], champion, classes, "m", [1], [2])
    assert codec.encode_predictions(PredictionColumns(*arguments, challengers=other)) == [
        b'{"id":"a","y":"no","p":{"no":0.5,"yes":0.5},"model":"m","offset":1,"label_offset":2,"challengers":'
        b'{"nb":{"y":"yes","p":{"no":0.25,"yes":0.75}},"last":{"y":null,"p":null}}}'
    ]
    assert codec.encode_predictions(PredictionColumns(*arguments, challengers=other, probabilities=False)) == [
        b'{"id":"a","y":"no","model":"m","offset":1,"label_offset":2,"challengers":'
        b'{"nb":{"y":"yes"},"last":{"y":null}}}'
    ]


def test_predictions_before_any_class_is_known() -> None:
    codec = JsonCodec(NUMERIC)
    assert codec.encode_predictions(PredictionColumns(["a"], np.zeros((1, 2)), Vocabulary(10), "m", [1], [0])) == [
        b'{"id":"a","y":null,"p":null,"model":"m","offset":1,"label_offset":0}'
    ]
    assert codec.encode_predictions(PredictionColumns([], np.zeros((0, 2)), Vocabulary(10), "m", [], [])) == []
    assert codec.encode_predictions(PredictionColumns([], np.zeros((0, 2)), Vocabulary(10, ["a"]), "m", [], [])) == []


def test_the_classes_of_predictions_grow() -> None:
    codec, classes = JsonCodec(NUMERIC), Vocabulary(10, None)
    classes.code("a")
    p = np.array([[1.0, 0.0]])
    assert json.loads(codec.encode_predictions(PredictionColumns(["i"], p, classes, "m", [0], [0]))[0])["p"] == {
        "a": 1.0
    }
    classes.code("b")
    assert json.loads(codec.encode_predictions(PredictionColumns(["i"], p, classes, "m", [0], [0]))[0])["p"] == {
        "a": 1.0,
        "b": 0.0,
    }


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=5), min_size=1, max_size=4, unique=True),
    rows=st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=4),
    ids=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=4, max_size=4),
)
def test_predictions_read_back_to_the_same_bits(texts: list[str], rows: list[list[float]], ids: list[str]) -> None:
    """Class names with quotes, control characters and all."""
    codec, p = JsonCodec(NUMERIC), np.array(rows)
    ids = ids[: len(rows)]
    n = range(len(rows))
    for value, row, i in zip(
        codec.encode_predictions(PredictionColumns(ids, p, Vocabulary(4, texts), "m", n, n)), rows, ids, strict=False
    ):
        found = json.loads(value)
        shares = row[: len(texts)]
        assert found["id"] == i
        if max(shares) > 0:
            assert found["p"] == dict(zip(texts, shares, strict=True))
            assert found["y"] == texts[shares.index(max(shares))]
        else:
            assert found["p"] is None
            assert found["y"] is None


def test_a_prediction_that_kafka_would_refuse_goes_out_without_probabilities() -> None:
    codec = JsonCodec(NUMERIC)
    classes = Vocabulary(1000, [f"{i:04d}" + "\x01" * 150 for i in range(900)])
    p = np.full((2, 900), 1.0 / 900)
    p[0, 7], p[1] = 0.5, 0.0
    written = codec.encode_predictions(
        PredictionColumns(["a", "b"], p, classes, "m", [1, 2], [0, 0], challengers={"nb": p})
    )
    assert max(map(len, written)) < 10_000
    first = json.loads(written[0])
    assert first == {
        "id": "a", "y": classes.values[7], "p": None, "model": "m", "offset": 1, "label_offset": 0,
        "challengers": {"nb": {"y": classes.values[7], "p": None}},
    }  # fmt: skip
    assert json.loads(written[1])["y"] is None
    (small,) = codec.encode_predictions(PredictionColumns(["a"], p[:1, :9], classes, "m", [1], [0]))
    assert len(json.loads(small)["p"]) == 9
