"""A state that somebody else wrote is refused by a sentence that names what is wrong, before a kernel sees it."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from app.errors import StateError
from app.partition.learner import PartitionLearner
from app.partition.state import Snapshot
from app.stream_file.spec import build
from tests.golden.make import BEFORE, PARTITION, fold, stream

Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def cut() -> Snapshot:
    learner = PartitionLearner(stream("hoeffding-tree", "classification"), PARTITION)
    fold(learner, "classification", BEFORE)
    return learner.snapshot()


def taken(cut: Snapshot, change: Callable[[Arrays, Arrays], None]) -> PartitionLearner:
    """The state, changed, taken over by a fresh learner."""
    arrays = {name: array.copy() for name, array in cut.arrays.items()}
    meta = msgspec.msgpack.decode(msgspec.msgpack.encode(cut.meta))
    change(meta, arrays)
    learner = PartitionLearner(stream("hoeffding-tree", "classification"), PARTITION)
    learner.restore(Snapshot(meta, arrays))
    return learner


def test_what_was_written_is_read(cut: Snapshot) -> None:
    assert taken(cut, lambda meta, arrays: None).snapshot().arrays.keys() == cut.arrays.keys()


def _set(name: str, index: Any, value: float) -> Callable[[Arrays, Arrays], None]:
    def change(meta: Arrays, arrays: Arrays) -> None:
        arrays[name][index] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("models/champion/links", (0, 1), 0), "champion: the state is none that this program writes, links has"),
        (_set("models/champion/links", (0, 1), 1 << 30), "champion: .* links has children outside"),
        (_set("models/champion/counts", 0, 1 << 40), "champion: .* counts has counts that the other arrays do not"),
        (_set("metrics/champion/ring", (0, 0), 1e9), "the metrics of champion: .* ring has classes outside"),
        (_set("metrics/champion/n", 0, -1), "the metrics of champion: .* n has counts outside"),
        (_set("pending/label_y", 0, 1e9), "the labels that wait are damaged"),
        (_set("pending/id_ends", 0, 1 << 40), "the ids that wait are damaged"),
        (_set("pending/counts", 0, (1 << 63) - 1), "the counts of what waits are damaged"),
        (lambda meta, arrays: meta.update(room=[[0, 8, 2], 1 << 30]), "the room that it names"),
        (lambda meta, arrays: meta.update(room=[[0, 1 << 30, 2], 2]), "the room that it names"),
        (lambda meta, arrays: arrays.pop("models/champion/test"), "champion: .* test is missing"),
    ],
)
def test_what_nobody_wrote_is_refused(cut: Snapshot, change: Callable[[Arrays, Arrays], None], said: str) -> None:
    with pytest.raises(
        StateError, match=rf"^the state of partition 1 cannot be used: .*{said}.*riparian rollback"
    ) as refused:
        taken(cut, change)
    assert "\n" not in str(refused.value)


def test_detectors_are_checked() -> None:
    content = {
        "name": "watched",
        "task": "classification",
        "partitions": 2,
        "features": {"a": "numeric", "c": {"type": "nominal", "max_values": 6}, "b": "boolean"},
        "champion": {"model": "last-label"},
        "drift": {"detectors": {"adwin": {}}, "on_drift": "replace", "features": ["a"]},
    }
    spec = build(content, "watched")
    learner = PartitionLearner(spec, PARTITION)
    fold(learner, "classification", BEFORE)
    cut = learner.snapshot()
    plain = msgspec.msgpack.decode(cut.arrays["drift/signals"].tobytes())
    changed = 0
    for name, (kind, shape, data) in plain.items():
        array = np.frombuffer(data, kind).reshape(shape)
        if array.dtype.kind != "i" or not array.size:
            continue
        forged = {**plain, name: (kind, shape, np.full_like(array, -(1 << 6)).tobytes())}
        arrays = {**cut.arrays, "drift/signals": np.frombuffer(msgspec.msgpack.encode(forged), np.uint8)}
        if name == "last":  # an offset, which an event repeats
            continue
        changed += 1
        with pytest.raises(StateError, match=r"cannot be used: (the detectors|the detector adwin)"):
            PartitionLearner(spec, PARTITION).restore(Snapshot(cut.meta, arrays))
    assert changed > 5
