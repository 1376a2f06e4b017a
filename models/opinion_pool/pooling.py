"""Kernels of the opinion pool: what members predicted of an instance becomes one prediction, and weights learn from
labels.

Votes stand in planes, one a member: (members, rows, n_outputs). A plane row of zeros, or NaN, means that the member
knew nothing. With p_m the probabilities of member m, and w its weight:

- LOGARITHMIC: p(c) ~ exp(sum of w_m log p_m(c)). The loss of a label y is -log p(y), and its derivative by w_m is
  sum over c of p(c) log p_m(c), less log p_m(y). No p_m(c) counts as less than `floor` times the labels of c,
  over those of the most frequent class: what is right for a usual class is above all that is ever predicted of a rare
  one. Nor as less than `floor` squared, so that a class that has just come is not out of reach.
- LINEAR, classes: p(c) ~ sum of w_m p_m(c). A label multiplies w_m by p_m(y), and then `rate` of all weight is shared
  out equally (fixed share).
- LINEAR, values: v = sum of w_m v_m, weights on the simplex. The loss is Huber's (Robust estimation of a location
  parameter. Annals of Mathematical Statistics 35, 1964): half the squared error, and beyond FAR times the faded mean
  absolute error of the best member in proportion to the error, so that a wrong label does not outweigh hundreds. Its
  derivative by w_m, along the simplex, is (v - y)(v_m - v), v - y bounded so.
- LEADER: the prediction of the member with the least faded error.

Each derivative is divided by the root of the running mean of its square, so `rate` is a step whatever the scale. Over
the mean of its absolute value the label of a rare class, which is the mistake of hundreds at once, would be hundreds of
steps. While there are few labels steps are longer: rate times 200 / sqrt(labels), where that is above 1. A derivative
that is 0 but for rounding moves nothing: divided by a root that is rounding, too, it would be a whole step.

Wrong values have no bound. So derivatives and members' errors count as far as models.running_scale lets them where
LINEAR is of values, and a step that would take the pooled value beyond the target ends there: of a member that is off
by 1e5, a weight of `rate` would be an error of hundreds.

Where classes are rare, few labels distinguish members, and each is a large step. So LOGARITHMIC takes shorter steps the
less even classes are, and online Newton steps in their place: in part below EVEN, alone below UNEVEN and until there
are two classes. A Newton step is (H + I / (2 rate))^-1 times the derivatives, where H is the sum of the Hessians of
the labels' losses by the weights, faded: the covariance of log p_m(c) and log p_n(c) under p. It moves weights by
what all labels so far have shown, not by a step a label. (Hazan, Agarwal and Kale: Logarithmic regret algorithms for
online convex optimization. Machine Learning 69, 2007, section 3; there with the products of derivatives for H.)

A label that comes late judges two votes: that which was cast when its instance was predicted, and that of now, right
before it is learned. The first is what the weights are for, and old; the second is of now, and flatters who knows the
labels just before. Of classes, their derivatives (likelihoods, where LINEAR) are averaged. Of values, where labels in a
row go the same way, those of the second count OF_NOW, and a step is LATE as long where they differ: before a step
shows, those of other labels follow it. Where one of the votes is silent, as the first do until a label has come, the
other one counts alone; so it does for a member that cast none (NaN in column 0) since it is younger than the
prediction, and no error is noted of it. Votes that no label was learned between are equal, bit for bit, and so is their
average: whether members are asked again then does not matter. Where late labels of values come in blocks, weights are
those of models.opinion_pool.blocks.

A member that predicts the last label again (`repeats`) would predict now what no late prediction can know: the label
just before. So its vote of now is the one that it cast. Where it cast none it has no weight, until such a vote is
judged.
"""

import numpy as np

from riparian.models.contract import LARGEST_TARGET, LEARN, PREDICT
from riparian.models.evenness import evenness
from riparian.models.kernels.elementary import exp, log, power
from riparian.models.kernels.kernel import kernel
from riparian.models.opinion_pool.blocks import BEFORE, LAST, MEAN, count, end, goes_on, note, use
from riparian.models.running_scale import held

LOGARITHMIC, LINEAR, LEADER = 0, 1, 2

# Kinds of operations in a gathered program: predicted for the caller, predicted only since a label comes next, learned.
WANTED, AT_LABEL, LABEL = 0, 1, 2

