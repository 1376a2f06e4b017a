"""A stream file that was changed between two workers: what goes on, and what is refused."""

import pytest

from riparian.app.errors import StateError
from tests.broker.clients import send
from tests.broker.harness import instances

pytestmark = pytest.mark.broker


def test_a_challenger_is_added_and_another_becomes_champion(stream):
    s = stream()
    n = 1000
    features, labels = instances(2 * n, delay=50)
    send(s.broker, s.spec.topics.features, features[:n])
    send(s.broker, s.spec.topics.labels, labels[: n - 100])
    before = s.run(n, n - 100)
    assert {role.metrics.metrics()["n"] for role in before.roles.values()} == {n - 100}
    at = s.holds().checkpoints[-1].sequence
    spec = s.spec

    tree = {"model": "hoeffding-tree", "grace_period": 50}
    s.change(champion="naive-bayes", challengers={"tree": tree, "most": "majority-class"})
    shown = s.riparian("check")
    assert f"state of partition 0, checkpoint {at:,}: goes on\n" in shown
    assert "  restarted: challengers.most (majority-class) is new and starts afresh\n" in shown
    send(s.broker, s.spec.topics.features, features[n:])
    send(s.broker, s.spec.topics.labels, labels[n - 100 :])
    with s.worker() as worker:
        learner = s.reach(2 * n, worker=worker)
        assert worker.stop() == 0
        for sentence in (
            "partition 0: champion is naive-bayes (window none) and goes on with state and metrics of challengers.nb",
            "partition 0: challengers.tree is hoeffding-tree (grace_period 50, ",
            "partition 0: challengers.most (majority-class) is new and starts afresh",
            "partition 0: what challengers.last (last-label) has learned is dropped",
        ):
            assert sentence in worker.output
    sent = s.predictions()
    assert [one["offset"] for one in sent] == list(range(2 * n))
    assert {one["model"] for one in sent[:n]} == {"hoeffding-tree"}
    assert {one["model"] for one in sent[n:]} == {"naive-bayes"}
    counted = {name: role.metrics.metrics()["n"] for name, role in learner.roles.items()}
    assert counted == {"champion": 2 * n, "tree": 2 * n, "most": n}  # not of the 100 that waited
    assert learner.origin == [n, n - 100, 1]

    # The proof begins where the stream file was changed, and reaches back to there.
    with pytest.raises(
        StateError, match=rf"does not follow from its records from the beginning on: .*at offset {n:,} .*--from {at}"
    ):
        s.audit()
    report = s.holds(start=at)
    assert report.n_predictions == n
    assert report.checkpoints[-1].digest == learner.digest()
    # Before that, it is the stream file of then that it holds for.
    s.spec = spec
    assert s.holds(until=at).n_predictions == n


def test_what_is_refused_ends_the_worker_with_a_sentence_and_changes_nothing(stream):
    s = stream()
    s.give(instances(200))
    before = s.run(200).digest()
    assert "goes on as it is" in s.riparian("check")
    spec, other = s.spec, f"{s.name}.other"
    sentence = f"topics.labels was {spec.topics.labels}, is {other}"
    s.change(topics={"labels": other})
    assert sentence in s.riparian("check", code=2)
    assert sentence in s.fails()
    s.spec = spec
    assert s.stored().digest() == before
