"""Checkpoints: what a partition knows, as content-addressed chunks and one manifest.

The manifest of a partition defines its state: the next offset of each input log, and references to everything that the
learner knows at exactly these. Arrays are divided into chunks, which are named by the hash of their bytes, so a part of
the state that did not change is not written again. Chunks are written first and the manifest last: a write that is
interrupted leaves the old manifest with all its chunks. Nothing is ever deleted by its key; what no manifest needs is
deleted when the front of the log is (app.state.log).

Keys in the changelog (bytes): `<partition>/manifest`, `<partition>/chunk/<hash>`. The manifest is msgpack with a format
version; a chunk is one byte that names the compression, then the bytes. Format 1 had one array of all waiting
instances, no `past`, and deleted chunks by key; in format 2 exponentials and logarithms were those of C's library
(`arithmetic` of app.partition.changes). Both are still read.
"""

import hashlib
import hmac
import math
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import cramjam
import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.errors import StateError
from riparian.app.partition import mapped
from riparian.app.partition.state import Snapshot
from riparian.models.adapter import signature
from riparian.models.entry import without_retired
from riparian.topics.names import INPUTS, state_field
from riparian.topics.records import DriftRecord

VERSION = 3
READABLE = (1, 2, VERSION)
CHUNK_BYTES = (
    64 * 1024
)  # of uncompressed array: a leaf that changes often has its neighbours written, too, so chunks are small
LARGE_CHUNK_BYTES = 256 * 1024  # chunk of arrays over LARGE_BYTES, bytes; the manifest stays below 512 KB
LARGE_BYTES = 512 * 1024 * 1024
FROZEN_CHUNK_BYTES = 768 * 1024  # chunk of what is written once, bytes: tens of millions that wait fit into a manifest
MAX_CHUNK_BYTES = 4 * 1024 * 1024  # largest chunk that is read, bytes: arrays have smaller ones
MOST = 2**62  # no offset, count or size of an array is as large
TYPES = {np.dtype(kind).str: np.dtype(kind).itemsize for kind in "?bBhHiIqQfd"}  # of arrays
SEGMENTS = "pending/instances/"  # names of arrays that are unpacked when they are asked for
STORED, DEFLATED, ZSTD = b"\x00", b"\x01", b"\x02"  # deflated: by versions before 0.1.0
LEVEL = 1  # zstd's level: three times as fast as deflate's first, to the same size
SIGNED = b"riparian signed\n"  # before a manifest's signature of SIGNATURE_BYTES and its bytes
SIGNATURE_BYTES = 32


class KeptCheckpoint(msgspec.Struct, array_like=True):
    """An older checkpoint that is kept to roll back to.

    sequence, created_ms : as in its manifest
    feature_offset, label_offset : for people; its manifest has the offsets of all input logs
    digest : of the chunk that holds its manifest
    """

    sequence: int
    created_ms: int
    feature_offset: int
    label_offset: int
    digest: bytes


class Manifest(msgspec.Struct):
    """What the manifest record holds.

    version : of the format
    stream, partition : whose state it is
    sequence : number of the checkpoint
    created_ms : since 1970
    outputs : role of an output topic -> offset; everything below belongs to records below the offsets in `meta`
    meta : of the learner's snapshot, with the next offset of every input log
    arrays : name -> [dtype, shape, chunk hashes]
    features : name and type of each column of x; models know only their number
    topics : of the input logs in their order, features and labels first ("" for none)
    past : older checkpoints, the newest first
    lost : role of an input log -> records that were deleted before they were taken, since the stream began, and the
        offset after them
    events : of the drift topic that belong to this state and may not have been sent (app/worker/task/partition_task.py)
    """

    version: int
    stream: str
    partition: int
    sequence: int
    created_ms: int
    outputs: dict[str, int]
    meta: dict[str, Any]
    arrays: dict[str, tuple[str, list[int], list[bytes]]]
    features: list[tuple[str, str]] = []
    topics: list[str] = []
    past: list[KeptCheckpoint] = []
    lost: dict[str, tuple[int, int]] = {}
    events: list[DriftRecord] = []

    def chunks(self) -> set[bytes]:
        """Hashes of the chunks that this state needs; those of `past` are not among them."""
        return {digest for _, _, digests in self.arrays.values() for digest in digests}

    def as_past(self, digest: bytes) -> KeptCheckpoint:
        return KeptCheckpoint(
            self.sequence, self.created_ms, self.meta["feature_offset"], self.meta["label_offset"], digest
        )


