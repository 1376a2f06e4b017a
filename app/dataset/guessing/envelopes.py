"""Which envelope the records of a topic have, and the rows inside, as far as a guess needs them."""

import base64
import binascii
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from riparian.app.dataset.guessing.from_topic import Message, TopicSample
from riparian.topics.decoding.envelopes import AROUND, CLOUDEVENTS, CONNECT, DEBEZIUM, judged

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_CE = "ce_"
# What the path of a field begins with, where somebody writes it from the top of the record.
ABOVE = {DEBEZIUM: ("payload.after.", "after."), CONNECT: ("payload.",), CLOUDEVENTS: ("data.",)}


def unwrapped(topic: TopicSample) -> TopicSample:
    """The rows of a topic with the envelope that most of its records have; as it is where they have none. Deletes and
    what else is no row are left out; what stands around a row and may be wanted has a name that begins with AROUND."""
    found = Counter(_envelope(message) for message in topic.messages)
    envelope = max(found, key=lambda one: found[one], default=None)
    if envelope is None:
        return topic
    whole = [message._replace(value=message.raw()) for message in topic.messages]
    rows = [row for message in whole if (row := _ROWS[envelope](message)) is not None]
    return topic._replace(messages=rows, envelope=envelope)


def inside(name: str | None, topic: TopicSample) -> str | None:
    """The dotted path of a field that may be written from the top of the record, from the row on."""
    for above in ABOVE.get(topic.envelope or "", ()):
        if name is not None and name.startswith(above):
            return name.removeprefix(above)
    return name


def _envelope(message: Message) -> str | None:
    fields = message.fields
    payload = fields.get("payload")
    inside = payload if "schema" in fields and isinstance(payload, dict) else fields
    if isinstance(inside.get("op"), str) and "after" in inside and {"before", "source"} & inside.keys():
        return DEBEZIUM
    if fields.keys() == {"schema", "payload"}:
        return CONNECT
    if isinstance(fields.get("specversion"), str) and "data" in fields:
        return CLOUDEVENTS
    return CLOUDEVENTS if any(name == f"{_CE}specversion" for name, _ in message.headers) else None


def _of_debezium(message: Message) -> Message | None:
    fields = message.fields
    schema, change = (fields.get("schema"), fields["payload"]) if "schema" in fields else (None, fields)
    row = change.get("after") if isinstance(change, dict) else None
    if not isinstance(row, dict) or judged(change.get("op"), True) is not None:
        return None
    source = change.get("source")
    at = {f"{AROUND}source": {"ts_ms": source["ts_ms"]}} if isinstance(source, dict) and "ts_ms" in source else {}
    return message._replace(fields={**at, **_numbers(row, _field(schema, "after"))})


def _of_connect(message: Message) -> Message | None:
    row = message.fields.get("payload")
    return message._replace(fields=_numbers(row, message.fields.get("schema"))) if isinstance(row, dict) else None


def _of_event(message: Message) -> Message | None:
    fields = message.fields
    around, row = (fields, fields.get("data")) if "specversion" in fields else (_of_headers(message), fields)
    if not isinstance(row, dict):
        return None
    return message._replace(
        fields={**{f"{AROUND}{k}": around[k] for k in ("id", "subject", "time") if k in around}, **row}
    )


def _of_headers(message: Message) -> dict[str, str]:
    return {
        name.removeprefix(_CE): value.decode(errors="replace")
        for name, value in message.headers
        if name.startswith(_CE) and value is not None
    }


_ROWS: dict[str, Callable[[Message], Message | None]] = {
    DEBEZIUM: _of_debezium,
    CONNECT: _of_connect,
    CLOUDEVENTS: _of_event,
}


def _field(schema: Any, name: str) -> Any:
    """What a schema says of a field."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    named = fields if isinstance(fields, list) else []
    return next((field for field in named if isinstance(field, dict) and field.get("field") == name), None)


def _numbers(row: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    """A row with numbers in place of what its schema says are decimals."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        field = _field(schema, name)
        if isinstance(value, dict):
            value = _numbers(value, field)
        elif isinstance(field, dict) and field.get("name") == _DECIMAL and isinstance(value, str):
            value = _decimal(value, field.get("parameters"))
        found[name] = value
    return found


def _decimal(text: str, parameters: Any) -> float | str:
    """About what it is; the decoder says exactly."""
    try:
        number = int.from_bytes(base64.b64decode(text, validate=True), signed=True) / 10 ** int(parameters["scale"])
    except (ValueError, TypeError, KeyError, OverflowError, binascii.Error):
        return text
    return number if math.isfinite(number) else text
