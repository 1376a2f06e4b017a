"""Every name that goes on the wire: topics of a stream, headers of a dead letter, roles of models.

A stream called `elec` reads `elec.features` and `elec.labels` and writes `elec.predictions`, `elec.metrics`,
`elec.drift` and `elec.deadletters`. The stream file can name any of them otherwise.
"""

import re
from typing import NamedTuple

FEATURES = "features"
LABELS = "labels"
PREDICTIONS = "predictions"
METRICS = "metrics"
DRIFT = "drift"
DEADLETTERS = "deadletters"

# Topics that are read, and topics that are written, in the order in which people are told about them.
INPUTS = (FEATURES, LABELS)
OUTPUTS = (PREDICTIONS, METRICS, DRIFT, DEADLETTERS)

# A dead letter has the key and the value of the record as they came; the rest is in its headers.
HEADER_TOPIC = "riparian-topic"
HEADER_PARTITION = "riparian-partition"
HEADER_OFFSET = "riparian-offset"
HEADER_REASON = "riparian-reason"
HEADER_DETAIL = "riparian-detail"

CHAMPION = "champion"

HEADER_SIZE = "riparian-size"
HEADER_KEY_SIZE = "riparian-key-size"
# A compressed record can be larger than what Kafka takes of us, 1 MB by default.
MAX_LETTER_BYTES = 900_000
MAX_LETTER_KEY_BYTES = 65_536
MAX_TOPIC_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class Topics(NamedTuple):
    """The topics of one stream. labels : None where labels only come inside the feature record."""

    features: str
    labels: str | None
    predictions: str
    metrics: str
    drift: str
    deadletters: str


def topic_name(stream: str, role: str) -> str:
    """The name of a stream's topic unless the stream file says otherwise: `elec.predictions`."""
    return f"{stream}.{role}"


def group_id(stream: str) -> str:
    """The consumer group of a stream's workers."""
    return f"riparian-{stream}"


def changelog_topic(stream: str) -> str:
    """The topic of a stream's state, as Faust names the changelog of the app's table."""
    return f"{group_id(stream)}-state-changelog"


def default_topics(stream: str) -> Topics:
    """The topics of a stream that names none of them."""
    return Topics(*(topic_name(stream, role) for role in (*INPUTS, *OUTPUTS)))


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


def dead_letter(key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """Key and value of a dead letter, cut off where Kafka might refuse them; then headers say the sizes they had."""
    headers = []
    if key is not None and len(key) > MAX_LETTER_KEY_BYTES:
        headers.append((HEADER_KEY_SIZE, b"%d" % len(key)))
        key = key[:MAX_LETTER_KEY_BYTES]
    if value is not None and len(value) > MAX_LETTER_BYTES:
        headers.append((HEADER_SIZE, b"%d" % len(value)))
        value = value[:MAX_LETTER_BYTES]
    return key, value, headers


def dead_letter_headers(topic: str, partition: int, offset: int, reason: str, detail: str) -> list[tuple[str, bytes]]:
    """Headers that say where a dead letter came from and why it is one. All values are UTF-8 text."""
    return [
        (HEADER_TOPIC, topic.encode()),
        (HEADER_PARTITION, b"%d" % partition),
        (HEADER_OFFSET, b"%d" % offset),
        (HEADER_REASON, reason.encode()),
        (HEADER_DETAIL, detail.encode("utf-8", "replace")),
    ]
