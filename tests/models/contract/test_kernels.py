"""Kernels: their options, and that each is compiled for one signature only."""

import importlib
import pkgutil
import subprocess
import sys

from riparian import models
from tests.conftest import jit


def modules_of_models():
    found = [models]
    for info in pkgutil.walk_packages(models.__path__, "riparian.models."):
        found.append(importlib.import_module(info.name))
    return found


def kernels():
    """Every numba dispatcher of the package, by name."""
    from numba.core.dispatcher import Dispatcher

    found = {}
    for module in modules_of_models():
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher):
                found[f"{value.py_func.__module__}.{name}"] = value
    return found


# Kernels that make arrays of their own: rare ones, over a window or a whole tree.
ALLOCATING = {
    "riparian.models.bags.quick_diverse_density._predict",
    "riparian.models.bags.quick_diverse_density.search",
    "riparian.models.bags.miti.grow",
    "riparian.models.bags.optimise._direction",
    "riparian.models.bags.optimise.optimise_scale",
    "riparian.models.batch.learner._run",
    "riparian.models.batch.predict.median",
    "riparian.models.batch.predict.predict",
    "riparian.models.drift.kswin._kswin",
    "riparian.models.drift.kswin.sort",
    "riparian.models.shrubs.cart.grow",
    "riparian.models.mondrian.mondrian_forest._run",
    "riparian.models.streaming_forest.false_roots.sort_in",
    "riparian.models.streaming_forest.node_tests.sort_values",
    "riparian.models.streaming_forest.description.depth_of",
    "riparian.models.hoeffding.splitting.bounds.may_win",
    "riparian.models.hoeffding.mutable_tree.pack_maps",
}


@jit
def test_options_of_every_kernel():
    found = kernels()
    assert len(found) > 10
    for name, dispatcher in found.items():
        options = dispatcher.targetoptions
        assert options.get("nogil") is True, name
        assert options.get("error_model") == "numpy", name
        assert not options.get("fastmath"), name
        assert not options.get("parallel"), name
        assert options.get("nopython") is True, name
        assert options.get("_nrt") is (name in ALLOCATING), name


SIGNATURES = """
import numpy as np
from numba.core import types
from riparian import checks
from riparian.models.evaluation.prequential import Prequential
from riparian.models.registry import REGISTRY
from tests.models.contract import test_all, test_kernels

for name, cases in test_all.every_case().items():
    for task in REGISTRY[name].tasks:
        for case in cases:
            learner = checks.make(REGISTRY[name].load(task), task, case)
            x, y = checks.rows(600, task)
            program = checks.interleaved(y, 5)
            out = np.zeros((600, learner.schema.n_outputs))
            learner.warm_up()
            learner.run(program, checks.slab_of(task, x), out)
            checks.predict(learner, x)
            saved = {field: array.copy() for field, array in learner.state()._asdict().items()}
            for array in saved.values():
                array.flags.writeable = False
            learner.restore(saved)
            checks.learn(learner, x, y)
            learner.describe()
            learner.resize(checks.schema_of(task, (0, 0, 8, 0, 2), checks.N_CLASSES + 1))
            checks.learn(learner, x, y)
            for fading in (None, 0.99):
                evaluation = Prequential(task, out.shape[1], fading=fading)
                evaluation.score(program, out)
                evaluation.restore(evaluation.state()._asdict())
                evaluation.score(program, out)
                evaluation.windowed()

for name, dispatcher in test_kernels.kernels().items():
    signatures = {tuple(str(types.unliteral(t)) for t in signature) for signature in dispatcher.signatures}
    if len(signatures) > 1:
        print(name, *sorted(signatures), sep="\\n    ")
    for compiled in dispatcher.overloads.values():
        # References are not counted: an array that is returned would be freed while it is in use.
        kinds = [compiled.signature.return_type, *getattr(compiled.signature.return_type, "types", ())]
        if any(isinstance(kind, types.Array) for kind in kinds):
            print(name, "returns an array")
"""


@jit
def test_one_signature_a_kernel():
    """In a process of its own: other tests may call kernels with other types. One that compiles also sees the kernels
    that others are made of, once for each caller's types, so what counts is one that finds all in the cache."""
    for _ in range(2):
        command = [sys.executable, "-c", SIGNATURES]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode or not done.stdout:
            break
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
