"""Drift events held against those of a fold: what is there, once, in order, and as it was."""

import msgspec
import numpy as np
import pytest

from riparian.app.partition.outcome import Outcome
from riparian.app.state.audit.drift_proof import DriftProof
from riparian.app.state.audit.proof import SentRecords
from riparian.topics.records import DriftRecord

MADE = [
    DriftRecord("s", 0, number, "error", "adwin", offset=10 * number, label_offset=number, time=0, n=number, after=0.25)
    for number in range(8)
]
ENCODED = [msgspec.json.encode(record) for record in MADE]


def proof(values: list[bytes], *, first: int = 0, made: list[DriftRecord] = MADE, last: int = 80, whole: bool = True):
    """`made` folded up to a prediction at `last`, held against these records of the drift topic."""
    found = DriftProof(SentRecords(list(range(len(values))), [None] * len(values), values), first, whole=whole)
    for part in (made[:3], made[3:]):
        found.step(outcome(part, last))
    found.settle()
    return found


def outcome(drifts: list[DriftRecord], offset: int) -> Outcome:
    at, nothing = np.array([offset]), np.zeros(0)
    return Outcome(["a"], [None], at, {"labels": at}, {}, nothing, at, 0, {}, 0.0, 0.0, drifts)


def test_what_was_sent_holds():
    found = proof(ENCODED)
    assert found.holds
    assert found.n_compared == 8


@pytest.mark.parametrize("n", [0, 5])
def test_the_last_ones_need_not_be_there_yet(n):
    assert proof(ENCODED[:n]).holds


def test_earlier_ones_may_be_there_and_the_oldest_gone():
    assert proof(ENCODED, first=3, made=MADE[3:]).holds
    assert not proof(ENCODED[3:]).holds
    assert proof(ENCODED[3:], whole=False).holds


def test_more_are_there_where_the_fold_ends_early():
    assert proof(ENCODED, made=MADE[:4], last=40).holds
    assert proof(ENCODED, made=MADE[:4], last=41).counts == {"unfounded": 1}


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([*ENCODED[:3], *ENCODED[4:]], {"missing": 1}),
        ([*ENCODED[:3], ENCODED[2], *ENCODED[3:]], {"repeated": 1}),
        ([*ENCODED[:3], ENCODED[4], ENCODED[3], *ENCODED[5:]], {"out-of-order": 1}),
        ([*ENCODED[:3], ENCODED[3].replace(b"0.25", b"0.5"), *ENCODED[4:]], {"different": 1}),
        ([*ENCODED[:3], b"{", None, *ENCODED[3:]], {"unreadable": 2}),
        ([*ENCODED, ENCODED[7].replace(b'"number":7', b'"number":8')], {"unfounded": 1}),
    ],
)
def test_what_was_altered_is_named(values, counts):
    found = proof(values)
    assert not found.holds
    assert found.counts == counts
    assert [one.kind for one in found.listed] == [kind for kind, n in counts.items() for _ in range(n)]
