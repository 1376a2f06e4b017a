"""Large arrays, and bytes that are seldom read, in files: of them Linux keeps in memory what is in use.

Nothing lies in a file until `use` names a folder, as a worker does. A file has no name there, so Linux removes it with
the process, however that ends: none is found again, none is another worker's, and what it held is restored from the
changelog. Its blocks are allocated before anything is written, so a full disk is an error here, and not a fault later.
"""

import mmap
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from riparian.app.errors import StateError

FILE_BYTES = 4 * 1024 * 1024  # an array from which on lies in a file
LINE_BYTES = 64  # line of the processor's cache, where each array begins: a row as long as one lies in one
SPOOL_BYTES = 64 * 1024 * 1024  # file of what is spooled, bytes
RESIDENT_BYTES = 192 * 1024 * 1024  # pages of files in memory beyond which they are given back
STATM = Path("/proc/self/statm")  # how many these are

_folder: Path | None = None
_maps: "weakref.WeakSet[_Map]" = weakref.WeakSet()
_of_maps = threading.Lock()


class _Map(mmap.mmap):
    """A file in memory. Where the last array of it goes, the file goes."""

    file: Any


def use(folder: Path | None) -> None:
    """Have this process put what is large into files of a folder that exists; None: into none from here on, and never
    where blocks cannot be allocated, as on macOS."""
    global _folder
    _folder = folder if hasattr(os, "posix_fallocate") else None


def free_bytes() -> int:
    """Bytes that may be put into files. StateError where the folder has gone."""
    try:
        return 0 if _folder is None else shutil.disk_usage(_folder).free
    except OSError as error:
        raise StateError(
            f"{_folder} cannot be read ({error.strerror}): make it again, or name another folder by --data-dir"
        ) from error


def zeros(shape: tuple[int, ...], kind: DTypeLike = np.float64) -> NDArray[Any]:
    """An array of zeros. StateError where the disk is full."""
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
    if _folder is None or n_bytes < FILE_BYTES:
        whole = np.zeros(n_bytes + LINE_BYTES, np.uint8)
        start = -whole.ctypes.data % LINE_BYTES
        return whole[start : start + n_bytes].view(kind).reshape(shape)
    return _array(_new(n_bytes), shape, kind)


def grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """An array with n rows, of which the first are those of `array`, and the new ones zero. In a file they are the
    same: use the old one no more."""
    found, shape = _map_of(array), (n, *array.shape[1:])
    if found is not None:
        return _array(_mapped(found.file, int(np.prod(shape, dtype=np.int64)) * array.itemsize), shape, array.dtype)
    larger = zeros(shape, array.dtype)
    larger[: len(array)] = array
    return larger


def next_size(array: NDArray[Any], n: int) -> int:
    """How many rows to have where n are needed: what copies is seldom to be done."""
    return max(n, 2 * len(array) if _map_of(array) is None else len(array) + len(array) // 4)


class Spool:
    """Bytes in files of SPOOL_BYTES, one after the other. A file goes with the last bytes of it that somebody holds."""

    def __init__(self) -> None:
        self._rest = memoryview(b"")

    def put(self, value: bytes) -> bytes:
        """Bytes that are equal to these, in a file; these where there is no folder."""
        if _folder is None:
            return value
        if len(value) > len(self._rest):
            self._rest = memoryview(_new(max(SPOOL_BYTES, len(value))))
        placed, self._rest = self._rest[: len(value)], self._rest[len(value) :]
        placed[:] = value
        return placed.toreadonly()  # type: ignore[return-value]  # what is done with chunks takes either


def give_back() -> None:
    """Where many pages of files are in memory, let Linux have them: what is needed is there again at the next touch."""
    pages = int(STATM.read_text(encoding="ascii").split()[2]) if _maps and STATM.exists() else 0
    if pages * mmap.PAGESIZE > RESIDENT_BYTES:
        with _of_maps:
            for one in _maps:
                one.madvise(mmap.MADV_DONTNEED)


def _new(n_bytes: int) -> _Map:
    try:
        return _mapped(tempfile.TemporaryFile(dir=_folder, buffering=0), n_bytes)
    except OSError as error:
        raise _full(n_bytes, error) from error


def _mapped(file: Any, n_bytes: int) -> _Map:
    try:
        os.posix_fallocate(file.fileno(), 0, max(n_bytes, 1))
        found = _Map(file.fileno(), max(n_bytes, 1))
    except OSError as error:
        raise _full(n_bytes, error) from error
    found.file = file
    with _of_maps:
        _maps.add(found)
    return found


def _full(n_bytes: int, error: OSError) -> StateError:
    return StateError(
        f"{_folder} has no room for {n_bytes:,} bytes of what waits ({error.strerror}): make room there, or name "
        "another folder by --data-dir"
    )


def _array(found: _Map, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    return np.frombuffer(found, kind, int(np.prod(shape, dtype=np.int64))).reshape(shape)


def _map_of(array: NDArray[Any]) -> _Map | None:
    """The map that an array lies in."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.obj if isinstance(base, memoryview) else base.base
    return base if isinstance(base, _Map) else None
