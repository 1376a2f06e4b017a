"""States that were damaged or forged: exported files and what a changelog holds. Each is refused in a sentence, or a
learner goes on from it.

Numbers are overwritten in what waits and what is known of records alone. What stands in the arrays of models, metrics
and detectors is trusted: of these, shapes, types, lengths and chunks are changed.
"""

import contextlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import numpy as np

from riparian.app import inspection
from riparian.app.errors import RiparianError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.state import checkpoint, loading, portable
from riparian.app.state.integrity import examine, parts
from riparian.app.state.log import StateLog
from riparian.models.registry import REGISTRY
from riparian.topics.records import CLASSIFICATION, RawBatch
from tests.fuzz import mutate
from tests.fuzz.mutate import Random, pick
from tests.fuzz.target import Target
from tests.golden.make import BEFORE, CHANGED, PARTITION, cases, changed, file, items_of, records, stream

RECORDED = ("pending/", "vocabularies")  # arrays whose numbers are checked, whatever they are
STEPS = 40  # records of each topic that a learner goes on with

# Batch learners fit in another process, which is not what is looked at here.
BASES = tuple(
    case for case, (model, _) in cases().items() if not REGISTRY[model].cls.startswith("riparian.models.batch.")
)
# Of these, whose kernels are compiled in seconds: the file, the pending store, metrics and drift are those of all.
_QUICK = ("last-label", "majority-class", "mean", "naive-bayes")
STEERED = "changed"  # by a command and by a rule, with distributions
FEW = (*(case for case in BASES if cases()[case][0] in _QUICK), STEERED)

_WHOLE = (-1, -2, 0, 1, 2, 7, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**53, 2**62, 2**63 - 1, -(2**63), 10**12)
_FLOATS = (float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e308, -1e308, 5e-324, 1e18, 0.5)
_TYPES = (
    "<f8",
    "<f4",
    "<i8",
    "<i4",
    "|i1",
    "|u1",
    "|b1",
    "<u8",
    ">f8",
    "<f2",
    "<c16",
    "|O",
    "<U4",
    "|S3",
    "<M8[s]",
    "V8",
    "?",
)


@cache
def base(case: str) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    """Manifest, as plain values, and chunks of a golden state."""
    path = CHANGED.with_suffix(".bin") if case == STEERED else file(case)
    content = msgspec.msgpack.decode(path.read_bytes()[len(portable.MAGIC) : -portable.DIGEST_BYTES])
    return msgspec.msgpack.decode(content["manifest"]), content["chunks"]


@cache
def further(task: str) -> tuple[RawBatch, RawBatch]:
    """Records that come after those that the golden states learned."""
    features, labels = records(task)
    return features.part(BEFORE, BEFORE + STEPS), labels.part(BEFORE - STEPS, BEFORE)


# Edits: lists that JSON can hold, so that a case is a small file ----------------------------------------------------


