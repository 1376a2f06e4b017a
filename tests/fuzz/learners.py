"""States of learners, detectors, evaluations and of what waits, of which an array is overwritten.

Such a state is refused, or whoever takes it over predicts, learns, tells of itself and grows, to the end and within its
arrays. With NUMBA_BOUNDSCHECK=1 and a NUMBA_CACHE_DIR of its own, since everything is compiled anew, kernels themselves
say when they index beyond an array, which need not show otherwise.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.partition.pending import PendingStore
from app.partition.watch import ABSOLUTE, MISTAKES, VALUES, Signal
from models.drift import DETECTORS
from models.entry import VALUES as NUMBERS
from models.prequential import Prequential
from models.registry import REGISTRY, create
from models.restoring import restore
from tests.fuzz.hostile import overwritten
from tests.models.contract import worlds as contract
from tests.models.contract.test_all import every_case

State = Mapping[str, NDArray[Any]]
N_GOOD, N_MORE = 600, 900  # labels of a good state; and with those that are learned later


class Subject(NamedTuple):
    """good : the state of one that has learned. take : hands a state to a fresh one, which may refuse it by any
    exception: who restores a partition makes a sentence of it. use : puts that one to use."""

    good: State
    take: Callable[[State], Any]
    use: Callable[[Any], None]


class Inline:
    """Instead of the processes that fit models."""

    @staticmethod
    def submit(job: Any) -> "Future[Any]":
        from models.batch.fit import fit
        from models.batch.process import FitError

        future: Future[Any] = Future()
        try:
            future.set_result(fit(job))
        except Exception as error:
            future.set_exception(FitError(str(error)))
        return future


def _copied(state: Any) -> State:
    return {field: array.copy() for field, array in (state if isinstance(state, dict) else state._asdict()).items()}


def _learner(name: str, task: str, parameters: Mapping[str, Any]) -> Subject:
    parameters = {**parameters, **({"threads": 1} if "threads" in parameters else {})}
    x, y = contract.rows(N_MORE, task)
    larger = contract.schema_of(task, (0, 0, 8, 0, 2), contract.K + 1)

    def take(state: State) -> Any:
        learner = create(name, contract.schema_of(task), seed=1, **parameters)
        restore(learner, state)
        return learner

    def use(learner: Any) -> None:
        contract.predict(learner, x[:60])
        contract.learn(learner, x[N_GOOD:], y[N_GOOD:])
        contract.predict(learner, x[:60])
        learner.describe()
        learner.size()
        assert learner.n_bytes == sum(array.nbytes for array in learner.state())
        learner.resize(larger)
        contract.learn(learner, x[:100], y[:100])
        contract.predict(learner, x[:60])
        learner.state()

    good = create(name, contract.schema_of(task), seed=1, **parameters)
    contract.learn(good, x[:N_GOOD], y[:N_GOOD])
    return Subject(_copied(good.state()), take, use)


def _evaluation(task: str, fading: float | None, alerts: bool = False) -> Subject:
    rng = np.random.default_rng(1)
    y = rng.normal(size=200) if task == "regression" else rng.integers(0, 2 if task == "anomaly" else 3, 200) * 1.0
    program = contract.interleaved(200, y, 5)
    out = np.column_stack([y]) if task in NUMBERS else rng.dirichlet(np.ones(3), 200)

    decided = rng.integers(0, 2, (200, 1)) * 1.0 if alerts else None

    def fresh() -> Prequential:
        return Prequential(task, out.shape[1], window=50, fading=fading, alerts=alerts)

    def take(state: State) -> Prequential:
        evaluation = fresh()
        restore(evaluation, state)
        evaluation.resize(out.shape[1])
        return evaluation

    def use(evaluation: Prequential) -> None:
        evaluation.score(program, out, decided)
        evaluation.metrics()
        evaluation.windowed()
        evaluation.by_class()
        assert evaluation.n_bytes

    good = fresh()
    good.score(program, out, decided)
    return Subject(_copied(good.state()), take, use)


def _signal(kind: str) -> Subject:
    rng = np.random.default_rng(1)
    values = np.abs(rng.normal(size=1500)) if kind != MISTAKES else (rng.random(1500) < 0.3).astype(float)

    def fresh() -> Signal:
        return Signal({name: {} for name in DETECTORS}, kind)

    def take(state: State) -> Signal:
        signal = fresh()
        signal.restore_from_outside(state, "a series")
        return signal

    def use(signal: Signal) -> None:
        for found in signal.update(values[:900] * (1.0 if kind == MISTAKES else 9.0)):
            signal.stamp(found, 1)
        signal.alarmed(100)
        signal.forget()
        signal.update(values[900:])

    good = fresh()
    good.update(values)
    return Subject(_copied(good.state()), take, use)


def _pending(whole: bool) -> Subject:
    rng = np.random.default_rng(1)
    ids = [f"i{i}" for i in range(300)]
    x, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300).astype(float)

    def fresh() -> PendingStore:
        return PendingStore(2, {"champion": 3}, horizon=60.0, max_pending=150, max_labels=50)

    def join(store: PendingStore, at: int) -> None:
        some, late = slice(at, at + 100), slice(at + 50, at + 200)
        times = np.arange(at, at + 150)
        before = np.arange(100)
        store.join(ids[some], x[some], times[:100], None, ids[late], y[late], times[: len(ids[late])], before)

    def take(state: State) -> PendingStore:
        store = fresh()
        store.restore(state, None, 3)
        return store

    def use(store: PendingStore) -> None:
        store.checkpoint()
        join(store, 0)
        store.checkpoint()
        join(store, 100)
        store.checkpoint()
        store.state()
        store.arrival(3)

    good = fresh()
    join(good, 0)
    return Subject(_copied(good.state() if whole else good.checkpoint().arrays), take, use)


def _makers() -> dict[str, Callable[[], Subject]]:
    found: dict[str, Callable[[], Subject]] = {}
    for name, cases in every_case().items():
        for task in () if REGISTRY[name].slow else REGISTRY[name].tasks:
            for i, case in enumerate(cases):
                found[f"{name} {task} {i}"] = lambda a=name, b=task, c=case.parameters: _learner(a, b, c)
    for task in ("classification", "regression"):
        found |= {f"evaluation {task} {f}": lambda t=task, f=f: _evaluation(t, f) for f in (None, 0.99)}
    found |= {f"evaluation anomaly {a}": lambda a=a: _evaluation("anomaly", None, a) for a in (False, True)}
    found |= {f"detectors {kind}": lambda kind=kind: _signal(kind) for kind in (MISTAKES, ABSOLUTE, VALUES)}
    return found | {f"pending {whole}": lambda whole=whole: _pending(whole) for whole in (False, True)}


MAKERS = _makers()
ONLY = os.environ.get("RIPARIAN_FUZZ_LEARNERS", "")  # those whose names have this in them


class Learners:
    seconds = 5.0
    megabytes = 2000
    budget = 150

    def __init__(self) -> None:
        self._subjects: dict[str, Subject] = {}

    def prepare(self) -> None:
        import models.batch.learner

        models.batch.learner.PROCESSES = Inline()  # type: ignore[assignment]
        np.seterr(all="ignore")

    def ready(self, case: bytes) -> None:
        name = json.loads(case)["of"]
        if name not in self._subjects:
            self._subjects[name] = subject = MAKERS[name]()
            subject.use(subject.take(subject.good))

    def make(self, rng: np.random.Generator) -> bytes:
        names = [name for name in MAKERS if ONLY in name]
        case = {"of": names[rng.integers(len(names))], "array": rng.random(), "seed": int(rng.integers(1 << 31))}
        return json.dumps(case).encode()

    def run(self, case: bytes) -> None:
        told = json.loads(case)
        subject = self._subjects[told["of"]]
        fields = list(subject.good)
        field = fields[int(told["array"] * len(fields))]
        how, array = overwritten(subject.good[field], np.random.default_rng(told["seed"]))
        # What ends this process is told by the last lines that it wrote.
        print(f"{told['of']}: {field} overwritten ({how})", file=sys.stderr, flush=True)
        state = {**subject.good, field: array}
        if how == "typed" and told["seed"] % 7 == 0:
            del state[field]
        try:
            one = subject.take(state)
        except Exception:
            return
        try:
            subject.use(one)
        except Exception as error:
            at = "".join(traceback.format_tb(error.__traceback__))
            raise AssertionError(
                f"{told['of']}: {field} overwritten ({how}), taken, and then: {error!r}\n{at}"
            ) from error

    def shrink(self, case: bytes) -> Iterator[bytes]:
        yield from ()

    def close(self) -> None:
        pass


TARGETS = {"learners": Learners()}