OF_NOW = 0.25  # share of the vote of now in what the late label of a value shows
LATE = 0.3  # of a step, where that differs from the vote that was cast
EARLY = 200.0  # rate * EARLY / sqrt(labels) is the step while that is above the rate
# Evenness of classes (models.evenness) between which Newton steps take over: of two classes, 10 % and 2 % of one.
EVEN, UNEVEN = 0.6, 0.3
REMEMBERED = 0.9999  # share of the Hessian that a label leaves
FAR = 3.0  # mean absolute errors from which on the loss of a value grows in proportion to its error
FADING, REACH = 0.999, 1000.0  # of the mean square of derivatives, each label; labels of which it is the mean
ROUNDING = 1e-14  # differences, in units of what they are of, that are rounding
ERROR, WEIGHT = 0, 1  # columns of the members' quality, faded


@kernel
def gather(
    op, row, y, w, slab, start, n, n_classes, kept,
    some_op, some_row, some_y, some_w, kind, now, source, some_slab, loaded, age, place,
):  # fmt: skip
    """Make what members run of operations start .. start + n; returns its numbers of operations and of rows. O(n d).

    A label is learned beside the votes that `kept` has for its instance, or that were wanted before in this program and
    will be kept. Unless they have learned nothing since they voted, members predict once more right before the label,
    in a row of its own.

    kept : (capacity, 1), of the rows that are learned NaN where no votes stand; or no columns.
    now : of each operation, the row of the votes right before a label, beside those that were cast; or -1.
    source : of each row, that of the slab; -1 where it is no place of votes that were cast.
    loaded : of each row, whether its votes are those that were kept.
    age : of each row, labels of this program that were learned before its votes were cast; -1: before the program.
    place : int32, a row for each row of the slab, of any content. It is right where `source` confirms it.
    """
    keeping = kept.shape[1] > 0
    at_op = 0
    n_rows = 0
    n_learned = 0
    for i in range(start, start + n):
        r = row[i]
        learn = op[i] == LEARN
        teaches = learn and _teaches(y[i], w[i], n_classes)
        at = place[r]
        cast = learn and keeping and 0 <= at < n_rows and source[at] == r
        if not cast:
            at = n_rows
            n_rows += 1
            for f in range(slab.shape[1]):
                some_slab[at, f] = slab[r, f]
            cast = learn and keeping and not np.isnan(kept[r, 0])
            loaded[at] = cast
            age[at] = -1 if cast else n_learned
            source[at] = r if cast or not learn else -1
            if cast or not learn:
                place[r] = at
        asked = -1
        if teaches and not cast:
            asked = at
        elif teaches and age[at] != n_learned:
            asked = n_rows
            n_rows += 1
            for f in range(slab.shape[1]):
                some_slab[asked, f] = slab[r, f]
            loaded[asked] = False
            source[asked] = -1
        if asked >= 0:
            some_op[at_op] = PREDICT
            some_row[at_op] = asked
            some_y[at_op] = np.nan
            some_w[at_op] = 1.0
            kind[at_op] = AT_LABEL
            at_op += 1
        some_op[at_op] = op[i]
        some_row[at_op] = at
        some_y[at_op] = y[i]
        some_w[at_op] = w[i] if teaches or not learn else 0.0
        kind[at_op] = LABEL if learn else WANTED
        now[at_op] = asked if asked != at else -1
        at_op += 1
        n_learned += teaches
    return at_op, n_rows


@kernel
def mark(op, row, start, n, votes, first, marks):
    """Lay what a member has kept of the rows that operations start .. start + n learn on those where nothing was found
    yet, as of the first member all; whether there is something on each then. Mutates marks. O(n)."""
    complete = True
    for i in range(start, start + n):
        if op[i] == LEARN:
            r = row[i]
            if first or np.isnan(marks[r, 0]):
                marks[r, 0] = votes[r, 0]
            complete = complete and not np.isnan(marks[r, 0])
    return complete


@kernel
def labels_in(op, y, w, start, n, n_classes, most):
    """How many of the operations start .. start + n there are up to the label that teaches and is number `most`, and
    how many such labels among them. O(n)."""
    n_labels = 0
    for i in range(start, start + n):
        if op[i] == LEARN and _teaches(y[i], w[i], n_classes):
            n_labels += 1
            if n_labels == most:
                return i + 1 - start, n_labels
    return n, n_labels


@kernel
def _teaches(y, w, n_classes):
    if not (w > 0.0 and w < np.inf):
        return False
    return (y >= 0.0 and y < n_classes) if n_classes > 0 else abs(y) <= LARGEST_TARGET


