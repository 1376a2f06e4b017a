"""Models of other libraries: they say what they would say without us, and are kept from where they do not belong."""

import json
import subprocess
import sys

import numpy as np
import pytest
from river import tree as river_tree
from river.linear_model import LogisticRegression
from river.multiclass import OutputCodeClassifier
from river.preprocessing import StandardScaler
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB

from riparian.app.cli.run.worker import check_key
from riparian.app.errors import SpecError, StateError
from riparian.app.partition.changes import reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import build
from riparian.checks import learn, rows
from riparian.models.adapter import external, imported, signature
from riparian.models.contract import Schema
from riparian.models.registry import REGISTRY, create, validate

pytestmark = pytest.mark.usefixtures("state_key")

SCHEMA = Schema((0, 0, 4, 0, 2), 3, "classification")
REGRESSION = Schema((0, 0, 4, 0, 2), 1, "regression")


def named(x):
    """As River's own users would write a row."""
    return {f"x{j}": str(int(v)) if SCHEMA.n_values[j] else v for j, v in enumerate(x.tolist()) if not np.isnan(v)}


def made(path, schema=SCHEMA, seed=1, **arguments):
    return create("external", schema, seed=seed, import_path=path, arguments=arguments)


def test_a_tree_of_river_says_what_it_says_alone():
    x, y = rows(1200, "classification")
    w = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 1200)
    learner = made("river.tree.HoeffdingTreeClassifier", grace_period=50, delta=0.01)
    alone = river_tree.HoeffdingTreeClassifier(grace_period=50, delta=0.01)
    expected = np.zeros((200, 3))
    for i in range(1000):
        alone.learn_one(named(x[i]), int(y[i]), w=w[i])
    for i in range(200):
        for code, share in alone.predict_proba_one(named(x[1000 + i])).items():
            expected[i, code] = share
    learn(learner, x[:1000], y[:1000], w[:1000])
    assert learner.predict_many(x[1000:]) == pytest.approx(expected)
    assert alone.n_nodes > 1


def filled(x, start):
    """Rows from `start` on as scikit-learn is given them: missing values as the mean of the rows before, or of the
    first `start` where these are not being learned."""
    result = x.copy()
    for i in range(len(x)):
        for j in np.flatnonzero(np.isnan(x[i])):
            before = x[: min(i, start), j]
            before = before[~np.isnan(before)]
            result[i, j] = -1.0 if SCHEMA.n_values[j] else (before.mean() if len(before) else 0.0)
    return result


@pytest.mark.parametrize(
    ("kind", "path", "arguments"),
    [
        (GaussianNB, "sklearn.naive_bayes.GaussianNB", {"var_smoothing": 1e-6}),
        (SGDClassifier, "sklearn.linear_model.SGDClassifier", {"loss": "log_loss", "random_state": 3}),
        (SGDClassifier, "sklearn.linear_model.SGDClassifier", {"loss": "hinge", "random_state": 3}),
    ],
)
def test_scikit_learns_partial_fit(kind, path, arguments):
    x, y = rows(500, "classification")
    x[:, 3] = np.random.default_rng(1).normal(size=500)  # a variance of 0 is none for scikit-learn
    w = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 500)
    learner, alone = made(path, **arguments), kind(**arguments)
    given = filled(x, 400)
    with np.errstate(all="ignore"):
        for i in range(400):
            alone.partial_fit(given[i : i + 1], [int(y[i])], classes=[0, 1, 2], sample_weight=[w[i]])
    learn(learner, x[:400], y[:400], w[:400])
    if hasattr(alone, "predict_proba"):
        assert learner.predict_many(x[400:]) == pytest.approx(alone.predict_proba(given[400:]))
    assert learner.predict_many(x[400:]).argmax(axis=1).tolist() == alone.predict(given[400:]).tolist()
    assert len(np.unique(learner.predict_many(x[400:]).argmax(axis=1))) > 1


def test_a_regression_of_scikit_learn_takes_our_seed():
    x, y = rows(300, "regression", missing=0.0)
    x[:, 3] = 1.0
    learner = made("sklearn.linear_model.SGDRegressor", REGRESSION, seed=7)
    assert learner._model.random_state == 7
    alone = SGDRegressor(random_state=7)
    for i in range(300):
        alone.partial_fit(x[i : i + 1], [y[i]], sample_weight=[1.0])
    learn(learner, x, y)
    assert learner.predict_many(x)[:, 0] == pytest.approx(alone.predict(x))


def test_scikit_learn_begins_anew_with_a_class_that_it_did_not_know(caplog):
    x, y = rows(300, "classification", missing=0.0)
    learner = made("sklearn.naive_bayes.GaussianNB", SCHEMA._replace(n_outputs=2))
    learn(learner, x[:100], np.minimum(y[:100], 1.0))
    learner.resize(SCHEMA._replace(n_outputs=7))
    learn(learner, x[100:], np.where(y[100:] == 2, 6.0, y[100:]))
    assert "has not known class 6 and begins anew" in caplog.text
    later = made("sklearn.naive_bayes.GaussianNB", SCHEMA._replace(n_outputs=8))
    first = 100 + int(np.flatnonzero(y[100:] == 2)[0])
    learn(later, x[first:], np.where(y[first:] == 2, 6.0, y[first:]))
    assert learner.predict_many(x) == pytest.approx(later.predict_many(x)[:, :7], abs=1e-6)


