"""Pools of opinions: against the slow twin, with votes that wait for late labels, and with members of all kinds."""

from itertools import pairwise

import numpy as np
import pytest

from riparian.models.contract import LEARN, PREDICT, Program, Schema
from riparian.models.explanation.shapley import contributions
from riparian.models.opinion_pool import resting
from riparian.models.opinion_pool.entries import MEMBERS
from riparian.models.opinion_pool.members import members
from riparian.models.registry import create, exchanged, memo_names, validate
from tests.models.naive_opinion_pool import NaivePool

CLASSES = {"tree": "hoeffding-tree", "bayes": "naive-bayes", "last": "last-label", "most": "majority-class"}
VALUES = {"fimt": "fimt-dd", "last": "last-label", "mean": "mean", "soft": "soft-tree"}
N = 250


RULES = [
    *(("classification", rule) for rule in ("logarithmic", "linear", "leader")),
    *(("regression", rule) for rule in ("linear", "leader")),
]


def world(task, k=3, seed=0, n=N, late=40):
    """x, y, weights, a third of them small, and an order in which labels come up to 40 instances late, or that late."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 3, n)])
    y = np.digitize(x[:, 0] + 0.3 * rng.normal(size=n), [-0.5, 0.5])[:n] % k if task != "regression" else x[:, 0] * 3
    if task == "regression":
        y[n // 2] = 1e4  # a wrong one
    w = rng.choice([1.0, 0.001, 3.0], n)
    when = np.concatenate([np.arange(n), np.arange(n) + late - 40 + rng.integers(0, 40, n) + 0.5])
    when = np.where(when < n, when, np.inf) if late > 40 else when
    order = np.argsort(when, kind="stable")[: np.isfinite(when).sum()]
    op = np.where(order < n, PREDICT, LEARN).astype(np.int8)
    row = (order % n).astype(np.int32)
    labels = np.where(op == LEARN, y[row], np.nan)
    labels[(op == LEARN) & (rng.random(len(op)) < 0.05)] = np.nan  # they teach nothing
    return x, Program(op, row, labels, np.where(op == LEARN, w[row], 1.0))


def kept_for(pool, n):
    return [np.full((n, pool.schema.n_outputs), np.nan) for _ in range(pool.n_memos)]


def check_prediction(found, wanted, task):
    """wanted : None where nobody knows anything."""
    unknown = np.nan if task == "regression" else 0.0
    np.testing.assert_allclose(found, unknown if wanted is None else wanted, rtol=1e-7, atol=1e-12)


def check_follows(pool, twin, program, x, out):
    """A pool has predicted what the twin does, operation by operation, and weighs its members as it does."""
    for op, row, y, w in zip(*program, strict=True):
        if op == PREDICT:
            check_prediction(out[row], twin.predict(row, x[row]), pool.schema.task)
        elif not np.isnan(y):
            twin.learn(row, x[row], y, w)
    assert pool.weights == pytest.approx(twin.used(), rel=1e-7, abs=1e-9)


def at_once(program):
    """Each label right after its instance was predicted, twice of every third one."""
    n = int(program.row.max()) + 1
    labels = np.full(n, np.nan)
    learned = program.op == LEARN
    labels[program.row[learned]] = program.y[learned]
    rows = np.repeat(np.arange(n), np.where(np.arange(n) % 3, 2, 3)).astype(np.int32)
    op = np.where(np.r_[True, rows[1:] != rows[:-1]], PREDICT, LEARN).astype(np.int8)
    weights = np.ones(n)
    weights[program.row[learned]] = program.w[learned]
    return Program(op, rows, np.where(op == LEARN, labels[rows], np.nan), np.where(op == LEARN, weights[rows], 1.0))


@pytest.mark.parametrize(("rate", "kept"), [(0.002, True), (0.05, False)])
@pytest.mark.parametrize("order", [lambda program: program, at_once], ids=["late", "at-once"])
@pytest.mark.parametrize(("task", "rule"), RULES)
def test_it_is_its_definition(task, rule, order, rate, kept):
    schema = Schema((0, 0, 3), 4 if task == "classification" else 1, task)
    some = CLASSES if task == "classification" else VALUES
    pool = create("opinion-pool", schema, seed=3, members=some, pool=rule, rate=rate, floor=0.02)
    twin = NaivePool(schema, some, rule, rate, 0.02, seed=3, kept=kept)
    x, program = world(task)
    program = order(program)
    out = np.zeros((N, schema.n_outputs))
    if kept:
        pool.run_with(program, x, out, kept_for(pool, N))
    else:
        pool.run(program, x, out)
    check_follows(pool, twin, program, x, out)
    assert len({round(weight, 6) for weight in pool.weights.values()}) > 1 or rule == "leader"


SEES = {"max_values": [0, 0, 2], "target_means": [2]}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("task", "k"), [("classification", 2), ("classification", 3), ("regression", 1)])
def test_members_see_fewer_values_and_mean_targets_as_the_definition_says(task, k, kept):
    """And wherever a program is cut, with late labels, of which some teach nothing."""
    schema = Schema((0, 0, 3), k, task)
    some = CLASSES if task == "classification" else VALUES
    less, means, *_ = some
    views = {less: SEES, means: {"target_means": [2]}}
    given = {name: {"model": model, **views.get(name, {})} for name, model in some.items()}
    sees = {less: ([0, 0, 2], [2]), means: ([0, 0, 0], [2])}
    rule = "logarithmic" if task == "classification" else "linear"
    twin = NaivePool(schema, some, rule, 0.05, 0.02, seed=3, kept=kept, sees=sees)
    x, program = world(task, k=k, seed=5)
    x[::17, 2] = np.nan
    x[:5, 2] = 2.0
    states = []
    for cuts in ([0], [0, 7, 100, 101, 400], range(len(program.op))):
        pool = create("opinion-pool", schema, seed=3, members=given, rate=0.05, floor=0.02)
        out = np.zeros((N, schema.n_outputs))
        planes = kept_for(pool, N) if kept else []
        for a, b in pairwise([*cuts, len(program.op)]):
            pool.run_with(program.part(a, b), x, out, planes)
        states.append([a.tobytes() for a in (*planes, out, *pool.state())])
    assert states[0] == states[1] == states[2]
    check_follows(pool, twin, program, x, out)
    assert pool.members[less].schema.n_values == (0, 0, 2, 0)
    told = {node.get("member"): node for node in pool.describe()}
    assert told.keys() >= set(some)
    assert all(node.get("feature", 0) < 3 for node in pool.describe())


def test_mean_targets_forget():
    """A value whose labels are others from some day on."""
    pool = create(
        "opinion-pool", Schema((2,), 2, "classification"), members={"bayes": {"model": "naive-bayes", **SEES}}
    )
    target = create(
        "opinion-pool", Schema((2,), 2, "classification"), members={"m": {"model": "naive-bayes", "target_means": [0]}}
    )
    x = np.zeros((8000, 1))
    target.learn_many(x, np.arange(8000) >= 4000)
    assert target.state().target_0[:, 0].tolist() == [1000.0, 1000.0, 0.0]
    assert target.state().target_0[1, 1] > 0.95
    assert not [name for name in pool.state()._fields if name.startswith("target")]  # of features it does not have


def test_what_a_mean_target_adds_is_its_features():
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.random(3000), rng.integers(0, 40, 3000)])
    y = (rng.random(3000) < 0.1 + 0.8 * (x[:, 1] % 2)).astype(float)
    for some in ({"tree": "hoeffding-tree"}, {"tree": "hoeffding-tree", "soft": "soft-hoeffding-tree"}):
        given = {name: {"model": model, "max_values": 2, "target_means": [1]} for name, model in some.items()}
        for rule in ("linear", "logarithmic"):
            pool = create("opinion-pool", Schema((0, 40), 2, "classification"), members=given, pool=rule)
            pool.learn_many(x, y)
            rows = np.arange(200, dtype=np.int32)
            found = contributions(pool, x, rows, np.ones(200, np.int64), rows.astype(np.uint64))
            assert found.shape == (200, 3)
            assert np.abs(found[:, 1]).mean() > 5 * np.abs(found[:, 0]).mean()
    nodes = pool.describe()
    assert any(node.get("target_mean") and node["feature"] == 1 for node in nodes)
    assert {len(node["gate"]["importance"]) for node in nodes if "gate" in node} <= {2}


def test_what_members_see_is_part_of_what_they_are():
    """A member that sees something else begins anew, others go on, with what was learned of values."""
    schema = Schema((0, 0, 3), 3, "classification")
    x, program = world("classification", seed=6)
    was = {name: {"model": model, "target_means": [2]} for name, model in CLASSES.items()}
    pool = create("opinion-pool", schema, members=was)
    pool.run(program, x, np.zeros((N, 3)))
    now = {**was, "tree": {"model": "hoeffding-tree", **SEES}}
    assert "go on: bayes, last, most; begin: tree" in str(
        exchanged("opinion-pool", "classification", {"members": was}, {"members": now})
    )
    other = create("opinion-pool", schema, members=now)
    other.restore(other.adapted(pool.parameters(), pool.state()._asdict()))
    assert other.state().target_2.tobytes() == pool.state().target_2.tobytes()
    assert other.members["tree"].size()["n_nodes"] == 1


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    ("task", "rule"), [("classification", "logarithmic"), ("classification", "linear"), ("regression", "linear")]
)
def test_members_without_weight_rest_as_the_definition_says(task, rule, kept, monkeypatch):
    """And wherever a program is cut. In the second half another member is right: who rested is awake again."""
    monkeypatch.setattr(resting, "ROUND", 16)
    monkeypatch.setattr(resting, "EARLY", 48)
    n = 360
    schema = Schema((0, 0, 3), 3 if task == "classification" else 1, task)
    some = {"last": "last-label", "other": "last-label", **(CLASSES if task == "classification" else VALUES)}
    x, program = world(task, seed=2, n=n, late=10)
    constant = (program.op == LEARN) & ~np.isnan(program.y) & (program.row >= 240)
    program.y[constant] = 1.0
    given = {"members": some, "pool": rule, "rate": 0.05, "floor": 0.02, "rest_below": 0.1}
    pool = create("opinion-pool", schema, seed=3, **given)
    twin = NaivePool(schema, some, rule, 0.05, 0.02, seed=3, kept=kept, rest_below=0.1, round=16, early=48)
    out, rested = np.zeros((n, schema.n_outputs)), []
    planes = kept_for(pool, n) if kept else []
    for i, (op, row, y, w) in enumerate(zip(*program, strict=True)):
        pool.run_with(program.part(i, i + 1), x, out, planes)
        if op == PREDICT:
            check_prediction(out[row], twin.predict(row, x[row]), task)
        elif not np.isnan(y):
            twin.learn(row, x[row], y, w)
            rested.append(set(twin.asleep))
            if len(rested) % 5 == 0:  # at each place within a round, after so many
                assert {root["member"] for root in pool.describe() if root.get("resting")} == rested[-1]
    assert pool.weights == pytest.approx(twin.used(), rel=1e-7, abs=1e-9)
    assert not any(rested[:47])
    n_rested = {name: sum(name in one for one in rested) for name in some}
    assert 0 < sum(n_rested.values()) < len(some) * (len(rested) - 47)
    assert any(name in one and name not in two for one, two in pairwise(rested) for name in some)
    whole, other = create("opinion-pool", schema, seed=3, **given), np.zeros_like(out)
    notes = kept_for(whole, n) if kept else []
    whole.run_with(program, x, other, notes)
    assert other.tobytes() == out.tobytes()
    assert [one.tobytes() for one in (*notes, *whole.state())] == [one.tobytes() for one in (*planes, *pool.state())]


def test_who_rests_goes_on_resting_from_a_state_and_among_other_members(monkeypatch):
    monkeypatch.setattr(resting, "ROUND", 16)
    monkeypatch.setattr(resting, "EARLY", 48)
    schema = Schema((0, 0, 3), 3, "classification")
    x, program = world("classification", seed=2, late=10)
    given = {"rate": 0.05, "rest_below": 0.1}
    pool = create("opinion-pool", schema, members=CLASSES, **given)
    out = np.zeros((N, 3))
    pool.run(program, x, out)
    resting_now = {root["member"] for root in pool.describe() if root.get("resting")}
    assert resting_now
    twice = create("opinion-pool", schema, members=CLASSES, **given)
    twice.restore(pool.state()._asdict())
    more = create("opinion-pool", schema, members={"new": "mondrian-forest", **CLASSES}, **given)
    more.restore(more.adapted(pool.parameters(), pool.state()._asdict()))
    for other in (twice, more):
        assert {root["member"] for root in other.describe() if root.get("resting")} == resting_now
    pool.run(program, x, out)
    found = np.zeros_like(out)
    twice.run(program, x, found)
    assert found.tobytes() == out.tobytes()
    assert [a.tobytes() for a in twice.state()] == [a.tobytes() for a in pool.state()]
    with pytest.raises(ValueError, match="rests are not those of 4 members"):
        more.adapted(pool.parameters(), {**pool.state()._asdict(), "rests": np.zeros((3, 2), np.int64)})


@pytest.mark.parametrize(
    ("task", "rule", "n_stay", "late", "wider"),
    [
        *((*one, (4, 1)[i % 2], 40, False) for i, one in enumerate(RULES)),
        ("classification", "logarithmic", 2, 600, False),
        ("regression", "linear", 2, 600, False),
        ("classification", "logarithmic", 2, 40, True),
        ("classification", "linear", 2, 40, True),
    ],
)
def test_members_are_exchanged_while_votes_wait(task, rule, n_stay, late, wider):
    """Wherever it is cut, a pool whose first member is new goes on as the twin does, and what a new member did not say
    is not judged; a frozen one learns no more. wider : a class is new soon after."""
    some, new = (CLASSES, "naive-bayes") if task == "classification" else (VALUES, "hoeffding-regression-tree")
    k = 4 if task == "classification" else 1
    schema = Schema((0, 0, 3), k, task)
    narrow = schema._replace(n_outputs=2) if wider else schema
    given = {"pool": rule, "rate": 0.05, "floor": 0.02}
    n = 1600 if late > 40 else 400
    x, program = world(task, seed=4, n=n, late=late)
    half = late + 300 if late > 40 else len(program.op) // 2
    grown = half + 30
    if wider:
        program.y[:grown] %= 2
    before = create("opinion-pool", narrow, seed=3, members=some, **given)
    twin = NaivePool(schema, some, rule, 0.05, 0.02, seed=3)
    out, notes = np.zeros((n, narrow.n_outputs)), kept_for(before, n)
    before.run_with(program.part(0, half), x, out, notes)
    stay = list(some)[-n_stay:]
    still = stay[-1]
    now = {"new": new, **{name: some[name] for name in stay}, still: {"model": some[still], "frozen": True}}
    results = []
    for cuts in ([half, grown], range(half, len(program.op))):
        pool = create("opinion-pool", narrow, seed=3, members=now, **given)
        pool.restore(pool.adapted(before.parameters(), before.state()._asdict()))
        held = dict(zip(some, notes, strict=True))
        planes = [held[name].copy() if name in held else np.full_like(out, np.nan) for name in now]
        found = out.copy()
        for a, b in pairwise([*cuts, len(program.op)]):
            if wider and a == grown:
                pool.resize(schema)
                found, *planes = (np.pad(one, ((0, 0), (0, k - 2))) for one in (found, *planes))
            pool.run_with(program.part(a, b), x, found, planes)
        results.append([found.tobytes(), *(one.tobytes() for one in (*planes, *pool.state()))])
    assert results[0] == results[1]
    for i, (op, row, y, w) in enumerate(zip(*program, strict=True)):
        if i == half:
            twin.exchange({"new": new}, some.keys() - stay, seed=3)
            twin.frozen = {still}
            learned = before.members[still].state()
        if op == PREDICT:
            wanted = twin.predict(row, x[row])
            unknown = np.nan if task == "regression" else 0.0
            np.testing.assert_allclose(found[row], unknown if wanted is None else wanted, rtol=1e-7, atol=1e-12)
        elif not np.isnan(y):
            twin.learn(row, x[row], y, w)
    assert pool.weights == pytest.approx(twin.used(), rel=1e-7, abs=1e-9)
    if not wider:
        assert [one.tobytes() for one in pool.members[still].state()] == [one.tobytes() for one in learned]
    # A model that begins in its place knows what the frozen member does, and nothing else.
    fresh = create("opinion-pool", schema, seed=3, members=now, **given)
    fresh.inherit(pool)
    said = [[member.predict_many(x[:1]).tolist() for member in one.members.values()] for one in (fresh, pool)]
    assert said[0][-1] == said[1][-1]
    np.testing.assert_array_equal(np.nan_to_num(said[0][:-1]), 0.0)


def test_a_state_that_is_of_other_members_is_a_sentence():
    schema = Schema((0,), 2, "classification")
    before = create("opinion-pool", schema, members=CLASSES)
    pool = create("opinion-pool", schema, members={"new": "naive-bayes", "tree": "hoeffding-tree"})
    state = before.state()._asdict()
    for field in ("weights", "sizes", "quality"):
        wrong = {**state, field: state[field][1:]}
        with pytest.raises(ValueError, match=f"opinion-pool: {field} are not those of 4 members"):
            pool.adapted(before.parameters(), wrong)


def test_notes_that_were_taken_away_are_asked_for_anew():
    schema = Schema((0, 0, 3), 3, "classification")
    x, program = world("classification", seed=2)
    some = {name: model for name, model in CLASSES.items() if model != "last-label"}
    known, asked = (create("opinion-pool", schema, members=some) for _ in range(2))
    kept = kept_for(known, N)
    for i in range(len(program.op)):
        for votes in kept:
            votes[program.row[i : i + 1][program.op[i : i + 1] == LEARN], 0] = np.nan
        known.run_with(program.part(i, i + 1), x, np.zeros((N, 3)), kept)
    asked.run(program, x, np.zeros((N, 3)))
    assert [a.tobytes() for a in known.state()] == [a.tobytes() for a in asked.state()]


@pytest.mark.parametrize("order", [lambda program: program, at_once], ids=["late", "at-once"])
@pytest.mark.parametrize("shares", [[0.94, 0.055, 0.005], [0.99, 0.008, 0.002]])
def test_where_a_class_is_rare_steps_are_newtons_as_the_definition_says(shares, order):
    schema, n = Schema((0, 0, 3), 3, "classification"), 600
    pool = create("opinion-pool", schema, seed=3, members=CLASSES, rate=0.01)
    twin = NaivePool(schema, CLASSES, "logarithmic", 0.01, 0.01, seed=3)
    x, program = world("classification", n=n)
    program = order(program)
    known = (program.op == LEARN) & ~np.isnan(program.y)
    program.y[known] = np.random.default_rng(1).choice(3, known.sum(), p=shares)
    out, even = np.zeros((n, 3)), []
    pool.run_with(program, x, out, kept_for(pool, n))
    for op, row, y, w in zip(*program, strict=True):
        if op == PREDICT:
            check_prediction(out[row], twin.predict(row, x[row]), "classification")
        elif not np.isnan(y):
            even.append(twin.evenness(int(y), min(1.0, w)))
            twin.learn(row, x[row], y, w)
    assert pool.weights == pytest.approx(twin.used(), rel=1e-7, abs=1e-9)
    assert even[0] == 1.0
    assert (even[-1] < 0.3) == (shares[0] > 0.98)  # Newton steps alone, or both


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"members": {"a": "hoefding-tree"}}, "member 'a' of model 'opinion-pool': unknown model 'hoefding-tree'"),
        ({"members": {"A b": "naive-bayes"}}, "give it a name of lower-case letters"),
        ({"members": {"a": {"rate": 1}}}, "give a model's name, or a mapping with 'model'"),
        ({"members": {"a": {"model": "naive-bayes", "rate": 1}}}, "member 'a' of model 'opinion-pool': model 'naive-b"),
        ({"members": {"a": {"model": "naive-bayes", "frozen": 1}}}, "frozen is 1: give true or false"),
        ({"members": {"a": {"model": "naive-bayes", "max_values": 1}}}, "max_values is 1: give a number from 2 on"),
        ({"members": {"a": {"model": "naive-bayes", "max_values": [0, "a"]}}}, "max_values is .0, 'a'.: give a number"),
        ({"members": {"a": {"model": "naive-bayes", "target_means": 2}}}, "target_means is 2: give the numbers of"),
        ({"members": {"a": {"model": "naive-bayes", "target_means": [2, 1]}}}, "from 0 on, ascending"),
        ({"members": {"a": "opinion-pool"}}, "cannot be a member"),
        ({"members": {"a": "external"}}, "cannot be a member"),
        ({"members": {"a": "fimt-dd"}}, "does not do classification"),
        ({"members": {f"m{i}": "last-label" for i in range(65)}}, "has 65 members: give 1 .. 64"),
    ],
)
def test_members_that_do_not_do(given, said):
    with pytest.raises(ValueError, match=said):
        validate("opinion-pool", "classification", given)


def test_derivatives_that_are_rounding_move_no_weight():
    """A step is a derivative over the root of its square, whatever its size."""
    pool = create("opinion-pool", Schema((0,), 1, "regression"), members={"one": "mean", "two": "mean"}, rate=0.05)
    for member, value in zip(pool.members.values(), (7.5, np.nextafter(7.5, 8.0)), strict=True):
        member.run = lambda program, slab, out, value=value: out.__setitem__(slice(None), value)
    for label in (0.0, 1.0):
        pool.learn_many(np.zeros((1, 1)), [label])
    assert pool.weights == {"one": 0.5, "two": 0.5}


def test_labels_of_a_day_at_once_teach_whom_to_believe_the_next_day():
    """Evenings are unlike the rest of a day, of which no feature tells: who follows the last labels is wrong all day
    long, and is right when asked once more while the labels of a day come."""
    n, day = 6000, 100
    rng, at = np.random.default_rng(0), np.arange(n)
    x = rng.normal(size=(n, 2))
    y = np.where(at % day >= 75, 100.0, 0.0) + x[:, 0] + rng.normal(size=n)
    order = np.concatenate([np.concatenate([block, block + n]) for block in at.reshape(-1, day)])
    op = np.where(order < n, PREDICT, LEARN).astype(np.int8)
    row = (order % n).astype(np.int32)
    program = Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(2 * n))
    some = {"mean": "mean", "near": {"model": "mean", "fading": 0.9}, "fimt": "fimt-dd", "last": "last-label"}
    pool = create("opinion-pool", Schema((0, 0), 1, "regression"), members=some, rate=0.001)
    out = np.zeros((n, 1))
    planes = kept_for(pool, n)
    pool.run_with(program, x, out, planes)
    half = at >= n // 2
    errors = [np.abs(one[half, 0] - y[half]).mean() for one in (out, *planes)]
    assert errors[0] < 1.05 * min(errors[1:])


def in_blocks(n, size, rng):
    """x, y that leaps in the last quarter of each block, and an order in which the labels of a block come at once."""
    x = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 3, n)])
    at = np.arange(n)
    y = np.where(at % size >= 0.75 * size, 20.0, 0.0) + x[:, 0] + 0.3 * rng.normal(size=n)
    order = np.concatenate([np.concatenate([block, block + n]) for block in at.reshape(-1, size)])
    op = np.where(order < n, PREDICT, LEARN).astype(np.int8)
    row = (order % n).astype(np.int32)
    return x, y, Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(2 * n))


@pytest.mark.parametrize("rest_below", [0.0, 0.1])
def test_labels_in_blocks_are_weighed_as_the_definition_says(rest_below, monkeypatch):
    """And wherever a program is cut. The weights' mean over a block comes to be believed."""
    monkeypatch.setattr(resting, "ROUND", 64)
    monkeypatch.setattr(resting, "EARLY", 128)
    n = 600
    schema = Schema((0, 0, 3), 1, "regression")
    x, _, program = in_blocks(n, 40, np.random.default_rng(1))
    program.w[program.op == LEARN] = np.random.default_rng(2).choice([1.0, 0.001, 3.0], n, p=[0.8, 0.1, 0.1])
    some = {**VALUES, "near": "hoeffding-regression-tree"}
    given = {"members": some, "rate": 0.01, "rest_below": rest_below}
    results = []
    for cuts in ([0], [0, 7, 100, 101, 500], range(len(program.op))):
        pool = create("opinion-pool", schema, seed=3, **given)
        out, planes = np.zeros((n, 1)), kept_for(pool, n)
        for a, b in pairwise([*cuts, len(program.op)]):
            pool.run_with(program.part(a, b), x, out, planes)
        results.append([one.tobytes() for one in (*planes, out, *pool.state())])
    assert results[0] == results[1] == results[2]
    twin = NaivePool(schema, some, "linear", 0.01, 0.0, seed=3, rest_below=rest_below, round=64, early=128)
    check_follows(pool, twin, program, x, out)
    assert twin.used() is not twin.weights
    assert rest_below == 0.0 or twin.asleep
    again = create("opinion-pool", schema, seed=3, **given)
    again.restore(pool.state()._asdict())
    assert again.weights == pool.weights


