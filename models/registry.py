"""Every learner by the name that a stream file uses, with its tasks, parameters, ranges and paper.

The entries are plain data and the classes are imported when a learner is created, so that `riparian models`,
`riparian check` and the validation of a stream file do not wait for numba. A test compares what an entry says
about parameters with the signature of the class: the two cannot drift apart.
"""

import difflib
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from models.contract import Learner, Schema

CLASSIFICATION = "classification"
REGRESSION = "regression"
TASKS = (CLASSIFICATION, REGRESSION)

WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Parameter(NamedTuple):
    """One parameter of a learner.

    type : int, float, bool or str. default : of that type, or None for "no limit" (then valid).
    low, high : inclusive bounds of a number, or None. choices : the values of a str, or ().
    """

    name: str
    type: type
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    text: str = ""

    @property
    def range(self) -> str:
        """The valid values, for people: "1 .. 1000", ">= 0", "gini | information-gain"."""
        if self.type is bool:
            return "true | false"
        if self.choices:
            return " | ".join(self.choices)
        if self.low is not None and self.high is not None:
            return f"{self.low:g} .. {self.high:g}"
        if self.low is not None:
            return f">= {self.low:g}"
        if self.high is not None:
            return f"<= {self.high:g}"
        return "any"


class Entry(NamedTuple):
    """A learner. cls : where it is, as "module:Class"."""

    name: str
    cls: str
    tasks: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    paper: str
    text: str

    def load(self) -> "type[Learner]":
        """Import the class (and numba)."""
        module, _, attribute = self.cls.partition(":")
        loaded: type[Learner] = getattr(importlib.import_module(module), attribute)
        return loaded

    def defaults(self) -> dict[str, Any]:
        return {parameter.name: parameter.default for parameter in self.parameters}


PERSISTENCE = (
    "I. Žliobaitė et al.: Evaluation methods and decision theory for classification of streaming data with "
    "temporal dependence. Machine Learning 98, 2015."
)

_GRACE_PERIOD = Parameter("grace_period", int, 200, 1, 1e9, text="weight a leaf sees between two split attempts")
_HOEFFDING = (
    Parameter("delta", float, 1e-3, 1e-300, 1.0, text="probability that a split differs from infinite data's"),
    Parameter("tie_threshold", float, 0.05, 0.0, None, text="Hoeffding bound below which ties are split"),
    Parameter("split_criterion", str, "info-gain", choices=("info-gain", "gini"), text="merit of a test"),
    Parameter(
        "leaf_prediction",
        str,
        "nba",
        choices=("mc", "nb", "nba"),
        text="majority class, naive Bayes, or in each leaf the one that was correct more often",
    ),
    Parameter("n_split_points", int, 10, 1, 10_000, text="thresholds tried a numeric feature"),
    Parameter("binary_splits", bool, False, text="nominal tests: one value against the rest"),
    Parameter("min_branch_fraction", float, 0.01, 0.0, 0.5, text="two branches have more of the weight"),
    Parameter("max_nodes", int, 10_000, 1, 100_000_000, text="bound on memory: then nothing splits any more"),
    Parameter("max_depth", int, None, 0, 1_000_000, text="leaves at this depth do not split (root: 0)"),
)

# Of all regression trees.
_REGRESSION_TREE = (
    Parameter("grace_period", int, 100, 1, 1e9, text="weight a leaf sees between two split attempts"),
    Parameter("delta", float, 0.01, 1e-300, 1.0, text="probability that a split differs from infinite data's"),
    Parameter("tie_threshold", float, 0.05, 0.0, None, text="Hoeffding bound below which ties are split"),
    Parameter(
        "leaf_prediction",
        str,
        "adaptive",
        choices=("mean", "model", "adaptive"),
        text="mean, linear model, or in each leaf the one that erred less",
    ),
    Parameter("learning_rate", float, 0.1, 0.0, 1.0, text="first step of the linear models"),
    Parameter("learning_rate_decay", float, 0.001, 0.0, None, text="how fast it falls with the weight learned"),
    Parameter("error_fading", float, 0.995, 0.0, 1.0, text="factor by which errors that are compared fade"),
    Parameter("n_bins", int, 32, 4, 10_000, text="thresholds kept a numeric feature and leaf"),
    Parameter("min_branch_fraction", float, 0.01, 0.0, 0.5, text="both branches have more of the weight"),
    Parameter("max_nodes", int, 2000, 1, 100_000_000, text="bound on memory: then nothing splits any more"),
    Parameter("max_depth", int, None, 0, 1_000_000, text="leaves at this depth do not split (root: 0)"),
)

