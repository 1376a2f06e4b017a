"""Ids as one array of their UTF-8 bytes, and the hash by which they are found.

The hash is SipHash-1-3 (Aumasson, Bernstein: SipHash: a fast short-input PRF. INDOCRYPT 2012), as in Python's own
dictionaries, with a key that each process draws: nobody can choose ids that all have the same one.
"""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.kernel import kernel
from topics.slices import Texts

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


def new_key() -> NDArray[np.uint64]:
    """A key for the hash. Indexes in which the same ids are looked up share one."""
    return np.frombuffer(secrets.token_bytes(16), dtype=np.uint64).copy()


def packed(ids: Sequence[str]) -> tuple[Bytes, Ints]:
    """Strings as one array of UTF-8 bytes and the end of each."""
    if isinstance(ids, Texts):
        return gathered(np.frombuffer(ids.data, np.uint8), ids.starts, ids.lengths)
    joined = "".join(ids)
    if joined.isascii():
        data, lengths = joined.encode(), map(len, ids)
    else:
        encoded = [id_.encode("utf-8", "surrogatepass") for id_ in ids]
        data, lengths = b"".join(encoded), map(len, encoded)
    # A copy: a buffer of bytes is read-only, and kernels are compiled for arrays that are not.
    text = np.frombuffer(data, dtype=np.uint8).copy()
    return text, np.cumsum(np.fromiter(lengths, dtype=np.int64, count=len(ids)), dtype=np.int64)


def gathered(text: Bytes, starts: Ints, lengths: Ints) -> tuple[Bytes, Ints]:
    """Pieces of text one after the other, and the end of each."""
    ends = np.cumsum(lengths, dtype=np.int64)
    pieces = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    _gather(text, starts, ends, pieces)
    return pieces, ends


def tags(key: NDArray[np.uint64], text: Bytes, ends: Ints) -> Ints:
    """The hash of each id, of 31 bits. text, ends : as `packed` gives them."""
    found = np.empty(len(ends), np.int64)
    _tags(key, text, ends, found)
    return found


@kernel
def _gather(text, starts, ends, pieces):
    n = 0
    for i in range(len(ends)):
        start = starts[i] - n
        while n < ends[i]:
            pieces[n] = text[start + n]
            n += 1


@kernel(inline=True)
def _rotated(x, n):
    return (x << np.uint64(n)) | (x >> np.uint64(64 - n))


@kernel(inline=True)
def _sip_round(a, b, c, d):
    a += b
    c += d
    b = _rotated(b, 13) ^ a
    d = _rotated(d, 16) ^ c
    a = _rotated(a, 32)
    c += b
    a += d
    b = _rotated(b, 17) ^ c
    d = _rotated(d, 21) ^ a
    return a, b, _rotated(c, 32), d


@kernel
def _tag(key, text, start, stop):
    """31 bits of the SipHash-1-3 of text[start:stop]."""
    a = key[0] ^ np.uint64(0x736F6D6570736575)
    b = key[1] ^ np.uint64(0x646F72616E646F6D)
    c = key[0] ^ np.uint64(0x6C7967656E657261)
    d = key[1] ^ np.uint64(0x7465646279746573)
    i = start
    while True:
        n = min(stop - i, 8)
        word = np.uint64(0)
        for j in range(n):
            word |= np.uint64(text[i + j]) << np.uint64(8 * j)
        if n < 8:
            word |= np.uint64((stop - start) & 0xFF) << np.uint64(56)
        d ^= word
        a, b, c, d = _sip_round(a, b, c, d)
        a ^= word
        if n < 8:
            break
        i += 8
    c ^= np.uint64(0xFF)
    for _ in range(3):
        a, b, c, d = _sip_round(a, b, c, d)
    return np.int64((a ^ b ^ c ^ d) >> np.uint64(33))


@kernel
def _tags(key, text, ends, written):
    """Write the tag of each id. O(bytes)."""
    start = 0
    for i in range(len(ends)):
        written[i] = _tag(key, text, start, ends[i])
        start = ends[i]
