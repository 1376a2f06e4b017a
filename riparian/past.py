"""Features over a key's past of a file or a data frame: those that a worker makes, to the same bit."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from riparian.models.contract import Floats
from riparian.models.frames import is_frame, table_of


def features(
    data: Any,
    stream: str | Path,
    *,
    time: str,
    target: str | None = None,
    label_time: str | None = None,
    label_delay: float = 0.0,
) -> dict[str, Floats]:
    """What the stream file names of a key's past (docs: Features over a key's past), as each row is predicted with it.

    Parameters
    ----------
    data : path, or a data frame
        CSV, Parquet or Arrow, gzip too; or of pandas, polars, or with the Arrow PyCapsule interface. In order of time.
    stream : path of the stream file
    time : column with the time of each row: seconds since 1970, or ISO 8601.
    target : column of the labels; by default the last one.
    label_time : column with the time at which the label of a row comes.
    label_delay : seconds from each row to its label, where no column says it.

    Returns
    -------
    dict
        Name of the feature -> (n,) float64, NaN where it is missing, and of rows that a worker rejects.

    Raises
    ------
    ValueError
        One sentence on what is wrong with the data or the stream file.
    """
    from riparian.app.errors import RiparianError
    from riparian.app.evaluation.setup import Setup
    from riparian.app.evaluation.whole import Whole
    from riparian.app.stream_file.spec import load
    from riparian.topics.records import ANOMALY

    if is_frame(data):
        import pyarrow as pa

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "frame"
            table = table_of(data)
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
            return features(path, stream, time=time, target=target, label_time=label_time, label_delay=label_delay)
    try:
        spec = load(stream)
        names = [name for name, one in spec.features.items() if one.past is not None]
        alone = {"model": "half-space-trees" if spec.task == ANOMALY else "last-label"}
        spec = spec.model_copy(update={"champion": alone, "challengers": {}})
        whole = Whole(
            Setup(
                data=Path(data), stream=spec, clock=time, target=target, label_clock=label_time, label_delay=label_delay
            )
        )
        found = np.full((whole.total, len(names)), np.nan)
        for _, outcome, _ in whole.outcomes():
            if len(outcome.ids) and outcome.made is not None:
                found[np.array(outcome.ids, np.int64)] = outcome.made
    except RiparianError as error:
        raise ValueError(str(error)) from None
    return {name: found[:, j].copy() for j, name in enumerate(names)}
