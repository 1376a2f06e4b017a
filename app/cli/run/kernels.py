"""The kernels of a stream, compiled or loaded before its first record, and what is shown meanwhile."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from riparian.app import compiling
from riparian.app.cli.terminal.progress import progress

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec


def make_ready(spec: "Spec", on_progress: Callable[[int, int], None] | None = None) -> None:
    """Load what a worker of this stream needs; what is not in the cache is compiled, by processes on all cores.

    on_progress : called meanwhile with how many kernels are compiled, and of how many.
    """
    with progress(f"stream {spec.name}", only_compiling=True) as work:

        def report(done: int, total: int) -> None:
            work.kernels(done, total)
            if on_progress is not None:
                on_progress(done, total)

        compiling.call(partial(warm_up, spec), report)


def warm_up(spec: "Spec") -> None:
    """Call each of its kernels."""
    from riparian.app.kafka.wire_format import record_batches, written_batches
    from riparian.app.partition.learner import PartitionLearner

    PartitionLearner(spec).warm_up()
    record_batches.warm_up()
    written_batches.warm_up()
