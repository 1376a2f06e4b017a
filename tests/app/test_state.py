"""State shown, verified, exported and imported, on tables in memory: damage is named, what is not whole is refused."""

import asyncio
import contextlib
import json
import os
import zlib

import cramjam
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.cli.state.state import _summary, print_state
from riparian.app.errors import DataError, SpecError, StateError, TopicError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.lag import PartitionLag
from riparian.app.partition.learner import PartitionLearner
from riparian.app.state import changelog, checkpoint, portable
from riparian.app.state.changelog import Changelog, check_partition
from riparian.app.state.integrity import examine, parts
from riparian.app.state.transfer import _check_offset, read_file
from riparian.app.stream_file.spec import Spec, build
from riparian.models.adapter import signature
from tests.golden.make import BEFORE, LATE, PARTITION, fold, items_of, stream

KEY = checkpoint.manifest_key(PARTITION)


@pytest.fixture(scope="module")
def spec() -> Spec:
    return stream("naive-bayes", "classification")


@pytest.fixture(scope="module")
def trained(spec: Spec) -> PartitionLearner:
    learner = PartitionLearner(spec, PARTITION)
    fold(learner, "classification", BEFORE)
    return learner


@pytest.fixture
def items(trained: PartitionLearner) -> dict[bytes, bytes]:
    return items_of(trained.snapshot(), "golden", PARTITION, sequence=4, outputs={"predictions": 17})


def chunk_of(items: dict[bytes, bytes], array: str) -> bytes:
    """The key of an array's first chunk."""
    digest = checkpoint.decode_manifest(items[KEY]).arrays[array][2][0]
    return checkpoint.chunk_key(PARTITION, digest)


# verify ---------------------------------------------------------------------------------------------------------------


def test_a_whole_state_is_sound(items: dict[bytes, bytes]) -> None:
    found = examine(items, "golden", PARTITION)
    assert found.sound
    assert found.n_chunks == len(items) - 1 > 5
    assert (found.missing, found.altered, found.orphaned) == ({}, {}, [])


def test_a_missing_chunk_is_named_with_its_array(items: dict[bytes, bytes]) -> None:
    key = chunk_of(items, "pending/x")
    del items[key]
    found = examine(items, "golden", PARTITION)
    assert found.missing == {key.rpartition(b"/")[2].decode(): "pending/x"}
    assert not found.sound
    assert "of pending/x is missing" in found.damage[0]


@pytest.mark.parametrize("change", [lambda c: c[:-3], lambda c: c[:1] + bytes([c[1] ^ 255]) + c[2:], lambda c: b""])
def test_an_altered_chunk_is_named_with_its_array(items: dict[bytes, bytes], change) -> None:
    key = chunk_of(items, "pending/x")
    items[key] = change(items[key])
    found = examine(items, "golden", PARTITION)
    assert found.altered == {key.rpartition(b"/")[2].decode(): "pending/x"}
    assert not found.sound
    # A worker that loads it says so, too, and does not fall over the library's own error.
    with pytest.raises(StateError, match="pending/x was altered"):
        checkpoint.decode(checkpoint.decode_manifest(items[KEY]), checkpoint.chunks_of(items, PARTITION))


@pytest.mark.parametrize("n_bytes", [0, 1, 1000, checkpoint.CHUNK_BYTES, checkpoint.LARGE_CHUNK_BYTES + 1, 2_000_000])
@pytest.mark.parametrize("random", [False, True])
def test_a_chunk_is_read_as_it_was_written_now_and_by_deflate_before(n_bytes: int, random: bool) -> None:
    data = os.urandom(n_bytes) if random else bytes(n_bytes)
    digest = checkpoint.hash_of(data)
    packed = checkpoint.pack(data)
    assert packed[:1] == (b"\x00" if random or n_bytes < 20 else b"\x02")
    assert checkpoint.unpack(digest, packed) == data
    assert checkpoint.unpack(digest, b"\x01" + zlib.compress(data, 1)) == data
    assert checkpoint.unpack(digest, b"\x02" + packed) is None


def test_every_single_chunk_counts(items: dict[bytes, bytes]) -> None:
    for key in [key for key in items if key != KEY]:
        assert not examine({k: v for k, v in items.items() if k != key}, "golden", PARTITION).sound
        flipped = items[key][:-1] + bytes([items[key][-1] ^ 1])
        assert not examine({**items, key: flipped}, "golden", PARTITION).sound


