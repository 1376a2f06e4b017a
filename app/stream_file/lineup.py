"""The models of a stream: those that its file names, what `auto` stands for, and those that commands have left. And
what else of a file takes effect while the stream runs."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from riparian.app.stream_file.drift_spec import DriftSpec
from riparian.app.stream_file.spec_errors import sentence
from riparian.app.stream_file.spec_parts import AUTO, ROLE, JoinSpec, MetricsSpec, ModelSpec, Part, PromotionSpec
from riparian.topics import records
from riparian.topics.names import CHAMPION

if TYPE_CHECKING:
    from riparian.models.auto import Resolved
    from riparian.models.auto_values import Values


def models_of(spec: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    from riparian.models import auto

    models = {CHAMPION: spec.champion, **spec.challengers}
    if spec.champion.model == AUTO:
        try:
            found = resolve(spec)
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


def resolve(spec: Any, **budget: Any) -> "Resolved":
    """What `auto` stands for, by the stream file's budget, or where parts of it are others."""
    from riparian.models import auto

    n_classes = 1
    if spec.task not in records.VALUES:
        learned = spec.max_classes if "max_classes" in spec.model_fields_set else min(spec.max_classes, auto.UNNAMED)
        n_classes = learned if spec.classes is None else len(spec.classes)
    return auto.resolve(spec.task, values_of(spec), n_classes, {**spec.champion.parameters, **budget})


def values_of(spec: Any) -> "Values":
    """The values of a stream's features, as `auto` reckons with them."""
    from riparian.models.auto import UNNAMED
    from riparian.models.auto_values import Values

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


# Fields of a stream file that `riparian apply` sends besides the models.
METRICS = ("window", "fading")
RUNS = "runs"  # of a state: what it goes on by
JOIN = ("horizon", "max_pending", "max_pending_bytes", "max_labels")


def running(spec: Any, exclude_defaults: bool = False) -> dict[str, Any]:
    """What of a stream file takes effect while the stream runs, besides its models; `run_by` takes it."""
    metrics, join = (
        part.model_dump(mode="json", include=set(fields), exclude_defaults=exclude_defaults)
        for part, fields in ((spec.metrics, METRICS), (spec.join, JOIN))
    )
    if "horizon" in join:
        join["horizon"] = f"{spec.join.horizon!r}s"
    drift, rule = (
        None if part is None else part.model_dump(mode="json", exclude_defaults=exclude_defaults)
        for part in (spec.drift, spec.promotion)
    )
    return {"drift": drift, "metrics": metrics, "join": join, "promotion": rule}


def run_by(spec: Any, given: Mapping[str, Any]) -> Any:
    """The stream with what `running` gave of another file. ValueError where it is nothing of the kind."""
    if set(given) != {"drift", "metrics", "join", "promotion"}:
        raise ValueError(f"expected drift, metrics, join and promotion, found {', '.join(sorted(given)) or 'nothing'}")

    def checked(place: str, kind: type[Part]) -> Any:
        try:
            return kind.model_validate(given[place])
        except ValidationError as error:
            said = sentence(error, kind)
            raise ValueError(f"{place}{': ' if said.startswith('expected') else '.'}{said}") from None

    metrics, join = checked("metrics", MetricsSpec), checked("join", JoinSpec)
    changed = spec.model_copy(
        update={
            "drift": checked("drift", DriftSpec),
            "metrics": spec.metrics.model_copy(update={field: getattr(metrics, field) for field in METRICS}),
            "join": spec.join.model_copy(update={field: getattr(join, field) for field in JOIN}),
            "promotion": None if given["promotion"] is None else checked("promotion", PromotionSpec),
        }
    )
    changed.check_drift()
    return changed


def digest(said: Any) -> str:
    """Of plain values."""
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()


def place_of(role: str) -> str:
    """Where a role's model stands in the stream file."""
    return role if role == CHAMPION else f"challengers.{role}"
