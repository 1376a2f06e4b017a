"""Kernels that look at Arrow messages where they lie: whether a record has the layout of one that Arrow has validated,
and holds what Arrow would take; and numbers to rows.

`check` is stricter than Arrow, and says no where it is not certain: Arrow reads the record then.
"""

import numpy as np

from models.kernel import kernel

# columns of a message's row: where its metadata begins in the templates, and its size; places in it of the length of
# the body, of the number of rows, of the nodes and of the buffers; its first column, and the one behind its last
TEMPLATE, SIZE, BODY, ROWS, NODES, BUFFERS, FIRST, STOP, MESSAGE_COLUMNS = range(9)
# columns of a column's row: what it is; bytes of a value (of a text's offsets), below 0 for signed ones where that
# matters; its number among nodes, and of its first buffer; the message of its dictionary
KIND, WIDTH, NODE, BUFFER, WORDS, COLUMN_COLUMNS = range(6)
# what a column is
NONE, STRUCT, FIXED, BITS, TEXT, BINARY, CODES = range(7)
# what is found of it: nulls; where its bits, its values or offsets, and its texts begin, and the bytes of these; rows
NULLS, VALID, VALUES, VALUE_BYTES, TEXTS, TEXT_BYTES, LENGTH, FOUND_COLUMNS = range(8)

# numbers that `fill` takes, by the width of theirs
FLOAT, SIGNED, UNSIGNED, TRUTH = range(4)

MOST_ROWS = 2**20  # of a message
_HIGH = np.uint64(0x8080808080808080)
_ONE, _EIGHT, _THREE, _SEVEN = np.uint64(1), np.uint64(8), np.uint64(3), np.uint64(7)
_TEN = np.uint64(10)
_CONTINUES = 0xFFFFFFFF


@kernel(inline=True)
def _whole(data, at, width):  # type: ignore[no-untyped-def]
    """An unsigned number of so many bytes."""
    found = np.uint64(0)
    for i in range(width):
        found |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return found


@kernel(inline=True)
def _signed(data, at, width):  # type: ignore[no-untyped-def]
    shift = np.int64(64 - 8 * width)
    return np.int64(_whole(data, at, width) << np.uint64(shift)) >> shift


@kernel
def check(data, longs, at, templates, fixed, messages, columns, found):  # type: ignore[no-untyped-def]
    """Whether the messages from `at` on have these layouts, end with the data, and all they hold is what it has to be.

    Parameters
    ----------
    data : uint8, the record. longs : int64 that begin at each of its bytes
    templates, fixed : uint8, metadata one after the other, and 1 for each byte that has to be the same
    messages, columns : int64, of MESSAGE_COLUMNS and COLUMN_COLUMNS
    found : (columns, FOUND_COLUMNS) int64, filled in

    Returns
    -------
    Rows of the last message, and bytes of all bodies; -1 where it is not so.
    """
    size, total, n = len(data), 0, -1
    for m in range(len(messages)):
        n_meta = messages[m, SIZE]
        if at + 8 + n_meta > size:
            return -1, 0
        if _whole(data, at, 4) != _CONTINUES or _whole(data, at + 4, 4) != np.uint64(n_meta):
            return -1, 0
        meta, template = at + 8, messages[m, TEMPLATE]
        for j in range(n_meta):
            if fixed[template + j] and data[meta + j] != templates[template + j]:
                return -1, 0
        body_bytes, n = longs[meta + messages[m, BODY]], longs[meta + messages[m, ROWS]]
        body = meta + n_meta
        if body_bytes < 0 or body_bytes % 8 != 0 or body_bytes > size - body or n < 0 or n > MOST_ROWS:
            return -1, 0
        total += body_bytes
        nodes, buffers = meta + messages[m, NODES], meta + messages[m, BUFFERS]
        for c in range(messages[m, FIRST], messages[m, STOP]):
            kind, width = columns[c, KIND], columns[c, WIDTH]
            node, first = nodes + 16 * columns[c, NODE], buffers + 16 * columns[c, BUFFER]
            nulls = longs[node + 8]
            if longs[node] != n or nulls < 0 or nulls > n or (kind == STRUCT and nulls > 0):
                return -1, 0
            found[c, NULLS], found[c, LENGTH], found[c, VALID] = nulls, n, -1
            if kind == NONE:
                if nulls != n:  # which nothing else says
                    return -1, 0
                continue
            n_buffers = 1 if kind == STRUCT else 3 if kind in (TEXT, BINARY) else 2
            for b in range(n_buffers):
                offset, length = longs[first + 16 * b], longs[first + 16 * b + 8]
                if offset < 0 or length < 0 or offset % 8 != 0 or offset > body_bytes or length > body_bytes - offset:
                    return -1, 0
            if nulls > 0:
                valid = body + longs[first]
                if 8 * longs[first + 8] < n:
                    return -1, 0
                missing = n
                for i in range(n):
                    missing -= (data[valid + (i >> 3)] >> (i & 7)) & 1
                if missing != nulls:
                    return -1, 0
                found[c, VALID] = valid
            if kind == STRUCT:
                continue
            values, n_bytes = body + longs[first + 16], longs[first + 24]
            found[c, VALUES], found[c, VALUE_BYTES] = values, n_bytes
            if kind == BITS:
                if 8 * n_bytes < n:
                    return -1, 0
                continue
            if kind == FIXED:
                if n_bytes < n * width:
                    return -1, 0
                continue
            if kind == CODES:
                wide = abs(width)
                if n_bytes < n * wide:
                    return -1, 0
                words = found[messages[columns[c, WORDS], FIRST], LENGTH]
                for i in range(n):
                    if nulls == 0 or (data[found[c, VALID] + (i >> 3)] >> (i & 7)) & 1:
                        code = _whole(data, values + i * wide, wide)
                        if width < 0:
                            signed = _signed(data, values + i * wide, wide)
                            if signed < 0 or signed >= words:
                                return -1, 0
                        elif code >= np.uint64(words):
                            return -1, 0
                continue
            texts, text_bytes = body + longs[first + 32], longs[first + 40]
            if n_bytes < (n + 1) * width:
                return -1, 0
            before = _signed(data, values, width)
            begin = before
            if before < 0:
                return -1, 0
            for i in range(1, n + 1):
                edge = np.int64(0)
                if width == 4:
                    p = np.uint64(values) + np.uint64(4 * i)
                    edge = np.int64(
                        np.int32(
                            np.uint32(data[p])
                            | np.uint32(data[p + np.uint64(1)]) << np.uint32(8)
                            | np.uint32(data[p + np.uint64(2)]) << np.uint32(16)
                            | np.uint32(data[p + np.uint64(3)]) << np.uint32(24)
                        )
                    )
                else:
                    edge = longs[np.uint64(values) + np.uint64(8 * i)]
                if edge < before:
                    return -1, 0
                before = edge
            if before > text_bytes:
                return -1, 0
            if kind == TEXT:  # ASCII alone is text for certain
                p, end, high = np.uint64(texts + begin), np.uint64(texts + before), np.uint64(0)
                while p + _EIGHT <= end:
                    high |= np.uint64(longs[p])
                    p += _EIGHT
                while p < end:
                    high |= np.uint64(data[p])
                    p += _ONE
                if high & _HIGH:
                    return -1, 0
            found[c, TEXTS], found[c, TEXT_BYTES] = texts, text_bytes
        at = body + body_bytes
    if at == size:
        return n, total
    if at + 8 == size and _whole(data, at, 4) == _CONTINUES and _whole(data, at + 4, 4) == 0:
        return n, total
    return -1, 0


