"""Estimators on arrays, data frames and single records: one model, whichever way its instances come."""

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import riparian
from riparian import Schema, StreamClassifier, StreamRegressor, create_learner, evaluate
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.app.stream_file.spec import load
from riparian.models.frames import columns_of

N = 600
RNG = np.random.default_rng(5)
AMOUNT = np.where(RNG.random(N) < 0.05, np.nan, RNG.random(N))
COUNTRY = [None if i % 17 == 0 else f"c{int(40 * RNG.random() ** 2)}" for i in range(N)]  # some come late
ONLINE = RNG.random(N) < 0.5
LABELS = np.array([("ok", "odd", "fraud")[int(a > 0.5) + int(o)] for a, o in zip(AMOUNT, ONLINE, strict=True)])
TARGETS = np.nan_to_num(AMOUNT) * 3.0 + ONLINE
RECORDS = [
    {"amount": None if np.isnan(a) else a, "country": c, "online": bool(o)}
    for a, c, o in zip(AMOUNT, COUNTRY, ONLINE, strict=True)
]
RECORDS[0]["country"] = COUNTRY[0] = "c0"
COLUMNS = {"amount": AMOUNT, "country": COUNTRY, "online": ONLINE}
FRAMES = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype({"country": "category"}),
    "pandas, an index": lambda: pd.DataFrame(COLUMNS, index=pd.Index(range(N, 0, -1), name="place")),
    "polars": lambda: pl.DataFrame(COLUMNS, nan_to_null=True),
    "polars, categories": lambda: pl.DataFrame(COLUMNS).cast({"country": pl.Categorical}),
    "pyarrow": lambda: pa.table(COLUMNS, schema=pa.schema(KINDS)),
}
KINDS = {"amount": pa.float32(), "country": pa.large_string(), "online": pa.bool_()}
KIND = pd.Categorical(RNG.choice(["u", "v", "w"], N), ["w", "v", "u", "never"])
KINDS_OF = pl.Enum(["w", "v", "u", "never"])
ESTIMATORS = {"classification": (StreamClassifier, LABELS), "regression": (StreamRegressor, TARGETS)}


def codes() -> np.ndarray:
    """The records as an array, values of text coded as they come."""
    found: dict[str, int] = {}
    countries = [np.nan if c is None else found.setdefault(c, len(found)) for c in COUNTRY]
    return np.column_stack([AMOUNT, np.array(countries), ONLINE])


def proba(model, x):
    return model.predict_proba(x) if isinstance(model, StreamClassifier) else model.predict(x)


