"""A partition's state at the next offsets of its input logs, as plain values and arrays. Pure.

A snapshot is taken between steps, at exactly the next offset of each input log.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.errors import RiparianError, StateError
from riparian.app.stream_file.lineup import RUNS
from riparian.models.restoring import DamagedError

# of a snapshot's meta: how it was learned, not what; and what states of before do not have
SETTINGS = ("settings", "room", "origin", "marks", "auto", "stamps", "leaps", "grown", RUNS)
GO_BACK = "; go back to an older checkpoint (riparian rollback)"


class Snapshot(NamedTuple):
    """A learner's state at the next offsets of its input logs.

    meta : msgpack-able
    arrays : name -> array
    frozen : arrays that are new and will not change (of what waits, and is known of keys)
    kept : names of frozen arrays of earlier snapshots that still belong to the state
    common : names of arrays that other partitions of the worker hold, too
    """

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    frozen: Mapping[str, NDArray[Any]] = {}
    kept: Sequence[str] = ()
    common: Collection[str] = ()


def digest(snapshot: Snapshot, without: tuple[str, ...] = ()) -> str:
    """A hash of what was learned. without : what the names of arrays begin with that are left out."""
    meta = {name: value for name, value in snapshot.meta.items() if name not in SETTINGS}
    found = hashlib.blake2b(msgspec.msgpack.encode(meta, order="sorted"), digest_size=16)
    for name in sorted(name for name in snapshot.arrays if not name.startswith(without)):
        array = np.ascontiguousarray(snapshot.arrays[name])
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


@contextmanager
def reading(what: str, cure: str = "") -> Iterator[None]:
    """Bytes that somebody else wrote: whatever they make of a model, it is a sentence. StateError."""
    try:
        yield
    except RiparianError:
        raise
    except Exception as error:
        nonsense = "" if isinstance(error, DamagedError) else f"it holds nonsense, {type(error).__name__}: "
        said = str(error).strip().partition("\n")[0]
        raise StateError(f"{what} cannot be used: {nonsense}{said}{cure}") from error
