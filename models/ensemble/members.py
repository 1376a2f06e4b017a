"""What the ensembles have in common: members that run a whole program each, and a vote.

A member is a learner with arrays of its own. Members do not see each other, unless a method does; each runs a chunk
of the program (models.ensemble.chunks) in one kernel call, with weights of its own, and writes its votes into a plane
of its own. Invariants:

- what a member does depends on the ensemble's seed, the member's serial number and the labels in their order; so with
  any number of threads, and however programs are cut, the bits are the same;
- planes are added in the order of the slots;
- a member's `quality` is that of its predictions of each label just before it learned it.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Learner, Program, Schema
from riparian.models.ensemble.chunks import (
    HITS,
    LEAST,
    MAJORITY,
    N_QUALITY,
    SEEN,
    VOTES,
    WEIGHT,
    Chunk,
    Gatherer,
    combine,
    combine_values,
    length_of_chunks,
    weigh_all,
)
from riparian.models.ensemble.entries import TREE
from riparian.models.ensemble.stacking import PREFIX, stack, stacked_bytes, unstack
from riparian.models.explanation.description import moved, summed
from riparian.models.joined import named
from riparian.models.kernels.threads import Parts
from riparian.models.layout import StateLayout
from riparian.models.observers.gaussians import check_growth
from riparian.models.restoring import restore

# Places in `numbers`.
LEARNED, NEXT_SERIAL = range(2)


class Ensemble(Learner):
    """Base class of ensembles of members.

    Subclasses name an entry of models.ensemble.entries, which holds their parameters: "n_models", "vote" if users
    choose it, and their own. They implement `_new_member`, and `_run_member` where a member does not run the
    program as it comes, or `run` where members depend on each other.
    """

    layout: ClassVar[StateLayout] = StateLayout(rows={"serials quality windows": "slots"}, parts=("shapes", PREFIX))
    PER_SLOT: ClassVar[tuple[str, ...]] = ("serials", "quality")  # state with a row a member, as attributes after _
    N_QUALITY: ClassVar[int] = N_QUALITY
    FADING: ClassVar[float] = 0.999  # of the members' quality, each label
    SHORTER: ClassVar[int] = 1  # how many times chunks are shorter than they could be
    VOTE: ClassVar[str] = "average"  # of ensembles whose users do not choose it

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._vote = VOTES[self._parameters.get("vote", self.VOTE)]
        self._numbers = np.zeros(2, np.int64)
        self._members: list[Any] = []
        self._parts = Parts()
        self._longest = LEAST  # operations of the programs so far: of longer ones chunks need no room
        self._serials = np.zeros(0, np.int64)
        self._quality = np.zeros((0, self.N_QUALITY))
        self._set_up()
        self.set_members(self._parameters["n_models"])

    def _set_up(self) -> None:
        """What a subclass makes of the parameters, before there are members."""

    @abstractmethod
    def _new_member(self, serial: int) -> Any:
        """A fresh member for the present schema. serial : its number; whatever it draws depends on that and the seed,
        `key(self.seed, serial, purpose)`. Its `run` (Learner.run) has a further argument, `errors`: a LEARN whose label
        could teach, though its weight be 0, writes into errors : (n,) whether the member would have predicted another
        class just before it (1 or 0), for a regression its absolute error, NaN while it knows nothing. `errors` and
        `program.w` may be longer than the program."""

    def _run_member(self, slot: int, chunk: Chunk, votes: Floats, errors: Floats) -> None:
        """Let one member run a chunk; here, the program as it comes. votes : (length, n_outputs), predictions by rows
        of the chunk. errors : (n,) or longer, of each LEARN. Other threads run other members: touch only what is this
        one's."""
        self._members[slot].run(chunk.program, chunk.slab, votes, errors)

    @property
    def _tree(self) -> dict[str, Any]:
        """The parameters that are those of each tree."""
        return {parameter.name: self._parameters[parameter.name] for parameter in TREE}

    # Running

    @property
    def _n_classes(self) -> int:
        """0 for a regression."""
        return 0 if self.schema.task == "regression" else self.schema.n_outputs

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        if len(program.op) > max(self._longest, self._gatherer.length):
            self._longest = 1 << (len(program.op) - 1).bit_length()
            self._prepare()
        for start in range(0, len(program.op), self._gatherer.length):
            chunk = self._gatherer.gather(program, slab, start, self._n_classes, int(self._numbers[LEARNED]))
            self._run_chunk(chunk)
            op, row = chunk.program.op, chunk.program.row
            if self._n_classes:
                combine(op, row, chunk.source, self._planes, self._factors, out)
            else:
                median, values = self._vote == MAJORITY, np.zeros(len(self._members))
                combine_values(op, row, chunk.source, self._planes, self._factors, median, values, out)
            self._numbers[LEARNED] += np.count_nonzero(chunk.ordinal >= 0)

    def _run_chunk(self, chunk: Chunk) -> None:
        """Fill the planes and factors of all members."""
        self._parts.run(
            len(chunk.program.op), len(self._members), lambda first, last: self._run_slots(first, last, chunk)
        )

    def _run_slots(self, first: int, last: int, chunk: Chunk) -> None:
        """Fill the planes and factors of some members. What there is to do besides running them is done for all of them
        at once: of a short chunk, calls take longer than what they do."""
        for slot in range(first, last):
            self._run_member(slot, chunk, *self._own[slot])
        self._weigh(first, last, chunk)

    def _weigh(self, first: int, last: int, chunk: Chunk) -> None:
        """Set how much the predictions of these members count, and keep their quality."""
        op, row, _, w = chunk.program
        weigh_all(
            first, last, op, row, chunk.ordinal, w, self._errors, self._vote, self._n_classes == 0, self.FADING,
            self._quality, self._planes, self._factors,
        )  # fmt: skip

    def _prepare(self) -> None:
        """What follows from the schema and the number of members, and is not state."""
        n = len(self._members)
        longest = length_of_chunks(n, self.schema.n_features, self.schema.n_outputs) // self.SHORTER
        length = min(longest, self._longest)
        self._gatherer = Gatherer(self.schema.n_features, length)
        self._planes = np.zeros((n, length, self.schema.n_outputs))
        self._factors = np.zeros((n, length))
        self._errors = np.zeros((n, length))
        self._weights = np.zeros((n, length))
        self._own = list(zip(self._planes, self._errors, strict=True))

    # Members

    @property
    def members(self) -> list[Any]:
        """By slots."""
        return list(self._members)

    def set_members(self, n_models: int) -> None:
        """Add fresh members, or drop the weakest, until there are `n_models` >= 1; the rest goes on as it was."""
        while len(self._members) > n_models:
            slot = self._weakest()
            del self._members[slot]
            for name in self.PER_SLOT:
                setattr(self, f"_{name}", np.delete(getattr(self, f"_{name}"), slot, axis=0))
        while len(self._members) < n_models:
            self._members.append(None)
            for name in self.PER_SLOT:
                rows = getattr(self, f"_{name}")
                setattr(self, f"_{name}", np.concatenate([rows, np.zeros((1, *rows.shape[1:]), rows.dtype)]))
            self._renew(len(self._members) - 1)
        self._parameters["n_models"] = int(n_models)
        self._prepare()

    def _renew(self, slot: int) -> None:
        """Put a fresh member into a slot."""
        serial = int(self._numbers[NEXT_SERIAL])
        self._numbers[NEXT_SERIAL] += 1
        for name in self.PER_SLOT:
            getattr(self, f"_{name}")[slot] = 0
        self._serials[slot] = serial
        self._members[slot] = self._new_member(serial)

    def _weakest(self) -> int:
        """The slot of the member of least accuracy, or the highest error; ties: the last one."""
        rate = (self._quality[:, HITS] + 1.0) / (self._quality[:, WEIGHT] + 2.0)
        if self._n_classes == 0:
            rate = -self._quality[:, HITS] / np.maximum(self._quality[:, WEIGHT], 1e-300)
        return int(len(rate) - 1 - rate[::-1].argmin())

    # The contract

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        for member in self._members:
            member.resize(schema)
        self.schema = schema
        self._prepare()

    def _own_state(self) -> dict[str, NDArray[Any]]:
        """What the ensemble knows besides its members."""
        return {"numbers": self._numbers} | {name: getattr(self, f"_{name}") for name in self.PER_SLOT}

    def state(self) -> Any:
        """numbers : (2,) int64, labels that taught, the next serial number. serials : (slots,) int64, of the members.
        quality : (slots, 3) float64, see models.ensemble.chunks. The rest: models.ensemble.stacking."""
        fields = self._own_state() | stack([member.state()._asdict() for member in self._members])
        return named("EnsembleState", fields)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state (Learner.restore). A state of more members loses its weakest, to one of fewer fresh ones are
        added."""
        wanted = self._parameters["n_models"]
        self._restore_own(state)
        self._members = []
        for slot, serial in enumerate(self._serials.tolist()):
            member = self._new_member(serial)
            restore(member, unstack(state, slot), f"member {slot}")
            self._members.append(member)
        self.set_members(wanted)

    def _restore_own(self, state: Mapping[str, NDArray[Any]]) -> None:
        for name, array in self._own_state().items():
            setattr(self, f"_{name}", np.array(state[name], array.dtype, order="C"))

    def describe(self) -> list[dict[str, Any]]:
        """A root a member, and below it what the member describes. A root has "member", its serial number, and where
        members are watched "accuracy" (regression: "error", mean absolute), faded, of its predictions of labels before
        they were learned."""
        nodes: list[dict[str, Any]] = []
        for member, serial, quality in zip(self._members, self._serials.tolist(), self._quality, strict=True):
            own = moved(member.describe(), len(nodes), None, 0)
            own[0]["member"] = serial
            if quality[SEEN] > 0.0:
                name = "accuracy" if self._n_classes else "error"
                own[0][name] = float(quality[HITS] / quality[WEIGHT])
            nodes += own
        return nodes

    @property
    def n_bytes(self) -> int:
        own = sum(array.nbytes for array in self._own_state().values())
        return own + stacked_bytes([member.state()._asdict() for member in self._members])

    def size(self) -> dict[str, int]:
        """Members; nodes and leaves of all together, and the depth of the deepest."""
        sizes = [member.size() for member in self._members]
        return summed(sizes) | {"n_models": len(sizes)}
