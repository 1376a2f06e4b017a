"""What a stream file may say where a record holds many instances (`topics.codecs.BATCHED`)."""

import importlib.util
from typing import Any

from riparian.app.stream_file.record_spec import KEY
from riparian.models.extras import installation
from riparian.topics import codecs, records
from riparian.topics.headers import header_of
from riparian.topics.names import FEATURES, LABELS, PREDICTIONS
from riparian.topics.paths import dotted


def check_batched(spec: Any) -> None:
    """ValueError, a sentence, where a stream file, a Spec, asks of such a format what it cannot do."""
    formats = spec.codec.formats()._asdict()
    batched = {kind: name for kind, name in formats.items() if name in codecs.BATCHED}
    for name in batched.values():
        package = codecs.BATCHED[name]
        if importlib.util.find_spec(package) is None:
            raise ValueError(
                f"codec: expected the Python package {package} for {name}, found none; install it with "
                f"{installation(name)}, or choose another codec"
            )
    if FEATURES in batched:
        _check_id("record", spec.record.id, batched[FEATURES])
        if spec.task == records.MULTI_INSTANCE:
            raise ValueError(
                "codec.features: expected a format with a record an instance, since these are bags, found "
                f"{batched[FEATURES]}; choose another one"
            )
    if LABELS in batched and spec.topics.labels is not None:
        _check_id("label", spec.label.id, batched[LABELS])
    if PREDICTIONS in batched and spec.predictions.trace:
        raise ValueError(
            f"predictions.trace: expected false, since predictions in {batched[PREDICTIONS]} share a record and its "
            "headers, found true; leave it out, or choose another codec.predictions"
        )
    registered = spec.codec.registered().get(PREDICTIONS)
    inputs = [kind for kind in batched if kind != PREDICTIONS]
    if registered is not None and inputs:
        raise ValueError(
            f"codec.predictions: expected json or {batched[inputs[0]]}, since predictions name their instance in its "
            f"record, found {registered}, whose schema has no field for it; choose one of these"
        )


def _check_id(owner: str, path: records.Path | str, name: str) -> None:
    if path == KEY or header_of(path) is not None:  # type: ignore[arg-type]
        found = path if isinstance(path, str) else dotted(path)
        raise ValueError(
            f"{owner}.id: expected a column, since the instances of a record in {name} share its key and its headers, "
            f'found "{found}"; name the column of the ids'
        )