class Sulks:
    """Fails now and then."""

    def __init__(self):
        self.n = 0

    def learn_one(self, x, y):
        self.n += 1
        if self.n % 10 == 0:
            raise RuntimeError("not now")

    def predict_proba_one(self, x):
        if self.n > 50:
            raise ZeroDivisionError("never")
        return {0: float("nan"), 1: 3.0, 2: 1.0}


def test_what_fails_is_counted_and_does_not_stop_the_stream(caplog):
    x, y = rows(100, "classification")
    learner = create("external", SCHEMA, import_path="tests.models.test_adapter.Sulks")
    learn(learner, x[:50], y[:50])
    assert learner.predict_many(x[:1]).tolist() == [[0.0, 0.75, 0.25]]
    learn(learner, x[50:], y[50:])
    assert learner.predict_many(x[:1]).tolist() == [[0.0, 0.0, 0.0]]
    (part,) = learner.describe()
    assert (part["learned"], part["failed"]) == (100, 10)
    assert caplog.text.count("could not learn: RuntimeError: not now (told once)") == 1
    assert caplog.text.count("could not predict") == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"import_path": "river.tree.Hoeffding"}, "river.tree has no 'Hoeffding': mend import_path"),
        (
            {"import_path": "rivver.tree.Tree"},
            "rivver.tree.Tree needs rivver, which is not there: install it, or add it to PYTHONPATH",
        ),
        ({"arguments": {"grace": 5}}, "HoeffdingTreeClassifier does not take these arguments: TypeError: "),
        ({"import_path": "river.metrics.Accuracy"}, "river.metrics.Accuracy has neither learn_one nor partial_fit"),
    ],
)
def test_mistakes_that_show_when_it_is_made_are_one_sentence(given, message):
    validate("external", "classification", given)
    with pytest.raises(ValueError) as caught:
        create("external", SCHEMA, **given)
    assert message in str(caught.value)
    with pytest.raises(SpecError) as told:
        PartitionLearner(build({**TRUSTING, "challengers": {"theirs": {"model": "external", **given}}}))
    assert str(told.value).startswith("challengers.theirs: ")
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"import_path": "HoeffdingTree"},
            "import_path is 'HoeffdingTree': give a module and a name, such as river.tree",
        ),
        ({"import_path": "os.system('x').y"}, "import_path is \"os.system('x').y\": give a module and a name"),
        ({"arguments": "[1]"}, "parameter 'arguments' of model 'external' is '[1]': give a mapping"),
        ({"arguments": {"a": {1}}}, "parameter 'arguments' of model 'external' is {'a': {1}}: give a mapping"),
    ],
)
def test_mistakes_are_one_sentence(given, message):
    with pytest.raises(ValueError) as caught:
        validate("external", "classification", given)
    assert message in str(caught.value)


def test_a_library_that_is_not_there_is_told_with_its_extra(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "river"]:
        monkeypatch.delitem(sys.modules, name)

    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "river":
                raise ModuleNotFoundError(f"No module named {name!r}", name="river")

    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    with pytest.raises(ValueError, match=r"needs river, which is not there: pip install 'river<"):
        create("external", SCHEMA)


STREAM = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "naive-bayes"}
TRUSTING = {**STREAM, "classes": ["n", "y"], "trust": ["code", "pickles"], "challengers": {"theirs": "external"}}


def coded():
    return StandardScaler() | OutputCodeClassifier(LogisticRegression(), 4)


@pytest.mark.parametrize(
    ("path", "names_only"),
    [
        ("sklearn.linear_model.SGDClassifier", True),
        ("sklearn.naive_bayes.GaussianNB", False),
        (f"{__name__}.coded", True),
        ("river.linear_model.PAClassifier", False),
    ],
)
def test_what_only_names_a_class_is_refused_where_probabilities_are_asked_for(path, names_only):
    theirs = {**TRUSTING, "challengers": {"theirs": {"model": "external", "import_path": path}}}
    asked = {"decision": {"decision": {"class": "y", "recall": 0.5}}}
    asked["predictions.calibrated"] = {"predictions": {"calibrated": True}}
    PartitionLearner(build(theirs))
    for field, given in asked.items():
        spec = build(theirs | given)
        if not names_only:
            PartitionLearner(spec)
            continue
        with pytest.raises(SpecError, match=rf"theirs: expected a model with probabilities, by which {field} goes, .*"):
            PartitionLearner(spec)


def test_it_is_no_champion_unless_told_to_be():
    assert REGISTRY["external"].slow
    with pytest.raises(
        SpecError, match='champion: expected a model of Riparian\'s own, found "external", which is slow'
    ):
        build({**TRUSTING, "champion": "external"})
    spec = build({**TRUSTING, "champion": {"model": "external", "as_champion": True}})
    assert spec.models()["champion"][0] == "external"


