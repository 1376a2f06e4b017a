"""The log of a state against a topic in memory: bounded by the state, never without a live chunk, past and all."""

import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition import mapped
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint
from riparian.app.state import log as state_log
from riparian.app.state.log import StateLog


class Topic:
    """A changelog partition: offset -> (key, value), with the records before `first` deleted."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.first = 0

    @property
    def n_bytes(self) -> int:
        return sum(len(key) + len(value or b"") for key, value in self.records[self.first :])

    def read(self, log: StateLog | None = None) -> StateLog:
        log = log or StateLog(0)
        for offset in range(max(self.first, log.position), len(self.records)):
            log.append(offset, *self.records[offset])
        log.truncate(self.first)
        log.settle()
        return log


class Owner:
    """Writes checkpoints as a runner does."""

    def __init__(self, topic: Topic, *, keep: int = 0, every_ms: int = 0) -> None:
        self.topic, self.keep, self.every_ms = topic, keep, every_ms
        self.log = topic.read()
        last = self.log.manifest
        arrays = None if last is None else checkpoint.decode(last, self.log.chunks).arrays
        self.encoder = checkpoint.Encoder("s", 0, last=last, arrays=arrays)
        self.sequence = 0 if last is None else last.sequence
        self.n_written = 0

    def append(self, key: bytes, value: bytes) -> None:
        self.topic.records.append((key, value))
        self.log.append(len(self.topic.records) - 1, key, value)
        self.n_written += len(key) + len(value)

    def write(self, *arrays: np.ndarray) -> None:
        self.n_written = 0
        self.encoder.take(
            Snapshot({"feature_offset": self.sequence, "label_offset": 0}, {str(i): a for i, a in enumerate(arrays)})
        )
        encoded = self.encoder.encode(
            sequence=self.sequence + 1,
            created_ms=1000 * self.sequence,
            outputs={},
            keep=lambda chunks: self.log.keep(chunks, self.keep, self.every_ms),
            written=self.log.needed(),
        )
        self.sequence += 1
        for digest, chunk in encoded.new.items():
            self.append(checkpoint.chunk_key(0, digest), chunk)
        self.append(checkpoint.manifest_key(0), encoded.data)
        self.log.settle()
        for digest in self.log.to_copy(self.n_written):
            self.append(checkpoint.chunk_key(0, digest), self.log.chunks[digest])
        front, _ = self.log.front()
        self.topic.first = front
        self.log.truncate(front)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(state_log, "CLEAN_BYTES", 1024)
    monkeypatch.setattr(state_log, "PAST_BYTES", 4096)
    monkeypatch.setattr(checkpoint, "CHUNK_BYTES", 1024)


def test_a_record_for_which_the_disk_has_no_room_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(state_log, "HELD_BYTES", 0)
    log, digest = StateLog(0), checkpoint.hash_of(b"1")
    try:
        mapped.use(tmp_path / "none")
        with pytest.raises(StateError, match="has no room"):
            log.append(0, checkpoint.chunk_key(0, digest), b"1")
        assert (log.position, log.n_bytes, log.chunks) == (0, 0, {})
        mapped.use(tmp_path)
        log.append(0, checkpoint.chunk_key(0, digest), b"1")
        assert log.chunks == {digest: b"1"}
    finally:
        mapped.use(None)


def noise(rng, n_bytes: int) -> np.ndarray:
    return rng.integers(0, 256, n_bytes, dtype=np.uint8)


@pytest.mark.parametrize("hot", [0.01, 0.1, 1.0])
def test_the_log_is_bounded_by_the_state_and_every_prefix_of_checkpoints_can_be_read(hot):
    rng = np.random.default_rng(0)
    state = noise(rng, 200 * 1024)
    topic = Topic()
    owner = Owner(topic)
    most, written = 0.0, []
    for step in range(300 if hot < 1.0 else 100):
        changed = rng.choice(200, max(1, int(200 * hot)), replace=False)
        for chunk in changed:
            state[1024 * chunk + step % 1024] ^= 0x55
        owner.write(state)
        live = owner.log.live_bytes
        if step:
            written.append(owner.n_written / max(1, len(changed)) / 1024)
        most = max(most, topic.n_bytes / live)
        if step % 50 == 0:
            read = topic.read()
            assert checkpoint.decode(read.manifest, read.chunks).arrays["0"].tobytes() == state.tobytes()
            assert set(read.chunks) == set(owner.log.chunks) == set(owner.log.needed())
            assert abs(owner.log.n_bytes / read.n_bytes - 1) < 1e-9
    assert most < 3.0
    # Copying forward never more than doubles what a checkpoint writes, whole chunks and the manifest apart.
    manifest_share = 200 * 20 / 1024 / max(1, 200 * hot)
    assert max(written) < 2.3 * (1 + manifest_share) + 2 / max(1, int(200 * hot))


def test_a_manifest_that_needs_no_chunk_is_live():
    owner = Owner(Topic())
    for _ in range(2):
        owner.write()
    assert owner.topic.read().manifest.sequence == 2


def test_a_state_that_shrinks_takes_its_log_with_it():
    rng = np.random.default_rng(0)
    topic = Topic()
    owner = Owner(topic)
    for _ in range(20):
        owner.write(noise(rng, 100 * 1024), noise(rng, 20 * 1024))
    small = noise(rng, 20 * 1024)
    for _ in range(60):
        small[:100] += 1
        owner.write(small)
    assert topic.n_bytes < 3.0 * owner.log.live_bytes


def test_older_checkpoints_are_kept_by_count_age_and_bytes_and_can_be_read():
    rng = np.random.default_rng(0)
    topic = Topic()
    owner = Owner(topic, keep=3, every_ms=10_000)
    states = {}
    for _ in range(100):
        state = noise(rng, 1024)
        owner.write(state)
        states[owner.sequence] = state.copy()
    read = topic.read()
    kept = [past.sequence for past in read.manifest.past]
    assert len(kept) == 3
    assert [kept[0] - kept[1], kept[1] - kept[2]] == [10, 10]
    assert 100 - kept[0] <= 11
    for past in read.manifest.past:
        older = read.past_manifest(past)
        assert older.sequence == past.sequence
        assert checkpoint.decode(older, read.chunks).arrays["0"].tobytes() == states[past.sequence].tobytes()
    # Checkpoints of 3 KB: one fits into 4 KB. Of 6 KB: none does.
    for _ in range(30):
        owner.write(noise(rng, 3 * 1024))
    assert len(topic.read().manifest.past) == 1
    for _ in range(30):
        owner.write(noise(rng, 6 * 1024))
    assert not topic.read().manifest.past


def test_a_torn_checkpoint_and_a_new_owner_change_nothing():
    rng = np.random.default_rng(0)
    topic, state = Topic(), noise(rng, 50 * 1024)
    owner = Owner(topic)
    owner.write(state)
    before = state.copy()
    torn = Owner(topic)
    state += 1
    torn.encoder.take(Snapshot({"feature_offset": 0, "label_offset": 0}, {"0": state}))
    encoded = torn.encoder.encode(sequence=9, created_ms=0, outputs={}, written=torn.log.needed())
    for digest, chunk in list(encoded.new.items())[:20]:
        torn.append(checkpoint.chunk_key(0, digest), chunk)
    read = topic.read()
    assert checkpoint.decode(read.manifest, read.chunks).arrays["0"].tobytes() == before.tobytes()
    # The next owner does not count on what is torn: it is not in the last manifest, and may be cut off any time.
    new = Owner(topic)
    new.write(state)
    assert topic.read().manifest.chunks() == set(encoded.new)
    follower = topic.read()
    for _ in range(50):
        state[:3000] += 1
        new.write(state)
        topic.read(follower)
    assert checkpoint.decode(follower.manifest, follower.chunks).arrays["0"].tobytes() == state.tobytes()
    assert set(follower.chunks) == set(new.log.chunks)


def test_a_changelog_that_goes_back_is_another_one():
    log = StateLog(0)
    log.append(5, b"0/manifest", None)
    with pytest.raises(StateError, match="went back from offset 6 to 2: the topic was deleted and created again"):
        log.append(2, b"0/manifest", None)


def test_equal_chunks_of_partitions_are_held_once():
    logs: dict[int, StateLog] = {}
    for partition in (0, 1):
        logs[partition] = StateLog(partition, logs)
    digest = checkpoint.hash_of(b"the models")
    for offset, made in enumerate([b"the models", b"the models", b"altered"]):
        for partition, log in logs.items():
            log.append(offset, checkpoint.chunk_key(partition, digest), bytes(bytearray(made)))
            assert log.chunks[digest] == made
        if offset < 2:
            assert logs[0].chunks[digest] is logs[1].chunks[digest]
    logs[0].append(3, checkpoint.chunk_key(0, digest), b"the models")
    assert (logs[0].chunks[digest], logs[1].chunks[digest]) == (b"the models", b"altered")
