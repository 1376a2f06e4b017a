"""Neighbours with two memories against their slow twin; and that by hand, on a line of one feature, as in the paper."""

import math

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.registry import create
from tests.models.naive_neighbours import NaiveNeighbours, Row
from tests.models.streams_of_instances import Stream, in_pieces, interleave, mixed, played
from tests.models.sums import added

PAPER = {"every": 1, "reach": 10**9}
A, B = 0.0, 1.0


def rows(*pairs):
    return [Row([x], y, z=np.array([x], np.float32), number=i) for i, (x, y) in enumerate(pairs)]


def twin(short=(), long=(), **parameters):
    """One whose rows and scales are as given."""
    found = NaiveNeighbours([0], 2, **(PAPER | {"k": 3, "minimum": 2, "window": 8} | parameters))
    found.short, found.long = rows(*short), rows(*long)
    return found


def contents(memory):
    return [(row.x[0], row.y) for row in memory]


def test_neighbours_vote_by_inverse_distance():
    near = rows((1.0, A), (-2.0, B), (3.0, B), (4.0, B))
    assert twin().vote([0.0], near) == pytest.approx([1.0, 1 / 2 + 1 / 3])
    near[0].w = 0.5
    assert twin().vote([0.0], near) == pytest.approx([0.5, 1 / 2 + 1 / 3])
    values = rows((1.0, 10.0), (-2.0, 20.0))
    assert twin(classes=False).vote([0.0], values) == pytest.approx((10.0 + 20.0 / 2) / (1 + 1 / 2))
    assert twin().vote([0.0], []) is None


def test_of_equal_distances_the_later_is_nearer_and_the_short_memory():
    one = twin([(1.0, A), (-1.0, B)], [(-1.0, A), (1.0, B)], k=1)
    assert [contents([one.nearest([0.0], some)[0][1]]) for some in one.sets()] == [[(-1.0, B)], [(1.0, B)], [(-1.0, B)]]


@pytest.mark.parametrize(
    ("k", "kept"),
    [
        (1, [(-1.1, B), (1.5, B), (0.5, A), (9.0, B)]),  # the nearest has its label: theta 1
        (2, [(-1.1, B), (1.5, B), (0.5, A), (9.0, B)]),  # the second has not
        (3, [(0.5, A), (9.0, B)]),  # theta 3
    ],
)
def test_an_example_cleans_as_far_as_its_neighbours_of_its_label_are(k, kept):
    others = [(1.0, B), (-1.1, B), (1.5, B), (0.5, A), (9.0, B)]
    one = twin([(1.0, A), (2.0, B), (-3.0, A)], others, k=k)
    (example,) = rows((0.0, A))
    wrong = one.contradicting(example, one.short, one.long)
    assert contents([row for row in one.long if row not in wrong]) == kept


def test_without_neighbours_of_its_label_an_example_cleans_nothing():
    one = twin([(1.0, B), (2.0, B), (3.0, B)], [(0.0, B)])
    assert one.contradicting(*rows((0.0, A)), one.short, one.long) == []


def test_the_learner_cleans_the_nearest_only():
    one = twin([(4.0, A)], [(3.0, B), (1.0, B), (2.0, B)], reach=2)
    assert contents(one.contradicting(*rows((0.0, A)), one.short, one.long)) == [(1.0, B), (2.0, B)]


def test_targets_contradict_that_are_farther_than_those_of_all_neighbours():
    one = twin([(1.0, 5.0), (2.0, 8.0)], [(1.0, 13.1), (2.0, 12.9), (0.0, 1.0), (2.1, 99.0)], classes=False)
    assert contents(one.contradicting(*rows((0.0, 9.0)), one.short, one.long)) == [(0.0, 1.0), (1.0, 13.1)]


def test_a_removed_row_gives_its_place_to_the_last():
    one = twin(long=[(0.0, A), (1.0, A), (2.0, A), (3.0, A)])
    one.remove([one.long[1], one.long[3]])
    assert contents(one.long) == [(0.0, A), (2.0, A)]


def learned(labels, **parameters):
    """The sizes of the short memory along labels of one place, where the latest label is the guess."""
    one, sizes = twin(k=1, **parameters), []
    for label in labels:
        one.learn([0.0], label)
        sizes.append(len(one.short))
    return one, sizes


