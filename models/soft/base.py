"""What the learners made of soft trees have in common: arrays as state, capacities, the program."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Learner, Program, Schema
from riparian.models.joined import copied
from riparian.models.kernels.elementary import logs
from riparian.models.kernels.kernel import GROW
from riparian.models.layout import Paths, StateLayout
from riparian.models.observers import gaussians as observers
from riparian.models.regression.observers import lay_out as lay_out_values
from riparian.models.soft.choice import PoolChoice, pool_of
from riparian.models.soft.forest import (
    BLOCK,
    DEPTH,
    FEATURE,
    FIRST,
    GATE,
    N_BINS,
    N_BLOCKS,
    N_GATES,
    N_NODES,
    S_ALPHA,
    S_BETA1,
    S_BETA2,
    S_CRITICAL,
    S_DEPTH,
    S_GAMMA,
    S_GRACE,
    S_GROWS,
    S_LOG_DELTA,
    S_MIN_REACH,
    S_PER_GAMMA,
    S_RATE,
    S_REGRESSION,
    S_TIE,
    SoftForest,
    encode,
    make_room,
    plant,
    scratch_of,
    transfer,
    used,
)
from riparian.models.soft.growth import N_SPLIT_POINTS
from riparian.models.soft.passes.inputs import pull_back
from riparian.models.soft.program import run
from riparian.models.soft.transparency import described, important_features


def settings_of(schema: Schema, p: Mapping[str, Any]) -> list[float]:
    """The parameters of a soft Hoeffding tree or a soft tree, as kernels take them."""
    settings = np.zeros(14)
    grows = "max_depth" in p
    settings[[S_DEPTH, S_ALPHA, S_GAMMA]] = p["max_depth" if grows else "depth"], p.get("alpha", 1.0), p["gamma"]
    settings[[S_RATE, S_BETA1, S_BETA2]] = p["learning_rate"], p["beta1"], p["beta2"]
    settings[[S_GROWS, S_REGRESSION, S_PER_GAMMA]] = grows, schema.task == "regression", 1.0 / p["gamma"]
    if grows:
        settings[[S_MIN_REACH, S_GRACE, S_TIE]] = p["min_reach"], p["grace_period"], p["tie_threshold"]
        settings[S_LOG_DELTA] = logs(1.0 / p["delta"])
        n_tests = schema.n_features * (N_BINS if schema.task == "regression" else N_SPLIT_POINTS)
        level = p["significance"] / n_tests
        settings[S_CRITICAL] = -NormalDist().inv_cdf(level) if p["significance"] < 1.0 else -math.inf
    return settings.tolist()


class Models:
    """The arrays of one or several models, and the kernel over them."""

    def __init__(
        self,
        schema: Schema,
        settings: Sequence[Sequence[float]],
        n_trees: int,
        seed: int,
        pool: PoolChoice | None = None,
    ) -> None:
        self.settings = np.array(settings)
        self.n_trees = n_trees
        self.forest = plant(schema, self.settings, n_trees, seed)
        self.pool = pool_of(1, 0, 0, 1.0, seed) if pool is None else pool
        splits = n_trees * sum(int(1.0 / s[S_MIN_REACH]) + 1 for s in settings if s[S_GROWS])
        self._room = np.array([2 * splits, splits, splits], np.int64)
        self.prepare(schema)

    def prepare(self, schema: Schema) -> None:
        """What follows from the schema and is not state."""
        self._encoding, _ = encode(schema)
        self._layout = observers.lay_out(schema)[0]
        numeric = np.array(schema.n_values) == 0
        n_values, offset, cached, code, bins = self._layout
        self._numeric_layout = observers.BlockLayout(
            n_values[numeric], offset[numeric], cached[numeric], code[numeric], bins
        )
        self._value_layout = lay_out_values(schema, N_BINS)[0]
        self._known_values = observers.know_nothing(schema)
        self._scratch = scratch_of(schema, len(self.settings), self.n_trees, int(self.settings[:, S_DEPTH].max()))

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        progress = np.zeros(1, np.int64)
        while (
            run(
                program.op, program.row, program.y, program.w, slab, out, progress, self.forest, self._encoding,
                self._layout, self._numeric_layout, self._value_layout, self.settings, self._room, self.pool,
                self._known_values, self._scratch,
            ) == GROW
        ):  # fmt: skip
            self.forest = make_room(self.forest, *(int(n) for n in self._room))

    def resize(self, old: Schema, new: Schema) -> None:
        observers.check_growth(old, new)
        self.forest = transfer(self.forest, old, new, bool(self.settings[0, S_GROWS]))
        self.prepare(new)

    def pull_back(self, x: Floats, gradients: Floats) -> tuple[Floats, Floats]:
        """Pull gradients back (models.soft.passes.inputs.pull_back) to rows of any layout: (outputs, gradients by the
        inputs)."""
        rows = np.ascontiguousarray(x, dtype=np.float64)
        outputs, inputs = np.zeros((len(rows), self._scratch.logits.shape[1])), np.zeros(rows.shape)
        given = np.ascontiguousarray(np.broadcast_to(np.asarray(gradients, np.float64), outputs.shape))
        pull_back(
            rows, given, self.forest, self._encoding, self._layout, self.settings, self._scratch, outputs, inputs
        )  # fmt: skip
        return outputs, inputs

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        before = {"residuals": np.zeros_like(self.forest.residuals)}  # of a state that an older version wrote
        self.forest = copied({**before, **state}, self.forest)


class SoftModel(Learner):
    """A learner that is one model of soft trees."""

    layout: ClassVar[StateLayout] = StateLayout(
        rows={"links tests weights powers leaves classes": "nodes", "gates": "gates", "blocks owners": "blocks"},
        counts={("counts", N_NODES): "nodes", ("counts", N_GATES): "gates", ("counts", N_BLOCKS): "blocks"},
        places={
            ("links", FEATURE): "features", ("links", GATE): "gates", ("links", BLOCK): "blocks", "owners": "nodes",
            "roots": "nodes",
        },
        paths=(Paths(("links", FIRST), (("links", FIRST),), ("links", DEPTH), pairs=True),),
    )  # fmt: skip

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        self._models = Models(schema, [settings_of(schema, p)], p.get("n_trees", 1), seed)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        self._models.run(program, slab, out)

    def resize(self, schema: Schema) -> None:
        self._models.resize(self.schema, schema)
        self.schema = schema

    def state(self) -> SoftForest:
        return used(self._models.forest)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._models.restore(state)

    def describe(self) -> list[dict[str, Any]]:
        """Describe the nodes (models.soft.transparency.described)."""
        return described(self.state(), 0, self.schema, self._models.settings[0])

    def important_features(self, x: Floats) -> float:
        """Mean share of the features that matter in a rule (Eq. 5), over all gates and the rows of x : (n, d)."""
        alpha = float(self._models.settings[0, S_ALPHA])
        return important_features(self.state(), 0, self.schema, alpha, x)

    def outputs(self, x: Floats) -> Floats:
        """T(x), Eq. 3: what the leaves sum up to, before the softmax, or the value as so many of the target's running
        deviations above its mean. x : (n, d) -> (n, n_outputs)."""
        return self._models.pull_back(x, np.zeros(1))[0]

    def loss_gradients(self, x: Floats, y: Floats) -> Floats:
        """dL/dT of labels: L is the cross-entropy, or half the squared error in running deviations of the target.

        x : (n, d), y : (n,) class codes or targets -> (n, n_outputs). Nothing is learned.
        """
        outputs, labels = self.outputs(x), np.asarray(y, np.float64)
        if self.schema.task == "regression":
            _, mean, variance = self._models.forest.targets[0]
            deviation = math.sqrt(variance)
            return outputs - (labels[:, None] - mean) / deviation if deviation > 0.0 else np.zeros_like(outputs)
        gradients = self.predict_many(x)
        gradients[np.arange(len(labels)), labels.astype(np.int64)] -= 1.0
        return gradients

    def input_gradients(self, x: Floats, output_gradients: Floats) -> Floats:
        """dL/dx of Algorithm 1, for what stands before the tree (models.soft.passes.inputs).

        x : (n, d), output_gradients : (n, n_outputs), dL/dT -> (n, d); 0 for nominal features, for missing values and
        for those beyond nine deviations. Nothing is learned: `learn_many` then moves the tree's own weights.
        """
        return self._models.pull_back(x, output_gradients)[1]

    def size(self) -> dict[str, int]:
        return size_of(self._models.forest)


def size_of(forest: SoftForest) -> dict[str, int]:
    links = used(forest).links
    return {
        "n_nodes": int(forest.counts[N_NODES]),
        "n_leaves": int((links[:, FIRST] < 0).sum()),
        "depth": int(links[:, DEPTH].max()),
    }