def test_a_pickle_of_another_version_is_not_read(monkeypatch):
    spec = build(TRUSTING)
    one = PartitionLearner(spec)
    one.roles["theirs"].model.learn_many([[1.0], [2.0]], [0, 1])
    cut = one.snapshot()
    arrays = {name: array.copy() for name, array in cut.arrays.items()}
    again = PartitionLearner(spec)
    again.restore(cut._replace(arrays=arrays))
    assert again.digest() == one.digest()
    assert "models/theirs/pickled" not in one.comparable().arrays
    about = json.loads(arrays["models/theirs/about"].tobytes())
    about["library"] = "river 0.1.0"
    told = json.dumps(about).encode()
    arrays["models/theirs/about"] = np.frombuffer(told, np.uint8)
    signed = signature.sign(signature.required(), told, arrays["models/theirs/pickled"].tobytes())
    arrays["models/theirs/signature"] = np.frombuffer(signed, np.uint8)
    monkeypatch.setattr(external.pickle, "loads", lambda data: pytest.fail("it was read"))
    with pytest.raises(
        StateError, match=r"theirs: river.tree.\w+ was pickled by river 0.1.0 under Python 3.* here is r"
    ):
        PartitionLearner(spec).restore(cut._replace(arrays=arrays))


def test_a_stream_file_has_to_trust_it():
    for trust, missing in (([], "no code and no pickles"), ("code", "no pickles"), (["pickles"], "no code")):
        with pytest.raises(
            SpecError, match=rf"trust: expected \[code, pickles\], since challengers.theirs .*{missing}"
        ):
            build({**TRUSTING, "trust": trust})
    with pytest.raises(SpecError, match="a pool holds Riparian's own models, choose another one"):
        build({**STREAM, "champion": {"model": "model-pool", "of": "external", "candidates": "as_champion=true,false"}})


def test_a_pickle_that_this_key_did_not_sign_is_not_loaded(monkeypatch):
    spec = build(TRUSTING)
    one = PartitionLearner(spec)
    one.roles["theirs"].model.learn_many([[1.0], [2.0]], [0, 1])
    cut = one.snapshot()
    monkeypatch.setattr(external.pickle, "loads", lambda data: pytest.fail("it was loaded"))

    def refused(match, **changed):
        arrays = {**cut.arrays, **{f"models/theirs/{name}": array for name, array in changed.items()}}
        with pytest.raises(StateError, match=match):
            PartitionLearner(spec).restore(cut._replace(arrays=arrays))

    forged = cut.arrays["models/theirs/pickled"].copy()
    forged[-2] ^= 1
    refused("theirs: its pickle was not signed by this RIPARIAN_STATE_KEY", pickled=forged)
    refused("not signed by this", about=np.append(cut.arrays["models/theirs/about"], np.uint8(32)))
    refused("theirs: its pickle is not signed", signature=np.zeros(0, np.uint8))
    monkeypatch.setenv(signature.KEY, "another key of 26 letters.")
    refused("not signed by this")
    monkeypatch.setenv(signature.KEY, "short")
    refused("RIPARIAN_STATE_KEY has 5 characters: give a secret of at least 16")
    monkeypatch.delenv(signature.KEY)
    refused("set RIPARIAN_STATE_KEY to the same secret of at least 16 characters")
    with pytest.raises(SpecError, match="set RIPARIAN_STATE_KEY to the same secret"):
        check_key(spec)
    check_key(build(STREAM))


def test_a_state_and_a_stream_file_that_is_looked_at_run_nothing(tmp_path):
    """os.mkdir, as what import_path names, would leave a folder."""
    made = tmp_path / "made"
    bomb = ("external", {"import_path": "os.mkdir", "arguments": {"path": str(made)}, "as_champion": True})
    looked_at = build({**TRUSTING, "challengers": {"theirs": {"model": "external", **bomb[1]}}})
    assert not made.exists()
    with pytest.raises(SpecError, match=r"theirs: os\.mkdir has neither learn_one nor partial_fit"):
        PartitionLearner(looked_at)  # as a worker makes it
    made.rmdir()
    for spec in (build(STREAM), build({**STREAM, "champion": "auto"})):
        cut = PartitionLearner(spec).snapshot()
        for role in ("champion", "beside"):
            cut.meta["models"][role] = bomb
        changes = reconcile(spec, cut.meta, [None])
        assert changes.refused
        with pytest.raises(StateError, match="was external"):
            PartitionLearner(spec).restore(cut)
        assert not made.exists()


def test_who_does_not_use_it_does_not_import_it():
    code = (
        "import sys; from riparian.models.registry import validate; validate('naive-bayes', 'classification', {}); "
        "sys.exit(bool({'river', 'sklearn', 'xgboost'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_library_is_looked_up_once(monkeypatch):
    """That takes half a second of processor time, and each checkpoint has the library's version."""
    imported.version_of.cache_clear()
    asked = []
    monkeypatch.setattr(imported, "packages_distributions", lambda: asked.append(1) or {"numpy": ["numpy"]})
    assert len({imported.version_of("numpy.ndarray") for _ in range(3)}) == 1
    imported.version_of.cache_clear()
    assert len(asked) == 1
