"""Predictions as JSON, written by a kernel into one buffer: to the byte what `predictions` writes one by one.

A record is made of texts that are the same in all (`Frame`), the id, numbers, and texts of classes. The kernel takes
the usual: where an id would have to be escaped, say, it stops, and the encoder writes them all.

`predictions` imports this module, and with it numba, when there are many predictions to write.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import SPARE, copied, in_all, lower_bytes, same_bytes
from riparian.topics.formats.common.cells import view
from riparian.topics.formats.json.shortest import LONGEST, real, whole
from riparian.topics.records import Floats
from riparian.topics.slices import PADDING, Ints, Slices

MOST_BYTES = 1 << 25  # largest buffer, bytes
_NUMBER_BYTES = 20  # bytes of a place
_ZERO, _EIGHT, _ALL = np.uint64(0), np.uint64(8), np.uint64(0xFFFFFFFFFFFFFFFF)
_SPACES, _DIGITS, _QUOTES, _BACKSLASHES = in_all(32), in_all(48), in_all(34), in_all(92)
_SURROGATES = in_all(0xED)  # how text begins that may be no text


class Frame(NamedTuple):
    """The texts of predictions, one behind the other, with bytes to spare, and where each ends.

    Their order: before the id, before y, null, one for y of each of k classes, before p, before the number of each of k
    classes, behind p, null for p, then before each place, and the end. Of values three ends more: of an alert that is
    not decided, of none, and of one.
    """

    text: NDArray[np.uint8]
    ends: Ints


def frame(texts: Sequence[bytes]) -> Frame:
    """Of these texts."""
    return Frame(
        np.frombuffer(b"".join([*texts, bytes(SPARE)]), np.uint8),
        np.cumsum([len(one) for one in texts], dtype=np.int64),
    )


def written(
    ids: Slices, p: Floats, n_classes: int, shares: bool, frame: Frame, places: Any, decided: Floats | None = None
) -> Slices | None:
    """A record an id; None where the encoder has to write them.

    Parameters
    ----------
    p : (n, m) float64, probabilities of at least k classes; or (n, 1) values
    n_classes : k, or -1 where the prediction is a value
    shares : whether probabilities are written
    places : sequence of n integers each, not below 0
    decided : (n,) codes of the classes that y names; NaN for the likeliest. Of values, 1 for an alert, else 0, or NaN
    """
    n, k = len(ids), n_classes
    each = int(frame.ends[-1]) + LONGEST * (max(k, 1) if shares or k < 0 else 0) + _NUMBER_BYTES * len(places)
    room = each * n + int(ids.lengths.sum())
    if room > MOST_BYTES:
        return None
    out, ends = np.empty(room + LONGEST + SPARE, np.uint8), np.empty(n, np.int64)
    numbers = np.array(places, np.int64).reshape(len(places), n)
    spare = len(ids.data) - int(ids.stops.max(initial=0))
    data = np.frombuffer(ids.data if spare >= SPARE else ids.data + PADDING, np.uint8)
    named = np.zeros(0) if decided is None else np.ascontiguousarray(decided, np.float64)
    probabilities = np.ascontiguousarray(p, np.float64)
    done = write(
        view(data, "<u8"), ids.starts, ids.stops, probabilities, probabilities.view(np.uint64), k, shares, named,
        view(frame.text, "<u8"), frame.ends, numbers, out, view(out, "<u8"), ends,
    )  # fmt: skip
    if not done:
        return None
    size = int(ends[-1]) if n else 0
    out[size : size + len(PADDING)] = 0
    written = out[: size + len(PADDING)].tobytes()
    return Slices(written, np.concatenate(([0], ends[:-1])) if n else ends, ends)


@kernel(inline=True)
def _copied(words, at, text, ends, i):  # type: ignore[no-untyped-def]
    """Write text i at a place; the place behind it."""
    start = np.uint64(ends[i - 1]) if i > 0 else _ZERO
    return copied(words, at, text, start, np.uint64(ends[i]) - start)


@kernel
def write(ids, starts, stops, p, bits, k, shares, decided, text, ends, places, out, words, found):  # type: ignore[no-untyped-def]
    """Write records one behind the other; False where one is not usual.

    Parameters
    ----------
    ids, starts, stops : words of UTF-8
    p, bits : (n, m) float64, and the same as uint64
    k, shares, decided : as in `written`; none of the last: the likeliest
    text, ends : of the Frame, as words
    places : (m, n) int64
    out, words : uint8 and words on the same memory, filled in
    found : (n,) int64, filled in with where each record ends
    """
    at = _ZERO
    classes = max(k, 0)
    for i in range(len(starts)):
        at = _copied(words, at, text, ends, 0)
        start, stop, odd = np.uint64(starts[i]), np.uint64(stops[i]), _ZERO
        while start < stop:
            eight = ids[start]
            words[at] = eight
            left = stop - start
            if left < _EIGHT:
                behind_it = _ALL << _EIGHT * left
                eight = (eight & ~behind_it) | (_DIGITS & behind_it)
            odd |= lower_bytes(eight, _SPACES)
            odd |= same_bytes(eight, _QUOTES) | same_bytes(eight, _BACKSLASHES) | same_bytes(eight, _SURROGATES)
            at += min(left, _EIGHT)
            start += _EIGHT
        if odd != _ZERO:
            return False
        at = _copied(words, at, text, ends, 1)
        behind = 3 + classes  # of the texts
        if k < 0:
            at = real(out, words, at, bits[i, 0])
        else:
            best = -1
            for j in range(k):
                if np.isnan(p[i, j]):
                    return False
                if p[i, j] > 0.0 and (best < 0 or p[i, j] > p[i, best]):
                    best = j
            if best >= 0 and len(decided) > 0 and 0.0 <= decided[i] < k:
                best = int(decided[i])
            at = _copied(words, at, text, ends, 3 + best if best >= 0 else 2)
            if shares and best >= 0:
                at = _copied(words, at, text, ends, behind)
                for j in range(k):
                    at = _copied(words, at, text, ends, behind + 1 + j)
                    at = real(out, words, at, bits[i, j])
                at = _copied(words, at, text, ends, behind + 1 + k)
            elif shares:
                at = _copied(words, at, text, ends, behind + 2 + k)
        behind += 3 + classes
        for j in range(len(places)):
            at = _copied(words, at, text, ends, behind + j)
            number = places[j, i]
            if number < 0:
                return False
            at = whole(words, at, np.uint64(number))
        end = behind + len(places)
        if k < 0 and len(decided) > 0:
            end += 1 if np.isnan(p[i, 0]) or np.isnan(decided[i]) else 3 if decided[i] == 1.0 else 2
        at = _copied(words, at, text, ends, end)
        found[i] = np.int64(at)
    return True
