"""The models of a stream: those that its file names, what `auto` stands for, and those that commands have left."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from riparian.app.stream_file.sections.base import ROLE
from riparian.app.stream_file.sections.models import AUTO, ModelSpec
from riparian.topics import records
from riparian.topics.names import CHAMPION

if TYPE_CHECKING:
    from riparian.models.auto.values import Values


def models_of(spec: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    from riparian.models.auto import auto

    models = {CHAMPION: spec.champion, **spec.challengers}
    if spec.champion.model == AUTO:
        try:
            found = spec.resolved()
        except ValueError as error:
            raise ValueError(f"{CHAMPION}: {error}") from error
        models[CHAMPION] = ModelSpec(model=found.model, **found.parameters)
        if "challengers" not in spec.model_fields_set:
            more = auto.challengers(spec.task, found.model, len(values_of(spec).many) > 0)
            models |= {role: ModelSpec(model=name) for role, name in more.items()}
    if CHAMPION in spec.challengers:
        raise ValueError(
            f'challengers.{CHAMPION}: expected another name, found "{CHAMPION}", which is taken; rename it'
        )
    return {role: check_model(spec, role, model) for role, model in models.items()}


def check_model(spec: Any, role: str, model: ModelSpec) -> tuple[str, dict[str, Any]]:
    from riparian.models.registry import FOREIGN, validate

    where = place_of(role)
    if ROLE.fullmatch(role) is None:
        raise ValueError(f'{where}: expected a name of letters, digits, "_" and "-", found "{role}"; rename it')
    if model.model == AUTO:
        raise ValueError(f'{where}: expected a model, found "{AUTO}", which only a champion can be; name one')
    try:
        checked = model.model, validate(model.model, spec.task, model.parameters)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    missing = [word for word in ("code", "pickles") if word not in spec.trust]
    if model.model in FOREIGN and missing:
        raise ValueError(
            f"trust: expected [code, pickles], since {where} is {model.model}, which runs what the stream file "
            f"names and keeps its state as a pickle, found no {' and no '.join(missing)}; add it where you "
            "trust both, or leave the model out"
        )
    if role == CHAMPION:
        check_champion(*checked)
    return checked


def values_of(spec: Any) -> "Values":
    """The values of a stream's features, as `auto` reckons with them."""
    from riparian.models.auto.auto import UNNAMED
    from riparian.models.auto.values import Values

    reckoned, named, bounds = [], [], {}
    for f, feature in enumerate(spec.features.values()):
        n = {records.NUMERIC: 0, records.BOOLEAN: 2}.get(feature.type, feature.max_values)
        if feature.values is not None:
            n = len(feature.values)
        elif feature.type == records.NOMINAL and "max_values" in feature.model_fields_set:
            named.append(f)
        elif n > UNNAMED:
            bounds[f], n = n, UNNAMED
        reckoned.append(n)
    binary = spec.task in records.VALUES or spec.classes is None or len(spec.classes) == 2
    return Values(reckoned, named, bounds, binary)


def steered(
    spec: Any, found: Mapping[str, Any], on_drift: Mapping[str, str | None]
) -> tuple[dict[str, tuple[str, dict[str, Any]]], dict[str, str | None]]:
    """The models of a state that a stream goes on with, whatever its file says, and what each does on drift. Code that
    a state names is not run."""
    from riparian.models.registry import FOREIGN, REGISTRY, validate

    models = {}
    for role, (name, parameters) in found.items():
        if name not in REGISTRY:
            raise ValueError(f"{place_of(role)} is {name}, which this version does not know")
        models[role] = name, validate(name, spec.task, parameters)
        if name in FOREIGN and models[role] not in spec.models().values():
            raise ValueError(f"{place_of(role)} is {name} with other code than the stream file names")
    return models, {role: on_drift.get(role) for role in models}


def check_champion(name: str, parameters: Mapping[str, Any]) -> None:
    """ValueError where a model can only be a challenger."""
    from riparian.models.registry import REGISTRY

    if REGISTRY[name].slow and not parameters["as_champion"]:
        raise ValueError(
            f'{CHAMPION}: expected a model of Riparian\'s own, found "{name}", which is slow and keeps its '
            "state as a pickle; make it a challenger, or set as_champion: true beside it"
        )


RUNS = "runs"  # field of a state: what it goes on by


def digest(content: Any) -> str:
    """Of plain values."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def place_of(role: str) -> str:
    """Where a role's model stands in the stream file."""
    return role if role == CHAMPION else f"challengers.{role}"
