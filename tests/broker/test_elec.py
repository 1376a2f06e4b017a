"""elec through Kafka equals elec in memory: worker and `riparian evaluate` make the same predictions, to the bit."""

import asyncio
import gzip
from itertools import islice
from pathlib import Path

import pytest
import yaml

from riparian import app
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.rows import rows_of_file
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.kafka.connection import Connection
from riparian.app.replay import publish
from riparian.app.stream_file.spec import load
from riparian.models.registry import REGISTRY
from tests.broker.harness import ROOT, Worker, predictions, wait_for_state

pytestmark = pytest.mark.broker

ELEC = Path(app.__file__).parent / "demo" / "data" / "elec.csv.gz"
ROWS, DELAY = 15_000, 500


def test_the_worker_makes_the_predictions_of_the_offline_evaluation(broker, tmp_path, topic_name):
    """With labels that come 500 instances late; the demo's come at once (test_demo.py)."""
    content = yaml.safe_load((ROOT / "examples" / "elec.yaml").read_text())
    content |= {"name": topic_name, "join": {"max_wait": "60s"}, "checkpoint": {"every": "1s"}}
    del content["topics"]
    path = tmp_path / "elec.yaml"
    path.write_text(yaml.safe_dump(content))
    rows = tmp_path / "elec.csv"
    with gzip.open(ELEC, "rt") as lines:
        rows.write_text("".join(islice(lines, ROWS + 1)))
    stream, file = load(path), DataFile(rows)
    # 1 ms an instance: the label comes DELAY instances later
    asyncio.run(publish(stream, rows_of_file(file, stream), Connection(broker), label_delay=DELAY / 1000, n=ROWS))
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, stream, ROWS, ROWS, worker=worker)
        assert worker.stop() == 0
    sent = predictions(broker, stream)
    assert [int(p["id"]) for p in sent] == list(range(ROWS))

    name, parameters = stream.models()["champion"]
    spec, goal, n = spec_for(file, name, parameters, stream=stream)
    made: list[list[float]] = []
    result = evaluate(
        file, spec, goal, n, label_delay=DELAY, on_outcome=lambda o: made.extend(o.p["champion"].tolist())
    )
    names = [str(value) for value in learner.classes.values]
    # A class that is not listed has probability 0.
    assert [[(p["p"] or {}).get(c, 0.0) for c in names] for p in sent] == made
    assert [p["label_offset"] for p in sent] == [max(0, i - DELAY) for i in range(ROWS)]
    found = learner.roles["champion"].metrics.metrics()
    assert {k: result[k] for k in found} == found
    # The challengers ran the same program.
    for role, (name, parameters) in list(stream.models().items())[1:]:
        spec, goal, n = spec_for(file, name, parameters, stream=stream)
        result = evaluate(file, spec, goal, n, label_delay=DELAY)
        found = learner.roles[role].metrics.metrics()
        assert {k: result[k] for k in found} == found
        assert name in REGISTRY