def test_a_state_of_before_there_were_blocks_goes_on():
    n = 200
    x, _, program = in_blocks(n, 20, np.random.default_rng(1))
    pool = create("opinion-pool", Schema((0, 0, 3), 1, "regression"), members=VALUES)
    out, planes = np.zeros((n, 1)), kept_for(pool, n)
    pool.run_with(program, x, out, planes)
    state = pool.state()._asdict()
    older = {name: array for name, array in state.items() if name not in ("weights_of_blocks", "block")}
    twice = create("opinion-pool", Schema((0, 0, 3), 1, "regression"), members=VALUES)
    twice.restore(older)
    assert list(twice.weights.values()) == state["weights"].tolist()
    assert twice.state().weights_of_blocks.tobytes() == np.zeros((3, 4)).tobytes()
    assert twice.state().block.tobytes() == np.zeros(5).tobytes()


def test_a_regression_has_no_logarithmic_pool():
    with pytest.raises(ValueError, match="'linear' or 'leader'"):
        validate("opinion-pool", "regression", {"pool": "logarithmic"})


@pytest.mark.parametrize("task", list(MEMBERS))
def test_default_members_are_there_and_counted(task):
    named = members(task, None)
    assert list(named) == list(MEMBERS[task])
    assert len(memo_names("opinion-pool", task, {})) == len(named)
    assert memo_names("hoeffding-tree", task, {}) == []
