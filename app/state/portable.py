"""A partition's state as one file: written from a changelog, read back and put into another. Pure.

The file: a magic line, a msgpack map (format version, manifest, chunks by hash) and the BLAKE2b hash of all that comes
before, so a file that was truncated or altered is refused. Manifest and chunks are the bytes of the changelog.
"""

import hashlib
import time
from collections.abc import Mapping

import msgspec

from riparian.app.errors import StateError
from riparian.app.partition.changes import next_origin
from riparian.app.partition.learner import PartitionLearner
from riparian.app.state import checkpoint
from riparian.app.state.checkpoint import Stored
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import INPUTS

MAGIC = b"riparian state\n"
FORMAT = 1
DIGEST_BYTES = 16


class Content(msgspec.Struct):
    """What stands between the magic and the hash. chunks : hash -> stored bytes."""

    format: int
    manifest: bytes
    chunks: dict[bytes, bytes]


def beginning(spec: Spec, learner: PartitionLearner) -> bytes:
    """The file with which a stream begins with the models of a learner that has seen no topic of it (`begun`)."""
    begun = PartitionLearner(spec)
    begun.begin_with(learner.snapshot(), learner.partition)
    return pack_checkpoint(encoded(spec, begun, 1), 0)


def pack_checkpoint(made: checkpoint.Encoded, partition: int) -> bytes:
    """The file of a first checkpoint, which is whole."""
    chunks = {checkpoint.chunk_key(partition, digest): chunk for digest, chunk in made.new.items()}
    return pack({checkpoint.manifest_key(partition): made.data, **chunks}, partition)


def pack(items: Mapping[bytes, bytes], partition: int) -> bytes:
    """The file of a changelog's items, which must be sound and have a manifest (`integrity.examine`)."""
    data = items[checkpoint.manifest_key(partition)]
    needed = sorted(checkpoint.decode_manifest(data, trusted=True).chunks())
    content = Content(FORMAT, data, {digest: items[checkpoint.chunk_key(partition, digest)] for digest in needed})
    packed = MAGIC + msgspec.msgpack.encode(content)
    return packed + _digest(packed)


def unpack(data: bytes, where: str) -> Stored:
    """Read a file's bytes, and check each chunk; `where` names it in errors.

    Raises
    ------
    StateError
        It is not an exported state, is of another format, or was truncated or altered.
    """
    if not data.startswith(MAGIC):
        raise StateError(f"{where} is not an exported state: give a file that riparian export wrote")
    body = data[len(MAGIC) : -DIGEST_BYTES]
    if _digest(data[:-DIGEST_BYTES]) != data[-DIGEST_BYTES:]:
        raise StateError(f"{where} is damaged (it was truncated or altered): export the state again")
    try:
        found = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StateError(f"{where} is damaged (it is not msgpack): export the state again") from None
    version = found.get("format") if isinstance(found, dict) else None
    if version != FORMAT:
        raise StateError(
            f"{where} was written in export format {version}, and this version of riparian reads {FORMAT}: run the "
            "version that wrote it, or a newer one"
        )
    try:
        content = msgspec.convert(found, type=Content)
    except msgspec.ValidationError as error:
        raise StateError(f"{where} is damaged ({error}): export the state again") from None
    manifest = checkpoint.decode_manifest(content.manifest, trusted=True)
    checkpoint.check_shapes(manifest)
    for digest in manifest.chunks():
        if digest not in content.chunks or checkpoint.unpack(digest, content.chunks[digest]) is None:
            raise StateError(f"{where} is damaged (chunk {digest.hex()}): export the state again")
    return Stored(manifest, content.chunks)


def restore(spec: Spec, stored: Stored) -> PartitionLearner:
    """The learner of a checkpoint; StateError where it does not fit the stream file."""
    learner = PartitionLearner(spec, stored.manifest.partition)
    learner.restore(checkpoint.decode(*stored))
    return learner


def begun(spec: Spec, exported: Stored, partition: int, where: str) -> tuple[PartitionLearner, list[str]]:
    """A partition that begins with the models of an exported state, and the roles of models that it does not have.

    It begins where its topics do; where the state has learned them, it goes on there. StateError where the models do
    not fit the stream file.
    """
    manifest, learner = exported.manifest, PartitionLearner(spec, partition)
    snapshot = checkpoint.decode(*exported)
    try:
        anew = learner.begin_with(snapshot, manifest.partition)
    except StateError as error:
        raise StateError(f"the stream {spec.name} cannot begin with the models of {where}: {error}") from error
    if manifest.partition == partition and learned_from(spec, manifest):
        learner.go_on_at(snapshot.meta)
    return learner, anew


def added(spec: Spec, stored: Stored, partition: int) -> PartitionLearner:
    """A partition that was added to the topics of a stream, with the models that a checkpoint of another one of it has.
    It begins where its topics do."""
    snapshot, learner = checkpoint.decode(*stored), PartitionLearner(spec, partition)
    learner.begin_beside(snapshot, stored.manifest.partition)
    return learner


def learned_from(spec: Spec, manifest: checkpoint.Manifest) -> bool:
    """Whether a state was learned from the topics of features and labels that the stream has."""
    return manifest.topics[: len(INPUTS)] == list(spec.input_topics.values())[: len(INPUTS)]


def encoded(spec: Spec, learner: PartitionLearner, sequence: int) -> checkpoint.Encoded:
    """The first checkpoint of a partition."""
    features = [(name, feature.type) for name, feature in learner.spec.features.items()]
    encoder = checkpoint.Encoder(spec.name, learner.partition, features, spec.input_topics.values())
    encoder.take(learner.checkpoint())
    return encoder.encode(sequence=sequence, created_ms=int(time.time() * 1000), outputs={})


def addressed(exported: Stored, spec: Spec, sequence: int, outputs: Mapping[str, int]) -> bytes:
    """The manifest for a stream's changelog: same offsets, same state, encoded."""
    manifest = exported.manifest
    meta = manifest.meta
    if manifest.stream != spec.name:  # predictions of this stream do not record what the state learned before
        meta = {**meta, "origin": next_origin(meta)}
    manifest = msgspec.structs.replace(
        manifest,
        version=checkpoint.VERSION,
        stream=spec.name,
        events=manifest.events if manifest.stream == spec.name else [],
        sequence=sequence,
        outputs=dict(outputs),
        meta=meta,
        topics=list(spec.input_topics.values()),
        past=[],
    )
    return checkpoint.encode_manifest(manifest)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
