"""A shelf holds what waits: found by id, and in order of arrival. Arrays, and the kernels that change them.

Everything is a flat array, so that one of a million costs little more than one of ten thousand. (With a dictionary of
ids a label took 0.8 µs at ten thousand and 6 at a million, and every two million the dictionary made its table anew,
for 0.3 s.)

- An id is found by a keyed hash in a table with open addressing, and compared byte by byte: two ids are never taken for
  one. The hash is SipHash-1-3 (Aumasson, Bernstein: SipHash: a fast short-input PRF. INDOCRYPT 2012), as in Python's
  own dictionaries, with a key of the process: nobody can choose ids that fall on one slot.
- The *line* holds rows in order of arrival, -1 where one has left. The oldest is the first that is not -1.
- What leaves after a cut that had it is written down by its *home*, its place there (app/state/segments.py).

`Shelf.reserve` makes room before a batch, so kernels cannot fail half way. Every event costs the same, amortised: line
and text are squeezed when they are full and half empty. All kernels stand in this file, because numba notices an edit
only in the file of the outermost one.
"""

import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import LEARN, PREDICT, Floats
from models.kernel import kernel

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Rows = NDArray[np.int32]

# columns of Shelf.book; with one that is spare a row of it is as long as a line of the processor's cache
TAG, START, LENGTH, PLACE, ARRIVED, HOME, SERIAL, BOOK_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 8
# numbers in Shelf.at
N, N_FREE, N_LEFT = 0, 1, 2  # waiting; free rows; homes in `left`
HEAD, TAIL, SINCE = 3, 4, 5  # of the line; where its tail was at the last cut
TEXT_END, TEXT_LIVE = 6, 7  # bytes of text that are used, and that are needed
NEXT_SERIAL, READ = 8, 9
WEIGHED, EXTRA_LIVE, N_AT = 10, 11, 12  # whether rows have bytes beside those that all have; bytes of those that wait

# what happens to records, in PendingStore.counts
JOINED, EXPIRED, EVICTED, UNMATCHED, REPEATED_IDS, REPEATED_LABELS = 0, 1, 2, 3, 4, 5
# the clock: stream time, ms, and columns that predictions have had up to now
NOW, WIDTH = 0, 1

ROW_BITS = 32
ROW_MASK = 0xFFFFFFFF
LEAST_ROWS = 1024
LARGE = 16_384  # rows from which on a shelf may not be in the processor's cache


class Batch(NamedTuple):
    """n records of one topic. text : (b,) uint8, their ids in UTF-8. ends : (n,) int64, the end of each in text.
    tags : (n,) int64, for the hashes. times : (n,) int64 ms. y : (n,) float64, NaN for none; or empty."""

    text: Bytes
    ends: Ints
    tags: Ints
    times: Ints
    y: Floats


