"""`predictions: {calibrated: matured}` in a partition: against a join and shifts in plain Python, whatever the cuts."""

import json
import random
import re
from itertools import pairwise
from math import nan

import numpy as np
import pytest

from riparian.app.errors import SpecError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.clock import Clock
from riparian.app.partition.state import Snapshot
from riparian.app.stream_file.spec import build
from riparian.topics.names import LABELS
from tests.app.naive_late import NaiveJoin
from tests.app.shared_world import World, lived, replayed, rows, stream
from tests.app.test_late_labels import DAY, LATE, with_nulls
from tests.app.test_past import CLASSES, assert_same_however_cut, release_of, restarted, spec_of
from tests.models.naive_prior_shift import NaivePriorShift

DRIFT = {"detectors": {"page-hinkley": {"threshold": 2, "min_values": 5}}, "on_drift": "reset"}
TREE = {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1}
FIELDS = {"champion": TREE, "challengers": {"nb": "naive-bayes"}, "drift": DRIFT}


def spec_with(calibrated, repeats="ignore", **fields):
    predictions = {"calibrated": calibrated, "challengers": True, **fields.pop("predictions", {})}
    return spec_of(CLASSES, join=LATE, label={"on_repeat": repeats}, predictions=predictions, **FIELDS, **fields)


BEGIN = [-0.7, 0.7]  # so that shifts change which class is the likeliest


def said(spec, events, cuts, restarts=()):
    """What the champion says of each record that is predicted, and the learner."""
    learner, stored, at, found = PartitionLearner(spec), {}, (0, 0), []
    for serving in learner.servings.values():
        if serving.shift is not None:
            serving.shift.restore({"shifts": np.array(BEGIN)})
    for start, stop in pairwise(sorted({0, len(events), *cuts, *restarts})):
        release, at = release_of(events[start:stop], at)
        found += learner.step(release).p["champion"].tolist()
        if stop in restarts:
            learner = restarted(learner, stored, [])
    return found, learner


@pytest.mark.parametrize("repeats", ["ignore", "correct"])
def test_it_says_what_join_and_shifts_in_plain_python_do(repeats):
    """The models, and the drifts that are found, are those without it: only what is said is another."""
    events, draws = with_nulls(3, 600), random.Random(1)
    raw, plain = said(spec_with(False, repeats), events, [])
    for n in (0, 100):
        cuts = draws.sample(range(1, len(events)), n)
        shifted, learner = said(spec_with("matured", repeats), events, cuts, cuts[::20])
        check(events, repeats, raw, plain, shifted, learner)


