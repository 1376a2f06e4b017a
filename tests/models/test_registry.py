"""The registry says what the classes take, checks what users give, and names the cure."""

import inspect
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

from riparian import models
from riparian.models.contract import Learner, Schema
from riparian.models.entry import TASKS, Entry, Parameter
from riparian.models.registry import REGISTRY, create, find, validate

SCHEMA = Schema((0, 3), 2, "classification")

entries = pytest.mark.parametrize("entry", REGISTRY.values(), ids=REGISTRY)


@entries
def test_parameters_are_those_of_the_class(entry):
    loaded = entry.load()
    assert issubclass(loaded, Learner)
    assert loaded.name == entry.name
    signature = inspect.signature(loaded).parameters
    keywords = {k: p for k, p in signature.items() if k != "schema"}
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in keywords.values())
    assert keywords.pop("seed").default == 0
    assert list(keywords) == [parameter.name for parameter in entry.parameters]
    for parameter in entry.parameters:
        found = keywords[parameter.name]
        assert found.default == parameter.default
        assert type(found.default) is type(parameter.default)
        annotation = parameter.type | None if parameter.default is None else parameter.type
        assert found.annotation == annotation


@entries
def test_a_class_refuses_what_its_entry_does_not_allow(entry):
    schema, learner = SCHEMA._replace(task=entry.tasks[0]), entry.load(entry.tasks[0])
    for parameter in entry.parameters:
        beyond: list[object] = ["bogus"] if parameter.choices else []
        beyond += [parameter.low - 1] if parameter.low is not None else []
        beyond += [2 * parameter.high + 1] if parameter.high is not None else []
        for value in beyond:
            with pytest.raises(ValueError, match=f"parameter {parameter.name!r} of model {entry.name!r}"):
                learner(schema, **{parameter.name: value})
    with pytest.raises(ValueError, match="has no parameter 'nonsense'"):
        learner(schema, nonsense=1)
    for task in set(TASKS) - set(entry.tasks):
        with pytest.raises(ValueError, match=f"the task is {task!r}"):
            learner(SCHEMA._replace(task=task))


@entries
def test_defaults_ranges_and_texts_make_sense(entry):
    assert entry.paper
    assert entry.text
    assert set(entry.tasks) <= set(TASKS)
    for parameter in entry.parameters:
        assert parameter.text
        assert parameter.type in (int, float, bool, str, dict)
        assert parameter.type is str or not parameter.choices
        assert parameter.choices or parameter.type is not str or entry.check  # a free text is checked
    for task in entry.tasks:
        assert validate(entry.name, task, {}) == entry.defaults()
        assert validate(entry.name, task, entry.defaults()) == entry.defaults()


BESIDE = {"max_window": {"window": 10}}  # an end that is valid beside the other parameter's end


@entries
def test_both_ends_of_a_range_are_valid_for_the_class(entry):
    for parameter in entry.parameters:
        for value in (parameter.low, parameter.high, *parameter.choices):
            if value is not None:
                given = {parameter.name: value} | BESIDE.get(parameter.name, {})
                learner = create(entry.name, SCHEMA._replace(task=entry.tasks[0]), **given)
                assert learner.parameters()[parameter.name] == value


