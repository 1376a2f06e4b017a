"""States that earlier versions wrote are read and go on as they would have; a newer version's are refused."""

import json

import msgspec
import pytest

from app.errors import StateError
from app.partition.learner import PartitionLearner
from app.state import checkpoint, portable
from models.registry import REGISTRY
from tests.golden.make import AFTER, BEFORE, FOLDER, LATE, PARTITION, RECORD, cases, file, fold, stream

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))  # of today's format

# Every format version that was ever written, and its cases.
GOLDEN = [
    (int(path.stem.removeprefix("state-v")), case, digests)
    for path in sorted(FOLDER.glob("state-v*.json"))
    for case, digests in json.loads(path.read_text(encoding="utf-8")).items()
]


def test_there_is_a_golden_state_of_every_model_and_task() -> None:
    assert set(RECORDED) == set(cases())
    assert {file(case, version) for version, case, _ in GOLDEN} == set(FOLDER.glob("*.bin"))


@pytest.mark.parametrize(("version", "case", "digests"), GOLDEN, ids=lambda value: str(value)[:40])
def test_a_golden_state_is_read_and_goes_on_as_it_would_have(version: int, case: str, digests: dict[str, str]) -> None:
    model, task = cases()[case]
    exported = portable.unpack(file(case, version).read_bytes(), case)
    assert exported.manifest.version == version
    learner = portable.restore(stream(model, task), exported)
    assert learner.digest() == digests["restored"]
    assert (learner.feature_offset, learner.label_offset) == (BEFORE, BEFORE - LATE)
    # Those without a label (every 50th) wait, too.
    assert learner.pending.n_waiting == LATE + len(range(0, BEFORE - LATE, 50))
    fold(learner, task, AFTER)
    assert learner.digest() == digests["continued"]


# What a batch learner is fitted to is its library's, and may change with that: going on from a state has no fits.
OURS = [case for case, (model, _) in cases().items() if not REGISTRY[model].cls.startswith("models.batch.")]


@pytest.mark.parametrize("case", OURS)
def test_todays_code_from_the_beginning_comes_to_the_same(case: str) -> None:
    model, task = cases()[case]
    learner = PartitionLearner(stream(model, task), PARTITION)
    fold(learner, task, AFTER)
    # Scores add up probabilities, whose last bits the version that wrote the state may have had otherwise.
    assert learner.digest() == RECORDED[case].get("beginning", RECORDED[case]["continued"])


def test_the_golden_tree_has_grown() -> None:
    exported = portable.unpack(file("hoeffding-tree").read_bytes(), "tree")
    learner = portable.restore(stream("hoeffding-tree", "classification"), exported)
    assert learner.models["champion"].size()["n_leaves"] > 2


def test_newer_formats_are_refused_with_a_sentence() -> None:
    data = file("last-label").read_bytes()
    content = msgspec.msgpack.decode(data[len(portable.MAGIC) : -portable.DIGEST_BYTES])

    def written(**changed: object) -> bytes:
        body = portable.MAGIC + msgspec.msgpack.encode({**content, **changed})
        return body + portable._digest(body)

    assert portable.unpack(written(), "state.bin").manifest.sequence == 1
    with pytest.raises(StateError, match=r"state.bin was written in export format 2, and this version .* reads 1"):
        portable.unpack(written(format=2), "state.bin")
    manifest = {**msgspec.msgpack.decode(content["manifest"]), "version": checkpoint.VERSION + 1}
    with pytest.raises(StateError, match=rf"format {checkpoint.VERSION + 1}, .* reads 1 and {checkpoint.VERSION}"):
        portable.unpack(written(manifest=msgspec.msgpack.encode(manifest)), "state.bin")