def _plain(value: Any) -> Any:
    """A value of a manifest as JSON holds it: bytes are marked."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {"map": [[_plain(key), _plain(part)] for key, part in value.items()]}
    if isinstance(value, int):  # msgpack holds no larger ones
        return min(max(value, -(2**63)), 2**64 - 1) if not isinstance(value, bool) else value
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        if "bytes" in value:
            return bytes.fromhex(value["bytes"])
        return {_unplain(key): _unplain(part) for key, part in value["map"]}
    return [_unplain(part) for part in value] if isinstance(value, list) else value


def _edit(rng: Random, manifest: dict[str, Any]) -> list[Any]:
    names = list(manifest["arrays"])
    name, kind = pick(rng, names), int(rng.integers(12))
    if kind < 5 or kind == 7:
        name = pick(rng, [one for one in names if one.startswith(RECORDED)])
    if kind < 5:
        whole = np.dtype(manifest["arrays"][name][0]).kind in "biu"
        values = _WHOLE if whole else _FLOATS
        places = [float(rng.random()) for _ in range(int(rng.integers(1, 5)))]
        return ["fill", name, pick(rng, values)] if rng.random() < 0.3 else ["put", name, places, pick(rng, values)]
    if kind == 5:
        return ["rows", name, pick(rng, (0, 1, 2, 3, 5, 7, 100, 3000))]
    if kind == 6:
        return ["type", name, pick(rng, _TYPES)]
    if kind == 7:
        return ["bytes", name, [[float(rng.random()), int(rng.integers(256))] for _ in range(int(rng.integers(1, 4)))]]
    if kind == 8:
        shape = [
            int(v) for v in pick(rng, ([], [0], [1], [-1], [2**40, 0], [2**31, 2**31], [2**62, 4], [0, 2**62], [3, 3]))
        ]
        return ["set", ["arrays", name, 1], shape]
    if kind == 9:
        chunk = pick(rng, ("swap", "bomb", "empty", "cut", "flip"))
        return ["chunk", name, chunk]
    if kind == 10:
        values = pick(rng, ([], None, [None], [["u"], None], [None, ["u", "v"] * 4, [False, True]], {"map": []}, 7))
        return ["vocabularies", values]
    path: list[Any] = []
    value: Any = manifest
    while isinstance(value, dict | list) and value and (not path or rng.random() < 0.8):
        step = pick(rng, [k for k in value if k != "arrays"] if isinstance(value, dict) else range(len(value)))
        path, value = [*path, step], value[step]
    changed = mutate.of_value(
        rng, [value], (*mutate.SCALARS, *_WHOLE, {}, [], [[]], {"champion": ["external", {}]}, b"\0")
    )
    return ["set", path, _plain(changed[0])] if changed else ["delete", path]


def _apply(edit: list[Any], manifest: dict[str, Any], chunks: dict[bytes, bytes]) -> None:
    kind, where, *given = edit
    if kind in ("set", "delete"):
        holder = manifest
        for step in where[:-1]:
            holder = holder[step]
        if kind == "set":
            holder[where[-1]] = _unplain(given[0])
        else:
            del holder[where[-1]]
        return
    if kind == "vocabularies":
        data, dtype = msgspec.msgpack.encode(_unplain(where)), "|u1"
        _store("vocabularies", data, dtype, [len(data)], manifest, chunks)
        return
    dtype, shape, digests = manifest["arrays"][where]
    if kind == "type":
        manifest["arrays"][where] = [given[0], shape, digests]
        return
    if kind == "chunk":
        _damage(given[0], digests, manifest, chunks)
        return
    data = b"".join(filter(None, (checkpoint.unpack(digest, chunks[digest]) for digest in digests)))
    array = np.frombuffer(data, np.dtype(dtype)).reshape(shape).copy()
    flat = array.reshape(-1)
    with np.errstate(all="ignore"):
        if kind == "fill":
            flat[:] = np.array(given[0]).astype(array.dtype)
        elif kind == "put" and len(flat):
            flat[[int(place * len(flat)) for place in given[0]]] = np.array(given[1]).astype(array.dtype)
        elif kind == "bytes" and len(flat):
            raw = flat.view(np.uint8)
            for place, value in given[0]:
                raw[int(place * len(raw))] = value
        elif kind == "rows" and array.ndim:
            array = np.resize(array, (given[0], *array.shape[1:]))
    _store(where, array.tobytes(), dtype, list(array.shape), manifest, chunks)


def _store(
    name: str, data: bytes, dtype: str, shape: list[int], manifest: dict[str, Any], chunks: dict[bytes, bytes]
) -> None:
    cut = [data[at : at + checkpoint.CHUNK_BYTES] for at in range(0, len(data), checkpoint.CHUNK_BYTES)]
    chunks.update({checkpoint.hash_of(part): checkpoint.pack(part) for part in cut})
    manifest["arrays"][name] = [dtype, shape, [checkpoint.hash_of(part) for part in cut]]


def _damage(how: str, digests: list[bytes], manifest: dict[str, Any], chunks: dict[bytes, bytes]) -> None:
    if not digests:
        return
    digest = digests[0]
    if how == "bomb":  # 100 MB in 100 KB, under its right name
        zeros = bytes(100_000_000)
        chunks[checkpoint.hash_of(zeros)] = checkpoint.pack(zeros)
        digests[0] = checkpoint.hash_of(zeros)
    elif how == "swap":
        chunks[digest] = next(iter(chunks.values()))
    elif how == "empty":
        chunks[digest] = b""
    elif how == "cut":
        chunks[digest] = chunks[digest][: len(chunks[digest]) // 2]
    else:
        chunks[digest] = chunks[digest][:-1] + bytes([chunks[digest][-1] ^ 1])


def _flip(data: bytes, flips: list[list[Any]], cut: float) -> bytes:
    changed = bytearray(data)
    for place, value in flips if changed else ():
        changed[int(place * len(changed))] ^= value
    return bytes(changed[: int(cut * len(changed))])


class States(Target):
    """A case is a golden state, edits of its manifest and arrays, and of the bytes of the manifest and of the file."""

    seconds, megabytes = 20.0, 1500

    def __init__(self, bases: tuple[str, ...], budget: int) -> None:
        self.bases, self.budget = bases, budget
        self.compiled: set[str] = set()

    def ready(self, case: bytes) -> None:
        name = json.loads(case)["base"]
        if name not in self.compiled:
            self.compiled.add(name)
            self.run(_encode(name, []))

    def make(self, rng: Random) -> bytes:
        case = pick(rng, self.bases)
        manifest, _ = base(case)
        edits = [_edit(rng, manifest) for _ in range(int(rng.integers(1, 4)))]
        raw: dict[str, Any] = {}
        kind = rng.random()
        if kind < 0.1:  # with a hash that fits, so that it is the content that is refused
            flips = [[float(rng.random()), 1 << int(rng.integers(8))] for _ in range(int(rng.integers(1, 4)))]
            raw[pick(rng, ("manifest", "content", "file"))] = [flips, float(pick(rng, (1.0, 1.0, rng.random())))]
        return _encode(case, edits if kind > 0.05 else [], **raw)

    def run(self, case: bytes) -> None:
        found = json.loads(case)
        model, task = cases().get(found["base"], ("", CLASSIFICATION))
        manifest, chunks = base(found["base"])
        manifest, chunks = msgspec.msgpack.decode(msgspec.msgpack.encode(manifest)), dict(chunks)
        for edit in found["edits"]:
            try:
                _apply(edit, manifest, chunks)
            except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError, msgspec.MsgspecError):
                continue  # an edit before it took away what this one is about
        data = msgspec.msgpack.encode(manifest)
        if "manifest" in found:
            data = _flip(data, *found["manifest"])
        spec = stream(model, task) if model else changed()
        self._changelog(spec, data, chunks)
        content = portable.MAGIC + msgspec.msgpack.encode({"format": 1, "manifest": data, "chunks": chunks})
        if "content" in found:
            content = _flip(content, *found["content"])
        packed = content + portable._digest(content)
        if "file" in found:
            packed = _flip(packed, *found["file"])
        try:
            exported = portable.unpack(packed, "state.bin")
            learner = portable.restore(spec, exported)
            portable.addressed(exported, spec, 1, {})
        except RiparianError:
            return
        self._go_on(learner, task)

    def _changelog(self, spec: Any, data: bytes, chunks: dict[bytes, bytes]) -> None:
        """What verify, show, inspect and a worker's standby make of it."""
        key = checkpoint.manifest_key(PARTITION)
        items = {**{checkpoint.chunk_key(PARTITION, digest): chunk for digest, chunk in chunks.items()}, key: data}
        found = examine(items, "golden", PARTITION)
        assert found.plain()
        log = StateLog(PARTITION)
        for offset, (item, value) in enumerate(items.items()):
            log.append(offset, item, value)
        with contextlib.suppress(RiparianError):
            log.settle()
            log.keep(set(), 5, 0)
            if found.manifest is not None:
                parts(found.manifest, items)
                loading.compare_with_stream_file(spec, found.manifest, chunks)

    def _go_on(self, learner: PartitionLearner, task: str) -> None:
        """Predict and learn with what was accepted, look at it, and write it."""
        merge = PartitionGroup(learner.buffers(), limit=64)
        features, labels = further(task)
        times = [BEFORE + 1000 + i for i in range(STEPS)]
        for buffer, first, batch in (
            (merge.buffers["features"], learner.offsets["features"], features),
            (merge.buffers["labels"], learner.offsets["labels"], labels),
        ):
            buffer.add(RawBatch([first + i for i in range(STEPS)], times, batch.keys, batch.values))
        while merge.n_waiting:
            learner.step(merge.release(EVERYTHING))
        learner.figures()
        learner.digest()
        items = items_of(learner.snapshot(), "golden", PARTITION)
        learner.checkpoint()
        state = loading.State(checkpoint.decode_manifest(items[checkpoint.manifest_key(PARTITION)]), learner, 0)
        for show in (inspection.text, inspection.as_json, inspection.dot):
            show(state, "champion")

    def shrink(self, case: bytes) -> Iterator[bytes]:
        found = json.loads(case)
        model, edits = found.pop("base"), found.pop("edits")
        if edits:
            yield _encode(model, [], **found)
        if found:
            yield _encode(model, edits)
        for fewer in mutate.smaller(edits):
            yield _encode(model, fewer, **found)
        for i, (kind, *rest) in enumerate(edits):
            if kind in ("put", "bytes"):
                for less in mutate.smaller(rest[1]):
                    yield _encode(model, [*edits[:i], [kind, rest[0], less, *rest[2:]], *edits[i + 1 :]], **found)


def _encode(case: str, edits: list[Any], **raw: Any) -> bytes:
    return json.dumps({"base": case, "edits": edits, **raw}, indent=1).encode()


TARGETS = {"states": States(FEW, 50), "models": States(tuple(case for case in BASES if case not in FEW), 0)}
