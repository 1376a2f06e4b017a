"""States from outside: what a rule says of links and numbers, and what it refuses. Every learner, array and value:
tests/fuzz/learners.py."""

import numpy as np
import pytest

from models.contract import Schema
from models.drift import DETECTORS
from models.registry import REGISTRY, create
from models.restoring import MODULES, Arrays, DamagedError, check, restore
from tests.models.contract import worlds as contract


def grown(name, task="classification", n=600, **parameters):
    """A learner that has learned, and a function that restores its state with some arrays exchanged."""
    learner = create(name, contract.schema_of(task), seed=1, **parameters)
    x, y = contract.rows(n, task)
    learner.learn_many(x, y)
    good = {field: array.copy() for field, array in learner.state()._asdict().items()}

    def restored(**changed):
        fresh = create(name, contract.schema_of(task), seed=1, **parameters)
        restore(fresh, {**good, **changed})
        return fresh

    return good, restored, x


def test_every_learner_and_detector_has_a_rule():
    assert set(REGISTRY) <= set(MODULES)
    assert DETECTORS


def test_forged_links_of_a_tree_are_refused():
    good, restored, x = grown("hoeffding-tree", grace_period=50, tie_threshold=0.2)
    assert restored().predict_many(x).shape == (len(x), contract.K)
    assert len(good["links"]) > 5
    inner = int(np.flatnonzero(good["links"][:, 0] >= 0)[-1])
    for column, value, said in (
        (1, inner, "children"),  # its own child
        (1, 1 << 30, "children"),
        (2, 0, "leads to no child"),
        (0, 99, "features outside -1 .. 4, 99"),
        (5, inner, "parents"),
        (6, 7, "depths"),
        (7, 0, "statistics of inner nodes"),
    ):
        links = good["links"].copy()
        links[inner, column] = value
        with pytest.raises(DamagedError, match=f"^hoeffding-tree: the state is none that this .*links .*{said}"):
            restored(links=links)
    for name, array in good.items():
        with pytest.raises(DamagedError, match=f"{name} (is missing|has shape|has numbers of type|has room)"):
            restored(**{name: array.astype(np.float32)})
        with pytest.raises(DamagedError):
            restored(**{name: np.concatenate([array, array])})


def test_children_that_go_round_in_circles_are_refused_though_each_has_one_parent():
    good, restored, _ = grown(
        "extremely-fast-decision-tree", n=3000, grace_period=50, reevaluation_period=100, tie_threshold=0.2
    )
    links, children = good["links"].copy(), good["child_of_value"].copy()
    inner = [i for i in np.flatnonzero(links[:, 0] >= 0) if links[i, 4] > 0]
    assert inner
    # A node below the root takes itself for the child that was its first one, whose place above it becomes free.
    node = inner[0]
    above, first = links[node, 4], children[links[node, 1]]
    children[np.flatnonzero(children == node)] = first
    children[links[node, 1]] = node
    links[node, 4], links[first, 4] = node, above
    with pytest.raises(DamagedError):
        restored(links=links, child_of_value=children)


def test_a_histogram_that_says_more_keys_than_it_has_is_refused():
    good, restored, _ = grown("hoeffding-tree", grace_period=50, observer="histogram", n_bins=8)
    for value in (9.0, -1.0, np.nan, np.inf, 2.5):
        stats = good["stats"].copy()
        stats[0, contract.K] = value
        with pytest.raises(DamagedError, match="stats has numbers of keys"):
            restored(stats=stats)
    stats = good["stats"].copy()
    stats[0, 0] = -1.0
    with pytest.raises(DamagedError, match="weights below 0"):
        restored(stats=stats)


def test_a_tree_without_nodes_has_no_root():
    good, restored, _ = grown("mondrian-forest", n_trees=2)
    with pytest.raises(DamagedError, match="has a root in trees without nodes"):
        restored(counts=np.zeros_like(good["counts"]))
    check(
        create("mondrian-forest", contract.schema_of("classification")),
        create("mondrian-forest", contract.schema_of("classification")).state()._asdict(),
    )