def test_an_orphan_is_named_and_harmless_unless_it_was_altered(items: dict[bytes, bytes]) -> None:
    other = items_of(PartitionLearner(stream("last-label", "classification")).snapshot(), "golden", PARTITION)
    key, chunk = next((key, chunk) for key, chunk in other.items() if key not in items)
    digest = bytes.fromhex(key.rpartition(b"/")[2].decode())
    found = examine({**items, key: chunk}, "golden", PARTITION)
    assert found.sound
    assert found.orphaned == [digest.hex()]
    found = examine({**items, key: chunk + b"\x00" if chunk[:1] == b"\x00" else b"\x00"}, "golden", PARTITION)
    assert not found.sound
    assert found.altered == {digest.hex(): ""}


@pytest.mark.parametrize(("n", "said"), [(0, ""), (1, "  1 chunk is needed no more, "), (1012, "  1,012 chunks are ")])
def test_verify_counts_orphans_in_one_line(
    items: dict[bytes, bytes], n: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = examine(items, "golden", PARTITION)._replace(orphaned=[f"{i:032x}" for i in range(n)])
    print_state("golden", PARTITION, Changelog(items, 1, 1, 1), found)
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.endswith("sound")
    assert [line[: len(said)] for line in rest] == [said] * (n > 0)


def test_a_manifest_that_is_lost_garbage_newer_or_another_streams(items: dict[bytes, bytes]) -> None:
    chunks = {key: value for key, value in items.items() if key != KEY}
    assert "no manifest" in examine(chunks, "golden", PARTITION).damage[0]
    assert "not a manifest" in examine({**items, KEY: b"\xc1"}, "golden", PARTITION).damage[0]
    newer = msgspec.msgpack.encode({**msgspec.msgpack.decode(items[KEY]), "version": 99})
    assert "format 99" in examine({**items, KEY: newer}, "golden", PARTITION).damage[0]
    assert "stream 'golden'" in examine(items, "silver", PARTITION).damage[0]
    assert "not one of partition" in examine({**items, b"stray": b""}, "golden", PARTITION).damage[0]
    assert examine({}, "golden", PARTITION).sound


def test_an_array_with_too_few_chunks_is_damage(items: dict[bytes, bytes]) -> None:
    manifest = checkpoint.decode_manifest(items[KEY])
    dtype, shape, _ = manifest.arrays["pending/x"]
    manifest.arrays["pending/x"] = (dtype, shape, [])
    found = examine({**items, KEY: msgspec.msgpack.encode(manifest)}, "golden", PARTITION)
    assert any("pending/x has 0 chunks" in sentence for sentence in found.damage)


# show -----------------------------------------------------------------------------------------------------------------


def test_the_parts_add_up(items: dict[bytes, bytes], trained: PartitionLearner) -> None:
    found = {part.name: part for part in parts(checkpoint.decode_manifest(items[KEY]), items)}
    assert set(found) == {"models/champion", "metrics/champion", "calibration", "estimated", "pending", "vocabularies"}
    assert sum(part.n_chunks for part in found.values()) == len(items) - 1
    assert sum(part.stored_bytes for part in found.values()) == sum(map(len, items.values())) - len(items[KEY])
    assert found["models/champion"].n_bytes == trained.roles["champion"].model.n_bytes
    assert sum(part.n_bytes for part in found.values()) == sum(a.nbytes for a in trained.snapshot().arrays.values())


def test_the_summary_is_that_of_the_manifest_and_the_changelog(
    items: dict[bytes, bytes], trained: PartitionLearner
) -> None:
    stale = {checkpoint.chunk_key(PARTITION, b"0" * 16): b"\x00stale"}
    log = Changelog({**items, **stale}, 1000, 123_456, 1234)
    shown = json.loads(json.dumps(_summary(PARTITION, log, examine(log.items, "golden", PARTITION))))
    assert (shown["sequence"], shown["version"], shown["offset"], shown["label_offset"]) == (
        4,
        checkpoint.VERSION,
        BEFORE,
        BEFORE - LATE,
    )
    assert shown["outputs"] == {"predictions": 17}
    assert shown["changelog"] == {"records": 1000, "bytes": 123_456, "end": 1234}
    assert shown["live"] == {
        "records": len(items),
        "bytes": sum(len(key) + len(value) for key, value in items.items()),
    }
    assert shown["waiting"] == {"instances": trained.pending.n_waiting, "labels": trained.pending.n_labels_waiting}
    assert shown["waiting"]["labels"] > 0
    assert shown["models"] == {"champion": {"model": "naive-bayes", "parameters": {"window": None}}}
    assert (shown["instances"], shown["labels"], shown["orphaned"]) == (BEFORE, BEFORE - LATE, 1)


# export and import ----------------------------------------------------------------------------------------------------


def test_a_file_holds_the_state_to_the_bit_and_nothing_else(
    spec: Spec, items: dict[bytes, bytes], trained: PartitionLearner
) -> None:
    stale = {checkpoint.chunk_key(PARTITION, b"0" * 16): b"\x00stale"}
    exported = portable.unpack(portable.pack({**items, **stale}, PARTITION), "f")
    assert exported.chunks == checkpoint.chunks_of(items, PARTITION)
    assert portable.restore(spec, exported).digest() == trained.digest()


def test_a_file_for_another_stream_keeps_all_but_its_address(spec: Spec, items: dict[bytes, bytes]) -> None:
    exported = portable.unpack(portable.pack(items, PARTITION), "f")
    other = spec.model_copy(update={"name": "silver"})
    manifest = checkpoint.decode_manifest(portable.addressed(exported, other, 9, {}))
    assert (manifest.stream, manifest.sequence, manifest.outputs) == ("silver", 9, {})
    assert manifest.topics == ["golden.features", "golden.labels"]  # of the other stream's file
    # It has a past that is in none of the other stream's topics.
    origin = {"origin": [BEFORE, BEFORE - LATE, 1]}
    assert (manifest.meta, manifest.arrays) == ({**exported.manifest.meta, **origin}, exported.manifest.arrays)
    same = checkpoint.decode_manifest(portable.addressed(exported, spec, 9, {}))
    assert same.meta == exported.manifest.meta
    assert examine({**items, KEY: msgspec.msgpack.encode(manifest)}, "silver", PARTITION).sound


def test_a_file_that_was_cut_altered_or_is_no_export_is_refused(items: dict[bytes, bytes]) -> None:
    data = portable.pack(items, PARTITION)
    for cut in (len(data) - 1, len(data) // 2, len(portable.MAGIC) + 3, len(portable.MAGIC)):
        with pytest.raises(StateError, match="f is damaged"):
            portable.unpack(data[:cut], "f")
    for at in range(len(portable.MAGIC), len(data), 997):
        with pytest.raises(StateError, match="f is damaged"):
            portable.unpack(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "f")
    for garbage in (b"", b"name: golden\n"):
        with pytest.raises(StateError, match="f is not an exported state"):
            portable.unpack(garbage, "f")


def test_a_file_without_one_of_its_chunks_is_refused(items: dict[bytes, bytes]) -> None:
    needed = checkpoint.decode_manifest(items[KEY]).chunks()
    chunks = {digest: items[checkpoint.chunk_key(PARTITION, digest)] for digest in needed}
    chunks.popitem()
    body = portable.MAGIC + msgspec.msgpack.encode(portable.Content(portable.FORMAT, items[KEY], chunks))
    with pytest.raises(StateError, match="f is damaged"):
        portable.unpack(body + portable._digest(body), "f")


def exported(manifest: object, chunks: dict[bytes, bytes]) -> bytes:
    """A file with the right hash, whatever it holds."""
    data = manifest if isinstance(manifest, bytes) else msgspec.msgpack.encode(manifest)
    body = portable.MAGIC + msgspec.msgpack.encode({"format": portable.FORMAT, "manifest": data, "chunks": chunks})
    return body + portable._digest(body)


def test_what_a_forged_file_asks_for_is_bounded(items: dict[bytes, bytes], spec: Spec) -> None:
    """Chunks that are alike are stored once, and zeros are packed 1,000 to 1: 266 kB became 5.6 GB."""
    manifest = checkpoint.decode_manifest(items[KEY])
    chunks = checkpoint.chunks_of(items, PARTITION)
    bombs = b"\x01" + zlib.compress(bytes(50_000_000)), b"\x02" + bytes(cramjam.zstd.compress(bytes(50_000_000)))
    for bomb in bombs:
        assert checkpoint.unpack(checkpoint.hash_of(bytes(50_000_000)), bomb) is None
    zeros = bytes(checkpoint.CHUNK_BYTES)
    digest = checkpoint.hash_of(zeros)
    chunks[digest] = checkpoint.pack(zeros)

    def refused(said: str, dtype: str, shape: list[int], n_chunks: int) -> None:
        forged = msgspec.structs.replace(
            manifest, arrays={**manifest.arrays, "more": (dtype, shape, [digest] * n_chunks)}
        )
        with pytest.raises(StateError, match=said):
            portable.restore(spec, portable.unpack(exported(forged, chunks), "f"))
        found = examine({**items, KEY: msgspec.msgpack.encode(forged)}, "golden", PARTITION)
        assert not found.sound

    refused("takes 8,000,000,0.* bytes, and this machine has", "<f8", [10**15], 3)
    refused("more has the wrong size", "<f8", [100], 1)
    refused("an array of type '|O' and shape .* is not part of any state", "|O", [8192], 1)
    refused("is not part of any state", "<f8", [-8192, -1], 1)
    refused("is not part of any state", "nonsense", [8192], 1)


@pytest.mark.parametrize("content", [b"\xc1", b"", b"\x80", msgspec.msgpack.encode({"format": 1, "manifest": 3})])
def test_a_file_of_the_right_hash_and_wrong_content_is_refused(content: bytes) -> None:
    body = portable.MAGIC + content
    with pytest.raises(StateError, match=r"^f (is damaged|was written in export format None)"):
        portable.unpack(body + portable._digest(body), "f")


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update(feature_offset="far"),
        lambda meta: meta.pop("classes"),
        lambda meta: meta.update(room=[[0], -1]),
        lambda meta: meta.update(marks={"features": [1]}),
        lambda meta: meta.update(models=[1]),
    ],
)
def test_a_state_that_this_program_does_not_write_is_one_sentence(trained: PartitionLearner, spec, change) -> None:
    cut = trained.snapshot()
    change(cut.meta)
    with pytest.raises(StateError, match=f"the state of partition {PARTITION} "):
        PartitionLearner(spec, PARTITION).restore(cut)


