"""What an evaluation tells of anomalies without labels: how many alerts a model names, and where."""

from typing import Any

import numpy as np

from riparian.app.partition.outcome import Outcome

PARTS = 10  # equal parts of the rows in which alerts are counted


class Tally:
    """Predictions and alerts of one model, in each tenth of the rows.

    Parameters
    ----------
    role : str
        Of the model.
    n : int
        Rows.
    """

    def __init__(self, role: str, n: int) -> None:
        self._role = role
        self._edges = np.arange(1, PARTS + 1) * n // PARTS  # row that follows each part
        self._counts = np.zeros((2, PARTS), np.int64)

    @property
    def n(self) -> int:
        """Predictions so far."""
        return int(self._counts[0].sum())

    def add(self, outcome: Outcome) -> None:
        """Take the predictions of a step, whose offsets are numbers of rows."""
        part = np.searchsorted(self._edges, outcome.offsets, side="right")
        self._counts[0] += np.bincount(part, minlength=PARTS)
        self._counts[1] += np.bincount(part[outcome.decided[self._role][:, 0] == 1.0], minlength=PARTS)

    def result(self) -> dict[str, Any]:
        """predictions, alerts, and the same of each tenth (`tenths`) from its first `row` on."""
        firsts = [0, *self._edges[:-1].tolist()]
        parts = zip(firsts, *self._counts.tolist(), strict=True)
        return {
            "predictions": self.n,
            "alerts": int(self._counts[1].sum()),
            "tenths": [{"row": row, "predictions": n, "alerts": alerts} for row, n, alerts in parts],
        }
