"""Keys, values or texts of many records as slices of one buffer: no object a record, until somebody asks for one.

What works on all of them at once (`topics.formats.json.block`, say) takes the buffer and the edges; to everybody else
they are a sequence of bytes and None, or of texts. Where few values stand for many rows, the rows hold codes of these.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_T = TypeVar("_T")

PADDING = bytes(16)  # behind the last slice: kernels read eight bytes at a time


if TYPE_CHECKING:
    _Sequence = Sequence
else:
    # Each step asks ten times whether a column is a lazy one: of an abstract class that takes six times as long.
    class _Sequence(Generic[_T]):
        __slots__ = ()
        index, count, __reversed__ = Sequence.index, Sequence.count, Sequence.__reversed__


class LazyColumn(_Sequence[_T]):
    """A column that makes its items when they are asked for."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | LazyColumn) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"<{len(self)} of {type(self).__name__}>"

    def take(self, at: Sequence[int]) -> Self:
        """Those at these places."""
        return self[at]  # type: ignore[call-overload, no-any-return]


Sequence.register(LazyColumn)  # type: ignore[type-abstract]


class _Cut(LazyColumn[_T]):
    """Parts of a buffer: each begins at `starts` and ends at `stops`."""

    __slots__ = ("data", "starts", "stops")

    def __init__(self, data: bytes, starts: Ints, stops: Ints) -> None:
        self.data, self.starts, self.stops = data, starts, stops

    def __len__(self) -> int:
        return len(self.starts)

    def _item(self, start: int, stop: int) -> _T:
        raise NotImplementedError

    @overload
    def __getitem__(self, at: int) -> _T: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: Any) -> Any:
        start, stop = self.starts[at], self.stops[at]
        return type(self)(self.data, start, stop) if isinstance(start, np.ndarray) else self._item(start, stop)


class Slices(_Cut[bytes | None]):
    """n slices of a buffer.

    Parameters
    ----------
    data : bytes
        With PADDING, or any other bytes, behind the last slice.
    starts, stops : (n,) int64
        Where each begins and ends in data; a stop before its start says None.
    """

    __slots__ = ()

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> "Slices":
        """Copies of these."""
        if isinstance(values, Coded):
            few = cls.of(values.values)
            return cls(few.data, few.starts[values.codes], few.stops[values.codes])
        lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
        room = lengths.clip(0)
        starts = room.cumsum() - room
        return cls(b"".join([*(value or b"" for value in values), PADDING]), starts, starts + lengths)

    def _item(self, start: int, stop: int) -> bytes | None:
        return None if stop < start else self.data[start:stop]

    def __iter__(self) -> Iterator[bytes | None]:
        data, edges = self.data, zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        if self.complete:
            return iter([data[start:stop] for start, stop in edges])
        return iter([None if stop < start else data[start:stop] for start, stop in edges])

    @property
    def complete(self) -> bool:
        """Whether none is None."""
        return bool((self.stops >= self.starts).all())

    @property
    def lengths(self) -> Ints:
        """(n,) int64, of each in bytes; 0 of None."""
        return (self.stops - self.starts).clip(0)

    @property
    def span(self) -> tuple[int, int]:
        """Where the first begins and the last ends in the buffer."""
        first = int(self.starts.min(initial=len(self.data)))
        return first, max(first, int(self.stops.max(initial=0)))

    def compact(self) -> "Slices":
        """These slices in a buffer of which they use at least a half."""
        first, last = self.span
        if 2 * (last - first + len(PADDING)) >= len(self.data):
            return self
        return Slices(self.data[first:last] + PADDING, self.starts - first, self.stops - first)


class Texts(_Cut[str]):
    """n texts in ASCII, likewise."""

    __slots__ = ()

    def _item(self, start: int, stop: int) -> str:
        return self.data[start:stop].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        text, edges = self.data.decode("latin-1"), zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return iter([text[start:stop] for start, stop in edges])

    @property
    def lengths(self) -> Ints:
        """(n,) int64, of each in characters."""
        return self.stops - self.starts

    @classmethod
    def chained(cls, parts: "Sequence[Texts]") -> "Texts":
        """Consecutive parts as one."""
        (whole,) = chained(list(map(of_texts, parts)))
        return cls(whole.data, whole.starts, whole.stops)


