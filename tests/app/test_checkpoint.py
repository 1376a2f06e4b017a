"""Checkpoints: what is written is read back to the bit; what did not change is not written; damage is refused."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from riparian.app.errors import StateError
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint
from riparian.app.state.checkpoint import CHUNK_BYTES, Encoder


def encode(encoder: Encoder, arrays, written=(), **cut) -> checkpoint.Encoded:
    encoder.take(Snapshot({"feature_offset": 5, "label_offset": 4}, arrays, **cut))
    return encoder.encode(sequence=7, created_ms=1, outputs={"predictions": 42}, written=written)


arrays = st.dictionaries(
    st.text(min_size=1, max_size=5),
    hnp.arrays(
        st.sampled_from([np.float64, np.int64, np.int32, np.uint8]),
        hnp.array_shapes(max_dims=3, min_side=0, max_side=6),
    ),
    max_size=4,
)


@given(st.lists(st.tuples(arrays, arrays), min_size=1, max_size=4))
def test_a_sequence_of_cuts_comes_back_to_the_bit(cuts):
    """Arrays come, change, grow, shrink, go and come back; frozen ones are kept by name."""
    encoder, chunks, needed, frozen = Encoder("s", 3), {}, set(), {}
    for live, fresh in cuts:
        fresh = {f"frozen/{name}": array for name, array in fresh.items()}
        kept = [name for name in frozen if name not in fresh][:2]
        encoded = encode(encoder, live, needed, frozen=fresh, kept=kept)
        assert not set(encoded.new) & needed
        chunks.update(encoded.new)
        manifest = checkpoint.decode_manifest(encoded.data)
        assert manifest == encoded.manifest
        back = checkpoint.decode(manifest, chunks)
        frozen = {name: {**frozen, **fresh}[name] for name in [*kept, *fresh]}
        expected = {**live, **frozen}
        assert set(back.arrays) == set(expected)
        for name, array in expected.items():
            assert back.arrays[name].dtype == array.dtype
            assert back.arrays[name].shape == array.shape
            assert back.arrays[name].tobytes() == array.tobytes()
            assert back.arrays[name].flags.writeable
        assert (manifest.partition, manifest.sequence, manifest.outputs) == (3, 7, {"predictions": 42})
        needed = manifest.chunks()
        # A new owner knows as much as the old one.
        encoder = Encoder("s", 3, last=manifest, arrays=back.arrays)


def test_a_cut_is_a_copy():
    array = np.zeros(10)
    encoder = Encoder("s", 3)
    encoder.take(Snapshot({}, {"a": array}))
    array += 1
    encoded = encoder.encode(sequence=1, created_ms=0, outputs={})
    assert checkpoint.decode(encoded.manifest, encoded.new).arrays["a"].tolist() == [0.0] * 10


@pytest.mark.parametrize("restarted", [False, True])
def test_only_changed_chunks_are_written_and_each_stays_below_the_record_limit(restarted):
    rng = np.random.default_rng(0)
    array = rng.random(400_000)  # 3.2 MB that do not compress
    encoder = Encoder("s", 3)
    first = encode(encoder, {"a": array})
    assert len(first.new) == -(-array.nbytes // CHUNK_BYTES)
    assert max(map(len, first.new.values())) <= CHUNK_BYTES + 1
    if restarted:
        encoder = Encoder("s", 3, last=first.manifest, arrays=checkpoint.decode(first.manifest, first.new).arrays)
    array[100_000] += 1
    array[399_999] = np.nan
    second = encode(encoder, {"a": array}, first.manifest.chunks())
    assert len(second.new) == 2
    back = checkpoint.decode(second.manifest, {**first.new, **second.new})
    assert back.arrays["a"].tobytes() == array.tobytes()
    # NaN equals itself here, and a change back is a chunk that is not held any more.
    assert not encode(encoder, {"a": array}, second.manifest.chunks()).new
    array[100_000] -= 1
    assert len(encode(encoder, {"a": array}, second.manifest.chunks()).new) <= 1


def test_a_grown_array_keeps_its_full_chunks():
    rng = np.random.default_rng(0)
    array = rng.random(100_000)
    encoder = Encoder("s", 3)
    first = encode(encoder, {"a": array[:50_000]})
    second = encode(encoder, {"a": array[:60_000]}, first.manifest.chunks())
    assert len(second.manifest.chunks() - first.manifest.chunks()) == len(second.new) == 8 - 6
    third = encode(encoder, {"a": array[:50_000]}, second.manifest.chunks())
    assert third.manifest.arrays == first.manifest.arrays


@given(st.data())
def test_partitions_that_hold_one_array_share_its_copy_and_each_has_its_own_moment(data):
    """One may take a checkpoint between another's `take` and `encode`; arrays change, grow, come and go meanwhile."""
    common, own = {}, [{"own": np.zeros(3)} for _ in range(3)]
    encoders = [Encoder("s", i) for i in range(3)]
    held = {"a": np.zeros(30_000), "b": np.zeros(5)}
    written, expected = [{} for _ in range(3)], [None] * 3
    for _ in range(data.draw(st.integers(1, 12))):
        i, what = (
            data.draw(st.integers(0, 2)),
            data.draw(st.sampled_from(["change", "grow", "rename", "take", "encode"])),
        )
        if what == "change":
            name = data.draw(st.sampled_from(sorted(held)))
            held[name][data.draw(st.integers(0, len(held[name]) - 1))] += 1.0
            own[i]["own"][0] += 1.0
        elif what == "grow":
            held["a"] = np.concatenate([held["a"], held["a"][:9_000] + 0.5])
        elif what == "rename":
            held = {("c" if name == "b" else "b" if name == "c" else name): array for name, array in held.items()}
        elif what == "take" and expected[i] is None:
            arrays = held | own[i]
            encoders[i].take(Snapshot({"feature_offset": 0, "label_offset": 0}, arrays, common=set(held)), common)
            expected[i] = {name: array.tobytes() for name, array in arrays.items()}
        elif what == "encode" and expected[i] is not None:
            encoded = encoders[i].encode(sequence=1, created_ms=0, outputs={}, written=written[i])
            assert not set(encoded.new) & set(written[i])
            written[i] |= encoded.new
            back = checkpoint.decode(encoded.manifest, written[i]).arrays
            assert {name: array.tobytes() for name, array in back.items()} == expected[i]
            expected[i] = None
    assert not encoders[0]._own.keys() & held.keys()


