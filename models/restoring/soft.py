"""Rules of soft trees, and of pools of models."""

from typing import Any

import numpy as np

from models.contract import Schema
from models.regression.observers import lay_out
from models.restoring.arrays import Arrays
from models.restoring.hoeffding import histograms
from models.soft.base import Models
from models.soft.choice import BEST
from models.soft.forest import (
    BLOCK,
    BY_NODE,
    DEPTH,
    FEATURE,
    FIRST,
    GATE,
    N_BINS,
    PARENT,
    S_DEPTH,
    S_GROWS,
    VALUE,
    used,
)


def check(a: Arrays, learner: Any) -> None:
    models = learner._models
    if learner.name == "model-pool":
        _pool(a, learner)
    if models is not None:
        _forest(a, models, learner.schema)


def _pool(a: Arrays, pool: Any) -> None:
    from models.restoring import check as check_learner

    n = len(pool._candidates)
    faded, state, learned, random = a.fields(pool.state(), "pool_faded", "pool_state", "pool_learned", "pool_random")
    a.within("pool_state", state[BEST], 0, n - 1, "candidates")
    a.counts("pool_state", state)
    a.counts("pool_learned", learned)
    a.finite("pool_faded", faded)
    a.random("pool_random", random)
    for m, learner in enumerate(pool._learners):
        prefix = f"candidate{m}_"
        own = {name.removeprefix(prefix): array for name, array in a.state.items() if name.startswith(prefix)}
        check_learner(learner, own, f"{a.model}, candidate {m}")


def _forest(a: Arrays, models: Models, schema: Schema) -> None:
    fresh, settings = used(models.forest), models.settings
    grows = bool(settings[0, S_GROWS])
    counts, links = a.fields(fresh, "counts", "links", links=(None, 6))
    n = len(links)
    a.fields(fresh, *BY_NODE, **{name: (n, *getattr(fresh, name).shape[1:]) for name in BY_NODE})
    gates, blocks = a.fields(
        fresh, "gates", "blocks", gates=(None, *fresh.gates.shape[1:]), blocks=(None, fresh.blocks.shape[1])
    )
    (owners,) = a.fields(fresh, "owners", owners=(len(blocks),))
    roots, *_ = a.fields(fresh, "roots", "scales", "known", "values", "targets")
    a.equal("counts", counts, (n, len(gates), len(blocks)), "counts")
    first = links[:, FIRST].astype(np.int64)
    here, leaf = np.flatnonzero(first >= 0), first < 0
    a.within("links", first, -1, n - 2, "children")
    child = np.concatenate([first[here], first[here] + 1])
    above = a.owners("links", np.concatenate([here, here]), child, n, roots.ravel())
    a.equal("links", links[:, PARENT], above, "parents")
    depth, below = links[:, DEPTH].astype(np.int64), np.flatnonzero(above >= 0)
    a.equal("links", depth[below], depth[above[below]] + 1, "depths")
    a.require(not depth[roots].any(), "links", "has roots that are not at the top")
    a.within("links", depth, 0, int(settings[:, S_DEPTH].max()), "depths")  # as many nodes are reached at most
    a.within("links", links[here, FEATURE], 0 if grows else -1, schema.n_features - 1, "features")
    a.require((links[leaf, GATE] == -1).all() and (links[here, BLOCK] == -1).all(), "links", "has rows of other nodes")
    a.each_once("links", links[here, GATE], len(gates), "gates")
    block = links[leaf, BLOCK]
    a.within("links", block, -1, len(blocks) - 1, "blocks")
    a.each_once("links", block[block >= 0], len(blocks), "blocks")
    a.within("owners", owners, 0, n - 1, "leaves")
    a.equal("owners", links[owners, BLOCK], np.arange(len(blocks)), "leaves")
    if grows:
        n_values = np.array(schema.n_values)[links[here, FEATURE]]
        nominal = n_values > 0
        a.whole("tests", a.state["tests"][here, VALUE][nominal], 0, n_values[nominal] - 1, "values")
        if schema.task == "regression":
            layout = lay_out(schema, N_BINS)[0]
            histograms(
                a, blocks, np.where(layout.n_values == 0, layout.offset, -1)[None], N_BINS, "blocks", signed=True
            )