_ENTRIES = (
    Entry(
        name="hoeffding-tree",
        cls="models.hoeffding.tree:HoeffdingTree",
        tasks=(CLASSIFICATION,),
        parameters=(_GRACE_PERIOD, *_HOEFFDING),
        paper="P. Domingos and G. Hulten: Mining high-speed data streams. KDD 2000.",
        text="One pass, one tree; leaves split when the Hoeffding bound separates the two best attributes.",
    ),
    Entry(
        name="extremely-fast-decision-tree",
        cls="models.hoeffding.efdt:ExtremelyFastDecisionTree",
        tasks=(CLASSIFICATION,),
        parameters=(
            _GRACE_PERIOD,
            Parameter("reevaluation_period", int, 2000, 1, 1e9, text="weight a test sees until it is evaluated again"),
            *_HOEFFDING,
        ),
        paper="C. Manapragada, G. I. Webb and M. Salehi: Extremely fast decision tree. KDD 2018.",
        text="Splits as soon as a test is better than none, and replaces a test by a better one later.",
    ),
    Entry(
        name="fimt-dd",
        cls="models.regression.fimt:FimtDD",
        tasks=(REGRESSION,),
        parameters=(
            *_REGRESSION_TREE,
            Parameter("drift_detection", bool, True, text="alternate trees where errors rise; without: Hoeffding tree"),
            Parameter(
                "drift_delta", float, 0.005, 0.0, None, text="rise of the error that is no drift, in 3 deviations"
            ),
            Parameter(
                "drift_threshold", float, 50.0, 0.0, None, text="cumulated rise that is a drift, in 3 deviations"
            ),
        ),
        paper="E. Ikonomovska, J. Gama and S. Džeroski: Learning model trees from evolving data streams. Data Mining "
        "and Knowledge Discovery 23, 2011.",
        text="Regression tree with linear leaves; a part that errs more than before is grown anew beside itself.",
    ),
    Entry(
        name="orto",
        cls="models.regression.orto:Orto",
        tasks=(REGRESSION,),
        parameters=(
            Parameter(
                "prediction",
                str,
                "weighted",
                choices=("average", "weighted", "best-path"),
                text="mean of the options, weighted by their errors or not, or the best option",
            ),
            Parameter("keep_leaf", bool, True, text="the leaf that gets options stays one of them"),
            Parameter("max_options", int, 5, 1, 1_000, text="options of an option node at the root"),
            Parameter("option_decay", float, 0.9, 0.0, 1.0, text="factor on max_options for each level below"),
            Parameter("max_trees", int, 10, 1, 1_000, text="leaves that an instance reaches at most"),
            *_REGRESSION_TREE,
        ),
        paper="E. Ikonomovska, J. Gama, B. Ženko and S. Džeroski: Speeding-up Hoeffding-based regression trees with "
        "options. ICML 2011.",
        text="Regression tree that follows several tests at once where it cannot tell which is best.",
    ),
    Entry(
        name="naive-bayes",
        cls="models.baseline.naive_bayes:NaiveBayes",
        tasks=(CLASSIFICATION,),
        parameters=(),
        paper="P. Langley, W. Iba and K. Thompson: An analysis of Bayesian classifiers. AAAI 1992.",
        text="Gaussian likelihoods for numeric features, counts for nominal ones, all independent.",
    ),
    Entry(
        name="majority-class",
        cls="models.baseline.majority_class:MajorityClass",
        tasks=(CLASSIFICATION,),
        parameters=(),
        paper=PERSISTENCE,
        text="Predicts the class frequencies so far: what a learner must beat to have learned anything.",
    ),
    Entry(
        name="last-label",
        cls="models.baseline.last_label:LastLabel",
        tasks=(CLASSIFICATION, REGRESSION),
        parameters=(),
        paper=PERSISTENCE,
        text="Repeats the last label learned: hard to beat where labels are autocorrelated (elec: 85.3 %).",
    ),
)