@pytest.mark.parametrize(
    ("task", "learner"),
    [
        *(("classification", name) for name in ("naive-bayes", "hoeffding-tree", "mondrian-forest", "last-label")),
        *(("regression", name) for name in ("fimt-dd", "mondrian-forest", "last-label")),
    ],
)
def test_records_are_learned_as_arrays_are(task, learner):
    estimator, y = ESTIMATORS[task]
    model = estimator(learner)
    outs = []
    for record, label in zip(RECORDS, y.tolist(), strict=True):
        outs.append(model.predict_proba_one(record) if task == "classification" else model.predict_one(record))
        model.learn_one(record, label)
    classes = list(dict.fromkeys(y.tolist()))
    twin = create_learner(learner, Schema((0, 64, 2), 3 if task == "classification" else 1, task))
    numbers = np.array([classes.index(label) for label in y.tolist()], float) if task == "classification" else y
    found = evaluate(twin, codes(), numbers).predictions
    if task == "regression":
        assert outs == np.nan_to_num(found[:, 0]).tolist()
        return
    assert outs[0] == {}
    for out, p in zip(outs[1:], found[1:], strict=True):
        assert list(out) == classes[: len(out)]
        expected = [*(p / (p.sum() or 1.0)), 0.0][: len(out)]
        np.testing.assert_allclose(list(out.values()), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("task", ESTIMATORS)
def test_every_frame_is_one(task):
    estimator, y = ESTIMATORS[task]
    classes = {"classes": np.unique(y)} if task == "classification" else {}
    found = {}
    for name, make in FRAMES.items():
        frame = make()
        model = estimator("hoeffding-tree" if task == "classification" else "fimt-dd")
        for start in range(0, N, 200):
            model.partial_fit(frame[start : start + 200], y[start : start + 200], **(classes if start == 0 else {}))
        assert list(model.feature_names_in_) == ["amount", "country", "online"]
        found[name] = proba(model, frame)
    for name in ("pandas, an index", "polars"):
        np.testing.assert_array_equal(found[name], found["pandas"], err_msg=name)
    assert np.abs(found["pyarrow"] - found["pandas"]).mean() < 0.05  # amounts of half the digits
    if task == "classification":
        assert (found["polars, categories"].argmax(1) == found["pandas"].argmax(1)).mean() > 0.95
        assert (found["pandas, categories"].argmax(1) == found["pandas"].argmax(1)).mean() > 0.95


def test_a_model_goes_from_frames_to_records_and_into_a_pickle():
    frame = FRAMES["pandas"]()
    model = StreamClassifier("hoeffding-tree").fit(frame[:300], LABELS[:300])
    model = pickle.loads(pickle.dumps(model))
    for record, label in zip(RECORDS[300:], LABELS[300:].tolist(), strict=True):
        model.learn_one(record, label)
    whole = StreamClassifier("hoeffding-tree").partial_fit(frame, LABELS, classes=np.unique(LABELS))
    np.testing.assert_array_equal(model.predict_proba(frame), whole.predict_proba(frame))
    assert model.predict(frame[:5]).tolist() == [model.predict_one(record) for record in RECORDS[:5]]
    model.learn_one(RECORDS[0], "another")
    assert model.classes_.tolist() == ["fraud", "odd", "ok", "another"]
    assert set(model.predict_proba_one(RECORDS[0])) == set(model.classes_.tolist())


def test_predictions_and_records_without_a_label_change_nothing():
    model = StreamClassifier("hoeffding-tree").fit(FRAMES["pandas"](), LABELS)
    before = {name: array.copy() for name, array in model.learner_.state()._asdict().items()}
    new, none = {"amount": 0.3, "country": "nowhere", "online": True}, {"amount": 0.3, "online": True}
    assert model.predict_proba_one(none) == model.predict_proba_one(none | {"country": None})
    assert model.predict_proba_one(new) == model.predict_proba_one(new | {"country": "another one"})
    p = model.predict_proba(pd.DataFrame([new, none]).astype({"online": bool}))
    assert [dict(zip(model.classes_, row, strict=True)) for row in p] == [*map(model.predict_proba_one, (new, none))]
    for name, array in model.learner_.state()._asdict().items():
        np.testing.assert_array_equal(array, before[name])
    model.learn_one(new, None)
    model.learn_one(new, float("nan"))
    for name, array in model.learner_.state()._asdict().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda m: m.predict_one({"wrong": 1.0}), "none of the fields of the first one, 'amount', 'country', 'online'"),
        (lambda m: m.learn_one({"amount": "much"}, "ok"), "'amount' is 'much', and was no text in the first record"),
        (lambda m: m.learn_one({"amount": float("inf")}, "ok"), "'amount' is infinite"),
        (lambda m: m.learn_one({"amount": 1.0}, "ok", w=-1.0), "w is -1.0"),
        (lambda m: m.predict(FRAMES["pandas"]().assign(amount="much")), "column 'amount' has text, and had numbers"),
        (lambda m: m.predict(FRAMES["pandas"]().assign(country=1.0)), "column 'country' has numbers, and had text"),
        (lambda m: m.predict(FRAMES["pandas"]().drop(columns="country")), "country"),
        (lambda m: m.fit(FRAMES["pandas"]().assign(at=pd.Timestamp(0)), LABELS), "column 'at' is of type timestamp"),
        (lambda m: m.partial_fit(FRAMES["pandas"](), ["new"] * N), "y has the class 'new'"),
        (lambda _: StreamClassifier().learn_one({}, 1), "the first record has no fields"),
        (lambda _: riparian.auto("anomaly"), "task is 'anomaly'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(act, sentence):
    model = StreamClassifier("naive-bayes").fit(FRAMES["pandas"](), LABELS)
    with pytest.raises(ValueError, match=sentence):
        act(model)


def test_what_is_refused_is_not_kept():
    model = StreamClassifier("naive-bayes").fit(FRAMES["pandas"](), LABELS)
    new = FRAMES["pandas"]().assign(country=[f"new {i}" for i in range(N)])
    before = model.predict_proba(new)
    with pytest.raises(ValueError, match="y has the class"):
        model.partial_fit(new, ["unknown"] * N)
    for i in range(40):
        with pytest.raises(ValueError, match="infinite"):
            model.learn_one({"amount": float("inf"), "country": f"new {i}", "online": True}, "another")
    assert model.classes_.tolist() == ["fraud", "odd", "ok"]
    np.testing.assert_array_equal(model.predict_proba(new), before)
    codes = {tuple(model.predict_proba_one(row).values()) for row in new.head(40).to_dict("records")}
    assert len(codes) > 1
    with pytest.raises(ValueError, match="2-dimensional"):
        model.predict(pd.Series([1.0]))


def test_a_label_of_pandas_may_be_na():
    labels = pd.Series(LABELS, dtype="string").mask(np.arange(N) % 7 == 0)
    found = evaluate(StreamClassifier("naive-bayes"), FRAMES["pandas"](), labels)
    assert found.metrics["n"] == labels.notna().sum()


def test_nothing_is_known_at_first():
    assert StreamClassifier("naive-bayes").predict_one({"a": 1.0}) is None
    assert StreamClassifier("naive-bayes").predict_proba_one({"a": 1.0}) == {}
    assert StreamRegressor("fimt-dd").predict_one({"a": 1.0}) == 0.0


@pytest.mark.parametrize("task", ESTIMATORS)
def test_an_estimator_is_evaluated_on_a_frame(task):
    estimator, y = ESTIMATORS[task]
    model = estimator("naive-bayes" if task == "classification" else "fimt-dd")
    labels = [None if i % 7 == 0 else label for i, label in enumerate(y.tolist())]
    found = evaluate(model, FRAMES["polars"](), pd.Series(labels), delay=20)
    if task == "classification":
        assert found.metrics["n"] == N - len(labels[::7])
    known = [i for i in range(N) if i % 7]
    twin = estimator(model.learner).partial_fit(
        FRAMES["pandas"]().iloc[known], y[known], **({"classes": np.unique(y)} if task == "classification" else {})
    )
    np.testing.assert_array_equal(proba(model, FRAMES["pandas"]()), proba(twin, FRAMES["pandas"]()))


def test_auto_is_a_pool_that_fits_its_budget():
    model = riparian.auto(max_microseconds=5)
    for record, label in zip(RECORDS[:50], LABELS.tolist(), strict=False):
        model.learn_one(record, label)
    assert model.learner_.name == "opinion-pool"
    small, large = (create_learner("auto", Schema((0, 10), 2, "classification"), max_microseconds=m) for m in (5, 100))
    assert len(small.parameters()["members"]) < len(large.parameters()["members"])


PAYMENTS = """
name: payments
task: classification
classes: [ok, fraud]
keys: {card: {from: card, max: 20}}
features:
  amount: numeric
  often: {count: card, half_life: 1h}
  usual: {mean: amount, by: card, half_life: 1d}
  risk: {share: fraud, by: card}
decision: {class: fraud, alert_rate: 0.1}
control: true
promotion: {mode: automatic}
predictions: {features: true, reasons: 2}
"""


def test_features_over_the_past_of_a_file_and_of_a_frame(tmp_path):
    rows = {
        "at": np.cumsum(RNG.integers(1, 600, N)),
        "card": [f"card {i}" for i in RNG.integers(0, 30, N)],
        "amount": np.where(RNG.random(N) < 0.1, np.nan, RNG.random(N).round(3)),
        "y": np.where(RNG.random(N) < 0.2, "fraud", "ok"),
    }
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "stream.yaml").write_text(PAYMENTS)
    how = {"time": "at", "target": "y", "label_delay": 3600.0}
    found = riparian.features(tmp_path / "rows.csv", tmp_path / "stream.yaml", **how)
    for other in (frame, pl.DataFrame(frame), frame.set_index(frame.index[::-1])):
        for name, values in riparian.features(other, tmp_path / "stream.yaml", **how).items():
            np.testing.assert_array_equal(values, found[name])
    written = []
    setup = Setup(
        data=tmp_path / "rows.csv", stream=load(tmp_path / "stream.yaml"), clock="at", target="y", label_delay=3600.0
    )
    Whole(setup).run(lambda _: None, written.append)
    made = {int(one["id"]): one["features"] for one in map(json.loads, written)}
    assert list(found) == ["often", "usual", "risk"]
    for name, values in found.items():
        expected = [made[i].get(name, np.nan) for i in range(N)]
        np.testing.assert_array_equal(values, expected)
        assert len(np.unique(values[~np.isnan(values)])) > 3
    with pytest.raises(ValueError, match="'when'"):
        riparian.features(frame, tmp_path / "stream.yaml", time="when")


