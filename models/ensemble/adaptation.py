"""Trees that are watched for drift: at a warning another one begins to grow beside, at a drift it takes over.

Gomes et al. 2017, section 3.2 (adaptive random forests), and Gomes, Read and Bifet 2019 (streaming random patches). Two
ADWIN windows a member (models.ensemble.windows) hold the errors of its tree on each label before learning it. A
rise of the sensitive one is a *warning*: a background tree begins with the next label, in place of one that is there
already. A rise of the other one is a *drift*: the background tree, or else a fresh one, is the member's tree from the
next operation on; both windows begin anew.

A member's tree runs a piece of a chunk (models.ensemble.chunks), and only then are its errors looked through. At a
drift it is thrown away, so what it learned beyond does not matter, and its successor goes on from there, and writes
over its votes. This is what one instance after the other would give, bit for bit.

Deviations from MOA: errors are those before learning, of every label (there: of predictions made again *after* the tree
has learned the label, where the bootstrap drew it at least once); only a rise counts (there any change: also trees that
have become better are replaced, which costs 7 points on pendigits); a successor brings its accuracy along (there it
begins at 0, which counts as 1 in the vote); a drift without background tree begins both windows anew (there that of
drifts only).
"""

import math
from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats, Program, Schema
from models.description import moved
from models.ensemble.bagging import OnlineBagging
from models.ensemble.chunks import AVERAGE, N_QUALITY, Chunk, weigh
from models.ensemble.draws import key
from models.ensemble.windows import DRIFT, WARNING, ErrorWindows, ResidualWindows

BACK = "back_"
# Places in `numbers` of a member.
BEGUN, FRONT_NUMBER, BACK_NUMBER = range(3)
TREE = 2  # what draws are for
PIECE = 2048  # operations between two looks at the errors: what a drift costs, against calls


class Adaptation(NamedTuple):
    """How members are watched. drift_detection : whether they are. background_trees : whether trees begin at warnings.
    fading : of quality, each label."""

    warning_delta: float
    drift_delta: float
    drift_detection: bool
    background_trees: bool
    fading: float


class WatchedTree:
    """A member of a forest: its tree, the background tree if there is one, and the windows.

    State: numbers : (3,) int64, trees begun, the number of the tree and that of the background tree, or -1. windows :
    (2, 193) int32. back_quality : (3,) float64, of the background tree (models.ensemble.chunks). The fields of the
    tree's state under their names, those of the background tree after "back_", of length 0 where there is none.

    changes : of the chunk run last, from which operation on there was another tree, and its quality then.
    """

    def __init__(self, grow: Callable[[int], Any], how: Adaptation) -> None:
        """grow(number) : a fresh tree for the present schema; what it draws depends on its number."""
        self._grow = grow
        self._how = how
        self._numbers = np.array([0, -1, -1], np.int64)
        self._front = self._begin(FRONT_NUMBER)
        self._back: Any = None
        windows = ResidualWindows if self._front.schema.task == "regression" else ErrorWindows
        self._windows: Any = windows(how.warning_delta, how.drift_delta)
        self._back_quality = np.zeros(N_QUALITY)
        self.changes: list[tuple[int, Floats]] = []

    @property
    def tree(self) -> Any:
        """The tree that predicts."""
        return self._front

    def _begin(self, place: int) -> Any:
        self._numbers[place] = self._numbers[BEGUN]
        self._numbers[BEGUN] += 1
        return self._grow(int(self._numbers[place]))

    def run(self, chunk: Chunk, program: Program, beside: Program, votes: Floats, errors: Floats) -> None:
        """Run a chunk. program, beside : its operations with the weights of the tree and of a background tree."""
        how = self._how
        self.changes = []
        done = behind = 0  # by the tree, and by the background tree
        self._windows.begin(chunk)
        while done < len(program.op):
            stop = min(done + PIECE, len(program.op))
            self._front.run(program.part(done, stop), chunk.slab, votes, errors[done:stop])
            while how.drift_detection and done < stop:
                done, event = self._windows.first_event(chunk, errors, done, stop)
                if event == DRIFT:
                    self._run_back(chunk, beside, behind, done)
                    self.changes.append((done, self._succeed()))
                    break
                if event == WARNING:
                    self._windows.forget(WARNING)
                    if how.background_trees:
                        self._back = self._begin(BACK_NUMBER)
                        self._back_quality = np.zeros(N_QUALITY)
                        behind = done
            else:
                done = stop
        self._run_back(chunk, beside, behind, done)

    def _succeed(self) -> Floats:
        """Put the background tree, or a fresh one, in the tree's place; its quality."""
        quality = np.zeros(N_QUALITY)
        if self._back is None:
            self._front = self._begin(FRONT_NUMBER)
        else:
            self._front, self._back, quality = self._back, None, self._back_quality
            self._numbers[FRONT_NUMBER] = self._numbers[BACK_NUMBER]
        self._numbers[BACK_NUMBER] = -1
        self._back_quality = np.zeros(N_QUALITY)
        self._windows.forget(slice(None))
        return quality

    def _run_back(self, chunk: Chunk, program: Program, start: int, stop: int) -> None:
        """Let the background tree, if there is one, run operations start .. stop."""
        if self._back is None or start == stop:
            return
        part = program.part(start, stop)
        votes, errors = np.empty((len(chunk.slab), self._front.schema.n_outputs)), np.zeros(stop - start)
        self._back.run(part, chunk.slab, votes, errors)
        weigh(
            part.op, part.row, chunk.ordinal[start:stop], chunk.program.w[start:stop], errors, AVERAGE,
            self._front.schema.task == "regression", self._how.fading, self._back_quality, votes, np.empty(len(votes)),
        )  # fmt: skip

    def resize(self, schema: Schema) -> None:
        self._front.resize(schema)
        if self._back is not None:
            self._back.resize(schema)

    def state(self) -> Any:
        front = self._front.state()._asdict()
        back = {name: array[:0] for name, array in front.items()}
        if self._back is not None:
            back = self._back.state()._asdict()
        fields = {"numbers": self._numbers, **self._windows.state(), "back_quality": self._back_quality}
        fields |= front | {BACK + name: array for name, array in back.items()}
        return _state_type(tuple(fields))(**fields)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._numbers = np.array(state["numbers"], np.int64)
        self._windows.restore(state)
        self._back_quality = np.array(state["back_quality"], np.float64)
        self._front = self._grow(int(self._numbers[FRONT_NUMBER]))
        fields = self._front.state()._fields
        self._front.restore({name: state[name] for name in fields})
        self._back = None
        if self._numbers[BACK_NUMBER] >= 0:
            self._back = self._grow(int(self._numbers[BACK_NUMBER]))
            self._back.restore({name: state[BACK + name] for name in fields})

    def describe(self) -> list[dict[str, Any]]:
        """The nodes of the tree, then those of the background tree, whose root has "background", true."""
        nodes: list[dict[str, Any]] = self._front.describe()
        if self._back is not None:
            back = moved(self._back.describe(), len(nodes), None, 0)
            back[0]["background"] = True
            nodes += back
        return nodes

    def size(self) -> dict[str, int]:
        sizes = [tree.size() for tree in (self._front, self._back) if tree is not None]
        total = {name: sum(size[name] for size in sizes) for name in ("n_nodes", "n_leaves")}
        return total | {"depth": max(size["depth"] for size in sizes)}


