"""Feature and label records as JSON, laid out as a stream file declares: what replays send.

A record is a JSON text with a slot for each leaf, filled by `%`: 1.5 µs for eight features, where a dict and an
encoder take 4.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

from riparian.topics.decoding.envelopes import CLOUDEVENTS, CONNECT, DEBEZIUM
from riparian.topics.decoding.paths import Index
from riparian.topics.records import MULTI_INSTANCE, Mapping, Path, Rows

FixedFields = dict[str, Any]
# What a record needs besides its row to be of an envelope.
_FIXED: dict[str | None, FixedFields] = {
    DEBEZIUM: {"before": "null", "op": '"c"', "after": {}},
    CLOUDEVENTS: {"specversion": '"1.0"', "source": '"riparian"', "type": '"instance"', "data": {}},
}


class Template:
    """A JSON object with a slot at each path.

    Parameters
    ----------
    paths : sequence of Path
        Where the slots are; none leads through another.
    fixed : field -> JSON text, of other fields of the object; or an object, in which slots may be.
    """

    def __init__(self, paths: Sequence[Path], fixed: FixedFields | None = None) -> None:
        tree: dict[str, Any] = deepcopy(fixed or {})
        for slot, path in enumerate(paths):
            node = tree
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = slot
        self._order: list[int] = []
        self._format = self._write(tree)

    def _write(self, node: dict[str, Any]) -> str:
        if any(isinstance(name, Index) for name in node):
            places: dict[int, Any] = {int(name[1:-1]): child for name, child in node.items()}
            parts = [self._value(places[i]) if i in places else "null" for i in range(1 + max(places))]
            return "[" + ",".join(parts) + "]"
        return "{" + ",".join(f"{self._name(name)}:{self._value(child)}" for name, child in node.items()) + "}"

    @staticmethod
    def _name(name: str) -> str:
        return json.dumps(name, ensure_ascii=False).replace("%", "%%")

    def _value(self, child: Any) -> str:
        if isinstance(child, dict):
            return self._write(child)
        if isinstance(child, str):
            return child.replace("%", "%%")
        self._order.append(child)
        return "%s"

    def fill(self, columns: Sequence[Sequence[str]], n: int) -> list[bytes]:
        """n records; `columns` : JSON texts, a column for each path, in the order of the paths."""
        form = self._format
        if not self._order:
            return [(form % ()).encode()] * n
        return [(form % row).encode() for row in zip(*(columns[slot] for slot in self._order), strict=True)]


class Renderer:
    """Feature records and label records of a stream: the inverse of decoding.

    Parameters
    ----------
    mapping : Mapping
        Where everything stands in the values.
    labels_inside : bool
        Whether labels go into the feature records (a stream without a topic of labels).
    """

    def __init__(self, mapping: Mapping, labels_inside: bool = False) -> None:
        self.mapping = mapping
        self.labels_inside = labels_inside and mapping.y is not None
        paths = [p for p in (mapping.id, mapping.time) if p is not None]
        inside = [feature.path for feature in mapping.features]
        self._instances = Template(inside) if mapping.task == MULTI_INSTANCE else None
        paths += inside if self._instances is None else [mapping.x]
        if self.labels_inside and mapping.y is not None:
            paths.append(mapping.y)
        self._features = Template(paths, _FIXED.get(mapping.envelope))
        of_label = [p for p in (mapping.label_id, mapping.label_time, mapping.label_y) if p]
        self._labels = Template(of_label, _FIXED.get(mapping.label_envelope))

    def features(self, rows: Rows, times: Sequence[int]) -> list[bytes]:
        """A feature record a row. times : ms since 1970, for streams whose records hold one."""
        columns: list[Sequence[str]] = []
        if self.mapping.id is not None:
            columns.append(quoted(rows.ids))
        if self.mapping.time is not None:
            columns.append(_times(times, self.mapping.envelope, self.mapping.time))
        columns += rows.features if self._instances is None else [self._bags(rows)]
        if self.labels_inside:
            columns.append(["null" if y is None else y for y in rows.y])
        return _wrapped(self._features.fill(columns, len(rows)), self.mapping.envelope)

    def _bags(self, rows: Rows) -> list[str]:
        """The list of instances of each bag."""
        if self._instances is None or rows.sizes is None:
            return []
        instances = [text.decode() for text in self._instances.fill(rows.features, sum(rows.sizes))]
        ends = list(accumulate(rows.sizes, initial=0))
        return [f"[{','.join(instances[a:b])}]" for a, b in pairwise(ends)]

    def labels(self, ids: Sequence[str], y: Sequence[str], times: Sequence[int]) -> list[bytes]:
        """A label record each."""
        columns: list[Sequence[str]] = []
        if self.mapping.label_id is not None:
            columns.append(quoted(ids))
        if self.mapping.label_time is not None:
            columns.append(_times(times, self.mapping.label_envelope, self.mapping.label_time))
        if self.mapping.label_y:
            columns.append(y)
        return _wrapped(self._labels.fill(columns, len(ids)), self.mapping.label_envelope)


def _wrapped(records: list[bytes], envelope: str | None) -> list[bytes]:
    """The envelope in which JsonConverter writes what has no schema."""
    return records if envelope != CONNECT else [b'{"schema":null,"payload":%b}' % record for record in records]


def _times(times: Sequence[int], envelope: str | None, path: Path) -> list[str]:
    """ms since 1970; a text in the field that CloudEvents has for one."""
    if envelope != CLOUDEVENTS or path != ("time",):
        return list(map(str, times))
    return [f'"{datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")}"' for ms in times]


def quoted(values: Sequence[str]) -> list[str]:
    """JSON texts of strings. Plain identifiers, the usual case, are only put in quotes."""
    if "".join(values).isalnum():
        return [f'"{value}"' for value in values]
    known: dict[str, str] = {value: json.dumps(value, ensure_ascii=False) for value in set(values)}
    return [known[value] for value in values]