def check(events, repeats, raw, plain, shifted, learner):
    """Hold what is said against twins. raw, plain : what is predicted without shifts, and the learner then."""
    twin, clocks = NaiveJoin(36_500 * DAY, 20 * DAY // 24, 0.0, repeats == "correct"), (Clock(), Clock())
    shifts, taken, at, before, place = NaivePriorShift(2), 0, 0, {}, {}
    shifts.shifts, corrected = list(BEGIN), 0

    def take():
        nonlocal taken, corrected
        for x, y in twin.learned[taken:]:
            corrected += x in before
            shifts.learn(raw[place[x]], int(y), before.get(x))
            before[x] = int(y)
        taken = len(twin.learned)

    for i, (stamp, record, label) in enumerate(events):
        time = int(clocks[label is not None].advance(np.array([stamp]))[0])
        if label is not None:
            twin.label(label["id"], {"ok": 0.0, "fraud": 1.0}.get(label["y"], nan), time)
        elif record["x"]["amount"] != "none":
            twin.tick(time)
            take()
            assert shifted[at] == pytest.approx(shifts.say(raw[at]), abs=1e-12)
            place[float(i)], at = at, at + 1
            twin.features(record["id"], float(i), time)
        take()
    assert corrected > 20
    assert (np.argmax(raw, axis=1) != np.argmax(shifted, axis=1)).sum() > 50
    assert shifts.shifts != pytest.approx(BEGIN, abs=0.01)
    for role in learner.roles:
        one, other = (of.roles[role] for of in (plain, learner))
        assert [a.tobytes() for a in one.model.state()] == [a.tobytes() for a in other.model.state()]
        assert one.reactions.tolist() == other.reactions.tolist()
    assert learner.roles["champion"].reactions.any()
    truth = learner.servings["champion"].overall(learner.roles["champion"].metrics)
    assert truth["log_loss"] != plain.servings["champion"].overall(plain.roles["champion"].metrics)["log_loss"]


@pytest.mark.parametrize("repeats", ["ignore", "correct"])
def test_it_comes_to_the_same_however_its_stream_is_cut_and_restarted(repeats):
    fields = {"predictions": {"reasons": 1, "coverage": 0.9}, "decision": {"costs": {"fraud": {"ok": "mean"}}}}
    assert_same_however_cut(spec_with("matured", repeats, **fields), with_nulls(5, 250))


def test_a_stream_that_runs_begins_and_ends_with_it():
    """What waits was said as it stands there; nothing that it learned is lost."""
    events, at = with_nulls(7, 600), (0, 0)
    learner = PartitionLearner(spec_with(False))
    for calibrated, part in (("matured", 200), (True, 300), ("matured", 400), (False, 500)):
        release, at = release_of(events[part - 200 : part] if part == 200 else events[part - 100 : part], at)
        learner.step(release)
        snapshot, again = learner.checkpoint(), PartitionLearner(spec_with(calibrated))
        again.restore(Snapshot(snapshot.meta, {**snapshot.frozen, **snapshot.arrays}))
        assert again.pending.counts == learner.pending.counts
        learner = again
        if calibrated == "matured":
            rows = learner.pending._instances.rows()
            outs = [learner.pending.out[name][rows] for name in ("champion", "champion/shifted")]
            assert np.array_equal(*outs, equal_nan=True)
    release, at = release_of(events[500:], at)
    learner.step(release)
    assert learner.roles["champion"].metrics.metrics()["n"] == learner.pending.counts["joined"] > 200


SHARED = {"join": {"unlabelled": {"is": "p", "after": "40ms"}}, "classes": ["p", "q", "r", "s"]}
SHARED |= {"predictions": {"calibrated": "matured", "challengers": True, "reasons": 1}}


def test_partitions_that_share_a_model_shift_by_their_own_labels():
    world, plain = lived(stream(**SHARED)), lived(stream(**SHARED | {"predictions": {}}))
    assert len({learner.lineup.digest() for learner in world.learners}) == 1
    shifts = [learner.servings["champion"].shift.state().shifts for learner in world.learners]
    assert all(np.abs(one).max() > 0.002 for one in shifts)
    assert not np.array_equal(*shifts[:2])
    assert world.learners[0].lineup.n == plain.learners[0].lineup.n
    for p, learner in enumerate(world.learners):
        again, sent = replayed(world, p, [50, 90], {1})
        assert sent == world.sent[p]
        assert again.digest() == learner.digest()


def test_partitions_that_share_a_model_score_what_was_sent_and_explain_the_class_that_it_names():
    world = World(stream(**SHARED))
    for learner in world.learners:
        learner.servings["champion"].shift.restore({"shifts": np.array([-1.5, 1.5, 0.0, 0.0])})
    for start in range(0, 600, 12):
        world.come(rows(600)[start : start + 12])
        for p in range(3):
            world.step(p, 5)
    world.finish()
    of = {id_: y for raw in world.raw for _, value in raw[LABELS] for id_, y in [json.loads(value).values()]}
    sent = [json.loads(value) for values in world.sent for value in values]
    assert all(one["y"] == max(one["p"], key=one["p"].get) for one in sent if one["p"])
    learned = sum(learner.pending.counts["joined"] for learner in world.learners)
    scores = world.learners[0].figures().overall["champion"]
    assert scores["n"] == learned > 580
    right = [one["y"] == of[one["id"]] for one in sent]
    assert abs(scores["accuracy"] * learned - sum(right)) <= 600 - learned
    assert sum(one["y"] == "q" for one in sent) > 300


BASE = {"name": "s", "features": {"a": "numeric"}, "predictions": {"calibrated": "matured"}}
HELD = {"join": {"horizon": "60d", "unlabelled": {"after": "14d"}}}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"task": "classification"}, "nothing matures where labels count when they come, found matured"),
        ({"task": "regression", **HELD}, "which has no probabilities, found matured; remove it"),
        ({"task": "anomaly", "champion": "half-space-trees"}, "which has no probabilities, found matured; remove it"),
        ({"task": "classification", "predictions": {"calibrated": "mature"}, **HELD}, "predictions.calibrated"),
    ],
)
def test_where_it_means_nothing_it_is_refused_with_the_cure(fields, sentence):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        build(BASE | fields, "s")
    assert build({**BASE, "task": "classification", **HELD}, "s").predictions.calibrated == "matured"