def test_arrays_that_this_program_does_not_write_are_one_sentence(trained: PartitionLearner, spec: Spec) -> None:
    for name in trained.snapshot().arrays:
        for wrong in (np.zeros(0), np.full(3, np.nan), np.zeros((2, 2), np.uint8)):
            cut = trained.snapshot()
            arrays = {**cut.arrays, name: wrong}
            with contextlib.suppress(StateError):  # what a learner does not look at may pass
                PartitionLearner(spec, PARTITION).restore(cut._replace(arrays=arrays))
            with contextlib.suppress(StateError):
                del arrays[name]
                PartitionLearner(spec, PARTITION).restore(cut._replace(arrays=arrays))


def test_with_a_key_only_what_it_signed_is_a_state(trained: PartitionLearner, monkeypatch, state_key: str) -> None:
    def written() -> dict[bytes, bytes]:
        return items_of(trained.snapshot(), "golden", PARTITION, sequence=4, outputs={"predictions": 17})

    signed = written()
    assert checkpoint.decode_manifest(signed[KEY]).sequence == 4
    assert examine(signed, "golden", PARTITION).sound
    forged = signed[KEY].replace(b"golden", b"gulden")
    with pytest.raises(StateError, match="the state was not signed by this RIPARIAN_STATE_KEY"):
        checkpoint.decode_manifest(forged)
    monkeypatch.setenv(signature.KEY, "another key, of 28 letters..")
    with pytest.raises(StateError, match="the state was not signed by this RIPARIAN_STATE_KEY"):
        checkpoint.decode_manifest(signed[KEY])
    monkeypatch.delenv(signature.KEY)
    plain = written()
    assert checkpoint.decode_manifest(signed[KEY]) == checkpoint.decode_manifest(plain[KEY])  # it holds no secret
    monkeypatch.setenv(signature.KEY, state_key)
    with pytest.raises(StateError, match="the state is not signed, and RIPARIAN_STATE_KEY is set"):
        checkpoint.decode_manifest(plain[KEY])
    # By hand, through a file, an unsigned state becomes a signed one.
    monkeypatch.delenv(signature.KEY)
    file = portable.pack(plain, PARTITION)
    monkeypatch.setenv(signature.KEY, state_key)
    spec = stream("naive-bayes", "classification")
    again = portable.addressed(portable.unpack(file, "f"), spec, 9, {})
    assert checkpoint.decode_manifest(again).sequence == 9


