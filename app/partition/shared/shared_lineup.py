"""The models that all partitions of a stream learn (`learning: shared`), by the one log of what they have joined. Pure.

Codes of values and classes go by first sight, which differs between partitions. So a record of the log lists the values
that it has, and the models have codes of their own, by first sight in the log.

What a label counts, what a mistake costs and how many values there may be depends on the stream file, which workers get
one after another. So a record of the log says that, too (`Terms`), and models go by it: what they hold depends on the
log alone.

A command may add and drop features. A feature keeps its column for good, so what was joined before has a part of the
columns that there are, from the first on, and the others are missing. A record names those that it has by a hash.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.errors import StateError
from riparian.app.partition.arrays import renamed, under
from riparian.app.partition.drift.detection import Finding
from riparian.app.partition.keys.past import LabelPast, words_of_hash
from riparian.app.partition.lineup.learned_rows import Ints, LearnedRows
from riparian.app.partition.lineup.lineup import Decided, Due, Lineup, ModelsOfState
from riparian.app.partition.lineup.model_commands import Change
from riparian.app.partition.outcome import DeadLetter
from riparian.app.partition.predictions.decision_policy import DECIDED, Stakes
from riparian.app.partition.records.partition_group import Piece
from riparian.app.partition.state import Snapshot, digest
from riparian.app.stream_file.columns import beyond_types, hash_of, plain_keys
from riparian.app.stream_file.lineup import RUNS
from riparian.app.stream_file.sections.keys import labelled_keys
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, Floats, Program
from riparian.topics.records import WRONG_LEARNED
from riparian.topics.training_log import (
    VERSION,
    WITH_FEATURES,
    LearnedCommand,
    LearnedRecord,
    Terms,
    is_command,
    read,
)
from riparian.topics.vocabulary import Scalar, Vocabulary

# Of a state: an array, what names of arrays begin with, and a field of its meta.
VALUES, KEYS, STATE = "learned/values", "learned/keys/", "shared"


class Learned(NamedTuple):
    """What came of learning records of the log.

    decided : by the rule that promotes. findings, times : about drift, and the time of each instance, ms
    """

    decided: list[Decided]
    findings: list[Finding]
    times: Ints


class Obeyed(NamedTuple):
    """A command took effect, with what was changed before this. due : its event; None where there is none."""

    due: Due | None


class Forgotten(NamedTuple):
    """A key is to be forgotten. key : its name in the stream file. hashed : as a command has it."""

    key: str
    hashed: str


Listed = Sequence[Scalar] | None  # of a column, the values that it has
News = Change | Learned | Obeyed | Forgotten | DeadLetter


def terms_of(spec: Spec) -> Terms:
    """By which instances are learned, as a stream file says it."""
    classes = spec.class_vocabulary()
    return Terms(
        spec.seed,
        [None if known is None else known.limit for known in spec.vocabularies()],
        None if classes is None else classes.limit,
        spec.class_weights or {},
        spec.prices,
        spec.target,
    )


def open_vocabularies(spec: Spec) -> list[Vocabulary | None]:
    """Those of the models, of all columns."""
    return list(map(opened, spec.vocabularies()))


def opened(known: Vocabulary | None) -> Vocabulary | None:
    """The models' vocabulary, which takes what the log lists: a declared value, too, that this worker's stream file
    does not have yet."""
    if known is None or not known.closed:
        return known
    made = Vocabulary(known.limit)
    made.restore(known.state())
    return made


class SharedLineup(Lineup):
    """Models that learn the log of all partitions.

    Parameters
    ----------
    spec : Spec

    Attributes
    ----------
    rows : LearnedRows
    place : int
        The next one of the log.
    last : tuple, optional
        The last record taken, or its mark.
    terms : Terms
        Of the last record learned; before, those of the stream file.
    n : int
        Instances that the models have learned.
    numbers : dict
        Partition -> how many of its instances are among them.
    n_commands, next_command : int
        Commands that they have obeyed, and the offset of the next one in the control topic.
    keys : LabelPast
        Aggregates of labels by key.
    news : list
        What has happened, in order, until somebody takes it.
    """

    rows: LearnedRows
    place: int = 0

    def __init__(self, spec: Spec) -> None:
        self.terms = terms_of(spec)
        self.news: list[News] = []
        self.last: tuple[Any, ...] | None = None
        self.n = 0
        self.n_commands = self.next_command = 0
        self.numbers: dict[int, int] = {}
        self._agreed: Terms | None = None  # that were compared last
        self._widths = [len(spec.features)]  # how many columns there have been, since the beginning
        self._named: dict[str | None, int] = {}  # what a record names -> how many of them it has
        self._keys: dict[int, list[str]] = {}  # how many columns -> the keys that labels count for there
        self._name_columns(spec)
        self.keys = LabelPast(spec)
        self._commanded = spec.topics.control is not None
        rows, classes = LearnedRows(spec.task), opened(spec.class_vocabulary())
        super().__init__(spec, spec.seed, rows, self.vocabularies_of(spec), classes)
        self.join(rows)
        self.steering.forgets = self._forget

    def _stakes(self) -> Stakes:
        return Stakes(self.classes, self.terms.weights, self.terms.costs, self.terms.target, self.spec.features)

    @property
    def seed(self) -> int:
        return self.terms.seed

    def key_of(self, name: str) -> str:
        """Another one of this name may have predicted what waits."""
        return f"{name}@{self.n_commands}"

    def warm_up(self) -> None:
        super().warm_up()
        self.keys.warm_up()

    def change(self, change: Change) -> None:
        super().change(change)
        self.news.append(change)

    def vocabularies_of(self, spec: Spec) -> list[Vocabulary | None]:
        return open_vocabularies(spec)

    def _widen(self, spec: Spec) -> None:
        n = len(self.vocabularies)
        super()._widen(spec)
        if len(self.vocabularies) > n:
            self.terms = msgspec.structs.replace(self.terms, most=[*self.terms.most, *terms_of(spec).most[n:]])
            self._widths.append(len(self.vocabularies))
            self._name_columns(spec)

    def _name_columns(self, spec: Spec) -> None:
        features = list(spec.features.items())
        self._named = {hash_of(features[:n]): n for n in self._widths} | {None: self._widths[0]}
        self._keys = {n: labelled_keys(dict(features[:n])) for n in self._widths}

    def settle(self, spec: Spec) -> None:
        super().settle(spec)
        self.keys.settle(spec)

    def fit_schema(self) -> None:
        before = self.schema
        super().fit_schema()
        if self.schema != before:
            self.rows.resize(self.schema.n_outputs)

    def _go_by(self, terms: Terms) -> None:
        """Learn by these from here on. A value that is known stays so."""
        room = (*terms.most, terms.most_classes), (*self.vocabularies, self.classes)
        for most, known in zip(*room, strict=True):
            if most is not None and known is not None:
                known.limit = max(most, len(known))
        if terms.costs != self.terms.costs:
            self.price_anew()
        self.terms, self._agreed = terms, None
        self.stakes = self._stakes()
        self.comparing.begin_by(self.stakes)

    def _forget(self, key: str, hashed: str) -> bool:
        """Drop the aggregates of labels of a key, and have all partitions drop what they know of it, which may be
        nothing."""
        self.keys.drop(key, words_of_hash(hashed))
        self.news.append(Forgotten(key, hashed))
        return True

    # -- learning ----------------------------------------------------------------------------------------------

    def follow(self, piece: Piece) -> None:
        """Learn the next records of the log, and obey the commands among them, without those that no worker of this
        stream has written: all replicas pass over the same."""
        alike, numbers, raw = list[LearnedRecord](), dict(self.numbers), piece.raw
        for offset, key, value in zip(piece.offsets.tolist(), raw.keys, raw.values, strict=True):
            try:
                record = self._read(value)
                if isinstance(record, LearnedRecord):
                    first = numbers.get(record.partition, 0)
                    if record.first > first:
                        raise ValueError(
                            f"it begins with instance {record.first:,} of partition {record.partition}, and {first:,} "
                            "is the next one: where records of its own were lost, give the stream a new name"
                        )
                    numbers[record.partition] = max(first, record.first + record.n)
            except ValueError as error:
                self.news.append(DeadLetter(offset, key, value, WRONG_LEARNED, str(error)))
                continue
            if isinstance(record, LearnedCommand) or (alike and alike[0].terms != record.terms):
                self._learn(alike)
                alike = []
            if isinstance(record, LearnedCommand):
                self._obey(record)
            else:
                alike.append(record)
        self._learn(alike)
        if len(piece.offsets):
            self.place = piece.end
            self.last = int(raw.offsets[-1]), int(raw.timestamps[-1]), raw.keys[-1], raw.values[-1]

    def _read(self, value: bytes | None) -> LearnedRecord | LearnedCommand:
        """ValueError where it is none that a worker of this stream writes."""
        record = read(value)
        if record.version < VERSION:
            raise StateError(
                f"the log of the shared model holds a record of format {record.version}, of a worker of an earlier "
                "version, whose models have other last bits: stop such workers, and begin a stream of a new name with "
                "what was learned (riparian export, riparian import --models-only)"
            )
        if isinstance(record, LearnedCommand):
            if not self._commanded:
                raise ValueError("a command, and the stream file does not say control: true")
            return record
        width = self._named.get(record.features)
        if width is None:
            raise StateError(
                f"the log of the shared model holds instances of partition {record.partition} with features that the "
                "models here have not come to have: they began by another stream file, or passed over the command that "
                "added these; stop workers of an earlier version, and go back to a checkpoint before that command "
                "(riparian rollback), or begin with the stream file that the stream began with"
            )
        if len(record.values) != width or (record.classes is None) != (self.classes is None):
            raise ValueError("it has other features or another task")
        if any((a is None) != (b is None) for a, b in zip(record.values, self.vocabularies[:width], strict=True)):
            raise ValueError("it has other kinds of features")
        if len(() if record.keys is None else record.keys.bounds) != len(self._keys[width]):
            raise ValueError("it has other keys")
        return record

    def waiting(self, piece: Piece) -> list[int]:
        """Which records of the log, that come next, are commands to wait with for an instance. A command that was
        obeyed comes again where its partition got another owner; it is nothing."""
        found, due = list[int](), self.next_command
        for i, value in enumerate(piece.raw.values):
            if not is_command(value):
                continue
            with suppress(ValueError):
                command = self._read(value)
                if isinstance(command, LearnedCommand) and command.offset >= due:
                    found.append(i)
                    due = command.offset + 1
        return found

    def _obey(self, record: LearnedCommand) -> None:
        """Apply a command at its place of the log, if it is a new one."""
        if record.offset < self.next_command:
            return
        self.n_commands, self.next_command = self.n_commands + 1, record.offset + 1
        self.rows.counts["joined"] += 1
        command, due = self.steering.read(record.offset, None, record.value), None
        if isinstance(command, DeadLetter):
            self.news.append(command)
        elif command is not None:
            self.steering.keeps_features = record.version < WITH_FEATURES
            due = self.obey(command, record.offset)
        self.news.append(Obeyed(due))

    def _learn(self, records: Sequence[LearnedRecord]) -> None:
        if not records:
            return
        fresh = [one for one in records if one.first + one.n > self.numbers.get(one.partition, 0)]
        listed = [(one.classes, *one.values) for one in fresh]
        self.prepare(records[0].terms, listed, ((key, n) for one in records for key, (n, _) in one.out.items()))
        columns = [self._columns(record) for record in records]
        x, y, w, at = (np.concatenate(parts) for parts in list(zip(*columns, strict=True))[:4])
        lengths = [len(one[1]) for one in columns]
        if self.keys:
            self._learn_keys(records, lengths, y, w)
        parts = list(zip(lengths, (one[4] for one in columns), strict=True))
        self.fold(x, y, w, at, parts, [record.time for record in records])

    def prepare(
        self, terms: Terms | None, listed: Iterable[Sequence[Listed]], widths: Iterable[tuple[str, int]]
    ) -> None:
        """Before instances are learned: go by their terms, give codes to their values in the order in which they are
        listed, and have room for all.

        listed : of the classes, and of each column. widths : name in the log of what was predicted -> for how many
        classes. Where these are as many as the terms allow, so many may be declared there.
        """
        if terms is not None and terms is not self._agreed:
            most = [*terms.most, *self.terms.most[len(terms.most) :]]  # of later features a record says nothing
            whole = msgspec.structs.replace(terms, most=most)
            if whole != self.terms:
                self.room = self.schema  # what there is room for stays
                self._go_by(whole)
            self._agreed = terms
        for one in listed:
            for values, known in zip(one, (self.classes, *self.vocabularies), strict=False):
                if known is not None:
                    for value in values or ():
                        known.code(value)
        full = max(2, self.terms.most_classes or 0)
        if full > self.schema.n_outputs and any(n == full for key, n in widths if not key.endswith(DECIDED)):
            self.room = self.schema._replace(n_outputs=full)
        self.fit_schema()

    def fold(
        self, x: Floats, y: Floats, w: Floats, at: Ints, parts: Sequence[tuple[int, Mapping[str, Floats]]],
        times: Sequence[int],
    ) -> None:  # fmt: skip
        """Learn instances, and score what was predicted for them.

        x : (n, d) in the models' codes. y, w, at : (n,) labels, what they count, and how many instances the models had
        learned before each. parts, times : how many come together, what was predicted for them, by its name in the log,
        and the time of their partition, ms.
        """
        names = self._names()
        self.n += len(y)
        self.rows.counts["joined"] += len(y)
        self.rows.fill(x, at, [(n, self._called(out, names)) for n, out in parts])
        program = Program(np.full(len(y), LEARN, np.int8), np.arange(len(y), dtype=np.int32), y, w)
        weighted, findings = self.stakes.weighted(program), list[Finding]()
        for role in self.roles.values():
            findings += role.run(weighted)
            role.score(program, self.stakes)
        findings, decided = self.carry_out(self.comparing.score(program, self.n), findings)
        if decided or findings:
            stamps = np.repeat(np.array(times, np.int64), [n for n, _ in parts])
            for one in sorted(findings, key=lambda finding: finding.place):
                if one.found.level:
                    one.stamp(one.found, int(stamps[one.place]))
            self.news.append(Learned(decided, findings, stamps))

    def _names(self) -> dict[str, str]:
        """What the log says -> the name of a model, or of what it keeps, where records of before count that."""
        names = {role.key: name for name, role in self.roles.items()}
        for role in self.roles.values():
            if not role.memos.begun:
                names |= {f"{role.key}/{i}": kept for i, kept in enumerate(role.kept_names)}
        return names

    def _called(self, out: Mapping[str, Floats], names: Mapping[str, str]) -> dict[str, Floats]:
        """What was predicted for instances, by the names of the models here."""
        left = {key: one for key, one in out.items() if key.partition("/")[0] in names}
        return self.rows.fitting({names.get(key) or renamed(key, names): one for key, one in left.items()})

    def widened(self, x: Floats) -> Floats:
        """Rows with as many columns as there are, of which the last are missing in them."""
        if x.shape[1] == len(self.vocabularies):
            return x
        found = np.full((len(x), len(self.vocabularies)), np.nan)
        found[:, : x.shape[1]] = x
        return found

    def _learn_keys(self, found: Sequence[LearnedRecord], lengths: Sequence[int], y: Floats, w: Floats) -> None:
        """Add the labels of records, of so many instances at their ends, to the aggregates of their keys. y, w :
        codes of classes, or targets, and 0 of a label that counts nothing."""
        at = 0
        for record, n in zip(found, lengths, strict=True):
            if n and record.keys is not None:
                rows, counts = record.keys.columns()[-n:].copy(), w[at : at + n] > 0.0
                rows[~counts, 1:] = 0
                names = self._keys[self._named[record.features]]
                self.keys.fold(names, record.keys.bounds, rows, np.full(n, record.time), y[at : at + n])
            at += n

    def _columns(self, record: LearnedRecord) -> tuple[Floats, Floats, Floats, Ints, dict[str, Floats]]:
        """x, y, weights and at, by the models' codes, of a record's instances that were not learned yet, and out."""
        x, y, at, out = record.columns()
        begin = self.numbers.get(record.partition, 0) - record.first
        y, at, x = np.array(y[begin:]), at[begin:], self.widened(np.array(x[begin:]))
        nominal = [j for j, listed in enumerate(record.values) if listed is not None]
        if nominal:
            tables = [self._table(record.values[j] or (), self.vocabularies[j]) for j in nominal]
            ends = np.cumsum([0, *map(len, tables)])
            listed = x[:, nominal]
            places = np.where(np.isnan(listed), ends[1:] - 1, listed + ends[:-1])  # what is missing: last of a table
            x[:, nominal] = np.array(list(chain.from_iterable(tables)))[places.astype(np.int64)]
        w = np.ones(len(y))
        if record.classes is not None and self.classes is not None:
            y, w = known_codes(np.array(self._table(record.classes, self.classes))[y.astype(np.int64)])
        self.numbers[record.partition] = max(self.numbers.get(record.partition, 0), record.first + record.n)
        return x, y, w, at, {key: one[begin:] for key, one in out.items()}

    @staticmethod
    def _table(listed: Sequence[Scalar], known: Vocabulary | None) -> list[float]:
        """The codes of values, and one more place for those that are missing; NaN where there is no code."""
        codes = [-1 if known is None else known.find(value) for value in listed]
        return [*(np.nan if code < 0 else float(code) for code in codes), np.nan]

    # -- state -------------------------------------------------------------------------------------------------

    def fingerprint(self) -> list[Any]:
        """Of all that it holds: equal where two have come to the same at one place. A changed stream file may have
        begun a challenger, say, at another place of the log in one of them."""
        models = [
            (name, role.key, role.learner_name, role.model.parameters(), role.memos.begun, role.frozen, role.action)
            for name, role in self.roles.items()
        ]
        proposed, values = self.comparing.proposed(), bytes(self._values())
        return [self.settings, self._numbers(), values, self.steering.obeyed(), proposed, models, self.digest()]

    def _values(self) -> NDArray[np.uint8]:
        known = [None if v is None else v.state() for v in self.vocabularies]
        return np.frombuffer(msgspec.msgpack.encode(known), np.uint8)

    def _numbers(self) -> dict[str, Any]:
        classes = None if self.classes is None else self.classes.state()
        found: dict[str, Any] = {"n": self.n, "classes": classes, "numbers": sorted(self.numbers.items())}
        terms = msgspec.to_builtins(self.terms)
        found["terms"] = terms[:-1] if self.terms.target is None else terms  # states of before have no target
        if len(self._widths) > 1:
            found["columns"] = list(self._widths)
        return found | ({"commands": [self.n_commands, self.next_command]} if self.next_command else {})

    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | {VALUES: self._values()}

    def digest(self) -> str:
        """With the aggregates of labels."""
        return super().digest() + digest(Snapshot({}, self.keys.state()))

    def meta(self, n_events: int, files: list[list[str]]) -> dict[str, Any]:
        """With what the log alone tells of what waits elsewhere: keys of models that are called otherwise by now, since
        when models, and members of them, predict, and by which file the state goes on (`Spec.runs_by`)."""
        found, roles, spec = super().meta(n_events, files), self.roles.items(), self.spec
        if "steering" in found:
            left = {name: value for name, value in found["steering"].items() if name != "applied"}
            found["steering"] = left | {"files": []}
        further = {
            "keys": {name: role.key for name, role in roles if role.key != name},
            "since": {name: role.memos.since for name, role in roles if role.memos.since},
            "begun": {name: role.memos.begun for name, role in roles if role.memos.begun},
        }
        runs = {"settings": spec.running(), "on_drift": spec.own_on_drift(), "files": files}
        if spec.control:
            runs["features"] = beyond_types(spec.features)
            runs |= {"keys": plain_keys(spec.keys)} if spec.keys else {}
        return found | {what: one for what, one in further.items() if one} | {STATE: self._numbers(), RUNS: runs}

    def restore_log(
        self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> tuple[list[list[Scalar] | None], list[Scalar] | None]:
        """Stand in the log where a state does. Returns the values and classes that the models know."""
        found = meta[STATE]
        self._widths = [int(n) for n in found.get("columns", [len(self.vocabularies)])]
        if self._widths != sorted({*self._widths}) or self._widths[-1] != len(self.vocabularies):
            raise ValueError("the numbers of its columns are damaged")
        self._name_columns(self.spec)
        if "terms" in found:  # states of before have none
            self._go_by(msgspec.convert(found["terms"], Terms))
        values: list[list[Scalar] | None] = msgspec.msgpack.decode(arrays[VALUES].tobytes())
        restore_known((*self.vocabularies, self.classes), (*values, found["classes"]))
        self.keys.restore(under(arrays, KEYS))
        self.keys.hash_as(under(arrays, "keys/"))  # where labels tell of no key the above is nothing
        self.n = int(found["n"])
        self.n_commands, self.next_command = map(int, found.get("commands", (0, 0)))
        self.rows.counts["joined"] = self.n + self.n_commands
        self.numbers = {int(partition): int(n) for partition, n in found["numbers"]}
        if not 0 <= self.n_commands <= self.next_command:
            raise ValueError("the numbers of commands are damaged")
        if min(self.n, *self.numbers.values(), 0) < 0 or sum(self.numbers.values()) != self.n:
            raise ValueError("the numbers of learned instances are damaged")
        return values, found["classes"]

    def restore_comparing(self, state: ModelsOfState, proposed: list[str]) -> None:
        """Go on with the comparisons of a state: what mistakes cost stands in the log."""
        self.comparing.restore(under(state.arrays, "compared/"), proposed, state.takes)


def restore_known(vocabularies: Sequence[Vocabulary | None], states: Sequence[list[Scalar] | None]) -> None:
    """Vocabularies know these, also where bounds were lowered since."""
    for known, state in zip(vocabularies, states, strict=True):
        if known is not None:
            known.limit = max(known.limit, len(state or []))
            known.restore(state or [])


def known_codes(codes: Floats) -> tuple[Floats, Floats]:
    """Codes of labels, and what each counts: nothing, where there is no code, as of a class beyond what the stream file
    allows, over all partitions."""
    known = ~np.isnan(codes)
    return np.where(known, codes, 0.0), known.astype(np.float64)
