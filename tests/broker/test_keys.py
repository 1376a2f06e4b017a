"""Features and labels whose clients choose partitions differently: `riparian check` sees it, and says what to do."""

import json
import time
import zlib
from typing import Any

import pytest

from riparian.app.kafka.topics.keys import Ids, Keys
from riparian.app.kafka.topics.partitioner import partitions_of
from tests.broker.clients import Sent, send
from tests.broker.harness import Page, Stream, instances, invoke

pytestmark = pytest.mark.broker
P = 4


def murmur2(key: bytes | None) -> int:
    """As Java's client, and most others."""
    return int(partitions_of([key or b""], P)[0])


def crc32(key: bytes | None) -> int:
    """As librdkafka, unless it is told otherwise."""
    return zlib.crc32(key or b"") % P


def send_by(s: Stream, role: str, records: list[Sent], partitioner: Any, keep_key: bool = True) -> None:
    for k in range(P):
        chosen = [r for r in records if partitioner(r.key) == k]
        chosen = chosen if keep_key else [r._replace(key=None) for r in chosen]
        send(s.broker, getattr(s.spec.topics, role), chosen, partition=k)


def test_the_same_partitioner_is_said_to_be_right(stream: Any) -> None:
    s = stream(partitions=P)
    assert "ids were found" not in s.riparian("check")
    features, labels = instances(3000)
    send_by(s, "features", features, crc32)
    send_by(s, "labels", labels[:2900], crc32)
    said = f"2,900 ids were found both in {s.name}.features and {s.name}.labels, all of them in the same"
    assert said in s.riparian("check")
    assert json.loads(s.riparian("check", "--json"))["ids"] == {"both": 2900, "apart": 0}


def test_two_partitioners_are_refused_with_the_cure(stream: Any) -> None:
    s = stream(partitions=P)
    features, labels = instances(5000)  # more than a sample
    send_by(s, "features", features, murmur2)
    send_by(s, "labels", labels, crc32)
    said = s.riparian("check", code=2)
    assert "have their label in another partition than their features" in said
    assert f"{s.name}.labels is not partitioned by murmur2, as the other one is, so write it with the same par" in said
    assert f"or let workers copy both topics by id: rekey: {{features: {s.name}.features, labels: {s.name}.lab" in said
    apart = json.loads(invoke("check", s.path, "--json", "--broker", s.broker).stdout.splitlines()[0])["ids"]
    assert 0.65 < apart["apart"] / apart["both"] < 0.85
    assert apart["both"] > 1000


@pytest.mark.parametrize(
    ("features", "labels", "cure"),
    [
        (Keys("f", 1000, 0, 250), Keys("l", 1000, 0, 1000), "f is not partitioned by murmur2, as the other one is"),
        (Keys("f", 1000, 0, 1000), Keys("l", 1000, 0, 250), "the same partitioner (of librdkafka: partitioner=murmur2"),
        (Keys("f", 1000, 0, 1000), Keys("l", 1000, 1000, 0), "records of l have no key, so give both topics the id as"),
    ],
)
def test_the_cure_is_that_of_the_topic_that_is_not_as_most_clients_write(
    features: Keys, labels: Keys, cure: str
) -> None:
    assert cure in Ids(1000, 750, features, labels).sentence()


def test_ids_times_and_names_that_never_meet_are_warned_of_with_one_partition_too(stream: Any) -> None:
    """Keys as JSON on one side, a feature in another case; then labels eight days later."""
    known = {"n": {"count": "card", "half_life": "7d"}, "amount": "numeric", "b": "nominal"}
    fields = {"record": {"id": "@key"}, "label": {"id": "@key"}, "features": known}
    s = stream(**fields, keys={"card": {"from": "card", "max": 9}})
    ids, now = [f"{i}" for i in range(1000, 1100)], int(time.time() * 1000)
    features = [Sent(b'{"x": {"Amount": 1, "b": 2}}', now, one.encode()) for one in ids]
    send(s.broker, s.spec.topics.features, features)
    assert "warning: no id" not in s.riparian("check")  # no labels yet
    send(s.broker, s.spec.topics.labels, [Sent(b'{"y": "u"}', now, b'"%s"' % one.encode()) for one in ids])
    said = s.riparian("check")
    assert f"warning: no id was found both in {s.name}.features and {s.name}.labels, among the first and last" in said
    assert 'features have ids such as 1000, labels such as "1000", which are equal but for quotes' in said
    assert "warning: x.amount is in none of the 100 records looked at (did you mean Amount?)" in said
    assert "x.b is in none" not in said
    send(s.broker, s.spec.topics.labels, [Sent(b'{"y": "u"}', now - 8 * 86_400_000, one.encode()) for one in ids])
    said = s.riparian("check")
    assert (
        f"warning: of 100 ids that were found both in {s.name}.features and {s.name}.labels, 100 have a label whose"
        in said
    )
    assert "compare the clocks of both" in said


