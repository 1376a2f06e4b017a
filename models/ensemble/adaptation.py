"""Trees that are watched for drift: another one grows beside, and who errs less on the same labels votes.

Gomes et al. 2017, section 3.2 (adaptive random forests), and Gomes, Read and Bifet 2019 (streaming random patches). A
member has a tree that votes, and at most one beside it, which learns the same labels with the same weights. Two ADWIN
windows (models.ensemble.windows) hold the errors of the one that votes, on each label before learning it. A rise of
the sensitive one is a *warning*: a background tree begins beside, unless there is one. A rise of the other one is a
*drift*: the younger tree votes from the next operation on, the one beside or else a fresh one.

What errors rise for may be over soon, or new without making false what was learned: places that come into view for the
first time, or again. So the older tree is not thrown away at a drift, but stays beside, and learns on. The two are
compared by their errors on the same labels: d is the error of the tree beside less that of the one that votes, and who
has (sum d)^2 > PROOF sum d^2 against it, looked at each CLOCK labels, is worse. That is McNemar's test where errors are
0 or 1, and the bound on self-normalised sums (Efron 1969) for any errors, whatever their scale. Then

- the one beside votes, if it is the better one, be it younger or older; both windows begin anew;
- it is dropped, if it is worse and older: what it knew has become false;
- it goes on, if it is worse and younger: it is still learning;
- and after PATIENCE labels without proof the one with more errors on them is dropped; if they are equal, the younger.

A chunk (models.ensemble.chunks) is run in pieces: all trees run a piece, and then it is seen which of them voted where.
A tree that has run a piece has learned what it would have, one instance after the other, whoever votes, so nothing is
taken back: only a tree that begins within a piece runs the rest of it. The result is the same, bit for bit.

Deviations from MOA: the older tree stays as said (there it is dropped, and where patches begin no background tree
between two drifts, the second one by mistake changes nothing); a background tree that is better does not wait for a
drift; errors are those before learning, of every label (there: of predictions made again *after* the tree has learned
the label, where the bootstrap drew it at least once); only a rise counts (there any change: also trees that have become
better are replaced, which costs 7 points on pendigits); a successor brings its accuracy along (there it begins at 0,
which counts as 1 in the vote); background trees of forests learn with drawn weights, too, as in the paper's algorithm.
"""

import math
from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import PREDICT, Floats, Program, Schema
from models.description import moved
from models.draws import key
from models.ensemble.bagging import OnlineBagging
from models.ensemble.chunks import AVERAGE, N_QUALITY, Chunk, weigh
from models.ensemble.windows import CLOCK, DRIFT, WARNING, ErrorWindows, ResidualWindows
from models.kernel import kernel

BACK = "back_"
# Places in `numbers` of a member.
BEGUN, FRONT_NUMBER, BACK_NUMBER = range(3)
TREE = 2  # what draws are for
PIECE = 2048  # operations between two looks at the errors: what a tree begun at once costs, against calls
PROOF = 6.0  # 2 ln(1 / 0.05)
PATIENCE = 2048
# Places in `compared` of a member: the sums of d and of its square, and labels.
DIFFERENCE, SQUARES, LABELS = range(3)
UNDECIDED, BETTER, WORSE = range(3)  # the tree beside


class Adaptation(NamedTuple):
    """How members are watched, and vote.

    drift_detection : whether they are.
    background_trees : whether trees begin at warnings.
    vote, fading : as models.ensemble.chunks.weigh has them.
    """

    warning_delta: float
    drift_delta: float
    drift_detection: bool
    background_trees: bool
    vote: int
    fading: float


class Ballot(NamedTuple):
    """What a member fills in when it runs a chunk.

    votes : (n_rows, n_outputs), by rows of the chunk.
    errors : (n,), scratch.
    factors : (n_rows,), how much each vote counts.
    quality : (3,), of the tree that votes.
    """

    votes: Floats
    errors: Floats
    factors: Floats
    quality: Floats


class Grown:
    """A tree of a member: its number, its quality, and of a chunk its votes by rows and its errors on labels."""

    votes: Floats
    errors: Floats

    def __init__(self, tree: Any, number: int) -> None:
        self.tree, self.number = tree, number
        self.quality = np.zeros(N_QUALITY)

    def run(self, chunk: Chunk, program: Program, start: int, stop: int) -> None:
        piece = program if stop - start == len(program.op) else program.part(start, stop)
        self.tree.run(piece, chunk.slab, self.votes, self.errors[start:stop])


