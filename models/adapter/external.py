"""Models of River, and of scikit-learn with `partial_fit`, as learners: for comparison, beside a champion.

They are asked and taught an instance at a time, as everything else here, so programs may be cut anywhere; that is
Python, and some hundred to some thousand times slower than a kernel. Their state is a pickle, which can hold any code:
it is loaded only where it is signed by the key of this process. It fits one version of a library only, and is refused
where versions differ.
"""

import copy
import json
import logging
import pickle
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.adapter import signature
from riparian.models.adapter.entries import EXTERNAL
from riparian.models.adapter.imported import make, path_of, version_of
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.entry import CLASSIFICATION
from riparian.models.explanation.description import as_node
from riparian.models.layout import StateLayout

log = logging.getLogger(__name__)

LEARNED, FAILED, CLASSES = 0, 1, 2  # numbers in State.counts


class ExternalState(NamedTuple):
    """Everything that the learner knows.

    pickled : (bytes,) uint8, the model.
    about : (bytes,) uint8, JSON: what it was made by, with versions.
    signature : (32,) uint8, of both; (0,) where the process that wrote it had no key.
    counts : (3,) int64, labels learned, calls that failed, classes that the model was begun with.
    known, totals : (d,) float64, values of each feature seen, and their sum.
    """

    pickled: NDArray[np.uint8]
    about: NDArray[np.uint8]
    signature: NDArray[np.uint8]
    counts: NDArray[np.int64]
    known: Floats
    totals: Floats


