"""What is known of a key, and its last records, for the page."""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app import inspection
from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.page.outcomes import alert_class
from riparian.app.page.values import named_row
from riparian.app.partition.keys.past import hashes_of, secret
from riparian.app.partition.keys.plan import outs_of
from riparian.app.partition.learner import PartitionLearner
from riparian.app.state.audit.finding import FoundPrediction, KeyRecord, predictions_of, records_of
from riparian.app.state.loading import State
from riparian.app.stream_file.spec import Spec
from riparian.topics.records import CLASSIFICATION
from riparian.topics.vocabulary import canonical

MOST_SHOWN = 20  # records


async def looked_up(
    spec: Spec,
    connection: Connection,
    state_of: Callable[[int], Awaitable[State]],
    key: str,
    value: str,
    *,
    partition: int | None = None,
    since: int | None = None,
    came: Callable[[int, str], dict[str, Any] | None] = lambda partition, id_: None,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Any]:
    """What the last checkpoints know of a key, and its last records, JSON-serialisable.

    Parameters
    ----------
    state_of : callable
        The last checkpoint of a partition.
    key, value : str
        Its name in the stream file, and what stands in records.
    partition : int, optional
        Where to look; in all of them without it, first where Kafka's clients put the value as a key.
    since : int, optional
        ms since 1970: how far back to look for records.
    came : callable
        Partition and id -> what came of a prediction (`Outcomes.of_id`), as far as that is known.
    on_progress : callable
        Given what is done ("looking"), how many records were read, and how many may be.

    Raises
    ------
    StateError
        There is no checkpoint, or no such key, or the state has other hashes of keys than the stream's name makes.
    """
    if key not in spec.keys:
        raise StateError(f"expected one of keys {', '.join(spec.keys)}, found {key}; name one")
    hashed = hashes_of(secret(spec.name), [value])[0]
    likely = int(partitions_of([value.encode("utf-8", "surrogatepass")], spec.partitions)[0])
    places = [partition] if partition is not None else sorted(range(spec.partitions), key=lambda p: p != likely)
    counted = any(one.key == key and not one.of_labels for one in spec.made.values())
    for place in places:
        state = await state_of(place)
        try:
            state.learner.past.check_hashes()
        except ValueError as error:
            raise StateError(str(error)) from None
        values, own = values_of(state, key, hashed)
        if own or not counted:
            break
    if counted:
        places = [place if own else places[0]]
    found, n_read = list[KeyRecord](), 0
    learners = {p: PartitionLearner(state.learner.spec, p) for p in places}
    for learner in learners.values():
        more, n = await records_of(
            connection, learner, key, hashed, since=since, most=MOST_SHOWN, on_progress=partial(on_progress, "looking")
        )
        found, n_read = found + more, n_read + n
    found = sorted(found, key=lambda one: (one.time, one.offset))[-MOST_SHOWN:]
    said = await predictions_of(spec, connection, found)
    return {
        "key": key,
        "value": value,
        "partition": place if own else None,
        "checkpoint": state.manifest.sequence,
        "time": state.learner.past.now,
        "features": values,
        "records": [
            _row(learners[one.partition], one, said.get((one.partition, one.id)), came(one.partition, one.id))
            for one in reversed(found)
        ],
        "records_read": n_read,
    }


def values_of(state: State, key: str, hashed: NDArray[np.uint64]) -> tuple[list[dict[str, Any]], bool]:
    """The features over the past of a key, as a record without values would find them now; and whether its partition
    knows it. hashed : (2,)"""
    learner = state.learner
    spec, past = learner.spec, learner.past
    own, apart = past.values(key, hashed, past.now), learner.learning.label_past
    labels = own if apart is None else apart.values(key, hashed, past.now)
    found = []
    for name, at in outs_of(spec).items():
        one = spec.features[name]
        if one.key == key and name in spec.made:
            value = float((labels if one.of_labels else own)[at])
            what = ", ".join(f"{field} {given}" for field, given in one.written().items())
            found.append({"name": name, "what": what, "value": None if math.isnan(value) else value})
    return found, past.knows(key, hashed)


def _row(
    learner: PartitionLearner, record: KeyRecord, said: FoundPrediction | None, came: dict[str, Any] | None
) -> dict[str, Any]:
    """A record as the page shows it. said : its prediction. came : what came of it."""
    row: dict[str, Any] = {"partition": record.partition, "offset": record.offset, "time": record.time, "id": record.id}
    names = inspection.Names(learner.spec, learner)
    x = named_row(names.features, names.values, record.x.tolist())
    row["x"] = {name: value for name, value in x.items() if learner.spec.features[name].past is None}
    if said is not None:
        row |= {field: said.sent.get(field) for field in ("y", "p", "alert", "features")}
        row |= {"position": said.position, "index": said.sent.get("index", 0)}
        if learner.spec.task == CLASSIFICATION and said.sent.get("y") is not None:
            row["alert"] = canonical(said.sent["y"]) == alert_class(learner.spec)
    return row | {"came": came}
