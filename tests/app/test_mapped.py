"""Arrays and bytes in files of a folder, which go with what they hold, and with the process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition import mapped
from riparian.app.partition.arrays import over, under
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint
from riparian.app.state import log as state_log
from riparian.app.state.log import StateLog
from tests.app.test_pending import in_files, new_store, put
from tests.app.test_pending import label as learned

MB = 1_000_000


@pytest.fixture
def folder(tmp_path):
    """Where large arrays lie."""
    mapped.use(tmp_path)
    yield tmp_path
    mapped.use(None)


def held(folder: Path) -> int:
    """Bytes of the files in a folder that this process holds, whether they have a name or not."""
    files = {}
    for one in os.scandir("/proc/self/fd"):
        try:
            if os.readlink(one.path).startswith(str(folder)):
                files[os.stat(one.path).st_ino] = os.stat(one.path).st_size
        except FileNotFoundError:
            pass
    return sum(files.values())


def test_an_array_that_grows_in_a_file_keeps_its_rows_and_takes_no_name(folder):
    array = mapped.zeros((MB, 2), np.int64)
    array[:] = np.arange(2 * MB).reshape(MB, 2)
    array = mapped.grown(array, mapped.next_size(array, MB + 1))
    assert len(array) == 1.25 * MB
    assert (array[:MB].ravel() == np.arange(2 * MB)).all()
    assert not array[MB:].any()
    assert held(folder) == array.nbytes
    assert list(folder.iterdir()) == []
    del array
    assert held(folder) == 0


def test_an_array_that_becomes_large_goes_into_a_file_and_a_small_one_stays(folder):
    small = mapped.zeros((10, 2))
    assert small.ctypes.data % mapped.LINE_BYTES == 0
    small[:] = 3.0
    assert held(folder) == 0
    large = mapped.grown(small, MB)
    assert (large[:10] == 3.0).all()
    assert held(folder) == large.nbytes
    small[:] = 4.0  # another array
    assert (large[:10] == 3.0).all()


def test_pages_that_are_given_back_are_there_again(folder, monkeypatch):
    monkeypatch.setattr(mapped, "RESIDENT_BYTES", 0)
    array = mapped.zeros((2 * MB,), np.int64)
    array[:] = np.arange(2 * MB)

    def resident() -> int:
        return 4096 * int(Path("/proc/self/statm").read_text().split()[2])

    before = resident()
    mapped.give_back()
    assert resident() < before - 0.9 * array.nbytes
    assert (array == np.arange(2 * MB)).all()


def test_files_of_what_is_spooled_go_with_the_last_bytes_of_them(folder, monkeypatch):
    monkeypatch.setattr(mapped, "SPOOL_BYTES", 1000)
    spool = mapped.Spool()
    values = [bytes([i]) * size for i, size in enumerate([600, 300, 200, 5000, 1])]
    kept = [spool.put(value) for value in values]
    assert kept == values
    assert held(folder) == 3 * 1000 + 5000
    del kept[0]
    assert held(folder) == 8000
    del kept[0]
    assert held(folder) == 7000
    del kept, spool
    assert held(folder) == 0


@pytest.mark.parametrize("where", ["files", "memory"])
def test_a_state_comes_back_from_a_log_that_lies_in_files(where, monkeypatch):
    """As a worker writes, reads and restores it, one segment at a time."""
    monkeypatch.setattr(state_log, "HELD_BYTES", 0)
    meta = {"feature_offset": 0, "label_offset": 0}
    log, encoder, store = StateLog(0), checkpoint.Encoder("s", 0), new_store(max_pending=10_000)
    with in_files(where == "files"):
        for sequence in range(5):
            put(store, [f"{sequence}-{i}" for i in range(1000)])
            learned(store, [f"{sequence}-{i}" for i in range(0, 1000, 3)])
            cut = store.checkpoint()
            names = [f"pending/{name}" for name in cut.kept]
            encoder.take(Snapshot(meta, {}, over("pending/", cut.arrays), names))
            made = encoder.encode(sequence=sequence + 1, created_ms=0, outputs={}, written=log.needed())
            for digest, chunk in made.new.items():
                log.append(log.position, checkpoint.chunk_key(0, digest), chunk)
            log.append(log.position, checkpoint.manifest_key(0), made.data)
            log.settle()
        assert {type(chunk) for chunk in log.chunks.values()} == {memoryview if where == "files" else bytes}
        again = new_store(max_pending=10_000)
        again.restore(under(checkpoint.decode(log.manifest, log.chunks).arrays, "pending/"))
        for name, array in store.state().items():
            assert np.array_equal(again.state()[name], array, equal_nan=array.dtype.kind == "f"), name
        chunk = checkpoint.chunk_key(0, log.manifest.arrays["pending/instances/0"][2][0])
        log.append(log.position, chunk, b"\x00nonsense")
        with pytest.raises(StateError, match="a chunk of pending/instances/0 was altered"):
            new_store().restore(under(checkpoint.decode(log.manifest, log.chunks).arrays, "pending/"))


PROGRAM = """
import resource, sys
from pathlib import Path
from riparian.app.partition import mapped
mapped.use(Path(sys.argv[1]))
array = mapped.zeros((1_000_000,))
array[:] = 1.0
{}
"""


def run(folder: Path, lines: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(lines), str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_kill_9_leaves_no_file(tmp_path):
    with run(tmp_path, "print(len(array), flush=True); sys.stdin.read()") as process:
        assert process.stdout.readline() == b"1000000\n"
        assert str(tmp_path) in Path(f"/proc/{process.pid}/maps").read_text()
        process.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_sentence_and_no_fault(tmp_path):
    """As files that may not be as large, which is the same error."""
    lines = "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, -1)); mapped.grown(array, 2_000_000)"
    with run(tmp_path, lines) as process:
        errors = process.communicate()[1].decode()
    assert process.returncode == 1
    assert f"{tmp_path} has no room for 16,000,000 bytes of what waits (File too large): make room there" in errors
    assert "join.max_pending_bytes" not in errors  # what waits is restored before any of it leaves


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    mapped.use(tmp_path / "none")
    try:
        with pytest.raises(StateError, match=r"none has no room for .* \(No such file or directory\)"):
            mapped.zeros((MB,))
    finally:
        mapped.use(None)


def test_where_blocks_cannot_be_allocated_arrays_stay_in_memory(tmp_path, monkeypatch):
    """As on macOS."""
    monkeypatch.delattr(os, "posix_fallocate")
    mapped.use(tmp_path)
    try:
        assert (mapped.grown(mapped.zeros((MB,)), 2 * MB) == 0.0).all()
        assert mapped.Spool().put(b"1") == b"1"
        assert held(tmp_path) == mapped.free_bytes() == 0
    finally:
        mapped.use(None)


def test_nothing_is_given_back_where_linux_does_not_say_what_is_in_memory(folder, monkeypatch):
    monkeypatch.setattr(mapped, "STATM", folder / "none")
    monkeypatch.setattr(mapped, "RESIDENT_BYTES", -1)
    array = mapped.zeros((MB,))
    mapped.give_back()
    assert held(folder) == array.nbytes


def test_a_folder_that_has_gone_is_a_sentence(folder):
    folder.rmdir()
    with pytest.raises(StateError, match=r"cannot be read \(No such file or directory\): make it again, or name"):
        mapped.free_bytes()


def test_a_file_that_memory_has_no_place_for_is_a_sentence(tmp_path):
    lines = """
used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + 4_000_000, -1))
mapped.grown(array, 2_000_000)
"""
    with run(tmp_path, lines) as process:
        errors = process.communicate()[1].decode()
    assert f"StateError: {tmp_path} has no room for 16,000,000 bytes of what waits (Cannot allocate memory)" in errors
