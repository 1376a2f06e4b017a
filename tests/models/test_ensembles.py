"""Online ensembles against their naive twins: votes, trees and qualities, whatever the threads and the chunks."""

import math

import numpy as np
import pytest

from riparian.checks import snapshot
from riparian.models.ensemble import boosting, chunks
from riparian.models.ensemble.chunks import HITS, WEIGHT
from riparian.models.ensemble.stacking import PREFIX, stack, stacked_bytes, unstack
from riparian.models.kernels.draws import key, poisson, poisson_from, poisson_table, uniform_at
from riparian.models.registry import create
from tests.models import naive_ensembles as naive
from tests.models.shared_out import share_out
from tests.models.streams_of_instances import in_pieces, interleave, mixed, played, same

EAGER = {"grace_period": 20, "delta": 0.1, "tie_threshold": 0.4}
TWINS = {
    "online-bagging": naive.BaggingTwin,
    "leveraging-bagging": naive.LeveragingTwin,
    "smooth-boost": naive.SmoothBoostTwin,
    "online-boosting": naive.BoostingTwin,
}
MODES = [
    ("online-bagging", {}),
    ("online-bagging", {"vote": "weighted", "leaf_prediction": "nb"}),
    ("online-bagging", {"vote": "majority", "leaf_prediction": "mc", "observer": "histogram"}),
    ("leveraging-bagging", {"drift_delta": 0.95}),
    ("leveraging-bagging", {"drift_delta": 0.9, "rate": 1.0, "vote": "weighted", "leaf_prediction": "mc"}),
    ("smooth-boost", {}),
    ("smooth-boost", {"gamma": 0.6, "vote": "majority", "binary_splits": True}),
    ("online-boosting", {}),
    ("online-boosting", {"poisson": False, "leaf_prediction": "mc"}),
]
WORLDS = [
    {"n_values": (0, 3, 0, 5, 2), "n_classes": 3, "weights": "whole"},
    {"n_values": (0, 0), "n_classes": 2, "missing": 0.0},
    {"n_values": (4, 2, 6), "n_classes": 4, "weights": "fractions"},
]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """So that a few hundred operations are many chunks."""
    for name in ("LEAST", "MOST"):
        monkeypatch.setattr(chunks, name, 90)
    monkeypatch.setattr(boosting, "LEAST_FLIGHT", 50)


def made(name, stream, **parameters):
    return create(name, stream.schema, seed=7, **{"n_models": 3, **EAGER, **parameters})


def run(learner, stream, delay):
    out = np.zeros((len(stream.x), stream.schema.n_outputs))
    learner.run(interleave(stream, delay), stream.x, out)
    return out


def trees_of(twin):
    """As an ensemble describes its members: the trees' nodes, member by member."""
    found = []
    for member in twin.members:
        for node in member.tree.describe():
            found.append((member.serial if node["parent"] is None else None, node))
    return found


@pytest.mark.parametrize(("name", "more"), MODES, ids=str)
def test_equals_twin(name, more):
    at = MODES.index((name, more)) % 3
    delay = 5 * (at % 2)  # the labels of every other world come late
    stream = mixed(600, seed=delay + 3, **WORLDS[at])
    program = interleave(stream, delay)
    learner, out = in_pieces(lambda: made(name, stream, **more), program, stream.x)
    twin = TWINS[name](stream.schema.n_values, stream.schema.n_outputs, 7, **learner.parameters())
    assert out.tolist() == played(twin, program, stream.x, stream.schema.n_outputs).tolist()
    ours, theirs = learner.describe(), trees_of(twin)
    assert [node.get("member") for node in ours] == [serial for serial, _ in theirs]
    for a, (_, b) in zip(ours, theirs, strict=True):
        assert a.get("feature") == b.get("feature")
        assert a["weight"] == pytest.approx(b["weight"], rel=1e-12)
        assert a["value"] == pytest.approx(b["value"], rel=1e-12)
    assert len(ours) > 12
    quality = learner.state().quality
    assert quality[:, [HITS, WEIGHT]].tolist() == [[m.hits, m.weight] for m in twin.members]
    if name == "leveraging-bagging":
        assert twin.replaced >= 1
    if name == "online-boosting":
        assert quality[:, 3:].tolist() == [[m.right, m.wrong] for m in twin.members]
        assert np.all(quality[:, 3:] > 0.0)


@pytest.mark.parametrize("name", ["online-bagging", "smooth-boost"])
def test_an_error_in_a_thread_comes_out(name, monkeypatch):
    """And nobody waits for ever for what was to come after it."""
    share_out(monkeypatch, 3)
    stream = mixed(600, seed=2)
    learner = made(name, stream, n_models=5)

    def fail(*_):
        raise MemoryError("no room")

    learner.members[3].run = fail
    with pytest.raises(MemoryError, match="no room"):
        run(learner, stream, 3)


