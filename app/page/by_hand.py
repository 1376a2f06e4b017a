"""What the models of a last checkpoint say of an instance that somebody typed. Nothing is learned, sent or kept."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from riparian.app.errors import RiparianError
from riparian.app.state.loading import State
from riparian.topics.records import ANOMALY, BOOLEAN, MULTI_INSTANCE, NUMERIC, VALUES, Whole

MOST_BYTES = 65_536  # largest request, bytes


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """x : feature -> value, as in a record; what is left out, or null, is missing."""

    x: dict[str, str | Whole | float | bool | None]


def row_of(state: State, given: Mapping[str, Any]) -> tuple[list[float], list[str]]:
    """The row of an instance, and the features whose value no record has had, which are missing to models.

    ValueError where a feature is unknown, or its value of another type.
    """
    spec, row, unseen = state.learner.spec, [], []
    present = spec.present
    for name in given:
        if name not in present:
            raise ValueError(f"{name}: expected one of the features {', '.join(present)}")
    for (name, feature), known in zip(spec.features.items(), state.learner.vocabularies, strict=True):
        value = given.get(name)
        if value is None:
            row.append(math.nan)
        elif known is None:
            if isinstance(value, bool | str) or not math.isfinite(value):
                raise ValueError(f"{name}: expected a number ({NUMERIC}), found {value!r}")
            row.append(float(value))
        elif feature.type == BOOLEAN and not isinstance(value, bool):
            raise ValueError(f"{name}: expected true or false ({BOOLEAN}), found {value!r}")
        else:
            code = known.find(value)
            row.append(math.nan if code < 0 else float(code))
            unseen += [name] if code < 0 else []
    return row, unseen


def predicted(state: State, given: Mapping[str, Any]) -> dict[str, Any]:
    """The predictions of all models of a partition, the champion first, JSON-serialisable.

    `y` and `p` as in a prediction record: null while a model knows nothing. RiparianError where the task has no row.
    """
    learner = state.learner
    if learner.spec.task == MULTI_INSTANCE:
        raise RiparianError("a bag cannot be typed: send it to the features topic, and look its prediction up")
    row, unseen = row_of(state, given)
    models = []
    for role, one in learner.roles.items():
        x = np.array([row if one.columns is None else [row[j] for j in one.columns]])
        out = one.model.predict_many(x)[0]
        said: dict[str, Any] = {"role": role, "learner": one.learner_name, "y": None, "p": None}
        if learner.spec.task in VALUES or learner.spec.task == ANOMALY:
            said["y"] = None if math.isnan(out[0]) else float(out[0])
        elif learner.classes is not None and (out > 0.0).any():
            said["p"] = {text: float(p) for text, p in zip(learner.classes.texts, out, strict=False) if p}
            said["y"] = learner.classes.values[int(out.argmax())]
        models.append(said)
    about = {"checkpoint": state.manifest.sequence, "offset": learner.offsets["features"]}
    return {**about, "partition": state.manifest.partition, "unseen": unseen, "models": models}
