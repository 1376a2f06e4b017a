"""One model that all partitions of a stream learn (`learning: shared`). Pure.

A partition predicts with a replica of the models. What it joins with labels goes to one log, `NAME.learned`, which the
replicas of all partitions learn in its order: at one place of it they are equal to the bit. The log is an input log
like any other: predictions name its next place, and a record takes effect right before the next instance.

Codes of values and classes go by first sight, which differs between partitions. So a record of the log lists the values
that it has, and the models have codes of their own, by first sight in the log. An instance is predicted with these; a
value that no model has seen is missing to it.

What a label counts, what a mistake costs and how many values there may be depends on the stream file, which workers get
one after another. So a record of the log says that, too (`Terms`), and replicas go by it: what they hold depends on the
log alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.deciding import DECIDED, Stakes, decided_name
from riparian.app.partition.merge import Piece
from riparian.app.partition.outcome import DeadLetter, Joint, stacked
from riparian.app.partition.pending import PendingStore, renamed
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, Floats, Program
from riparian.models.predictions.decision import DECIDED_WIDTH
from riparian.topics.records import VALUES as UNDECIDED
from riparian.topics.records import WRONG_LEARNED
from riparian.topics.training_log import MOST_ROWS, VERSION, LearnedCommand, LearnedRecord, Terms, is_command, read
from riparian.topics.vocabulary import Scalar, Vocabulary, canonical

AT = ".learned"  # in the pending store, beside each instance; no model is called so
MOST_STEP, LEAST_STEP = 8192, 256  # records of one log that are taken at once, where the stream file says nothing
MOST_BYTES = 500_000  # of a record, if it is not a single instance
VALUES, STATE = "learned/values", "shared"  # of a state: an array, and a field of its meta

Ints = NDArray[np.int64]
Own = tuple[list[Vocabulary | None], Vocabulary | None]


def terms_of(spec: Spec) -> Terms:
    """By which instances are learned, as a stream file says it."""
    classes = spec.class_vocabulary()
    return Terms(
        spec.seed,
        [None if known is None else known.limit for known in spec.vocabularies()],
        None if classes is None else classes.limit,
        spec.class_weights or {},
        spec.prices,
    )


def opened(known: Vocabulary | None) -> Vocabulary | None:
    """The models' vocabulary, which takes what the log lists: a declared value, too, that this worker's stream file
    does not have yet."""
    if known is None or not known.closed:
        return known
    made = Vocabulary(known.limit)
    made.restore(known.state())
    return made


class LearnedRows:
    """What the models of a replica learn from, in place of the pending store: the rows of one record of the log.

    The number of an instance's arrival is here how many instances the model had learned, and commands obeyed, that
    predicted it.
    """

    def __init__(self, task: str) -> None:
        self._decides = task not in UNDECIDED
        self.slab: Floats = np.zeros((0, 0))
        self.out: dict[str, Floats] = {}
        self.counts = {"joined": 0}
        self._at: Ints = np.zeros(0, np.int64)
        self._widths: dict[str, int] = {}

    @property
    def next_arrival(self) -> int:
        return self.counts["joined"]

    def lasting(self, number: int) -> int | None:
        """Of the number of an arrival, what a state has of it where nothing watches errors."""
        return number

    def begun(self, names: Iterable[str]) -> dict[str, int]:
        """Since which arrival outputs are learned that are new: what is in the log may have others of their name."""
        return dict.fromkeys(names, self.next_arrival)

    def add(self, name: str, kept: Sequence[str], width: int) -> None:
        """A model begins. kept : outputs that it keeps besides its predictions."""
        self._keep([name, *kept], width)
        if self._decides:  # whatever this stream file says: what was decided is what counts, on each replica
            self._keep([decided_name(name)], DECIDED_WIDTH)

    def exchange(self, gone: Iterable[str], fresh: Sequence[str], width: int) -> None:
        """A model keeps others. gone, fresh : outputs."""
        for name in gone:
            del self._widths[name], self.out[name]
        self._keep(fresh, width)

    def _keep(self, names: Sequence[str], width: int) -> None:
        self._widths |= dict.fromkeys(names, width)
        self.out |= {name: np.zeros((0, width)) for name in names}

    def rename(self, names: Mapping[str, str]) -> None:
        """Models get other names. names : of before -> from here on."""
        self._widths = {renamed(name, names): width for name, width in self._widths.items()}
        self.out = {renamed(name, names): out for name, out in self.out.items()}

    def drop(self, name: str) -> None:
        """A model goes."""
        self._widths = {other: n for other, n in self._widths.items() if other.partition("/")[0] != name}
        self.out = {other: self.out[other] for other in self._widths}

    def resize(self, width: int) -> None:
        """Outputs have room for so many classes."""
        self._keep([name for name in self._widths if not name.endswith(DECIDED)], width)

    def fitting(self, out: Mapping[str, Floats]) -> dict[str, Floats]:
        """What was predicted for no more classes than came with labels: no worker predicts more."""
        return {name: one for name, one in out.items() if one.shape[1] <= self._widths.get(name, one.shape[1])}

    def fill(self, x: Floats, at: Ints, parts: Sequence[tuple[int, Mapping[str, Floats]]]) -> None:
        """Take rows. parts : how many rows, and what was predicted for them; what a model did not predict is NaN."""
        self.slab, self._at = x, at
        for name, width in self._widths.items():
            self.out[name], start = np.zeros((len(x), width)), 0
            for n, out in parts:
                to, start = self.out[name][start : start + n], start + n
                if name in out:
                    to[:, : out[name].shape[1]] = out[name]
                else:
                    to[:, 0] = np.nan

    def arrivals(self) -> Ints:
        return self._at

    def taken_over(self, program: Program, at: int) -> int:
        """The first number of those that a model predicts which takes over at operation `at` of the program that was
        just learned."""
        return self.counts["joined"] - len(program.op) + at

    def n_before(self, number: int) -> int:
        """As a state has it: instances of any partition may wait."""
        return number

    def arrival(self, i: int) -> int:
        return i

    def forget(self, name: str, before: int = 0) -> None:
        """Whatever is not the model's own shows by its number."""