@kernel
def fill(data, longs, doubles, floats, numbers, found, start, x, at):  # type: ignore[no-untyped-def]
    """Write numbers of a record to rows of x, NaN where missing; whether any is infinite.

    Parameters
    ----------
    data, longs, doubles, floats : the record, as numbers that begin at each of its bytes
    numbers : (k, 4) int64: a row of `found`, a column of x, what it is (FLOAT to TRUTH) and its width
    start : the first row. x, at : filled in from row `at` on, to its end
    """
    infinite, n = False, len(x) - at
    for k in range(len(numbers)):
        c, j, kind, width = numbers[k, 0], numbers[k, 1], numbers[k, 2], np.uint64(numbers[k, 3])
        values, valid = np.uint64(found[c, VALUES]), found[c, VALID]
        p = values + np.uint64(start) * width
        if kind == FLOAT and width == _EIGHT:
            for i in range(n):
                x[at + i, j] = doubles[p]
                p += width
        elif kind == FLOAT:
            for i in range(n):
                x[at + i, j] = np.float64(floats[p])
                p += width
        elif kind == TRUTH:
            for i in range(n):
                row = np.uint64(start + i)
                x[at + i, j] = np.float64((data[values + (row >> _THREE)] >> np.uint8(row & _SEVEN)) & np.uint8(1))
        elif kind == SIGNED:
            for i in range(n):
                x[at + i, j] = np.float64(_signed(data, p, width))
                p += width
        else:
            for i in range(n):
                x[at + i, j] = np.float64(_whole(data, p, width))
                p += width
        if kind == FLOAT:
            for i in range(n):
                infinite |= np.isinf(x[at + i, j])
        if valid >= 0:
            for i in range(n):
                row = np.uint64(start + i)
                if not (data[np.uint64(valid) + (row >> _THREE)] >> np.uint8(row & _SEVEN)) & np.uint8(1):
                    x[at + i, j] = np.nan
    return infinite


@kernel
def digits(data, at, width, out, stops):  # type: ignore[no-untyped-def]
    """Write whole numbers as texts, one behind the other.

    data, at : uint8, where the first begins. width : bytes of each, below 0 of signed ones. out : 20 bytes for each,
    filled in. stops : (n,) int64, filled in: where each ends
    """
    p, wide, end = at, abs(width), 0
    for i in range(len(stops)):
        left, negative = _whole(data, p, wide), False
        if width < 0:
            number = _signed(data, p, wide)
            negative = number < 0
            left = np.uint64(0) - np.uint64(number) if negative else np.uint64(number)
        if negative:
            out[end] = 45
            end += 1
        n, more = 1, left
        while more >= _TEN:
            more //= _TEN
            n += 1
        for j in range(n):
            out[end + n - 1 - j] = np.uint8(48) + np.uint8(left % _TEN)
            left //= _TEN
        end += n
        stops[i] = end
        p += wide
