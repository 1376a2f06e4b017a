"""The benchmark at a tiny size on a real Kafka: it ends, counts what it should, and writes every figure. No times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.harness import PATIENCE

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
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=2 * PATIENCE)
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


def small(module, broker, tmp_path):
    """The figures of `python -m benchmarks.MODULE --small`, and what it showed."""
    target = tmp_path / "figures.json"
    command = [sys.executable, "-m", f"benchmarks.{module}", "--small", "--broker", broker, "--json", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(target.read_text()), done.stdout


def test_the_benchmark_of_state_grows_kills_checkpoints_and_compares(broker, tmp_path):
    figures, shown = small("state", broker, tmp_path)
    assert figures["grown"]["n_leaves"] == 50
    assert figures["grown"]["state_bytes"] > 2_000_000
    (recovery,) = figures["recovery"]["runs"]
    assert 0 < recovery["counted"] < recovery["total"]
    steady = figures["steady"]
    assert steady["n"] == 8 <= steady["n_made"]
    # A checkpoint after one leaf of 50 has learned is no whole one.
    assert 0 < steady["bytes"]["scattered"]["median"] < figures["grown"]["live_bytes"] / 4
    assert steady["log_bytes"] >= steady["live_bytes"] > 0
    assert steady["pauses"]["n"] == steady["n_made"]
    (pair,) = figures["large"]["rounds"]
    assert set(pair) == {"on", "off"}
    assert pair["off"]["checkpoints"] == 0
    whole, *_ = (row["whole"] for row in figures["rows"])
    assert all(0 < row["contiguous"] <= row["scattered"] < whole for row in figures["rows"])
    assert "Process start to ready" in shown


def test_the_benchmark_of_failover_ends_owners_in_each_way_and_loses_nothing(broker, tmp_path):
    figures, shown = small("failover", broker, tmp_path)
    killed, stopped, named, unnamed = figures["scenarios"]
    assert (killed["signal"], stopped["signal"]) == ("SIGKILL", "SIGTERM")
    for scenario in (killed, stopped):
        (end,) = scenario["ends"]
        # The parts lie one after the other, and end with the prediction that was seen.
        parts = sum(end[part] for part in ("detect", "rebalance", "load", "answer", "seen"))
        assert parts == pytest.approx(end["total"], abs=1e-6)
        assert end["gap"] > 0
        assert scenario["instances"] > 0
    for scenario in (named, unnamed):
        (again,) = scenario["ends"]
        # Where it got its partition back, which depends on how long the start took.
        assert sum(again.get(part, 0.0) for part in ("start", "load", "answer", "seen")) <= again["total"]
        assert again["gap"] > 0
    assert [goal["value"] for goal in figures["goals"]] == [killed["max"]["total"], named["median"]["total"]]
    assert "kill -9 to the first new prediction" in shown


def test_the_benchmark_of_fencing_sends_three_ways(broker, tmp_path):
    figures, shown = small("fencing", broker, tmp_path)
    assert [part["records"] for part in figures["sends"]] == [2000, 50]
    for part in figures["sends"]:
        (once,) = part["rounds"]
        assert all(0 < once[way]["p50"] <= once[way]["p99"] for way in ("plain", "fenced", "transactions"))
        assert part["ratios"]["fenced"]["p50"]["median"] == once["fenced"]["p50"] / once["plain"]["p50"]
    assert figures["fence_ms"]["fenced"]["median"] > 0
    assert "transactions" in shown


def test_the_comparison_with_other_clients_measures_the_worker(broker, tmp_path):
    """The other clients are not installed for this: that would need the network."""
    target = tmp_path / "figures.json"
    sizes = ["--worker-records", "4000", "--records", "100", "--rate", "100", "--seconds", "1", "--rounds", "1"]
    command = [sys.executable, "-m", "benchmarks.kafka_peers", "--peers", "riparian", "--no-kill", "--broker", broker]
    done = subprocess.run(
        [*command, *sizes, "--json", str(target)], capture_output=True, text=True, cwd=ROOT, timeout=2 * PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(target.read_text())["results"].values()
    (backlog,), (latency,) = found["backlog"], found["latency"]
    assert backlog["per_second"] > 0
    assert latency["n"] == 100
