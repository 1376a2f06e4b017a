"""Other models on the records that topics hold: a stream's own models come to the figures of its workers."""

import json
from typing import Any

import pytest

from tests.broker.clients import Sent, send
from tests.broker.harness import instances

pytestmark = pytest.mark.broker

N = 1500


def test_models_of_a_stream_do_as_its_worker_says(stream: Any) -> None:
    s = stream(partitions=2, learning="partition", control=True, challengers={"nb": "naive-bayes"})
    features, labels = instances(2 * N)
    given = [(features[p::2], labels[p::2]) for p in range(2)]
    given[0][0].insert(50, Sent(b"{oops", given[0][0][49].time, b"k"))
    for p in range(2):
        s.give(given[p], partition=p)

    def run(*arguments: object) -> Any:
        return json.loads(s.riparian("backtest", "--json", *arguments))

    before = run()  # no worker has ever run: the topics of predictions are empty
    with s.worker() as worker:
        for p in range(2):
            s.reach(len(given[p][0]), N, worker, p)
        assert worker.stop() == 0, worker.output[-3000:]
    found = run()
    assert [one["model"] for one in found["models"]] == ["hoeffding-tree", "naive-bayes"]
    for role, one in zip(("champion", "nb"), found["models"], strict=True):
        for part in one["partitions"]:
            p = part["partition"]
            records = [json.loads(r.value) for r in s.read("metrics", p)]
            last = [record for record in records if record.get("model") == role][-1]
            assert part["overall"] == last["overall"]
            assert part["recent"] == last["window"]
            assert (part["recorded"], part["instances"]) == (N, N)
            assert part["rejected"] == (p == 0)
        assert one["overall"]["n"] == sum(part["overall"]["n"] for part in one["partitions"])
    # By timestamps alone it is the same here, since all records were there before the first was taken.
    assert [m["overall"] for m in before["models"]] == [m["overall"] for m in found["models"]]
    assert [part["recorded"] for m in before["models"] for part in m["partitions"]] == [0] * 4

    other = run("--partition", 1, "--model", "last-label", "--model", "naive-bayes")
    alone = found["models"][1]["partitions"][1]
    assert other["models"][1]["partitions"][0]["overall"] == alone["overall"]
    assert other["models"][0]["partitions"][0]["overall"]["accuracy"] < alone["overall"]["accuracy"]
    grid = ("--model", "naive-bayes", "--model", "hoeffding-tree", "--grid", "grace_period=50,200")
    few = run("--partition", 1, *grid, "--limit", 400)
    assert [one["parameters"].get("grace_period") for one in few["models"]] == [None, 50, 200]
    assert {(one["partitions"][0]["instances"], one["overall"]["n"]) for one in few["models"]} == {(400, 400)}
    shown = s.riparian("backtest", "--model", "last-label")
    assert "last-label" in shown
    assert "records that could not be read: 1" in shown
    assert "naive-bayes" in s.riparian("backtest", "--model", "naive-bays", code=2)


LATE = {
    "classes": ["no", "yes"],
    "keys": {"card": {"from": "@key", "max": 100}},
    "features": {
        "a": "numeric", "b": "numeric", "c": "nominal", "n": {"count": "card"}, "share": {"share": "yes", "by": "card"},
    },
    "join": {"horizon": "2s", "unlabelled": {"is": "no", "after": "300ms"}},
    "predictions": {"calibrated": "matured"},
}  # fmt: skip
FORECAST = {"label": {"of": "a", "ahead": "20ms", "above": 0.5}, "topics": {"labels": None}}


@pytest.mark.parametrize("kind", [LATE, FORECAST])
def test_a_stream_with_late_labels_or_its_own_does_as_its_worker_says(stream: Any, kind: Any) -> None:
    s = stream(partitions=1, **kind)
    features, labels = instances(N, delay=400)
    cards = [Sent(one.value, one.time, b"card-%d" % (i % 40)) for i, one in enumerate(features)]
    few = [one for one in labels if b"yes" in one.value][::2]
    n_labels = 0 if kind is FORECAST else len(few)
    send(s.broker, s.spec.topics.features, cards)
    if n_labels:
        send(s.broker, s.spec.topics.labels, few)
    s.run(N, n_labels)
    records = [json.loads(r.value) for r in s.read("metrics")]
    last = [record for record in records if record.get("model") == "champion"][-1]
    (found,) = json.loads(s.riparian("backtest", "--json"))["models"][:1]
    (part,) = found["partitions"]
    assert (part["overall"], part["recent"]) == (last["overall"], last["window"])
    assert part["overall"]["n"] > N / 2