class WatchedForest(OnlineBagging):
    """Base class of forests of watched trees. Subclasses implement `_new_tree`."""

    BACKGROUND_BOOTSTRAP: ClassVar[bool]  # whether background trees learn with drawn weights, too

    def _set_up(self) -> None:
        super()._set_up()
        p = self._parameters
        self._how = Adaptation(
            p["warning_delta"], p["drift_delta"], p["drift_detection"], p["background_trees"], self.FADING
        )

    @abstractmethod
    def _new_tree(self, seed: int) -> Any:
        """A fresh tree for the present schema."""

    def _new_member(self, serial: int) -> WatchedTree:
        return WatchedTree(lambda number: self._new_tree(int(key(self.seed, serial, TREE, number) >> 1)), self._how)

    def _run_member(self, slot: int, chunk: Chunk, votes: Floats, errors: Floats) -> None:
        program = self._draw(slot, chunk)
        beside = program if self.BACKGROUND_BOOTSTRAP else chunk.program
        self._members[slot].run(chunk, program, beside, votes, errors)

    def _weigh(self, slot: int, chunk: Chunk, errors: Floats) -> None:
        """As Ensemble._weigh, but where a member got another tree, its quality is that tree's from then on."""
        p = chunk.program
        start = 0
        for stop, successor in (*self._members[slot].changes, (len(p.op), None)):
            weigh(
                p.op[start:stop], p.row[start:stop], chunk.ordinal[start:stop], p.w[start:stop], errors[start:stop],
                self._vote, self._n_classes == 0, self.FADING, self._quality[slot], self._planes[slot],
                self._factors[slot],
            )  # fmt: skip
            if successor is not None:
                self._quality[slot] = successor
            start = stop


def n_chosen(parameters: Mapping[str, Any], n_features: int) -> int:
    """Features of a subset: a share of all, rounded, or the square root and one, as in MOA; at least one."""
    share = float(parameters["feature_share"])
    counts = {"all": n_features, "sqrt": round(math.sqrt(n_features)) + 1, "share": round(share * n_features)}
    return min(n_features, max(1, counts[parameters["max_features"]]))


@cache
def _state_type(fields: Sequence[str]) -> Any:
    return namedtuple("WatchedTreeState", fields)
