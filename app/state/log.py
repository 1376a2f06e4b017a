"""What one partition of the changelog holds, as far as it was read or written, and what of it may be deleted. Pure.

We clean the changelog ourselves. Chunks and manifests are appended; records that the last manifest needs, or an older
one that it names (`past`), are live. When the log has grown to more than `CLEAN_FACTOR` times what is live, the live
chunks at its front are appended once more and everything before the first live record is deleted (`DeleteRecords`). So
the log is bounded by the size of the state, however long a worker runs, and cleaning appends little more than each
checkpoint has written itself. Kafka's own cleaner (`cleanup.policy=compact`) gives no such bound: it does not clean the
active segment, and does not say when it runs.

Invariant: a manifest needs only chunks that the manifest before it needed (itself or for its `past`), or that were
written between the two. So when a manifest comes, chunks that are older than it and that no manifest needs may be
dropped.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from riparian.app.errors import StateError
from riparian.app.partition.mapped import Spool
from riparian.app.state.checkpoint import (
    KeptCheckpoint,
    Manifest,
    chunk_prefix,
    decode_manifest,
    digest_of,
    hash_of,
    manifest_key,
    pack,
    unpack,
)

CLEAN_BYTES = 16 * 1024 * 1024  # a smaller log is not cleaned
CLEAN_FACTOR = 1.75  # cleaning begins at this multiple of the live bytes ...
HURRY_FACTOR = 2.75  # ... and has no limit beyond this one; an older checkpoint that is dropped makes it up to 2.6
COPY_FACTOR = 1.25  # most bytes that are appended again per byte that a checkpoint writes
PAST_BYTES = 8 * 1024 * 1024  # older checkpoints may take this much, or ...
PAST_SHARE = 0.5  # ... this share of the state's own bytes
HELD_BYTES = 64 * 1024 * 1024  # bytes of a log beyond which its chunks lie in files
RECORD_BYTES = 70  # headers of a record, about

RECREATED = (
    "the topic was deleted and created again while a worker ran; start the worker again to make the state anew from "
    "the records that the topics still hold, or import an export"
)


class StateRecord(NamedTuple):
    """A record of the log. digest : None for a manifest."""

    offset: int
    n_bytes: int
    digest: bytes | None


class StateLog:
    """What the changelog of one partition holds.

    Parameters
    ----------
    beside : mapping of int to StateLog, optional
        Logs of other partitions in this process: equal chunks, as of a model that all of them learn, are held once.

    Attributes
    ----------
    position : int
        Next offset to read, or to be written.
    chunks : dict of bytes to bytes
        Stored bytes by hash: those that are live, and those read since the last manifest.
    n_bytes : int
        Bytes of the records from the first that is kept.
    data : bytes, optional
        The last manifest as it stands in the changelog.
    """

    def __init__(self, partition: int, beside: "Mapping[int, StateLog] | None" = None) -> None:
        self.partition = partition
        self._beside = {} if beside is None else beside
        self.position = 0
        self.chunks: dict[bytes, bytes] = {}
        self._spool = Spool()
        self.n_bytes = 0
        self._key = manifest_key(partition)
        self._prefix = chunk_prefix(partition)
        self._records: deque[StateRecord] = deque()
        self._where: dict[bytes, int] = {}  # hash -> offset of its last record
        self.data: bytes | None = None
        self._at = -1  # its offset
        self._manifest: Manifest | None = None
        self._needed: dict[bytes, None] | None = None  # by the last manifest and its past
        self._past: dict[bytes, Sequence[bytes]] = {}  # digest of an older manifest -> what it needs, sorted

    def take(self, _: object, records: Iterable[Any]) -> None:
        """Records were read (offset, key, value)."""
        for record in records:
            self.append(record.offset, record.key, record.value)

    def append(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """A record was read or written. StateError where its offset was there before, or the disk is full."""
        if offset < self.position:
            raise StateError(
                f"the changelog of partition {self.partition} went back from offset {self.position:,} to {offset:,}: "
                f"{RECREATED}"
            )
        key = key or b""
        digest = digest_of(key, self._prefix)
        size = len(key) + len(value or b"") + RECORD_BYTES
        if digest is not None and value is not None:  # first: where the disk is full, the record is to be read again
            others = (log.chunks.get(digest) for log in self._beside.values() if log is not self)
            known = next((one for one in others if one == value), None)
            large = self.n_bytes + size > HELD_BYTES
            value = known or (self._spool.put(value) if large else value)
        self.position = offset + 1
        self._records.append(StateRecord(offset, size, digest))
        self.n_bytes += size
        if digest is not None:
            if value is None:  # format 1 deleted by key
                self.chunks.pop(digest, None)
                self._where.pop(digest, None)
            else:
                self.chunks[digest] = value
                self._where[digest] = offset
        elif key == self._key:
            self.data, self._at = value, offset
            self._manifest = self._needed = None

    @property
    def manifest(self) -> Manifest | None:
        """The last manifest; None where there is none. StateError where it cannot be read."""
        if self._manifest is None and self.data is not None:
            self._manifest = decode_manifest(self.data)
        return self._manifest

    def past_manifest(self, past: KeptCheckpoint) -> Manifest | None:
        """An older checkpoint's manifest; None where its chunk is missing or altered."""
        packed = self.chunks.get(past.digest)
        data = None if packed is None else unpack(past.digest, packed)
        return None if data is None else decode_manifest(data)

    def _needed_by(self, past: KeptCheckpoint) -> Sequence[bytes] | None:
        """Hashes that an older checkpoint needs, sorted; None where its manifest is missing or altered."""
        if past.digest not in self._past:
            older = self.past_manifest(past)
            if older is None:
                return None
            self._past[past.digest] = sorted(older.chunks())
        return self._past[past.digest]

    def needed(self) -> dict[bytes, None]:
        """Hashes of the live chunks (the keys). Their order is fixed, so that results are reproducible."""
        if self._needed is None:
            needed: dict[bytes, None] = {}
            manifest = self.manifest
            if manifest is not None:
                needed = dict.fromkeys(sorted(manifest.chunks()))
                for past in manifest.past:
                    needed[past.digest] = None
                    needed.update(dict.fromkeys(self._needed_by(past) or ()))
            self._needed = needed
        return self._needed

    def settle(self) -> None:
        """Drop the chunks that came before the last manifest and that no manifest needs."""
        needed = self.needed()
        for digest in [d for d in self.chunks if d not in needed and self._where[d] < self._at]:
            del self.chunks[digest], self._where[digest]
        self._past = {digest: found for digest, found in self._past.items() if digest in needed}

    @property
    def live_bytes(self) -> int:
        """Bytes of the records that are live."""
        per_record = RECORD_BYTES + len(self._prefix) + 32
        live = sum(len(self.chunks[d]) + per_record for d in self.needed() if d in self.chunks)
        return live + (0 if self.data is None else len(self.data) + per_record)

    # -- the older checkpoints ---------------------------------------------------------------------------------

    def keep(self, chunks: set[bytes], count: int, every_ms: int) -> tuple[list[KeptCheckpoint], dict[bytes, bytes]]:
        """The older checkpoints that the next one names, the newest first, and the new chunk that is needed for that.

        The last manifest becomes one of them when it is `every_ms` newer than the newest of them. The oldest are
        dropped beyond `count`, and beyond a share of the state's bytes.

        Parameters
        ----------
        chunks : set of bytes
            Hashes that the next checkpoint needs for itself.
        """
        last = self.manifest
        if last is None or self.data is None or count == 0:
            return [], {}
        past, new = list(last.past), dict[bytes, bytes]()
        if not past or last.created_ms - past[0].created_ms >= every_ms:
            digest = hash_of(self.data)
            past.insert(0, last.as_past(digest))
            new[digest] = pack(self.data)
        past = [p for p in past[:count] if p.digest in new or p.digest in self.chunks]
        limit = max(PAST_BYTES, PAST_SHARE * sum(len(self.chunks.get(d, b"")) for d in last.chunks()))
        taken, extra, kept = set(chunks), 0, list[KeptCheckpoint]()
        for entry in past:
            older = last.chunks() if entry.digest in new else self._needed_by(entry)
            if older is None:
                continue
            only = set(older) - taken
            extra += sum(len(self.chunks.get(d, b"")) for d in only)
            if extra > limit:
                break
            taken |= only
            kept.append(entry)
        return kept, {digest: chunk for digest, chunk in new.items() if any(p.digest == digest for p in kept)}

    # -- cleaning ----------------------------------------------------------------------------------------------

    def to_copy(self, n_written: int) -> list[bytes]:
        """Hashes of the live chunks at the front of the log that are to be appended again now.

        n_written : bytes that the checkpoint just wrote.
        """
        live = self.live_bytes
        if self.n_bytes <= max(CLEAN_BYTES, CLEAN_FACTOR * live):
            return []
        hurry = self.n_bytes > HURRY_FACTOR * live
        budget = max(COPY_FACTOR * n_written, 4096.0)
        surplus = self.n_bytes - CLEAN_FACTOR * live
        needed, chosen = self.needed(), list[bytes]()
        for record in self._records:
            if surplus <= 0:
                break
            if record.digest is not None and record.digest in needed and self._where[record.digest] == record.offset:
                budget -= record.n_bytes
                if budget < 0 and not hurry:
                    break
                chosen.append(record.digest)
            surplus -= record.n_bytes
        return chosen

    def front(self) -> tuple[int, int]:
        """The first offset that is live, and the bytes before it: they may be deleted."""
        needed, n_bytes = self.needed(), 0
        for offset, size, digest in self._records:
            if offset >= self._at or (digest in needed and self._where.get(digest or b"") == offset):
                return offset, n_bytes
            n_bytes += size
        return self.position, n_bytes

    def truncate(self, offset: int) -> None:
        """Everything before `offset` is deleted."""
        while self._records and self._records[0].offset < offset:
            record = self._records.popleft()
            self.n_bytes -= record.n_bytes
            if record.digest is not None and self._where.get(record.digest) == record.offset:
                del self._where[record.digest], self.chunks[record.digest]