@kernel
def take_up(kept, source, loaded, n_rows, votes):
    """Lay the votes that a member cast before on the rows that come again. Mutates votes. O(n_rows n_outputs)."""
    for r in range(n_rows):
        if loaded[r]:
            for c in range(votes.shape[1]):
                votes[r, c] = kept[source[r], c]


@kernel
def keep(row, kind, source, n, votes, values, kept):
    """Keep what a member predicts where it was asked; for a value that it does not know, infinity. values : whether it
    predicts values. Mutates kept. O(n n_outputs)."""
    for i in range(n):
        if kind[i] == WANTED:
            for c in range(votes.shape[1]):
                vote = votes[row[i], c]
                kept[source[row[i]], c] = np.inf if values and np.isnan(vote) else vote


@kernel
def pool_classes(
    rule, op, row, y, w, kind, now, source, n, planes, rate, floor, weights, sizes, quality, counts, awake, repeats,
    class_counts, hessian, out, p, floors, parts, factor, g, h,
):  # fmt: skip
    """Write the pooled probabilities of what was wanted into `out`, and learn from labels.

    counts : (2,) float64, labels that taught, and the sum that makes a faded mean of `sizes`.
    awake : (members,) bool; the others have no weight, get none, and have cast no vote (models.opinion_pool.resting).
    repeats : (members,) bool; nobody where votes are not kept. Mutates planes.
    class_counts : (n_outputs,) float64, labels of each class.
    hessian : (members, members) float64, of labels while classes were not even.
    p, floors : (n_outputs,), parts : (members, n_outputs + 1), factor : (members, members), g, h : (members,), scratch.
    """
    m, pooled = planes.shape[0], -1  # the row whose p and parts are those of now
    if rule == LOGARITHMIC:
        set_floors(floor, class_counts, floors)
    for i in range(n):
        if kind[i] == AT_LABEL:
            continue
        at = row[i]
        if kind[i] == WANTED:
            pooled = at if _classes(rule, planes, at, weights, quality, floors, p, parts) else -1
            for c in range(len(p)):
                out[source[at], c] = p[c]
            continue
        if not w[i] > 0.0:
            continue
        again, pooled = pooled != at or now[i] >= 0, -1
        label = int(y[i])
        _cast_again(planes, at, now[i], source[at] >= 0, repeats)
        known = False
        for j in range(m):
            known = known or (source[at] >= 0 and _knows(planes, j, at))
        share = min(1.0, w[i])
        class_counts[label] += share
        even, newton = 1.0, 0.0
        if rule == LOGARITHMIC:
            even = evenness(class_counts)
            newton = _newtons(class_counts, even) if rate > 0.0 else 0.0
        known_now = not again or _classes(rule, planes, at, weights, quality, floors, p, parts)
        judged = known_now and _judge_classes(rule, planes, at, label, p, parts, g)
        if judged and newton > 0.0:
            _add_hessian(p, share, parts, hessian)
        known_now = now[i] >= 0 and _classes(rule, planes, now[i], weights, quality, floors, p, parts)
        if known_now and _judge_classes(rule, planes, now[i], label, p, parts, h):
            for j in range(m):
                g[j] = 0.5 * (g[j] + h[j]) if judged and not np.isnan(planes[j, at, 0]) else h[j]
            if not judged:
                at = now[i]
                if newton > 0.0:
                    _add_hessian(p, share, parts, hessian)
            judged = True
        if rule == LOGARITHMIC:
            set_floors(floor, class_counts, floors)
        if not judged:
            continue
        if not known and rule != LEADER:
            for j in range(m):
                weights[j] = 0.0 if repeats[j] else weights[j]
        if rule == LOGARITHMIC:
            if newton > 0.0:
                _newton_step(newton * share, 0.5 / rate, weights, hessian, awake, g, factor, h)
            _step((1.0 - newton) * rate * even, share, weights, sizes, counts, awake, g)
            for j in range(m):
                weights[j] = max(0.0, weights[j])
        elif rule == LINEAR:
            total, n_awake = 0.0, 0
            for j in range(m):
                weights[j] *= power(max(g[j], floor), share)
                total += weights[j]
                n_awake += awake[j]
            for j in range(m):
                if awake[j]:
                    weights[j] = (1.0 - rate) * weights[j] / total + rate / n_awake
        for j in range(m):
            if np.isnan(planes[j, at, 0]):
                continue
            best = 0
            for c in range(1, len(p)):
                if planes[j, at, c] > planes[j, at, best]:
                    best = c
            _note(quality, j, rate, share, 0.0 if best == label and planes[j, at, best] > 0.0 else 1.0)