class Sharing:
    """What a partition needs besides models and pending store.

    Parameters
    ----------
    spec : Spec
    partition : int
    pending : PendingStore
    own : the values and classes by which records are decoded

    Attributes
    ----------
    rows : LearnedRows
    vocabularies, classes : the models' own
    terms : of the last record learned; before, those of the stream file
    stakes : what labels count and mistakes cost by these
    n : instances that the models have learned
    n_commands, next_command : commands that they have obeyed, and the offset of the next one in the control topic
    numbers : partition -> how many of its instances are among them
    lengths : how many instances of each record were in the last program
    """

    def __init__(self, spec: Spec, partition: int, pending: PendingStore, own: Own) -> None:
        self.own = own
        self.vocabularies, self.classes = list(map(opened, spec.vocabularies())), opened(spec.class_vocabulary())
        self.own_terms = self.terms = terms_of(spec)
        self.stakes = self._stakes()
        self.rows = LearnedRows(spec.task)
        self.n = 0
        self.n_commands = self.next_command = 0
        self.numbers: dict[int, int] = {}
        self.lengths: list[int] = []
        self._partition, self._pending = partition, pending
        self._max_behind, self._commanded = spec.learning.max_behind, spec.topics.control is not None
        pending.keep([AT], 2)
        self.names = [AT]  # of arrays in the pending store
        self.count_width()

    def count_width(self) -> None:
        """Let what waits be counted by the classes that came here: the models' depend on other partitions."""
        classes = self.own[1]
        self._pending.counted_width = 1 if classes is None else max(2, classes.capacity)

    # -- terms -------------------------------------------------------------------------------------------------

    def _stakes(self) -> Stakes:
        return Stakes(self.classes, self.terms.weights, self.terms.costs)

    def go_by(self, terms: Terms) -> None:
        """Learn by these from here on. A value that is known stays so."""
        bounds = zip((*terms.most, terms.most_classes), (*self.vocabularies, self.classes), strict=True)
        for most, known in bounds:
            if most is not None and known is not None:
                known.limit = max(most, len(known))
        self.terms = terms
        self.stakes = self._stakes()

    # -- predicting --------------------------------------------------------------------------------------------

    def translated(self, x: Floats) -> Floats:
        """(n, d) rows with the models' codes."""
        found: Floats = np.array(x)
        for j, (mine, models) in enumerate(zip(self.own[0], self.vocabularies, strict=True)):
            if mine is None or models is None or mine.texts == models.texts:
                continue
            table = np.array([models.codes.get(text, np.nan) for text in mine.texts])
            there = np.flatnonzero(~np.isnan(found[:, j]))
            found[there, j] = table[found[there, j].astype(np.int64)]
        return found

    def predicted(self, rows: NDArray[np.int32]) -> None:
        """Note by which version of the models these rows were predicted."""
        self._pending.out[AT][rows] = self.rows.next_arrival, 0 if self.classes is None else len(self.classes)

    def scored(self, program: Program) -> Program:
        """The program with the models' codes of classes. A class that the model had never seen when it predicted counts
        nothing."""
        known = self.own[1]
        if known is None or self.classes is None:
            return program
        op, row, y, w = program
        at = (op == LEARN).nonzero()[0]
        if not len(at):
            return program
        codes = np.array([self.classes.codes.get(text, np.inf) for text in known.texts])
        code = codes[y[at].astype(np.int64)]
        new = ~(code < self._pending.out[AT][row[at], 1])
        y, w = y.copy(), w.copy()
        y[at], w[at] = np.where(new, 0.0, code), np.where(new, 0.0, w[at])
        return Program(op, row, y, w)

    # -- what was joined ---------------------------------------------------------------------------------------

    def joint(self, program: Program, keys: Mapping[str, str]) -> Joint | None:
        """The instances that a program of the pending store learns, for the log; None where there are none. keys : name
        of a model -> its key."""
        learns = (program.op == LEARN).nonzero()[0]
        rows, n = program.row[learns], len(learns)
        if not n:
            return None
        x, y = np.array(self._pending.slab[rows]), program.y[learns].copy()  # type: ignore[index]
        known, classes = self.own
        values: list[list[Scalar] | None] = []
        for j, vocabulary in enumerate(known):
            values.append(None if vocabulary is None else _listed(x[:, j], vocabulary))
        listed = None if classes is None else _listed(y, classes)
        at = self._pending.out[AT][rows, 0].astype(np.int64)
        there = [name for name in self.rows.out if name in self._pending.out]
        out = {renamed(name, keys): self._pending.out[name][rows] for name in there}
        return Joint(self._pending.counts["joined"] - n, x, y, at, values, listed, out, self.own_terms)

    # -- learning ----------------------------------------------------------------------------------------------

    def decoded(self, piece: Piece) -> tuple[list[LearnedRecord | LearnedCommand], list[DeadLetter]]:
        """Records of the log, and those that no worker of this stream has written: every replica passes over the
        same."""
        found, letters, numbers = list[LearnedRecord | LearnedCommand](), list[DeadLetter](), dict(self.numbers)
        raw = piece.raw
        for offset, key, value in zip(piece.offsets.tolist(), raw.keys, raw.values, strict=True):
            try:
                record = self._decoded(value)
                if isinstance(record, LearnedRecord):
                    first = numbers.get(record.partition, 0)
                    if record.first > first:
                        raise ValueError(
                            f"it begins with instance {record.first:,} of partition {record.partition}, and {first:,} "
                            "is the next one: where records of its own were lost, give the stream a new name"
                        )
                    numbers[record.partition] = max(first, record.first + record.n)
                found.append(record)
            except ValueError as error:
                letters.append(DeadLetter(offset, key, value, WRONG_LEARNED, str(error)))
        return found, letters

    def _decoded(self, value: bytes | None) -> LearnedRecord | LearnedCommand:
        """ValueError where it is none that a worker of this stream writes."""
        record = read(value)
        if isinstance(record, LearnedCommand):
            if not self._commanded:
                raise ValueError("a command, and the stream file does not say control: true")
            return record
        if len(record.values) != len(self.vocabularies) or (record.classes is None) != (self.classes is None):
            raise ValueError("it has other features or another task")
        if any((a is None) != (b is None) for a, b in zip(record.values, self.vocabularies, strict=True)):
            raise ValueError("it has other kinds of features")
        return record

    def fit(self, found: Sequence[LearnedRecord]) -> int:
        """Give codes to the values and classes of records, in the order in which they list them. Returns for how many
        classes there are predictions, where these are as many as the terms allow: so many may be declared there."""
        for record in found:
            if record.first + record.n <= self.numbers.get(record.partition, 0):
                continue
            listing = zip((*record.values, record.classes), (*self.vocabularies, self.classes), strict=True)
            for listed, known in listing:
                for value in listed or ():
                    if known is not None:
                        known.code(value)
        widths = [n for one in found for key, (n, _) in one.out.items() if not key.endswith(DECIDED)]
        return max((n for n in widths if n == max(2, self.terms.most_classes or 0)), default=0)

    def waiting(self, piece: Piece) -> list[int]:
        """Which records of the log, that come next, are commands to wait with for an instance. A command that was
        obeyed comes again where its partition got another owner; it is nothing."""
        found, due = list[int](), self.next_command
        for i, value in enumerate(piece.raw.values):
            if not is_command(value):
                continue
            with suppress(ValueError):
                command = self._decoded(value)
                if isinstance(command, LearnedCommand) and command.offset >= due:
                    found.append(i)
                    due = command.offset + 1
        return found

    def obeys(self, command: LearnedCommand) -> bool:
        """Whether a command is a new one; it is obeyed then."""
        if command.offset < self.next_command:
            return False
        self.n_commands, self.next_command = self.n_commands + 1, command.offset + 1
        self.rows.counts["joined"] += 1
        return True

    def program(self, found: Sequence[LearnedRecord], names: Mapping[str, str]) -> Program:
        """Take the instances of records that were not learned yet; the program by which models learn them. Call `fit`
        before, and give models and `rows` room for the values and classes that it has found. names : key of a model, or
        of an output -> its name."""
        columns = [self._columns(record, names) for record in found]
        x, y, w, at = (np.concatenate(parts) for parts in list(zip(*columns, strict=True))[:4])
        self.lengths = [len(one[1]) for one in columns]
        self.n += len(y)
        self.rows.counts["joined"] += len(y)
        self.rows.fill(x, at, [(len(one[1]), one[4]) for one in columns])
        return Program(np.full(len(y), LEARN, np.int8), np.arange(len(y), dtype=np.int32), y, w)

    def _columns(
        self, record: LearnedRecord, names: Mapping[str, str]
    ) -> tuple[Floats, Floats, Floats, Ints, dict[str, Floats]]:
        """x, y, weights, at and out of the instances of a record that were not learned yet, by the models' codes and
        names."""
        x, y, at, out = record.columns()
        begin = self.numbers.get(record.partition, 0) - record.first
        x, y, at = np.array(x[begin:]), np.array(y[begin:]), at[begin:]
        for j, (listed, known) in enumerate(zip(record.values, self.vocabularies, strict=True)):
            if listed is not None and known is not None:
                x[:, j] = _codes(listed, known, np.nan)[_places(x[:, j], len(listed))]
        w = np.ones(len(y))
        if record.classes is not None and self.classes is not None:
            codes = _codes(record.classes, self.classes, -1.0)[y.astype(np.int64)]
            w[codes < 0] = 0.0  # more classes than the stream file allows, over all partitions
            y = np.maximum(codes, 0.0)
        self.numbers[record.partition] = max(self.numbers.get(record.partition, 0), record.first + record.n)
        left = {key: one[begin:] for key, one in out.items() if key.partition("/")[0] in names}
        called = {names.get(key) or renamed(key, names): one for key, one in left.items()}
        return x, y, w, at, self.rows.fitting(called)

    @property
    def step(self) -> int:
        """How many records of one log may be taken at once: a third of the bound that the stream file gives. Else a
        hundredth of what the models know, so that a backlog is not predicted by models that know nothing, and is not
        taken in small steps for ever."""
        if self._max_behind is not None:
            return min(MOST_STEP, self._max_behind // 3)
        return min(MOST_STEP, max(LEAST_STEP, self.n // 100))

    @property
    def lags(self) -> bool:
        """Whether the next step may predict while `behind` exceeds the bound: each of its features and of its labels
        may join an instance."""
        most = 3 * self.step if self._max_behind is None else self._max_behind
        return self.behind > most - 2 * self.step

    @property
    def joined(self) -> int:
        """Instances that this partition has joined with their labels."""
        return self._pending.counts["joined"]

    @property
    def learned(self) -> int:
        """How many of these the models have learned."""
        return self.numbers.get(self._partition, 0)

    @property
    def behind(self) -> int:
        """Instances that this partition has joined and the models have not learned yet."""
        return self.joined - self.learned

    def follow(self, leads: "Sharing") -> None:
        """Models that are learned for these have come further: know what they know. Its commands were obeyed."""
        if self.terms != leads.terms:
            self.go_by(leads.terms)
        for known, theirs in zip((*self.vocabularies, self.classes), (*leads.vocabularies, leads.classes), strict=True):
            if known is not None and theirs is not None and len(theirs) > len(known):
                for value in theirs.values[len(known) :]:
                    known.code(value)
        self.n, self.numbers = leads.n, leads.numbers
        self.rows.counts["joined"] = leads.rows.counts["joined"]

    # -- state -------------------------------------------------------------------------------------------------

    def meta(self) -> dict[str, Any]:
        classes = None if self.classes is None else self.classes.state()
        found: dict[str, Any] = {"n": self.n, "classes": classes, "numbers": sorted(self.numbers.items())}
        found["terms"] = msgspec.to_builtins(self.terms)
        return {STATE: found | ({"commands": [self.n_commands, self.next_command]} if self.next_command else {})}

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            VALUES: np.frombuffer(
                msgspec.msgpack.encode([None if v is None else v.state() for v in self.vocabularies]), np.uint8
            )
        }

    def restore(
        self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> tuple[list[list[Scalar] | None], list[Scalar] | None]:
        """Take over `meta` and `state`. Returns the values and classes that the models know."""
        found = meta[STATE]
        if "terms" in found:  # states of before have none
            self.go_by(msgspec.convert(found["terms"], Terms))
        values: list[list[Scalar] | None] = msgspec.msgpack.decode(arrays[VALUES].tobytes())
        for known, state in zip((*self.vocabularies, self.classes), (*values, found["classes"]), strict=True):
            if known is not None:
                known.limit = max(known.limit, len(state or []))
                known.restore(state or [])
        self.n = int(found["n"])
        self.n_commands, self.next_command = map(int, found.get("commands", (0, 0)))
        self.rows.counts["joined"] = self.n + self.n_commands
        self.numbers = {int(partition): int(n) for partition, n in found["numbers"]}
        if not 0 <= self.n_commands <= self.next_command:
            raise ValueError("the numbers of commands are damaged")
        if min(self.n, *self.numbers.values(), 0) < 0 or sum(self.numbers.values()) != self.n:
            raise ValueError("the numbers of learned instances are damaged")
        self.count_width()
        return values, found["classes"]


def together(joined: Sequence[Joint]) -> list[Joint]:
    """Consecutive instances as one piece, or several where other models predicted: their values are listed once."""
    return [_together(list(same)) for _, same in groupby(joined, key=lambda one: tuple(one.out))]


def _together(joined: Sequence[Joint]) -> Joint:
    if len(joined) < 2:
        return joined[0]
    first = joined[0]
    x, y = np.concatenate([one.x for one in joined]), np.concatenate([one.y for one in joined])
    ends = np.cumsum([0, *(len(one.y) for one in joined)]).tolist()
    values: list[list[Scalar] | None] = [None if known is None else [] for known in first.values]
    classes: list[Scalar] | None = None if first.classes is None else []
    numbers: list[dict[str, int]] = [{} for _ in (*values, classes)]  # 1 and true are two values
    for one, start, stop in zip(joined, ends, ends[1:], strict=False):
        columns = [*(x[start:stop, j] for j in range(x.shape[1])), y[start:stop]]
        listings = zip(columns, (*one.values, one.classes), (*values, classes), numbers, strict=True)
        for column, listed, whole, number in listings:
            if listed is None or whole is None:
                continue
            for value in listed:
                if number.setdefault(canonical(value), len(whole)) == len(whole):
                    whole.append(value)
            column[:] = np.array([*(float(number[canonical(value)]) for value in listed), np.nan])[
                _places(column, len(listed))
            ]
    out = {name: stacked([one.out[name] for one in joined]) for name in first.out}
    return Joint(first.first, x, y, np.concatenate([one.at for one in joined]), values, classes, out, first.terms)


def records(joint: Joint, partition: int, places: Mapping[str, int], time: int, start: int = 0) -> list[LearnedRecord]:
    """The records of the log for what was joined, from number `start` on.

    places, time : the partition's, after all that was joined.
    """
    found = []
    width = joint.x.shape[1] + 2 + sum(column.shape[1] for column in joint.out.values())
    most = max(1, min(MOST_ROWS, MOST_BYTES // (8 * width)))
    for i in range(max(0, start - joint.first), len(joint.y), most):
        part = slice(i, min(i + most, len(joint.y)))
        out = {n: (one.shape[1], np.ascontiguousarray(one[part]).tobytes()) for n, one in joint.out.items()}
        columns = (joint.x[part].tobytes(), joint.y[part].tobytes(), joint.at[part].tobytes())
        record = LearnedRecord(
            *(VERSION, partition, joint.first + i, dict(places), time, *columns, joint.values, joint.classes, out),
            terms=joint.terms,
        )
        found.append(record)
    return found


def _listed(column: Floats, vocabulary: Vocabulary) -> list[Scalar]:
    """Number the codes of a column anew, by those that it has. Mutates it; the values in order of their numbers."""
    there = ~np.isnan(column)
    codes = column[there].astype(np.int64)
    used = np.bincount(codes) > 0
    column[there] = (used.cumsum() - 1)[codes]
    return [vocabulary.values[code] for code in used.nonzero()[0].tolist()]


def _codes(listed: Sequence[Scalar], known: Vocabulary, unknown: float) -> Floats:
    """The codes of values, and one more place for those that are missing."""
    codes = [float(known.find(value)) for value in listed]
    return np.array([*(unknown if code < 0 else code for code in codes), np.nan])


def _places(column: Floats, missing: int) -> Ints:
    return np.where(np.isnan(column), float(missing), column).astype(np.int64)