@pytest.mark.parametrize(
    ("make", "kind"), [(pd.DataFrame, KIND), (pl.DataFrame, pl.Series(KIND.tolist(), dtype=KINDS_OF))]
)
def test_learners_take_frames_of_numbers_booleans_and_categories(make, kind):
    frame = make({"amount": AMOUNT, "online": ONLINE, "kind": kind})
    schema = Schema.of(frame, n_outputs=3)
    assert schema == ((0, 2, 4), 3, "classification")
    learner = create_learner("hoeffding-tree", schema, grace_period=50, seed=3)
    assert repr(learner) == f"HoeffdingTree({schema!r}, grace_period=50, seed=3)"
    array = np.column_stack([AMOUNT, ONLINE, KIND.codes])
    y = np.arange(N) % 3
    learner.learn_many(frame, y)
    twin = create_learner("hoeffding-tree", schema, grace_period=50, seed=3)
    twin.learn_many(array, y)
    np.testing.assert_array_equal(learner.predict_many(frame), twin.predict_many(array))
    with pytest.raises(ValueError, match="column 'country' has texts: make it a category"):
        Schema.of(make(COLUMNS))


def test_columns_of_frames():
    frame = pd.DataFrame(
        {"n": [1, None], "t": ["b", "a"], "c": pd.Categorical(["v", None], ["u", "v"]), "b": [True, False]}
    )
    n, t, c, b = columns_of(frame)
    assert (n.texts, t.texts, c.texts, b.texts) == (None, ["b", "a"], ["u", "v"], ("False", "True"))
    assert (t.values.tolist(), c.values[0], b.values.tolist()) == ([0.0, 1.0], 1.0, [1.0, 0.0])
    assert np.isnan([n.values[1], c.values[1]]).all()
    assert columns_of(frame[:0])[1].values.shape == (0,)


def test_a_record_s_probabilities_are_those_of_its_row_to_the_last_bit():
    rng = np.random.default_rng(7)
    frame, y = pd.DataFrame(rng.random((3000, 2)), columns=["a", "b"]), rng.integers(0, 40, 3000)
    model = StreamClassifier("naive-bayes").partial_fit(frame, y, classes=np.arange(40))
    records = frame[:50].to_dict("records")
    one_by_one = [[*model.predict_proba_one(record).values()] for record in records]
    np.testing.assert_array_equal(model.predict_proba(frame[:50]), one_by_one)
