"""How many threads share a step, and whether any do, changes no bit."""

import numpy as np
import pytest

from riparian.checks import cut, snapshot
from riparian.models.ensemble import chunks
from riparian.models.kernels import threads
from riparian.models.registry import create
from tests.models.shared_out import LEAST, share_out
from tests.models.streams_of_instances import interleave, mixed, same

EAGER = {"grace_period": 20, "delta": 0.1, "tie_threshold": 0.4}
WATCHED = {"n_models": 5, **EAGER, "warning_delta": 0.9, "drift_delta": 0.3}
FOREST = {"model": "adaptive-random-forest", "n_models": 3}
MEMBERS = {
    "forest": FOREST,
    "patches": {**FOREST, "model": "streaming-random-patches"},
    "mondrian": {"model": "mondrian-forest", "n_trees": 4},
    "shrubs": "shrub-ensemble",
    "boosting": {"model": "online-boosting", "n_models": 3},
    "soft": "soft-hoeffding-tree",
    "last": "last-label",
}
VALUES = {name: one for name, one in MEMBERS.items() if name not in ("patches", "boosting")}
CASES = [
    ("online-bagging", {"n_models": 7, **EAGER}, "classification"),
    ("online-bagging", {"n_models": 7, **EAGER}, "regression"),
    ("adaptive-random-forest", WATCHED, "classification"),
    ("adaptive-random-forest", WATCHED, "regression"),
    ("streaming-random-patches", WATCHED, "classification"),
    ("leveraging-bagging", {"n_models": 4, **EAGER, "drift_delta": 0.9}, "classification"),
    ("smooth-boost", {"n_models": 5, **EAGER}, "classification"),
    ("online-boosting", {"n_models": 5, **EAGER}, "classification"),
    ("streaming-decision-forest", {"n_trees": 9, "batch_size": 50, "replaced": "always"}, "classification"),
    ("mondrian-forest", {"n_trees": 9}, "classification"),
    ("shrub-ensemble", {"every": 16}, "classification"),
    ("opinion-pool", {"members": MEMBERS}, "classification"),
    ("opinion-pool", {"members": VALUES, "rest_below": 0.1}, "regression"),
    ("auto", {}, "classification"),
]


def of(stream, task):
    """The stream, or numbers instead of its classes."""
    if task == "classification":
        return stream
    y = stream.y + np.nan_to_num(stream.x[:, 0])
    return stream._replace(schema=stream.schema._replace(n_outputs=1, task=task), y=y)


def learned(name, parameters, stream, sizes):
    """Predictions, and the state, after programs of these sizes."""
    learner, program, at = create(name, stream.schema, seed=7, **parameters), interleave(stream, 5), 0
    out = np.full((len(stream.x), stream.schema.n_outputs), np.nan)
    for size in sizes:
        learner.run(cut(program, at, at + size), stream.x, out)
        at += size
    return out, snapshot(learner)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("name", "parameters", "task"), CASES, ids=str)
def test_threads_change_no_bit(name, parameters, task, seed, monkeypatch):
    stream, rng = of(mixed(900, seed=seed), task), np.random.default_rng(seed)
    sizes = []
    while sum(sizes) < 2 * len(stream.x):  # mixed: with and without threads
        sizes.append(int(rng.integers(1, LEAST) if rng.random() < 0.3 else rng.integers(LEAST, 400)))
    monkeypatch.setattr(chunks, "MOST", 100)
    out, state = learned(name, parameters, stream, sizes)
    for n in (1, 2, 8):
        share_out(monkeypatch, n)
        found, after = learned(name, parameters, stream, sizes)
        assert found.tobytes() == out.tobytes()
        assert same(after, state)


def test_a_pool_hands_out_what_its_members_hand_out(monkeypatch):
    """While its longest member runs, others run parts of it."""
    share_out(monkeypatch, 3)
    asked, share = [], threads.CREW.share
    monkeypatch.setattr(threads.CREW, "share", lambda order, *rest: [asked.append(len(order)), share(order, *rest)])
    stream = mixed(200, seed=1)
    learned("opinion-pool", {"members": {"forest": FOREST, "last": "last-label"}}, stream, [200, 200])
    assert {2, 3} == set(asked)