def test_the_short_memory_has_the_size_with_the_least_interleaved_error():
    """Of 5 rows 1 is wrong of 4, and of the last two 1 of 1; of 6, 1 of 5, and of the last three 1 of 2; of 7, 1 of 6,
    and of the last three none."""
    one, sizes = learned([A, A, A, A, B, B, B])
    assert sizes == [1, 2, 3, 4, 5, 6, 3]
    assert one.long == []  # four of A, where now is B
    assert learned([A, A, A, A, B, B, B], minimum=4, window=16)[1] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("every", "sizes"), [(2, [1, 2, 3, 4, 5, 2, 3, 4, 5]), (3, [1, 2, 3, 4, 5, 6, 7, 2, 3])])
def test_the_learner_has_fewer_windows(every, sizes):
    """From rows 0, 2, 4, ...: of 6 rows the last two, of up to 3. From 0, 3, 6: of 8 the last two, of up to 4."""
    assert learned([A, A, A, A, B, B, B, B, B], every=every)[1] == sizes


def test_what_leaves_a_full_short_memory_goes_to_the_long_one():
    one = twin(k=1, window=8)
    for x, label in [(0.0, A), (9.0, B), (1.0, A), (9.1, B), (0.1, A), (9.2, B), (0.9, A), (8.9, B)]:
        one.learn([x], label)
    assert [row.x[0] for row in one.short] == [1.0, 9.1, 0.1, 9.2, 0.9, 8.9]
    assert contents(one.long) == [(0.0, A), (9.0, B)]


def test_the_memory_that_was_right_most_often_predicts():
    """The long one knows A: it is right at first, then the short one's B is, and the long one is cleaned."""
    one = twin(long=[(0.0, A)], k=1)
    assert one.predict([0.0]).tolist() == [0.0, 0.0]  # equal: the short one, which is empty
    one.learn([0.0], A)
    assert one.short[-1].losses == (1.0, 0.0, 0.0)
    one.learn([0.0], B)
    assert one.short[-1].losses == (1.0, 1.0, 1.0)
    assert one.predict([0.0]).tolist() == [1.0, 0.0]  # 2, 1, 1 wrong: the long one
    one.learn([0.0], B)
    assert one.short[-1].losses == (0.0, 1.0, 0.0)
    assert one.predict([0.0]).tolist() == [0.0, 1.0]  # 2, 2, 1 wrong: both, and the later label is the nearer one
    assert one.long == []


def test_the_long_memory_keeps_half_as_many_rows_of_each_class():
    one = twin(long=[(0.0, A), (5.0, B), (11.0, A), (10.0, A), (1.0, A)])
    one.compress()
    assert contents(one.long) == [(0.5, A), (10.5, A), (5.0, B)]
    one = twin(long=[(3.0, B)] * 5)
    one.compress()
    assert contents(one.long) == [(3.0, B)]
    one = twin(long=[(0.0, 4.0), (0.0, 8.0), (9.0, 1.0), (9.0, 3.0)], classes=False)
    one.compress()
    assert contents(one.long) == [(0.0, 6.0), (9.0, 2.0)]


def test_the_long_memory_keeps_the_newer_half_where_each_class_has_one_row():
    one = twin(long=[(0.0, B), (1.0, A), (2.0, 2.0)])
    one.compress()
    assert contents(one.long) == [(2.0, 2.0)]
    one.long = one.long[:1]
    one.compress()
    assert one.long == []


def test_prototypes_and_distances_of_nominal_and_missing_values():
    one = NaiveNeighbours([0, 3], 2)
    some = [Row([x, v], A, z=np.array([x, v], np.float32)) for x, v in [(1.0, 2.0), (math.nan, 1.0), (4.0, math.nan)]]
    assert one.squared(np.array([2.0, 1.0], np.float32), some).tolist() == [2.0, 1.0, 5.0]
    assert one.squared(np.array([math.nan, math.nan], np.float32), some).tolist() == [2.0, 1.0, 1.0]
    assert one.prototype(some).x == [2.5, 1.0]


def test_scales_are_those_of_the_last_renewal():
    one = NaiveNeighbours([0], 2, minimum=2, window=8)
    for x in (1.0, 3.0, 8.0):
        one.learn([x], A)
    assert one.standardised([4.0]).tolist() == [2.0]  # mean 2, variance 1
    one.learn([8.0], A)
    assert one.standardised([4.0]) == pytest.approx([(4.0 - 5.0) / math.sqrt(9.5)])


