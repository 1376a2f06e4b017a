"""Rows of data as instances of a stream, for replays: each cell as a JSON text ("1.5", "\\"red\\"", "null").

A codec makes records of them (`Codec.writer`). Most cells of a file are such texts already and need no conversion.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from riparian.app.dataset.column import are_json_numbers
from riparian.app.dataset.files.data import BLOCK, DataFile, Floats, Odd, RowBlock
from riparian.app.errors import DataError
from riparian.app.stream_file.spec import Spec
from riparian.topics.records import BOOLEAN, NOMINAL, NUMERIC, VALUES, Rows

JSON = "json"


def numbers(values: Floats) -> list[str]:
    """JSON texts of numbers that read back to the same bits; null for NaN."""
    # One encoder call for the column: 0.1 µs per number, where repr takes 1.
    return msgspec.json.encode(values.tolist())[1:-1].decode().split(",") if len(values) else []


def rows_of_file(
    file: DataFile, spec: Spec, target: str | None = None, limit: int | None = None, prefix: str = "", size: int = BLOCK
) -> Iterator[Rows]:
    """The rows of a file as instances of a stream; the id of row i (from 0) is `prefix` and i.

    The columns of the file are found by the names of the stream file's features (`DataFile.find`); `target` as
    `DataFile.target` takes it, unless the stream has no labels. DataError for a column that is missing, and for a cell
    that is not of its type and that the codec has no place for: JSON has.
    """
    if None in spec.mapping().keys:
        raise DataError(
            f"keys of stream {spec.name}: expected paths, since rows of {file.path} have no Kafka key but their id, "
            'found "@key"; evaluate the file, which needs none, or give the key a field'
        )
    fields = [(feature.name, feature.type) for feature in spec.mapping().features]
    columns = [file.position(name, "a feature or key of the stream") for name, _ in fields]
    goal = ""
    if spec.has_labels:
        goal, goal_at = file.target(target, spec.features)
        columns.append(goal_at)
    texts = [name for name, kind in fields if kind == NOMINAL]
    file.survey([*texts, *([goal] if goal and spec.task not in VALUES else [])], limit)
    codec = spec.codec.features
    of_labels = codec if spec.topics.labels is None else spec.codec.labels
    first = 0
    for block in file.blocks(columns, limit, size):
        n = len(block)
        features = [cells_as_json(file, block, j, name, kind, codec) for j, (name, kind) in enumerate(fields)]
        y: list[str | None] = [None] * n
        if spec.has_labels:
            kind = NUMERIC if spec.task in VALUES else NOMINAL
            labels = cells_as_json(file, block, len(features), goal, kind, of_labels)
            y = [None if text == "null" else text for text in labels]
        yield Rows(first, [f"{prefix}{i}" for i in range(first, first + n)], features, y)
        first += n


def rows_of_bags(
    file: DataFile,
    spec: Spec,
    bag: str,
    target: str | None = None,
    limit: int | None = None,
    prefix: str = "",
    size: int = BLOCK,
) -> Iterator[Rows]:
    """The bags of a file of instances, in which the rows of a bag follow each other; the id of a bag is `prefix` and
    what stands in the column `bag`, its label that of its first row. limit : rows. The rest as in `rows_of_file`."""
    owner = file.position(bag, "the bag of a row")
    of_rows = rows_of_file(file, spec, target, limit, size=size)
    first, rest = 0, Rows(0, [], [[] for _ in spec.features], [])
    for owners, rows in zip(file.blocks([owner], limit, size), of_rows, strict=True):
        ids = rest.ids + [text.strip() for text in owners.columns[0]]
        features = [a + b for a, b in zip(rest.features, rows.features, strict=True)]
        whole = Rows(first, ids, features, rest.y + rows.y)
        starts = [i for i in range(len(ids)) if i == 0 or ids[i] != ids[i - 1]]
        last = starts.pop()  # it may go on in the next block
        first += len(starts)
        rest = Rows(first, ids[last:], [column[last:] for column in features], whole.y[last:])
        if starts:
            yield _as_bags(whole, starts, last, prefix)
    if rest.ids:
        yield _as_bags(rest, [0], len(rest.ids), prefix)


def _as_bags(rows: Rows, starts: list[int], stop: int, prefix: str) -> Rows:
    sizes = [b - a for a, b in pairwise([*starts, stop])]
    names, labels = [prefix + rows.ids[i] for i in starts], [rows.y[i] for i in starts]
    return Rows(rows.first, names, [column[:stop] for column in rows.features], labels, sizes)


def cells_as_json(file: DataFile, block: RowBlock, at: int, name: str, kind: str, codec: str) -> list[str]:
    """Column `at` of `block`, which is the feature `name` of type `kind`, as JSON texts. A cell that is not of the type
    is one, too, where the codec has place for that, else a DataError."""
    odd: Odd | None = {} if codec == JSON else None
    if kind == NUMERIC:  # the cells themselves where all are numbers as JSON writes them: 0.05 µs per cell
        column = list(file.plain(block, at, name))
        if are_json_numbers(column):
            return column
        texts = numbers(file.numbers(block, at, name, odd))
    elif kind == BOOLEAN:
        texts = ["null" if v is None else "true" if v else "false" for v in file.booleans(block, at, name, odd)]
    else:
        return json_texts(file.values(block, at, name))
    for i, text in (odd or {}).items():
        texts[i] = text if are_json_numbers([text]) else json.dumps(text, ensure_ascii=False)
    return texts


def json_texts(values: Sequence[str | None]) -> list[str]:
    """JSON texts of texts; null for None."""
    known = {v: "null" if v is None else json.dumps(v, ensure_ascii=False) for v in set(values)}
    return [known[v] for v in values]
