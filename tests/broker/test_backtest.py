"""Other models on the records that topics hold: a stream's own models come to the figures of its workers."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import cli
from tests.broker.harness import Sent, Worker, create_topics, instances, read, send, stream_file, wait_for_state

pytestmark = pytest.mark.broker

N = 1500


def run(*arguments: object) -> Any:
    done = CliRunner().invoke(cli, ["backtest", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def test_models_of_a_stream_do_as_its_worker_says(broker: str, tmp_path: Path, topic_name: str) -> None:
    fields = {"learning": "partition", "control": True, "challengers": {"nb": "naive-bayes"}}
    path, spec = stream_file(tmp_path, topic_name, partitions=2, **fields)
    create_topics(spec, broker)
    features, labels = instances(2 * N)
    given = [features[p::2] for p in range(2)]
    given[0].insert(50, Sent(b"{oops", given[0][49].time, b"k"))
    for p in range(2):
        send(broker, spec.topics.features, given[p], partition=p)
        send(broker, spec.topics.labels or "", labels[p::2], partition=p)
    before = run(path, "--broker", broker, "--json")  # no worker has ever run: the topics of predictions are empty
    with Worker(path, broker, tmp_path) as worker:
        for p in range(2):
            wait_for_state(broker, spec, len(given[p]), len(labels[p::2]), p, worker)
        assert worker.stop() == 0, worker.output[-3000:]
    found = run(path, "--broker", broker, "--json")
    assert [one["model"] for one in found["models"]] == ["hoeffding-tree", "naive-bayes"]
    for role, one in zip(("champion", "nb"), found["models"], strict=True):
        for part in one["partitions"]:
            p = part["partition"]
            records = [json.loads(r.value) for r in read(broker, spec.topics.metrics, p)]
            last = [record for record in records if record.get("model") == role][-1]
            assert part["overall"] == last["overall"]
            assert part["recent"] == last["window"]
            assert (part["recorded"], part["instances"]) == (len(given[p]) - (p == 0),) * 2
            assert part["rejected"] == (p == 0)
        assert one["overall"]["n"] == sum(part["overall"]["n"] for part in one["partitions"])
    # By timestamps alone it is the same here, since all records were there before the first was taken.
    assert [m["overall"] for m in before["models"]] == [m["overall"] for m in found["models"]]
    assert [part["recorded"] for m in before["models"] for part in m["partitions"]] == [0] * 4

    other = run(path, "--broker", broker, "--json", "--partition", 1, "--model", "last-label", "--model", "naive-bayes")
    alone = found["models"][1]["partitions"][1]
    assert other["models"][1]["partitions"][0]["overall"] == alone["overall"]
    assert other["models"][0]["partitions"][0]["overall"]["accuracy"] < alone["overall"]["accuracy"]
    grid = ("--model", "naive-bayes", "--model", "hoeffding-tree", "--grid", "grace_period=50,200")
    few = run(path, "--broker", broker, "--json", "--partition", 1, *grid, "--limit", 400)
    assert [one["parameters"].get("grace_period") for one in few["models"]] == [None, 50, 200]
    assert {(one["partitions"][0]["instances"], one["overall"]["n"]) for one in few["models"]} == {(400, 400)}
    shown = run(path, "--broker", broker, "--model", "last-label")
    assert "last-label" in shown
    assert "records that could not be read: 1" in shown


def test_a_model_that_is_none_is_a_sentence(broker: str, tmp_path: Path, topic_name: str) -> None:
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    done = CliRunner().invoke(cli, ["backtest", str(path), "--broker", broker, "--model", "naive-bays"])
    assert "naive-bayes" in str(done.exception)
    assert done.exit_code != 0
