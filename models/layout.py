"""What the arrays of a state are to each other, as whoever has the state declares it: `models.restoring` asks.

A class declares it in its attribute `layout`, where kernels follow its numbers into arrays. A length has a name, and
every array and number that goes by this name has to agree; "features" and "outputs" are those of the schema.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

# An array, a column of one, or numbers that follow from the state.
Column = str | tuple[str, int] | Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]


class Paths(NamedTuple):
    """Nodes that lead to others, by row numbers along the last axis.

    test : below 0 in a leaf. children : of an inner node, -1 for none. depth : what is greater in a child; without it,
    children stand in later rows. pairs : whether the row after a child is one, too. leaves : the length that the first
    of `children` is a place in where the node is a leaf. mapped : where a node's children begin in an array of such,
    how many, and that array.
    """

    test: Column
    children: tuple[Column, ...]
    depth: Column | None = None
    pairs: bool = False
    leaves: str = ""
    mapped: tuple[Column, Column, str] | None = None


class StateLayout(NamedTuple):
    """The declaration; what is left out has the shape of a fresh state, and leads nowhere.

    rows : arrays -> the names of the lengths of their axes; "*" for any, "=" for that of a fresh state, which every
    axis has that is not there. counts : numbers that come to a length together. places : numbers below a length, or -1
    or -2 for nowhere. bounded : numbers from 0 to a length. parts : how the names begin of arrays that are the state of
    others, who restore them. Several names of arrays stand with spaces between them.
    """

    rows: Mapping[str, str] = {}
    counts: Mapping[Column, str] = {}
    places: Mapping[Column, str] = {}
    bounded: Mapping[Column, str] = {}
    paths: tuple[Paths, ...] = ()
    parts: tuple[str, ...] = ()
