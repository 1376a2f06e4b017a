"""Texts of the command line as values: models, parameters, grids, delays, streams."""

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from riparian.app.errors import SpecError

if TYPE_CHECKING:
    from riparian.app.dataset.files.synthetic import Recipe
    from riparian.app.evaluation.sweep import ParameterRange
    from riparian.models.streams.registry import ConceptDrift

N = 100_000  # instances of a generated stream
WITH_RIGHTS = (
    *("worker", "replay", "check", "lag", "compare", "audit", "backtest", "explain", "ui", "deadletters", "retry"),
    *("control", "apply"),
    *("export", "inspect", "state", "import", "rollback", "grow"),
)
WIDTH = 1000  # instances that a gradual drift takes, MOA's default


def parse_settings(settings: Sequence[str], option: str = "--set", example: str = "grace_period=100") -> dict[str, Any]:
    """Parameters from "key=value" texts; the registry converts and checks the values. option, example : for errors."""
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SpecError(f"{option} is {setting!r}: write a parameter and its value, such as {option} {example}")
        if key in parameters:
            raise SpecError(f"{option} gives {key!r} twice: keep one")
        parameters[key] = value.strip()
    return parameters


def parse_model(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters from "hoeffding-tree:grace_period=100,delta=1e-5"."""
    name, colon, rest = text.partition(":")
    return name, parse_settings(rest.split(","), "--model", "hoeffding-tree:grace_period=100") if colon else {}


def parse_grid(grid: Sequence[str]) -> dict[str, list[str]]:
    """Parameter -> values from "key=a,b,c" texts."""
    example = "grace_period=50,200,1000"
    found: dict[str, list[str]] = {}
    for key, text in parse_settings(grid, "--grid", example).items():
        values = [value.strip() for value in text.split(",")]
        if "" in values:
            raise SpecError(f"--grid is {key + '=' + text!r}: write the values to try, such as --grid {example}")
        repeated = [value for i, value in enumerate(values) if value in values[:i]]
        if repeated:
            raise SpecError(f"--grid gives {key}={repeated[0]} twice: keep one")
        found[key] = values
    return found


def parse_ranges(ranges: Sequence[str]) -> "dict[str, ParameterRange]":
    """Parameter -> what to draw from, from "key=low..high", "key=low..high:log" and "key=a,b,c" texts."""
    from riparian.app.evaluation.sweep import ParameterRange

    example = "grace_period=10..1000:log"
    found: dict[str, ParameterRange] = {}
    for key, text in parse_settings(ranges, "--range", example).items():
        wrong = f"--range is {key + '=' + text!r}: "
        if ".." not in text:
            values = tuple(value.strip() for value in text.split(","))
            if len(set(values)) < 2 or "" in values:
                raise SpecError(f"{wrong}write the least and the greatest value, such as --range {example}, or a list")
            found[key] = ParameterRange(values=values)
            continue
        bounds, colon, scale = text.partition(":")
        try:
            low, high = (float(bound) for bound in bounds.split(".."))
        except ValueError:
            raise SpecError(f"{wrong}write the least and the greatest value, such as --range {example}") from None
        if colon and scale.strip() != "log":
            raise SpecError(f"{wrong}the scale is {scale.strip()!r}, and can be log, or be left out")
        if not -math.inf < low < high < math.inf:
            raise SpecError(f"{wrong}the first value has to be less than the second one")
        if colon and low <= 0.0:
            raise SpecError(f"{wrong}a logarithmic scale begins above 0")
        found[key] = ParameterRange(low, high, bool(colon))
    return found


def parse_measure(text: str) -> str:
    """What a curve can show: a measure, or recall, precision or F1 of a class."""
    from riparian.app.evaluation.measures.measures import OF_CLASS, RECENT, STANDING

    kind, colon, owner = text.partition(":")
    known = OF_CLASS if colon else (*RECENT, *STANDING)
    if kind not in known or (colon and not owner):
        names = ", ".join([*RECENT, *STANDING, *(f"{name}:CLASS" for name in OF_CLASS)])
        raise click.BadParameter(f"{text!r} is no measure of a curve: use {names}", param_hint="--measure")
    return text


def parse_delay(text: str, clock: str | None) -> float:
    """A number of instances, or with a clock, seconds."""
    from riparian.app.stream_file.durations import parse_duration

    if clock is None:
        if text.strip().isdecimal():
            return int(text)
        cure = "give a number of instances, or name the column of times by --time for a duration"
        raise click.BadParameter(f"{text!r} is no whole number: {cure}", param_hint="--label-delay")
    try:
        return 0.0 if text.strip() == "0" else parse_duration(text, example="30m")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--label-delay") from None


def parse_since(text: str) -> int:
    """ms since 1970 of a duration before now, or of a time."""
    from riparian.app.stream_file.durations import parse_duration
    from riparian.topics.decoding.times import milliseconds

    try:
        return int(1000 * (time.time() - parse_duration(text)))
    except ValueError:
        pass
    try:
        return int(milliseconds(text))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a duration such as 24h nor a time such as 2026-05-01T12:00", param_hint="--since"
        ) from None


def check_label_time(label_clock: str | None, clock: str | None, delayed: bool) -> None:
    """UsageError where --label-time cannot be."""
    if label_clock is not None and (clock is None or delayed):
        raise click.UsageError(
            "--label-time takes the times of the labels, so it excludes --label-delay and needs those of the rows: "
            "name their column by --time"
        )


def recipe(
    name: str,
    n: int | None,
    settings: tuple[str, ...],
    seed: int | None,
    drifts: tuple[str, ...],
    concepts: tuple[str, ...],
) -> "Recipe":
    """What the options say. SpecError where they do not fit together."""
    from riparian.app.dataset.files.synthetic import Recipe

    if len(drifts) != len(concepts):
        raise SpecError(
            f"--drift is given {len(drifts)} times and --to {len(concepts)} times: give each drift its new concept, "
            "such as --drift 50000 --to function=2"
        )
    own = parse_settings(settings, example="function=3")
    if "seed" in own:
        raise SpecError(f"{name} has no parameter 'seed': write --seed {own['seed']}")
    parsed = [
        parse_drift(drift, parse_settings(tuple(concept.split(",")), "--to", "function=2"))
        for drift, concept in zip(drifts, concepts, strict=True)
    ]
    return Recipe(name, n or N, seed or 0, own, parsed)


def parse_drift(text: str, parameters: dict[str, Any]) -> "ConceptDrift":
    """A drift from "50000", "50000:gradual" or "50000:gradual:2000" and the parameters of its concept."""
    from riparian.models.streams.registry import ConceptDrift

    at, *rest = text.split(":")
    try:
        width = 0 if not rest else WIDTH if len(rest) == 1 else int(rest[1])
        if rest and (rest[0] != "gradual" or width < 1 or len(rest) > 2):
            raise ValueError
        return ConceptDrift(int(at), width, parameters)
    except ValueError:
        raise SpecError(
            f"--drift is {text!r}: write the first instance of the new concept, 50000, or the middle of a gradual "
            "change and its width, 50000:gradual:2000"
        ) from None


def parse_recipe(text: str, n: int | None, drifts: tuple[str, ...], concepts: tuple[str, ...]) -> "Recipe":
    """A stream from "agrawal:function=3" and the options of `riparian generate`."""
    name, colon, rest = text.partition(":")
    return recipe(name, n, tuple(rest.split(",")) if colon else (), None, drifts, concepts)