FEATURES = {"a": "numeric", "c": {"type": "nominal", "max_values": 6}, "b": "boolean"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"champion": {"model": "last-label"}}, "does not fit the stream golden: champion was naive-bayes"),
        ({"features": {**FEATURES, "d": "numeric"}}, "there were 3 features, there are 4"),
        ({"features": {name: FEATURES[name] for name in "ac"}}, "there were 3 features, there are 2"),
        ({"features": {**FEATURES, "a": "nominal"}}, "a was numeric, is nominal"),
        ({"features": {**FEATURES, "c": "numeric"}}, "c was nominal or boolean, is numeric"),
        ({"task": "regression", "champion": {"model": "last-label"}}, "task was classification"),
    ],
)
def test_a_state_that_does_not_fit_the_stream_file_is_refused(items: dict[bytes, bytes], changed, said: str) -> None:
    content = {
        "name": "golden",
        "task": "classification",
        "partitions": 2,
        "learning": "partition",
        "features": FEATURES,
        "champion": {"model": "naive-bayes"},
        "metrics": {"window": 50},
    }
    exported = portable.unpack(portable.pack(items, PARTITION), "f")
    portable.restore(build(content, "test"), exported)
    with pytest.raises(StateError, match=said):
        portable.restore(build({**content, **changed}, "test"), exported)


