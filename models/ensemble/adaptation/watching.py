"""What follows after the trees of watched members have run: whose votes count, and how good each tree is.

Members have two sets of rows: in `votes`, `errors` and `quality` the tree that votes writes, in those of `YoungerTrees`
the one beside it, if there is one. Both have run the same operations, and what is done here is done for all members at
once, each up to its next change.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats
from riparian.models.drift.adwin import CLOCK
from riparian.models.ensemble.adaptation.windows import DRIFT, STABLE
from riparian.models.ensemble.chunks import AVERAGE, N_QUALITY, weigh
from riparian.models.joined import zeros
from riparian.models.kernels.kernel import kernel

PROOF = 6.0  # 2 ln(1 / 0.05)
PATIENCE = 2048
# Places in `compared` of a member: the sums of d and of its square, and labels.
DIFFERENCE, SQUARES, LABELS = range(3)
UNDECIDED, BETTER, WORSE = range(3)  # the tree beside
NOBODY, YOUNGER, OLDER = range(3)  # is beside


class YoungerTrees(NamedTuple):
    """Of the trees beside those that vote, a row a member.

    kind : (M,) int64, NOBODY, YOUNGER or OLDER.
    votes, errors, quality : as those of the trees that vote.
    compared : (M, 3), see DIFFERENCE.
    """

    kind: NDArray[np.int64]
    votes: Floats
    errors: Floats
    quality: Floats
    compared: Floats


def nobody_beside(n_members: int, length: int, n_outputs: int) -> YoungerTrees:
    """length : operations of a chunk. Of room that nobody writes, the system makes no memory."""
    m = n_members
    return zeros(YoungerTrees, m, (m, length, n_outputs), (m, length), (m, N_QUALITY), (m, 3))


@kernel
def go_on(
    first, last, op, row, ordinal, w, at, reached, events, verdicts, vote, regression, fading,
    errors, quality, votes, factors, kind, other_votes, other_errors, other_quality, compared,
):  # fmt: skip
    """Let some members go on from operation at[m] to reached[m], or to a change of their trees before it; how many
    change.

    reached, events : what their windows hold. Mutates at; events and verdicts, the changes; compared; and what `weigh`
    mutates of both trees. O(n n_outputs) a member.
    """
    changes = 0
    for m in range(first, last):
        verdicts[m] = UNDECIDED
        start, end = at[m], reached[m]
        beside = kind[m] != NOBODY
        if beside:
            decided, verdict = compare(ordinal, errors[m], other_errors[m], start, end, kind[m] == OLDER, compared[m])
            if verdict != UNDECIDED and not (events[m] == DRIFT and decided == end):
                verdicts[m] = verdict
                if verdict == BETTER:
                    end = decided
                    events[m] = STABLE
                else:
                    beside = False
                    weigh(
                        op[start:decided], row[start:decided], ordinal[start:decided], w[start:decided],
                        other_errors[m, start:decided], AVERAGE, regression, fading, other_quality[m], other_votes[m],
                        factors[m, :0],
                    )  # fmt: skip
        weigh(
            op[start:end], row[start:end], ordinal[start:end], w[start:end], errors[m, start:end],
            vote, regression, fading, quality[m], votes[m], factors[m],
        )  # fmt: skip
        if beside:
            weigh(
                op[start:end], row[start:end], ordinal[start:end], w[start:end], other_errors[m, start:end],
                AVERAGE, regression, fading, other_quality[m], other_votes[m], factors[m, :0],
            )  # fmt: skip
        at[m] = end
        if events[m] != STABLE or verdicts[m] != UNDECIDED:
            changes += 1
    return changes


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
def exchange(op, row, start, stop, votes, other_votes, errors, other_errors):
    """Exchange what two trees wrote in operations start .. stop. Mutates all that they wrote. O(n n_outputs)."""
    for i in range(start, stop):
        errors[i], other_errors[i] = other_errors[i], errors[i]
        if op[i] == PREDICT:
            r = row[i]
            for c in range(votes.shape[1]):
                votes[r, c], other_votes[r, c] = other_votes[r, c], votes[r, c]
