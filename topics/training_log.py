"""What partitions that learn one model send each other: records of `NAME.learned`.

The owner of a partition appends what it has joined, instances with their labels and the predictions that were made for
them, as columns. Each partition numbers its instances, so that whoever reads the topic learns each of them once. The
owner of the first partition also appends the commands to the models, numbered by their places in the control topic.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.topics.commands import WrongCommandError, read_command
from riparian.topics.vocabulary import MAX_TEXT, Scalar

VERSION = 2  # 1: joined by workers whose exponentials and logarithms had other last bits
# of a command that adds or drops features, or such over a key's past: workers that could not obey it do not read it
WITH_FEATURES, WITH_KEYS = 3, 4
MOST_ROWS = 65_536  # rows of a record, at most
N_PLACES = 3  # of a prediction: in the features, the labels and this log

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Terms(msgspec.Struct, array_like=True, frozen=True):
    """By what instances are learned: what the stream file of the worker has that joined them. All replicas go by it,
    whatever their own files declare, so that they stay equal while workers are restarted with another one.

    Parameters
    ----------
    seed : int
        Of models that begin.
    most : list
        Of each nominal feature how many values it may have; None of a numeric one.
    most_classes : int, optional
        How many classes there may be; None where labels are numbers.
    weights : dict of str to float
        Class -> what its labels count, where that is not 1.
    costs : dict, optional
        True class -> class named -> what that costs, or which feature says it; None: all mistakes are alike.
    target : (str, str), optional
        What a threshold keeps, and the class that it is about. None in records of before, which have no class alone.
    """

    seed: int
    most: list[int | None]
    most_classes: int | None
    weights: dict[str, float]
    costs: dict[str, dict[str, float | str]] | None
    target: tuple[str, str] | None = None


class LearnedKeys(msgspec.Struct, array_like=True, frozen=True):
    """Times and hashes of keys of a record's instances, for aggregates of their labels (`keys` of the stream file).

    Parameters
    ----------
    bounds : list of (int, int)
        Of each key that labels count for, by name: how many are known at most, and for how many ms one may be idle.
    rows : bytes
        (n, 1 + 2 k) int64: of each instance its own time in ms, and the hash of each of its k keys, 0 where it has
        none.
    """

    bounds: list[tuple[int, int]]
    rows: bytes

    def columns(self) -> Ints:
        """`rows` as an array."""
        return np.frombuffer(self.rows, np.int64).reshape(-1, 1 + 2 * len(self.bounds))


class LearnedRecord(msgspec.Struct, array_like=True, frozen=True):
    """Instances that a partition has joined with their labels, as it stands in Kafka.

    Parameters
    ----------
    version : int
    partition : int
        The one that joined them.
    first : int
        Number of the first among all that this partition has joined.
    places : dict of str to int
        Role of each of the partition's own topics -> its next place (`topics.places`) when these were joined.
    time : int
        Stream time of the partition then, ms.
    x : bytes
        (n, d) float64. Of a nominal feature: numbers in `values`, NaN where the value is missing.
    y : bytes
        (n,) float64: numbers in `classes`, or targets.
    at : bytes
        (n,) int64, how many instances the model had learned, and commands obeyed, when it predicted each of these.
    values : list
        Of each nominal feature the values that stand in x; None of a numeric one.
    classes : list, optional
        The classes that stand in y.
    out : dict of str to (int, bytes)
        Key of a model, and what it predicted, decided or kept for the instances -> its width k, and (n, k) float64.
        The key is the model's first name, and never another model's, whatever they are called by now.
    terms : Terms, optional
        None in records of before: whatever the last ones had.
    keys : LearnedKeys, optional
        Where labels count for a key.
    features : str, optional
        Which features x has, by a hash of their names and types in order. None in records of before, which have those
        that the stream began with.
    order : list of int, optional
        Of the partition's predictions that the broker may not have yet, whether they are sent once this one is with it
        or are on their way: places of the features, the labels and this log, of each as much more as it is than of the
        one before. May repeat those of the record before.
    """

    version: int
    partition: int
    first: int
    places: dict[str, int]
    time: int
    x: bytes
    y: bytes
    at: bytes
    values: list[list[Scalar] | None]
    classes: list[Scalar] | None
    out: dict[str, tuple[int, bytes]]
    terms: Terms | None = None
    keys: LearnedKeys | None = None
    features: str | None = None
    order: list[int] | None = None

    @property
    def n(self) -> int:
        """Instances."""
        return len(self.y) // 8

    def predicted(self) -> list[list[int]]:
        """The places of the predictions in `order`."""
        return np.array(self.order or (), np.int64).reshape(-1, N_PLACES).cumsum(axis=0).tolist()  # type: ignore[no-any-return]

    def columns(self) -> tuple[Floats, Floats, Ints, dict[str, Floats]]:
        """x, y, at and out as arrays."""
        n = self.n
        out = {name: np.frombuffer(data).reshape(n, width) for name, (width, data) in self.out.items()}
        x = np.frombuffer(self.x).reshape(n, len(self.values))
        return x, np.frombuffer(self.y), np.frombuffer(self.at, np.int64), out


class LearnedCommand(msgspec.Struct, array_like=True, frozen=True):
    """A command to the models, which takes effect at its place of the log.

    Parameters
    ----------
    version : int
    offset : int
        Of its record in the first partition of the control topic.
    value : bytes, optional
        Of that record, whatever it is.
    """

    version: int
    offset: int
    value: bytes | None


_LATEST = 1 << 52  # latest of times that weigh, ms
_MOST = 1 << 62  # largest of counts, places and times: no partition comes so far

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LearnedRecord)
_command_decoder = msgspec.msgpack.Decoder(LearnedCommand)
_COMMAND = _encoder.encode(LearnedCommand(VERSION, 0, None))[:1]  # a list of three; that of a record is longer


def write(record: LearnedRecord | LearnedCommand) -> bytes:
    return _encoder.encode(record)


def command_at(offset: int, value: bytes | None) -> LearnedCommand:
    """A record of the control topic, and where it stands there."""
    try:
        command = read_command(value)
        version = VERSION if command.features is None else WITH_FEATURES if command.keys is None else WITH_KEYS
    except WrongCommandError:
        version = VERSION
    return LearnedCommand(version, offset, value)


def is_command(value: bytes | None) -> bool:
    """Whether a Kafka record's value is a command, or nonsense that begins like one."""
    return value is not None and value[:1] == _COMMAND


