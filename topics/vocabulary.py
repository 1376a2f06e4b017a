"""Values that are not numbers, as codes 0, 1, 2, … in order of first sight.

A vocabulary is bounded, and depends only on the values that it was shown and their order, not on the size of batches.
JSON has several ways to write one value, so values are compared by their *canonical text*: `1`, `1.0` and `"1"` are one
value, and so are `true` and `"true"`.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence

import msgspec

Scalar = str | int | float | bool

JSON_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"  # a pattern

UNKNOWN = -1
# What Debezium writes for a value that the database did not give it, in texts and (in base64) in bytes.
UNAVAILABLE = "__debezium_unavailable_value"
UNAVAILABLE_BASE64 = b64encode(UNAVAILABLE.encode()).decode()
# Longer texts are rejected: millions of ids wait in memory, and values are part of every checkpoint.
MAX_TEXT = 1024
# Integers beyond this are not all floats, so a float stands for itself there.
_EXACT = 2.0**53
# Integers beyond these cannot be written by the encoders, and are kept as their texts.
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def canonical(value: Scalar) -> str:
    """The text that stands for a JSON value: strings are themselves, 1.0 is "1", true is "true"."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return str(value)


UNTOLD = (UNAVAILABLE, UNAVAILABLE_BASE64)
MISSING = (None, *UNTOLD)  # what stands for no value


class Vocabulary:
    """A bounded mapping of values to codes.

    Parameters
    ----------
    limit : int
        The most values it takes, at least 1. At the bound a new value has no code.
    declared : sequence of str, int, float or bool, optional
        Values known from the start, in this order. A vocabulary with declared values is closed: it learns no other.
    max_bytes : int, optional
        The most bytes of a new value's text as JSON writes it. At most `MAX_TEXT` characters otherwise.

    Attributes
    ----------
    values : list
        The values in order of their codes, in the JSON form in which they were declared or first seen.
    texts : list of str
        Their canonical texts.
    """

    def __init__(self, limit: int, declared: Sequence[Scalar] | None = None, max_bytes: int | None = None) -> None:
        self.max_bytes = max_bytes
        self.closed = declared is not None
        self.declared = list(declared or ())
        self.limit = len(self.declared) if self.closed else limit
        if self.limit < 1:
            raise ValueError(f"a vocabulary holds at least one value, found a limit of {self.limit}; raise it")
        self.values: list[Scalar] = []
        self.texts: list[str] = []
        # Floats, because codes go into float64 rows. None, a missing value, has the code NaN; so has one that is
        # unavailable, unless it is declared, or was learned as a value.
        self.codes: dict[str | None, float] = {}
        self._fill(self.declared)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def capacity(self) -> int:
        """Room to reserve for codes: a power of two, at least 2, that holds all values (closed: their number).

        A function of the number of values alone, so that it does not depend on the history of a restart.
        """
        if self.closed:
            return max(2, len(self.values))
        return max(2, min(1 << max(0, len(self.values) - 1).bit_length(), self.limit))

    def too_long(self, text: str) -> str | None:
        """What is wrong with the length of a new value's text, or None."""
        if len(text) > MAX_TEXT:
            return f"{len(text)} characters, at most {MAX_TEXT}"
        if self.max_bytes is not None:
            n_bytes = len(msgspec.json.encode(text)) - 2  # without the quotes
            if n_bytes > self.max_bytes:
                return f"{n_bytes} bytes as JSON, at most {self.max_bytes}"
        return None

    def find(self, value: Scalar) -> int:
        """The code of `value`, or -1 where it is unknown. Learns nothing."""
        known = self.codes.get(canonical(value), UNKNOWN)
        return UNKNOWN if known != known else int(known)

    def code(self, value: Scalar) -> int:
        """The code of `value`, a new one at first sight; -1 where the vocabulary is closed or at its bound."""
        text = canonical(value)
        known = self.codes.get(text)
        if known is not None:
            return UNKNOWN if known != known else int(known)
        if self.closed or len(self.values) >= self.limit:
            return UNKNOWN
        self._append(value, text)
        return len(self.values) - 1

    def state(self) -> list[Scalar]:
        """The values in order of their codes: everything a vocabulary knows, as JSON or msgpack can hold it."""
        return list(self.values)

    def restore(self, state: Iterable[Scalar]) -> None:
        """Take over an earlier `state()`.

        A closed vocabulary may have been extended at its end since; anything else would give old codes a new
        meaning, and is a ValueError.
        """
        known = list(state)
        if self.closed:
            declared = [canonical(value) for value in self.declared]
            if [canonical(value) for value in known] != declared[: len(known)]:
                raise ValueError(
                    f"the state was made with the values {known}, the stream file declares {self.declared}: "
                    "only add values at the end, or give the stream a new name to start afresh"
                )
            return
        if len(known) > self.limit:
            raise ValueError(
                f"the state holds {len(known)} values, the stream file allows {self.limit}: raise the limit"
            )
        self._fill(known)

    def _fill(self, values: Iterable[Scalar]) -> None:
        self.values, self.texts, self.codes = [], [], dict.fromkeys(MISSING, float("nan"))
        for value in values:
            text = canonical(value)
            if self.codes.get(text, float("nan")) >= 0.0:
                raise ValueError(f'expected every value once, found "{text}" twice; remove one')
            self._append(value, text)

    def _append(self, value: Scalar, text: str) -> None:
        if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
            value = text
        self.codes[text] = float(len(self.values))
        self.values.append(value)
        self.texts.append(text)
