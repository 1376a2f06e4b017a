"""What the registry knows of a learner: its parameters with types, ranges and defaults, its tasks and its paper.

Plain data, without numba: the module of an entry's class is imported when a learner is created.
"""

import difflib
import importlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from inspect import Parameter as Argument
from inspect import Signature, cleandoc
from numbers import Real
from typing import Any, NamedTuple

CLASSIFICATION = "classification"
REGRESSION = "regression"
MULTI_INSTANCE = "multi-instance"
ANOMALY = "anomaly"
TASKS = (CLASSIFICATION, REGRESSION, MULTI_INSTANCE, ANOMALY)
VALUES = (REGRESSION, ANOMALY)  # whose predictions are one number, and labels too

# Parameters of learners that states and commands of older versions have -> why there are none.
RETIRED = {"threads": "steps are shared out among all cores where that pays"}

WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Parameter(NamedTuple):
    """One parameter of a learner, a detector or a stream.

    type : int, float, bool, str or dict (of what JSON can hold; also as a JSON text).
    default : of that type, or None for "no limit" (then valid).
    low, high : inclusive bounds of a number, or None.
    choices : the values of a str, or () for any text.
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


def choice(name: str, choices: str, text: str, default: str = "") -> Parameter:
    """One of words, the first of them where no default is given."""
    words = tuple(choices.split())
    return Parameter(name, str, default or words[0], choices=words, text=text)


class Entry(NamedTuple):
    """A learner.

    cls : where it is, as "module:Class".
    bags : the same for bags, where that is another class.
    free : parameters that may change while a state goes on: the class restores a state that was made with others.
    check : "module:function" of what checks the parameters together, called with the task and all of them once each is
        valid, or "". Its module imports no numba either.
    parts : of a model that is made of models, the module that knows which: its functions are those of the registry that
        look there. "" of others.
    slow : not made for a stream, so no champion unless it is named.
    """

    name: str
    cls: str
    tasks: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    paper: str
    text: str
    check: str = ""
    parts: str = ""
    bags: str = ""
    slow: bool = False
    free: tuple[str, ...] = ()

    def load(self, task: str = CLASSIFICATION) -> Any:
        """Import the class for a task (and numba)."""
        return named(self.bags if self.bags and task == MULTI_INSTANCE else self.cls)

    def valid(self, task: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter, as given or defaulted. ValueError with one sentence where the task, a parameter, or what
        they are together does not do."""
        if task not in self.tasks:
            able = " and ".join(self.tasks)
            raise ValueError(f"model {self.name!r} does {able}, the task is {task!r}: choose another model")
        parameters = checked(f"model {self.name!r}", self.parameters, given)
        if self.check:
            named(self.check)(task, parameters)
        return parameters

    def defaults(self) -> dict[str, Any]:
        return {parameter.name: parameter.default for parameter in self.parameters}


def named(place: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def checked(owner: str, parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every one of `parameters`, as given or defaulted. owner : whose they are, for the ValueError."""
    known = {parameter.name: parameter for parameter in parameters}
    result = {parameter.name: parameter.default for parameter in parameters}
    for key, value in given.items():
        if key not in known:
            if key in RETIRED:
                raise ValueError(f"{owner} has no parameter {key!r} any more: {RETIRED[key]}, remove it")
            if not known:
                raise ValueError(f"{owner} has no parameter {key!r}: it takes none, remove it")
            raise ValueError(f"{owner} has no parameter {key!r}: {suggest(str(key), known)}")
        result[key] = _convert(owner, known[key], value)
    return result


def without_retired(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that a state or a command has, without those of older versions, nor of a pool's members."""

    def kept(of: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in of.items() if key not in RETIRED}

    found, members = kept(parameters), _plain(parameters.get("members")) or {}
    current = {name: kept(one) if isinstance(one, Mapping) else one for name, one in members.items()}
    return found if current == members else {**found, "members": current}


def signature(parameters: Sequence[Parameter]) -> Signature:
    """Of a learner's class that takes its parameters as one mapping: (schema, *, seed=0, and each by its name)."""
    schema = Argument("schema", Argument.POSITIONAL_OR_KEYWORD, annotation="Schema")
    keywords = []
    for name, kind, default, *_ in (Parameter("seed", int, 0), *parameters):
        annotation = kind if default is not None else kind | None
        keywords.append(Argument(name, Argument.KEYWORD_ONLY, default=default, annotation=annotation))
    return Signature([schema, *keywords])


def documented(doc: str | None, entry: Any) -> str:
    """The docstring of a learner's or detector's class, with the parameters and the paper that its entry has."""
    tasks = [f"schema : Schema\n    Of the task {' or '.join(entry.tasks)}."] if hasattr(entry, "tasks") else []
    kinds = ((p, p.type.__name__ + (" or None" if p.default is None else "")) for p in entry.parameters)
    given = [f"{p.name} : {kind}\n    {p.range}, default {p.default}: {p.text}." for p, kind in kinds]
    parameters = "\n".join([*tasks, "seed : int\n    Of whatever is drawn.", *given])
    # Sections stand in numpydoc's order: parameters before all others, papers before examples.
    prose, *sections = re.split(r"\n\n(?=(?:Notes|References|Examples)\n-)", cleandoc(doc or ""))
    if not any(section.startswith("References") for section in sections):
        last = sections and sections[-1].startswith("Examples")
        sections.insert(len(sections) - bool(last), f"References\n----------\n{entry.paper}")
    return "\n\n".join([prose, f"Parameters\n----------\n{parameters}", *sections])


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
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", dict: "a mapping"}
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
    if kind is dict:
        return _plain(value)
    if isinstance(value, bool) or not isinstance(value, Real | str):
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


def _plain(value: Any) -> dict[str, Any] | None:
    """A mapping as JSON has it, from a mapping or a JSON text; None where it is neither."""
    try:
        found = json.loads(value if isinstance(value, str) else json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