@pytest.mark.parametrize("name", ["online-boosting", "smooth-boost"])
def test_what_a_shared_step_took_counts_for_the_next(name, monkeypatch):
    """A step that took far too long, as where kernels are compiled, does not keep the next ones shared for ever."""
    share_out(monkeypatch, 2)
    stream = mixed(100, seed=2)
    learner = made(name, stream)
    learner._parts._all = 1e9
    for left in (0.75, 0.75**2, 0.75**3):
        run(learner, stream, 3)
        assert learner._parts._all == pytest.approx(1e9 * left, rel=1e-3)


SIZES = [(10, 9, 2), (10, 9, 40), (100, 1000, 10), (1000, 5, 100)]


@pytest.mark.parametrize(("n_members", "n_features", "n_outputs"), SIZES)
def test_scratch_is_bounded(n_members, n_features, n_outputs, monkeypatch):
    monkeypatch.undo()
    length = chunks.length_of_chunks(n_members, n_features, n_outputs)
    taken = 8 * length * (n_members * (n_outputs + 3) + n_features + 4)
    assert chunks.LEAST <= length <= chunks.MOST
    assert taken <= chunks.SCRATCH or length == chunks.LEAST
    assert length == chunks.MOST or 2 * taken > chunks.SCRATCH


@pytest.mark.parametrize("name", TWINS)
def test_members_come_and_go(name):
    stream = mixed(800, seed=5, drift=False)
    learner = made(name, stream, n_models=4)
    learner.learn_many(stream.x[:400], stream.y[:400])
    state = snapshot(learner)
    accuracy = (state["quality"][:, HITS] + 1.0) / (state["quality"][:, WEIGHT] + 2.0)
    kept = sorted(np.argsort(-accuracy, kind="stable")[:2].tolist())
    assert len(set(accuracy.tolist())) > 2
    fewer = made(name, stream, n_models=2)
    fewer.restore(state)
    assert fewer.state().serials.tolist() == state["serials"][kept].tolist()
    more = made(name, stream, n_models=6)
    more.restore(state)
    n = int(state["numbers"][1])
    assert more.state().serials.tolist() == [*state["serials"].tolist(), n, n + 1]
    for other in (fewer, more):
        learner.restore(state)
        learner.set_members(other.parameters()["n_models"])
        assert same(snapshot(learner), snapshot(other))
        assert learner.size()["n_models"] == other.parameters()["n_models"]
        for one in (learner, other):
            one.learn_many(stream.x[400:], stream.y[400:])
        assert same(snapshot(learner), snapshot(other))
        assert (learner.predict_many(stream.x).argmax(axis=1) == stream.y).mean() > 0.6
        learner.set_members(4)


def test_draws_are_those_of_the_distribution():
    member = key(3, 5, 1)
    assert int(member) == naive.key_of(3, 5, 1)
    places = [uniform_at(member, np.int64(i)) for i in range(20_000)]
    assert places[:50] == [naive.draw(int(member), i) for i in range(50)]
    assert len(set(places)) == len(places)
    for rate in (1e-3, 1.0, 6.0, 100.0):
        table = poisson_table(rate)
        counts = [poisson_from(table, u) for u in places]
        assert counts == [poisson(rate, u) for u in places] == [naive.poisson(rate, u) for u in places]
        assert np.mean(counts) == pytest.approx(rate, abs=5.0 * math.sqrt(rate / 20_000))
        assert np.var(counts) == pytest.approx(rate, rel=0.5 if rate < 0.1 else 0.1)
        assert poisson_from(table, 1.0 - 2.0**-53) == poisson(rate, 1.0 - 2.0**-53) >= 1.0
    assert poisson(1234.6, 0.5) == 1235.0


def test_stacked_states_come_apart_again():
    rng = np.random.default_rng(1)
    states = [
        {"b": rng.random((n, 2 + n % 2)), "a": np.arange(n + 1, dtype=np.int32), "c": np.zeros((0, 3))}
        for n in (3, 5, 1)
    ]
    stacked = stack(states)
    assert stacked[PREFIX + "b"].shape == (3, 8, 3)
    assert stacked[PREFIX + "a"].shape == (3, 8)
    assert stacked_bytes(states) == sum(array.nbytes for array in stacked.values())
    for slot, state in enumerate(states):
        found = unstack(dict(reversed(stacked.items())), slot)
        assert found.keys() == state.keys()
        assert all(np.array_equal(found[name], array) for name, array in state.items())