class WatchedTree:
    """A member of a forest: the tree that votes, the one beside it if there is one, and the windows.

    State: numbers : (3,) int64, trees begun, the number of the tree that votes and that of the one beside, or -1; the
    smaller one is the older. windows : (2, 193) int32. back_quality : (3,) float64, of the tree beside
    (models.ensemble.chunks). compared : (3,) float64, see DIFFERENCE. The fields of the tree's state under their names,
    those of the tree beside after "back_", of length 0 where there is none.
    """

    def __init__(self, grow: Callable[[int], Any], how: Adaptation) -> None:
        """grow(number) : a fresh tree for the present schema; what it draws depends on its number."""
        self._grow = grow
        self._how = how
        self._begun = 0
        self._front = self._begin()
        self._back: Grown | None = None
        self._regression = self._front.tree.schema.task == "regression"
        windows = ResidualWindows if self._regression else ErrorWindows
        self._windows: Any = windows(how.warning_delta, how.drift_delta)
        self._compared = np.zeros(3)

    @property
    def tree(self) -> Any:
        """The tree that votes."""
        return self._front.tree

    def _begin(self) -> Grown:
        self._begun += 1
        return Grown(self._grow(self._begun - 1), self._begun - 1)

    def run(self, chunk: Chunk, program: Program, ballot: Ballot) -> None:
        """Run a chunk. program : its operations with the member's weights. Mutates the arrays of the ballot."""
        n = len(program.op)
        self._front.votes, self._front.errors = ballot.votes, ballot.errors
        self._front.quality[:] = ballot.quality
        if self._back is not None:
            self._part_votes(ballot, self._back)
        for start in range(0, n, PIECE):
            stop = min(start + PIECE, n)
            for grown in (self._front, self._back):
                if grown is not None:
                    grown.run(chunk, program, start, stop)
            at = start
            while at < stop:
                at = self._next(chunk, program, ballot, at, stop)
        ballot.quality[:] = self._front.quality

    def _part_votes(self, ballot: Ballot, grown: Grown) -> None:
        """Give a tree that comes beside votes and errors of its own, and the other one, too, if it has none."""
        if self._front.votes is ballot.votes:
            self._front.votes, self._front.errors = ballot.votes.copy(), ballot.errors.copy()
        grown.votes, grown.errors = np.empty_like(ballot.votes), np.empty_like(ballot.errors)

    def _next(self, chunk: Chunk, program: Program, ballot: Ballot, start: int, stop: int) -> int:
        """Go on to the next change of the trees, or to `stop`, which all trees have run to; how far."""
        if not self._how.drift_detection:
            self._count(chunk, ballot, start, stop)
            return stop
        at, event = self._windows.first_event(chunk, self._front.errors, start, stop)
        if self._back is not None:
            older = self._back.number < self._front.number
            decided, verdict = compare(
                chunk.ordinal, self._front.errors, self._back.errors, start, at, older, self._compared
            )
            if verdict != UNDECIDED and not (event == DRIFT and decided == at):
                self._count(chunk, ballot, start, decided)
                if verdict == BETTER:
                    self._exchange()
                    if self._compared[LABELS] >= PATIENCE:
                        self._back = None
                    self._compared[:] = 0.0
                    return int(decided)
                self._back = None
                self._compared[:] = 0.0
                start = int(decided)
        self._count(chunk, ballot, start, at)
        if event == DRIFT:
            if self._back is None or self._back.number < self._front.number:
                fresh = self._begin()
                self._part_votes(ballot, fresh)
                fresh.run(chunk, program, at, stop)
                older_one = self._front if self._back is None else self._back
                self._front, self._back = fresh, older_one
                self._windows.forget(slice(None))
            else:
                self._exchange()
            self._compared[:] = 0.0
        elif event == WARNING:
            self._windows.forget(WARNING)
            if self._how.background_trees and self._back is None:
                self._back = self._begin()
                self._part_votes(ballot, self._back)
                self._back.run(chunk, program, at, stop)
                self._compared[:] = 0.0
        return int(at)

    def _exchange(self) -> None:
        """Let the tree beside vote."""
        assert self._back is not None
        self._front, self._back = self._back, self._front
        self._windows.forget(slice(None))

    def _count(self, chunk: Chunk, ballot: Ballot, start: int, stop: int) -> None:
        """Take the votes of the tree that votes in operations start .. stop, and keep the quality of both."""
        op, row, _, w = chunk.program
        ordinal = chunk.ordinal
        if stop - start < len(op):
            op, row, w, ordinal = op[start:stop], row[start:stop], w[start:stop], ordinal[start:stop]
        front, back = self._front, self._back
        if front.votes is not ballot.votes:
            take(op, row, front.votes, ballot.votes)
        weigh(
            op, row, ordinal, w, front.errors[start:stop], self._how.vote, self._regression, self._how.fading,
            front.quality, ballot.votes, ballot.factors,
        )  # fmt: skip
        if back is not None:
            weigh(
                op, row, ordinal, w, back.errors[start:stop], AVERAGE, self._regression, self._how.fading,
                back.quality, back.votes, np.empty(len(back.votes)),
            )  # fmt: skip

    def resize(self, schema: Schema) -> None:
        self._front.tree.resize(schema)
        if self._back is not None:
            self._back.tree.resize(schema)

    def state(self) -> Any:
        front = self._front.tree.state()._asdict()
        back = {name: array[:0] for name, array in front.items()}
        back_number, back_quality = -1, np.zeros(N_QUALITY)
        if self._back is not None:
            back = self._back.tree.state()._asdict()
            back_number, back_quality = self._back.number, self._back.quality
        numbers = np.array([self._begun, self._front.number, back_number], np.int64)
        fields = {"numbers": numbers, **self._windows.state(), "back_quality": back_quality, "compared": self._compared}
        fields |= front | {BACK + name: array for name, array in back.items()}
        return _state_type(tuple(fields))(**fields)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """As Learner.restore. States written before trees were compared have no "compared"."""
        self._begun, front, back = (int(number) for number in state["numbers"])
        self._windows.restore(state)
        self._compared = np.array(state.get("compared", np.zeros(3)), np.float64)
        self._front = Grown(self._grow(front), front)
        fresh = self._front.tree.state()._asdict()
        if any(state[name].shape[1:] != array.shape[1:] for name, array in fresh.items()):
            raise ValueError(
                "its trees look at another number of features than trees do by these parameters now (at least two, "
                "where there are two): begin with a fresh state"
            )
        self._front.tree.restore({name: state[name] for name in fresh})
        self._back = None
        if back >= 0:
            self._back = Grown(self._grow(back), back)
            self._back.quality[:] = state["back_quality"]
            self._back.tree.restore({name: state[BACK + name] for name in fresh})

    def describe(self) -> list[dict[str, Any]]:
        """The nodes of the tree that votes, then those of the one beside, whose root has "background", true."""
        nodes: list[dict[str, Any]] = self._front.tree.describe()
        if self._back is not None:
            back = moved(self._back.tree.describe(), len(nodes), None, 0)
            back[0]["background"] = True
            nodes += back
        return nodes

    def size(self) -> dict[str, int]:
        sizes = [grown.tree.size() for grown in (self._front, self._back) if grown is not None]
        total = {name: sum(size[name] for size in sizes) for name in ("n_nodes", "n_leaves")}
        return total | {"depth": max(size["depth"] for size in sizes)}


