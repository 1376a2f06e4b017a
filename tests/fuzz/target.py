"""What a target is: it makes cases by a random generator, runs them, and makes a failing one smaller."""

import importlib
from collections.abc import Iterator

import numpy as np


class Target:
    """One way in.

    Attributes
    ----------
    seconds : CPU time that a case may take.
    megabytes : memory that cases may take beyond what there was before the first.
    budget : cases of it in `make test`; 0 for none.
    n_records : that its cases had so far; only of targets whose cases are batches of records.
    """

    seconds: float
    megabytes: int
    budget: int

    def prepare(self) -> None:
        """Whatever is slow and not what is tested: imports, kernels, a server."""

    def ready(self, case: bytes) -> None:
        """What is slow in a case at its first time: a learner's kernels."""

    def make(self, rng: np.random.Generator) -> bytes:
        """A case, which depends on nothing but `rng`."""
        raise NotImplementedError

    def run(self, case: bytes) -> None:
        """Raises anything where something is wrong."""
        raise NotImplementedError

    def shrink(self, case: bytes) -> Iterator[bytes]:
        """Smaller cases, the smallest first."""
        raise NotImplementedError

    def close(self) -> None:
        """End what `prepare` started."""


# Each target's module. `models` is none of `make test`: its cases take long.
_MODULES = {
    "records": "records",
    "stream_files": "stream_files",
    "states": "states",
    "models": "states",
    "web": "web",
    "avro": "avro",
    "registry": "registry",
    "control": "control",
    "blocks": "blocks",
    **dict.fromkeys(("debezium", "connect", "cloudevents", "json-schema", "arrow", "protobuf"), "formats"),
    "page": "page",
    "batches": "batches",
}
TARGETS = tuple(_MODULES)
# Those whose cases are batches of records: each codec and each envelope.
OF_RECORDS = tuple(name for name, module in _MODULES.items() if module in ("records", "blocks", "avro", "formats"))


def find(name: str) -> Target:
    """A target by its name, one of TARGETS."""
    target: Target = importlib.import_module(f"tests.fuzz.{_MODULES[name]}").TARGETS[name]
    return target


def generator(seed: int, name: str, index: int) -> np.random.Generator:
    """The random numbers of one case."""
    return np.random.default_rng([seed, TARGETS.index(name), index])
