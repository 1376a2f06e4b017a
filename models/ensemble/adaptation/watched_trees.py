"""Trees that are watched for drift: another one grows beside, and who errs less on the same labels votes.

Gomes et al. 2017, section 3.2 (adaptive random forests), and Gomes, Read and Bifet 2019 (streaming random patches). A
member has a tree that votes, and at most one beside it, which learns the same labels with the same weights. Two ADWIN
windows (models.ensemble.adaptation.windows) hold the errors of the one that votes, on each label before learning it. A
rise of the sensitive one is a *warning*: a background tree begins beside, unless there is one. A rise of the other one
is a *drift*: the younger tree votes from the next operation on, the one beside or else a fresh one.

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

Deviations from MOA: the older tree stays (there it is dropped, and where patches begin no background tree
between two drifts, the second one by mistake changes nothing); a background tree that is better does not wait for a
drift; errors are those before learning, of every label (there: of predictions made again *after* the tree has learned
the label, where the bootstrap drew it at least once); only a rise counts (there any change: also trees that have become
better are replaced, which costs 7 points on pendigits); a successor brings its accuracy along (there it begins at 0,
which counts as 1 in the vote); background trees of forests learn with drawn weights, too, as in the paper's algorithm.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Program, Schema
from riparian.models.ensemble.adaptation.watching import (
    BETTER,
    LABELS,
    NOBODY,
    OLDER,
    PATIENCE,
    UNDECIDED,
    WORSE,
    YOUNGER,
    YoungerTrees,
    exchange,
    go_on,
    nobody_beside,
)
from riparian.models.ensemble.adaptation.windows import DRIFT, STABLE, WARNING, ErrorWindows, ResidualWindows
from riparian.models.ensemble.chunks import N_QUALITY, Chunk
from riparian.models.ensemble.online_bagging import OnlineBagging
from riparian.models.explanation.description import moved, summed
from riparian.models.joined import named
from riparian.models.kernels.draws import key
from riparian.models.layout import StateLayout
from riparian.models.restoring import restore

BACK = "back_"
# Places in `numbers` of a member.
BEGUN, FRONT_NUMBER, BACK_NUMBER = range(3)
TREE = 2  # what draws are for
PIECE = 2048  # operations between two looks at the errors: what a tree begun at once costs, against calls


class Adaptation(NamedTuple):
    """How members are watched.

    drift_detection : whether they are.
    background_trees : whether trees begin at warnings.
    """

    warning_delta: float
    drift_delta: float
    drift_detection: bool
    background_trees: bool

    def windows(self, task: str, n_members: int) -> ErrorWindows:
        """Of so many members."""
        kind = ResidualWindows if task == "regression" else ErrorWindows
        return kind(n_members, self.warning_delta, self.drift_delta)


class NumberedTree(NamedTuple):
    """A tree of a member, and its number."""

    tree: Any
    number: int


class MemberRows(NamedTuple):
    """What is a member's of arrays with a row a member: its slot, and its rows.

    weights, errors, other_errors : (length,), by operations; votes, other_votes : (length, n_outputs), by rows of the
    chunk; quality, other_quality : (3,), see models.ensemble.chunks. The other ones are of the tree beside, as are
    kind : (1,) and compared : (3,), see models.ensemble.adaptation.watching.
    """

    slot: int
    windows: ErrorWindows
    weights: Floats
    votes: Floats
    errors: Floats
    quality: Floats
    kind: NDArray[np.int64]
    other_votes: Floats
    other_errors: Floats
    other_quality: Floats
    compared: Floats


def places(
    windows: ErrorWindows, weights: Floats, votes: Floats, errors: Floats, quality: Floats, beside: YoungerTrees
) -> list[MemberRows]:
    """Of all members."""
    kinds = beside.kind[:, None]
    rows = zip(weights, votes, errors, quality, kinds, *beside[1:], strict=True)
    return [MemberRows(slot, windows, *row) for slot, row in enumerate(rows)]


class WatchedTree:
    """A member of a forest: the tree that votes, the one beside it if there is one, and the windows.

    State: numbers : (3,) int64, trees begun, the number of the tree that votes and that of the one beside, or -1; the
    smaller one is the older. windows : (2, 193) int32. back_quality : (3,) float64, of the tree beside
    (models.ensemble.chunks). compared : (3,) float64, see models.ensemble.adaptation.watching. The fields of the tree's
    state under their names, those of the tree beside after "back_", of length 0 where there is none.
    """

    layout = StateLayout(parts=("",))  # what is beside the trees' states is copied into arrays of its own

    def __init__(self, grow: Callable[[int], Any], how: Adaptation) -> None:
        """grow(number) : a fresh tree for the present schema; what it draws depends on its number."""
        self._grow = grow
        self._how = how
        self._begun = 0
        self._front = self._begin()
        self._back: NumberedTree | None = None
        schema = self._front.tree.schema
        no_votes, no_errors, quality = np.zeros((1, 0, schema.n_outputs)), np.zeros((1, 0)), np.zeros((1, N_QUALITY))
        windows, beside = how.windows(schema.task, 1), nobody_beside(1, 0, schema.n_outputs)
        self._place = places(windows, no_errors, no_votes, no_errors, quality, beside)[0]

    @property
    def tree(self) -> Any:
        """The tree that votes."""
        return self._front.tree

    def windows(self) -> dict[str, NDArray[Any]]:
        """Their part of the state."""
        return self._place.windows.state(self._place.slot)

    def move(self, place: MemberRows) -> None:
        """Be a member of a forest, or of one that has grown or shrunk. The quality of the tree that votes is kept by
        the forest."""
        place.windows.restore(place.slot, self.windows())
        for name in ("kind", "other_quality", "compared"):
            getattr(place, name)[:] = getattr(self._place, name)
        self._place = place

    def _begin(self) -> NumberedTree:
        self._begun += 1
        return NumberedTree(self._grow(self._begun - 1), self._begun - 1)

    def run(self, chunk: Chunk, start: int, stop: int) -> None:
        """Let the trees run operations start .. stop of a chunk, and write votes and errors."""
        place = self._place
        self._run(self._front, chunk, start, stop, place.votes, place.errors)
        if self._back is not None:
            self._run(self._back, chunk, start, stop, place.other_votes, place.other_errors)

    def _run(self, grown: NumberedTree, chunk: Chunk, start: int, stop: int, votes: Floats, errors: Floats) -> None:
        op, row, y, _ = chunk.program
        program = Program(op, row, y, self._place.weights)
        if stop - start < len(op):
            program, errors = program.part(start, stop), errors[start:stop]
        grown.tree.run(program, chunk.slab, votes, errors)

    def change(self, chunk: Chunk, at: int, stop: int, event: int, verdict: int) -> None:
        """Change trees at operation `at`, where all have run to `stop`. event, verdict : of windows and comparison."""
        place = self._place
        if verdict == BETTER:
            late = place.compared[LABELS] >= PATIENCE
            self._exchange(chunk, at, stop)
            if late:
                self._back = None
        elif verdict == WORSE:
            self._back = None
        if verdict != UNDECIDED:
            place.compared[:] = 0.0
        if event == DRIFT:
            if self._back is None or self._back.number < self._front.number:
                fresh = self._begin()
                if self._back is None:
                    self._back = fresh
                    self._exchange(chunk, at, stop)
                self._front = fresh
                place.quality[:] = 0.0
                self._run(fresh, chunk, at, stop, place.votes, place.errors)
                place.windows.forget(place.slot, slice(None))
            else:
                self._exchange(chunk, at, stop)
            place.compared[:] = 0.0
        elif event == WARNING:
            place.windows.forget(place.slot, WARNING)
            if self._how.background_trees and self._back is None:
                self._back = self._begin()
                place.other_quality[:] = 0.0
                self._run(self._back, chunk, at, stop, place.other_votes, place.other_errors)
                place.compared[:] = 0.0
        self._note_kind()

    def _exchange(self, chunk: Chunk, at: int, stop: int) -> None:
        """Let the tree beside vote from operation `at` on."""
        assert self._back is not None
        self._front, self._back = self._back, self._front
        place = self._place
        op, row, _, _ = chunk.program
        exchange(op, row, at, stop, place.votes, place.other_votes, place.errors, place.other_errors)
        place.quality[:], place.other_quality[:] = place.other_quality.copy(), place.quality.copy()
        place.windows.forget(place.slot, slice(None))

    def _note_kind(self) -> None:
        if self._back is None:
            self._place.kind[0] = NOBODY
        else:
            self._place.kind[0] = OLDER if self._back.number < self._front.number else YOUNGER

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
            back_number, back_quality = self._back.number, self._place.other_quality
        numbers = np.array([self._begun, self._front.number, back_number], np.int64)
        fields = {"numbers": numbers, **self.windows(), "back_quality": back_quality}
        fields["compared"] = self._place.compared
        fields |= front | {BACK + name: array for name, array in back.items()}
        return named("WatchedTreeState", fields)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state (Learner.restore). States written before trees were compared have no "compared"."""
        self._begun, front, back = (int(number) for number in state["numbers"])
        self._place.windows.restore(self._place.slot, state)
        self._place.compared[:] = state.get("compared", 0.0)
        self._front = NumberedTree(self._grow(front), front)
        fresh = self._front.tree.state()._asdict()
        if any(state[name].shape[1:] != array.shape[1:] for name, array in fresh.items()):
            raise ValueError(
                "its trees look at another number of features than trees do by these parameters now (at least two, "
                "where there are two): begin with a fresh state"
            )
        restore(self._front.tree, {name: state[name] for name in fresh}, "the tree")
        self._back = None
        if back >= 0:
            self._back = NumberedTree(self._grow(back), back)
            restore(self._back.tree, {name: state[BACK + name] for name in fresh}, "the tree beside")
            self._place.other_quality[:] = state["back_quality"]
        self._note_kind()

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
        return summed(sizes)