@kernel
def set_floors(floor, class_counts, floors):
    """Write the least probability of each class that a member is taken to give, where LOGARITHMIC. O(n_outputs)."""
    most = 0.0
    for c in range(len(class_counts)):
        most = max(most, class_counts[c])
    for c in range(len(class_counts)):
        floors[c] = floor * max(floor, (class_counts[c] + 1.0) / (most + 1.0))


@kernel
def _judge_classes(rule, planes, at, label, p, parts, g):
    """What a label shows of the members' votes at a row, into g: the derivative by each weight where LOGARITHMIC, its
    probability where LINEAR. False where no weights would have made the vote right.

    p, parts : of this row (_classes).
    """
    k, possible = len(p), False
    for j in range(planes.shape[0]):
        possible = possible or planes[j, at, label] > 0.0
    if not possible:
        return False
    for j in range(planes.shape[0]):
        knows = parts[j, k] > 0.0
        if rule == LINEAR:
            g[j] = planes[j, at, label] if knows else p[label]
        elif rule == LOGARITHMIC:
            mean, own = 0.0, 0.0
            if knows:
                for c in range(k):
                    if p[c] > 0.0:
                        mean += p[c] * parts[j, c]
                own = parts[j, label]
            g[j] = _less(mean, own, 1.0)
    return True


@kernel
def _less(a, b, least):
    """a - b, or 0 where that is all rounding of numbers of their size, or of size `least`."""
    return a - b if abs(a - b) > ROUNDING * max(abs(a), abs(b), least) else 0.0


@kernel
def _cast_again(planes, at, now, cast, repeats):
    """Give members that repeat labels the vote that they cast, for their vote of now; none where nobody cast one.
    Mutates planes."""
    for j in range(planes.shape[0]):
        if repeats[j]:
            for c in range(planes.shape[2]):
                if not cast:
                    planes[j, at, c] = np.nan
                elif now >= 0:
                    planes[j, now, c] = planes[j, at, c]


@kernel
def _errs_less(quality, j, other):
    """Whether a member's faded error is less than another's; it is not as long as none was noted."""
    if quality[other, WEIGHT] == 0.0:
        return quality[j, WEIGHT] > 0.0
    return quality[j, ERROR] * quality[other, WEIGHT] < quality[other, ERROR] * quality[j, WEIGHT]


@kernel
def _knows(planes, j, at):
    """Whether a member knew anything of the instance."""
    total = 0.0
    for c in range(planes.shape[2]):
        total += planes[j, at, c]
    return total > 0.0


@kernel
def _classes(rule, planes, at, weights, quality, floors, p, parts):
    """Pooled probabilities into p; whether any member knew anything. A class that all give 0 keeps 0. O(m n_outputs).

    parts : (members, n_outputs + 1), written: what a member adds of each class, but for its weight; then whether it
    knew anything.
    """
    m, k = planes.shape[0], planes.shape[2]
    best, total = -1, 0.0
    for c in range(k):
        p[c] = 0.0
    for j in range(m):
        parts[j, k] = _knows(planes, j, at)
        if parts[j, k] > 0.0:
            total += weights[j]
            if best < 0 or _errs_less(quality, j, best):
                best = j
    if best < 0:
        return False
    if rule == LEADER:
        for c in range(k):
            p[c] = planes[best, at, c]
        return True
    for j in range(m):
        if parts[j, k] > 0.0:
            weight = weights[j] if rule == LOGARITHMIC or total > 0.0 else 1.0
            for c in range(k):
                vote = planes[j, at, c]
                parts[j, c] = log(max(vote, floors[c])) if rule == LOGARITHMIC else vote
                p[c] += weight * parts[j, c]
    most = -np.inf
    if rule == LOGARITHMIC:
        for c in range(k):
            possible = False
            for j in range(m):
                possible = possible or (parts[j, k] > 0.0 and planes[j, at, c] > 0.0)
            p[c] = p[c] if possible else -np.inf
            most = max(most, p[c])
    total = 0.0
    for c in range(k):
        if rule == LOGARITHMIC:
            p[c] = exp(p[c] - most) if p[c] > -np.inf else 0.0
        total += p[c]
    for c in range(k):
        p[c] /= total
    return True


