"""What is said about drift in a partition: events with numbers, of the errors of its models, the values of its
features and their distributions. Pure.

The slots watch the errors of their models and do something about them (app/partition/lineup/model_slot.py). Here the
features are watched, and what was found of both becomes events, numbered in the order of records. An event names the
last prediction before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import EMPTY, over, under
from riparian.app.partition.drift.detection import LEVELS, VALUES, Finding, Signal
from riparian.app.partition.drift.distributions import Distributions
from riparian.app.partition.lineup.lineup import Lineup
from riparian.app.partition.lineup.model_slot import ALERT, ERROR
from riparian.app.stream_file.sections.drift import DistributionsSpec
from riparian.app.stream_file.sections.models import NOTHING
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import PREDICT, Floats, Program, Schema
from riparian.models.restoring import check_shapes, named
from riparian.topics.names import CHAMPION
from riparian.topics.places import index_of, offset_of, place_of
from riparian.topics.records import Distance, DriftRecord
from riparian.topics.vocabulary import Vocabulary

ALARM = 1000  # values for which a drift counts as recent


class Drift:
    """Everything that watches the models and features of a partition.

    Parameters
    ----------
    lineup : Lineup
        Whose models are watched.
    vocabularies, classes : of the partition, which grow.
    """

    def __init__(
        self,
        spec: Spec,
        partition: int,
        lineup: Lineup,
        vocabularies: Sequence[Vocabulary | None],
        classes: Vocabulary | None,
    ) -> None:
        self.partition = partition
        self.n_events = 0
        self._stream = spec.name
        self.lineup = lineup
        self._detectors = spec.drift.detectors
        self._features: dict[int, tuple[str, Signal]] = {}
        self._vocabularies, self._classes = vocabularies, classes
        self.distributions: Distributions | None = None
        self._asked: tuple[DistributionsSpec, dict[str, int]] | None = None
        self.settle(spec)
        # Of the last prediction: offset, label offset and time; and where records hold several instances, their index.
        bits = spec.make_codec().index_bits
        self._bits = bits.features, bits.labels
        self._last = np.zeros(5 if any(bits) else 3, np.int64)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        for _, signal in list(self._features.values())[:1]:
            signal.warm_up()
        if self.distributions is not None:
            self.distributions.warm_up()

    def settle(self, spec: Spec) -> None:
        """Watch the features as this stream file says; what was watched in the same way goes on."""
        self._alerts = spec.drift.on_drift != NOTHING  # about features
        detectors, seed = spec.drift.detectors, spec.seed + self.partition
        known = self._features if detectors == self._detectors else {}
        columns = spec.watched() if detectors else {}
        self._features = {
            j: known.get(j) or (name, Signal(detectors, VALUES, seed=seed)) for name, j in columns.items()
        }
        self._detectors = detectors
        asked = None if spec.drift.distributions is None else (spec.drift.distributions, spec.distributed())
        if asked is None:
            self.distributions = None
        elif self.distributions is None or asked != self._asked:
            self.distributions = Distributions(spec, self._vocabularies, self._classes)
        self._asked = asked

    def begin_anew(self, spec: Spec) -> None:
        """Know nothing of the partition's own records; its models are watched on."""
        self.n_events, self._features = 0, {}
        self._last[:] = 0
        self.settle(spec)

    # -- a program ---------------------------------------------------------------------------------------------

    def watch_features(self, program: Program, x: Floats, sizes: NDArray[np.int64] | None = None) -> list[Finding]:
        """What is found in the features of a program, feature by feature.

        Parameters
        ----------
        x : (n, d) float64, of its PREDICTs in order.
        sizes : where an instance is a bag, how many rows of x each has, (number of PREDICTs,) int64.
        """
        findings = list[Finding]()
        if not self._features:
            return findings
        places = np.flatnonzero(program.op == PREDICT)
        for j, (name, signal) in self._features.items():
            there = np.flatnonzero(np.isfinite(x[:, j]))
            whose = there if sizes is None else np.repeat(np.arange(len(sizes)), sizes)[there]
            for found in signal.update(np.ascontiguousarray(x[there, j])):
                action = ALERT if found.is_drift and self._alerts else None
                findings.append(Finding(int(places[whose[found.i]]), None, name, signal.stamp, found, action))
        return findings

    def watch_distributions(self, program: Program, x: Floats, p: Floats) -> list[Finding]:
        """What is found in how a program's features and predictions are distributed. x : (n, d), of its PREDICTs.
        p : (n, k), what the champion predicted for them."""
        if self.distributions is None:
            return []
        places = np.flatnonzero(program.op == PREDICT)
        return self.distributions.watch(places, x, p, ALERT if self._alerts else None)

    def events_of(
        self,
        program: Program,
        findings: list[Finding],
        offsets: NDArray[np.int64],
        label_offsets: NDArray[np.int64],
        times: NDArray[np.int64],
        moments: NDArray[np.int64] | None = None,
    ) -> tuple[list[DriftRecord], int]:
        """Events of what was found in a program, in the order in which it happened.

        Call it for every program, since an event may be about a prediction before.

        Parameters
        ----------
        findings : of each role, then of the features.
        offsets, label_offsets, times : (n,) int64, of the program's PREDICTs in order; places (`topics.places`).
        moments : time of each operation, ms, where an event's is not that of a prediction.

        Returns
        -------
        list of DriftRecord, and how many of them stand before a later prediction, or at one: a reader of the
        predictions knows which labels came before these.
        """
        last = self._last
        if len(offsets):
            now = offsets.item(-1), label_offsets.item(-1), times.item(-1)
            self._last = np.array(self._place(*now)[: len(self._last)] if any(self._bits) else now, np.int64)
        if not findings:
            return [], 0
        predicted = np.flatnonzero(program.op == PREDICT)
        events, n_settled = [], 0
        for place, role, name, stamp, found, action, shift in sorted(findings, key=lambda finding: finding.place):
            k = int(np.searchsorted(predicted, place, side="right")) - 1
            found_at = last if k < 0 else self._place(offsets[k], label_offsets[k], times[k])
            offset, label_offset, time, index, label_index = (*map(int, found_at), 0, 0)[:5]
            time = time if moments is None else int(moments[place])
            event = DriftRecord(
                stream=self._stream,
                partition=self.partition,
                number=self.n_events,
                model=role,
                signal=name,
                detector=found.detector,
                level=found.level or None,
                action=action,
                offset=offset,
                label_offset=label_offset,
                index=index,
                label_index=label_index,
                time=time,
                n=found.n,
                before=None if np.isnan(found.before) else found.before,
                after=None if np.isnan(found.after) else found.after,
                shift=shift,
            )
            events.append(event)
            self.n_events += 1
            n_settled += bool(len(predicted)) and place <= int(predicted[-1])
            if found.level:
                stamp(found, time)
        return events, n_settled

    def events_of_all(self, findings: list[Finding], times: NDArray[np.int64]) -> list[DriftRecord]:
        """Events of what was found in instances of all partitions. times : of the instances, ms."""
        none = np.zeros(0, np.int64)
        return self.events_of(EMPTY, findings, none, none, none, times)[0]

    def _place(self, place: Any, label_place: Any, time: Any) -> tuple[Any, ...]:
        """Offsets, time and indices of a prediction."""
        bits, label_bits = self._bits
        found = place, bits, label_place, label_bits
        return offset_of(*found[:2]), offset_of(*found[2:]), time, index_of(*found[:2]), index_of(*found[2:])

    @property
    def last_place(self) -> int:
        """The place of the last prediction; 0 where there was none."""
        offset, index = int(self._last[0]), int(self._last[3]) if len(self._last) > 3 else 0
        return int(place_of(offset, index, self._bits[0]))

    # -- what is reported --------------------------------------------------------------------------------------

    def signals(self) -> Iterator[tuple[str, str, Signal]]:
        """(role, or "" for a feature; "error" or the feature's name; its detectors), of all that is watched."""
        for role in self.lineup.roles.values():
            if role.watched:
                yield role.name, ERROR, role.signal
        for name, signal in self._features.values():
            yield "", name, signal

    def events(self) -> Iterator[tuple[str, str, str, str, int, int]]:
        """(role, signal, detector, level, events since the stream began, ms of the last one)."""
        for role, name, signal in self.signals():
            for k, detector in enumerate(signal.detectors):
                for i, level in enumerate(LEVELS):
                    yield role, name, detector, level, int(signal.counts[k, i]), int(signal.times[k, i])
        if self.distributions is not None:
            yield from self.distributions.events()

    def distances(self) -> list[Distance]:
        """How far features and predictions are from their references, where that is watched."""
        return [] if self.distributions is None else self.distributions.distances()

    def alarms(self) -> dict[str, bool]:
        """Role ("" for all features) -> whether there was a drift lately; without those that nobody wants to be told
        of."""
        watched = [role for role in self.lineup.roles.values() if role.watched and role.action != NOTHING]
        found = {role.name: role.signal.alarmed(ALARM) for role in watched}
        if self._features and self._alerts:
            found[""] = any(signal.alarmed(ALARM) for _, signal in self._features.values())
        if self.distributions is not None and self._alerts:
            features, predictions = self.distributions.alarmed(ALARM)
            found[""] = found.get("", False) or features
            found[CHAMPION] = found.get(CHAMPION, False) or predictions
        return found

    @property
    def n_bytes(self) -> int:
        """Bytes of detectors and of models on trial."""
        of_distributions = 0 if self.distributions is None else self.distributions.n_bytes
        return sum(array.nbytes for array in (*self._signals().values(), *self._trials().values())) + of_distributions

    # -- state -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """`signals`, all that watches as one array of bytes (it is many small ones, which all change all the time), and
        the live arrays of models on trial and of distributions. Nothing where nothing is watched."""
        watched = self.distributions is not None or any(role.watched for role in self.lineup.roles.values())
        if not self.n_events and not watched:
            return {}
        plain = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in self._signals().items()}
        signals = {"signals": np.frombuffer(msgspec.msgpack.encode(plain), np.uint8)}
        tests = {} if self.distributions is None else over("distributions/", self.distributions.state())
        return signals | self._trials() | tests

    def _signals(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"last": self._last, "events": np.array([self.n_events], np.int64)}
        for role in self.lineup.roles.values():
            if role.watched:
                arrays |= over(f"models/{role.name}/", role.state_of_watching())
        for j, (_, signal) in self._features.items():
            arrays |= over(f"features/{j}/", signal.state())
        return arrays

    def _trials(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        for role in self.lineup.roles.values():
            if role.trial is not None:
                arrays |= over(f"trials/{role.name}/", role.trial.state())
        return arrays

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        sources: Mapping[str, str | None],
        same: bool,
        same_tests: bool,
        schema: Schema,
    ) -> None:
        """Take over what `state` gave, after the pending store has been restored.

        Parameters
        ----------
        sources : name of a role -> the name that it had there; None for one that starts afresh.
        same : whether the detectors and their parameters are those of then; others begin anew.
        same_tests : whether the tests of distributions are.
        schema : that models on trial had room for.

        Raises
        ------
        ValueError
            Arrays are none that `state` gives.
        """
        if "signals" not in arrays:
            return
        plain = msgspec.msgpack.decode(arrays["signals"].tobytes())
        found = {name: np.frombuffer(data, kind).reshape(shape) for name, (kind, shape, data) in plain.items()}
        with named("the detectors"):
            check_shapes(found, {"events": np.zeros(1, np.int64), "last": self._last}, {"last": "*"})
            self.n_events, self._last = int(found["events"][0]), found["last"]
        self._last = np.concatenate((self._last, np.zeros(2, np.int64)))[: 5 if any(self._bits) else 3]
        tests = under(arrays, "distributions/")
        if self.distributions is not None and same_tests and tests:
            self.distributions.restore(tests)
        if not same:
            return
        for role in self.lineup.roles.values():
            source = sources.get(role.name, role.name)
            mine = under(found, f"models/{source}/")
            if role.watched and source is not None and mine:
                role.restore_watching(mine, under(arrays, f"trials/{source}/"), schema)
        for j, (name, signal) in self._features.items():
            mine = under(found, f"features/{j}/")
            if mine:
                signal.restore_from_outside(mine, name)
