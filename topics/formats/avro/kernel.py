"""Walks a block of Avro records by the program of their schema (`program`), and fills columns at once.

The kernel is speculation. It takes a record only where nothing about it is unusual, and leaves all others to
`reader`, which is the truth about values and reasons: what the kernel takes, it takes with the bits that the
reader would give. Each read is checked against the end of its record. Every turn of a list
takes at least a byte of it, so a walk ends.

`block` imports this module, and with it numba, when the first block is read.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.topics.formats.common.cells import NONE, REALS, SYMBOLS, TEXTS, TRUTHS, WHOLES

# What a line of a program does, with its values a, b and c. A `column` is one of the numbers, a `slot` another field.
(
    END,  # the record ends here
    UNUSUAL,  # only the reader can tell
    SKIP,  # a : bytes
    SKIP_LONG,
    SKIP_BYTES,  # a length, and as many bytes
    SKIP_BOOLEAN,
    DOUBLE,  # a : column
    MAYBE_DOUBLE,  # a : column, -1 to pass over. b : place of null in the union
    FLOAT,  # a : column
    LONG,  # a : column
    BOOLEAN,  # a : column
    DECIMAL,  # a : column, or -1 - slot. b : what it is divided by. c : bytes, -1 where a length stands before them
    BRANCH,  # a : how many branches. b : of the first one in `targets`
    JUMP,  # a : line
    LIST,  # a : which counter. b : line behind the list
    NEXT,  # a : which counter. b : line of LIST
    TEXT,  # a : slot
    WHOLE,  # a : slot
    STAMP,  # a : slot. b : what the time is multiplied by. c : or divided by
    REAL,  # a : slot. b : bytes of the number
    TRUTH,  # a : slot
    SYMBOL,  # a : slot. b : where its symbols begin. c : how many there are
    THERE,  # a : slot
) = range(23)

# What became of a record.
TAKEN, LEFT, OTHER = range(3)  # OTHER : it begins with another head

MOST_COUNTERS = 16
_EXACT = 1 << 53  # up to here a whole number is a float64, and a division of two is as Python's of whole numbers
_SECONDS_BELOW = 1e11  # topics.decoding.times


@kernel(inline=True)
def _long(data, p, end):  # type: ignore[no-untyped-def]
    """The whole number at p, and where it ends; -1 where it does not, or takes more than nine bytes."""
    n, shift = np.int64(0), 0
    while p < end and shift < 63:
        b = np.int64(data[p])
        p += 1
        n |= (b & 127) << shift
        if b < 128:
            return (n >> 1) ^ -(n & 1), p
        shift += 7
    return np.int64(0), -1


@kernel
def walk(  # type: ignore[no-untyped-def]
    data, doubles, floats, begins, ends, rows, head, program, targets, counts,
    numbers, kinds, wholes, reals, stops, beyond, out,
):  # fmt: skip
    """Fills the columns of the records that it takes.

    Parameters
    ----------
    data : uint8, the bytes of all records, and at least 8 more
    doubles, floats : the numbers that begin at each of these bytes
    begins, ends : of each record in data
    rows : the records to walk
    head : uint8, what they have to begin with
    program : (lines, 4) int64. targets : int64. counts : int64, one for each counter
    numbers : (n, columns) float64, filled in
    kinds : (slots, n) uint8, filled in with what a slot holds
    wholes, reals : (slots, n) int64 and float64 on the same memory. A text begins at `wholes` and ends at `stops`.
    beyond : (slots,) uint8, set to 1 where a text is not ASCII
    out : (n,) uint8, filled in with what became of each record
    """
    for i in rows:
        p, end, pc = begins[i], ends[i], 0
        out[i] = OTHER
        if end - p < head.size:
            continue
        same = True
        for j in range(head.size):
            same &= data[p + j] == head[j]
        if not same:
            continue
        p += head.size
        out[i] = LEFT
        while True:
            op, a, b, c = program[pc, 0], program[pc, 1], program[pc, 2], program[pc, 3]
            pc += 1
            if op == DOUBLE:
                if end - p < 8:
                    break
                v = doubles[p]
                if np.isinf(v):
                    break
                numbers[i, a] = v
                p += 8
            elif op == MAYBE_DOUBLE:
                if end - p < 1:
                    break
                n = np.int64(data[p])
                p += 1
                if n == 2 - 2 * b:
                    if end - p < 8:
                        break
                    if a >= 0:
                        v = doubles[p]
                        if np.isinf(v):
                            break
                        numbers[i, a] = v
                    p += 8
                elif n != 2 * b:
                    break
            elif op == FLOAT:
                if end - p < 4:
                    break
                v = np.float64(floats[p])
                if np.isinf(v):
                    break
                numbers[i, a] = v
                p += 4
            elif op == LONG:
                n, p = _long(data, p, end)
                if p < 0:
                    break
                numbers[i, a] = np.float64(n)
            elif op == TEXT:
                n, p = _long(data, p, end)
                if p < 0 or n < 0 or n > end - p:
                    break
                high = np.uint8(0)
                for j in range(p, p + n):
                    high |= data[j]
                if high > 127:
                    beyond[a] = 1
                kinds[a, i], wholes[a, i] = TEXTS, p
                p += n
                stops[a, i] = p
            elif op == BRANCH:
                n, p = _long(data, p, end)
                if p < 0 or n < 0 or n >= a:
                    break
                pc = targets[b + n]
            elif op == JUMP:
                pc = a
            elif op == SKIP:
                if end - p < a:
                    break
                p += a
            elif op == SKIP_BYTES:
                n, p = _long(data, p, end)
                if p < 0 or n < 0 or n > end - p:
                    break
                p += n
            elif op == SKIP_LONG:
                n, p = _long(data, p, end)
                if p < 0:
                    break
            elif op in (BOOLEAN, SKIP_BOOLEAN, TRUTH):
                if end - p < 1 or data[p] > 1:
                    break
                if op == BOOLEAN:
                    numbers[i, a] = np.float64(data[p])
                elif op == TRUTH:
                    kinds[a, i], wholes[a, i] = TRUTHS, np.int64(data[p])
                p += 1
            elif op == WHOLE:
                n, p = _long(data, p, end)
                if p < 0:
                    break
                kinds[a, i], wholes[a, i] = WHOLES, n
            elif op == STAMP:
                n, p = _long(data, p, end)
                if p < 0 or abs(n) > _EXACT:
                    break
                v = np.float64(n) * b / c
                if -_SECONDS_BELOW < v < _SECONDS_BELOW:
                    v /= 1000.0
                kinds[a, i], reals[a, i] = REALS, v
            elif op == REAL:
                if end - p < b:
                    break
                v = doubles[p] if b == 8 else np.float64(floats[p])
                if np.isinf(v):
                    break
                if np.isnan(v):
                    kinds[a, i] = NONE
                else:
                    kinds[a, i], reals[a, i] = REALS, v
                p += b
            elif op == SYMBOL:
                n, p = _long(data, p, end)
                if p < 0 or n < 0 or n >= c:
                    break
                kinds[a, i], wholes[a, i] = SYMBOLS, b + n
            elif op == THERE:
                kinds[a, i], wholes[a, i] = TRUTHS, 1
            elif op == LIST:
                n, p = _long(data, p, end)
                if p >= 0 and n < 0:
                    n = -n
                    _, p = _long(data, p, end)  # how many bytes the items take
                if p < 0 or n > end - p:
                    break
                counts[a] = n
                if n == 0:
                    pc = b
            elif op == NEXT:
                counts[a] -= 1
                pc = b + 1 if counts[a] > 0 else b
            elif op == DECIMAL:
                n = c
                if c < 0:
                    n, p = _long(data, p, end)
                if p < 0 or n < 0 or n > end - p:
                    break
                whole = np.int64(0)
                if n > 0 and data[p] > 127:
                    whole = np.int64(-1)
                for j in range(p, p + n):
                    if abs(whole) <= _EXACT:
                        whole = (whole << 8) | np.int64(data[j])
                if abs(whole) > _EXACT:
                    break
                v = np.float64(whole) / np.float64(b)
                if a >= 0:
                    numbers[i, a] = v
                else:
                    kinds[-1 - a, i], reals[-1 - a, i] = REALS, v
                p += n
            else:
                if op == END and p == end:
                    out[i] = TAKEN
                break