@pytest.mark.parametrize(
    ("name", "task", "given", "message"),
    [
        ("hoefding-tree", "classification", {}, "unknown model 'hoefding-tree': did you mean 'hoeffding-tree'?"),
        ("Naive_Bayes", "classification", {}, "unknown model 'Naive_Bayes': did you mean 'naive-bayes'?"),
        ("zzz", "classification", {}, "unknown model 'zzz': use one of adaboost, "),
        ("naive-bayes", "regression", {}, "model 'naive-bayes' does not do regression: use one of fimt-dd, "),
        ("naive-bayes", "ranking", {}, "unknown task 'ranking': use one of classification, "),
        (
            "majority-class",
            "classification",
            {"a": 1},
            "'majority-class' has no parameter 'a': it takes none, remove it",
        ),
        ("hoeffding-tree", "classification", {"grace-perid": 9}, "no parameter 'grace-perid': did you mean 'grace_"),
        ("hoeffding-tree", "classification", {"zzz": 9}, "has no parameter 'zzz': use one of binary_splits, delta"),
        ("hoeffding-tree", "classification", {"grace_period": 0}, "'grace_period' of model 'hoeffding-tree' is 0: "),
        ("hoeffding-tree", "classification", {"grace_period": 1.5}, "is 1.5: give a whole number in 1 .. 1e+09"),
        ("hoeffding-tree", "classification", {"grace_period": True}, "is True: give a whole number"),
        ("hoeffding-tree", "classification", {"grace_period": "x"}, "is 'x': give a whole number"),
        ("hoeffding-tree", "classification", {"grace_period": None}, "is empty: give a whole number"),
        ("hoeffding-tree", "classification", {"grace_period": [5]}, "is [5]: give a whole number"),
        ("hoeffding-tree", "classification", {"delta": "nan"}, "'delta' of model 'hoeffding-tree' is 'nan': give a"),
        ("hoeffding-tree", "classification", {"delta": 2}, "is 2: give a number in 1e-300 .. 1"),
        ("hoeffding-tree", "classification", {"tie_threshold": -1}, "is -1: give a number in >= 0"),
        ("hoeffding-tree", "classification", {"split_criterion": "ginni"}, "is 'ginni': did you mean 'gini'?"),
        ("hoeffding-tree", "classification", {"leaf_prediction": "svm"}, "is 'svm': use one of mc, nb, nba"),
        ("hoeffding-tree", "classification", {"binary_splits": "perhaps"}, "is 'perhaps': give true or false"),
    ],
)
def test_errors_name_the_parameter_and_the_cure(name, task, given, message):
    with pytest.raises(ValueError) as caught:
        validate(name, task, given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_are_converted():
    given = {
        "grace_period": "100",
        "delta": "1e-7",
        "tie_threshold": 0,
        "binary_splits": "yes",
        "max_nodes": 50.0,
        "max_depth": "none",
    }
    found = validate("hoeffding-tree", "classification", given)
    expected = {"grace_period": 100, "delta": 1e-7, "tie_threshold": 0.0, "binary_splits": True, "max_nodes": 50}
    for key, value in expected.items():
        assert found[key] == value
        assert type(found[key]) is type(value)
    assert found["max_depth"] is None
    assert given["grace_period"] == "100"


def test_create_passes_parameters_and_seed():
    learner = create("hoeffding-tree", SCHEMA, seed=5, grace_period="77")
    assert learner.parameters()["grace_period"] == 77
    assert learner.seed == 5
    with pytest.raises(ValueError, match="does not do regression"):
        create("majority-class", SCHEMA._replace(task="regression", n_outputs=1))


def test_parameters_that_do_not_do_together_are_refused_before_anything_is_made():
    assert validate("shrub-ensemble", "classification", {"loss": "cross-entropy"})
    with pytest.raises(ValueError, match="loss is 'cross-entropy' and the task regression: use 'mse'"):
        validate("shrub-ensemble", "regression", {"loss": "cross-entropy"})


def test_find():
    assert isinstance(find("last-label"), Entry)
    with pytest.raises(ValueError, match="unknown model"):
        find("no")


def test_ranges_read_well():
    assert Parameter("a", int, 1, 1, 10).range == "1 .. 10"
    assert Parameter("a", int, 1, 1, None).range == ">= 1"
    assert Parameter("a", int, 1, None, 5).range == "<= 5"
    assert Parameter("a", float, 1.0).range == "any"
    assert Parameter("a", bool, True).range == "true | false"
    assert Parameter("a", str, "b", choices=("b", "c")).range == "b | c"


def test_names_and_validation_do_not_import_numba():
    code = (
        "import sys; from riparian.models.registry import validate; validate('hoeffding-tree', 'classification', {}); "
        "sys.exit('numba' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_family_lists_its_learners_and_where_to_begin():
    families = defaultdict(set)
    for name, entry in REGISTRY.items():
        families[entry.cls.split(".")[2]].add(name)
    assert len(families) > 10
    for family, names in families.items():
        folder = Path(models.__file__).parent / family
        text = " ".join(import_module(f"riparian.models.{family}").__doc__.split())
        learners = text.partition("Learner")[2].partition(". Read")[0]
        assert names == set(re.findall(r"`([a-z-]+)`", learners)) - {"auto", "partial_fit"}, family
        assert all((folder / file).is_file() for file in re.findall(r"[\w/]+\.py", text)), family


@pytest.mark.parametrize("name", REGISTRY)
def test_a_learner_stands_in_a_file_of_its_name(name):
    module = REGISTRY[name].cls.partition(":")[0].rpartition(".")[2]
    fitted = REGISTRY[name].cls.split(".")[2] == "batch"  # a line each
    assert module == ("learners" if fitted else name.replace("-", "_"))