REGISTRY: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> Entry:
    """The entry called `name`. ValueError with the closest name otherwise."""
    if name in REGISTRY:
        return REGISTRY[name]
    raise ValueError(f"unknown model {name!r}: {suggest(str(name), REGISTRY)}")


def validate(name: str, task: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Check the parameters of a learner and fill in the defaults.

    Numbers may come as text ("200", "1e-7"), as YAML and the command line have them.

    Parameters
    ----------
    name : str
        A name of the registry.
    task : str
        "classification" or "regression".
    parameters : mapping of str to value
        As the stream file or `--set` gives them.

    Returns
    -------
    dict
        Every parameter of the learner, of its declared type.

    Raises
    ------
    ValueError
        One sentence that names the model or parameter, what was found, and what would do.
    """
    entry = find(name)
    if task not in entry.tasks:
        able = ", ".join(other.name for other in REGISTRY.values() if task in other.tasks)
        if not able:
            raise ValueError(f"unknown task {task!r}: use {' or '.join(TASKS)}")
        raise ValueError(f"model {name!r} does not do {task}: use one of {able}")
    return checked(f"model {name!r}", entry.parameters, parameters)


def checked(owner: str, parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every one of `parameters`, as given or defaulted. owner : whose they are, for the ValueError."""
    known = {parameter.name: parameter for parameter in parameters}
    result = {parameter.name: parameter.default for parameter in parameters}
    for key, value in given.items():
        if key not in known:
            if not known:
                raise ValueError(f"{owner} has no parameter {key!r}: it takes none, remove it")
            raise ValueError(f"{owner} has no parameter {key!r}: {suggest(str(key), known)}")
        result[key] = _convert(owner, known[key], value)
    return result


def create(name: str, schema: "Schema", *, seed: int = 0, **parameters: Any) -> "Learner":
    """A new learner. Raises ValueError as `validate` does."""
    valid = validate(name, schema.task, parameters)
    return REGISTRY[name].load()(schema, seed=seed, **valid)


def suggest(wrong: str, known: Mapping[str, Any]) -> str:
    """The end of a sentence about an unknown name: the closest known one, or all of them."""
    dashed = wrong.lower().replace("_", "-") if "-" in "".join(known) else wrong.lower().replace("-", "_")
    close = difflib.get_close_matches(dashed, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of {', '.join(sorted(known))}"


def _convert(owner: str, parameter: Parameter, value: Any) -> Any:
    """`value` as the parameter's type and within its range, or ValueError."""
    where = f"parameter {parameter.name!r} of {owner}"
    if value is None:
        if parameter.default is None:
            return None
        raise ValueError(f"{where} is empty: give {_kind(parameter)}, or leave it out for {parameter.default}")
    converted = _parse(parameter.type, value)
    if converted is None and parameter.default is None and str(value).strip().lower() in ("none", "null"):
        return None
    if converted is None:
        raise ValueError(f"{where} is {value!r}: give {_kind(parameter)}")
    if parameter.choices and converted not in parameter.choices:
        close = difflib.get_close_matches(str(converted).lower(), parameter.choices, n=1, cutoff=0.6)
        cure = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(parameter.choices)}"
        raise ValueError(f"{where} is {value!r}: {cure}")
    if (parameter.low is not None and converted < parameter.low) or (
        parameter.high is not None and converted > parameter.high
    ):
        raise ValueError(f"{where} is {value!r}: give {_kind(parameter)}")
    return converted


def _kind(parameter: Parameter) -> str:
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    bounded = parameter.low is not None or parameter.high is not None
    return kinds[parameter.type] + (f" in {parameter.range}" if bounded else "")


def _parse(kind: type, value: Any) -> Any:
    """`value` as `kind`, or None where that loses something."""
    if kind is bool:
        if isinstance(value, bool):
            return value
        return WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    if kind is str:
        return value if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    if kind is float:
        return number
    return int(number) if number == int(number) else None
