"""A concept that changes while a worker runs, and a worker that is killed while it does."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from riparian.app.worker.exposition import metric_names as names
from tests.broker.harness import Page, drifts
from tests.processes import until

pytestmark = pytest.mark.broker

N, CHANGE = 4000, 1500
TREE = {"model": "hoeffding-tree", "grace_period": 50}
# What the first worker has done is only in its outputs.
LATE = {"checkpoint": {"every": "30s"}, "champion": TREE}


def changed(s, generator, to, told, look):
    """A change of a generator's concept, through a worker that is killed once an event is `told`: all events, and what
    `look` sees on the next one's page."""
    replay = ["--generate", generator, "-n", N, "--seed", 1, "--drift", CHANGE, "--to", to]
    with s.worker(place="w") as worker, ThreadPoolExecutor(1) as pool:
        sending = pool.submit(s.riparian, "replay", *replay, "--label-delay", "2ms", "--rate", 2000)
        until(lambda: any(map(told, drifts(s.broker, s.spec))) or worker.process.poll() is not None)
        worker.kill()
        sending.result()
    before = drifts(s.broker, s.spec)
    page = Page()
    with s.worker(place="w", web_port=page.port) as worker:
        page.wait_for_partitions(1)
        page.wait_for("riparian_joined_instances_total", [float(N)])
        seen = look(page)
        assert worker.stop() == 0
    learner = s.reach(N)
    s.check(learner)
    events = drifts(s.broker, s.spec)
    assert events[: len(before)] == before
    assert s.holds().drift.n_compared == len(events)
    return learner, events, seen


def test_a_change_of_concept_is_told_once_and_answered_though_the_worker_is_killed(stream):
    s = stream(
        **LATE,
        features=dict.fromkeys(("x1", "x2"), "numeric"),
        challengers={"again": {**TREE, "on_drift": "reset"}, "fresh": {**TREE, "on_drift": "replace"}},
        drift={"detectors": ["adwin", "ddm"], "window": 100},
    )

    def look(page):
        assert page.value(names.REPLACEMENTS, model="again", action="reset") >= 1
        assert page.value(names.REPLACEMENTS, model="fresh", action="replaced") >= 1
        return {role: sum(page.values(names.DRIFTS, model=role)) for role in s.spec.models()}

    learner, events, counted = changed(s, "sine", "function=1", lambda event: event.level == "drift", look)
    assert counted == Counter(event.model for event in events if event.level is not None)
    alert = next(event for event in events if event.model == "champion" and event.level == "drift")
    assert alert.action == "alert"
    assert CHANGE <= alert.offset < CHANGE + 300
    assert alert.label_offset <= alert.offset
    assert alert.before < 0.2 < alert.after
    reset = next(event for event in events if event.action == "reset")
    assert (reset.model, reset.offset) == ("again", alert.offset)
    accuracy = {name: role.metrics.metrics()["accuracy"] for name, role in learner.roles.items()}
    assert accuracy["again"] > accuracy["champion"] + 0.1
    assert accuracy["fresh"] > accuracy["champion"] + 0.1
    shown = s.riparian("inspect", "--model", "again")
    for words in ("drift of the error: ", "× drift (ddm)", "× reset"):
        assert words in shown


def test_a_shift_without_labels_is_told_once_though_the_worker_is_killed(stream):
    s = stream(
        **LATE,
        features=dict.fromkeys(("size", "colour", "shape"), "nominal"),
        drift={"detectors": [], "distributions": {"window": 200}},
    )

    def look(page):
        assert 0.0 <= page.value(names.DISTANCE, model="", signal="size") < 0.3
        return page.value(names.DRIFTS, model="champion", signal="prediction", detector="two-sample", level="drift")

    _, events, counted = changed(s, "stagger", "function=2", lambda event: event.offset >= CHANGE, look)
    assert counted == sum(event.signal == "prediction" for event in events)
    told = next(event for event in events if event.offset >= CHANGE)
    assert (told.model, told.signal, told.shift.kind) == ("champion", "prediction", "values")