def test_offsets_outside_the_topic_are_refused_with_both_numbers() -> None:
    row = PartitionLag("golden.features", 1, 100, 2000, None, None, None)
    for offset in (100, 1500, 2000):
        _check_offset("f", row, offset)
    with pytest.raises(TopicError, match=r"offset 2,001 of golden.features\[1\], which ends at 2,000"):
        _check_offset("f", row, 2001)
    with pytest.raises(TopicError, match=r"offset 60 of .*, which begins at 100: the 40 records between"):
        _check_offset("f", row, 60)


def test_a_partition_that_is_not_there_and_a_file_that_is_not_there(spec: Spec, tmp_path) -> None:
    with pytest.raises(SpecError, match="--partition is 2, and the stream golden has 2: give 0 to 1"):
        check_partition(spec, 2)
    with pytest.raises(DataError, match=r"nothing cannot be read"):
        read_file(tmp_path / "nothing")


# a log that is written and cleaned while it is read -------------------------------------------------------------------


class Log:
    """Stands for the broker: each read gives the next of `states`, and the log has grown until the last one."""

    def __init__(self, states: list[dict[bytes, bytes]], *, grows: bool = True) -> None:
        self.states, self.grows, self.n_reads = states, grows, 0

    async def read(self, connection: Connection, topic: str, partition: int) -> Changelog:
        items = self.states[min(self.n_reads, len(self.states) - 1)]
        self.n_reads += 1
        return Changelog(items, len(items), 0, 100 * self.n_reads)

    async def bounds(self, connection: Connection, topic: str, partition: int) -> tuple[int, int]:
        return 0, 100 * self.n_reads + self.grows


@pytest.mark.parametrize(("grows", "n_reads", "sound"), [(True, 3, True), (False, 1, False)])
def test_a_torn_read_is_read_again_as_long_as_the_log_grows(items, monkeypatch, grows, n_reads, sound) -> None:
    chunk = chunk_of(items, "pending/x")
    without_chunk = {key: value for key, value in items.items() if key != chunk}
    without_manifest = {key: value for key, value in items.items() if key != KEY}
    log = Log([without_chunk, without_manifest, items], grows=grows)
    monkeypatch.setattr(changelog, "read", log.read)
    monkeypatch.setattr(changelog, "bounds", log.bounds)
    monkeypatch.setattr(changelog, "PAUSE_SECONDS", 0)
    _, findings = asyncio.run(changelog.read_whole(Connection("broker:9092"), "golden", PARTITION))
    assert (log.n_reads, findings.sound) == (n_reads, sound)


def test_damage_under_a_running_worker_is_said_in_the_end(items, monkeypatch) -> None:
    chunk = chunk_of(items, "pending/x")
    log = Log([{key: value for key, value in items.items() if key != chunk}])
    monkeypatch.setattr(changelog, "read", log.read)
    monkeypatch.setattr(changelog, "bounds", log.bounds)
    monkeypatch.setattr(changelog, "PAUSE_SECONDS", 0)
    _, findings = asyncio.run(changelog.read_whole(Connection("broker:9092"), "golden", PARTITION))
    assert log.n_reads == changelog.ATTEMPTS
    assert not findings.sound


def test_models_of_one_partition_of_a_shared_stream_do_not_go_back_alone(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("name: s\ntask: classification\npartitions: 2\nfeatures: {a: numeric}\nchampion: naive-bayes\n")
    found = CliRunner().invoke(cli, ["rollback", str(file), "--to", "1", "--models-only", "--broker", "127.0.0.1:1"])
    assert isinstance(found.exception, StateError)
    assert "all partitions learn one model" in str(found.exception)