@kernel
def compare(ordinal, errors, others, start, stop, older, compared):
    """Add the differences of the errors on labels from operation `start` on, up to the first verdict; the operation
    after it, and the verdict, or `stop` and UNDECIDED. errors, others : of the tree that votes, and of the one beside.
    older : whether the one beside is. Mutates compared. O(n)."""
    for i in range(start, stop):
        if ordinal[i] < 0:
            continue
        difference = others[i] - errors[i]
        if difference != difference:  # one of them knew nothing
            continue
        compared[DIFFERENCE] += difference
        compared[SQUARES] += difference * difference
        compared[LABELS] += 1.0
        if compared[LABELS] % CLOCK != 0.0:
            continue
        proven = compared[DIFFERENCE] * compared[DIFFERENCE] > PROOF * compared[SQUARES]
        better = compared[DIFFERENCE] < 0.0 or (compared[DIFFERENCE] == 0.0 and older)
        if compared[LABELS] >= PATIENCE or (proven and (better or older)):
            return i + 1, BETTER if better else WORSE
    return stop, UNDECIDED


@kernel
def take(op, row, votes, out):
    """Copy the votes on the rows that are predicted. Mutates out. O(n n_outputs)."""
    for i in range(len(op)):
        if op[i] == PREDICT:
            for c in range(out.shape[1]):
                out[row[i], c] = votes[row[i], c]


class WatchedForest(OnlineBagging):
    """Base class of forests of watched trees. Subclasses implement `_new_tree`."""

    def _set_up(self) -> None:
        super()._set_up()
        p = self._parameters
        self._how = Adaptation(
            p["warning_delta"], p["drift_delta"], p["drift_detection"], p["background_trees"], self._vote, self.FADING
        )

    @abstractmethod
    def _new_tree(self, seed: int) -> Any:
        """A fresh tree for the present schema."""

    def _new_member(self, serial: int) -> WatchedTree:
        return WatchedTree(lambda number: self._new_tree(int(key(self.seed, serial, TREE, number) >> 1)), self._how)

    def _run_member(self, slot: int, chunk: Chunk, votes: Floats, errors: Floats) -> None:
        n_rows = len(chunk.source)  # a tree that comes beside copies votes: of a short chunk, not of the longest
        ballot = Ballot(votes[:n_rows], errors, self._factors[slot, :n_rows], self._quality[slot])
        self._members[slot].run(chunk, self._draw(slot, chunk), ballot)

    def _weigh(self, slot: int, chunk: Chunk, errors: Floats) -> None:
        """Members do so: they know which of their trees votes."""


def n_chosen(parameters: Mapping[str, Any], n_features: int) -> int:
    """Features of a subset: a share of all, rounded, or the square root and one, as in MOA; at least two, where there
    are two, since a tree of one feature sees nothing that takes two of them (MOA: patches so, forests one)."""
    share = float(parameters["feature_share"])
    counts = {"all": n_features, "sqrt": round(math.sqrt(n_features)) + 1, "share": round(share * n_features)}
    return min(n_features, max(2, counts[parameters["max_features"]]))


@cache
def _state_type(fields: Sequence[str]) -> Any:
    return namedtuple("WatchedTreeState", fields)
