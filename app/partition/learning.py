"""The models of a partition, and what stands beside them under their names: what is made of their predictions, events
of drift, of promotions and of commands. Pure.

Whose models they are is chosen in one place, by the stream file's `learning`: `OwnLearning`, which learn what the
partition joins, or `SharedLearning` (app/partition/shared/sharing.py), which learn the log of all partitions.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from riparian.app.errors import StateError
from riparian.app.partition.arrays import over, shifted_name, under
from riparian.app.partition.changes import DECISION, DETECTORS, DISTRIBUTIONS
from riparian.app.partition.drift.detection import Finding
from riparian.app.partition.drift.events import Drift
from riparian.app.partition.join.ids import Ints
from riparian.app.partition.join.pending import Joined, PendingStore, Source, Unlabelled
from riparian.app.partition.join.segments import PendingCheckpoint
from riparian.app.partition.keys.past import LabelPast, Past
from riparian.app.partition.lineup.comparing import PromotionDecision
from riparian.app.partition.lineup.lineup import Lineup, ModelsOfState, Values
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.lineup.promotion import Promotion
from riparian.app.partition.outcome import DeadLetter, Joint, MovedLabel, Outcome
from riparian.app.partition.predictions.by_segment import BySegment
from riparian.app.partition.predictions.decision_policy import DecisionPolicy, decided_name
from riparian.app.partition.predictions.intervals import Intervals
from riparian.app.partition.predictions.joint_prediction import Unpredicted
from riparian.app.partition.predictions.serving import Serving, Servings, scaling_name
from riparian.app.partition.records.decoder import PartitionDecoder
from riparian.app.partition.records.log_positions import LogPositions
from riparian.app.partition.records.partition_group import Piece, Release
from riparian.app.stream_file.sections.decision import same_target
from riparian.app.stream_file.sections.keys import labelled_keys
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Program
from riparian.models.registry import memo_places
from riparian.topics.commands import EventRecord
from riparian.topics.names import CHAMPION, CONTROL, FEATURES
from riparian.topics.records import DriftRecord, Features, Headers, Labels
from riparian.topics.vocabulary import Scalar, Vocabulary

T = TypeVar("T")
# Of a step: others may take each stage of theirs before it goes on with the next. It gives the seconds to be added to
# those that the stage has taken (`JointItem`).
Stages = Generator[float, None, T]
Parts = Generator[Release, Outcome, list[Outcome]]  # of a release: each is sent its outcome, and all are returned


def unlabelled_of(spec: Spec) -> Unlabelled | None:
    """When labels are learned, as a stream file says it."""
    given, classes = spec.join.unlabelled, spec.class_vocabulary()
    if given is None:
        return None
    assumed = np.nan if given.is_ is None or classes is None else float(classes.find(given.is_))
    return Unlabelled(int(given.after * 1000), assumed)


class Ran(NamedTuple):
    """What came of a program.

    scored : it, as what the predictions are held against has to see it
    champions : each champion in it, with the place of its first operation
    findings, decisions : about drift, and about challengers
    joint : instances that it learns, for the log of all partitions
    """

    scored: Program
    champions: list[tuple[int, Serving]]
    findings: list[Finding]
    decisions: list[PromotionDecision]
    joint: list[Joint]


class JoinedBatch(NamedTuple):
    """A release that is decoded and joined.

    keys, headers, offsets, next_offsets, times, stamps : of the features that are no dead letters
    draws : by which reasons are drawn (`reasons.keys_of`), where these are asked for
    moved : labels that may have their instance in another partition
    started : when it was joined (perf_counter); later by what others took since, where they take turns
    """

    release: Release
    features: Features
    labels: Labels
    joined: Joined
    keys: Sequence[bytes | None]
    headers: list[Headers] | None
    offsets: Ints
    next_offsets: dict[str, Ints]
    times: Ints
    stamps: Ints
    draws: NDArray[np.uint64] | None
    moved: list[MovedLabel]
    decode_seconds: float
    started: float


class Learning:
    """Of one partition.

    Parameters
    ----------
    spec : Spec
    partition : int
    pending : PendingStore
    past : Past
    decoder : PartitionDecoder
    logs : LogPositions

    Attributes
    ----------
    lineup : Lineup
    vocabularies, classes : whose codes the models know
    spoke : Serving, optional
        Of the champion at the last prediction, where a rule has promoted another one since.
    """

    rules: ClassVar[Mapping[str, str]] = {}  # role of a log besides the input topics -> its rule
    names: Sequence[str] = ()  # of arrays in the pending store
    whole = True  # whether a key's past has what its records and its labels tell in one row
    label_keys = "keys/"  # what names of a state's arrays begin with that have what labels tell
    label_past: LabelPast | None = None  # what all partitions' labels have told of keys, where that is apart
    reports_models = True  # whether what is known of the models is told by this partition
    led: tuple[str, ...] = ()  # what names of arrays begin with that follow from the log of all partitions
    held: tuple[str, ...] = ()  # what names of arrays begin with that other partitions of the worker hold, too
    common: dict[str, Any] | None = None  # where checkpoints keep copies of these
    learned_place = 0  # next one of the log of all partitions, where this partition tells it
    most_at_once = 8192  # records of one log that are taken at once
    copies = 1  # times as many labels, where each label comes to so many partitions
    turn = 8192  # features that wait from which on partitions with common models take turns
    backlog = 0  # features of the partition that are not applied yet, as far as they are known
    joins = False  # whether a replica is to come to the partition's place: until then it takes no step
    follows = False  # whether a replica learns for it
    waits = False  # whether commands wait for an instance, and no checkpoint can be made
    steps_together = False  # whether its steps may be taken with those of all other partitions (`joint_step`)
    apart = False  # whether that was found to hold something else where it should join: it has to be restored again

    def __init__(
        self,
        spec: Spec,
        partition: int,
        pending: PendingStore,
        past: Past,
        decoder: PartitionDecoder,
        logs: LogPositions,
    ) -> None:
        self.partition, self._pending, self._past = partition, pending, past
        self.decoder, self.logs = decoder, logs
        self.lineup, self.vocabularies, self.classes = self._begin(spec)
        self._n_outputs = n_outputs = self.lineup.schema.n_outputs
        self._deciding = DecisionPolicy(spec, self.classes)
        self._deciding.fit(n_outputs)
        self.servings = Servings(spec, pending, self._deciding, self._settle)
        self._join()
        self.intervals = Intervals(spec, n_outputs, pending)
        self.segments = BySegment(spec, partition, pending, decoder.values)
        self.drift = Drift(spec, partition, self.lineup, decoder.values, self.classes)
        self.promotion = Promotion(spec.name, partition, logs)
        self.promotion.models = self.lineup.learners()
        self.spoke: Serving | None = None

    def _begin(self, spec: Spec) -> tuple[Lineup, list[Vocabulary | None], Vocabulary | None]:
        """The models, and the values and classes that they know."""
        raise NotImplementedError

    @staticmethod
    def usual_seed(seed: int, partition: int) -> int:
        """Of the models of a partition. seed : the stream file's."""
        return seed + partition

    @staticmethod
    def known(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], Any]:
        """The values, packed, and the classes that the models of a state know."""
        return arrays["vocabularies"], meta["classes"]

    def _join(self) -> None:
        """Models that are there already get their places beside instances."""
        raise NotImplementedError

    @property
    def roles(self) -> dict[str, ModelSlot]:
        """Name of a model -> it."""
        return self.lineup.roles

    def _settle(self, spec: Spec) -> None:
        """What this stream file says besides its models holds from here on."""
        self.decoder.widen(spec)
        if new := len(self.decoder.values) - self._pending.n_features:
            self._pending.widen(new)
        self._past.settle(spec, self._pending)
        join = spec.join
        bounds = join.horizon, spec.most_waiting, join.max_labels, join.max_pending_bytes
        self._pending.bound(*bounds, unlabelled_of(spec))
        self._deciding.settle(spec)
        self.drift.settle(spec)
        self.intervals.settle(spec)
        self.segments.settle(spec)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        self.lineup.warm_up()
        for name, role in self.roles.items():
            self.servings[name].warm_up(role)
        self.drift.warm_up()
        self.intervals.warm_up()
        self.segments.warm_up()

    def fit_schema(self) -> None:
        """Have room for the classes that the models have room for."""
        n_outputs = self.lineup.schema.n_outputs
        self._deciding.fit(n_outputs)
        if n_outputs == self._n_outputs:
            return
        self._n_outputs = n_outputs
        for serving in self.servings.values():
            serving.resize(n_outputs)
            names = [serving.name, *serving.kept_names, *([shifted_name(serving.name)] if serving.shift else [])]
            self._pending.resize(dict.fromkeys(names, n_outputs))
        self.intervals.resize(n_outputs)
        self._pending.resize(dict.fromkeys(self.intervals.names, n_outputs))

    # -- a step ------------------------------------------------------------------------------------------------

    def parts(self, release: Release) -> Parts:
        """The parts of a release, each when the models are what they have to be before it."""
        raise NotImplementedError

    def fit(self) -> None:
        """Have room for what was decoded."""
        raise NotImplementedError

    def ask(self, batch: JoinedBatch) -> Unpredicted | None:
        """Predict what was joined with what others ask for, who have the same models; None where it has its own."""
        return None

    def run(self, batch: JoinedBatch, asked: Unpredicted | None = None) -> Ran:
        """Predict, learn and score what was joined. asked : as `ask` has given it."""
        raise NotImplementedError

    def obey_all(self) -> None:
        """Take what waits for the next instance, where none will come: to see that replicas are equal."""

    @contextmanager
    def still(self) -> Iterator[list[DriftRecord] | None]:
        """Between two steps: nothing changes what is known meanwhile. Yields events of drift that were found on the way
        there, and None where no checkpoint can be made of what is known."""
        yield []

    @property
    def may_wait(self) -> bool:
        """Whether a step may wait for the process that fits a model."""
        return self.lineup.may_wait

    def hold(self) -> bool:
        """Whether a step would not wait, for another partition or for that process: then call `let_go` after it, in the
        same thread."""
        return not self.may_wait

    def let_go(self) -> None:
        """After a step for which `hold` was true."""

    def takes(self, n: int) -> None:
        """A step of so many records begins, each of which may join an instance; below 0: it has ended."""

    def wait_for(self, replica: Any) -> None:
        """Right after it was restored: models that others of the worker have, too, are given up for a replica of
        them."""

    def join(self) -> bool:
        """Follow the replica from here on, if it has come to this place and holds the same there (`apart`)."""
        raise NotImplementedError

    def move(self, to: Any) -> list[DriftRecord] | None:
        """Between two steps: follow another replica, if it stands where the one before does and holds the same. Returns
        the events of drift on the way there; None where it stays as it is."""
        raise NotImplementedError

    def lags(self, n_waiting: int, n_records: int) -> bool:
        """Whether predictions wait until the models have learned more. n_waiting : features that are there. n_records :
        what is there of all logs."""
        return False

    @property
    def joined(self) -> int:
        """Instances that this partition has joined with their labels."""
        return self._pending.counts["joined"]

    @property
    def learned(self) -> int:
        """How many of these the models have learned."""
        return self.joined

    @property
    def behind(self) -> int:
        """Instances that this partition has joined and the models have not learned yet."""
        return self.joined - self.learned

    def reached(self) -> dict[str, int]:
        """Role of each log whose records are applied here -> the next place."""
        return self.logs.places

    # -- state -------------------------------------------------------------------------------------------------

    def n_bytes(self) -> dict[str, int]:
        """Bytes of each model, of keys, and of what watches for drift, with models on trial."""
        keys = {"keys": self.key_bytes()} if self.lineup.spec.keys else {}
        models = {name: role.model.n_bytes for name, role in self.roles.items()}
        return {**models, "drift": self.drift.n_bytes, **keys}

    def key_bytes(self) -> int:
        """Bytes of what is known of keys."""
        return self._past.n_bytes

    def key_state(self) -> dict[str, NDArray[Any]]:
        """Copies of all that is known of keys, by their names in a state."""
        return over("keys/", self._past.state())

    def key_checkpoint(self) -> PendingCheckpoint:
        """What of this has changed since the last call."""
        changed = self._past.checkpoint()
        return PendingCheckpoint(over("keys/", changed.arrays), [f"keys/{name}" for name in changed.kept])

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays, by their names in a state, without those of keys."""
        arrays = self.lineup.state() | over("drift/", self.drift.state()) | self.intervals.state()
        arrays |= self.segments.state()
        for serving in self.servings.values():
            arrays |= serving.state()
        return arrays

    def meta(self, files: list[list[str]]) -> dict[str, Any]:
        """Whatever is no array. files : that the state has gone on with."""
        return {
            **self.lineup.meta(self.promotion.n_events, files),
            **self.promotion.state(self.lineup.comparing.proposed()),
            **({} if self.spoke is None else {"spoke": self.spoke.name}),
        }

    def restore(self, state: ModelsOfState) -> None:
        """Go on with a state, and with what waits in it, once the decoder and the logs have."""
        meta, arrays, takes, *_ = state
        lineup, now, then = self.lineup, self.lineup.settings, meta.get("settings") or {}
        known, classes = self._restore_log(meta, arrays, state.known)
        state = state._replace(meta={**meta, "classes": classes}, known=known)
        was = lineup.restore_models(state)
        self.fit_schema()
        self.servings.know(self.roles)
        decides = same_target(then.get(DECISION), now.get(DECISION))
        sources: dict[str, str | Source | None] = {
            **takes, **{name: name for name in (*self.intervals.names, *self.names)}
        }  # fmt: skip
        for name, source in takes.items():
            if source is not None:
                self.servings[name].restore(arrays, source, lineup.schema.n_outputs, decides)
            sources |= self._kept_sources(self.roles[name], source, meta["models"])
            for place in (scaling_name, decided_name):
                sources[place(name)] = None if source is None else place(source)
            sources[shifted_name(name)] = None if source is None else Source(shifted_name(source), source, False)
        lineup.restore_comparing(state, self.promotion.restore(meta))
        self.intervals.restore(arrays, lineup.schema.n_outputs)
        if then.get(DECISION) == now.get(DECISION):  # else other losses count
            self.segments.restore(arrays)
        own = self.decoder.classes
        self._pending.restore(under(arrays, "pending/"), sources, None if own is None else len(own))
        same, same_tests = (then.get(what) == now.get(what) for what in (DETECTORS, DISTRIBUTIONS))
        self.drift.restore(under(arrays, "drift/"), takes, same, same_tests, was)
        self.spoke = next((self.servings[one] for one, was in takes.items() if was and was == meta.get("spoke")), None)
        lineup.steering.restore(meta, takes)
        self.promotion.models = lineup.learners()

    def _restore_log(
        self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], known: Values
    ) -> tuple[Values, list[Scalar] | None]:
        """Stand in the log of all partitions where a state does. The values and classes that its models know."""
        return known, meta["classes"]

    def _kept_sources(self, role: ModelSlot, source: str | None, models: Mapping[str, Any]) -> dict[str, Source | None]:
        """Name of each array that a model keeps beside instances -> what was `source`'s in the state."""
        if source is None:
            return dict.fromkeys(role.kept_names)
        places = memo_places(role.learner_name, self.lineup.spec.task, models[source][1], role.model.parameters())
        found = [
            None if at is None else Source(f"{source}/{name}", f"{source}/{at}", at != i)
            for i, (name, at) in enumerate(places.items())
        ]
        return dict(zip(role.kept_names, found, strict=True))

    def begin_with(self, kind: type["Learning"], state: ModelsOfState) -> None:
        """As `restore`, with the models alone, the values and classes that they know, and the past of keys. kind : how
        the partition has had models whose state it is."""
        lineup, known = self.lineup, (*state.known, state.meta["classes"])
        for vocabulary, values in zip((*lineup.vocabularies, lineup.classes), known, strict=True):
            if vocabulary is not None:
                vocabulary.restore(values)
        self.come_to_the_models()
        lineup.begin_with(state)
        self._begin_keys(state.arrays, kind)
        self.fit_schema()

    def _begin_keys(self, arrays: Mapping[str, NDArray[Any]], kind: type["Learning"]) -> None:
        """Know of keys what a state knows."""
        self._past.begin_with(self.lineup.spec, under(arrays, "keys/"), kind.whole)

    def come_to_the_models(self) -> None:
        """Know the values and classes that the models know."""


