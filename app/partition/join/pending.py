"""The pending store: instances that wait for their labels, and labels that wait for their features.

Waiting instances live in a slab, rows of one array (bags: ragged.py), with the predictions that were made for them
beside the row. `join` turns the merged order of a batch into a program over rows: predict row r, learn row r with
label y.

What happens when (each is counted):

- A label finds its instance waiting: the instance is learned and leaves. *joined*
- A label that is null finds its instance waiting: none will come, and the instance leaves unlearned. *null_labels*
- A label comes before its features: it waits too; the features, when they come, are predicted and then learned.
  Of several labels for one id, the first waits, the others are dropped. *repeated_labels*
- An id comes again while it waits: the repeat is predicted (every record gets a prediction), and the first stays
  waiting for the label. If the repeat has a label inside, that is the label of the first. *repeated_ids*
- An instance waits longer than the horizon, in stream time: it leaves unlearned. *expired*
- More than `max_pending` instances wait, or they take more than `max_bytes`: the oldest leaves unlearned. *evicted*
- A label waits longer than the horizon, or is pushed out by `max_labels`: *unmatched*. A label whose instance has
  left ends here as well.
- A label finds no instance waiting, and its id was joined no longer ago than the horizon: it was delivered again, or is
  a correction of what was learned. Either is dropped. *repeated_labels*, *corrected_labels*
- Features come again with the values of the instance of their id that was joined last: they are predicted, and nothing
  waits. Other values are another instance, which waits for a label of its own. *repeated_ids*
- With `unlabelled`, labels wait beside their instance until it has waited for its time: it matures, and is learned. One
  without a label is learned by the one that is *assumed*, if any is, and waits on for a correction, by which it is
  learned once more. With `corrects`, all that was learned waits on for *corrections*.
- With `ahead`, each record is a label of those of its key that wait and came so much earlier (series.py).
- More than `max_pending` joined ids are remembered: the oldest is forgotten. *forgotten_ids*

Stream time is the later one of the two topics' times (clock.py). Where it goes on by more than a minute at once, what
arrived last before that counts as waiting from then on. The bytes of an instance are computed, not measured. So all
this depends on the order of the records alone, never on the clock or on how they were divided into batches.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riparian.app.errors import StateError
from riparian.app.partition.arrays import EMPTY, renamed
from riparian.app.partition.join.counts import NULL
from riparian.app.partition.join.gaps import CLOCK, GAPS, N_GAPS, NEVER, NOW, WIDTH
from riparian.app.partition.join.ids import Hashes, Ints, new_key, packed, packed_both, tags, words_of
from riparian.app.partition.join.joined_ids import JoinedIds
from riparian.app.partition.join.joining import REPEATED, Limits, StoreValues, join, new_frame
from riparian.app.partition.join.maturity import AMENDED, CAME, EXCHANGED, n_to_mature, next_to_mature
from riparian.app.partition.join.ragged import Ragged
from riparian.app.partition.join.remembering import mark_all
from riparian.app.partition.join.room import OF_ROW, ROW_BYTES, most_joined
from riparian.app.partition.join.segments import Columns, PendingCheckpoint, Segments
from riparian.app.partition.join.series import KEY, TIME, Follow, KeyQueues, forget, link
from riparian.app.partition.join.waiting import (
    ARRIVED,
    HEAD,
    HOME,
    MARK,
    MATURE,
    N_LEFT,
    NEXT_SERIAL,
    PLACE,
    ROW_BITS,
    SERIAL,
    TAIL,
    Batch,
    find,
)
from riparian.app.partition.join.waiting_index import WaitingIndex, entry_columns
from riparian.app.partition.mapped import give_back, grown, zeros
from riparian.app.partition.records.clock import BOUND_MS
from riparian.models.contract import LEARN, PREDICT, Bags, Floats, Program
from riparian.models.kernels.frames import KernelFrame
from riparian.topics.slices import Texts

COUNTERS = (
    "joined", "expired", "evicted", "unmatched", "repeated_ids", "repeated_labels", "corrected_labels", "forgotten_ids",
    "null_labels", "assumed", "corrections",
)  # fmt: skip
N_COUNTERS_BEFORE = 6  # in states of before joined ids were remembered
N_USUAL = 8  # that a state has where the others are 0
UNBOUNDED = 2**62


class Source(NamedTuple):
    """Where a restored output stands in a state, if it may have another name there.

    before : as states of before have it, which count what a model keeps. moved : whether that counts for another now.
    """

    name: str
    before: str
    moved: bool


class Unlabelled(NamedTuple):
    """When labels are learned that do not come, or come before their time.

    after_ms : how long an instance waits until it is learned. assumed : the label of one that has none by then; NaN:
    it is not learned.
    """

    after_ms: int
    assumed: float = float("nan")


class Joined(NamedTuple):
    """A program, and what the caller reports about it.

    program : valid until the next batch is joined.
    predicted : (n,) int32, the row of each feature record.
    waited : (m,) float64, for each label that met its instance the seconds between features and label in stream time; 0
        where the label came first, or inside the same record.
    came : whether `waited` is of the labels in `events` that came first, one each; not where others are assumed.
    marks : (n,) int64, REPEATED where the id of a feature record waits already, or it was delivered again.
    events : the program with labels where they come, too, and what becomes of them (maturity.py).
    instead : for each operation of the program the label that its label corrects, NaN: none; (0,) where no instance is
        learned twice.
    reached : (n,) int64, how much of the program is of what comes before each feature record.
    """

    program: Program
    predicted: NDArray[np.int32]
    waited: Floats
    came: bool
    marks: Ints
    events: Program
    instead: Floats
    reached: Ints

    @property
    def repeated(self) -> NDArray[np.bool_]:
        """(n,), whether the id of each feature record waits already, or the record was delivered again."""
        found: NDArray[np.bool_] = self.marks == REPEATED
        return found


class PendingStore:
    """Waiting instances and waiting labels of one partition.

    Parameters
    ----------
    n_features : int
    outputs : dict of str to int
        Width of the prediction of each model.
    horizon : float
        Seconds that an instance or a label may wait, in stream time.
    max_pending, max_labels : int
        Bounds on waiting instances and labels.
    max_bytes : int
        Bound on what waiting instances take: 8 bytes per feature and per column of predictions, the id, and ROW_BYTES.
        The arrays grow by doubling, so they may take up to twice as much.
    bags : bool
        Whether an instance is a bag: 8 bytes per feature of each of its instances, and PLACE_BYTES.
    remembers : bool
        Whether joined ids are remembered: as many as instances may wait, JOINED_BYTES each of at most `max_bytes`.
    made : sequence of int
        Features that records do not have (`fill`).
    past_width : int
        Numbers that are kept of an instance until its label comes (`past`).
    unlabelled : Unlabelled, optional
        When labels are learned that do not come, or come before their time.
    corrects : bool
        Whether a label is learned again where another one comes.
    ahead_ms : int, optional
        How much later a record is that is the label of one of its key, where no others come.
    """

    def __init__(
        self,
        n_features: int,
        outputs: dict[str, int],
        *,
        horizon: float,
        max_pending: int,
        max_labels: int,
        max_bytes: int = UNBOUNDED,
        bags: bool = False,
        remembers: bool = True,
        made: Sequence[int] = (),
        past_width: int = 0,
        unlabelled: "Unlabelled | None" = None,
        corrects: bool = False,
        ahead_ms: int | None = None,
    ) -> None:
        self.horizon_ms = int(horizon * 1000)
        self.max_pending = max_pending
        self.max_labels = max_labels
        self.max_bytes = max_bytes
        self.n_features = n_features
        self._made = list(made)
        self._slab = np.zeros((0, n_features))
        self.past = np.zeros((0, past_width), np.int64)
        self._ragged = Ragged(n_features) if bags else None
        self.out = {name: np.zeros((0, width)) for name, width in outputs.items()}
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.n_met = 0  # labels that met their instance here
        key = new_key()
        self._instances, self._labels = WaitingIndex.empty(key, bags), WaitingIndex.empty(key)
        self.remembers = remembers
        self._joined, self._blocks_written = JoinedIds.empty(key), 0
        self._counted_width: int | None = None
        self._capacity = 0
        self._early_y = np.zeros(0)  # of the waiting labels, by row of their index
        self._unlabelled, self._corrects = unlabelled, corrects
        self._known = np.zeros(0)  # of the waiting instances whose labels came, by row; none where they leave then
        self.ahead_ms, self._series = ahead_ms, KeyQueues.empty(key)
        self._told: list[Ints] = []  # rows whose label came after they were written
        self._clock = np.zeros(CLOCK, np.int64)
        self._clock[WIDTH] = self._width
        self._gaps = np.zeros((GAPS, 2), np.int64)
        self._segments = {"instances": Segments("instances"), "labels": Segments("labels")}
        self._last_program = EMPTY, 0  # and the number of the first arrival in it
        self._arrivals: Ints | None = None  # by its operations, once somebody asks
        self._ones, self._each = np.ones(0), np.ones(0, np.int64)  # weights of programs, and sizes of instances
        self._frame: KernelFrame | None = None  # of what the kernel works on, as it was at the last batch
        self._framed = self._slab  # which it has as bits
        # Records, and bytes of ids, for which there is room, whatever comes. Whatever leaves room is not counted.
        self._spare = self._spare_bytes = 0
        self._no_labels = np.zeros(0)

    @property
    def slab(self) -> Floats | Bags:
        """What programs run over."""
        return self._slab if self._ragged is None else self._ragged.bags

    @property
    def n_waiting(self) -> int:
        return self._instances.n_waiting

    @property
    def n_unlearned(self) -> int:
        """Instances that wait and were not learned, neither by a label nor by the one that is assumed."""
        if self._unlabelled is None:
            return self.n_waiting
        return int(n_to_mature(self._instances, np.iinfo(np.int64).max))

    @property
    def n_labels_waiting(self) -> int:
        return self._labels.n_waiting

    @property
    def now(self) -> int:
        """Stream time, ms."""
        return int(self._clock[NOW])

    @property
    def keeps(self) -> bool:
        """Whether instances wait on with their labels."""
        return self._unlabelled is not None or self._corrects

    @property
    def scored_until(self) -> int | None:
        """When the first instance came that has not waited for its time (`unlabelled`), or stream time, ms: all before
        are scored. None where labels count when they come. O(waiting)."""
        if self._limits().after < 0:
            return None
        at, queue = self._instances.at, self._instances.queue
        later = queue[max(at[MATURE], at[HEAD]) : at[TAIL]]
        later = later[later >= 0]
        return int(self._instances.entries[later[0], ARRIVED] if len(later) else self._clock[NOW])

    @property
    def max_joined(self) -> int:
        return most_joined(self.max_pending, self.max_bytes) if self.remembers else 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays, used or not."""
        tables = self._instances.n_bytes + self._labels.n_bytes + self._joined.n_bytes
        labels = self._early_y.nbytes + self._known.nbytes
        tables += self._series.n_bytes
        slab = self._slab.nbytes + self.past.nbytes if self._ragged is None else self._ragged.n_bytes
        return slab + sum(out.nbytes for out in self.out.values()) + tables + labels

    def count_width(self, width: int) -> None:
        """Columns that a prediction counts as, where the models' width does not follow from what came here."""
        if width != self._counted_width:
            self._counted_width, self._frame = width, None

    @property
    def _width(self) -> int:
        if self._counted_width is not None:
            return self._counted_width
        return max((out.shape[1] for out in self.out.values()), default=1)

    @property
    def next_arrival(self) -> int:
        """The number that the next instance which has to wait will have."""
        return int(self._instances.at[NEXT_SERIAL])

    def arrivals(self) -> Ints:
        """For each operation of the program that `join` has just given, the number of its instance's arrival.

        NEVER for an instance that did not wait: its label had come before it, or the same id waits already.
        """
        if self._arrivals is None:
            program, first = self._last_program
            numbers: Ints = self._instances.entries[program.row, SERIAL]
            predict = program.op == PREDICT
            numbers[predict & (numbers < first)] = NEVER  # what its row held before, or nothing
            at_once = ~predict[1:] & predict[:-1] & (program.row[1:] == program.row[:-1])
            numbers[1:][at_once] = NEVER
            self._arrivals = numbers
        return self._arrivals

    def taken_over(self, program: Program, at: int) -> int:
        """The number of the first arrival that a model predicts which takes over at operation `at` of the program that
        `join` has just given."""
        later = self.arrivals()[at:][program.op[at:] == PREDICT]
        return min(int(later.min(initial=NEVER)), self.next_arrival)

    def n_before(self, number: int) -> int:
        """How many wait of those that arrived before the one of this number. O(waiting)."""
        return int(np.count_nonzero(self._instances.entries[self._instances.rows(), SERIAL] < number))

    def arrival(self, i: int) -> int:
        """The number of the instance that waits in place i of those that wait, or that would. O(waiting)."""
        rows = self._instances.rows()
        return int(self._instances.entries[rows[i], SERIAL]) if i < len(rows) else self.next_arrival

    def lasting(self, number: int) -> int | None:
        """Of the number of an arrival, what a state has of it where nothing watches errors: nothing."""

    def begun(self, names: Iterable[str]) -> dict[str, int]:
        """Since which arrival outputs stand here that are new: all that wait came before, and have none."""
        return {}

    def keep(self, names: Iterable[str], width: int) -> None:
        """Room for further outputs beside each instance: nothing is there of those that wait."""
        self.out |= {name: zeros((self._capacity, width)) for name in names}
        self._frame = None

    def resize(self, outputs: dict[str, int]) -> None:
        """Widen the predictions; what stands there stays."""
        for name, width in outputs.items():
            old = self.out[name]
            if width > old.shape[1]:
                self.out[name] = zeros((len(old), width))
                self.out[name][:, : old.shape[1]] = old
                self._frame = None

    def widen(self, n: int) -> None:
        """So many features more, which are missing in what waits. Not of bags."""
        self.n_features += n
        old, self._slab = self._slab, zeros((len(self._slab), self.n_features))
        self._slab[:, :-n], self._slab[:, -n:] = old, np.nan
        self._frame = None
        self._segments["instances"].outdate()

    def make(self, made: Sequence[int], past_width: int, old: list[int], new: list[int]) -> None:
        """As at the beginning, from here on. old, new : columns of `past` that stay, and where; others are 0."""
        self._made = list(made)
        if past_width != self.past.shape[1]:
            before, self.past = self.past, zeros((self._capacity if past_width else 0, past_width), np.int64)
            self.past[: len(before), new] = before[:, old]
            self._frame = None
            self._segments["instances"].outdate()

    def rename(self, names: Mapping[str, str]) -> None:
        """Models get other names, and keep what they predicted. names : of before -> from here on."""
        self.out = {renamed(name, names): out for name, out in self.out.items()}
        self._segments["instances"].outdate()

    def add(self, names: Sequence[str], width: int) -> None:
        """Outputs of a new model, which has predicted nothing that waits."""
        self.keep(names, width)
        for name in names:
            self.out[name][:, 0] = np.nan

    def bound(
        self, horizon: float, max_pending: int, max_labels: int, max_bytes: int, unlabelled: "Unlabelled | None" = None
    ) -> None:
        """Other bounds, as at the beginning; what is beyond them leaves with the next that has to wait."""
        self._unlabelled = unlabelled
        self.horizon_ms = int(horizon * 1000)
        self.max_pending, self.max_labels, self.max_bytes = max_pending, max_labels, max_bytes
        self._frame, self._spare = None, 0
        self._reserve(0, 0, 0, 0)  # room for labels of what waits

    def forget(self, name: str, before: int = NEVER) -> None:
        """What stands in an output was never said, of instances that arrived before the one of this number."""
        rows = self._instances.rows()
        self.out[name][rows[self._instances.entries[rows, SERIAL] < before], 0] = np.nan
        self._segments["instances"].outdate()

    def erase(self, name: str, rows: NDArray[np.int32]) -> None:
        """What stands in an output says nothing, of these rows of the last program."""
        self.out[name][rows] = np.nan
        if self.keeps:
            self._write_anew(np.unique(rows).astype(np.int64))

    def drop(self, gone: Callable[[str], bool]) -> None:
        """Outputs go, such as what a model predicted and kept."""
        self.out = {name: out for name, out in self.out.items() if not gone(name)}
        self._frame = None
        self._segments["instances"].outdate()

    def _make_room(self, n: int, m: int, mature: int, n_bytes: int) -> None:
        """For n features and m labels that come, whose ids have so many bytes together."""
        self._spare -= n + m + mature
        self._spare_bytes -= n_bytes
        if self._spare >= 0 <= self._spare_bytes:
            return
        self._reserve(n, n_bytes, m, n_bytes, mature)
        spare = [self._instances.spare(), self._labels.spare()]
        joined = self._joined.spare(self.max_joined)
        self._spare = min(joined, *(records for records, _ in spare)) - (n + m + mature)
        self._spare_bytes = min(text for _, text in spare) - n_bytes

    def _words(self) -> Any:
        """What the kernel takes as `store`."""
        frame = self._frame
        if frame is not None:
            was = frame.values
            if (
                was.instances is self._instances
                and was.labels is self._labels
                and was.series is self._series
                and was.joined is self._joined
                and was.early_y is self._early_y
                and was.known is self._known
                and self._framed is self._slab
            ):
                return frame.words
        values = StoreValues(
            self._instances,
            self._labels,
            self._series,
            self._joined,
            self._early_y,
            self._known,
            self._slab.view(np.uint64),
            self._limits(),
            self._clock,
            self._gaps,
        )
        self._frame, self._framed = new_frame(values), self._slab
        return self._frame.words

    def _reserve(self, n: int, n_bytes: int, n_labels: int, label_bytes: int, mature: int = 0) -> None:
        """mature : how many may be learned that wait with their label: their ids are remembered, too."""
        self._instances = self._instances.reserve(n, n_bytes)
        self._labels = self._labels.reserve(n_labels, label_bytes)
        self._joined = self._joined.reserve(n + n_labels + mature, self.max_joined)
        capacity = len(self._instances.entries)
        if capacity > self._capacity:
            self._capacity = capacity
            if self._ragged is None:
                self._slab = grown(self._slab, capacity)
                self.past = grown(self.past, capacity) if self.past.shape[1] else self.past
            else:
                self._ragged.reserve(capacity)
            if self.ahead_ms is not None:
                self._link()
            self.out = {name: grown(out, capacity) for name, out in self.out.items()}
        if self.keeps and capacity > len(self._known):
            known, self._known = len(self._known), grown(self._known, capacity)
            self._known[known:] = np.nan
        if len(self._labels.entries) > len(self._early_y):
            self._early_y = grown(self._early_y, len(self._labels.entries))

    def _link(self) -> None:
        """Queue those that wait by their keys anew, with room for all rows."""
        about, after = (grown(array, self._capacity) for array in (self._series.about, self._series.next))
        self._series = self._series.linked(self._instances.rows(), about, after)

    def strike_out(self, at: int, values: Ints) -> bool:
        """Make these numbers 0 wherever they stand in `past`, from column `at` on, of instances that wait; whether any
        did. Write anew what checkpoints have, where they stand of instances that left, too."""
        rows = self._instances.rows()
        found = rows[(self.past[rows, at : at + len(values)] == values).all(axis=1)]
        self.past[found, at : at + len(values)] = 0
        self._segments["instances"].outdate()
        return bool(len(found))

    def forget_series(self, words: Hashes) -> bool:
        """No record is a label any more of those that wait and have a key of this hash, (2,); whether any did."""
        rows = self._instances.rows()
        found = forget(self._series, rows, words.view(np.int64))
        if len(found):
            self._link()
            self._segments["instances"].outdate()
        return len(found) > 0

    def fill(self, rows: NDArray[np.int32], columns: Sequence[int], values: Floats) -> None:
        """Features that records do not have, of rows that `join` has just given; it has taken them for missing."""
        self._slab[rows[:, None], columns] = values

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, on a store of the same shape."""
        bags = self._ragged is not None
        twin = PendingStore(self.n_features, {}, horizon=1.0, max_pending=1, max_labels=1, bags=bags)
        x, sizes = np.zeros((1, self.n_features)), np.ones(1, np.int64) if bags else None
        texts = Texts(b"ab", np.arange(2), np.arange(1, 3))
        for ids in (["a"], texts[:1]):
            twin.join(ids, x, [0], None, ["b"], [0.0], [0], np.zeros(1, np.int64), sizes)
        again = PendingStore(self.n_features, {}, horizon=1.0, max_pending=1, max_labels=1, bags=bags)
        again.restore(twin.checkpoint().arrays)
        link(self._series, np.zeros(0, np.int64))

    def join(
        self,
        ids: Sequence[str],
        x: Floats,
        times: ArrayLike,
        inline: ArrayLike | None,
        label_ids: Sequence[str],
        label_y: ArrayLike,
        label_times: ArrayLike,
        labels_before: Ints,
        sizes: Ints | None = None,
        follow: Follow | None = None,
    ) -> Joined:
        """Put a batch into the store, in its merged order, and return the program to run.

        The rows of the program stay valid until the next call.

        Parameters
        ----------
        ids, x, times : features in order; x : (n, d) float64; times in effective ms.
        inline : labels that came inside the feature records (NaN where none), or None.
        label_ids, label_y, label_times : labels in order. y : NaN of one that is null.
        labels_before : (n,) int64, for each feature how many of the labels come before it.
        sizes : (n,) int64, of bags: how many rows of x each has, one bag after the other.
        follow : what records are to those of their key that wait, where no labels come otherwise.
        """
        n, m, first = len(ids), len(label_ids), self.next_arrival
        text, ends = packed_both(ids, label_ids)
        room, assumed, mature = 2 * n + m, False, 0
        at = np.concatenate((times, label_times), dtype=np.int64, casting="unsafe")
        if self._unlabelled is not None:
            assumed = not np.isnan(self._unlabelled.assumed)
            latest = max(self.now, *at.tolist(), 0)
            mature = n_to_mature(self._instances, latest - self._unlabelled.after_ms)
            room += n + mature
        elif follow is not None:
            mature = self.n_waiting
            room += mature
        self._make_room(n, m, mature, len(text))
        instances = self._instances
        predicted = instances.take(n)
        if self._ragged is None or sizes is None:
            if n > len(self._each):
                self._each = np.ones(2 * n, np.int64)
            sizes = self._each[:n]
        else:
            sizes = np.array(sizes, np.int64)
            self._ragged.put(predicted, sizes, x, instances.rows)
            instances.extra[predicted] = self._ragged.weights(sizes)
        follows = self._no_labels
        if follow is not None:
            follows = follow.y
            self._series.about[predicted, TIME] = follow.times
            self._series.about[predicted, KEY:] = follow.keys.view(np.int64)
        y = np.empty(n + m)
        y[:n], y[n:] = np.nan if inline is None else inline, label_y
        op, row, target = np.empty(room, np.int8), np.empty(room, np.int32), np.empty(room)
        instead = np.empty(room) if len(self._known) else self._no_labels
        marks, reached = np.zeros(n, np.int64), np.empty(n, np.int64)
        waited, happened = np.empty(n + m + mature, np.int64), np.zeros(len(COUNTERS), np.int64)
        length, n_met = join(
            self._words(),
            text,
            words_of(text),
            ends,
            np.empty(n + m, np.int64),
            np.zeros(n + m, np.uint64),
            at,
            y,
            _bits_of(x),
            sizes,
            marks,
            follows,
            predicted,
            np.array(labels_before, np.int64),
            op,
            row,
            target,
            instead,
            waited,
            reached,
            happened,
        )
        counts = happened.tolist()
        for name, count in zip(COUNTERS, counts, strict=True):
            if count:
                self.counts[name] += count
        self.n_met += n_met + counts[NULL]
        if length > len(self._ones):
            self._ones = np.ones(2 * length)
        program = events = Program(op[:length], row[:length], target[:length], self._ones[:length])
        if len(self._known):
            self._note_labels(events)
            learned = np.flatnonzero((program.op != CAME) & (program.op != EXCHANGED))
            of = np.minimum(program.op[learned], LEARN).astype(np.int8)
            instead = np.where(program.op == AMENDED, instead[:length], np.nan)[learned]
            program = Program(of, program.row[learned], program.y[learned], self._ones[: len(learned)])
            reached = learned.searchsorted(reached)
        self._last_program, self._arrivals = (program, first), None
        return Joined(program, predicted, waited[:n_met] / 1000.0, not assumed, marks, events, instead, reached)

    def early(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """(n,), whether a label of each id waits for its instance."""
        return _among(self._labels, ids)

    def wait(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """(n,), whether an instance of each id waits for its label."""
        return _among(self._instances, ids)

    def _note_labels(self, events: Program) -> None:
        """Rows whose label came, and that wait on, are to be written anew where they were written without it."""
        told = np.isin(events.op, (LEARN, CAME, AMENDED, EXCHANGED))
        rows = np.unique(events.row[told]).astype(np.int64)
        self._write_anew(rows[~np.isnan(self._known[rows])])

    def _write_anew(self, rows: Ints) -> None:
        """Rows of the last program are to be written anew where they were written, and wait on."""
        at, entries, queue = self._instances.at, self._instances.entries, self._instances.queue
        rows = rows[entries[rows, HOME] >= 0]
        rows = rows[queue[entries[rows, PLACE]] == rows]
        stop = at[N_LEFT] + len(rows)
        self._instances.left[at[N_LEFT] : stop] = entries[rows, HOME]
        at[N_LEFT] = stop
        entries[rows, HOME] = -1
        self._told += [rows] if len(rows) else []

    @property
    def _width_beside(self) -> int:
        """Numbers of 8 bytes that all rows have, besides outputs."""
        return self.n_features + self.past.shape[1] + (OF_ROW if self.ahead_ms is not None else 0)

    def _limits(self) -> Limits:
        """What follows from settings and from what stands beside instances: whatever changes these drops the frame."""
        return Limits(
            self.horizon_ms,
            self.max_pending,
            self.max_labels,
            self.max_bytes,
            ROW_BYTES + (8 * self._width_beside if self._ragged is None else 0),
            8 * len(self.out),
            self._width,
            BOUND_MS,
            self.max_joined,
            -1 if self._unlabelled is None else self._unlabelled.after_ms,
            np.nan if self._unlabelled is None else self._unlabelled.assumed,
            self._corrects,
            -1 if self.ahead_ms is None else self.ahead_ms,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of everything that waits, in order of arrival: independent of rows, batches and checkpoints."""
        rows, label_rows = self._instances.rows(), self._labels.rows()
        ids, id_ends = self._instances.ids(rows)
        label_ids, label_id_ends = self._labels.ids(label_rows)
        return {
            **self._features_of(rows),
            "arrived": self._instances.entries[rows, ARRIVED],
            "clock": self._clock[[NOW]],
            "counts": np.array(self._counted(), dtype=np.int64),
            "label_y": self._early_y[label_rows],
            "label_since": self._labels.entries[label_rows, ARRIVED],
            "ids": ids,
            "id_ends": id_ends,
            "label_ids": label_ids,
            "label_id_ends": label_id_ends,
            **self._gaps_known(),
            **self._matured(int(np.count_nonzero(self._instances.entries[rows, PLACE] < self._instances.at[MATURE]))),
            **self._joined.state(),
            **{f"out/{name}": out[rows] for name, out in self.out.items()},
        }

    def checkpoint(self) -> PendingCheckpoint:
        """What a checkpoint writes now: what changed since the last one, or since `restore`. Call it between steps.

        Each counts as written: one that is not makes the next ones useless.
        """
        told, self._told = self._told, []
        instances = self._segments["instances"].checkpoint(
            self._instances, self._instance_columns, self._instances.not_written(told)
        )
        labels = self._segments["labels"].checkpoint(self._labels, self._label_columns)
        numbers = [
            *self._clock[[NOW, WIDTH]].tolist(),
            *(int(index.at[NEXT_SERIAL]) for index in (self._instances, self._labels)),
            *(segments.next for segments in self._segments.values()),
            *self._counted(),
        ]
        arrays = {"numbers": np.array(numbers, dtype=np.int64), **self._gaps_known(), **self._matured(self._next())}
        joined, kept = self._joined.checkpoint(self._blocks_written)
        self._blocks_written = self._joined.n_full_blocks
        give_back()
        return PendingCheckpoint(
            {**arrays, **instances.arrays, **labels.arrays, **joined}, instances.kept + labels.kept + kept
        )

    def _counted(self) -> list[int]:
        """Counts as a state has them: without those of the last counters where these are 0."""
        found = [self.counts[name] for name in COUNTERS]
        return found if any(found[N_USUAL:]) else found[:N_USUAL]

    def _gaps_known(self) -> dict[str, NDArray[Any]]:
        n = int(self._clock[N_GAPS])
        return {"gaps": self._gaps[:n].copy()} if n else {}

    def _matured(self, number: int) -> dict[str, NDArray[Any]]:
        """What a state has of what has waited for its time. number : how many these are, in order; or the number of the
        first arrival that is none of them."""
        return {"matured": np.array([number])} if self.keeps else {}

    def _next(self) -> int:
        """The number of the first arrival that has not waited for its time."""
        at, queue = self._instances.at, self._instances.queue
        first = next_to_mature(self._instances)
        return int(self._instances.entries[queue[first], SERIAL]) if first < at[TAIL] else self.next_arrival

    def _instance_columns(self, rows: Ints) -> Columns:
        outputs = {f"out/{name}": out[rows] for name, out in self.out.items()}
        return {**entry_columns(self._instances, rows), **self._features_of(rows), **outputs}

    def _features_of(self, rows: Ints) -> Columns:
        known = {"known": self._known[rows]} if self.keeps else {}
        if self._ragged is None:
            past = {"past": self.past[rows]} if self.past.shape[1] else {}
            series = {"series": self._series.about[rows]} if self.ahead_ms is not None else {}
            return {"x": self._slab[rows], **past, **series, **known}
        bags = self._ragged.bags.take(rows)
        return {"x": bags.x, "size": bags.size, **known}

    def _label_columns(self, rows: Ints) -> Columns:
        return {**entry_columns(self._labels, rows), "y": self._early_y[rows]}

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        sources: Mapping[str, str | Source | None] | None = None,
        n_classes: int | None = None,
    ) -> None:
        """Take over what `state` gave, or what all checkpoints together came to, into an empty store.

        sources : the name that the predictions of each model have there, None where it made none; the same names if it
        is left out. Predictions that were never made are NaN in column 0. n_classes : those known; None: targets.

        ValueError where these are not what a store holds.
        """
        sources = sources or {name: name for name in self.out}
        gaps = arrays.get("gaps", self._gaps[:0])
        self._clock[N_GAPS] = len(gaps)
        self._gaps[: len(gaps)] = gaps
        if "x" in arrays:
            self._restore_state(arrays, sources)
        else:
            self._restore_cut(arrays, sources)
        if self.ahead_ms is not None:
            self._link()
        self._frame, self._spare = None, 0
        self._joined = JoinedIds.restored(self._instances.key, arrays)
        self._blocks_written = 0 if "x" in arrays else self._joined.n_full_blocks
        early = np.concatenate((self._early_y[self._labels.rows()], self._known[~np.isnan(self._known)]))
        early = early[~np.isnan(early)]
        if not np.isfinite(early).all() or (n_classes is not None and not np.isin(early, np.arange(n_classes)).all()):
            raise ValueError("the labels that wait are damaged")

    def _restore_state(self, arrays: Mapping[str, NDArray[Any]], sources: Mapping[str, str | Source | None]) -> None:
        self._clock[[NOW, WIDTH]] = arrays["clock"][0], self._width
        self.counts = _counters(arrays["counts"].tolist())
        ids, id_ends, arrived = arrays["ids"], arrays["id_ends"], arrays["arrived"]
        self._instances, rows = self._instances.refill(ids.copy(), id_ends.copy(), arrived.copy())
        ids, id_ends, since = arrays["label_ids"], arrays["label_id_ends"], arrays["label_since"]
        self._labels, label_rows = self._labels.refill(ids.copy(), id_ends.copy(), since.copy())
        self._reserve(0, 0, 0, 0)
        self._early_y[label_rows] = arrays["label_y"]
        self._fill(rows, arrays, slice(None), sources)
        self._instances.at[MATURE] = int(arrays["matured"][0]) if "matured" in arrays else 0

    def _restore_cut(self, arrays: Mapping[str, NDArray[Any]], sources: Mapping[str, str | Source | None]) -> None:
        now, width, serial, label_serial, segment, label_segment, *counts = arrays["numbers"].tolist()
        self._clock[[NOW, WIDTH]] = now, width
        self.counts = _counters(counts)
        largest = max(serial, label_serial, segment << ROW_BITS, label_segment << ROW_BITS)
        if width < 1 or min(serial, label_serial, segment, label_segment) < 0 or largest >= NEVER:
            raise ValueError("the numbers of what waits are damaged")  # a kernel doubles the width until it is enough
        self._segments["instances"].next, self._segments["labels"].next = segment, label_segment
        # Where a model has another name now, what is written says nothing true of it: everything is written anew.
        same = all(
            name == source.name and not source.moved if isinstance(source, Source) else name == source
            for name, source in sources.items()
        )

        def fill(index: WaitingIndex, rows: Ints, columns: Columns, alive: NDArray[np.bool_]) -> None:
            self._instances = index
            self._reserve(0, 0, 0, 0)
            self._fill(rows, columns, alive, sources)
            give_back()

        def fill_labels(index: WaitingIndex, rows: Ints, columns: Columns, alive: NDArray[np.bool_]) -> None:
            self._labels = index
            self._reserve(0, 0, 0, 0)
            self._early_y[rows] = columns["y"][alive]

        self._instances = self._segments["instances"].restore(self._instances, arrays, serial, same, fill)
        self._labels = self._segments["labels"].restore(self._labels, arrays, label_serial, True, fill_labels)
        if "matured" in arrays:
            entries, queue = self._instances.entries, self._instances.queue
            numbers = range(self._instances.n_waiting)
            first = bisect_left(numbers, int(arrays["matured"][0]), key=lambda i: int(entries[queue[i], SERIAL]))
            self._instances.at[MATURE] = first

    def _fill(
        self,
        rows: Ints,
        columns: Mapping[str, NDArray[Any]],
        which: NDArray[np.bool_] | slice,
        sources: Mapping[str, str | Source | None],
    ) -> None:
        """Features and predictions of instances that were saved."""
        x = columns["x"]
        if x.shape[1] != self.n_features:
            raise StateError(
                f"the state's waiting instances have {x.shape[1]} features, the stream file {self.n_features}: "
                "restore the stream file's features, or give the stream a new name to start afresh"
            )
        if self._ragged is None:
            self._slab[rows] = x[which]
            self._instances.entries[rows, MARK] = marks_of(_recorded(x[which], self._made), None)
            if self.past.shape[1]:
                self.past[rows] = columns["past"][which]
            if self.ahead_ms is not None:
                self._series.about[rows] = columns["series"][which]
        else:
            bags = Bags.of(columns["size"], x)
            if (bags.size < 0).any() or bags.size.sum() != len(x):
                raise ValueError("the bags that wait are damaged")
            chosen = bags.take(np.arange(len(bags.size))[which])
            self._instances.entries[rows, MARK] = marks_of(chosen.x, chosen.size)
            self._ragged.put(rows, chosen.size, chosen.x, lambda: np.arange(self._capacity))
            self._instances.weigh(rows, self._ragged.weights(chosen.size))
        if self.keeps:
            self._known[rows] = columns["known"][which] if "known" in columns else np.nan
        for name, out in self.out.items():
            source = sources[name]
            if isinstance(source, Source):
                saved = columns.get(f"out/{source.name}", columns.get(f"out/{source.before}"))
            else:
                saved = columns.get(f"out/{source}")
            if saved is None:
                out[rows, 0] = np.nan
            else:
                out[rows, : saved.shape[1]] = saved[which]