@kernel
def pool_values(
    rule, op, row, y, w, kind, now, source, n, planes, rate, weights, sizes, quality, counts, awake, repeats,
    weights_of_blocks, block, last, out, g, h,
):  # fmt: skip
    """Pool the votes of a regression (classes: pool_classes).

    weights_of_blocks : (3, members) float64, block : (5,) float64; see models.opinion_pool.blocks.
    last : (rows,), the last label when each row was predicted, infinity where there was none, NaN where nobody tells.
    """
    m = planes.shape[0]
    for i in range(n):
        if kind[i] == AT_LABEL:
            continue
        at = row[i]
        if kind[i] == WANTED:
            use(weights, weights_of_blocks, block, h)
            out[source[at], 0] = _value(rule, planes, at, h, quality)
            continue
        if not w[i] > 0.0:
            continue
        _cast_again(planes, at, now[i], source[at] >= 0, repeats)
        share, far = min(1.0, w[i]), FAR * _least_error(quality)
        said = last[at] if source[at] >= 0 else np.nan
        if not goes_on(planes, at, now[i], said, block):
            end(weights, weights_of_blocks, block, awake, h)
        if block[BEFORE] > 1.0 and source[at] >= 0:
            after = _value(rule, planes, at, weights_of_blocks[LAST], quality)
            if not np.isnan(after):
                mean = _value(rule, planes, at, weights_of_blocks[MEAN], quality)
                note(block, share, abs(after - y[i]), abs(mean - y[i]))
        judged = _judge_values(rule, planes, at, y[i], weights, quality, far, g)
        known = judged and source[at] >= 0
        late = False
        if now[i] >= 0 and _judge_values(rule, planes, now[i], y[i], weights, quality, far, h):
            for j in range(m):
                if judged and not np.isnan(planes[j, at, 0]):
                    late = late or g[j] != h[j]
                    g[j] += OF_NOW * (h[j] - g[j])
                else:
                    g[j] = h[j]
            at = at if judged else now[i]
            judged = True
        if not judged:
            continue
        if rule == LINEAR:
            finite = True
            for j in range(m):
                finite = finite and np.isfinite(g[j])
            if finite:
                _hold(sizes, counts, g)
                value = _value(rule, planes, at, weights, quality)
                for j in range(m):
                    h[j] = weights[j]
                _step(rate * (LATE if late else 1.0), share, weights, sizes, counts, awake, g)
                _cut(planes, at, value, y[i], h, weights)
                if not known:
                    for j in range(m):
                        weights[j] = -np.inf if repeats[j] and awake[j] else weights[j]
                _onto_simplex(weights, awake)
            count(weights, weights_of_blocks, block, said)
        for j in range(m):
            if np.isfinite(planes[j, at, 0]):
                error = abs(planes[j, at, 0] - y[i])
                if quality[j, WEIGHT] > 0.0 and rate > 0.0:
                    error = held(error, quality[j, ERROR] / quality[j, WEIGHT], 1.0 / rate)
                _note(quality, j, rate, share, error)


@kernel
def _judge_values(rule, planes, at, target, weights, quality, far, g):
    """Derive the loss of a regression (classes: _judge_classes): the derivative by each weight where LINEAR. False
    where no member knew a value.

    far : the error from which on the loss is in proportion to it.
    """
    value = _value(rule, planes, at, weights, quality)
    if np.isnan(value):
        return False
    slope = min(far, max(-far, _less(value, target, 0.0)))
    for j in range(planes.shape[0]):
        own = planes[j, at, 0]
        g[j] = slope * _less(own, value, 0.0) if np.isfinite(own) else 0.0
    return True


@kernel
def _cut(planes, at, value, target, before, weights):
    """Shorten a step that would take the pooled value beyond the target. Mutates weights."""
    moved = 0.0
    for j in range(len(weights)):
        own = planes[j, at, 0]
        if np.isfinite(own):
            moved += (weights[j] - before[j]) * (own - value)
    if abs(moved) > abs(target - value):
        part = abs(target - value) / abs(moved)
        for j in range(len(weights)):
            weights[j] = before[j] + part * (weights[j] - before[j])


@kernel
def _hold(sizes, counts, g):
    """Let derivatives count as far as their running mean squares let them. Mutates g."""
    for j in range(len(g)):
        if sizes[j] > 0.0:
            square = held(g[j] * g[j], sizes[j] / counts[1], REACH)
            g[j] = min(np.sqrt(square), max(-np.sqrt(square), g[j]))


@kernel
def _least_error(quality):
    """The faded mean absolute error of the best member; infinite where none was noted."""
    least = np.inf
    for j in range(len(quality)):
        if quality[j, WEIGHT] > 0.0:
            least = min(least, quality[j, ERROR] / quality[j, WEIGHT])
    return least