class OwnLearning(Learning):
    """Models of one partition, which learn what it joins (`learning: partition`)."""

    def _begin(self, spec: Spec) -> tuple[Lineup, list[Vocabulary | None], Vocabulary | None]:
        self._commands: list[Piece] = []  # that take effect before the next instance that is predicted
        values, classes = self.decoder.values, self.decoder.classes
        seed = self.usual_seed(spec.seed, self.partition)
        return Lineup(spec, seed, self._pending, values, classes), values, classes

    def _join(self) -> None:
        self.lineup.join(self.servings)
        self.lineup.steering.forgets = lambda key, hashed: self._past.forget(key, hashed, self._pending)

    def _settle(self, spec: Spec) -> None:
        super()._settle(spec)
        self.decoder.settle(spec)

    def _begin_keys(self, arrays: Mapping[str, NDArray[Any]], kind: type[Learning]) -> None:
        if not kind.whole and labelled_keys(self.lineup.spec.features):
            raise StateError(
                "aggregates of labels stand apart in it, as where partitions learn one model: write learning: shared"
            )
        super()._begin_keys(arrays, kind)

    def parts(self, release: Release) -> Parts:
        """With commands, each right before the next instance that is predicted."""
        if not (self._commands or len(release.piece(CONTROL).offsets)):
            return [(yield release)]
        rest, commands, come = release.without(CONTROL)
        whole, outcomes = release.pieces[FEATURES], list[Outcome]()
        n, i, at, taken = len(whole.offsets), 0, 0, 0  # at: where the rest begins; taken: commands that have come
        predicted = self.decoder.predicted(whole)
        said: tuple[list[EventRecord], list[DeadLetter]] = [], []  # of the commands before the rest

        def take(part: Release) -> Generator[Release, Outcome, None]:
            nonlocal said
            outcome = yield part
            events, letters = said
            rejected = {**outcome.rejected, CONTROL: letters}
            outcomes.append(outcome._replace(events=[*events, *outcome.events], rejected=rejected))
            said = [], []

        while (i := i if self._commands else max(i, int(np.searchsorted(come, taken, side="right")))) < n:
            self._commands, taken = [*self._commands, *commands.part(taken, int(come[i])).singly()], int(come[i])
            if predicted[i]:
                part, rest = rest.parts([i - at])
                yield from take(part)
                at = i
                if self.decoder.suits(whole.part(i, i + 1), self.lineup.steering.files(self._commands)):
                    obeyed, self._commands = self._commands, []
                    codec = self.decoder.codec
                    said = self.promotion.obey(self.lineup, obeyed, int(whole.offsets[i]))
                    for piece in obeyed:
                        self.logs.take(CONTROL, piece)
                    if self.decoder.codec is not codec:
                        predicted[i:] = self.decoder.predicted(whole.part(i))
            i += 1
        self._commands += commands.part(taken).singly()
        yield from take(rest)
        return outcomes

    def fit(self) -> None:
        self.lineup.fit_schema()
        self.fit_schema()
        self.promotion.models = self.lineup.learners()

    def run(self, batch: JoinedBatch, asked: Unpredicted | None = None) -> Ran:
        joined = batch.joined
        program, findings, decisions = joined.program, list[Finding](), list[PromotionDecision]()
        weighted, learns = self.lineup.stakes.weighted(program), len(program.op) > len(joined.predicted)
        for name, role in self.roles.items():
            serving = self.servings[name]
            findings += role.run(weighted, serving.begin_reasons(weighted, batch.draws, joined.instead))
            serving.calibrate(program, joined.instead)
            serving.decide(program)
            if learns:
                role.score(program, self.lineup.stakes)
            serving.estimate(program)
        if learns:
            decisions = self.lineup.comparing.score(program, self._pending.counts["joined"])
        led = [(one.place + 1, self.servings[one.role.name]) for one in decisions if one.promoted]
        return Ran(program, [(0, self.servings[CHAMPION]), *led], findings, decisions, [])
