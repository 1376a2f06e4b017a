"""What rules say about the arrays of a state: types, shapes, ranges, indices, links that make trees."""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Bound = float | NDArray[Any]

MANY = 1 << 62  # a count above it is none: sums of two still are numbers


class DamagedError(ValueError):
    """A state that no learner of this program writes: one sentence."""


class Arrays:
    """The arrays of a state by name, and what has to hold of them. Every method raises DamagedError, with a sentence
    that names the model and the array, where it does not.

    Parameters
    ----------
    model : str
        Its name.
    state : mapping of str to array
    """

    def __init__(self, model: str, state: Mapping[str, NDArray[Any]]) -> None:
        self.model, self.state = model, state

    def refuse(self, name: str, what: str) -> NoReturn:
        raise DamagedError(f"{self.model}: the state is none that this program writes, {name} {what}")

    def require(self, holds: Any, name: str, what: str) -> None:
        if not holds:
            self.refuse(name, what)

    def take(self, name: str, like: NDArray[Any], *shape: int | None) -> NDArray[Any]:
        """An array of the type of `like`, of this shape (None: any length; left out: the shape of `like`)."""
        if name not in self.state:
            self.refuse(name, "is missing")
        array = self.state[name]
        if array.dtype != like.dtype:
            self.refuse(name, f"has numbers of type {array.dtype}, not {like.dtype}")
        wanted = shape or like.shape
        if array.ndim != len(wanted) or any(n not in (None, m) for n, m in zip(wanted, array.shape, strict=True)):
            told = ", ".join("any" if n is None else str(n) for n in wanted)
            self.refuse(name, f"has shape {array.shape}, not ({told})")
        return array

    def fields(self, fresh: Any, *names: str, **shapes: tuple[int | None, ...]) -> list[NDArray[Any]]:
        """`take` of several arrays, like those of a fresh state. shapes : of those whose shape differs from that."""
        like = fresh._asdict()
        return [self.take(name, like[name], *shapes.get(name, ())) for name in names]

    # Numbers

    def within(self, name: str, values: ArrayLike, low: Bound, high: Bound, what: str = "numbers") -> None:
        """low <= each value <= high; NaN is not."""
        array = np.asarray(values)
        if array.size and not ((array >= low) & (array <= high)).all():
            wrong = array[~((array >= low) & (array <= high))].flat[0].item()
            told = f"{low} .. {high}" if np.ndim(low) == np.ndim(high) == 0 else "their range"
            self.refuse(name, f"has {what} outside {told}, {wrong}")

    def whole(self, name: str, values: ArrayLike, low: Bound, high: Bound, what: str = "numbers") -> None:
        """As `within`, and no fractions: of float64 that stand for counts, codes or places."""
        array = np.asarray(values)
        self.within(name, array, low, high, what)
        self.require((array == np.floor(array)).all(), name, f"has {what} that are not whole")

    def counts(self, name: str, values: ArrayLike) -> None:
        """Numbers of what happened: from 0 on, and far from overflow."""
        self.within(name, values, 0, MANY, "counts")

    def finite(self, name: str, values: ArrayLike) -> None:
        self.require(np.isfinite(values).all(), name, "has numbers that are not finite")

    def equal(self, name: str, found: ArrayLike, expected: ArrayLike, what: str) -> None:
        self.require(np.array_equal(found, expected), name, f"has {what} that the other arrays do not have")

    def random(self, name: str, state: NDArray[np.uint64]) -> None:
        """Of xoshiro, which never leaves a state of zeros."""
        self.require(state.reshape(-1, 4).any(axis=1).all(), name, "has no random state")

    # Links

    def each_once(self, name: str, values: ArrayLike, n: int, what: str) -> None:
        """Every one of 0 .. n - 1, and no other, once."""
        array = np.asarray(values)
        if len(array) != n:
            self.refuse(name, f"has {len(array)} {what}, of {n}")
        self.within(name, array, 0, n - 1, what)
        self.require((np.bincount(array, minlength=n) == 1).all(), name, f"has {what} twice")

    def owners(self, name: str, owner: ArrayLike, child: ArrayLike, n: int, roots: ArrayLike) -> Ints:
        """Of links from owners to children, nodes of 0 .. n - 1: the owner of each node, -1 where it has none.

        Every node has one owner, or is a root, and comes from a root: so no way down ends nowhere, or in itself.
        O(n log n), with n gathered as often as the logarithm.
        """
        above, below, first = (np.asarray(values, np.int64) for values in (owner, child, roots))
        self.each_once(name, np.concatenate([below, first]), n, "children")
        found = np.full(n, -1, np.int64)
        found[below] = above
        self.acyclic(name, found)
        return found

    def acyclic(self, name: str, following: ArrayLike) -> None:
        """Whoever goes on from node i to following[i] comes to -1. following : (n,), -1 .. n - 1."""
        n = len(np.asarray(following))
        at = np.append(np.asarray(following, np.int64), -1)
        at[at < 0] = n
        steps = 1
        while steps <= n:  # a way without a circle has n steps at most
            at = at[at]
            steps *= 2
        self.require((at == n).all(), name, "goes round in circles")

    def chain(self, name: str, first: int, following: ArrayLike, members: NDArray[np.bool_]) -> None:
        """From `first`, -1 for none, by `following` to -1, there are all members and no other. O(n log n)."""
        array = np.asarray(following, np.int64)[members]
        places = np.flatnonzero(members)
        of = np.full(len(members) + 1, -1, np.int64)
        of[places] = np.arange(len(places))
        heads = np.append(array, first)
        self.within(name, heads, -1, len(members) - 1, "places")
        nexts = heads[heads >= 0]
        self.require(members[nexts].all(), name, "has a place among the free ones that is not free")
        self.each_once(name, of[nexts], len(places), "free places")
        self.acyclic(name, of[array])
