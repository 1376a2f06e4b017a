"""Millions of instances that wait: memory, disk, time of an instance, and of a restart.

    python -m benchmarks.waiting [--waiting 19_440_000] [--features 12] [--folder FOLDER] [--json FILE]

A store is filled with instances of a `--features` and one model of two outputs. It is cut as by a checkpoint every
65,536 instances, and each cut is packed and appended to a changelog as a worker does it (without the broker). Then as
many more come as wait in a 64th, whose oldest leave by the horizon, and one in a hundred of all that wait gets a label,
in random order. At last another process restores the store from the changelog. Times are of the processor, of the whole
process. `anonymous` is memory that only swap could take; `mapped` are pages of files that are in use at the end, which
Linux takes back when it needs them; `peak` is the most of both together. `disk` are the files of the data folder.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import write
from riparian.app.partition.arrays import over, under
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint
from riparian.app.state.log import StateLog
from riparian.topics.names import INPUTS, state_field

BATCH, BATCHES_A_CUT = 4_096, 16
META = {**{state_field(role, "offset"): 0 for role in INPUTS}, "feature_offset": 0, "label_offset": 0}


def resident() -> tuple[float, float]:
    """Anonymous and mapped memory of this process, MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    anonymous, mapped = (int(status.partition(name)[2].split()[0]) / 1e3 for name in ("RssAnon:", "RssFile:"))
    return anonymous, mapped


def disk() -> float:
    """MB of files without a name that this process holds."""
    found = 0
    for one in os.scandir("/proc/self/fd"):
        try:
            if "(deleted)" in os.readlink(one.path):
                found += os.stat(one.path).st_blocks * 512 // 2  # held twice: by the map, and to grow
        except FileNotFoundError:
            pass
    return found / 1e6


