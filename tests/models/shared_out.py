"""Steps that are shared out among threads, however little they take."""

import pytest

from riparian.models.ensemble import boosting
from riparian.models.kernels import threads

LEAST = 40  # operations


def share_out(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Let `n` threads share every step of at least LEAST operations, by its smallest parts."""
    monkeypatch.setattr(threads.CREW, "n", n)
    for name, least in (("LEAST", LEAST), ("WORTH", 0.0), ("PIECE", 1e-9)):
        monkeypatch.setattr(threads, name, least)
    monkeypatch.setattr(boosting, "LEAST_FLIGHT", LEAST)