@kernel
def _value(rule, planes, at, weights, quality):
    """The pooled value, NaN where no member knows one."""
    m = planes.shape[0]
    best, n, total, pooled, mean = -1, 0, 0.0, 0.0, 0.0
    for j in range(m):
        own = planes[j, at, 0]
        if np.isfinite(own):
            n += 1
            total += weights[j]
            pooled += weights[j] * own
            mean += own
            if best < 0 or _errs_less(quality, j, best):
                best = j
    if best < 0:
        return np.nan
    if rule == LEADER:
        return planes[best, at, 0]
    return pooled / total if total > 0.0 else mean / n


@kernel
def _step(rate, share, weights, sizes, counts, awake, g):
    """One step against the derivatives, each over the root of its running mean square. sizes : these means."""
    counts[0] += 1.0
    counts[1] = FADING * counts[1] + (1.0 - FADING)
    length = share * rate * max(1.0, EARLY / np.sqrt(counts[0]))
    for j in range(len(g)):
        if not awake[j]:
            continue
        sizes[j] = FADING * sizes[j] + (1.0 - FADING) * g[j] * g[j]
        if sizes[j] > 0.0:
            weights[j] -= length * g[j] * np.sqrt(counts[1] / sizes[j])


@kernel
def _newtons(class_counts, even):
    """The part of Newton steps: all until there are two classes, since nothing shows yet how even they are."""
    n_seen = 0
    for c in range(len(class_counts)):
        n_seen += class_counts[c] > 0.0
    return min(1.0, max(0.0, (EVEN - even) / (EVEN - UNEVEN))) if n_seen > 1 else 1.0


@kernel
def _add_hessian(p, share, parts, hessian):
    """Add that of the loss of a label by the weights, at the votes of a row; what was before fades. It is the same for
    each label: the covariance of the members' log probabilities under p. O(m^2 n_outputs).

    p, parts : of this row (_classes). Mutates parts.
    """
    m, k = len(parts), len(p)
    for j in range(m):
        mean = 0.0
        for c in range(k):
            parts[j, c] = parts[j, c] if parts[j, k] > 0.0 and p[c] > 0.0 else 0.0
            mean += p[c] * parts[j, c]
        for c in range(k):
            parts[j, c] -= mean
    for j in range(m):
        for i in range(j + 1):
            total = 0.0
            for c in range(k):
                total += p[c] * parts[i, c] * parts[j, c]
            hessian[i, j] = hessian[j, i] = REMEMBERED * hessian[j, i] + share * total


@kernel
def _newton_step(share, stiffness, weights, hessian, awake, g, factor, step):
    """weights -= share (hessian + stiffness I)^-1 g, over the members that are awake. By Cholesky. O(m^3).

    factor : (members, members), step : (members,), scratch.
    """
    m = len(g)
    for j in range(m):
        step[j] = g[j] if awake[j] else 0.0
        for i in range(j + 1):
            total = hessian[j, i] if awake[i] and awake[j] else 0.0
            total += stiffness if i == j else 0.0
            for n in range(i):
                total -= factor[i, n] * factor[j, n]
            factor[j, i] = np.sqrt(total) if i == j else total / factor[i, i]
    for j in range(m):
        for i in range(j):
            step[j] -= factor[j, i] * step[i]
        step[j] /= factor[j, j]
    for j in range(m - 1, -1, -1):
        for i in range(j + 1, m):
            step[j] -= factor[i, j] * step[i]
        step[j] /= factor[j, j]
        weights[j] -= share * step[j]


@kernel
def _onto_simplex(weights, awake):
    """The nearest weights >= 0 of those awake whose sum is 1 (Michelot's algorithm)."""
    threshold, before = -np.inf, 0
    for _ in range(len(weights)):  # each round but the last leaves out one at least
        left, total = 0, 0.0
        for j in range(len(weights)):
            if awake[j] and weights[j] > threshold:
                left += 1
                total += weights[j]
        if left in (0, before):
            break
        threshold, before = (total - 1.0) / left, left
    for j in range(len(weights)):
        if awake[j]:
            weights[j] = max(0.0, weights[j] - threshold)


@kernel
def _note(quality, j, rate, share, error):
    """Note an error of a member; what was before fades."""
    quality[j, ERROR] = (1.0 - rate) * quality[j, ERROR] + share * error
    quality[j, WEIGHT] = (1.0 - rate) * quality[j, WEIGHT] + share
