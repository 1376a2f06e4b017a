"""A batch learner as champion of real workers: fits that are cut short by kill -9, of the worker and of the fit."""

import csv
import json
import os
import signal
from pathlib import Path

import pytest

from riparian.app.dataset.files.data import DataFile
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.partition.learner import PartitionLearner
from riparian.app.worker.exposition import metric_names as names
from tests.broker.clients import Sent, send
from tests.broker.harness import Page, Worker, instances
from tests.processes import fitters, gone, until

pytestmark = pytest.mark.broker

N, LAG = 2500, 400
# Models are begun at 32, 64, 128, 256, 512, 1012, 1512, … labels, and take their places LAG later, or where the next is
# begun.
FIELDS = {
    "topics": {"labels": None},
    "champion": {"model": "random-forest", "n_trees": 5, "window": 300, "refit_every": 500, "lag": LAG},
    "challengers": {},
    "metrics": {"every": "200ms"},
}


def labelled(n: int) -> list[Sent]:
    """Records with the label inside: no second topic whose records could come in another order."""
    features, labels = instances(n)
    found = []
    for record, label in zip(features, labels, strict=True):
        content = {**json.loads(record.value or b""), "y": json.loads(label.value or b"")["y"]}
        found.append(record._replace(value=json.dumps(content).encode()))
    return found


def as_file(records: list[Sent], path: Path) -> DataFile:
    with path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["a", "b", "c", "y"])
        for record in records:
            content = json.loads(record.value or b"")
            rows.writerow([*content["x"].values(), content["y"]])
    return DataFile(path)


def stopped(worker: Worker, page: Page) -> tuple[int, float]:
    """Stop the process that fits for a worker, so that no fit ends; and how often the stream has waited."""
    until(lambda: fitters(worker.process.pid))
    (child,) = fitters(worker.process.pid)
    os.kill(child, signal.SIGSTOP)
    return child, page.value(names.WAITS, model="champion")


def test_a_fit_that_is_cut_short_is_made_again_and_changes_nothing(stream):
    s = stream(**FIELDS)
    topic = s.spec.topics.features
    PartitionLearner(s.spec).warm_up()  # compiled here, and not while somebody waits for a worker
    records = labelled(N)
    send(s.broker, topic, records[:700])
    # The second one starts once the first is dead: a worker that joins takes the partition from the other for a moment.
    page = Page()
    with s.worker(web_port=page.port, place="w") as worker:
        s.reach(700, 0, worker)
        child, n_waits = stopped(worker, page)
        # Steps of a few records are brief. They would be taken on the event loop, and so would the one that waits.
        send(s.broker, topic, records[700:1500], pause=0.02, chunk=10)
        send(s.broker, topic, records[1500:1800], pause=0.1, chunk=150)
        page.wait_for(names.WAITS, [n_waits + 1], model="champion")
        assert len(s.predictions()) < 1800
        worker.kill()
        os.kill(child, signal.SIGCONT)
        until(lambda: gone(child))

    # The other one takes over; its process is what is killed now.
    page = Page()
    with s.worker(web_port=page.port, place="w") as worker:
        s.reach(1800, 0, worker)
        child, n_waits = stopped(worker, page)
        send(s.broker, topic, records[1800:])
        page.wait_for(names.WAITS, [n_waits + 1], model="champion")
        os.kill(child, signal.SIGKILL)
        learner = s.reach(N, 0, worker)
        assert "the process that fits random-forest ended (killed by signal 9)" in worker.output
        assert page.value(names.WAIT_TIME, model="champion") > 0.0
        assert worker.stop() == 0
    s.check(learner)

    file = as_file(records, s.folder / "records.csv")
    name, parameters = s.spec.models()["champion"]
    offline, goal, n = spec_for(file, name, parameters, stream=s.spec, target="y")
    made: list[list[float]] = []
    result = evaluate(file, offline, goal, n, on_outcome=lambda o: made.extend(o.p["champion"].tolist()))
    classes = [str(value) for value in learner.classes.values]
    assert [[(p["p"] or {}).get(c, 0.0) for c in classes] for p in s.predictions()] == made
    found = learner.roles["champion"].metrics.metrics()
    assert {k: result[k] for k in found} == found
    assert found["accuracy"] > 0.85
    assert learner.roles["champion"].model.n_rows == 300


def test_a_fit_that_is_killed_each_time_ends_the_worker_with_a_sentence(stream):
    s = stream(**FIELDS)
    send(s.broker, s.spec.topics.features, labelled(100))
    with s.worker(place="w") as worker:

        def ended() -> bool:
            for child in fitters(worker.process.pid):
                os.kill(child, signal.SIGKILL)
            return worker.process.poll() is not None

        until(ended)
        assert worker.process.returncode == 1
        assert "the process that fits random-forest ended 3 times before it was done" in worker.output
    s.check(s.run(100, 0, place="w"))
