"""A model of a stream as it runs: what it is made with, what it knows of the stream, and what it keeps beside instances
for their labels. Pure.

A new model is made as one that has run from the beginning was, and is then given room for whatever is known by now. It
is not told of features that came since: to it an instance is as it was.

What a model keeps beside an instance is of use to that model alone. Where another one takes over, or a member of it,
labels of instances before find nothing kept. The arrival number of an instance tells which these are
(app/partition/pending.py).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from riparian.app.errors import SpecError
from riparian.app.partition.arrays import under
from riparian.app.partition.pending import PendingStore
from riparian.app.partition.reasons import Reasons, pieces
from riparian.app.partition.sharing import LearnedRows
from riparian.app.stream_file.lineup import place_of
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, PREDICT, Bags, Floats, Learner, Program, Schema
from riparian.models.kernels.cache import one_part
from riparian.models.registry import create, kept, kept_on
from riparian.models.restoring import restore
from riparian.topics.records import ANOMALY, MULTI_INSTANCE


def kept_names(role: str, kept: Iterable[object]) -> list[str]:
    """Of the arrays that a model keeps beside instances, in the pending store."""
    return [f"{role}/{one}" for one in kept]


def at_arrival(program: Program) -> Program:
    """Of a program, its predictions, and each instance learned right after its own."""
    row = np.repeat(program.row[program.op == PREDICT], 2)
    op = np.tile(np.array([PREDICT, LEARN], np.int8), len(row) // 2)
    return Program(op, row, np.full(len(row), np.nan), np.ones(len(row)))


class RunningModel:
    """The model of a role, and what it runs over.

    Parameters
    ----------
    name : str
        Under which its predictions stand in the pending store, and its arrays in a state.
    spec : Spec
    schema : Schema
        That every model of this role is made with before it is resized: the arrays of a new model are then laid out
        like those of one that has run from the beginning.
    pending : PendingStore
        Where its programs come from, and where its predictions wait beside their instances.
    seed : int
    learned : LearnedRows, optional
        What it learns from, where that is not what waits here: instances of all partitions.

    Attributes
    ----------
    model : Learner
        The one that predicts now.
    key : str
        Its name when it began, unless another had that: a promotion leaves it as it is.
    seed : int
        Of its model: part of it, as what a forest draws follows from it. A model that goes on keeps its own.
    columns : list of int, optional
        Which of the stream's features its models know, where there have come more since; None: all.
    since : int, optional
        Arrival number of the first instance that `model` predicted, where it took over from another one; None: it
        predicted all that wait.
    begun : dict
        Of what the model keeps, where partitions share what is learned: the first arrival that those predicted which
        came while it ran. The log may have what others of their name said before.
    reasons : Reasons, optional
        Of the last program, where they are asked for.
    """

    def __init__(
        self,
        name: str,
        spec: Spec,
        schema: Schema,
        pending: PendingStore,
        seed: int,
        learned: LearnedRows | None = None,
    ) -> None:
        self.name = self.key = name
        self.learner_name, self._parameters = spec.models()[name]
        self.schema = self._first = schema
        self.columns: list[int] | None = None
        self._own = np.zeros((0, 0))  # rows of the slab as its models know them, each written before it is read
        self._pending = pending
        self._learned = pending if learned is None else learned
        self.seed = seed
        self._task, self._at_arrival = spec.task, spec.task == ANOMALY
        try:
            self.model = self._made(schema)
        except ValueError as error:  # raised by what an import path names
            raise SpecError(f"{place_of(name)}: {error}") from None
        self._had: Mapping[str, Any] | None = None  # parameters by which its state was made, where it has one
        self._follows = False  # whether its model is another role's, which learns for it
        self._kept = kept(self.learner_name, spec.task, self._parameters)
        self.begun: dict[str, int] = {}
        self.since: int | None = None
        pending.keep(self.kept_names, schema.n_outputs)
        if learned is not None:
            learned.keep([name, *self.kept_names], schema.n_outputs)
        self.reasons: Reasons | None = None
        self._asked_why = spec.predictions.reasons

    @property
    def predictions(self) -> Floats:
        """(capacity, n_outputs) float64: what was predicted for each row of the pending store."""
        return self._pending.out[self.name]

    @property
    def labelled(self) -> Floats:
        """The same for each row of what it learns from: the pending store, too, unless partitions share it."""
        return self._learned.out[self.name]

    @property
    def kept(self) -> list[Floats]:
        """What the model keeps beside each instance for its label: `model.n_kept` arrays like `labelled`."""
        return [self._learned.out[name] for name in self.kept_names]

    @property
    def kept_names(self) -> list[str]:
        """Where these stand."""
        return kept_names(self.name, self._kept)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        with one_part():
            self.model.warm_up()
        if self._asked_why is not None:
            zero = np.zeros((1, self._known(self.schema).n_features))
            slab = Bags.of([1], zero) if self._task == MULTI_INSTANCE else zero
            one = Program(np.zeros(1, np.int8), np.zeros(1, np.int32), np.full(1, np.nan), np.ones(1))
            Reasons(one, np.zeros(1, np.uint64), 1).ask(self.model, slab, one, np.zeros((1, self.schema.n_outputs)))

    def _made(self, schema: Schema) -> Learner:
        return create(self.learner_name, self._known(schema), seed=self.seed, **self._parameters)

    def _fresh(self) -> Learner:
        """A new model with room for all values and classes known now, in the place of the one that there is."""
        model = self._made(self._first)
        if self.schema != self._first:
            model.resize(self._known(self.schema))
        model.inherit(self.model)
        return model

    def _known(self, schema: Schema) -> Schema:
        """Of a schema, what the models of this role know."""
        if self.columns is None:
            return schema
        return schema._replace(n_values=tuple(schema.n_values[j] for j in self.columns))

    def widen(self, first: Schema, schema: Schema) -> None:
        """Features were appended, which the models of this role do not know: to them an instance is as it was."""
        if self.columns is None:
            self.columns = list(range(self.schema.n_features))
        self._first, self.schema = first, schema

    def resize(self, schema: Schema) -> None:
        """Make room for values and classes seen since."""
        self.schema = schema
        if not self._follows:
            self.model.resize(self._known(schema))

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says."""
        self._asked_why = spec.predictions.reasons

    def follow(self, leads: Self) -> None:
        """Whatever depends on what is learned from the log of all partitions is that of a role which learns it. What
        this partition knows of its own predictions stays."""
        self._follows = True
        self.model, self.since, self.begun = leads.model, leads.since, leads.begun

    # -- a program ---------------------------------------------------------------------------------------------

    def predict(self, x: Floats, rows: NDArray[np.int32]) -> None:
        """Predict instances that wait in these rows of the pending store, and learn nothing. x : (n, d), they as the
        model knows them."""
        if not len(rows):  # the model may be learning, for another partition
            return
        n, names = len(rows), [self.name, *self.kept_names]
        out, *kept = (np.zeros((n, self._pending.out[name].shape[1])) for name in names)
        program = Program(np.zeros(n, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
        self.model.run_with(program, x, out, kept)
        for name, found in zip(names, (out, *kept), strict=True):
            self._pending.out[name][rows] = found

    def _run_model(self, piece: Program, start: int = 0) -> None:
        """Operations of the program from `start` on. What learns from features alone does so right after each
        prediction; labels only score."""
        if self._at_arrival:
            self._run_as_it_is(at_arrival(piece))
        else:
            self._forget(piece, start)
            self._run_as_it_is(piece)

    def _run_as_it_is(self, piece: Program) -> None:
        for part in self._parts(piece):
            self.model.run_with(part, self._slab(part), self.labelled, self.kept)
            self._ask_why(part)

    def _slab(self, program: Program) -> Floats | Bags:
        """What the models run a program over."""
        slab = self._learned.slab
        if self.columns is None or isinstance(slab, Bags):
            return slab
        if self._own.shape != (len(slab), len(self.columns)):
            self._own = np.zeros((len(slab), len(self.columns)))
        self._own[program.row] = slab[program.row[:, None], self.columns]
        return self._own

    def _parts(self, piece: Program) -> Iterable[Program]:
        """Where reasons are asked for, pieces that predict last, after each of which the model is asked."""
        return [piece] if self.reasons is None else pieces(piece)

    def _ask_why(self, part: Program) -> None:
        """After these operations of a program, about what was predicted in them."""
        if self.reasons is not None:
            self.reasons.ask(self.model, self._slab(part), part, self.labelled, self.columns)

    def _forget(self, piece: Program, start: int) -> None:
        """Where a label comes to what another model predicted, or a member of before, what was kept then says nothing
        to this one."""
        if not self._kept or (self.since is None and not self.begun):
            return
        arrivals, learns = self._learned.arrivals()[start : start + len(piece.op)], piece.op == LEARN
        for name, one in zip(self._kept, self.kept, strict=True):
            since = max(self.since or 0, self.begun.get(name, 0))
            one[piece.row[learns & (arrivals < since)]] = np.nan

    # -- other parameters --------------------------------------------------------------------------------------

    def _adjusted(self, model: Learner, parameters: dict[str, Any]) -> Learner:
        """One with other parameters, with which the state of `model` goes on."""
        made = create(self.learner_name, self._known(self.schema), seed=self.seed, **parameters)
        if self._follows:  # it is there with what it knows, and comes from there
            return made
        state = {name: array.copy() for name, array in model.state()._asdict().items()}
        restore(made, made.adapted(model.parameters(), state), self.name)
        return made

    def _go_on_with(self, parameters: dict[str, Any], model: Learner) -> None:
        """Take this model, which has these parameters."""
        places = kept_on(self.learner_name, self._task, self._parameters, parameters)
        if list(places.values()) != list(range(len(self._kept))):
            self._exchange(places)
        self._parameters, self.model = parameters, model

    def _exchange(self, places: Mapping[str, int | None]) -> None:
        """The model keeps these from here on. places : None where something new is kept."""
        gone = kept_names(self.name, [one for one in self._kept if places.get(one) is None])
        fresh = [one for one, at in places.items() if at is None]
        self._pending.discard(gone)
        self._pending.add(kept_names(self.name, fresh), self.schema.n_outputs)
        if isinstance(self._learned, LearnedRows):
            self._learned.discard(gone)
            self._learned.keep(kept_names(self.name, fresh), self.schema.n_outputs)
        self._kept = list(places)
        self.begin(fresh)

    def begin(self, fresh: Iterable[str]) -> None:
        """Of what the model keeps, these come with the next instance: whatever is older is another member's."""
        if isinstance(self._learned, LearnedRows):
            stay = {one: number for one, number in self.begun.items() if one in self._kept}
            self.begun = stay | dict.fromkeys(fresh, self._learned.next_arrival)

    # -- state -------------------------------------------------------------------------------------------------

    def begin_with(
        self, arrays: Mapping[str, NDArray[Any]], source: str, schema: Schema, parameters: Mapping[str, Any]
    ) -> None:
        """Take over the model of a state, where the role was called `source`, and the model had room for `schema`.
        parameters : that it had."""
        self._had = parameters
        self.model = self._restored(under(arrays, f"models/{source}/"), schema)

    def _restored(self, state: Mapping[str, NDArray[Any]], schema: Schema) -> Learner:
        model = self._made(schema)
        restore(model, state if self._had is None else model.adapted(self._had, state), self.name)
        model.resize(self._known(self.schema))
        return model