@pytest.mark.parametrize(("y", "w"), [(2.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (A, 0.0), (A, math.inf)])
def test_what_teaches_nothing(y, w):
    one = twin()
    one.learn([0.0], y, w)
    assert (one.n, one.short) == (0, [])


N = 200
SMALL = {"k": 3, "window": 48, "long": 16, "minimum": 8}


def drifting(seed=0, d=3, n_classes=3, task="classification"):
    """The concept turns three times; features of scales 1, 10, 100, ..."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, d)) * 10.0 ** np.arange(d)
    turned = np.where(np.arange(N) // (N // 4) % 2 == 0, 1.0, -1.0)
    signal = x[:, 0] * turned + x[:, 1] / 20.0 + 0.2 * rng.normal(size=N)
    if task == "regression":
        return Stream(Schema((0,) * d, 1, task), x, np.round(5.0 * signal + 100.0, 2), np.ones(N))
    cuts = np.quantile(signal, np.arange(1, n_classes) / n_classes)
    return Stream(Schema((0,) * d, n_classes, task), x, np.digitize(signal, cuts).astype(float), np.ones(N))


def with_ties(stream):
    """Few values of a feature, and a constant one."""
    x = np.round(stream.x / 10.0 ** np.arange(stream.x.shape[1]))
    x[:, -1] = 7.0
    return stream._replace(x=x)


def with_wrong_ones(stream):
    x, y, w = stream.x.copy(), stream.y.copy(), np.random.default_rng(3).random(N).round(1)
    x[N // 3, 0], x[N // 3 + 1, 1], y[N // 2], y[N // 2 + 9] = 1e300, 1e99, 1e5, np.nan
    w[N // 4] = 1e200
    x[::13, 0] = np.nan
    return stream._replace(x=x, y=y, w=w)


WORLDS = {
    "drift": drifting(),
    "two features": drifting(1, d=2),
    "one place": drifting(2)._replace(x=np.full((N, 3), 4.0)),
    "ties": with_ties(drifting(3)),
    "forty classes": drifting(4, n_classes=40),
    "one class": drifting(5)._replace(y=np.ones(N)),
    "nominal and missing": mixed(N, 6),
    "nominal": mixed(N, 7, n_values=(3, 2, 4), weights="whole"),
    "all missing": drifting(8)._replace(x=np.full((N, 3), np.nan)),
    "wrong values": with_wrong_ones(drifting(9))._replace(y=drifting(9).y),
    "targets": drifting(10, task="regression"),
    "ties and targets": with_ties(drifting(11, task="regression")),
    "wrong targets": with_wrong_ones(drifting(12, task="regression")),
    "one target": drifting(13, task="regression")._replace(y=np.full(N, -3.0)),
}


def check_is_its_twin(stream, parameters, delay=0):
    """Bit for bit: what both predict, and what they remember at last."""
    schema, program = stream.schema, interleave(stream, delay)
    learner, ours = in_pieces(lambda: create("nearest-neighbours", schema, **parameters), program, stream.x)
    classes = schema.task == "classification"
    one = NaiveNeighbours(schema.n_values, schema.n_outputs, classes=classes, **parameters)
    np.testing.assert_array_equal(ours, played(one, program, stream.x, schema.n_outputs))
    state = learner.state()
    assert state.sizes.tolist() == [len(one.short), len(one.long)]
    remembered = one.short + one.long
    for name in ("x", "y", "w"):
        found = getattr(state, name)[: len(remembered)]
        np.testing.assert_array_equal(found, np.array([getattr(row, name) for row in remembered]).reshape(found.shape))
    np.testing.assert_array_equal(state.losses[: len(one.short)], [row.losses for row in one.short])
    np.testing.assert_array_equal(state.sums[: len(one.windows)], [added(losses) for losses in one.windows.values()])


@pytest.mark.parametrize("world", WORLDS)
def test_equal_to_the_twin(world):
    check_is_its_twin(WORLDS[world], SMALL)


@pytest.mark.parametrize(
    ("world", "parameters"),
    [
        ("drift", {"k": 1}),
        ("ties and targets", {"k": 9}),
        ("ties", {"long": 0}),
        ("targets", {"long": 3}),
        ("targets", {"long": 1}),
        ("forty classes", {"long": 5}),
        ("drift", {"window": 33, "minimum": 50}),
        ("ties", {"minimum": 2, "long": 40}),
    ],
)
def test_equal_to_the_twin_with_other_parameters(world, parameters):
    check_is_its_twin(WORLDS[world], SMALL | parameters)


@pytest.mark.parametrize("world", ["nominal and missing", "targets"])
def test_equal_to_the_twin_where_labels_are_late(world):
    check_is_its_twin(WORLDS[world], SMALL, delay=30)
