"""Ids as one array of their UTF-8 bytes, and the hash by which they are found.

The hash is SipHash-1-3 (Aumasson, Bernstein: SipHash: a fast short-input PRF. INDOCRYPT 2012), as in Python's own
dictionaries, with a key that each process draws: nobody can choose ids that all have the same one.
"""

import secrets
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import SPARE
from riparian.topics.formats.common.cells import view
from riparian.topics.slices import Texts

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_BEHIND = bytes(SPARE)
_PUBLIC_KEY = np.uint64(0x7269706172696131), np.uint64(0x6A6F696E65643131)
_NO_TEXT, _NO_ENDS = np.zeros(SPARE, np.uint8), np.zeros(0, np.int64)
_NO_WORDS = np.zeros(0, np.uint64)
_ONE, _FOUR, _EIGHT = np.uint64(1), np.uint64(4), np.uint64(8)


def new_key() -> NDArray[np.uint64]:
    """A key for the hash. Indexes in which the same ids are looked up share one."""
    return np.frombuffer(secrets.token_bytes(16), dtype=np.uint64).copy()


def packed(ids: Sequence[str]) -> tuple[Bytes, Ints]:
    """Strings as one array of UTF-8 bytes, with others behind the last, and the end of each."""
    if not len(ids):
        return _NO_TEXT, _NO_ENDS
    if isinstance(ids, Texts):
        return _pieces(np.frombuffer(ids.data, np.uint8), ids.starts, ids.lengths)
    joined = "".join(ids)
    if joined.isascii():
        data, lengths = joined.encode(), map(len, ids)
    else:
        encoded = [id_.encode("utf-8", "surrogatepass") for id_ in ids]
        data, lengths = b"".join(encoded), map(len, encoded)
    # A copy: a buffer of bytes is read-only, and kernels are compiled for arrays that are not.
    text = np.frombuffer(bytearray(data + _BEHIND), np.uint8)
    return text, np.fromiter(accumulate(lengths), dtype=np.int64, count=len(ids))


def packed_both(ids: Sequence[str], others: Sequence[str]) -> tuple[Bytes, Ints]:
    """As `packed`, of ids and others behind them."""
    if isinstance(ids, list) and isinstance(others, list):
        return packed(ids + others)
    (text, ends), (behind, more) = packed(ids), packed(others)
    n = len(text) - SPARE
    return np.concatenate((text[:n], behind)), np.concatenate((ends, more + n))


def gathered(text: Bytes, starts: Ints, lengths: Ints) -> tuple[Bytes, Ints]:
    """Pieces of text one after the other, and the end of each."""
    pieces, ends = _pieces(text, starts, lengths)
    return pieces[: len(pieces) - SPARE], ends


def _pieces(text: Bytes, starts: Ints, lengths: Ints) -> tuple[Bytes, Ints]:
    """The ids of `gathered`, with SPARE bytes behind the last."""
    ends = lengths.cumsum()
    size = int(ends[-1]) if len(ends) else 0
    pieces = np.empty(size + SPARE, np.uint8)
    _gather(text, words_of(text), starts, ends, pieces, words_of(pieces))
    return pieces, ends


def words_of(text: Bytes) -> NDArray[np.uint64]:
    """The number that begins at each byte, where eight follow; of a few bytes with zeros behind them, since one number
    alone would be another type to numba."""
    if len(text) < SPARE:
        writeable, text = text.flags.writeable, np.concatenate((text, np.zeros(SPARE, np.uint8)))
        text.flags.writeable = writeable
    return view(text, "<u8")


def tags(key: NDArray[np.uint64], text: Bytes, ends: Ints) -> Ints:
    """The hash of each id, of 31 bits. text, ends : as `packed` gives them; what is behind the last does not count."""
    found = np.empty(len(ends), np.int64)
    write_tags(key, text, words_of(text), ends, found)
    return found


@kernel
def _gather(text, words, starts, ends, pieces, written):
    """words, written : the numbers that begin at each byte of text and of pieces."""
    n = np.uint64(0)
    for i in range(len(ends)):
        start, stop = np.uint64(starts[i]) - n, np.uint64(ends[i])
        while n < stop and start + n < len(words) and n < len(written):
            written[n] = words[start + n]  # what is behind the piece, too: the next one comes there
            n += _EIGHT
        n = min(n, stop)
        while n < stop:
            pieces[n] = text[start + n]
            n += _ONE


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
def _sip_hash(key, text, words, start, stop):
    """The SipHash-1-3 of text[start:stop]."""
    a = key[0] ^ np.uint64(0x736F6D6570736575)
    b = key[1] ^ np.uint64(0x646F72616E646F6D)
    c = key[0] ^ np.uint64(0x6C7967656E657261)
    d = key[1] ^ np.uint64(0x7465646279746573)
    i = start
    while True:
        n = min(stop - i, _EIGHT)
        word = np.uint64(0)
        if i < len(words):
            half = (_EIGHT - n) * _FOUR  # in two steps: one of 64 bits would be none
            word = words[i] << half << half >> half >> half
        else:
            for j in range(n):
                word |= np.uint64(text[i + j]) << _EIGHT * j
        if n < _EIGHT:
            word |= (stop - start) << np.uint64(56)
        d ^= word
        a, b, c, d = _sip_round(a, b, c, d)
        a ^= word
        if n < _EIGHT:
            break
        i += _EIGHT
    c ^= np.uint64(0xFF)
    for _ in range(3):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


@kernel
def write_tags(key, text, words, ends, written):
    """Write 31 bits of the hash of each id. O(bytes). words : the numbers that begin at each byte of text."""
    start = np.uint64(0)
    for i in range(len(ends)):
        written[i] = np.int64(_sip_hash(key, text, words, start, np.uint64(ends[i])) >> np.uint64(33))
        start = np.uint64(ends[i])


@kernel
def write_hashes(keys, text, words, ends, written):
    """Write 128 bits of each text, by four words of keys. written : (n, 2) uint64. O(bytes)."""
    start = np.uint64(0)
    for i in range(len(ends)):
        written[i, 0] = _sip_hash(keys[:2], text, words, start, np.uint64(ends[i]))
        written[i, 1] = _sip_hash(keys[2:], text, words, start, np.uint64(ends[i]))
        start = np.uint64(ends[i])


@kernel
def digest_of(text, start, stop):
    """The digest of one id."""
    return _sip_hash(_PUBLIC_KEY, text, _NO_WORDS, start, stop)


@kernel
def write_digests(text, words, ends, written):
    """Write the whole hash of each id, by the key that all processes have: what states hold. O(bytes). A table by these
    alone would be everybody's to slow down (waiting.py has a key of its own)."""
    start = np.uint64(0)
    for i in range(len(ends)):
        written[i] = _sip_hash(_PUBLIC_KEY, text, words, start, np.uint64(ends[i]))
        start = np.uint64(ends[i])
