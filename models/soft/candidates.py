"""The candidates of a model pool, from the stream file's text: every combination of some values of some parameters.

`of: soft-hoeffding-tree, candidates: "alpha=0.3,0.7; max_depth=5,6,7"` are six. Plain data, without numba: a stream
file is validated before anything is compiled.
"""

import itertools
from collections.abc import Mapping
from typing import Any

MOST = 100
EXAMPLE = "write for instance 'grace_period=100,200; delta=0.01,0.001'"

AUTO = "auto"

# The model of the candidates of a task, and the candidates of a model. Those of Hoeffding trees and soft trees are
# Table 2 of Köbschall et al.; those of soft Hoeffding trees are as many, from other ranges
# (docs/evidence/learners/soft-trees.md).
# A state that was written with "auto" is read with these: they may not change without a new format.
MODELS = {"classification": "soft-hoeffding-tree", "regression": "soft-tree"}
DEFAULTS = {
    "soft-hoeffding-tree": "alpha=0.2,0.6,1; learning_rate=0.005,0.01,0.03; max_depth=4,7",
    "soft-tree": "depth=5,6,7; gamma=1,0.1,0.01; learning_rate=0.01,0.001",
    "hoeffding-tree": "leaf_prediction=mc,nba; delta=1e-6,1e-7,1e-8; grace_period=200,400,600",
}


def parse(text: str) -> list[dict[str, str]]:
    """All combinations, the last parameter's values changing first; values as text. ValueError with a cure."""
    values: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, listed = (piece.strip() for piece in part.partition("="))
        given = [value.strip() for value in listed.split(",")]
        if not name or not equals or not all(given):
            raise ValueError(f"{part!r} is not a parameter with values: {EXAMPLE}")
        if name in values:
            raise ValueError(f"{name!r} comes twice: list all its values together")
        if len(set(given)) < len(given):
            raise ValueError(f"{part!r} has a value twice: leave one out")
        values[name] = given
    return [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]


def candidates(task: str, parameters: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The model of the candidates, and the parameters of each, complete and of their types.

    task : of the pool. parameters : of the pool, valid one by one. ValueError names the pool's parameter,
    what was found and what would do.
    """
    from riparian.models.registry import FOREIGN, validate

    of, text = parameters["of"], parameters["candidates"]
    if of == AUTO:
        of = MODELS[task]
    where = "of model 'model-pool'"
    if of == "model-pool":
        raise ValueError(f"parameter 'of' {where} is 'model-pool': a pool holds no pools, choose another model")
    if of in FOREIGN:
        raise ValueError(f"parameter 'of' {where} is {of!r}: a pool holds Riparian's own models, choose another one")
    try:
        validate(of, task, {})
    except ValueError as error:
        raise ValueError(f"parameter 'of' {where}: {error}") from None
    if text == AUTO and of not in DEFAULTS:
        raise ValueError(f"parameter 'candidates' {where} is 'auto', and {of} has no usual ones: {EXAMPLE}")
    try:
        combinations = parse(DEFAULTS[of] if text == AUTO else text)
        if len(combinations) > MOST:
            raise ValueError(f"these are {len(combinations):,} combinations: give at most {MOST}")
        return of, [validate(of, task, combination) for combination in combinations]
    except ValueError as error:
        raise ValueError(f"parameter 'candidates' {where}: {error}") from None


def check(task: str, parameters: Mapping[str, Any]) -> None:
    """ValueError where the parameters of a pool do not fit together."""
    candidates(task, parameters)