class WatchedForest(OnlineBagging):
    """Base class of forests of watched trees. Subclasses implement `_new_tree`."""

    def _set_up(self) -> None:
        super()._set_up()
        p = self._parameters
        self._how = Adaptation(p["warning_delta"], p["drift_delta"], p["drift_detection"], p["background_trees"])

    @abstractmethod
    def _new_tree(self, seed: int) -> Any:
        """A fresh tree for the present schema."""

    def _new_member(self, serial: int) -> WatchedTree:
        return WatchedTree(lambda number: self._new_tree(int(key(self.seed, serial, TREE, number) >> 1)), self._how)

    def _prepare(self) -> None:
        super()._prepare()
        n, length = self._errors.shape
        self._windows = self._how.windows(self.schema.task, n)
        self._beside = nobody_beside(n, length, self.schema.n_outputs)
        self._at, self._reached, self._events, self._verdicts = np.zeros((4, n), np.int64)
        found = places(self._windows, self._weights, self._planes, self._errors, self._quality, self._beside)
        for member, place in zip(self._members, found, strict=True):
            member.move(place)

    def _run_slots(self, first: int, last: int, chunk: Chunk) -> None:
        self._draw(first, last, chunk)
        n = len(chunk.program.op)
        for start in range(0, n, PIECE):
            stop = min(start + PIECE, n)
            for member in self._members[first:last]:
                member.run(chunk, start, stop)
            self._at[first:last] = start
            while self._go_on(first, last, chunk, stop):
                for slot in range(first, last):
                    event, verdict = int(self._events[slot]), int(self._verdicts[slot])
                    if event != STABLE or verdict != UNDECIDED:
                        self._members[slot].change(chunk, int(self._at[slot]), stop, event, verdict)

    def _go_on(self, first: int, last: int, chunk: Chunk, stop: int) -> int:
        """Let members, whose trees have run to `stop`, go on to the next change of theirs; how many have one."""
        op, row, _, w = chunk.program
        if self._how.drift_detection:
            self._windows.first_events(
                first, last, chunk, self._errors, self._at, stop, self._reached, self._events
            )  # fmt: skip
        else:
            self._reached[first:last], self._events[first:last] = stop, STABLE
        return int(
            go_on(
                first, last, op, row, chunk.ordinal, w, self._at, self._reached, self._events, self._verdicts,
                self._vote, self._n_classes == 0, self.FADING, self._errors, self._quality, self._planes, self._factors,
                *self._beside,
            )
        )  # fmt: skip


def n_chosen(parameters: Mapping[str, Any], n_features: int) -> int:
    """Features of a subset: a share of all, rounded, or the square root and one, as in MOA; at least two, where there
    are two, since a tree of one feature sees nothing that takes two of them (MOA: patches so, forests one)."""
    share = float(parameters["feature_share"])
    counts = {"all": n_features, "sqrt": round(math.sqrt(n_features)) + 1, "share": round(share * n_features)}
    return min(n_features, max(2, counts[parameters["max_features"]]))