class Shelf(NamedTuple):
    """Room for C rows.

    slots : (power of two,) int64, the table: tag << 32 | row + 1, 0 where free; at most half are taken.
    book : (C, 8) int64, by row: TAG, 31 bits of the id's hash; START and LENGTH of the id in `text`; PLACE in `line`;
    ARRIVED, ms of stream time; SERIAL, the number of the arrival since the stream began; HOME, place in the last cut,
    -1 where it is not in there. line : int32, rows in order of arrival, -1 where one left. text : uint8, ids in order
    of arrival. free : (C,) int32, a stack of free rows. left : (C,) int64, homes of those that left since the last cut.
    key : (2,) uint64, of the hash. at : (12,) int64, the numbers named above. extra : (C,) int64, by row: bytes beside
    those that all instances take; (0,) where there are none.
    """

    slots: Ints
    book: Ints
    line: Rows
    text: Bytes
    free: Rows
    left: Ints
    key: NDArray[np.uint64]
    at: Ints
    extra: Ints

    @classmethod
    def empty(cls, key: NDArray[np.uint64], weighed: bool = False) -> "Shelf":
        at = np.zeros(N_AT, np.int64)
        at[WEIGHED] = weighed
        return cls(
            slots=np.zeros(2, np.int64),
            book=np.zeros((0, BOOK_COLUMNS), np.int64),
            line=np.zeros(0, np.int32),
            text=np.zeros(0, np.uint8),
            free=np.zeros(0, np.int32),
            left=np.zeros(0, np.int64),
            key=key,
            at=at,
            extra=np.zeros(0, np.int64),
        )

    @property
    def n_waiting(self) -> int:
        return int(self.at[N])

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self)

    def reserve(self, n: int, n_bytes: int) -> "Shelf":
        """A shelf (this one, or a larger copy) with room for n more rows, whose ids have n_bytes."""
        shelf, at = self, self.at.tolist()
        rows, n_text = at[N] + n, at[TEXT_LIVE] + n_bytes
        if at[N_FREE] < n:
            shelf = shelf._with_rows(max(2 * len(self.book), len(self.book) + n, LEAST_ROWS))
        if 2 * rows > len(shelf.slots):
            slots = np.zeros(1 << (2 * rows).bit_length(), np.int64)
            _rehash(shelf.slots, slots)
            shelf = shelf._replace(slots=slots)
        if at[TAIL] + n > len(shelf.line) or at[TEXT_END] + n_bytes > len(shelf.text):
            line = shelf.line if 2 * rows <= len(shelf.line) else np.zeros(max(3 * rows, LEAST_ROWS), np.int32)
            text = shelf.text if 2 * n_text <= len(shelf.text) else np.zeros(max(3 * n_text, LEAST_ROWS), np.uint8)
            _squeeze(shelf, line, text)
            shelf = shelf._replace(line=line, text=text)
        return shelf

    def _with_rows(self, capacity: int) -> "Shelf":
        old, n_free = len(self.book), int(self.at[N_FREE])
        free = np.zeros(capacity, np.int32)
        # New rows at the bottom of the stack, the lowest on top: those that were used are taken first.
        free[: capacity - old] = np.arange(capacity - 1, old - 1, -1)
        free[capacity - old : capacity - old + n_free] = self.free[:n_free]
        self.at[N_FREE] += capacity - old
        shelf = self._replace(book=grown(self.book, capacity), left=grown(self.left, capacity), free=free)
        return shelf._replace(extra=grown(self.extra, capacity)) if self.at[WEIGHED] else shelf

    def weigh(self, rows: Ints, extra: Ints) -> None:
        """Bytes beside those that all take, of rows that wait and have had none."""
        self.extra[rows] = extra
        self.at[EXTRA_LIVE] += extra.sum()

    def take(self, n: int) -> Rows:
        """n free rows, ascending where they are fresh; `reserve` comes before."""
        stop = int(self.at[N_FREE])
        self.at[N_FREE] -= n
        return self.free[stop - n : stop][::-1].copy()

    def rows(self) -> Ints:
        """Rows of all that wait, in order of arrival."""
        line = self.line[self.at[HEAD] : self.at[TAIL]]
        return line[line >= 0].astype(np.int64)

    def fresh(self) -> Ints:
        """Rows of those that arrived since the last call and still wait, in order of arrival."""
        since = self.line[self.at[SINCE] : self.at[TAIL]]
        self.at[SINCE] = self.at[TAIL]
        return since[since >= 0].astype(np.int64)

    def leavers(self) -> Ints:
        """Homes of those that have left since the last call, ascending."""
        n_left, self.at[N_LEFT] = int(self.at[N_LEFT]), 0
        return np.sort(self.left[:n_left])

    def ids(self, rows: Ints) -> tuple[Bytes, Ints]:
        """Ids of rows: UTF-8 in one array, and the end of each."""
        starts, lengths = self.book[rows, START], self.book[rows, LENGTH]
        return gathered(self.text, starts, lengths)

    def refill(self, text: Bytes, ends: Ints, arrived: Ints) -> tuple["Shelf", Ints]:
        """An empty shelf filled with what waits, in order of arrival; the shelf and the rows.

        ValueError where these cannot be ids: kernels that were given them would write anywhere.
        """
        lengths = np.diff(ends, prepend=0)
        kinds = text.dtype == np.uint8 and ends.dtype == arrived.dtype == np.int64
        flat = text.ndim == ends.ndim == arrived.ndim == 1 and len(ends) == len(arrived)
        if not (kinds and flat and (lengths >= 0).all() and lengths.sum() == len(text)):
            raise ValueError("the ids that wait are damaged")
        shelf = self.reserve(len(ends), len(text))
        rows = shelf.take(len(ends))
        _put_all(shelf, rows, Batch(text, ends, np.empty_like(ends), arrived, np.zeros(0)))
        return shelf, rows.astype(np.int64)


def grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """A copy with n rows; the new ones are zero."""
    larger = np.zeros((n, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def new_key() -> NDArray[np.uint64]:
    """A key for the hash of shelves whose batches are looked up in each other."""
    return np.frombuffer(secrets.token_bytes(16), dtype=np.uint64).copy()


def packed(ids: list[str]) -> tuple[Bytes, Ints]:
    """Strings as one array of UTF-8 bytes and the end of each."""
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
def _hash(key, batch):
    """Write the tags of a batch. O(bytes)."""
    start = 0
    for i in range(len(batch.ends)):
        batch.tags[i] = _tag(key, batch.text, start, batch.ends[i])
        start = batch.ends[i]


@kernel
def _rehash(old, new):
    """Put what is in the table `old` into the empty table `new`. O(slots)."""
    mask = len(new) - 1
    for slot in old:
        if slot != 0:
            i = (slot >> ROW_BITS) & mask
            while new[i] != 0:
                i = (i + 1) & mask
            new[i] = slot


@kernel
def _squeeze(shelf, line, text):
    """Move the line and the ids that wait to the beginning of `line` and `text` (the shelf's own, or others), without
    gaps. O(line and text)."""
    at, book = shelf.at, shelf.book
    n = n_text = 0
    since = -1
    for i in range(at[HEAD], at[TAIL]):
        if i >= at[SINCE] and since < 0:
            since = n
        row = shelf.line[i]
        if row >= 0:
            line[n] = row
            book[row, PLACE] = n
            n += 1
            start = book[row, START]
            book[row, START] = n_text
            for j in range(start, start + book[row, LENGTH]):
                text[n_text] = shelf.text[j]
                n_text += 1
    at[HEAD] = 0
    at[TAIL] = n
    at[SINCE] = n if since < 0 else since
    at[TEXT_END] = n_text


@kernel
def _gather(text, starts, ends, pieces):
    n = 0
    for i in range(len(ends)):
        start = starts[i] - n
        while n < ends[i]:
            pieces[n] = text[start + n]
            n += 1


@kernel
def _find(shelf, batch, i):
    """The row that waits under id i, or -1. O(1)."""
    slots = shelf.slots
    mask = len(slots) - 1
    tag = batch.tags[i]
    start = batch.ends[i - 1] if i > 0 else 0
    length = batch.ends[i] - start
    slot = tag & mask
    while slots[slot] != 0:
        if slots[slot] >> ROW_BITS == tag:
            row = (slots[slot] & ROW_MASK) - 1
            if shelf.book[row, LENGTH] == length:
                begin = shelf.book[row, START]
                j = 0
                while j < length and shelf.text[begin + j] == batch.text[start + j]:
                    j += 1
                if j == length:
                    return row
        slot = (slot + 1) & mask
    return -1


@kernel
def _put(shelf, row, batch, i, now):
    """Row waits under id i, which does not wait yet, from now on. O(1)."""
    at, slots, book = shelf.at, shelf.slots, shelf.book
    mask = len(slots) - 1
    slot = batch.tags[i] & mask
    while slots[slot] != 0:
        slot = (slot + 1) & mask
    slots[slot] = (batch.tags[i] << ROW_BITS) | (row + 1)
    start = batch.ends[i - 1] if i > 0 else 0
    length = batch.ends[i] - start
    for j in range(length):
        shelf.text[at[TEXT_END] + j] = batch.text[start + j]
    book[row, TAG] = batch.tags[i]
    book[row, START] = at[TEXT_END]
    book[row, LENGTH] = length
    book[row, PLACE] = at[TAIL]
    book[row, ARRIVED] = now
    book[row, HOME] = -1
    book[row, SERIAL] = at[NEXT_SERIAL]
    shelf.line[at[TAIL]] = row
    at[TEXT_END] += length
    at[TEXT_LIVE] += length
    at[TAIL] += 1
    at[NEXT_SERIAL] += 1
    at[N] += 1
    if len(shelf.extra) > 0:
        at[EXTRA_LIVE] += shelf.extra[row]


@kernel
def _put_all(shelf, rows, batch):
    """All of a batch wait, in its order; none of them does yet."""
    _hash(shelf.key, batch)
    for i in range(len(rows)):
        _put(shelf, rows[i], batch, i, batch.times[i])


@kernel
def _free(shelf, row):
    """Row can be taken again. Rows are taken before a program is made, so none means two things within one."""
    shelf.free[shelf.at[N_FREE]] = row
    shelf.at[N_FREE] += 1


@kernel
def _take_out(shelf, row):
    """Row waits no longer. O(1)."""
    at, slots, book = shelf.at, shelf.slots, shelf.book
    mask = len(slots) - 1
    gap = book[row, TAG] & mask
    while slots[gap] & ROW_MASK != row + 1:
        gap = (gap + 1) & mask
    # What stands behind the gap moves up, unless its search begins behind the gap.
    slot = (gap + 1) & mask
    while slots[slot] != 0:
        first = (slots[slot] >> ROW_BITS) & mask
        if (slot - first) & mask >= (slot - gap) & mask:
            slots[gap] = slots[slot]
            gap = slot
        slot = (slot + 1) & mask
    slots[gap] = 0
    shelf.line[book[row, PLACE]] = -1
    at[TEXT_LIVE] -= book[row, LENGTH]
    at[N] -= 1
    if len(shelf.extra) > 0:
        at[EXTRA_LIVE] -= shelf.extra[row]
    if book[row, HOME] >= 0:
        shelf.left[at[N_LEFT]] = book[row, HOME]
        at[N_LEFT] += 1
    _free(shelf, row)


@kernel
def _oldest(shelf):
    """The row that has waited longest, or -1. Amortised O(1)."""
    at = shelf.at
    if at[N] == 0:
        return -1
    while shelf.line[at[HEAD]] < 0:
        at[HEAD] += 1
    return shelf.line[at[HEAD]]


@kernel
def _read_ahead(shelf, batch):
    """Read what finding these ids will need. Nothing here waits for anything read before, so the memory's answers
    overlap: at a million that wait in random order, joining takes 0.7 instead of 0.9 µs. Returns nonsense."""
    slots = shelf.slots
    mask = len(slots) - 1
    seen = 0
    for tag in batch.tags:
        seen += slots[tag & mask]
    for tag in batch.tags:
        slot = slots[tag & mask]
        if slot >> ROW_BITS == tag:
            seen += shelf.book[(slot & ROW_MASK) - 1, START]
    for tag in batch.tags:
        slot = slots[tag & mask]
        if slot >> ROW_BITS == tag:
            row = (slot & ROW_MASK) - 1
            seen += shelf.text[shelf.book[row, START]] + shelf.line[shelf.book[row, PLACE]]
    return seen


@kernel
def _deadline(instances, labels, horizon, now):
    """Stream time up to which nothing can expire. What waits longest may leave before: the next check then finds the
    new oldest, so a label that joins costs no bookkeeping."""
    since = now
    row = _oldest(instances)
    if row >= 0:
        since = min(since, instances.book[row, ARRIVED])
    row = _oldest(labels)
    if row >= 0:
        since = min(since, labels.book[row, ARRIVED])
    return since + horizon


@kernel
def _expire(instances, labels, counts, horizon, now):
    """Drop what has waited longer than the horizon; the next deadline."""
    row = _oldest(instances)
    while row >= 0 and instances.book[row, ARRIVED] < now - horizon:
        _take_out(instances, row)
        counts[EXPIRED] += 1
        row = _oldest(instances)
    row = _oldest(labels)
    while row >= 0 and labels.book[row, ARRIVED] < now - horizon:
        _take_out(labels, row)
        counts[UNMATCHED] += 1
        row = _oldest(labels)
    return _deadline(instances, labels, horizon, now)


class Limits(NamedTuple):
    """horizon : ms. max_pending, max_labels : counts. max_bytes, row_bytes, column_bytes : bytes that instances may
    take; what one takes without its id and predictions; what a column of predictions takes. width : columns that the
    predictions have."""

    horizon: int
    max_pending: int
    max_labels: int
    max_bytes: int
    row_bytes: int
    column_bytes: int
    width: int


@kernel
def join(instances, labels, early_y, limits, clock, counts, features, late, rows, before, op, row, y, waited):
    """Put a batch into the store and write the program; its length. O(records and what expires).

    instances, labels, early_y (y by row of `labels`), clock, counts : mutated. features, late : Batch of n feature
    and m label records. rows : (n,) int32, taken for the features. before : (n,) int64, labels before each feature. op,
    row, y : (2 n + m,) and waited : (n + m,) int64 ms by LEARN: written.
    """
    n, m, width = len(features.ends), len(late.ends), limits.width
    now = clock[NOW]
    deadline = _deadline(instances, labels, limits.horizon, now)
    _hash(instances.key, features)
    _hash(instances.key, late)
    if instances.at[N] > LARGE:
        instances.at[READ] = _read_ahead(instances, late) + _read_ahead(instances, features)
    k = n_learned = j = 0
    for i in range(n + 1):
        until = before[i] if i < n else m
        while j < until:
            now = max(now, late.times[j])
            if now > deadline:
                deadline = _expire(instances, labels, counts, limits.horizon, now)
            label = late.y[j]
            while label >= clock[WIDTH] and clock[WIDTH] < width:
                clock[WIDTH] = min(2 * clock[WIDTH], width)
            found = _find(instances, late, j)
            if found >= 0:
                op[k], row[k], y[k] = LEARN, found, label
                waited[n_learned] = now - instances.book[found, ARRIVED]
                k += 1
                n_learned += 1
                counts[JOINED] += 1
                _take_out(instances, found)
            elif _find(labels, late, j) >= 0:
                counts[REPEATED_LABELS] += 1
            else:
                while labels.at[N] >= limits.max_labels:  # more than one where the bound was lowered
                    _take_out(labels, _oldest(labels))
                    counts[UNMATCHED] += 1
                labels.at[N_FREE] -= 1
                early = labels.free[labels.at[N_FREE]]
                _put(labels, early, late, j, now)
                early_y[early] = label
            j += 1
        if i == n:
            break
        now = max(now, features.times[i])
        if now > deadline:
            deadline = _expire(instances, labels, counts, limits.horizon, now)
        op[k], row[k], y[k] = PREDICT, rows[i], np.nan
        k += 1
        label = features.y[i] if len(features.y) > 0 else np.nan
        while label >= clock[WIDTH] and clock[WIDTH] < width:
            clock[WIDTH] = min(2 * clock[WIDTH], width)
        if np.isnan(label) and labels.at[N] > 0:
            early = _find(labels, features, i)
            if early >= 0:
                label = early_y[early]
                _take_out(labels, early)
        if not np.isnan(label):
            op[k], row[k], y[k] = LEARN, rows[i], label
            waited[n_learned] = 0
            k += 1
            n_learned += 1
            counts[JOINED] += 1
            _free(instances, rows[i])
        elif _find(instances, features, i) >= 0:
            counts[REPEATED_IDS] += 1
            _free(instances, rows[i])
        else:
            _put(instances, rows[i], features, i, now)
            each = limits.row_bytes + limits.column_bytes * clock[WIDTH]
            while (
                instances.at[N] > limits.max_pending
                or instances.at[N] * each + instances.at[TEXT_LIVE] + instances.at[EXTRA_LIVE] > limits.max_bytes
            ):
                _take_out(instances, _oldest(instances))
                counts[EVICTED] += 1
    clock[NOW] = now
    return k
