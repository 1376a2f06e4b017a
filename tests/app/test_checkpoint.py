"""Checkpoints: what is written is read back to the bit; what did not change is not written; damage is refused."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from app.errors import StateError
from app.learner import Cut
from app.state import checkpoint


def encode(cut: Cut, written=frozenset()) -> checkpoint.Encoded:
    return checkpoint.encode(
        cut, stream="s", partition=3, sequence=7, created_ms=1, outputs_offset=42, written=set(written)
    )


def table_of(encoded: checkpoint.Encoded) -> dict[bytes, bytes]:
    return {checkpoint.chunk_key(3, digest): chunk for digest, chunk in encoded.new.items()}


arrays = st.dictionaries(
    st.text(min_size=1, max_size=5),
    hnp.arrays(
        st.sampled_from([np.float64, np.int64, np.int32, np.uint8]),
        hnp.array_shapes(max_dims=3, min_side=0, max_side=6),
    ),
    max_size=4,
)


@given(arrays)
def test_a_cut_comes_back_to_the_bit(arrays):
    cut = Cut({"feature_offset": 5}, arrays)
    encoded = encode(cut)
    manifest = checkpoint.decode_manifest(encoded.manifest)
    back = checkpoint.decode(manifest, table_of(encoded))
    assert back.meta == cut.meta
    assert (manifest.partition, manifest.sequence, manifest.outputs_offset) == (3, 7, 42)
    assert set(back.arrays) == set(arrays)
    for name, array in arrays.items():
        assert back.arrays[name].dtype == array.dtype
        assert back.arrays[name].shape == array.shape
        assert back.arrays[name].tobytes() == array.tobytes()
        assert back.arrays[name].flags.writeable


def test_only_changed_chunks_are_written_and_each_stays_below_the_record_limit():
    rng = np.random.default_rng(0)
    array = rng.random(400_000)  # 3.2 MB that do not compress
    first = encode(Cut({}, {"a": array}))
    assert len(first.new) == 13
    assert max(map(len, first.new.values())) <= checkpoint.CHUNK_BYTES + 1
    array[100_000] += 1
    second = encode(Cut({}, {"a": array}), first.needed)
    assert len(second.new) == 1
    assert len(first.needed - second.needed) == 1
    table = {**table_of(first), **table_of(second)}
    assert (
        checkpoint.decode(checkpoint.decode_manifest(second.manifest), table).arrays["a"].tobytes() == array.tobytes()
    )


def test_a_missing_chunk_and_an_altered_one_are_refused():
    encoded = encode(Cut({}, {"weights": np.arange(10.0)}))
    manifest, table = checkpoint.decode_manifest(encoded.manifest), table_of(encoded)
    with pytest.raises(StateError, match="weights is missing"):
        checkpoint.decode(manifest, {})
    ((key, chunk),) = table.items()
    other = encode(Cut({}, {"weights": np.arange(1.0, 11.0)}))
    with pytest.raises(StateError, match="weights was altered"):
        checkpoint.decode(manifest, {key: next(iter(other.new.values()))})
    assert chunk


def test_a_newer_format_and_garbage_are_refused_with_a_sentence():
    with pytest.raises(StateError, match="format 99"):
        checkpoint.decode_manifest(msgspec.msgpack.encode({"version": 99}))
    for garbage in (b"", b"\xc1", b"\x01", msgspec.msgpack.encode({})):
        with pytest.raises(StateError, match="damaged"):
            checkpoint.decode_manifest(garbage)
