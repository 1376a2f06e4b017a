"""Leveraging bagging: heavier online bootstrap samples, and a fresh tree for the worst when errors change.

Bifet, Holmes and Pfahringer 2010, algorithm 1: weights from Poisson(6); an ADWIN a member watches its errors, and where
one finds that they have risen, the member with the highest error is replaced.

A member that is replaced has not been seen by any other, so all run a whole chunk, and their ADWINs after them. Then
changes are gone through in order: the successor of the worst member at one runs again what comes after it, and its
votes take the place of those that were there. That gives what going label by label would give.
"""

import numpy as np

from riparian.models.contract import Floats
from riparian.models.ensemble.chunks import Chunk
from riparian.models.ensemble.entries import LEVERAGING_BAGGING
from riparian.models.ensemble.online_bagging import BOOTSTRAP, OnlineBagging
from riparian.models.hoeffding.adaptation.error_window import ROW, add_error, cut, error_rate
from riparian.models.kernels.draws import key
from riparian.models.kernels.kernel import kernel


class LeveragingBagging(OnlineBagging):
    """Hoeffding trees over heavy online bootstrap samples, the worst begun anew at a change.

    Missing values, what teaches nothing, and bounds on memory: as HoeffdingTree, of which there are `n_models`; an
    ADWIN takes 772 bytes.

    Notes
    -----
    An ADWIN sees a member's error on a label before the member learns it. MOA's LeveragingBag takes the error after it:
    with weights of 6, a tree has then often just been made to agree. Output codes (the paper's second idea) are left
    out.
    """

    entry = LEVERAGING_BAGGING
    PER_SLOT = (*OnlineBagging.PER_SLOT, "windows")
    SHORTER = 2  # at a change a member runs again what is left of the chunk

    def _set_up(self) -> None:
        super()._set_up()
        self._windows = np.zeros((0, ROW), np.int32)

    def _prepare(self) -> None:
        super()._prepare()
        self._rates = np.zeros(self._errors.shape)
        self._changed = np.zeros(self._errors.shape, np.uint8)

    def _run_member(self, slot: int, chunk: Chunk, votes: Floats, errors: Floats) -> None:
        super()._run_member(slot, chunk, votes, errors)
        at = self._gatherer.length - len(chunk.ordinal)  # so that what comes after an event lies where it lay
        watch(
            chunk.ordinal, errors, self._parameters["drift_delta"], self._windows[slot],
            self._rates[slot, at:], self._changed[slot, at:],
        )  # fmt: skip

    def _run_chunk(self, chunk: Chunk) -> None:
        super()._run_chunk(chunk)
        length = self._gatherer.length
        at = length - len(chunk.program.op)
        while True:
            label, worst = next_change(self._changed, self._rates, at)
            if label < 0:
                return
            at = label + 1
            if worst >= 0:
                self._renew(worst)
                self._keys[worst] = key(self.seed, int(self._serials[worst]), BOOTSTRAP)
                rest = chunk.after(len(chunk.program.op) - (length - at))
                self._run_slots(worst, worst + 1, rest)


@kernel
def watch(ordinal, errors, delta, window, rates, changed):
    """Feed a member's errors to its ADWIN: after each label the error rate, and whether it has risen at a change.

    window : (ROW,) int32. rates : (n,) float64, changed : (n,) uint8. Mutates window, rates and changed. O(n).
    """
    for i in range(len(ordinal)):
        changed[i] = 0
        if ordinal[i] < 0:
            continue
        before = error_rate(window)
        if add_error(window, np.int32(errors[i])) and cut(window, delta) and error_rate(window) > before:
            changed[i] = 1
        rates[i] = error_rate(window)


@kernel
def next_change(changed, rates, start):
    """The first label from `start` on at which any member's errors have risen, or -1; and the member that errs most
    there, ties to the first, -1 where none errs. O(n M)."""
    n_members, n = changed.shape
    for i in range(start, n):
        found = False
        for m in range(n_members):
            found = found or changed[m, i] != 0
        if found:
            worst = -1
            most = 0.0
            for m in range(n_members):
                if rates[m, i] > most:
                    most = rates[m, i]
                    worst = m
            return i, worst
    return -1, -1
