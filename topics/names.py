"""Every name that is visible in Kafka: topics of a stream, headers of a dead letter, roles of models.

A stream called `elec` reads `elec.features` and `elec.labels` and writes `elec.predictions`, `elec.metrics`,
`elec.drift` and `elec.deadletters`. With `control: true` it reads `elec.control`, too, and writes `elec.events`. The
stream file can give each of them another name. With `learning: shared` all partitions learn what `elec.learned` holds.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from riparian.topics.records import Unread

FEATURES = "features"
LABELS = "labels"
PREDICTIONS = "predictions"
METRICS = "metrics"
DRIFT = "drift"
DEADLETTERS = "deadletters"
CONTROL = "control"
EVENTS = "events"
LEARNED = "learned"

# Of input topics that we create: Kafka refuses records stamped further ahead of its clock, as stream time would anyway.
TIMESTAMP_AFTER = "message.timestamp.after.max.ms"
TIMESTAMP_AFTER_MS = 60_000

# Topics that are read, and topics that are written, in the order in which people read of them.
INPUTS = (FEATURES, LABELS)  # further input logs come after these two, which every state and every prediction names
OUTPUTS = (PREDICTIONS, METRICS, DRIFT, DEADLETTERS)
STEERING = (CONTROL, EVENTS)  # of streams that take commands: one more that is read, and one more that is written

# A dead letter has the key and the value of the record as they came; the rest is in its headers.
HEADER_TOPIC = "riparian-topic"
HEADER_PARTITION = "riparian-partition"
HEADER_OFFSET = "riparian-offset"
HEADER_INDEX = "riparian-index"  # which instance of the record, where it holds several
HEADER_REASON = "riparian-reason"
HEADER_DETAIL = "riparian-detail"
HEADER_SIZE = "riparian-size"
HEADER_KEY_SIZE = "riparian-key-size"
HEADER_HEADERS_SIZE = "riparian-headers-size"

# Of a record that a retry wrote: which dead letter it was, TOPIC/PARTITION/OFFSET.
HEADER_RETRY_OF = "riparian-retry-of"
# Of a record among the dead letters that is none: the offsets of those that were retried, such as 3-17,20.
HEADER_RETRIED = "riparian-retried"

# The same under the names of Kafka Connect and Kafka Streams, for tools that know these: of topic, partition, offset,
# reason and detail. What they have besides (connector, task, stage, class, stack trace) there is none of here.
CONNECT = ("topic", "partition", "offset", "exception.class.name", "exception.message")
STREAMS = ("topic", "partition", "offset", "exception", "message")
CONVENTIONS = (
    *(f"__connect.errors.{name}" for name in CONNECT),
    *(f"__streams.errors.{name}" for name in STREAMS),
)

# Of a record that was copied from a topic of `rekey`: where it stands there, TOPIC/PARTITION/OFFSET; and, where it
# could not be read there, which records it stands for, and why.
HEADER_SOURCE = "riparian-source"
HEADER_UNREAD = "riparian-unread"

# Of a feature record and its prediction: W3C Trace Context.
HEADER_TRACE = "traceparent"
HEADER_TRACE_STATE = "tracestate"

# What nobody else's headers of a dead letter are called.
RESERVED = frozenset(
    {
        *(HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET, HEADER_INDEX, HEADER_REASON, HEADER_DETAIL),
        *(HEADER_SIZE, HEADER_KEY_SIZE, HEADER_HEADERS_SIZE, HEADER_RETRIED, *CONVENTIONS),
    }
)

# Of the names of groups and transactional ids that copy; so no stream's own name ends in it.
REKEY_END = "-rekey"

CHAMPION = "champion"

# A compressed record can be larger than what Kafka takes of us, 1 MB by default.
MAX_LETTER_BYTES = 900_000
MAX_LETTER_KEY_BYTES = 65_536
MAX_LETTER_HEADER_BYTES = 8_192
# Stands beside the offsets that workers commit. Others may set them otherwise, and the state is what counts.
CHECKPOINT = "riparian checkpoint"
MAX_TOPIC_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


# Rules by which the records of an input log take their place in the one order of a partition.
BY_TIME = "by timestamp"
AS_IT_COMES = "as it comes"  # before what is released next; predictions record the place


class InputLog(NamedTuple):
    """A topic whose records a partition applies.

    role : FEATURES, LABELS, or that of a further log. What records and states call its offsets follows from it
    topic : its name in Kafka
    rule : how it is merged with the others, BY_TIME or AS_IT_COMES
    """

    role: str
    topic: str
    rule: str = BY_TIME


def state_field(role: str, what: str) -> str:
    """The name under which a state has something of an input log: `feature_offset`, `label_time`, `control_offset`."""
    return f"{role.removesuffix('s') if role in INPUTS else role}_{what}"


def place_field(role: str, what: str = "offset") -> str:
    """The name of the field with the place where an input log stood: `offset`, `label_offset`, `control_offset`.

    what : or "index", which instance of its record."""
    return what if role == FEATURES else state_field(role, what)


class Topics(NamedTuple):
    """The topics of one stream. labels : None where labels only come inside the feature record."""

    features: str
    labels: str | None
    predictions: str
    metrics: str
    drift: str
    deadletters: str
    control: str | None = None
    events: str | None = None
    learned: str | None = None


def topic_name(stream: str, role: str) -> str:
    """The name of a stream's topic unless the stream file names another: `elec.predictions`."""
    return f"{stream}.{role}"


