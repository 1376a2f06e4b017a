"""What a learner gives: the outcome of a step, with its dead letters, and figures on how it is doing."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from riparian.app.partition.records.partition_group import Ints, Piece
from riparian.models.contract import Floats
from riparian.topics.commands import EventRecord
from riparian.topics.names import CONTROL, LEARNED
from riparian.topics.records import WRONG_LEARNED, Distance, DriftRecord, Headers, Packed, Rejected, SegmentFigures
from riparian.topics.training_log import Terms
from riparian.topics.vocabulary import Vocabulary


class DeadLetter(NamedTuple):
    """A record that was rejected.

    offset : its place in its topic
    key, value : as they came; of one instance of several, a record of its own
    reason, detail : why
    headers : its own, where they were read
    """

    offset: int
    key: bytes | None
    value: bytes | None
    reason: str
    detail: str
    headers: Headers = ()


class ModelNames(NamedTuple):
    """The models of a partition, from a prediction of an outcome on.

    start : number of that prediction
    model : name of the champion's learner
    roles : the champion first
    """

    start: int
    model: str
    roles: tuple[str, ...]


class Joint(NamedTuple):
    """Instances that a step has joined with their labels, for the partitions that learn one model.

    first : number of the first among all that the partition has joined
    x : (n, d) float64; of nominal features codes, NaN where one is missing
    y : (n,) float64, codes of classes, or targets
    at : (n,) int64, how many instances the model had learned when it predicted each
    vocabularies : of the features and of the classes, whose codes these are
    out : name of what was predicted or kept -> (n, k) float64
    terms : by which they are learned
    keys : (n, 1 + 2 k) int64, times and hashes of keys (`topics.training_log.LearnedKeys`); None of no key
    bounds : of these keys
    features : a hash of those that x has
    """

    first: int
    x: Floats
    y: Floats
    at: Ints
    vocabularies: Sequence[Vocabulary | None]
    out: dict[str, Floats]
    terms: Terms
    keys: Ints | None = None
    bounds: Sequence[tuple[int, int]] = ()
    features: str | None = None


class Outcome(NamedTuple):
    """What one step produced, in the order of the feature records.

    ids : of the n predicted instances
    keys : their Kafka keys
    offsets : (n,) int64, their places (`topics.places`)
    next_offsets : role of every other input log -> (n,) int64, its next place when each of them was predicted
    p : role of a model -> (n, k) predictions; zeros where there was no such model
    waited : (m,) float64 seconds between features and label
    feature_times : (n,) int64 ms, timestamps, where stream time was not later
    n_labels : labels taken that were not rejected
    rejected : role of an input log -> dead letters of its topic
    decode_seconds, kernel_seconds : what the step took, without what others did meanwhile
    drifts : events in the order in which they were found
    n_settled : how many of the events come before, or at, the last prediction
    headers : of the records of the n instances, where they were read
    ignored : why records were left out that are no instances, and no mistakes either
    lineups : which models made the predictions
    events : what became of commands, each before a prediction of this outcome
    regions : of the champion's prediction: (n, 2) lower and upper end of an interval, or (n, k) whether
        each class is in a set, 1 or 0. NaN, or 0 everywhere, where there is none; None where nothing is asked for
    reasons : (n, most, 2), as `app.partition.predictions.reasons.Reasons` has them; None where they are not asked for
    decided : role of a model -> (n, 1) codes of the classes that its predictions name; NaN where it knew nothing. Empty
        where that is the likeliest
    joint : what was joined, in order, where partitions share what they learn
    made : (n, m), features over the past of keys; None where there are none
    moved : labels that met no instance here, and may have one where their keys went before the topics grew
    """

    ids: Sequence[str]
    keys: Sequence[bytes | None]
    offsets: Ints
    next_offsets: dict[str, Ints]
    p: dict[str, Floats]
    waited: Floats
    feature_times: Ints
    n_labels: int
    rejected: dict[str, list[DeadLetter]]
    decode_seconds: float
    kernel_seconds: float
    drifts: Sequence[DriftRecord] = ()
    n_settled: int = 0
    headers: list[Headers] | None = None
    ignored: Sequence[str] = ()
    lineups: Sequence[ModelNames] = ()
    events: Sequence[EventRecord] = ()
    regions: Floats | None = None
    reasons: Floats | None = None
    joint: Sequence[Joint] = ()
    decided: Mapping[str, Floats] = {}
    made: Floats | None = None
    moved: Sequence["MovedLabel"] = ()


class MovedLabel(NamedTuple):
    """A record of the labels topic. by : what its partition follows from. stamp : its timestamp in ms."""

    by: bytes
    key: bytes | None
    value: bytes | None
    stamp: int
    headers: Headers


class Figures(NamedTuple):
    """How a partition is doing.

    offset, label_offset : next offsets, up to which the figures count
    feature_index, label_index : which instance of these records is the next one
    n_instances, n_labels : taken since the stream began
    n_waiting, n_labels_waiting : instances without a label, labels without an instance
    counts : of the pending store, and LEAPS, since the stream began
    n_bytes : part of the state -> bytes
    overall, recent : role of a model -> its prequential metrics over the whole stream, and over the window or fading
    sizes : role -> n_nodes, n_leaves, depth, n_bytes
    estimated : role -> its accuracy as expected before labels come, and as labels here show (`Role.estimated`)
    distances : how far features and predictions are from their references
    learned_offset : of the log that the models of all partitions have learned, where this partition tells of them
    scored_until : record time, ms, up to which all is scored where labels wait for a time; else None
    by_class : role -> class -> n, recall, precision and f1 over the window or fading, of a window auroc; of the first
        MOST_CLASSES known
    compared : role of a challenger -> how it does beside the champion (`Comparing.figures`)
    segments : of the champion, by the values of the features of `metrics.segments`, from this partition's labels
    members : role of a pool -> each member's weight
    """

    offset: int
    label_offset: int
    n_instances: int
    n_labels: int
    n_waiting: int
    n_labels_waiting: int
    counts: dict[str, int]
    n_bytes: dict[str, int]
    overall: dict[str, dict[str, float]]
    recent: dict[str, dict[str, float]]
    sizes: dict[str, dict[str, int]]
    feature_index: int = 0
    label_index: int = 0
    compared: Mapping[str, dict[str, float]] = {}
    by_class: Mapping[str, dict[str, dict[str, float]]] = {}
    estimated: Mapping[str, dict[str, float]] = {}
    distances: Sequence[Distance] = ()
    learned_offset: int = 0
    scored_until: int | None = None
    segments: Sequence[SegmentFigures] = ()
    members: Mapping[str, dict[str, float]] = {}


def stacked(parts: Sequence[Floats], nothing: float = 0.0) -> Floats:
    """Consecutive rows as one array, in the room that the widest have. nothing : what is there of others beyond theirs;
    an outcome without a model has rows of no columns."""
    width = max(part.shape[1] for part in parts)
    found = np.full((sum(map(len, parts)), width, *parts[0].shape[2:]), nothing)
    start = 0
    for part in parts:
        found[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return found


def together(outcomes: list[Outcome]) -> Outcome:
    """Consecutive outcomes as one."""
    if len(outcomes) == 1:
        return outcomes[0]
    starts = np.cumsum([0, *(len(outcome.ids) for outcome in outcomes)]).tolist()
    last = max((i for i, o in enumerate(outcomes) if o.ids), default=0)  # that predicts anything
    lineups = [
        one._replace(start=start + one.start) for start, o in zip(starts, outcomes, strict=False) for one in o.lineups
    ]
    regions = [o.regions for o in outcomes if o.regions is not None]
    reasons = [o.reasons for o in outcomes if o.reasons is not None]

    def of_roles(field: str, nothing: float) -> dict[str, Floats]:
        given = [getattr(o, field) for o in outcomes]
        missing = [np.zeros((len(o.ids), 0)) for o in outcomes]
        return {
            role: stacked([one.get(role, none) for one, none in zip(given, missing, strict=True)], nothing)
            for role in dict.fromkeys(chain.from_iterable(given))
        }

    return Outcome(
        ids=[id_ for o in outcomes for id_ in o.ids],
        keys=[key for o in outcomes for key in o.keys],
        offsets=np.concatenate([o.offsets for o in outcomes]),
        next_offsets={
            role: np.concatenate([o.next_offsets[role] for o in outcomes]) for role in outcomes[0].next_offsets
        },
        p=of_roles("p", 0.0),
        waited=np.concatenate([o.waited for o in outcomes]),
        feature_times=np.concatenate([o.feature_times for o in outcomes]),
        n_labels=sum(o.n_labels for o in outcomes),
        rejected={
            role: [one for o in outcomes for one in o.rejected.get(role, [])]
            for role in dict.fromkeys(role for o in outcomes for role in o.rejected)
        },
        decode_seconds=sum(o.decode_seconds for o in outcomes),
        kernel_seconds=sum(o.kernel_seconds for o in outcomes),
        drifts=[drift for o in outcomes for drift in o.drifts],
        n_settled=sum(len(o.drifts) for o in outcomes[:last]) + outcomes[last].n_settled,
        headers=[one for o in outcomes for one in o.headers or ()] if any(o.headers for o in outcomes) else None,
        ignored=[reason for o in outcomes for reason in o.ignored],
        lineups=[one for i, one in enumerate(lineups) if i == 0 or one[1:] != lineups[i - 1][1:]],
        events=[event for o in outcomes for event in o.events],
        regions=stacked(regions) if regions else None,
        reasons=stacked(reasons, np.nan) if reasons else None,
        joint=[one for o in outcomes for one in o.joint],
        decided=of_roles("decided", np.nan),
        made=None
        if all(o.made is None for o in outcomes)
        else stacked([o.made for o in outcomes if o.made is not None], np.nan),
        moved=[one for o in outcomes for one in o.moved],
    )


def _own(value: Any, place: int) -> bytes | None:
    return value.one(place) if isinstance(value, Packed) else value


def by_topic(letters: Sequence[DeadLetter]) -> dict[str, list[DeadLetter]]:
    """Role of an input log -> its dead letters, of those that came by the log that partitions share."""
    found: dict[str, list[DeadLetter]] = {}
    for one in letters:
        found.setdefault(LEARNED if one.reason == WRONG_LEARNED else CONTROL, []).append(one)
    return found


def dead_letters(rejected: list[Rejected], piece: Piece) -> list[DeadLetter]:
    if not rejected:
        return []
    raw, at = piece.raw, [one.position for one in rejected]
    return [
        DeadLetter(
            int(piece.offsets[i]), raw.keys[i], _own(raw.values[i], int(piece.offsets[i])), one.reason, one.detail,
            () if raw.headers is None else raw.headers[i],
        )
        for i, one in zip(at, rejected, strict=True)
        if not one.ignored
    ]  # fmt: skip
