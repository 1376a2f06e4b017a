"""Prequential evaluation of one model over a file, in memory, by the code that the worker runs.

Each row is an instance of a stream whose label comes `label_delay` instances later: the label of instance i after the
features of instance i + label_delay, and whatever is left at the end of the file. Prediction, join, learning and
scoring are `PartitionLearner.apply`; only the records' way through JSON and Kafka is left out. A delay in instances
has no time, so nothing expires; a stream file's bound on waiting instances holds.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.data import Block, DataFile, Floats, texts
from app.errors import DataError, SpecError
from app.learner import Outcome, PartitionLearner
from app.merge import Piece, Release
from app.spec import Spec, build
from topics.names import CHAMPION
from topics.records import BOOLEAN, CLASSIFICATION, NOMINAL, NUMERIC, Features, Labels, RawBatch
from topics.vocabulary import Vocabulary

LARGEST_BATCH = 4096
CURVE_POINTS = 50
MOST_CLASSES = 1000


class Instances(NamedTuple):
    """Consecutive rows as the learner takes them. y : class codes or targets, NaN where there is no label.
    refused : rows that the worker would send to the dead letters, because a value or class is one too many; their
    x means nothing, and where only the label is refused, y is NaN. labels_refused : how many of those."""

    first: int
    x: Floats
    y: Floats
    refused: list[int]
    labels_refused: int


def spec_for(
    file: DataFile,
    model: str,
    parameters: dict[str, Any],
    *,
    stream: Spec | None = None,
    target: str | None = None,
    task: str | None = None,
    nominal: Sequence[str] = (),
    window: int | None = None,
    fading: float | None = None,
    label_delay: int = 0,
    limit: int | None = None,
    seed: int | None = None,
) -> tuple[Spec, str, int]:
    """The stream that a file stands for, with `model` as its only model.

    Parameters
    ----------
    stream : Spec, optional
        Features, task and settings; without it they are inferred from the file.
    target, task, nominal, limit
        As `DataFile.types` takes them (task and nominal only without a stream file).

    Returns
    -------
    Spec, name of the target column, number of rows
    """
    champion = {"model": model, **parameters}
    if stream is None:
        types = file.types(target=target, task=task, nominal=nominal, limit=limit)
        if types.n_classes > MOST_CLASSES:
            raise DataError(
                f"column {types.target!r} of {file.path} has {types.n_classes} classes, at most {MOST_CLASSES} can be "
                "told apart: use --task regression, or another --target"
            )
        goal, n = types.target, types.n
        data: dict[str, Any] = {
            "name": re.sub(r"[^A-Za-z0-9_-]+", "-", file.path.name.partition(".")[0]).strip("-_") or "data",
            "task": types.task,
            "features": {
                name: {"type": NOMINAL, "max_values": max(1000, types.n_values[name])} if kind == NOMINAL else kind
                for name, kind in types.features.items()
            },
            "join": {"max_pending": max(1_000_000, label_delay + 1), "max_pending_bytes": 10**15},
        }
        if types.task == CLASSIFICATION:
            data["max_classes"] = max(2, types.n_classes)
    else:
        if task is not None or nominal:
            option = "--task" if task is not None else "--nominal"
            raise SpecError(f"{option} and --stream exclude each other: the stream file says what the data are")
        goal, _ = file.target(target, stream.features)
        n = file.count(limit)
        if n == 0:
            raise DataError(f"{file.path} has a header and no rows: expected at least one")
        data = stream.model_dump(exclude={"champion", "challengers"}, exclude_unset=True)
        data = {key: getattr(stream, key) for key in data}
    if window is not None or fading is not None:
        metrics = {} if stream is None else stream.metrics.model_dump(include={"window", "fading"})
        metrics |= {k: v for k, v in {"window": window, "fading": fading}.items() if v is not None}
        data["metrics"] = metrics
    if seed is not None:
        data["seed"] = seed
    return build({**data, "champion": champion}, str(file.path)), goal, n


class _Reader:
    """Blocks of a file to instances; the codes of nominal values and classes are learned in order of the rows."""

    def __init__(self, file: DataFile, spec: Spec, goal: str, learner: PartitionLearner) -> None:
        self.file, self.goal, self.learner = file, goal, learner
        self.features = [(name, feature.type) for name, feature in spec.features.items()]
        self.columns = [file.position(name, "a feature of the stream") for name, _ in self.features]
        self.columns.append(file.target(goal)[1])

    def read(self, limit: int | None, size: int) -> Iterator[Instances]:
        first = 0
        for block in self.file.blocks(self.columns, limit, size):
            yield self._instances(block, first)
            first += len(block)

    def _instances(self, block: Block, first: int) -> Instances:
        x = np.empty((len(block), len(self.features)))
        coded: list[tuple[int, list[str | None], Vocabulary]] = []
        for j, (name, kind) in enumerate(self.features):
            vocabulary = self.learner.vocabularies[j]
            if kind == NUMERIC:
                x[:, j] = self.file.numbers(block, j, name)
            elif kind == BOOLEAN:
                x[:, j] = [math.nan if v is None else float(v) for v in self.file.booleans(block, j, name)]
            elif vocabulary is not None:
                coded.append((j, texts(block.columns[j]), vocabulary))
        codes, refused = encode([(values, vocabulary) for _, values, vocabulary in coded])
        for (j, _, _), column in zip(coded, codes, strict=True):
            x[:, j] = column
        classes = self.learner.classes
        if classes is None:
            return Instances(first, x, self.file.numbers(block, len(self.features), self.goal), refused, 0)
        (labels,), labels_refused = encode([(texts(block.columns[-1]), classes)])
        return Instances(first, x, np.array(labels), refused, len(labels_refused))


def encode(columns: Sequence[tuple[list[str | None], Vocabulary]]) -> tuple[list[list[float]], list[int]]:
    """Codes of columns of values, NaN where missing, and the rows that were refused.

    As the codec does it: row by row where there is something new, and a row that one vocabulary refuses is seen by
    none of them.
    """
    try:
        return [list(map(vocabulary.codes.__getitem__, values)) for values, vocabulary in columns], []
    except KeyError:
        pass
    rows: set[int] = set()
    for values, vocabulary in columns:
        new = set(values).difference(vocabulary.codes)
        rows.update(i for i, value in enumerate(values) if value in new)
    refused = []
    for i in sorted(rows):
        found = [(values[i], vocabulary) for values, vocabulary in columns]
        if not all(value is None or vocabulary.admits(value) for value, vocabulary in found):
            refused.append(i)
            continue
        for value, vocabulary in found:
            if value is not None:
                vocabulary.code(value)
    bad = set(refused)
    return [
        [math.nan if i in bad else vocabulary.codes[value] for i, value in enumerate(values)]
        for values, vocabulary in columns
    ], refused


def _piece(offsets: Sequence[int]) -> Piece:
    n = len(offsets)
    raw = RawBatch(list(offsets), [0] * n, [None] * n, [None] * n)
    return Piece(raw, np.array(offsets, dtype=np.int64), np.zeros(n, np.int64))


class _Delay:
    """Steps of a learner from instances whose labels come `delay` instances late."""

    def __init__(self, learner: PartitionLearner, delay: int) -> None:
        self.learner, self.delay = learner, delay
        self.waiting: list[tuple[int, float]] = []  # (instance, label), in order
        self.next_label = 0  # offset in the labels topic that there would be

    def step(self, instances: Instances) -> Outcome:
        """Predict the instances, and learn the labels that come between them."""
        first, n = instances.first, len(instances.x)
        refused = set(instances.refused)
        kept = [i for i in range(n) if i not in refused] if refused else None
        positions = range(n) if kept is None else kept
        x = instances.x if kept is None else instances.x[kept]
        self.waiting += [(first + i, y) for i, y in enumerate(instances.y.tolist()) if y == y]
        # The label of instance j comes before the features of every instance after j + delay.
        due = self._due(first + n - 1 - self.delay)
        before = np.searchsorted(
            np.array([j for j, _ in due], dtype=np.int64), np.arange(first, first + n) - self.delay, side="left"
        )
        features = Features(kept, [str(first + i) for i in positions], x, None, None, [])
        return self._apply(features, _piece(range(first, first + n)), due, before.astype(np.int64))

    def finish(self, size: int) -> Iterator[Outcome]:
        """Learn the labels that are left, in steps of at most `size`."""
        empty = Features(None, [], np.zeros((0, self.learner.schema.n_features)), None, None, [])
        while self.waiting:
            due, self.waiting = self.waiting[:size], self.waiting[size:]
            yield self._apply(empty, _piece([]), due, np.zeros(0, np.int64))

    def _due(self, last: int) -> list[tuple[int, float]]:
        n = 0
        while n < len(self.waiting) and self.waiting[n][0] <= last:
            n += 1
        due, self.waiting = self.waiting[:n], self.waiting[n:]
        return due

    def _apply(
        self, features: Features, piece: Piece, due: list[tuple[int, float]], before: np.ndarray[Any, Any]
    ) -> Outcome:
        offsets = range(self.next_label, self.next_label + len(due))
        self.next_label += len(due)
        labels = Labels(None, [str(j) for j, _ in due], [y for _, y in due], None, [])
        return self.learner.apply(features, labels, Release(piece, _piece(offsets), before))


def evaluate(
    file: DataFile,
    spec: Spec,
    goal: str,
    n: int,
    *,
    label_delay: int = 0,
    limit: int | None = None,
    on_progress: Callable[[int], None] | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> dict[str, Any]:
    """Test, then train, over the rows of a file.

    Parameters
    ----------
    file, spec, goal, n
        The data, and what `spec_for` made of them.
    label_delay : int
        Instances between an instance's features and its label.
    limit : int, optional
        Rows to read.
    on_progress : callable, optional
        Told the number of rows done.
    on_outcome : callable, optional
        Given the outcome of every step (the predictions made).

    Returns
    -------
    dict
        JSON-serialisable: model, parameters, data, task, label_delay, n (labels scored), the metrics that the task
        has (undefined ones are absent), instances_per_second and seconds (of predicting, joining, learning and
        scoring; reading the file and compiling are left out), state_bytes, curve ([labels scored, accuracy or MAE over
        the sliding or fading window]), and, where rows were refused, rejected.
    """
    learner = PartitionLearner(spec)
    learner.warm_up()
    reader = _Reader(file, spec, goal, learner)
    delay = _Delay(learner, label_delay)
    metrics = learner.metrics[CHAMPION]
    size = max(1, min(LARGEST_BATCH, math.ceil(n / CURVE_POINTS)))
    measure = "accuracy" if spec.task == CLASSIFICATION else "mae"
    curve: list[list[float]] = []
    seconds, rows, rejected = 0.0, 0, 0

    def note(outcome: Outcome) -> None:
        recent = metrics.windowed()
        if measure in recent and (not curve or metrics.metrics()["n"] > curve[-1][0]):
            curve.append([int(metrics.metrics()["n"]), recent[measure]])
        if on_outcome is not None:
            on_outcome(outcome)

    for instances in reader.read(limit, size):
        started = time.perf_counter()
        outcome = delay.step(instances)
        seconds += time.perf_counter() - started
        rows += len(instances.x)
        rejected += len(instances.refused) + instances.labels_refused
        note(outcome)
        if on_progress is not None:
            on_progress(rows)
    steps = delay.finish(size)
    while True:
        started = time.perf_counter()
        last = next(steps, None)
        if last is None:
            break
        seconds += time.perf_counter() - started
        note(last)
    name, parameters = spec.models()[CHAMPION]
    found = metrics.metrics()
    result: dict[str, Any] = {
        "model": name,
        "parameters": parameters,
        "data": str(Path(file.path).name),
        "task": spec.task,
        "label_delay": label_delay,
        **found,
        "instances_per_second": round(rows / seconds) if seconds > 0 else None,
        "state_bytes": learner.models[CHAMPION].n_bytes,
        "seconds": round(seconds, 6),
        "curve": curve,
    }
    if rejected:
        result["rejected"] = rejected
    return result
