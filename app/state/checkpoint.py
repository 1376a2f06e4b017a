"""Checkpoints: a cut of a learner as content-addressed chunks and one manifest.

The manifest of a partition is the truth: the two offsets, and references to everything the learner knows at exactly
those. Arrays are cut into chunks named by the hash of their bytes, so a part of the state that did not change is not
written again. Chunks are written first, the manifest last, and chunks that no manifest needs are deleted after: a
write that is torn anywhere leaves the old manifest with all its chunks.

Keys in the table (bytes): `<partition>/manifest`, `<partition>/chunk/<hash>`. The manifest is msgpack with a format
version; a chunk is one byte that names the compression, then the bytes.
"""

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from app.errors import StateError
from app.learner import Cut

VERSION = 1
CHUNK_BYTES = 256 * 1024  # of uncompressed array: far below the broker's default record limit of 1 MB
STORED, DEFLATED = b"\x00", b"\x01"


class Manifest(msgspec.Struct):
    """What the manifest record holds. arrays : name -> [dtype, shape, chunk hashes]."""

    version: int
    stream: str
    partition: int
    sequence: int
    created_ms: int
    outputs_offset: int  # predictions topic: everything below belongs to records below the offsets
    meta: dict[str, Any]
    arrays: dict[str, tuple[str, list[int], list[bytes]]]
    features: list[tuple[str, str]] = []  # name and type of each column of x; models know only their number

    def chunks(self) -> set[bytes]:
        return {digest for _, _, digests in self.arrays.values() for digest in digests}


class Encoded(NamedTuple):
    """A checkpoint ready to be written: the manifest's bytes, the chunks that are new, all chunks that it needs."""

    manifest: bytes
    new: dict[bytes, bytes]
    needed: set[bytes]


def manifest_key(partition: int) -> bytes:
    return b"%d/manifest" % partition


def chunk_key(partition: int, digest: bytes) -> bytes:
    return b"%d/chunk/%s" % (partition, digest.hex().encode())


def chunk_prefix(partition: int) -> bytes:
    return b"%d/chunk/" % partition


def encode(
    cut: Cut,
    *,
    stream: str,
    partition: int,
    sequence: int,
    created_ms: int,
    outputs_offset: int,
    written: set[bytes],
    features: list[tuple[str, str]] | None = None,
) -> Encoded:
    """Cut arrays into chunks; compress those whose hash is not in `written`. Pure; runs off the event loop."""
    new: dict[bytes, bytes] = {}
    arrays: dict[str, tuple[str, list[int], list[bytes]]] = {}
    for name, array in cut.arrays.items():
        raw = memoryview(array.tobytes())
        digests = []
        for start in range(0, len(raw), CHUNK_BYTES):
            part = raw[start : start + CHUNK_BYTES]
            digest = hashlib.blake2b(part, digest_size=16).digest()
            digests.append(digest)
            if digest not in written and digest not in new:
                packed = zlib.compress(part, 1)
                new[digest] = DEFLATED + packed if len(packed) < len(part) else STORED + part
        arrays[name] = (array.dtype.str, list(array.shape), digests)
    manifest = Manifest(
        VERSION, stream, partition, sequence, created_ms, outputs_offset, cut.meta, arrays, features or []
    )
    return Encoded(msgspec.msgpack.encode(manifest), new, manifest.chunks())


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest; a newer format than this code knows is refused."""
    try:
        version = msgspec.msgpack.decode(data)["version"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise StateError("the state's manifest is damaged: it is not a manifest of this program") from error
    if version != VERSION:
        raise StateError(
            f"the state was written in format {version}, and this version of riparian reads {VERSION}: "
            "run the version that wrote it, or a newer one"
        )
    return msgspec.msgpack.decode(data, type=Manifest)


def unpack(digest: bytes, packed: bytes) -> bytes | None:
    """The bytes of a chunk; None where they are not those that it is named after."""
    try:
        part = zlib.decompress(packed[1:]) if packed[:1] == DEFLATED else packed[1:]
    except zlib.error:
        return None
    return part if hashlib.blake2b(part, digest_size=16).digest() == digest else None


def decode(manifest: Manifest, table: Mapping[bytes, bytes]) -> Cut:
    """Put the cut together again from the chunks in `table`; a missing or altered one is refused."""
    arrays = {}
    for name, (dtype, shape, digests) in manifest.arrays.items():
        parts = []
        for digest in digests:
            packed = table.get(chunk_key(manifest.partition, digest))
            if packed is None:
                raise StateError(
                    f"the state of partition {manifest.partition} is damaged: a chunk of {name} is missing from "
                    "the changelog topic; restore the topic, or give the stream a new name to start afresh"
                )
            part = unpack(digest, packed)
            if part is None:
                raise StateError(
                    f"the state of partition {manifest.partition} is damaged: a chunk of {name} was altered in "
                    "the changelog topic; restore the topic, or give the stream a new name to start afresh"
                )
            parts.append(part)
        # A copy: kernels write into it, and a buffer of bytes is read-only.
        arrays[name] = np.frombuffer(b"".join(parts), dtype=np.dtype(dtype)).reshape(shape).copy()
    return Cut(manifest.meta, arrays)