def test_records_that_a_worker_would_reject_are_warned_of_by_reason(stream: Any) -> None:
    s = stream()
    features, labels = instances(100)
    now = int(time.time() * 1000)
    texts = [Sent(b'{"id": "t%d", "x": {"a": "6.59 EUR", "b": 1}}' % i, now) for i in range(3)]
    send(s.broker, s.spec.topics.features, [*features, *texts, Sent(b'{"no": "id"}', now)])
    send(s.broker, s.spec.topics.labels, [*labels, *(Sent(b'{"id": "i%d", "label": "u"}' % i, now) for i in range(9))])
    said = s.riparian("check")
    assert f"warning: 3 of 104 records of {s.name}.features are rejected: wrong-type (" in said
    assert f"warning: 1 of 104 records of {s.name}.features are rejected: missing-id (" in said
    assert f"warning: 9 of 109 records of {s.name}.labels are rejected: " in said


def test_a_rest_of_an_earlier_time_is_told_and_not_refused() -> None:
    of = Keys("f", 1000, 0, 1000)
    few = Ids(900, 3, of, of._replace(topic="l"))
    assert not few.broken
    assert "3 of 900 ids that were found both in f and l have their label in another partition" in few.sentence()
    assert few.sentence().endswith("write both with the id as their key and the same partitioner "
                                   "(of librdkafka: partitioner=murmur2_random)")  # fmt: skip
    assert not Ids(0, 0, of, of).broken


RATIO = "riparian_ids_apart_ratio"
SAID = "few labels meet their instances"


def test_a_worker_warns_once_of_features_and_labels_that_never_meet(stream: Any) -> None:
    s = stream(partitions=P)
    features, labels = instances(6000)
    page = Page()
    with s.worker(web_port=page.port) as worker:
        send_by(s, "features", features[:3000], murmur2)
        send_by(s, "labels", labels[:3000], crc32)
        worker.wait_for(SAID)
        assert 0.65 < page.value(RATIO) < 0.85
        send_by(s, "features", features[3000:], murmur2)
        send_by(s, "labels", labels[3000:], crc32)
        for k in range(P):
            n = [sum(how(r.key) == k for r in records) for how, records in ((murmur2, features), (crc32, labels))]
            s.reach(n[0], n[1], worker, k)
        assert worker.stop() == 0, worker.output[-3000:]
        (line,) = [line for line in worker.output.splitlines() if SAID in line]
    assert "WARNING" in line
    assert "partitioner=murmur2_random" in line


def test_a_worker_does_not_warn_where_few_labels_meet_for_another_reason(stream: Any) -> None:
    """Labels of 1 % of the instances, among labels of another stream's."""
    s = stream(partitions=P)
    features, labels = instances(6000)
    others = [r._replace(value=(r.value or b"").replace(b'"id": "', b'"id": "other-')) for r in labels[:4000]]
    page = Page()
    with s.worker(web_port=page.port) as worker:
        send_by(s, "features", features, murmur2)
        send_by(s, "labels", others + labels[::100], murmur2)
        worker.wait_for(SAID)
        assert page.value(RATIO) == 0.0
        assert worker.stop() == 0, worker.output[-3000:]
        assert not [line for line in worker.output.splitlines() if SAID in line and "WARNING" in line]
