"""The benchmark at a tiny size on a real Kafka: it ends, counts what it should, and writes every figure. No times."""

import json
import os

import pytest

from tests import forkserver
from tests.broker.harness import PATIENCE, ROOT

pytestmark = pytest.mark.broker

TINY = {
    "--instances": "3000",
    "--plain": "100",
    "--partitions": "2",
    "--batch-records": "500",
    "--rates": "200",
    "--seconds": "1",
    "--budget-instances": "1000",
    "--memory": "2000",
}


def figures(tmp_path, module, *arguments):
    """The figures of a benchmark, and what it showed."""
    environment = {**os.environ, "RIPARIAN_RESULTS": str(tmp_path)}
    command = ["tests.forked", f"benchmarks.{module}", *arguments]
    done = forkserver.run(command, env=environment, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((tmp_path / f"{module}.json").read_text())["figures"], done.stdout


def test_every_part_of_the_benchmark_goes_over_all_records(broker, tmp_path):
    sizes = [part for pair in TINY.items() for part in pair]
    result, shown = figures(tmp_path, "end_to_end", "--quick", "--broker", broker, *sizes)
    parts = {"machine", "versions", "settings", "throughput", "budget", "latency", "memory", "goals"}
    assert parts <= set(result)
    assert result["machine"]["cores"] >= 1
    assert set(result["versions"]) == {"riparian", "python", "kafka", "numba", "numpy", "faust", "aiokafka"}
    assert result["settings"]["instances"] == 3000
    for word in ("riparian worker", "plain Faust agent", "bare aiokafka", "decode features", "resident", "Goals"):
        assert word in shown

    (part,) = result["throughput"]
    assert part["partitions"] == 2
    (once,) = part["rounds"]
    assert once["worker"]["predictions"] == once["worker"]["learned"] == 3000
    assert once["plain"]["learned"] == 100
    # The first fetch of the bare loop and the first stamp of the worker are where their clocks begin.
    assert 0 < once["bare"]["n"] <= 6000
    assert 0 < once["worker"]["n"] <= 3000
    for name in ("worker_over_bare", "worker_over_plain"):
        ratio = part["ratios"][name]
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]

    budget = result["budget"]
    assert all(us >= 0 for us in budget["us"].values())
    assert budget["sum_us"] == pytest.approx(sum(budget["us"].values()))
    (once,) = budget["rounds"]
    assert once["n"] == once["learned"] == 1000

    (part,) = result["latency"]
    for role in ("echo", "worker"):
        (once,) = part["rounds"][role]
        assert once["n"] == 200
        assert 0 < once["p50"] <= once["p90"] <= once["p99"] <= once["max"]

    memory = result["memory"]
    assert memory["instances"][-1] == 2000
    assert len(memory["resident_mb"]) == len(memory["instances"]) == len(memory["state_mb"])
    assert memory["peak_mb"] >= max(memory["resident_mb"]) > 0

    assert [goal["name"] for goal in result["goals"]] == ["worker_over_bare", "worker_over_plain", "memory"]
    for goal in result["goals"]:
        assert goal["met"] == (goal["value"] >= goal["goal"] if goal["sign"] == ">=" else goal["value"] <= goal["goal"])


def test_contestants_at_a_live_rate_answer_every_instance(broker, tmp_path):
    sizes = ("--partitions", "2", "--rate", "100", "--seconds", "1", "--contestants", "loop,partition")
    result, shown = figures(tmp_path, "live", "--broker", broker, "--beside", ROOT, *sizes)
    assert list(result["results"]["2"]) == ["loop", "partition-before", "partition"]
    for (once,) in result["results"]["2"].values():
        assert once["n"] == 100
        assert 0 < once["p50"] <= once["p99"]
        assert once["cpu_us"] > 0
    assert "worker, models each, before" in shown


def test_the_benchmark_of_fencing_sends_three_ways(broker, tmp_path):
    result, shown = figures(tmp_path, "fencing", "--small", "--broker", broker)
    assert [part["records"] for part in result["sends"]] == [2000, 50]
    for part in result["sends"]:
        (once,) = part["rounds"]
        assert all(0 < once[way]["p50"] <= once[way]["p99"] for way in ("plain", "fenced", "transactions"))
        assert part["ratios"]["fenced"]["p50"]["median"] == once["fenced"]["p50"] / once["plain"]["p50"]
    assert result["fence_ms"]["fenced"]["median"] > 0
    assert "transactions" in shown


@pytest.mark.parametrize("module", ["endurance", "failover", "floods", "kafka_peers", "state"])
def test_a_benchmark_that_takes_minutes_says_what_it_takes(module):
    """Runs of it are campaigns."""
    done = forkserver.run([f"benchmarks.{module}", "--help"], timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