def read(value: bytes | None) -> LearnedRecord | LearnedCommand:
    """The record of a Kafka record's value. ValueError with what is wrong where it is none that `write` gives."""
    decoder: Any = _command_decoder if is_command(value) else _decoder
    try:
        found: LearnedRecord | LearnedCommand = decoder.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    formats = (1, VERSION, WITH_FEATURES, WITH_KEYS) if isinstance(found, LearnedCommand) else (1, VERSION)
    if found.version not in formats:
        known = " and ".join((", ".join(map(str, formats[:-1])), str(formats[-1])))
        raise ValueError(f"it has format {found.version}, and this version reads formats {known}")
    if isinstance(found, LearnedCommand):
        if not 0 <= found.offset < _MOST:
            raise ValueError("a command of no place")
        return found
    n, d = found.n, len(found.values)
    widths = all(0 < width <= 10_000 and len(data) == 8 * n * width for width, data in found.out.values())
    if not 0 < n <= MOST_ROWS or len(found.y) != 8 * n or len(found.at) != 8 * n or len(found.x) != 8 * n * d:
        raise ValueError("its columns are not equally long")
    counts = found.first, found.partition, *found.places.values()
    if not widths or min(counts) < 0 or max(counts) >= _MOST or found.partition >= 100_000 or abs(found.time) >= _MOST:
        raise ValueError("its columns or numbers are none")
    texts = (value for known in (*found.values, found.classes) for value in known or ())
    if any(isinstance(value, str) and len(value) > MAX_TEXT for value in texts):
        raise ValueError(f"a value or class of more than {MAX_TEXT:,} characters")
    x, y, at, out = found.columns()
    coded = [(x[:, j], known) for j, known in enumerate(found.values) if known is not None]
    if found.classes is not None:
        coded.append((y, found.classes))
    if found.terms is not None and not _are_terms(found.terms, found.values, found.classes):
        raise ValueError("its terms are none")
    if not np.isfinite(y).all() or (at < 0).any() or not all(_codes(column, known) for column, known in coded):
        raise ValueError("its values are none")
    # A pool keeps infinity of a member that knew no value.
    finite = [np.minimum(column, 0.0) if "/" in name else column for name, column in out.items()]
    if any(np.isinf(column).any() for column in (x, *finite)):
        raise ValueError("it holds infinity")
    if found.keys is not None and not _are_keys(found.keys, n):
        raise ValueError("its keys are none")
    order = found.order or (0,)
    if len(found.order or ()) % N_PLACES or min(order) < 0 or max(order) >= _MOST:
        raise ValueError("its order is none")
    return found


def _are_terms(terms: Terms, values: list[list[Scalar] | None], classes: list[Scalar] | None) -> bool:
    """Whether these are terms of a stream whose records list values and classes like these."""
    bounds = list(zip((*terms.most, terms.most_classes), (*values, classes), strict=False))
    if len(terms.most) != len(values) or any((most is None) != (listed is None) for most, listed in bounds):
        return False
    costs = [cost for row in (terms.costs or {}).values() for cost in row.values()]
    return (
        0 <= terms.seed < 2**31
        and all(0 < most <= 1_000_000 for most, _ in bounds if most is not None)
        and all(0.0 < weight < np.inf for weight in terms.weights.values())
        and all(0.0 <= cost < np.inf for cost in costs if not isinstance(cost, str))
        and all(len(text) <= MAX_TEXT for text in (*(terms.target or ()), *(c for c in costs if isinstance(c, str))))
    )


def _are_keys(keys: LearnedKeys, n: int) -> bool:
    """Whether these are keys of n instances, with times and bounds that a partition comes to."""
    if len(keys.rows) != 8 * n * (1 + 2 * len(keys.bounds)):
        return False
    sound = all(0 < most <= 10**9 and 0 < idle <= _MOST for most, idle in keys.bounds)
    return sound and bool((np.abs(keys.columns()[:, 0]) < _LATEST).all())


def _codes(column: Floats, known: list[Any]) -> bool:
    """Whether a column holds numbers in a list, or NaN."""
    there = column[~np.isnan(column)]
    return bool(((there >= 0) & (there < len(known)) & (there == np.floor(there))).all())