class _Version(msgspec.Struct):
    version: int


class _Manifest1(msgspec.Struct):
    """Format 1."""

    version: int
    stream: str
    partition: int
    sequence: int
    created_ms: int
    outputs_offset: int
    meta: dict[str, Any]
    arrays: dict[str, tuple[str, list[int], list[bytes]]]
    features: list[tuple[str, str]] = []


class Stored(NamedTuple):
    """A complete checkpoint. chunks : those that it needs, by hash, as stored."""

    manifest: Manifest
    chunks: Mapping[bytes, bytes]


class Encoded(NamedTuple):
    """A checkpoint ready to be written.

    manifest : what it says
    data : the manifest's bytes
    new : hash -> chunks that were not written before
    """

    manifest: Manifest
    data: bytes
    new: dict[bytes, bytes]


def manifest_key(partition: int) -> bytes:
    return b"%d/manifest" % partition


def chunk_key(partition: int, digest: bytes) -> bytes:
    return b"%d/chunk/%s" % (partition, digest.hex().encode())


def chunk_prefix(partition: int) -> bytes:
    return b"%d/chunk/" % partition


def hash_of(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def pack(data: bytes | memoryview) -> bytes:
    """A chunk as it is stored."""
    packed = bytes(cramjam.zstd.compress(data, LEVEL))
    return ZSTD + packed if len(packed) < len(data) else STORED + data


def unpack(digest: bytes, packed: bytes) -> bytes | None:
    """The bytes of a chunk; None where they do not match its hash."""
    data: bytes | None = bytes(packed[1:])
    if packed[:1] == ZSTD:
        data = _decompressed(packed[1:])
    elif packed[:1] == DEFLATED:
        data = _inflated(packed[1:])
    return data if data is not None and hash_of(data) == digest else None


def _decompressed(packed: bytes) -> bytes | None:
    """None where it is damaged, or longer than chunks are."""
    for room in (FROZEN_CHUNK_BYTES, MAX_CHUNK_BYTES):
        data = bytearray(room)
        try:
            n = cramjam.zstd.decompress_into(packed, data)
        except cramjam.DecompressionError:  # or it is longer
            continue
        return bytes(memoryview(data)[:n])
    return None


def _inflated(packed: bytes) -> bytes | None:
    """Bytes that deflate has packed, within the same bound."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(packed, MAX_CHUNK_BYTES)
    except zlib.error:
        return None
    return data if inflate.eof else None


class _Chunk:
    """A part of an array as it was; hashed and compressed at most once, whichever partitions need it."""

    __slots__ = ("_digest", "_packed", "raw", "words")

    def __init__(self, raw: bytes, digest: bytes | None = None) -> None:
        self.raw = raw
        self.words = np.frombuffer(raw, np.int64, len(raw) // 8)
        self._digest = digest
        self._packed: bytes | None = None

    @property
    def digest(self) -> bytes:
        if self._digest is None:
            self._digest = hash_of(self.raw)
        return self._digest

    @property
    def packed(self) -> bytes:
        if self._packed is None:
            self._packed = pack(self.raw)
        return self._packed


class Held:
    """An array as of the last snapshot, in chunks that never change: those that differ are replaced."""

    def __init__(self, array: NDArray[Any], digests: Sequence[bytes] = (), size: int | None = None) -> None:
        self.size = size or _size_of(array)
        self.chunks: list[_Chunk] = []
        self.update(array)
        if len(digests) == len(self.chunks):
            self.chunks = [_Chunk(chunk.raw, digest) for chunk, digest in zip(self.chunks, digests, strict=True)]

    def update(self, array: NDArray[Any]) -> None:
        """Replace the chunks that differ. O(bytes) to compare, at memory speed."""
        self.dtype, self.shape = array.dtype.str, list(array.shape)
        raw, chunks = _bytes_of(array), self.chunks
        whole = raw[: len(raw) // self.size * self.size].view(np.int64).reshape(-1, self.size // 8)
        for i, words in enumerate(whole):
            if i >= len(chunks) or len(chunks[i].raw) < self.size or not (chunks[i].words == words).all():
                chunks[i : i + 1] = [_Chunk(words.tobytes())]
        rest = raw[whole.nbytes :].tobytes()
        if rest and [chunk.raw for chunk in chunks[len(whole) : len(whole) + 1]] != [rest]:
            chunks[len(whole) : len(whole) + 1] = [_Chunk(rest)]
        del chunks[-(-len(raw) // self.size) :]


def _size_of(array: NDArray[Any]) -> int:
    """Bytes of a chunk of an array."""
    return LARGE_CHUNK_BYTES if array.nbytes > LARGE_BYTES else CHUNK_BYTES


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class PackedArray:
    """An array that is unpacked each time it is asked for: of all that waits, one segment is in memory at a time."""

    def __init__(self, manifest: Manifest, name: str, chunks: Mapping[bytes, bytes]) -> None:
        self._of = manifest, name, chunks

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return _array_of(*self._of)


class Encoder:
    """Makes the checkpoints of one partition, one after the other.

    It keeps a copy of the arrays of the last checkpoint. Unchanged parts are only compared with it, at memory speed,
    and neither copied, hashed nor compressed.

    Parameters
    ----------
    features, topics : as in Manifest.
    last : Manifest, optional
        The checkpoint that the learner was restored from.
    arrays : mapping, optional
        The arrays of `last`, as `decode` gave them; others are copied by the first `take`, and what is frozen is not.
    """

    def __init__(
        self,
        stream: str,
        partition: int,
        features: Iterable[tuple[str, str]] = (),
        topics: Iterable[str] = (),
        last: Manifest | None = None,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.stream, self.partition = stream, partition
        self.features, self.topics = list(features), list(topics)
        self._entries: dict[str, tuple[str, list[int], list[bytes]]] = dict(last.arrays) if last is not None else {}
        self._own: dict[str, Held] = {}
        self._taken: dict[str, tuple[str, list[int], list[_Chunk]]] = {}
        self._snapshot: Snapshot | None = None
        if last is not None and arrays is not None and last.version > 1:
            usual = {name: array for name, array in arrays.items() if not isinstance(array, PackedArray)}
            self._own = {name: Held(array, last.arrays[name][2]) for name, array in usual.items()}

    def take(self, snapshot: Snapshot, common: dict[str, Held] | None = None) -> None:
        """Copy what changed since the last call. On the learner's thread, between two steps; one checkpoint at a time.

        snapshot : its `arrays` may be live, `frozen` are not looked at again after `encode`, `kept` are as an earlier
        `frozen` had them.
        common : copies of the arrays that are `snapshot.common`, for all partitions that hold these; nobody else uses
        them meanwhile.
        """
        names = () if common is None else snapshot.common
        if common is not None:
            for name in set(common).difference(names):
                del common[name]
            for name in set(names).intersection(self._own):
                common.setdefault(name, self._own.pop(name))
        self._own = {name: held for name, held in self._own.items() if name in snapshot.arrays and name not in names}
        self._taken = {}
        for name, array in snapshot.arrays.items():
            copies = common if common is not None and name in names else self._own
            held = copies.get(name)
            if held is None or held.size != _size_of(array):
                held = copies[name] = Held(array)
            else:
                held.update(array)
            self._taken[name] = (held.dtype, held.shape, list(held.chunks))
        self._snapshot = snapshot._replace(arrays={})

    def encode(
        self,
        *,
        sequence: int,
        created_ms: int,
        outputs: Mapping[str, int],
        lost: Mapping[str, tuple[int, int]] | None = None,
        events: Iterable[DriftRecord] = (),
        keep: Callable[[set[bytes]], tuple[list[KeptCheckpoint], dict[bytes, bytes]]] | None = None,
        written: Iterable[bytes] = (),
    ) -> Encoded:
        """The checkpoint of the last `take`: hashes and compresses what is not in `written`. Off the learner's thread.

        keep : given the hashes that this checkpoint needs, returns the older checkpoints to name, and the new chunks
            for that.
        written : hashes of chunks that the changelog is known to hold, and that its last manifest needs.
        """
        if self._snapshot is None:
            raise RuntimeError("encode is called before take")
        snapshot, self._snapshot = self._snapshot, None
        taken, self._taken = self._taken, {}
        known, new = set(written), dict[bytes, bytes]()
        known.update(*(digests for _, _, digests in self._entries.values()))

        def put(chunk: _Chunk) -> bytes:
            if chunk.digest not in known and chunk.digest not in new:
                new[chunk.digest] = chunk.packed
            return chunk.digest

        entries = {name: self._entries[name] for name in snapshot.kept}
        for name, array in snapshot.frozen.items():
            held = Held(array, size=FROZEN_CHUNK_BYTES)
            entries[name] = (held.dtype, held.shape, [put(chunk) for chunk in held.chunks])
        for name, (dtype, shape, chunks) in taken.items():
            entries[name] = (dtype, shape, [put(chunk) for chunk in chunks])
        self._entries = entries
        manifest = Manifest(
            version=VERSION,
            stream=self.stream,
            partition=self.partition,
            sequence=sequence,
            created_ms=created_ms,
            outputs=dict(outputs),
            meta=snapshot.meta,
            arrays=entries,
            features=self.features,
            topics=self.topics,
            lost=dict(lost or {}),
            events=list(events),
        )
        if keep is not None:
            manifest.past, more = keep(manifest.chunks())
            new.update(more)
        return Encoded(manifest, encode_manifest(manifest), new)


def _key() -> bytes | None:
    """The key that signs. StateError where it is too short to be a secret."""
    try:
        return signature.key()
    except ValueError as error:
        raise StateError(str(error)) from None


def encode_manifest(manifest: Manifest) -> bytes:
    """The record of a manifest, signed where this process has a key."""
    data = msgspec.msgpack.encode(manifest)
    key = _key()
    return data if key is None else SIGNED + hmac.digest(key, data, "sha256") + data


def _verified(data: bytes, trusted: bool) -> bytes:
    """The manifest in a record. StateError where this process has a key, and the manifest was not signed by it."""
    signed = data.startswith(SIGNED)
    start = len(SIGNED) + SIGNATURE_BYTES if signed else 0
    key = None if trusted else _key()
    if key is not None and not signed:
        raise StateError(
            f"the state is not signed, and {signature.KEY} is set: unset it, or, if you trust who could write "
            "the changelog topic, export the state without it and import it with it"
        )
    if key is not None and not hmac.compare_digest(data[len(SIGNED) : start], hmac.digest(key, data[start:], "sha256")):
        raise StateError(f"the state was not signed by this {signature.KEY}: set the key of the workers that wrote it")
    return data[start:]


def decode_manifest(data: bytes, trusted: bool = False) -> Manifest:
    """Read a manifest; a newer format than this code knows is refused, and so is one that is not signed by the key of
    this process, if it has one. trusted : it was given by a person, and needs no signature."""
    data = _verified(data, trusted)
    try:
        version = msgspec.msgpack.decode(data, type=_Version).version
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_manifest() from error
    if version not in READABLE:
        raise StateError(
            f"the state was written in format {version}, and this version of riparian reads "
            f"{' and '.join(map(str, READABLE))}: run the version that wrote it, or a newer one"
        )
    try:
        if version > 1:
            manifest = msgspec.msgpack.decode(data, type=Manifest)
        else:
            old = msgspec.structs.asdict(msgspec.msgpack.decode(data, type=_Manifest1))
            manifest = Manifest(outputs={"predictions": old.pop("outputs_offset")}, **old)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_manifest() from error
    meta = {"n_instances": 0, "n_labels": 0, **manifest.meta}
    offsets = {state_field(role, "offset") for role in INPUTS}
    offsets |= {name for name in meta if name.endswith(("_offset", "_index"))}
    for field in (*offsets, "n_instances", "n_labels"):
        if type(meta.get(field)) is not int or not 0 <= meta[field] < MOST:
            raise _no_manifest()
    if isinstance(models := meta.get("models"), Mapping):
        manifest.meta["models"] = {role: _current(model) for role, model in models.items()}
    if isinstance(auto := meta.get("auto"), Mapping):
        manifest.meta["auto"] = without_retired(auto)
    return manifest


def _current(model: Any) -> Any:
    """A model of a state, without parameters of older versions. What a state says is data: whether it is a model is
    seen where it is used."""
    if isinstance(model, Sequence) and len(model) == 2 and isinstance(model[1], Mapping):
        return [model[0], without_retired(model[1])]
    return model


def _no_manifest() -> StateError:
    return StateError("the state's manifest is damaged: it is not a manifest of this program")


def decode(manifest: Manifest, chunks: Mapping[bytes, bytes]) -> Snapshot:
    """The snapshot that a checkpoint holds, from `chunks` (by hash, as stored). A missing or altered chunk is refused,
    and so are shapes that exceed the memory."""
    check_shapes(manifest)
    arrays: dict[str, Any] = {
        name: PackedArray(manifest, name, chunks) if name.startswith(SEGMENTS) else _array_of(manifest, name, chunks)
        for name in manifest.arrays
    }
    return Snapshot({"features": manifest.features, "topics": manifest.topics, **manifest.meta}, arrays)


def _array_of(manifest: Manifest, name: str, chunks: Mapping[bytes, bytes]) -> NDArray[Any]:
    """An array of a checkpoint. StateError where a chunk is missing or altered."""
    dtype, shape, digests = manifest.arrays[name]
    parts = []
    for digest in digests:
        packed = chunks.get(digest)
        part = None if packed is None else unpack(digest, packed)
        if part is None:
            raise StateError(
                f"the state of partition {manifest.partition} is damaged: a chunk of {name} "
                f"{'is missing from' if packed is None else 'was altered in'} the changelog topic; go back to an "
                "older checkpoint (riparian rollback), import an export, or give the stream a new name"
            )
        parts.append(part)
    if sum(map(len, parts)) != array_bytes(dtype, shape):
        raise StateError(f"the state of partition {manifest.partition} is damaged: {name} has the wrong size")
    # A copy: kernels write into it, and a buffer of bytes is read-only.
    return np.frombuffer(b"".join(parts), dtype=np.dtype(dtype)).reshape(shape).copy()


def array_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of an array of a manifest. StateError where that is no array of numbers."""
    # Not every text that numpy accepts as a type: some stand for Python objects, and kernels know only these types.
    size = TYPES.get(dtype, 0)
    sides = math.prod(max(side, 1) for side in shape)  # numpy makes no array with such sides, even without bytes
    if not size or any(side < 0 for side in shape) or sides * size >= MOST:
        raise StateError(f"the state is damaged: an array of type {dtype!r} and shape {shape} is not part of any state")
    return math.prod(shape) * size


def check_shapes(manifest: Manifest) -> None:
    """StateError where the arrays of a manifest take more than the memory of this machine and the disk for large ones:
    equal chunks are stored once, so a small file can need much memory."""
    wanted = sum(array_bytes(dtype, shape) for dtype, shape, _ in manifest.arrays.values())
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + mapped.free_bytes()
    if wanted > there:
        raise StateError(
            f"the state of partition {manifest.partition} takes {wanted:,} bytes, and this machine has {there:,}: use "
            "a larger one, or go back to an older checkpoint (riparian rollback)"
        )


def chunks_of(items: Mapping[bytes, bytes], partition: int) -> dict[bytes, bytes]:
    """The chunks among a changelog's items, by hash; keys that are none are left out."""
    prefix, chunks = chunk_prefix(partition), {}
    for key, value in items.items():
        digest = digest_of(key, prefix)
        if digest is not None:
            chunks[digest] = value
    return chunks


def digest_of(key: bytes, prefix: bytes) -> bytes | None:
    """The hash in a chunk's key; None where it is no chunk's."""
    if not key.startswith(prefix):
        return None
    try:
        return bytes.fromhex(key[len(prefix) :].decode("ascii"))
    except ValueError:
        return None
