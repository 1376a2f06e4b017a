"""The model pool: candidates of one model with different parameters, chosen between label by label.

Which candidates learn and which one predicts: models.soft.choice. Candidates that are soft trees share their arrays,
and one kernel runs all of them (models.soft.program). Any other model of the registry is run instance by instance, with
the same choices and the same results, some forty times slower.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node, moved, summed
from riparian.models.joined import named
from riparian.models.layout import StateLayout
from riparian.models.observers.gaussians import check_growth
from riparian.models.registry import create, find
from riparian.models.restoring import restore
from riparian.models.soft.base import Models, SoftModel, settings_of, size_of
from riparian.models.soft.candidates import candidates as combined
from riparian.models.soft.choice import BEST, LEARNED, account, choose, loss_of, pool_of
from riparian.models.soft.entries import MODEL_POOL
from riparian.models.soft.forest import used
from riparian.models.soft.program import teachable
from riparian.models.soft.transparency import described

POOL_FIELDS = ("faded", "state", "learned", "random")  # of Pool, what is state


class ModelPool(Learner):
    """Candidates with other parameters: the better ones learn each label, the best one predicts.

    Every candidate predicts each labelled instance, just before it is learned, for its loss: the cross-entropy, or the
    squared error; one that predicts nothing has the greatest loss of the others. Losses fade. Until 100 labels were
    learned all candidates learn. Missing values, weights and what teaches nothing are the candidates' matter; weights
    weigh losses, too. Memory is bounded as the candidates' is.

    There are at most 100 candidates. Those that learn are a whole number, rounded up: one is always the best.

    References
    ----------
    N. Gunasekara, H. M. Gomes, B. Pfahringer and A. Bifet: Online hyperparameter optimization for streaming neural
    networks. IJCNN 2022.
    K. Köbschall, L. Hartung and S. Kramer: Soft Hoeffding tree: a transparent and differentiable model on data streams.
    Discovery Science 2024. Section 5.1.

    Examples
    --------
    >>> learner = ModelPool(Schema((0, 0), 2, "classification"), of="soft-tree", candidates="depth=0,3", n_explored=0)
    >>> x = np.random.default_rng(1).random((5000, 2))
    >>> learner.learn_many(x, (x[:, 0] + x[:, 1] > 1.0).astype(float))
    >>> [part["parameters"]["depth"] for part in learner.describe()[1:] if part.get("best")]
    [3]
    """

    entry = MODEL_POOL

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        self._of, self._candidates = combined(schema.task, p)
        n = len(self._candidates)
        n_learning = max(1, math.ceil(p["learning_share"] * n))
        self._pool = pool_of(n, n_learning, min(p["n_explored"], n_learning - 1), p["fading"], seed)
        self._models: Models | None = None
        self._learners: list[Learner] = []
        if stackable(self._of, self._candidates):
            settings = [settings_of(schema, candidate) for candidate in self._candidates]
            self._models = Models(schema, settings, self._candidates[0].get("n_trees", 1), seed, pool=self._pool)
        else:
            self._learners = [create(self._of, schema, seed=seed, **candidate) for candidate in self._candidates]
        self.layout = StateLayout(parts=("candidate",)) if self._models is None else SoftModel.layout

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        if self._models is not None:
            self._models.run(program, slab, out)
            return
        start = 0
        predicted = np.zeros((len(slab), self.schema.n_outputs))
        for i in np.flatnonzero(program.op == LEARN).tolist():
            if i > start:
                self._best.run(program.part(start, i), slab, out)
            self._learn(program.part(i, i + 1), slab, predicted)
            start = i + 1
        if start < len(program.op):
            self._best.run(program.part(start, len(program.op)), slab, out)

    @property
    def _best(self) -> Learner:
        return self._learners[int(self._pool.state[BEST])]

    def _learn(self, program: Program, slab: Floats, predicted: Floats) -> None:
        """Run a program of one LEARN. predicted : (rows of the slab, n_outputs), scratch."""
        y, w = float(program.y[0]), float(program.w[0])
        regression = self.schema.task == "regression"
        if not teachable(y, w, self.schema.n_outputs, regression):
            return
        pool = self._pool
        asked = Program(np.full(1, PREDICT, np.int8), program.row, np.full(1, np.nan), np.ones(1))
        for m, learner in enumerate(self._learners):
            learner.run(asked, slab, predicted)
            pool.losses[m] = loss_of(predicted[program.row[0]], y, regression)
        choose(pool)
        for m, learner in enumerate(self._learners):
            if pool.chosen[m]:
                learner.run(program, slab, predicted)
        account(pool, w, regression)

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        if self._models is not None:
            self._models.resize(self.schema, schema)
        for learner in self._learners:
            learner.resize(schema)
        self.schema = schema

    def state(self) -> Any:
        """The pool's own arrays, and the candidates': stacked, or each with its number in front."""
        fields = {f"pool_{name}": getattr(self._pool, name) for name in POOL_FIELDS}
        if self._models is not None:
            fields |= used(self._models.forest)._asdict()
        for m, learner in enumerate(self._learners):
            fields |= {f"candidate{m}_{name}": array for name, array in learner.state()._asdict().items()}
        return named("ModelPoolState", fields)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        for name in POOL_FIELDS:
            getattr(self._pool, name)[:] = state[f"pool_{name}"]
        if self._models is not None:
            self._models.restore(state)
        for m, learner in enumerate(self._learners):
            prefix = f"candidate{m}_"
            own = {name.removeprefix(prefix): a for name, a in state.items() if name.startswith(prefix)}
            restore(learner, own, f"candidate {m}")

    def describe(self) -> list[dict[str, Any]]:
        """The pool, its candidates, and below the one that predicts the nodes that it describes.

        A candidate's "parameters" are those that differ; "loss" is its faded mean loss, "weight" how many labels it
        learned, "value" is empty; "best" marks the one that predicts. The pool's "weight" is how many labels there
        were.
        """
        best, n = int(self._pool.state[BEST]), len(self._candidates)
        varied = [name for name in self._candidates[0] if len({p[name] for p in self._candidates}) > 1]
        below = moved(self._nodes(best), n + 1, best + 1, 2)
        weight = float(self._pool.faded[n])
        parts = [as_node(0, None, 0, self._pool.state[LEARNED], below[0]["value"] if below else [], of=self._of)]
        for m, parameters in enumerate(self._candidates):
            part = as_node(
                m + 1, 0, 1, self._pool.learned[m], [], parameters={name: parameters[name] for name in varied}
            )
            part["loss"] = float(self._pool.faded[m]) / weight if weight > 0.0 else 0.0
            parts.append(part | ({"best": True} if m == best else {}))
        return parts + below

    def _nodes(self, m: int) -> list[dict[str, Any]]:
        if self._models is None:
            return self._learners[m].describe()
        return described(used(self._models.forest), m, self.schema, self._models.settings[m])

    def size(self) -> dict[str, int]:
        """Nodes and leaves of all candidates together, and the depth of the deepest."""
        if self._models is not None:
            return size_of(self._models.forest)
        sizes = [learner.size() for learner in self._learners]
        return summed(sizes)


def stackable(of: str, parameters: list[dict[str, Any]]) -> bool:
    """Whether one kernel can run all candidates: soft trees, as many in each."""
    return issubclass(find(of).load(), SoftModel) and len({p.get("n_trees", 1) for p in parameters}) == 1