class Coded(LazyColumn[Any]):
    """n values of which few differ: `values`, and for each row the place of its own among them, `codes`: (n,) int64."""

    __slots__ = ("codes", "values")

    def __init__(self, values: list[Any], codes: Ints) -> None:
        self.values, self.codes = values, codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at: Any) -> Any:
        codes = self.codes[at]
        return Coded(self.values, codes) if isinstance(codes, np.ndarray) else self.values[codes]

    def __iter__(self) -> Iterator[Any]:
        return map(self.values.__getitem__, self.codes.tolist())

    def used(self) -> list[int]:
        """The places of the values that any row has."""
        found: list[int] = np.bincount(self.codes, minlength=len(self.values)).nonzero()[0].tolist()
        return found

    @classmethod
    def chained(cls, parts: "Sequence[Coded]") -> "Coded":
        """Consecutive parts as one."""
        sizes = np.cumsum([0, *(len(part.values) for part in parts)])
        codes = [part.codes + at for part, at in zip(parts, sizes[:-1], strict=True)]
        return cls([value for part in parts for value in part.values], np.concatenate(codes))


class RepeatedValues(Coded):
    """Values that each stand for consecutive rows."""

    @classmethod
    def of(cls, values: Sequence[Any], sizes: Sequence[int] | Ints) -> "RepeatedValues":
        """Each so many times, at least once."""
        return cls(list(values), np.repeat(np.arange(len(sizes)), sizes))

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return super().__getitem__(at)
        codes = self.codes[at]
        first, stop = (int(codes[0]), int(codes[-1]) + 1) if len(codes) else (0, 0)
        return RepeatedValues(self.values[first:stop], codes - first)  # which keeps nothing of the others

    def runs(self) -> Iterator[tuple[Any, int]]:
        """Each value with its number of rows."""
        return zip(self.values, np.bincount(self.codes, minlength=len(self.values)).tolist(), strict=True)


def longest(values: Sequence[bytes | None]) -> int:
    """Bytes of the longest."""
    if isinstance(values, Slices):
        return int(values.lengths.max(initial=0))
    return max((len(value) for value in values if value is not None), default=0)


def of_texts(texts: Sequence[str]) -> Slices:
    """Texts in UTF-8."""
    if isinstance(texts, Texts):
        return Slices(texts.data, texts.starts, texts.stops)
    joined = "".join(texts)
    if not joined.isascii():
        return Slices.of([text.encode("utf-8", "surrogatepass") for text in texts])
    stops = np.fromiter(map(len, texts), np.int64, count=len(texts)).cumsum()
    starts = np.concatenate((np.zeros(1, np.int64), stops[:-1])) if len(stops) else stops
    return Slices(joined.encode() + PADDING, starts, stops)


def chained(*columns: Sequence[Sequence[bytes | None]]) -> list[Any]:
    """Of each column, its consecutive parts as one: as Slices, all of one buffer, where all parts are Slices, otherwise
    as lists. Every column has a part of the same records."""
    if all(len(parts) == 1 for parts in columns):
        return [parts[0] for parts in columns]
    if all(isinstance(part, RepeatedValues) for parts in columns for part in parts):
        return [RepeatedValues.chained(parts) for parts in columns]  # type: ignore[arg-type]
    if not columns[0] or not all(isinstance(part, Slices) for parts in columns for part in parts):
        return [[value for part in parts for value in part] for parts in columns]
    pieces: list[memoryview] = []
    edges: list[tuple[list[Ints], list[Ints]]] = [([], []) for _ in columns]
    n = 0
    for parts in zip(*columns, strict=True):
        moved: dict[int, int] = {}  # a buffer of this part -> how far what it holds is moved
        for part in parts:
            if id(part.data) in moved:
                continue
            spans = [one.span for one in parts if one.data is part.data]  # type: ignore[attr-defined]
            first, last = min(span[0] for span in spans), max(span[1] for span in spans)
            pieces.append(memoryview(part.data)[first:last])
            moved[id(part.data)] = n - first
            n += max(0, last - first)
        for part, (starts, stops) in zip(parts, edges, strict=True):
            starts.append(part.starts + moved[id(part.data)])
            stops.append(part.stops + moved[id(part.data)])
    data = b"".join([*pieces, PADDING])
    return [Slices(data, np.concatenate(starts), np.concatenate(stops)) for starts, stops in edges]