def test_what_partitions_share_is_compressed_once(monkeypatch):
    packed, pack = [], checkpoint.pack
    monkeypatch.setattr(checkpoint, "pack", lambda raw: packed.append(raw) or pack(raw))
    common, array = {}, np.random.default_rng(0).random(100_000)
    for i in range(4):
        encoder = Encoder("s", i)
        encoder.take(Snapshot({"feature_offset": 0, "label_offset": 0}, {"a": array}, common={"a"}), common)
        encoded = encoder.encode(sequence=1, created_ms=0, outputs={})
        assert len(encoded.new) == len(packed) == -(-array.nbytes // CHUNK_BYTES)


def test_chunks_that_did_not_change_are_not_hashed_again(monkeypatch):
    hashed, hash_of = [], checkpoint.hash_of
    monkeypatch.setattr(checkpoint, "hash_of", lambda raw: hashed.append(raw) or hash_of(raw))
    encoder, array = Encoder("s", 0), np.random.default_rng(0).random(100_000)
    encode(encoder, {"a": array})
    n = len(hashed)
    array[0] += 1.0
    encode(encoder, {"a": array})
    assert len(hashed) == n + 1


def test_a_missing_chunk_and_an_altered_one_are_refused():
    encoded = encode(Encoder("s", 3), {"weights": np.arange(10.0)})
    with pytest.raises(StateError, match=r"weights is missing .* rollback"):
        checkpoint.decode(encoded.manifest, {})
    (digest,) = encoded.new
    (other,) = encode(Encoder("s", 3), {"weights": np.arange(1.0, 11.0)}).new.values()
    with pytest.raises(StateError, match="weights was altered"):
        checkpoint.decode(encoded.manifest, {digest: other})


def test_a_newer_format_and_garbage_are_refused_with_a_sentence():
    with pytest.raises(StateError, match="format 99"):
        checkpoint.decode_manifest(msgspec.msgpack.encode({"version": 99}))
    for garbage in (b"", b"\xc1", b"\x01", msgspec.msgpack.encode({}), msgspec.msgpack.encode({"version": 2})):
        with pytest.raises(StateError, match="damaged"):
            checkpoint.decode_manifest(garbage)