def group_id(stream: str, prefix: str = "") -> str:
    """The consumer group of a stream's workers. prefix : the stream file's `kafka.prefix`."""
    return f"{prefix}riparian-{stream}"


def client_id(prefix: str = "") -> str:
    """By which a broker's logs and quotas know our clients, where the stream file has a prefix and no `client.id`."""
    return f"{prefix}riparian"


def transactional_id(stream: str, partition: int) -> str:
    """The id that the owners of a partition share. It has no prefix: owners under two prefixes have to fence each
    other, and a changed prefix must not let an owner of before go on writing."""
    return f"riparian-{stream}-{partition}"


def log_id(stream: str) -> str:
    """The id of whoever has all partitions of a stream, and appends for all of them to the log that they share."""
    return f"riparian-{stream}-{LEARNED}"


def retry_id(stream: str, partition: int) -> str:
    """The transactional id of retries of a partition's dead letters. That of a partition's owner ends in digits."""
    return f"riparian-{stream}-{partition}-retry"


def rekey_group(stream: str, prefix: str = "") -> str:
    """The consumer group in which a stream's workers copy the topics of `rekey`."""
    return f"{group_id(stream, prefix)}{REKEY_END}"


def rekey_id(stream: str, token: str) -> str:
    """The transactional id of one owner of topics of `rekey`, for one assignment. token : nobody else's."""
    return f"riparian-{stream}-{token}{REKEY_END}"


def source_of(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, int, int] | None:
    """The topic, partition and offset that a record was copied from; None where it was not. The last header counts."""
    found = None
    for name, value in headers:
        if name == HEADER_SOURCE:
            found = value
    topic, _, rest = (found or b"").decode("utf-8", "replace").partition("/")
    partition, _, offset = rest.partition("/")
    # Kafka's numbers have at most 19 digits, and of more than 4,300 Python makes none.
    numbers = all(text.isdecimal() and len(text) < 20 for text in (partition, offset))
    return (topic, int(partition), int(offset)) if numbers else None


def changelog_topic(stream: str) -> str:
    """The topic of a stream's state, whatever the prefix: a changed one does not lose it."""
    return f"{group_id(stream)}-state-changelog"


def check_topic_name(name: str) -> None:
    """ValueError with what is wrong where Kafka would refuse `name`."""
    if not name:
        raise ValueError("expected a topic name, found nothing; write one or leave the line out")
    if len(name) > MAX_TOPIC_LENGTH:
        raise ValueError(
            f"expected a topic name of at most {MAX_TOPIC_LENGTH} characters, found {len(name)}; shorten it"
        )
    if name in (".", "..") or _LEGAL.fullmatch(name) is None:
        raise ValueError(f'expected a topic name of letters, digits, ".", "_" and "-", found "{name}"; rename it')


def dead_letter(
    key: bytes | None, value: bytes | None, room: int = MAX_LETTER_BYTES
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """Key and value of a dead letter, truncated where Kafka might refuse them; headers then give their original sizes.

    There is no value if it could not be read."""
    headers: list[tuple[str, bytes]] = []
    if isinstance(value, Unread):
        return key, None, headers
    longest = max(0, min(MAX_LETTER_KEY_BYTES, room))
    if key is not None and len(key) > longest:
        headers.append((HEADER_KEY_SIZE, b"%d" % len(key)))
        key = key[:longest]
    most = max(0, min(MAX_LETTER_BYTES, room - len(key or b"")))
    if value is not None and len(value) > most:
        headers.append((HEADER_SIZE, b"%d" % len(value)))
        value = value[:most]
    return key, value, headers


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """The headers that a rejected record came with, as its dead letter has them: without those that we write, and where
    they are larger than a letter keeps, their size in place of all but HEADER_SOURCE."""
    own = [(name, value) for name, value in headers if name not in RESERVED]
    size = sum(len(name.encode()) + len(value or b"") for name, value in own)
    if size <= MAX_LETTER_HEADER_BYTES:
        return own
    return [*[one for one in own if one[0] == HEADER_SOURCE][-1:], (HEADER_HEADERS_SIZE, b"%d" % size)]


def dead_letter_headers(
    topic: str, partition: int, offset: int, reason: str, detail: str, index: int | None = None
) -> list[tuple[str, bytes]]:
    """Headers with where a dead letter came from and why it is one. All values are UTF-8 text.

    index : which instance of the record, where it holds several."""
    names = (HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET, HEADER_REASON, HEADER_DETAIL)
    about = (topic.encode(), b"%d" % partition, b"%d" % offset, reason.encode(), detail.encode("utf-8", "replace"))
    which = [] if index is None else [(HEADER_INDEX, b"%d" % index)]
    return [*zip((*names, *CONVENTIONS), about * 3, strict=True), *which]
