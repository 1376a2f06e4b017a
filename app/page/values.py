"""What stood in the records of alerts: read by offsets when they are first shown, and kept, since records stay."""

import asyncio
import contextlib
import logging
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.errors import KafkaError

from riparian.app.errors import RiparianError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import reading
from riparian.app.partition.records.decoder import PartitionDecoder
from riparian.app.state.audit.finding import unpacked
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import FEATURES

log = logging.getLogger(__name__)

AT_ONCE = 40  # records that are read at a time
KEPT = 4_000
FETCH_BYTES = 64 * 1024  # one record is wanted, and a broker sends at least its batch
NOTHING: dict[str, Any] = {"x": {}, "keys": {}, "record": None}
Place = tuple[str, int, int, int]  # stream, partition, offset, index


async def read(spec: Spec, connection: Connection, partition: int, places: Sequence[tuple[int, int]]) -> list[Any]:
    """Feature records of a partition.

    Parameters
    ----------
    places : sequence of (int, int)
        Offset of each, and which instance of its record.

    Returns
    -------
    list of dict
        "x": features by name, None where missing, without those over the past of keys. "keys": name of a key -> what
        stands in the record. "record": its text, None where it is no text. Of a record that is not kept any more, and
        of a bag, x is empty.
    """
    decoder, found = PartitionDecoder(spec, partition), []
    async with reading(connection, spec.topics.features, partition, FETCH_BYTES) as log_:
        for offset, index in places:
            log_.seek(offset)
            records = await log_.read(offset + 1) if log_.first <= offset < log_.end else []
            found.append(await _one(spec, decoder, records[0], index) if records else NOTHING)
    return found


async def _one(spec: Spec, decoder: PartitionDecoder, record: Any, index: int) -> dict[str, Any]:
    batch = await unpacked(spec, decoder.codec, FEATURES, [record])
    row = decoder.features(batch.part(index, index + 1))
    found: dict[str, Any] = {**NOTHING}
    if len(row.x) == 1:
        texts = [None if v is None else v.texts for v in decoder.values]
        x = named_row(list(spec.features), texts, row.x[0].tolist())
        found["x"] = {name: value for name, value in x.items() if spec.features[name].past is None}
    found["keys"] = {name: values[0] for name, values in zip(spec.keys, row.keys, strict=False) if len(values)}
    with contextlib.suppress(UnicodeDecodeError, TypeError):
        found["record"] = bytes(record.value).decode()
    return found


def named_row(features: Sequence[str], texts: Sequence[Sequence[str] | None], row: Sequence[float]) -> dict[str, Any]:
    """Features by their names. texts : of each nominal one its values by their codes, None of a numeric one."""
    found: dict[str, Any] = {}
    for name, known, value in zip(features, texts, row, strict=True):
        code = None if known is None or math.isnan(value) else int(value)
        text = None if known is None or code is None else known[code] if code < len(known) else f"#{code}"
        found[name] = None if math.isnan(value) else value if text is None else text
    return found


class RecordValues:
    """Of the last alerts that somebody looked at.

    Examples
    --------
    >>> values.of(spec, connection, [{"partition": 0, "source": (17, 0)}])  # the first time it is not known yet
    [None]
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Place, dict[str, Any]] = OrderedDict()
        self._reading: asyncio.Task[None] | None = None

    def of(self, spec: Spec, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        """x and keys of each row, as `read` gives them; None of one that is not known yet, and is read from now on."""
        places = [row["source"] and (spec.name, row["partition"], *row["source"]) for row in rows]
        lacking = [place for place in places if place is not None and place not in self._kept][:AT_ONCE]
        if lacking and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read(spec, connection, lacking))
        return [None if place is None else self._kept.get(place) for place in places]

    async def _read(self, spec: Spec, connection: Connection, places: Sequence[Place]) -> None:
        try:
            for partition in sorted({place[1] for place in places}):
                own = sorted(place for place in places if place[1] == partition)
                found = await read(spec, connection, partition, [place[2:] for place in own])
                self._kept |= {p: {"x": one["x"], "keys": one["keys"]} for p, one in zip(own, found, strict=True)}
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        except (KafkaError, OSError, RiparianError, ValueError) as error:  # they are asked for again
            log.debug("records of alerts cannot be read: %s", error)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
