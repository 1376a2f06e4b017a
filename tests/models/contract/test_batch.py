"""The contract of batch learners."""

import pickle
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from riparian.checks import Case
from riparian.models.batch.process import PROCESSES
from tests.models.contract.checks import test_contract  # noqa: F401

CASES = {
    "cart": [
        Case({"window": 300, **more}, breathes=True)
        for more in ({"ccp_alpha": 0.01, "drift_delta": 0.1}, {"ccp_alpha": 0.0, "lag": 20, "max_depth": 4})
    ],
    "bagging": [Case({"n_trees": 2, "window": 300, "sample": 0.5}, breathes=True)],
    "random-forest": [Case({"n_trees": 2, "window": 300, "max_depth": 5, "lag": 0}, breathes=True)],
    "adaboost": [Case({"n_trees": 2, "window": 300}, breathes=True)],
    "gradient-boosting": [Case({"n_trees": 2, "window": 300, "sample": 0.7}, breathes=True)],
    "xgboost": [Case({"n_trees": 2, "window": 300, "max_depth": 3}, breathes=True)],
}


@pytest.fixture(scope="module", autouse=True)
def each_fit_once() -> Iterator[None]:
    """What a fit comes to is a function of the job alone (`tests/models/test_batch.py`): of a job that has been done
    before, here as in most checks of two learners that are to do the same, it is what that one came to."""
    known, submit = dict[bytes, Any](), PROCESSES.submit

    def recalled(job: Any) -> "Future[Any]":
        key = pickle.dumps(job)
        if key in known:
            future: Future[Any] = Future()
            future.set_result(pickle.loads(known[key]))
            return future
        future = submit(job)
        future.add_done_callback(lambda done: done.exception() or known.update({key: pickle.dumps(done.result())}))
        return future

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PROCESSES, "submit", recalled)
        yield
