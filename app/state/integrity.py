"""Whether the state in a changelog is complete and unaltered: hashes every chunk again and compares the manifest with
its chunks. Pure.

A chunk that no manifest needs (an orphan) is not damage: every checkpoint leaves chunks that only the one before
needed, until the log is cleaned (app.state.log), and so does an incomplete checkpoint. But an orphan whose bytes do not
match its hash is damage: the next checkpoint would take it as written, and refer to it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from riparian.app.errors import StateError
from riparian.app.state import checkpoint


class Findings(NamedTuple):
    """What the items of one partition's changelog are.

    manifest : None where there is none, or it cannot be read
    damage : sentences, none where the state is sound
    missing, altered : hash in hex -> the array that needs the chunk ("" for an altered orphan)
    orphaned : hashes that no manifest needs
    n_chunks : chunks that were hashed
    gone : older checkpoints that are incomplete, so that no rollback to them is possible
    """

    partition: int
    manifest: checkpoint.Manifest | None
    damage: list[str]
    missing: dict[str, str]
    altered: dict[str, str]
    orphaned: list[str]
    n_chunks: int
    gone: list[int]

    @property
    def sound(self) -> bool:
        return not self.damage

    def plain(self) -> dict[str, Any]:
        """JSON-serialisable."""
        return {
            "partition": self.partition,
            "sequence": None if self.manifest is None else self.manifest.sequence,
            "sound": self.sound,
            "chunks": self.n_chunks,
            "missing": self.missing,
            "altered": self.altered,
            "orphaned": self.orphaned,
            "damage": self.damage,
            "gone": self.gone,
        }


def examine(items: Mapping[bytes, bytes], stream: str, partition: int) -> Findings:
    """Hash every chunk in `items` (changelog key -> value) and compare with what the manifest needs."""
    prefix, key = checkpoint.chunk_prefix(partition), checkpoint.manifest_key(partition)
    damage: list[str] = []
    chunks: set[bytes] = set()
    broken: set[bytes] = set()
    lengths: dict[bytes, int] = {}  # of the sound ones
    for item, value in items.items():
        if item.startswith(prefix):
            digest = checkpoint.digest_of(item, prefix)
            if digest is None:
                damage.append(f"the key {item!r} is not one of a chunk")
                continue
            chunks.add(digest)
            data = checkpoint.unpack(digest, value)
            if data is None:
                broken.add(digest)
            else:
                lengths[digest] = len(data)
        elif item != key:
            damage.append(f"the key {item!r} is not one of partition {partition}'s state")
    manifest = None
    if key in items:
        try:
            manifest = checkpoint.decode_manifest(items[key])
        except StateError as error:
            damage.append(str(error))
        else:
            if (manifest.stream, manifest.partition) != (stream, partition):
                damage.append(f"the manifest is that of partition {manifest.partition} of stream {manifest.stream!r}")
    elif chunks:
        damage.append("there are chunks and no manifest: it was lost, or the first checkpoint was never finished")
    missing: dict[str, str] = {}
    altered = {digest.hex(): "" for digest in sorted(broken)}
    for name, (dtype, shape, digests) in ({} if manifest is None else manifest.arrays).items():
        for digest in digests:
            if digest not in chunks:
                missing.setdefault(digest.hex(), name)
            elif digest in broken:
                altered[digest.hex()] = altered[digest.hex()] or name
        try:
            n_bytes = checkpoint.array_bytes(dtype, shape)
        except StateError as error:
            damage.append(f"{name}: {error}")
            continue
        found = [lengths.get(digest) for digest in digests]
        if None not in found and sum(found) != n_bytes:  # type: ignore[arg-type]
            damage.append(f"{name} has {len(digests)} chunks, which do not make its {n_bytes:,} bytes")
    needed = set() if manifest is None else manifest.chunks()
    gone: list[int] = []
    for past in [] if manifest is None else manifest.past:
        older = None
        if past.digest in chunks - broken:
            data = checkpoint.unpack(past.digest, items[checkpoint.chunk_key(partition, past.digest)])
            older = checkpoint.decode_manifest(data or b"")
        if older is None or not older.chunks() <= chunks - broken:
            gone.append(past.sequence)
        else:
            needed |= older.chunks() | {past.digest}
    damage += [f"chunk {chunk} of {name} is missing" for chunk, name in missing.items()]
    damage += [f"chunk {chunk} of {name or 'no manifest'} was altered" for chunk, name in altered.items()]
    orphaned = sorted(digest.hex() for digest in chunks - needed)
    return Findings(partition, manifest, damage, missing, altered, orphaned, len(chunks), gone)


class StatePart(NamedTuple):
    """A part of the state: `models/champion`, `metrics/champion`, `pending`, `vocabularies`.

    n_bytes : of the arrays
    n_chunks, stored_bytes : of the chunks, as compressed; one that several parts share is counted for the first
    """

    name: str
    n_arrays: int
    n_bytes: int
    n_chunks: int
    stored_bytes: int


def parts(manifest: checkpoint.Manifest, items: Mapping[bytes, bytes]) -> list[StatePart]:
    """Chunks and bytes of a state, by part; missing chunks count as 0 bytes."""
    found: dict[str, list[int]] = {}
    seen: set[bytes] = set()
    for name, (dtype, shape, digests) in manifest.arrays.items():
        words = name.split("/")
        part = found.setdefault("/".join(words[:2]) if words[0] in ("models", "metrics") else words[0], [0, 0, 0, 0])
        new = set(digests) - seen
        seen |= new
        part[0] += 1
        part[1] += checkpoint.array_bytes(dtype, shape)
        part[2] += len(new)
        part[3] += sum(len(items.get(checkpoint.chunk_key(manifest.partition, digest), b"")) for digest in new)
    return [StatePart(name, *counts) for name, counts in found.items()]
