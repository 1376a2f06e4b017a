"""What the formats of a registry have in common: they write by a schema that it has, with its id before each record."""

from collections.abc import Callable, Sequence

from topics.formats.framing import head
from topics.formats.json_rows import Renderer
from topics.headers import inside
from topics.records import Mapping, Rows
from topics.schemas import NotToldError, Schema, Schemas, UnusableError

Encode = Callable[[bytes], bytes]


def written_by(schemas: Schemas, kind: str) -> tuple[bytes, Schema]:
    """The bytes before records of a kind, and the schema by which these are written."""
    written = schemas.written.get(kind)
    if written is None:
        raise NotToldError(f"nobody has asked the registry for the schema of {kind}")
    return head(written.id), written.schema


class Writer:
    """Feature and label records by the schemas of `schemas.written`, for replays: see `topics.codecs.RecordWriter`."""

    def __init__(self, mapping: Mapping, schemas: Schemas, labels_inside: bool) -> None:
        self._plain = Renderer(inside(mapping), labels_inside)
        self._schemas = schemas

    def features(self, rows: Rows, times: Sequence[int]) -> list[bytes]:
        return self._write("features", self._plain.features(rows, times))

    def labels(self, ids: Sequence[str], y: Sequence[str], times: Sequence[int]) -> list[bytes]:
        return self._write("labels", self._plain.labels(ids, y, times))

    def encoder(self, schema: Schema) -> Encode:
        """What makes a record of its JSON."""
        return lambda value: value

    def _write(self, kind: str, plain: list[bytes]) -> list[bytes]:
        before, schema = written_by(self._schemas, kind)
        encode, made = self.encoder(schema), []
        for value in plain:
            try:
                made.append(before + encode(value))
            except Exception as error:  # ValueError, TypeError, KeyError, AttributeError: as the value fails to fit
                raise UnusableError(
                    f"the schema of {kind} has no place for {value.decode()[:200]} ({type(error).__name__}: {error})"
                ) from None
        return made
