"""AUROC of each class against the rest, as `models.evaluation.auroc` has it, over a whole run.

Up to ROOM scores all are kept, and the result is exact. Beyond that each class keeps ROOM / K distinct values, with the
weights of its labels and of the others at each. If it has more, neighbouring values are merged into a cell, and later
scores within its bounds are added to it. The order within a cell is lost, so the error is at most half of the pairs
within a cell: `error` gives this bound, usually below 1e-5. So memory is bounded, whatever the length of the run.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats

ROOM = 2_000_000  # scores, labels times classes: 16 MB as they come, and at most four times that as cells
LEAST_CELLS = 1000  # cells of a class, however many classes there are


class ScoreCells(NamedTuple):
    """Scores of one class in order: each from `low` to `high`, and the weight of labels of the class and of others."""

    low: Floats
    high: Floats
    own: Floats
    others: Floats


class Ranking:
    """The scores of a run, in bounded memory.

    Parameters
    ----------
    room : int
        Scores that are kept exactly.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._blocks: list[tuple[NDArray[np.int64], Floats, Floats]] = []
        self._n_scores = 0
        self._cells: list[ScoreCells] = []

    def add(self, y: NDArray[np.int64], p: Floats, w: Floats) -> None:
        """y : (n,) class codes. p : (n, K) probabilities, where K may grow. w : (n,) weights > 0."""
        if not len(y):
            return
        self._blocks.append((y, p, w))
        self._n_scores += p.size
        if self._n_scores > self._room:
            self._take_in()

    def areas(self) -> dict[int, float]:
        """Class code -> AUROC against all others, of the classes of which there is a label and one of others."""
        self._take_in()
        return {k: _area(cells) for k, cells in enumerate(self._cells) if cells.own.any() and cells.others.any()}

    def error(self) -> float:
        """Upper bound of the error of any of `areas`; 0 where they are exact."""
        return max((_doubt(cells) for cells in self._cells if cells.own.any() and cells.others.any()), default=0.0)

    def _take_in(self) -> None:
        """Sort what has come into cells."""
        if not self._blocks:
            return
        width = max(len(self._cells), *(p.shape[1] for _, p, _ in self._blocks))
        y = np.concatenate([y for y, _, _ in self._blocks])
        w = np.concatenate([w for _, _, w in self._blocks])
        p = np.concatenate([_widened(p, width) for _, p, _ in self._blocks])
        self._blocks, self._n_scores = [], 0
        for _ in range(len(self._cells), width):  # scores of a class that was not known then are 0
            before = sum(float((c.own + c.others).sum()) for c in self._cells[:1])
            known = [np.zeros(1), np.zeros(1), np.zeros(1), np.full(1, before)]
            self._cells.append(ScoreCells(*known) if before else ScoreCells(*(np.zeros(0) for _ in range(4))))
        most = max(LEAST_CELLS, self._room // width)
        for k in range(width):
            own = np.where(y == k, w, 0.0)
            new = ScoreCells(_begins(self._cells[k], p[:, k]), p[:, k], own, w - own)
            cells = _sorted(ScoreCells(*(np.concatenate(pair) for pair in zip(self._cells[k], new, strict=True))))
            self._cells[k] = cells if len(cells.low) <= most else _fewer(cells, most)


def _sorted(cells: ScoreCells) -> ScoreCells:
    """In order, those that begin at the same score as one."""
    order = np.argsort(cells.low, kind="stable")
    low, high, own, others = (part[order] for part in cells)
    first = np.flatnonzero(np.concatenate(([True], low[1:] != low[:-1])))
    add = np.add.reduceat
    return ScoreCells(low[first], np.maximum.reduceat(high, first), add(own, first), add(others, first))


def _begins(cells: ScoreCells, scores: Floats) -> Floats:
    """Of the cell that a score falls into where there is one, else the score."""
    if not len(cells.low):
        return scores
    at = np.maximum(np.searchsorted(cells.low, scores, side="right") - 1, 0)
    return np.where((cells.low[at] <= scores) & (scores <= cells.high[at]), cells.low[at], scores)


def _fewer(cells: ScoreCells, most: int) -> ScoreCells:
    """At most `most`: neighbours as one, of like weights. A cell of much weight stays alone, since there the scores may
    well be one."""
    weight = cells.own + cells.others
    step = 4.0 * float(weight.sum()) / most
    place, heavy = np.floor((np.cumsum(weight) - weight) / step), weight >= step
    first = np.flatnonzero(np.concatenate(([True], (place[1:] != place[:-1]) | heavy[1:] | heavy[:-1])))
    add = np.add.reduceat
    high = np.maximum.reduceat(cells.high, first)
    return ScoreCells(cells.low[first], high, add(cells.own, first), add(cells.others, first))


def _area(cells: ScoreCells) -> float:
    below = np.cumsum(cells.others) - cells.others
    pairs = float((cells.own * (below + 0.5 * cells.others)).sum())
    return pairs / (float(cells.own.sum()) * float(cells.others.sum()))


def _doubt(cells: ScoreCells) -> float:
    unknown = cells.high > cells.low
    pairs = 0.5 * float((cells.own * cells.others)[unknown].sum())
    return pairs / (float(cells.own.sum()) * float(cells.others.sum()))


def _widened(p: Floats, width: int) -> Floats:
    return p if p.shape[1] == width else np.pad(p, ((0, 0), (0, width - p.shape[1])))
