"""What `predictions.reasons` cost a stream, for `riparian check`."""

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

LEARNED, ASKED = 1000, 50  # made-up instances of which the time is measured
PREDICTING = 0.2  # share of auto's time for an instance that its prediction takes (benchmarks/reasons.py)


class Price(NamedTuple):
    """microseconds : of CPU for the reasons of one prediction. predictions : that are made for it. measured : on
    made-up instances; else estimated."""

    microseconds: float
    predictions: int
    measured: bool


def price_of(spec: "Spec") -> Price | None:
    """None where no reasons are asked for. That of `auto` is estimated, any other champion's measured here: its kernels
    are compiled, which a worker would do."""
    if spec.predictions.reasons is None:
        return None
    from riparian.models.explanation.shapley import n_asked

    n, resolved = n_asked(len(spec.features)), spec.resolved()
    if resolved is not None and resolved.n_bytes:
        return Price(n * PREDICTING * resolved.microseconds, n, False)
    return Price(_measured(spec), n, True)


def _measured(spec: "Spec") -> float:
    import numpy as np

    from riparian.app.cli.terminal.progress import progress
    from riparian.app.partition.learner import PartitionLearner
    from riparian.models.contract import Bags
    from riparian.models.explanation.shapley import contributions
    from riparian.topics.names import CHAMPION

    learner, rng = PartitionLearner(spec), np.random.default_rng(1)
    model, schema = learner.roles[CHAMPION].model, learner.schema
    columns = [rng.integers(0, m, LEARNED) if m else rng.normal(size=LEARNED) for m in schema.n_values]
    x: Any = np.column_stack(columns).astype(np.float64)
    y = np.clip(np.floor(x[:, 0] + rng.random(LEARNED)), 0, max(schema.n_outputs - 1, 1))
    if spec.task == "multi-instance":
        x = Bags.of(np.ones(LEARNED, np.int64), x)
    rows = np.arange(ASKED, dtype=np.int32)
    about, keys = np.zeros(ASKED, np.int64), rows.astype(np.uint64)
    with progress(f"stream {spec.name}", only_compiling=True):
        model.learn_many(x, y)
        contributions(model, x, rows[:1], about, keys)
    began = time.thread_time()
    contributions(model, x, rows, about, keys)
    return 1e6 * (time.thread_time() - began) / ASKED


def sentence(price: Price, of: str) -> str:
    """For people. of : `predictions.reasons.of`."""
    how = f"measured on {LEARNED:,} made-up instances" if price.measured else "estimated"
    each = "prediction" if of == "all" else "alert"
    amount = f"{price.microseconds:,.1f}" if price.microseconds < 100 else f"{price.microseconds:,.0f}"
    return (
        f"reasons: {amount} µs of CPU for each {each} ({how}), of {price.predictions:,} predictions more; where a "
        "label follows each prediction, calls of one instance each come on top (docs/build/confidence.md#reasons)"
    )
