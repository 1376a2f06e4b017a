"""Numbers among the values that stand in a record, beside a slow twin."""

import numpy as np
import pytest

from riparian.app.partition.shared.listing import list_values
from riparian.topics.vocabulary import Vocabulary


@pytest.mark.parametrize("n", [0, 1, 7, 200])
def test_codes_are_numbered_by_those_that_stand_there(n: int) -> None:
    rng = np.random.default_rng(n)
    known: list[Vocabulary | None] = [Vocabulary(9), None, Vocabulary(50), Vocabulary(4)]
    for one, size in zip(known, (5, 0, 40, 0), strict=True):
        for i in range(size):
            assert one is not None
            one.code(f"v{i}")
    given = np.column_stack([rng.integers(0, 5, n), rng.random(n), rng.integers(0, 40, n), np.full(n, np.nan)])
    given[rng.random(n) < 0.3, 2] = np.nan
    columns = np.array(given, np.float64)
    found = list_values(columns, known)
    assert found[1] is None
    assert np.array_equal(columns[:, 1], given[:, 1])
    for j in (0, 2, 3):
        vocabulary, listed = known[j], found[j]
        assert vocabulary is not None
        assert listed is not None
        texts = [None if v != v else vocabulary.values[int(v)] for v in given[:, j]]
        assert listed == [value for value in vocabulary.values if value in texts]
        assert [None if v != v else listed[int(v)] for v in columns[:, j]] == texts