def _recorded(x: Floats, made: Sequence[int]) -> Floats:
    """Features as records have them."""
    if len(made):
        x = x.copy()
        x[:, made] = np.nan
    return x


def marks_of(x: Floats, sizes: Ints | None) -> Ints:
    """32 bits of the features of each instance. sizes : of bags."""
    sizes = np.ones(len(x), np.int64) if sizes is None else np.array(sizes, np.int64)
    marks = np.empty(len(sizes), np.int64)
    mark_all(_bits_of(x), sizes, marks)
    return marks


# Copies: they are writable and contiguous then, the one type that kernels are compiled for.


def _among(index: WaitingIndex, ids: Sequence[str]) -> NDArray[np.bool_]:
    """(n,), which ids have something that waits."""
    if not index.n_waiting:
        return np.zeros(len(ids), np.bool_)
    text, ends = packed(ids)
    batch = Batch(text, ends, tags(index.key, text, ends), np.zeros(0, np.int64), np.zeros(0))
    return np.array([find(index, batch, i) >= 0 for i in range(len(ids))], np.bool_)


def _bits_of(x: Floats) -> Hashes:
    return np.array(x, np.float64, order="C").view(np.uint64)


def _counters(numbers: list[int]) -> dict[str, int]:
    """Counts in the order of COUNTERS; those that came to it later were 0."""
    numbers = numbers + [0] * (len(COUNTERS) - len(numbers) if len(numbers) in (N_COUNTERS_BEFORE, N_USUAL) else 0)
    if not all(0 <= n < NEVER for n in numbers):
        raise ValueError("the counts of what waits are damaged")
    return dict(zip(COUNTERS, numbers, strict=True))
