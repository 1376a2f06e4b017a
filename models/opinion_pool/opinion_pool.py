"""The opinion pool: learners of several kinds run beside each other, and weights learn whom to believe."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import moved, summed
from riparian.models.joined import grown, named
from riparian.models.kernels.cache import one_part
from riparian.models.kernels.threads import Parts
from riparian.models.layout import StateLayout
from riparian.models.opinion_pool import entries
from riparian.models.opinion_pool.blocks import use
from riparian.models.opinion_pool.members import frozen, going_on, members, rule, seen
from riparian.models.opinion_pool.pooling import (
    ERROR,
    LEADER,
    LINEAR,
    LOGARITHMIC,
    WEIGHT,
    gather,
    keep,
    labels_in,
    mark,
    pool_classes,
    pool_values,
    take_up,
)
from riparian.models.opinion_pool.resting import Resting
from riparian.models.opinion_pool.views import ALL, TARGET, View, Views
from riparian.models.registry import create
from riparian.models.restoring import restore

RULES = {entries.LOGARITHMIC: LOGARITHMIC, entries.LINEAR: LINEAR, entries.LEADER: LEADER}
LEAST, MOST = 128, 1024  # rows of a chunk; of more, members take no less time, and more room for votes
SCRATCH = 8_000_000  # bytes that the votes of a chunk may take, and its rows
NOTHING = np.zeros((0, 0))
ALWAYS = "weights", "sizes", "quality", "counts"  # arrays of every state


class OpinionPool(Learner):
    """Learners of several kinds, pooled by weights that are learned online.

    Every member predicts and learns each instance. A label judges the votes that the members cast when the instance was
    predicted, which wait with it for its label (`n_memos`, `run_with`), and those that they would cast right before
    they learn it; the latter alone where nothing was kept, or nobody knew anything. With p_m a member's probabilities:

    - "logarithmic" (classification): p(c) ~ prod p_m(c)^w_m, weights >= 0. Each label is a step of normalised gradient
      descent on the log loss of the pooled prediction, or of Newton's where classes are rare.
    - "linear": the weighted mean. Of classes, a posterior over members in which a `rate` of all weight is shared out
      equally each label; of values, steps of projected gradient descent on Huber's loss, on the simplex.
    - "leader": the prediction of the member with the least error, which forgets by `rate`.

    A label that teaches nothing (see the contract) moves no weight; one of weight w < 1 moves them by w of a step.
    A frozen member predicts and is judged, and learns nothing. Memory is bounded as that of the members is.

    The first member has the seed, the next one a higher one by one. A model may be a member more than once; those of
    other libraries cannot be. `rate` is the length of a step, longer while there are few labels; Newton steps add 1 /
    (2 rate) to the diagonal of the Hessian. With `floor` one member that is sure and wrong does not rule the others
    out; for a rarer class it is lower. See models.opinion_pool.pooling, resting and views.

    Examples
    --------
    >>> pool = OpinionPool(Schema((0,), 2, "classification"), members={"tree": "hoeffding-tree", "last": "last-label"})
    >>> pool.learn_many([[0.0], [1.0], [0.0]], [0, 1, 0])
    >>> pool.predict_many([[0.0]]).argmax()
    np.int64(0)
    """

    entry = entries.OPINION_POOL

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._rule = RULES[rule(schema.task, self._parameters["pool"])]
        self._models = members(schema.task, self._parameters["members"])
        reduced = seen(self._parameters["members"])
        self._views = Views(schema, [View(*reduced[member]) if member in reduced else ALL for member in self._models])
        self._members = {
            member: create(model, view.schema(schema), seed=seed + i, **own)
            for i, ((member, (model, own)), view) in enumerate(
                zip(self._models.items(), self._views.views, strict=True)
            )
        }
        self.layout = StateLayout(parts=tuple(place(name) for name in self._members))
        self._frozen = set(self.frozen_parts)
        m = len(self._members)
        self._weights = np.full(m, 1.0 / m)
        self._sizes = np.zeros(m)
        self._quality = np.zeros((m, 2))
        self._counts = np.zeros(2)
        self._class_counts = np.zeros(self._n_classes)
        self._hessian = np.zeros((m, m))
        self._weights_of_blocks, self._block = np.zeros((3, m)), np.zeros(5)
        self._repeats = np.array([member.repeats for member in self._members.values()])
        self._resting = Resting(m, 0.0 if self._rule == LEADER else self._parameters["rest_below"])
        self._parts = Parts(even=False)
        self._prepare()

    def _prepare(self) -> None:
        """Scratch, which follows from the schema."""
        m, d, k = len(self._members), self.schema.n_features, self.schema.n_outputs
        per_row = 8 * (m * k + d + self._views.width + 4)
        n = max(LEAST, min(MOST, SCRATCH // per_row))  # also operations: two an operation
        self._length = n // 2
        self._op, self._kind = np.zeros(n, np.int8), np.zeros(n, np.int8)
        self._row, self._now = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self._source, self._loaded, self._age = np.zeros(n, np.int32), np.zeros(n, np.bool_), np.zeros(n, np.int32)
        self._y, self._w = np.zeros(n), np.zeros(n)
        self._slab, self._planes = np.zeros((n, d)), np.zeros((m, n, k))
        self._views.prepare(n)
        self._place, self._marks, self._last = np.zeros(0, np.int32), np.zeros((0, 1)), np.full(n, np.nan)
        self._p, self._floors, self._g, self._h = np.zeros(k), np.zeros(k), np.zeros(m), np.zeros(m)
        self._each, self._factor = np.zeros((m, k + 1)), np.zeros((m, m))

    @property
    def members(self) -> dict[str, Learner]:
        """By their names, in order."""
        return dict(self._members)

    @property
    def weights(self) -> dict[str, float]:
        """Of each member, by its name: those that it predicts with."""
        found = np.zeros(len(self._members))
        use(self._weights, self._weights_of_blocks, self._block, found)
        return dict(zip(self._members, found.tolist(), strict=True))

    @property
    def logarithmic(self) -> bool:
        """Whether weights are powers of probabilities, and not shares."""
        return self._rule == LOGARITHMIC

    # Running

    @property
    def frozen_parts(self) -> list[str]:
        return frozen(self._parameters["members"])

    @property
    def n_memos(self) -> int:
        return len(self._members)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        self.run_with(program, slab, out, ())

    def run_with(self, program: Program, slab: Floats, out: Floats, memos: Sequence[Floats]) -> None:
        """Execute `program` (Learner.run_with). memos : the votes of each member, NaN in column 0 where it cast none;
        infinity for a value that it did not know."""
        start, resting = 0, self._resting
        while start < len(program.op):
            n, n_labels = min(self._length, len(program.op) - start), 0
            if resting.below:
                n, n_labels = labels_in(program.op, program.y, program.w, start, n, self._n_classes, resting.left)
            self._run_chunk(program, start, n, slab, out, memos)
            if resting.below:
                resting.count(n_labels, self._weights, not self.logarithmic)
            start += n

    @property
    def _n_classes(self) -> int:
        """0 of a regression."""
        return 0 if self.schema.task == "regression" else self.schema.n_outputs

    def _run_chunk(
        self, program: Program, start: int, n: int, slab: Floats, out: Floats, memos: Sequence[Floats]
    ) -> None:
        n_classes = self._n_classes
        if len(slab) > len(self._place):
            self._place, self._marks = np.zeros(len(slab), np.int32), np.zeros((len(slab), 1))
        n_ops, n_rows = gather(
            *program, slab, start, n, n_classes, self._cast(program, start, n, memos),
            self._op, self._row, self._y, self._w, self._kind, self._now, self._source, self._slab, self._loaded,
            self._age, self._place,
        )  # fmt: skip
        chunk = Program(self._op[:n_ops], self._row[:n_ops], self._y[:n_ops], self._w[:n_ops])
        learners = list(self._members.values())
        shown, views = self._views.show(chunk, self._now[:n_ops], self._slab[:n_rows], n_classes > 0), self._views.views
        asked = chunk if not self._frozen else Program(*(column[chunk.op == PREDICT] for column in chunk))
        names, awake = list(self._members), self._resting.awake.tolist()

        def run_one(j: int) -> None:
            votes = self._planes[j]
            if not awake[j] and not self._repeats[j]:
                votes[:n_rows] = np.nan
                if memos:
                    keep(self._row, self._kind, self._source, n_ops, votes, False, memos[j])
                return
            if memos:
                take_up(memos[j], self._source, self._loaded, n_rows, votes)
            learners[j].run(asked if names[j] in self._frozen else shown.learning, shown.rows[views[j]], votes)
            if memos:
                keep(self._row, self._kind, self._source, n_ops, votes, n_classes == 0, memos[j])

        def run_some(first: int, last: int) -> None:
            for j in range(first, last):
                run_one(j)

        self._parts.run(n_ops, len(learners), run_some)
        for j in np.flatnonzero(self._repeats)[::-1]:
            votes = self._planes[j, :n_rows, 0]
            self._last[:n_rows] = np.where(np.isnan(votes) & ~self._loaded[:n_rows], np.inf, votes)
            if not awake[j]:
                self._planes[j, :n_rows] = np.nan
        floor, rate = self._parameters["floor"], self._parameters["rate"]
        repeats = self._repeats if memos else np.zeros_like(self._repeats)
        learned = self._weights, self._sizes, self._quality, self._counts, self._resting.awake, repeats
        if n_classes:
            pool_classes(
                self._rule, *chunk, self._kind, self._now, self._source, n_ops, self._planes, rate, floor, *learned,
                self._class_counts, self._hessian, out, self._p, self._floors, self._each, self._factor, self._g,
                self._h,
            )  # fmt: skip
        else:
            pool_values(
                self._rule, *chunk, self._kind, self._now, self._source, n_ops, self._planes, rate, *learned,
                self._weights_of_blocks, self._block, self._last, out, self._g, self._h,
            )  # fmt: skip

    def _cast(self, program: Program, start: int, n: int, memos: Sequence[Floats]) -> Floats:
        """For each row of the slab that is learned in operations start .. start + n, NaN where no member has cast a
        vote. A member may be younger than an instance that waits."""
        if not memos:
            return NOTHING
        for j, votes in enumerate(memos):
            if mark(program.op, program.row, start, n, votes, j == 0, self._marks):
                break
        return self._marks

    def warm_up(self) -> None:
        for member in self._members.values():
            with one_part():
                member.warm_up()
        twin, k = type(self)(self.schema, seed=self.seed, **self.parameters()), self.schema.n_outputs
        ops = np.array([PREDICT, LEARN], np.int8)
        votes = [np.full((1, k), np.nan) for _ in self._members]  # as a worker keeps them
        program = Program(ops, np.zeros(2, np.int32), np.array([np.nan, 0.0]), np.ones(2))
        twin.run_with(program, np.zeros((1, self.schema.n_features)), np.zeros((1, k)), votes)
        assert twin.weights  # as a worker tells them

    # The contract

    def resize(self, schema: Schema) -> None:
        for member, view in zip(self._members.values(), self._views.views, strict=True):
            member.resize(view.schema(schema))
        self._views.resize(schema)
        self.schema = schema
        self._class_counts = grown(self._class_counts, self._n_classes)
        self._prepare()

    def inherit(self, before: Learner) -> None:
        """Take over frozen members (Learner.inherit)."""
        if isinstance(before, OpinionPool):
            for name in self._frozen:
                arrays = before._members[name].state()._asdict()
                self._members[name].restore({field: array.copy() for field, array in arrays.items()})
            if self._frozen:  # what they see, too
                self._views.restore(before._views.state())

    def _own(self) -> list[str]:
        """The arrays of the pool itself."""
        names = [*ALWAYS, *(("class_counts",) if self._n_classes else ("weights_of_blocks", "block"))]
        return [*names, "hessian"] if self.logarithmic else names

    def state(self) -> Any:
        """weights, sizes : (members,) float64. quality : (members, 2) float64, faded error and weight. counts : (2,)
        float64. class_counts : (n_outputs,) float64, labels of each class. hessian : (members, members) float64, of the
        log loss by the weights, where the pool is logarithmic. weights_of_blocks : (3, members) float64, block : (5,)
        float64, of models.opinion_pool.blocks, in a regression. rests, labels : of models.opinion_pool.resting, where
        members may rest. target_f : of models.opinion_pool.views. Then the arrays of each member, named after it."""
        own = {name: getattr(self, f"_{name}") for name in self._own()}
        own |= self._resting.state() if self._resting.below else {}
        own |= self._views.state()
        for name, member in self._members.items():
            own |= {place(name) + field: array for field, array in member.state()._asdict().items()}
        return named("OpinionPoolState", own)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        for name in self._own():  # of which a state that an older version wrote may lack those behind the first four
            found = state[name] if name in ALWAYS or name in state else np.zeros_like(getattr(self, f"_{name}"))
            setattr(self, f"_{name}", np.array(found, np.float64, order="C"))
        if self._resting.below:
            self._resting.restore(state)
        self._views.restore(state)
        for name, member in self._members.items():
            restore(member, of_member(state, name), f"member {name}")

    def adapted(self, was: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """The arrays of a pool of parameters `was`, with the members of this one and in their order.

        Members that are new begin with nothing: with the weight that they have in a pool that begins, and with the mean
        error and the mean size of derivatives of those that stay. Weights that are shares make room for them.
        ValueError where `state` is none of such a pool.
        """
        parameters = self.parameters()
        places = going_on(self.schema.task, was, parameters)
        n, m = len(members(self.schema.task, was.get("members"))), len(places)
        if list(places.values()) == list(range(n)):
            return state
        fields = {"weights": (n,), "sizes": (n,), "quality": (n, 2)}
        own = self.state()._asdict()
        fields |= {"rests": (n, 2), "labels": (1,)} if "rests" in own else {}
        for field, shape in fields.items():
            if field not in state or state[field].shape != shape:
                raise ValueError(f"opinion-pool: {field} are not those of {n} members")
        there = np.array([at is not None for at in places.values()])
        at = np.array([at for at in places.values() if at is not None], np.int64)
        found: dict[str, NDArray[Any]] = {**own, "counts": state["counts"]}
        if "class_counts" in own:
            found["class_counts"] = state.get("class_counts", own["class_counts"])
        if "hessian" in own and "hessian" in state:  # which older states lack
            found["hessian"] = np.zeros((m, m))
            found["hessian"][np.ix_(there, there)] = state["hessian"][np.ix_(at, at)]
        if "labels" in own:
            found["labels"] = state["labels"]
        found |= {field: state.get(field, own[field]) for field in own if field.startswith(TARGET)}
        for field in fields.keys() - {"labels"}:
            found[field] = np.array(found[field])
            found[field][there] = state[field][at]
            if len(at) and field in ("sizes", "quality"):
                found[field][~there] = state[field][at].mean(axis=0)
        if rule(self.schema.task, parameters["pool"]) != entries.LOGARITHMIC:
            weights, total = found["weights"], state["weights"][at].sum()
            weights[there] = weights[there] / total * len(at) / m if total > 0.0 else 1.0 / m
        for name, before in places.items():
            if before is not None:
                found = {field: array for field, array in found.items() if not field.startswith(place(name))}
                found |= {place(name) + field: array for field, array in of_member(state, name).items()}
        return found

    @property
    def incomparable(self) -> tuple[str, ...]:  # type: ignore[override]
        """Fields of all members that equal folds may differ in (Learner.incomparable)."""
        return tuple(place(name) + field for name, member in self._members.items() for field in member.incomparable)

    @property
    def n_waits(self) -> int | None:  # type: ignore[override]
        waits = [member.n_waits for member in self._members.values() if member.n_waits is not None]
        return sum(waits) if waits else None

    @property
    def wait_seconds(self) -> float:  # type: ignore[override]
        return sum(member.wait_seconds for member in self._members.values())

    def describe(self) -> list[dict[str, Any]]:
        """A root a member, and below it what the member describes. A root has "member", its name, its "share" (weight)
        in the pool, "frozen" and "resting" where it is, and its faded "error" once there is one: share of mistakes, or
        mean absolute error."""
        nodes: list[dict[str, Any]] = []
        weights = self.weights
        for j, (name, member) in enumerate(self._members.items()):
            own = self._views.described(self._views.views[j], moved(member.describe(), len(nodes), None, 0))
            for root in own[:1]:
                root |= {"member": name, "share": weights[name]}
                root |= {"frozen": True} if name in self._frozen else {}
                root |= {} if self._resting.awake[j] else {"resting": True}
                if self._quality[j, WEIGHT] > 0.0:
                    root["error"] = float(self._quality[j, ERROR] / self._quality[j, WEIGHT])
            nodes += own
        return nodes

    def size(self) -> dict[str, int]:
        """Members; nodes and leaves of all together, and the depth of the deepest."""
        sizes = [member.size() for member in self._members.values()]
        return summed(sizes) | {"n_models": len(sizes)}


def place(name: str) -> str:
    """Where the arrays of a member begin their names."""
    return f"{name.replace('-', '_')}__"


def of_member(state: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a member."""
    start = place(name)
    return {field.removeprefix(start): array for field, array in state.items() if field.startswith(start)}
