"""How many values of nominal features the members of `auto`'s pool see, so that bytes are kept whatever values come.

Values that the stream file lists are as many as it lists. Others are learned, up to `max_values`. Who keeps numbers of
each value in every leaf would take gigabytes of 5,000, so members see fewer (models.opinion_pool.views).

Where the file names max_values, and it is more than ten: trees see the first FIRST values, and members of fixed size as
many as take no more than a share of the bytes, and of the time. Where there may be two classes only, or labels are
values, all see the mean target of each value beside them.

Where it does not, ten values are reckoned and nothing is beside them, since there are mostly few: a model of few values
does not depend on how many there could be. Trees see as many more as fit into what powers of two leave of their bytes,
and members of fixed size as many as a little more takes.

Neither bounds what shrubs and neighbours see, whose size does not depend on values.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from riparian.models.auto import costs
from riparian.models.auto.costs import StreamShape

TEN = 10  # classes, or values of a feature, that are reckoned where the stream file leaves them to be learned
FIRST = 16  # values that trees see of a feature that may have many
CAPS = (TEN, 16, 32, 64, 128, 256, 512, 1024)
MANY = (1_000_000, 4096, 2048, 1024, 512, 256, 128, 64, 32)
# Members of fixed size, and the share of the bytes that each may take for many values; of the time, SHARE.
FIXED = {"soft": 0.25, "sums": 0.1, "bayes": 0.05}
ANY = ("last", "repeats", "small-shrubs", "few-shrubs", "shrubs", "short-near", "near")  # of whatever many values
BITS = 64  # values that a Mondrian forest distinguishes; with more it also takes several times as long
SHARE = 0.05
LITTLE = 0.03  # of the bytes, beyond those reckoned, for more than ten values where no bound is named
TABLES = 0.05  # of the bytes, for mean targets
DEPTHS = (costs.SOFT_DEPTH, 6, 5)  # of a soft Hoeffding tree that sees many values


class Values(NamedTuple):
    """Of the features of a stream.

    reckoned : of each feature, 0 for a numeric one.
    named : features whose values are learned up to a bound that the stream file names, and that is reckoned.
    bounds : of the features of which ten are reckoned, how many values may come.
    binary : whether labels are values, or may be of two classes only: of more, a mean target shows little.
    """

    reckoned: Sequence[int]
    named: Sequence[int] = ()
    bounds: Mapping[int, int] = {}
    binary: bool = True

    @property
    def many(self) -> list[int]:
        """Features of which trees do not see all values."""
        return [f for f in self.named if self.reckoned[f] > TEN]


class ReducedShape(NamedTuple):
    """What a member sees. shape : as it is reckoned. most : of features, the values that it sees. means : features
    whose mean targets it sees. depth : of the soft tree."""

    shape: StreamShape
    most: Mapping[int, int] = {}
    means: Sequence[int] = ()
    depth: int = costs.SOFT_DEPTH


class Sight:
    """What the members of a pool see of a stream.

    Parameters
    ----------
    task, values, n_classes : of the stream.
    most_bytes, most_microseconds : of the pool.
    """

    def __init__(self, task: str, values: Values, n_classes: int, most_bytes: int, most_microseconds: float) -> None:
        self._task, self._values, self._n_classes = task, values, n_classes
        self._bytes, self._microseconds = most_bytes, most_microseconds
        means, left = [], TABLES * most_bytes
        for f in sorted(values.many, key=lambda f: values.reckoned[f]):
            left -= 16 * (1 + values.reckoned[f])
            means += [f] if left >= 0.0 and values.binary else []
        self._means = sorted(means)
        self._first = dict.fromkeys(values.many, FIRST)
        self.table_bytes = sum(16 * (1 + values.reckoned[f]) for f in means)

    def _shape(self, most: Mapping[int, int], means: Sequence[int]) -> StreamShape:
        """Of a member that sees so many values."""
        n_values, many = list(self._values.reckoned), 0
        for f in self._values.many:
            n_values[f] = min(n_values[f], most.get(f, n_values[f]))
            many += n_values[f] - TEN
        for f in self._values.bounds:
            n_values[f] = max(n_values[f], most.get(f, 0))
        return StreamShape(self._task, [*n_values, *(0 for _ in means)], self._n_classes, many)

    def of(self, kind: str) -> ReducedShape:
        """What members of the kind see, of features whose bound is not named ten values."""
        if not self._values.many:
            return ReducedShape(self._shape({}, ()))
        if kind == "last":
            return ReducedShape(self._shape(self._first, ())._replace(many=0))
        if kind in ANY:
            return ReducedShape(self._shape(self._first, self._means)._replace(many=0), {}, self._means)
        for cap in MANY if kind in FIXED else ():
            most = {f: cap for f in self._values.many if self._values.reckoned[f] > cap}
            shape = self._shape(most, self._means)
            slow = costs.microseconds(shape, kind) - costs.microseconds(shape._replace(many=0), kind)
            for depth in DEPTHS if kind == "soft" else DEPTHS[:1]:
                fits = costs.fixed_bytes(shape, kind, depth) <= FIXED[kind] * self._bytes
                if fits and slow <= SHARE * self._microseconds:
                    return ReducedShape(shape, most, self._means, depth)
        return ReducedShape(self._shape(self._first, self._means), self._first, self._means)

    def width(self, seen: Collection[ReducedShape]) -> int:
        """Numbers of each row in the chunks that a pool shows to members who see a stream like this."""
        if not self._values.many:
            return 0  # chunks of shorter rows have room for them
        views = {(tuple(one.most.items()), tuple(one.means)): len(one.shape.n_values) for one in seen}
        return sum(width for view, width in views.items() if view != ((), ())) + len(self._means)

    def widened(self, kind: str, takes: Callable[[StreamShape], float], room: float) -> ReducedShape:
        """`of` with as many values as fit of features whose bound is not named. takes : the bytes of a member. room :
        those that it may take."""
        seen, bounds = self.of(kind), self._values.bounds
        if kind in ANY or not bounds:
            return seen
        most = dict(seen.most)
        for cap in CAPS:
            if kind == "mondrian" and cap > BITS:
                break
            wider = {**seen.most, **{f: min(cap, bound) for f, bound in bounds.items()}}
            if cap == TEN or takes(self._shape(wider, seen.means)) <= room:
                most = wider
        return seen._replace(most={f: n for f, n in most.items() if n < bounds.get(f, n + 1)})

    def parameters(self, seen: ReducedShape) -> dict[str, Any]:
        """The parameters of a member of a pool that define what it sees."""
        d = len(self._values.reckoned)
        reduced: dict[str, Any] = {"max_values": [seen.most.get(f, 0) for f in range(d)]} if seen.most else {}
        reduced |= {"target_means": list(seen.means)} if seen.means else {}
        return reduced | ({"max_depth": seen.depth} if seen.depth != costs.SOFT_DEPTH else {})
