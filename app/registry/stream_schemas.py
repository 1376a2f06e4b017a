"""What a registry knows, told to a stream's codecs before they need it."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from riparian.app.errors import RegistryError
from riparian.app.registry.client import Registry
from riparian.topics.names import FEATURES, LABELS, PREDICTIONS
from riparian.topics.schemas import Key, UnusableError, Written

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec


async def look_up(registry: Registry, spec: "Spec", keys: Collection[Key]) -> set[Key]:
    """Have the codecs know these schemas, or the first of them where they are large; those that the registry says it
    does not have.

    Raises RegistryError where it does not answer: then nothing is known of any of them.
    """
    found = await registry.schemas([key for key in keys if key not in spec.schemas.known])
    known = {key: schema for key, schema in found.items() if schema is not None}
    if known:
        spec.schemas.know(known)
        await asyncio.to_thread(spec.make_codec().prepare, list(known))
    return {key for key, schema in found.items() if schema is None}


async def begin(registry: Registry, spec: "Spec", *, register: bool = False) -> list[str]:
    """Have the codecs know by which schema predictions are written, and hold the schemas of the inputs against the
    stream file.

    Parameters
    ----------
    register : bool
        Whether the schema of predictions is registered where it is not yet.

    Returns
    -------
    list of str
        What may be meant: fields that the latest schema of a topic does not have, a subject that is not there yet.

    Raises
    ------
    RegistryError
        The registry does not answer; the predictions' schema is not registered; a schema cannot give what the stream
        file maps.
    """
    kinds = spec.codec.registered()
    await predictions(registry, spec, register=register)
    warnings = []
    for kind in (FEATURES, LABELS):
        if kind in kinds and getattr(spec.topics, kind) is not None:
            warnings += await _held_against(registry, spec, kind)
    return warnings


async def predictions(registry: Registry, spec: "Spec", *, register: bool = False) -> None:
    """Have the codecs know by which schema predictions are written. RegistryError where it is not registered."""
    schema = spec.make_codec().prediction
    if schema is None:
        return
    subject = spec.subject(PREDICTIONS)
    number = await (registry.register if register else registry.lookup)(subject, schema)
    if number is None:
        raise RegistryError(
            f"the registry {registry} has no schema of predictions under the subject {subject}: register it with "
            "riparian check STREAM.yaml --register"
        )
    spec.schemas.written[PREDICTIONS] = Written(number, schema)


async def inputs(registry: Registry, spec: "Spec") -> None:
    """Have the codecs know by which schemas a replay writes records. RegistryError where there are none."""
    for kind in (FEATURES, LABELS):
        if kind in spec.codec.registered() and getattr(spec.topics, kind) is not None:
            subject = spec.subject(kind)
            found = await registry.latest(subject)
            if found is None:
                raise RegistryError(
                    f"the registry {registry} has no schema under the subject {subject}, by which {kind} could be "
                    "written: register it first"
                )
            spec.schemas.written[kind] = found
            spec.schemas.know({found.id: found.schema})


async def _held_against(registry: Registry, spec: "Spec", kind: str) -> list[str]:
    """Where the latest schema of a topic does not fit: RegistryError, or sentences where that may be meant."""
    subject = spec.subject(kind)
    found = await registry.latest(subject)
    if found is None:
        return [
            f"the registry {registry} has no subject {subject} yet, so the fields of {getattr(spec.topics, kind)} were "
            "not compared with the stream file"
        ]
    spec.schemas.know({found.id: found.schema})
    name = f"schema {found.id} of {subject}"
    try:
        problems = await asyncio.to_thread(spec.make_codec().problems, kind, found.schema, name)
    except UnusableError as error:
        raise RegistryError(f"{name} cannot be used: {error}") from None
    warnings = []
    for problem in problems:
        if problem.slot.owner == "record.y" and problem.missing and not _is_asked(spec):
            continue
        # A feature may be dropped while a worker runs, and the next one has to start; an id may not.
        if problem.partly or (problem.missing and problem.optional):
            warnings.append(problem.sentence)
        else:
            raise RegistryError(problem.sentence)
    return warnings


def _is_asked(spec: "Spec") -> bool:
    """Whether labels inside the feature records are meant to be there."""
    return spec.topics.labels is None or "y" in spec.record.model_fields_set
