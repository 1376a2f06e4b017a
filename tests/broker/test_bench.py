"""The benchmark at a tiny size on a real Kafka: it ends, counts what it should, and writes every figure. No times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.broker

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "--instances": "6000",
    "--plain": "200",
    "--partitions": "2",
    "--batch-records": "500",
    "--rates": "200",
    "--seconds": "1",
    "--budget-instances": "3000",
    "--memory": "4000",
}


@pytest.fixture(scope="module")
def result(broker, tmp_path_factory):
    """The figures of one tiny run."""
    target = tmp_path_factory.mktemp("bench") / "figures.json"
    command = [sys.executable, "-m", "benchmarks.end_to_end", "--quick", "--broker", broker, "--json", str(target)]
    command += [part for pair in TINY.items() for part in pair]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(target.read_text())
    figures["shown"] = done.stdout
    return figures


def test_every_part_is_written_with_where_it_ran(result):
    assert set(result) == {
        *("date", "machine", "versions", "settings", "throughput", "budget", "latency", "memory", "goals", "shown"),
    }
    assert result["machine"]["cores"] >= 1
    assert set(result["versions"]) == {"riparian", "python", "kafka", "numba", "numpy", "faust", "aiokafka"}
    assert result["settings"]["instances"] == 6000
    for word in ("riparian worker", "plain Faust agent", "bare aiokafka", "decode features", "resident", "Goals"):
        assert word in result["shown"]


def test_worker_and_floors_went_over_all_records(result):
    (part,) = result["throughput"]
    assert part["partitions"] == 2
    (once,) = part["rounds"]
    assert once["worker"]["predictions"] == once["worker"]["learned"] == 6000
    assert once["plain"]["learned"] == 200
    # The first fetch of the bare loop and the first stamp of the worker are where their clocks begin.
    assert 0 < once["bare"]["n"] <= 12_000
    assert 0 < once["worker"]["n"] <= 6000
    for name in ("worker_over_bare", "worker_over_plain"):
        ratio = part["ratios"][name]
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]


def test_the_budget_covers_every_stage_of_every_instance(result):
    budget = result["budget"]
    assert all(us >= 0 for us in budget["us"].values())
    assert budget["sum_us"] == pytest.approx(sum(budget["us"].values()))
    (once,) = budget["rounds"]
    assert once["n"] == once["learned"] == 3000


def test_latency_has_an_answer_for_every_instance_of_worker_and_echo(result):
    (part,) = result["latency"]
    for role in ("echo", "worker"):
        (once,) = part["rounds"][role]
        assert once["n"] == 200
        assert 0 < once["p50"] <= once["p90"] <= once["p99"] <= once["max"]


def test_memory_is_sampled_to_the_last_instance(result):
    memory = result["memory"]
    assert memory["instances"][-1] == 4000
    assert len(memory["resident_mb"]) == len(memory["instances"]) == len(memory["state_mb"])
    assert memory["peak_mb"] >= max(memory["resident_mb"]) > 0


def test_goals_name_what_was_found(result):
    assert [goal["name"] for goal in result["goals"]] == ["worker_over_bare", "worker_over_plain", "memory"]
    for goal in result["goals"]:
        assert goal["met"] == (goal["value"] >= goal["goal"] if goal["sign"] == ">=" else goal["value"] <= goal["goal"])