class External(Learner):
    """A model of another library.

    River's get {"x0": value, …}: nominal values as texts of their codes, missing ones left out. scikit-learn's get a
    row: nominal values as their codes, missing ones as the mean so far. These must know all classes beforehand: with
    classes that the stream file names they do; otherwise, where a label's class is beyond those it was begun with, the
    model begins anew with twice as many. Weights are passed on where the model takes them.

    A call that fails is counted and logged once; the prediction is then unknown, the label lost. Memory is bounded as
    the model bounds it.

    `seed` is handed over where the model takes a `seed` or `random_state` and `arguments` has none. The leaves of
    River's Hoeffding tree predict means where a regression has nominal features, unless `arguments` set it: its linear
    leaves take no texts.
    """

    entry = EXTERNAL
    layout: ClassVar[StateLayout] = StateLayout(rows={"pickled about signature known totals": "*"})
    incomparable: ClassVar[tuple[str, ...]] = ("pickled", "signature")

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._classification = schema.task == CLASSIFICATION
        self._nothing = 0.0 if self._classification else np.nan
        self._nominal = np.array(schema.n_values) > 0
        self._path = path_of(schema.task, self._parameters["import_path"])
        self._counts = np.array([0, 0, schema.n_outputs], np.int64)
        self._known, self._totals = np.zeros(schema.n_features), np.zeros(schema.n_features)
        self._begin()

    def _begin(self) -> None:
        arguments = dict(self._parameters["arguments"] or {})
        if self._parameters["import_path"] is None and not self._classification and self._nominal.any():
            arguments.setdefault("leaf_prediction", "mean")  # River's linear leaves fail at texts
        self._use(make(self._path, arguments, self.seed))

    def _use(self, model: Any) -> None:
        self._model: Any = model
        self._river = hasattr(model, "learn_one")
        self._pickled: bytes | None = None
        self._signature = b""
        teach = model.learn_one if self._river else model.partial_fit
        code = getattr(teach, "__wrapped__", teach)
        names = code.__code__.co_varnames if hasattr(code, "__code__") else ()
        weight = "w" if self._river else "sample_weight"
        self._weight = weight if weight in names else None

    def names_only(self) -> bool:
        """Whether it names a class and has no probabilities: 1 then stands for the class that it names."""
        if not self._classification:
            return False
        if not self._river:
            return not hasattr(self._model, "predict_proba")
        try:
            copy.deepcopy(self._model).predict_proba_one({})  # a pipeline has it, its last step may not
        except NotImplementedError:
            return True
        except Exception:
            log.debug("%s could not predict without features", self._path)
        return False

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        with np.errstate(all="ignore"):
            for op, row, y, w in zip(*(column.tolist() for column in program), strict=True):
                if op == PREDICT:
                    out[row] = self._nothing
                    if self._counts[LEARNED]:
                        self._predict(slab[row], out[row])
                elif 0.0 < w < np.inf and np.isfinite(y) and self._is_target(y):
                    self._learn(slab[row], y, w)

    def _is_target(self, y: float) -> bool:
        return not self._classification or 0.0 <= y < self.schema.n_outputs

    def _predict(self, x: Floats, out: Floats) -> None:
        try:
            found = self._river_answer(x) if self._river else self._sklearn_answer(x)
        except Exception as error:
            self._log_failure("predict", error, counted=False)  # to predict changes no state
            return
        for code, value in found.items():
            if np.isfinite(value) and (value >= 0.0 or not self._classification):
                out[code] = value
        if self._classification:
            total = out.sum()
            out[:] = out / total if 0.0 < total < np.inf else 0.0

    def _river_answer(self, x: Floats) -> dict[int, float]:
        named = self._named(x)
        if not self._classification:
            value = self._model.predict_one(named)
            return {} if value is None else {0: float(value)}
        try:
            return {int(code): float(p) for code, p in self._model.predict_proba_one(named).items()}
        except NotImplementedError:
            code = self._model.predict_one(named)
            return {} if code is None else {int(code): 1.0}

    def _sklearn_answer(self, x: Floats) -> dict[int, float]:
        row = self._filled(x)
        if not self._classification:
            return {0: float(self._model.predict(row)[0])}
        if hasattr(self._model, "predict_proba"):
            shares = self._model.predict_proba(row)[0]
            return {int(code): float(p) for code, p in zip(self._model.classes_, shares, strict=True)}
        return {int(self._model.predict(row)[0]): 1.0}

    def _learn(self, x: Floats, y: float, w: float) -> None:
        if self._classification and not self._river and y >= self._counts[CLASSES]:
            self._counts[CLASSES] = max(2 * int(self._counts[CLASSES]), 1 << int(y).bit_length())
            if self._counts[LEARNED]:
                log.warning("%s has not known class %d and begins anew: name the classes", self._path, int(y))
            self._begin()
        weight = {} if self._weight is None else {self._weight: w if self._river else [w]}
        target: Any = int(y) if self._classification else y
        try:
            if self._river:
                self._model.learn_one(self._named(x), target, **weight)
            elif self._classification:
                classes = np.arange(int(self._counts[CLASSES]))
                self._model.partial_fit(self._filled(x), [target], classes=classes, **weight)
            else:
                self._model.partial_fit(self._filled(x), [target], **weight)
        except Exception as error:
            self._log_failure("learn", error, counted=True)
        there = np.isfinite(x) & ~self._nominal
        self._known += there
        self._totals[there] += x[there]
        self._counts[LEARNED] += 1
        self._pickled = None

    def _log_failure(self, verb: str, error: Exception, counted: bool) -> None:
        if counted:
            self._counts[FAILED] += 1
        if not getattr(self, f"_told_{verb}", False):
            setattr(self, f"_told_{verb}", True)
            log.warning("%s could not %s: %s: %s (told once)", self._path, verb, type(error).__name__, error)

    def _named(self, x: Floats) -> dict[str, Any]:
        """A row as River's models take it."""
        return {
            f"x{j}": str(int(value)) if nominal else value
            for j, (value, nominal) in enumerate(zip(x.tolist(), self._nominal.tolist(), strict=True))
            if value == value
        }

    def _filled(self, x: Floats) -> Floats:
        """A row as scikit-learn's models take it, (1, d)."""
        mean = np.divide(self._totals, self._known, out=np.zeros(len(x)), where=self._known > 0.0)
        filled: Floats = np.where(np.isnan(x), np.where(self._nominal, -1.0, mean), x).reshape(1, -1)
        return filled

    def state(self) -> ExternalState:
        about = json.dumps(self._about()).encode()
        if self._pickled is None:
            self._pickled = pickle.dumps(self._model, protocol=5)
            secret = signature.key()
            self._signature = b"" if secret is None else signature.sign(secret, about, self._pickled)
        pickled, description, signed = (
            np.frombuffer(part, np.uint8) for part in (self._pickled, about, self._signature)
        )
        return ExternalState(pickled, description, signed, self._counts, self._known, self._totals)

    def _about(self) -> dict[str, str]:
        python = ".".join(map(str, sys.version_info[:2]))
        return {"model": self._path, "library": version_of(self._path), "python": python}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """ValueError where the pickle is of other versions or not signed by our key: nothing of it is read then."""
        description, pickled = (np.asarray(state[name], np.uint8).tobytes() for name in ("about", "pickled"))
        signed = np.asarray(state["signature"], np.uint8).tobytes() if "signature" in state else b""
        signature.verify(description, pickled, signed)
        about, now = json.loads(description), self._about()
        if about != now:
            was, here = (f"{one['library']} under Python {one['python']}" for one in (about, now))
            raise ValueError(
                f"{about['model']} was pickled by {was}, and here is {here}: install what it was, or leave the model "
                "out of the stream file for one start, and it begins afresh"
            )
        self._use(pickle.loads(pickled))
        self._pickled, self._signature = pickled, signed
        self._counts = np.array(state["counts"], np.int64)
        self._known, self._totals = np.array(state["known"], float), np.array(state["totals"], float)

    def describe(self) -> list[dict[str, Any]]:
        """One part: how the model describes itself."""
        counts = {"learned": int(self._counts[LEARNED]), "failed": int(self._counts[FAILED])}
        return [as_node(0, None, 0, self._counts[LEARNED], [], part="model", import_path=self._path, **counts)]
