"""What the page remembers between two runs: series, events, dead letters and offsets, in one SQLite file.

All of it can be read from Kafka again, as far as the topics keep it. So a file that is damaged, or of another version,
is put aside, and what it held is read anew.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from riparian.app.errors import RiparianError
from riparian.app.page.history import BLOCK, TIERS

VERSION = 4
TABLES = """
CREATE TABLE IF NOT EXISTS position (topic TEXT, partition INTEGER, offset INTEGER, PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS block (stream TEXT, series TEXT, tier INTEGER, number INTEGER, data BLOB,
    PRIMARY KEY (stream, series, tier, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (stream TEXT, kind TEXT, partition INTEGER, offset INTEGER, data BLOB,
    PRIMARY KEY (stream, kind, partition, offset)) WITHOUT ROWID;
"""
KEPT = 5000  # notes of a kind and partition


class Store:
    """The file.

    Parameters
    ----------
    path : Path
        Made where it is not there, with its folder.

    Raises
    ------
    RiparianError
        The folder cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._kept():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._open(path)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """RiparianError where the disk refuses."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise RiparianError(
                f"the page's history cannot be kept at {self._path} ({error}): make room there, or choose another "
                "--data-dir"
            ) from None

    def _open(self, path: Path) -> sqlite3.Connection:
        try:
            return self._made(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # not the content: the disk, or another process
                raise
            path.replace(path.with_suffix(".damaged"))
            return self._made(path)

    def _made(self, path: Path) -> sqlite3.Connection:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        path.chmod(0o600)  # it keeps dead letters
        db = sqlite3.connect(path, check_same_thread=False)
        try:
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise sqlite3.DatabaseError(f"version {found}")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(TABLES)
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("SELECT count(*) FROM position").fetchone()
        except sqlite3.Error:
            db.close()
            raise
        return db

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    # -- at the start ------------------------------------------------------------------------------------------

    def positions(self) -> dict[tuple[str, int], int]:
        """(topic, partition) -> next offset."""
        found = self._db.execute("SELECT topic, partition, offset FROM position")
        return {(topic, partition): offset for topic, partition, offset in found}

    def blocks(self, stream: str) -> Iterator[tuple[str, int, int, bytes]]:
        """(series, tier, block number, values), the oldest first."""
        yield from self._db.execute(
            "SELECT series, tier, number, data FROM block WHERE stream = ? ORDER BY series, tier, number", (stream,)
        )

    def notes(self, stream: str, kind: str) -> Iterator[tuple[int, int, bytes]]:
        """(partition, offset, bytes) of the events or dead letters of a stream."""
        yield from self._db.execute(
            "SELECT partition, offset, data FROM note WHERE stream = ? AND kind = ? ORDER BY partition, offset",
            (stream, kind),
        )

    # -- now and then ------------------------------------------------------------------------------------------

    def write(
        self,
        positions: dict[tuple[str, int], int],
        blocks: Iterable[tuple[str, str, int, int, bytes]],
        notes: Iterable[tuple[str, str, int, int, bytes]],
        now: int,
        gone: Mapping[str, Iterable[str]] = {},
    ) -> None:
        """Store what changed, all of it or nothing. now : ms; what is out of every tier by then is deleted. gone :
        stream -> series that are kept no more. RiparianError where the disk is full."""
        with self._kept(), self._db:
            self._db.executemany(
                "DELETE FROM block WHERE stream = ? AND series = ?",
                [(stream, name) for stream, names in gone.items() for name in names],
            )
            self._db.executemany("REPLACE INTO block VALUES (?, ?, ?, ?, ?)", blocks)
            self._db.executemany("REPLACE INTO note VALUES (?, ?, ?, ?, ?)", notes)
            self._db.executemany(
                "REPLACE INTO position VALUES (?, ?, ?)", [(*tp, offset) for tp, offset in positions.items()]
            )
            for i, tier in enumerate(TIERS):
                first = (now // tier.width - tier.n) // BLOCK
                self._db.execute("DELETE FROM block WHERE tier = ? AND number < ?", (i, first))
            self._db.execute(
                "DELETE FROM note WHERE offset <= (SELECT max(b.offset) - ? FROM note b WHERE b.stream = note.stream "
                "AND b.kind = note.kind AND b.partition = note.partition)",
                (KEPT,),
            )