def test_a_member_of_an_ensemble_is_named():
    good, restored, _ = grown("online-bagging", n_models=3, grace_period=50, tie_threshold=0.2)
    links = good["member_links"].copy()
    links[1, 0, 5] = 10_000
    with pytest.raises(DamagedError, match=r"^online-bagging, member 1: .*links has parents"):
        restored(member_links=links)


def test_a_window_of_errors_has_to_add_up():
    good, restored, _ = grown("hoeffding-adaptive-tree", n=900, grace_period=50, tie_threshold=0.2)
    for column, value in ((0, 32), (1, 1 << 30), (2, -1), (3, 26), (4, 64), (5, 2)):
        windows = good["windows"].copy()
        windows[0, column] = value
        with pytest.raises(DamagedError, match="windows has"):
            restored(windows=windows)


def test_what_a_learner_itself_says_of_its_state_is_said():
    learner = create("adaptive-random-forest", Schema((0,) * 5, 2, "classification"), n_models=1, max_features="sqrt")
    other = create("adaptive-random-forest", Schema((0,) * 5, 2, "classification"), n_models=1, max_features="all")
    with pytest.raises(DamagedError, match="champion: its trees look at another number of features"):
        restore(learner, other.state()._asdict(), "champion")


def naive(following):
    """Whether every way comes to -1."""
    for i in range(len(following)):
        steps = 0
        while i >= 0:
            i, steps = following[i], steps + 1
            if steps > len(following):
                return False
    return True


@pytest.mark.parametrize("seed", range(200))
def test_ways_that_end(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    following = rng.integers(-1, n, n)
    a = Arrays("m", {})
    if naive(following.tolist()):
        a.acyclic("links", following)
    else:
        with pytest.raises(DamagedError, match="goes round in circles"):
            a.acyclic("links", following)


@pytest.mark.parametrize("seed", range(200))
def test_chains_of_free_places(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    members = rng.random(n) < 0.6
    following = np.full(n, -1)
    free = rng.permutation(np.flatnonzero(members))
    first = int(free[0]) if len(free) else -1
    following[free[:-1]] = free[1:]
    a = Arrays("m", {})
    a.chain("links", first, following, members)
    if len(free):
        following[free[rng.integers(len(free))]] = rng.integers(-1, n)
        first = int(rng.choice([first, rng.integers(-1, n)]))
    found, at = [], first
    while at >= 0 and at not in found:
        found.append(at)
        at = int(following[at])
    if at < 0 and sorted(found) == np.flatnonzero(members).tolist():
        a.chain("links", first, following, members)
    else:
        with pytest.raises(DamagedError):
            a.chain("links", first, following, members)


def test_every_node_has_one_owner_and_comes_from_a_root():
    a = Arrays("m", {})
    assert a.owners("links", [0, 0, 1], [1, 2, 3], 4, [0]).tolist() == [-1, 0, 0, 1]
    for owner, child, roots in (
        ([0, 0, 1], [1, 2, 2], [0]),  # two owners of one
        ([0, 3, 2], [1, 2, 3], [0]),  # a circle apart
        ([0, 0], [1, 2], [0]),  # one that nobody has
        ([0, 0, 1], [1, 2, 0], [3]),
        ([0, 0, 1], [1, 2, 9], [0]),
    ):
        with pytest.raises(DamagedError):
            a.owners("links", owner, child, 4, roots)


def test_a_check_changes_nothing():
    good, _, _ = grown("hoeffding-tree", grace_period=50)
    before = {field: array.tobytes() for field, array in good.items()}
    for array in good.values():
        array.flags.writeable = False
    check(create("hoeffding-tree", contract.schema_of("classification"), grace_period=50), good)
    assert before == {field: array.tobytes() for field, array in good.items()}