class Peak(threading.Thread):
    """The most memory, looked at every few ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.anonymous = self.both = 0.0

    def run(self) -> None:
        while True:
            anonymous, mapped = resident()
            self.anonymous, self.both = max(self.anonymous, anonymous), max(self.both, anonymous + mapped)
            time.sleep(0.05)


def names(first: int, n: int) -> list[str]:
    return [f"order-{number:09d}" for number in range(first, first + n)]


class Subject:
    """A store, and its changelog."""

    def __init__(self, waiting: int, n_features: int) -> None:
        self.waiting, self.n = waiting, 0
        self.store = PendingStore(
            n_features, {"champion": 2}, horizon=waiting / 1e3, max_pending=2 * waiting, max_labels=1000
        )
        self.log, self.encoder, self.sequence = StateLog(0), checkpoint.Encoder("waiting", 0), 0
        self.rng = np.random.default_rng(1)

    def join(self, n: int, labelled: np.ndarray) -> None:
        """n instances, one a millisecond, and then labels."""
        x = self.rng.normal(size=(n, self.store.n_features)).round(3)
        label_ids = [f"order-{number:09d}" for number in labelled.tolist()]
        times = np.arange(self.n, self.n + n)
        joined = self.store.join(
            names(self.n, n), x, times, None, label_ids, np.ones(len(labelled)), [self.n] * len(labelled),
            np.full(n, len(labelled), np.int64),
        )  # fmt: skip
        self.store.out["champion"][joined.predicted] = [0.25, 0.75]
        self.n += n

    def cut(self) -> None:
        """A checkpoint, as a worker writes it."""
        cut = self.store.checkpoint()
        snapshot = Snapshot(META | {"n_instances": self.n, "n_labels": 0}, {}, over("pending/", cut.arrays),
                            [f"pending/{name}" for name in cut.kept])  # fmt: skip
        self.encoder.take(snapshot)
        self.sequence += 1
        made = self.encoder.encode(sequence=self.sequence, created_ms=0, outputs={}, written=self.log.needed())
        new = {checkpoint.chunk_key(0, digest): chunk for digest, chunk in made.new.items()}
        self.append(new | {checkpoint.manifest_key(0): made.data})
        self.log.settle()
        copied = self.log.to_copy(sum(map(len, new.values())))
        self.append({checkpoint.chunk_key(0, digest): bytes(self.log.chunks[digest]) for digest in copied})
        self.log.truncate(self.log.front()[0])
        self.manifest = len(made.data)

    def append(self, records: dict[bytes, bytes]) -> None:
        for key, value in records.items():
            self.log.append(self.log.position, key, value)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """What the changelog holds that is live."""
        for digest in self.log.needed():
            yield checkpoint.chunk_key(0, digest), bytes(self.log.chunks[digest])
        yield checkpoint.manifest_key(0), self.log.data or b""


def timed(subject: Subject, batches: int, labels: int) -> float:
    """Microseconds of the processor an instance."""
    spent = 0.0
    for i in range(batches):
        first = max(0, subject.n - subject.waiting)
        labelled = subject.rng.integers(first, max(subject.n, 1), labels if subject.n else 0)
        started = time.process_time()
        subject.join(BATCH, labelled)
        if i % BATCHES_A_CUT == BATCHES_A_CUT - 1:
            subject.cut()
        spent += time.process_time() - started
    return spent / batches / BATCH * 1e6


def measure(waiting: int, n_features: int, folder: str | None) -> dict[str, Any]:
    peak = Peak()
    peak.start()
    begin = resident()
    subject = Subject(waiting, n_features)
    result: dict[str, Any] = {"waiting": waiting, "features": n_features, "begins_mb": begin}
    result["fill_us"] = timed(subject, waiting // BATCH, 0)
    result["filled_mb"] = resident()
    result["steady_us"] = timed(subject, max(8 * BATCHES_A_CUT, waiting // 64 // BATCH), BATCH // 100)
    subject.cut()
    result |= {"resident_mb": resident(), "peak_mb": [peak.anonymous, peak.both], "disk_mb": disk()}
    result |= {"arrays_mb": parts(subject), "manifest_kb": subject.manifest / 1e3}
    result["changelog_mb"] = sum(map(len, subject.log.chunks.values())) / 1e6
    result["log_mb"] = subject.log.n_bytes / 1e6
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for record in subject.records():
            pickle.dump(record, file)
        file.flush()
        command = [sys.executable, "-m", "benchmarks.waiting", "--waiting", str(waiting), "--features", str(n_features)]
        command += ["--restart", file.name, *(["--folder", folder] if folder else [])]
        digest = state_digest(subject.store)
        del subject
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result | {"restart": found, "equal": found.pop("digest") == digest}


def state_digest(store: PendingStore) -> str:
    """Of a few numbers of the state, all of which would be another copy of it."""
    rows = store._instances.rows()[:: max(1, store.n_waiting // 100_000)]
    ids, ends = store._instances.ids(rows)
    held = [ids, ends, store.slab[rows], store.out["champion"][rows], store._instances.entries[rows, 4:7:2]]
    return checkpoint.hash_of(b"".join(np.ascontiguousarray(one).tobytes() for one in held)).hex()


def parts(subject: Subject) -> dict[str, float]:
    store = subject.store
    index = store._instances
    found = {"x": store._slab, "out": store.out["champion"], **index._asdict(), "ring": store._joined.ring}
    found["joined slots"] = store._joined.slots
    sizes = {name: array.nbytes / 1e6 for name, array in found.items()}
    segments = store._segments["instances"]._segments.values()
    return sizes | {"segments": sum(one.rows.nbytes for one in segments) / 1e6}


def restart(file: str, waiting: int, n_features: int) -> dict[str, Any]:
    peak = Peak()
    peak.start()
    started, wall = time.process_time(), time.monotonic()
    log = StateLog(0)
    with open(file, "rb") as opened:
        while True:
            try:
                log.append(log.position, *pickle.load(opened))
            except EOFError:
                break
    log.settle()
    assert log.manifest is not None
    read = time.process_time() - started
    snapshot = checkpoint.decode(log.manifest, log.chunks)
    store = Subject(waiting, n_features).store
    store.restore(under(snapshot.arrays, "pending/"))
    del snapshot
    result: dict[str, Any] = {
        "read_s": read,
        "restore_s": time.process_time() - started - read,
        "wall_s": time.monotonic() - wall,
    }
    result |= {"peak_mb": [peak.anonymous, peak.both], "resident_mb": resident()}
    return result | {"digest": state_digest(store)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, default=19_440_000)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--folder", help="where the files lie; without one, everything is in memory")
    parser.add_argument("--restart", help=argparse.SUPPRESS)
    options = parser.parse_args()
    PendingStore(options.features, {}, horizon=1.0, max_pending=1, max_labels=1).warm_up()
    if options.folder is not None:
        from riparian.app.partition import mapped

        mapped.use(Path(options.folder))
    if options.restart is not None:
        print(json.dumps(restart(options.restart, options.waiting, options.features)))
        return
    result = measure(options.waiting, options.features, options.folder)
    print(json.dumps(result, indent=1))
    write("waiting", result)


if __name__ == "__main__":
    main()
