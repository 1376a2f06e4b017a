"""A state that was torn is refused by a sentence that names what is wrong, before a kernel sees it."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from riparian.app.errors import StateError
from riparian.app.partition.arrays import under
from riparian.app.partition.changes import room_of
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint, portable
from riparian.app.stream_file.spec import build
from riparian.models.batch.learner import READY
from riparian.models.restoring import DamagedError, restore
from tests.golden.make import BEFORE, PARTITION, cases, file, fold, stream

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
        (_set("models/champion/links", (0, 1), 0), "champion: the state is none that this program writes, links leads"),
        (_set("models/champion/links", (0, 1), 1 << 30), "champion: .* links has numbers outside"),
        (_set("models/champion/counts", 0, 1 << 40), "champion: .* counts counts 1099511627776 nodes, and there are"),
        (_set("pending/label_y", 0, 1e9), "the labels that wait are damaged"),
        (_set("pending/id_ends", 0, 1 << 40), "the ids that wait are damaged"),
        (_set("pending/counts", 0, (1 << 63) - 1), "the counts of what waits are damaged"),
        (lambda meta, arrays: meta.update(room=[[0, 8, 2], 1 << 30]), "the room that it names"),
        (lambda meta, arrays: meta.update(room=[[0, 1 << 30, 2], 2]), "the room that it names"),
        (lambda meta, arrays: arrays.pop("models/champion/test"), "champion: .* test is missing"),
        (
            lambda meta, arrays: arrays.update({"metrics/champion/sums": arrays["metrics/champion/sums"][:-1]}),
            r"the metrics of champion: .* sums has shape \(4,\), not \(5\)",
        ),
    ],
)
def test_what_was_torn_is_refused(cut: Snapshot, change: Callable[[Arrays, Arrays], None], said: str) -> None:
    with pytest.raises(
        StateError, match=rf"^the state of partition 1 cannot be used: .*{said}.*riparian rollback"
    ) as refused:
        taken(cut, change)
    assert "\n" not in str(refused.value)


# Arrays that a state may have with fewer rows: a window that grows, and what older versions wrote.
SHORTER = {"window_x", "tests", "errors_spread", "target"}


def _torn(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "of another type", array.astype(np.complex64 if array.dtype.kind == "f" else np.float64)
    yield "of one axis more", array[None]
    if len(array):
        yield "one row short", array[:-1]


@pytest.mark.parametrize("case", cases())
def test_a_golden_state_with_a_torn_array_is_refused(case: str) -> None:
    model, task = cases()[case]
    exported = portable.unpack(file(case).read_bytes(), case)
    snapshot = checkpoint.decode(exported.manifest, exported.chunks)
    fresh = PartitionLearner(stream(model, task), PARTITION)
    role = fresh.roles["champion"]
    room = room_of(snapshot.meta, msgspec.msgpack.decode(snapshot.arrays["vocabularies"].tobytes()), fresh.schema)
    whole = under(snapshot.arrays, "models/champion/")
    if "labels_at" in whole:  # no fit is going on, which would begin anew each time
        whole["labels_at"] = np.where(np.arange(len(whole["labels_at"])) == READY, 0, whole["labels_at"])
    restore(role._made(room), whole, "champion")
    taken = set()
    for name, array in whole.items():
        for how, torn in _torn(array):
            try:
                restore(role._made(room), {**whole, name: torn}, "champion")
                taken.add((name, how))
            except DamagedError:
                continue
    # What is copied into arrays of the member's own takes their type; some belongs to a version of before.
    copied = {one for one in taken if one[0].startswith("member_") and one[1] == "of another type"}
    assert taken - copied <= {(name, "one row short") for name in SHORTER}


@pytest.mark.parametrize(
    ("case", "array"),
    [
        ("mondrian-forest", "counts"),
        ("streaming-decision-tree", "left"),
        ("soft-hoeffding-tree", "roots"),
        ("fimt-dd-regression", "links"),
        ("stochastic-gradient-tree", "roots"),
        ("shrub-ensemble", "features"),
        ("miti-multi-instance", "feature"),
        ("online-isolation-forest-anomaly", "features"),
        ("random-forest", "model_left"),
        ("hoeffding-adaptive-tree", "child_of_value"),
    ],
)
def test_a_golden_state_that_leads_out_of_an_array_is_refused(case: str, array: str) -> None:
    model, task = cases()[case]
    exported = portable.unpack(file(case).read_bytes(), case)
    snapshot = checkpoint.decode(exported.manifest, exported.chunks)
    found = snapshot.arrays[f"models/champion/{array}"]
    arrays = {**snapshot.arrays, f"models/champion/{array}": np.full_like(found, np.iinfo(found.dtype).max)}
    with pytest.raises(StateError, match=rf"cannot be used: champion: .* {array} has numbers outside"):
        PartitionLearner(stream(model, task), PARTITION).restore(Snapshot(snapshot.meta, arrays))


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
    for name, (kind, shape, data) in plain.items():
        array = np.frombuffer(data, kind).reshape(shape)
        for how, torn in _torn(array):
            if name.endswith(("recent", "last")) and how == "one row short":  # as many values as there are
                continue
            forged = {**plain, name: (torn.dtype.str, torn.shape, torn.tobytes())}
            arrays = {**cut.arrays, "drift/signals": np.frombuffer(msgspec.msgpack.encode(forged), np.uint8)}
            with pytest.raises(StateError, match=r"cannot be used: the detectors"):
                PartitionLearner(spec, PARTITION).restore(Snapshot(cut.meta, arrays))
