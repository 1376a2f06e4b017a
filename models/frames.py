"""Columns of a data frame as arrays: of pandas, polars, pyarrow, and all else with the Arrow PyCapsule interface."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

METHOD = "__arrow_c_stream__"


class FrameColumn(NamedTuple):
    """A column of n rows.

    values : (n,) float64: numbers, or codes of `texts`; NaN where missing
    texts : what the codes stand for; None of a column of numbers
    closed : whether these are all that the column can have, as of a category or of a boolean; else those that it has
    """

    name: str
    values: NDArray[np.float64]
    texts: Sequence[str] | None = None
    closed: bool = True


def is_frame(x: Any) -> bool:
    """Whether `x` is a data frame, and no array or series."""
    return hasattr(x, METHOD) and not hasattr(x, "dtype")


def table_of(frame: Any) -> Any:
    """A data frame as a pyarrow.Table, without the index that pandas has beside its columns. ValueError where pyarrow
    is not installed."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ValueError(
            "data frames are read through Arrow: pip install 'riparian[arrow]', or give a NumPy array"
        ) from None
    table = pa.table(frame)
    index = (table.schema.pandas_metadata or {}).get("index_columns", ())
    return table.drop_columns([name for name in index if isinstance(name, str)])


def columns_of(frame: Any) -> list[FrameColumn]:
    """The columns of a data frame, in order.

    Numbers are taken as they are. Booleans have the codes 0 and 1, categories their own, and texts codes in the order
    in which they come.

    Raises
    ------
    ValueError
        A column is neither, or pyarrow is not installed.
    """
    table = table_of(frame)
    return [_column(name, table.column(i).combine_chunks()) for i, name in enumerate(table.column_names)]


def rows_of_frame(frame: Any) -> tuple[NDArray[np.float64], tuple[int, ...]]:
    """The columns of a data frame as an (n, d) array, and how many values each has, 0 of numbers. ValueError where one
    is of texts, whose codes would be others in another frame."""
    columns = columns_of(frame)
    for column in columns:
        if not column.closed:
            raise ValueError(f"column {column.name!r} has texts: make it a category, or use an estimator")
    n_values = tuple(0 if column.texts is None else len(column.texts) for column in columns)
    values = [column.values for column in columns]
    return np.ascontiguousarray(np.array(values, np.float64).reshape(len(columns), -1).T), n_values


def _column(name: str, array: Any) -> FrameColumn:
    import pyarrow as pa

    kind, types = array.type, pa.types
    if isinstance(array, pa.ChunkedArray):  # an empty one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], kind)
    if types.is_boolean(kind):
        return FrameColumn(name, _numbers(array.cast(pa.uint8())), ("False", "True"))
    if types.is_null(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return FrameColumn(name, _numbers(array.cast(pa.float64(), safe=False)))
    closed = types.is_dictionary(kind)
    if closed or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        array = array if closed else array.cast(pa.large_string()).dictionary_encode()
        texts = [str(text) for text in array.dictionary.to_pylist()]
        return FrameColumn(name, _numbers(array.indices), texts, closed)
    raise ValueError(f"column {name!r} is of type {kind}: give numbers, booleans, texts or categories")


def _numbers(array: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    values: NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values
