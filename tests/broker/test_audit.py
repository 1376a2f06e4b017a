"""`riparian audit` on real Kafka: holds for workers that were killed, and names what was altered."""

import json

import pytest

from tests.broker.clients import Sent, delete_before, send
from tests.broker.harness import Stream, instances

pytestmark = pytest.mark.broker

N = 3000
POISON = [None, b"{", b'{"id": "0000001", "x": {"a": "high"}}', b"[]"]
POISONED = range(150, 2500, 200)
HELD_BACK = 600  # last records of each topic, which are sent once the last worker runs


def audited(s, start=None, until=None):
    """The report as the option --json prints it."""
    return json.loads(json.dumps(s.audit(start=start, until=until).plain()))


def records():
    """Features and labels: poison in both, labels that come late, before their features, twice, and never."""
    features, labels = instances(N, delay=40)
    late = [label._replace(time=label.time + 700) for label in labels[::9]]
    early = [label._replace(time=label.time - 60) for label in labels[1::9]]
    others = [label for i, label in enumerate(labels) if i % 9 > 1 and i % 50 != 5]
    labels = sorted([*late, *early, *others, *others[::100]], key=lambda label: label.time)
    for k, i in enumerate(POISONED):
        features.insert(i, features[i]._replace(value=POISON[k % 3]))
        labels.insert(i, labels[i]._replace(value=POISON[k % 4]))
    return features, labels


def test_what_killed_workers_did_holds_and_what_is_altered_is_named(stream):
    fields = {
        "checkpoint": {"every": "100ms", "keep": 100, "keep_every": "0s"},
        "predictions": {"challengers": True},
        "join": {"max_wait": "30s", "horizon": "2s", "max_labels": 100},
    }
    s = stream(**fields)
    assert "has no state in partition 0 yet" in s.riparian("audit", code=2)
    rows = records()
    n, n_labels = map(len, rows)
    with s.giving((rows[0][:-HELD_BACK], rows[1][:-HELD_BACK]), pause=0.1, chunk=100):
        for _ in range(2):
            with s.worker(place="w") as worker:
                before = len(s.predictions())
                s.reach(min(before + 300, n - HELD_BACK), before // 2, worker)
                if before:
                    s.holds()  # while it runs
                worker.kill()
    with s.worker(place="w") as worker:
        for left in range(HELD_BACK, 0, -100):  # a checkpoint each, however slow the machine is
            s.give((rows[0][n - left : n - left + 100], rows[1][n_labels - left : n_labels - left + 100]))
            learner = s.reach(n - left + 100, n_labels - left + 100, worker)
        worker.kill()
    assert all(learner.pending.counts[name] for name in ("joined", "expired", "repeated_labels"))

    sent = s.predictions()
    (found,) = json.loads(s.riparian("audit", "--json"))["partitions"]
    assert found["holds"]
    assert found["predictions"] == len(sent) == n - len(POISONED)
    assert found["until"] == {"sequence": 0, "offset": n, "label_offset": n_labels}
    sequences = [one["sequence"] for one in found["checkpoints"]]
    assert len(sequences) > 5
    assert found["checkpoints"][-1]["digest"] == learner.digest()

    # From one checkpoint to another.
    begin, until = (found["checkpoints"][i] for i in (1, 4))
    part = audited(s, begin["sequence"], until["sequence"])
    assert part["from"] == {name: begin[name] for name in ("sequence", "offset", "label_offset")}
    assert part["until"] == {name: until[name] for name in ("sequence", "offset", "label_offset")}
    assert part["predictions"] == sum(begin["offset"] <= one["offset"] < until["offset"] for one in sent)
    assert [one["sequence"] for one in part["checkpoints"]] == sequences[2:5]

    # The same stream, with one of its topics altered.
    def other(role, change):
        rows = [Sent(r.value, r.timestamp, r.key) for r in s.read(role)]
        change(rows)
        name = f"{s.name}-{len(list(s.folder.glob('*.yaml')))}"
        altered = Stream(s.broker, s.folder, name, **fields, topics={**s.spec.topics.model_dump(), role: name})
        altered.path.write_text(altered.path.read_text().replace(f"name: {name}", f"name: {s.name}", 1))
        send(s.broker, name, rows)
        altered.load()
        return altered, audited(altered)

    at = N // 2
    place = {name: sent[at][name] for name in ("offset", "label_offset")}

    def alter(rows):
        rows[at] = rows[at]._replace(value=json.dumps({**sent[at], "p": {"yes": 0.123}}).encode())
        del rows[at + 100]
        rows.insert(at + 200, rows[at + 150])
        rows[at + 300], rows[at + 301] = rows[at + 301], rows[at + 300]

    altered, found = other("predictions", alter)
    assert found["counts"] == {"different": 1, "missing": 1, "repeated": 1, "out-of-order": 1}
    first = found["first"]
    assert {name: first[name] for name in place} == place
    assert (first["kind"], first["position"], first["sent"]["p"]) == ("different", at, {"yes": 0.123})
    assert first["made"]["p"] == sent[at]["p"]
    assert [one["offset"] for one in found["differences"]["missing"]] == [sent[at + 100]["offset"]]
    assert [one["offset"] for one in found["differences"]["repeated"]] == [sent[at + 151]["offset"]]
    assert all(one["equal"] for one in found["checkpoints"])
    said = altered.riparian("audit", code=1)
    assert (
        f"different, feature offset {place['offset']:,}, label offset {place['label_offset']:,}, at {at:,} of" in said
    )
    assert "the fold gives: {" in said

    turned = max(
        at, found["checkpoints"][0]["label_offset"]
    )  # behind a checkpoint, however late the first one was written

    def turn(rows):
        for i in range(turned, turned + 20):  # one of them is neither late nor a second one
            value = rows[i].value and rows[i].value.replace(b'"yes"', b'"no!"').replace(b'"no"', b'"yes"')
            rows[i] = rows[i]._replace(value=value and value.replace(b'"no!"', b'"no"'))

    _, found = other("labels", turn)
    assert found["first"]["label_offset"] > turned
    assert {one["equal"] for one in found["checkpoints"] if one["label_offset"] <= turned} == {True}
    assert {one["equal"] for one in found["checkpoints"] if one["label_offset"] > turned} == {False}

    def cut(rows):
        del rows[at:]

    _, found = other("features", cut)
    assert found["first"]["offset"] == min(one["offset"] for one in sent if one["offset"] >= at)
    assert set(found["counts"]) == {"unfounded"}

    # Retention has taken the beginning.
    delete_before(s.broker, s.spec.topics.features, begin["offset"] + 1)
    sentence = s.riparian("audit", code=2)
    later = next(one["sequence"] for one in part["checkpoints"] if one["offset"] > begin["offset"])
    assert f"--from {later}" in sentence
    assert "do not reach back to the beginning" in sentence
    assert " compared: all equal" in s.riparian("audit", "--from", later)
