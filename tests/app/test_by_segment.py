"""Quality by the value of a feature, in the fold. That it is the same for every cut and restart is asked in
test_learner.py, and of models that partitions share in test_joint_step.py; the test itself in
tests/models/test_segments.py."""

import json
from typing import Any

import numpy as np
import pytest

from riparian.app.errors import SpecError
from riparian.app.page.segments import broken, by_feature
from riparian.app.page.view import StreamView
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.predictions.by_segment import loss_of
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import Spec, build
from riparian.models.evaluation.segments import COSTS, ERRORS, MISSED, MISTAKES
from riparian.topics import reports
from riparian.topics.records import MetricsRecord, RawBatch, SegmentFigures
from tests.app.shared_world import lived
from tests.app.shared_world import stream as shared

STREAM: dict[str, Any] = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "country": "nominal", "online": "boolean"},
    "champion": {"model": "hoeffding-tree", "grace_period": 50},
    "metrics": {"segments": ["country", "online"], "window": 500},
}
COUNTRIES = ["PT", "ES", "IT", "FR"]


def stream(**changes: Any) -> Spec:
    return build({**STREAM, **changes}, "s")


def rows(n: int, broken: int | None = None, seed: int = 0) -> list[tuple[dict[str, Any], str]]:
    """A concept on a, which is the other way round in PT from instance `broken` on."""
    rng, made = np.random.default_rng(seed), []
    for i in range(n):
        x = {"a": round(float(rng.random()), 3), "country": COUNTRIES[rng.integers(4)], "online": bool(rng.integers(2))}
        up = (x["a"] > 0.5) != (rng.random() < 0.05)
        up ^= x["country"] == "PT" and broken is not None and i >= broken
        made.append(({k: v for k, v in x.items() if k != "online" or rng.random() > 0.1}, "up" if up else "down"))
    return made


def fold(spec: Spec, given: list[tuple[dict[str, Any], str]], learner: PartitionLearner | None = None) -> Any:
    """What a learner knows after these, and what it said of each."""
    learner, sent = learner or PartitionLearner(spec), []
    merge, start = PartitionGroup(learner.buffers(), limit=1000), learner.n_instances
    values = [json.dumps({"id": str(start + i), "x": x, "y": y}).encode() for i, (x, y) in enumerate(given)]
    offsets = list(range(start, start + len(values)))
    merge.buffers["features"].add(RawBatch(offsets, [1000 + i for i in offsets], [None] * len(values), values))
    while merge.n_waiting:
        sent += learner.encode(learner.step(merge.release(EVERYTHING)))
    return learner, [json.loads(one) for one in sent]


def test_sums_are_those_of_what_was_said_and_of_its_labels() -> None:
    given = rows(3000)
    learner, sent = fold(stream(), given)
    weights = (1 - 1 / 500) ** (3000 - np.arange(3000))
    found = {(one.feature, one.shown): one for one in learner.figures().segments}
    assert set(found) == {*(("country", name) for name in COUNTRIES), *(("online", v) for v in ("true", "false"))} | {
        ("online", "(missing)")
    }
    for (feature, shown), one in found.items():
        values = {"true": True, "false": False, "(missing)": None}
        there = np.array([x.get(feature) == values.get(shown, shown) for x, _ in given])
        wrong = np.array([said["y"] != y for said, (_, y) in zip(sent, given, strict=True)])
        assert one.n == pytest.approx((weights * there).sum())
        assert one.loss == pytest.approx((weights * there * wrong).sum())
        assert one.since == 0


def test_a_country_that_breaks_is_named_with_its_time_and_in_metrics() -> None:
    frozen = stream(champion={"model": "hoeffding-tree", "grace_period": 50, "delta": 0.01})
    learner, _ = fold(frozen, rows(8000))
    next(iter(learner.roles.values())).freeze()
    fold(frozen, rows(4000, broken=0, seed=1), learner)
    named = [one for one in learner.figures().segments if one.since]
    assert [(one.feature, one.value) for one in named] == [("country", "PT")]
    assert 9000 < named[0].since < 13_000
    assert named[0].usual < 0.2
    assert named[0].rise > 0.5


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, MISTAKES),
        ({"decision": {"class": "up", "alert_rate": 0.2}}, MISSED),
        ({"decision": {"costs": {"up": {"down": 5}}}}, COSTS),
        ({"decision": {"costs": {"up": {"down": "a"}}}}, COSTS),
        ({"task": "regression", "champion": "mean"}, ERRORS),
    ],
)
def test_what_counts_is_what_the_stream_decides_by(fields: dict[str, Any], kind: int) -> None:
    spec = stream(**fields)
    assert loss_of(spec) == kind
    given = rows(2000)
    if kind == ERRORS:
        given = [(x, 1.0 if y == "up" else 0.0) for x, y in given]  # type: ignore[misc]
    learner, _ = fold(spec, given)
    country = [one for one in learner.figures().segments if one.feature == "country"]
    assert sum(one.n for one in country) == pytest.approx(200 if kind == MISSED else 490, rel=0.05)
    if kind == COSTS:
        cost = sum(one.loss for one in country) / sum(one.n for one in country)
        assert cost == pytest.approx(learner.figures().recent["champion"]["cost"], rel=0.3)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"metrics": {"segments": ["contry"]}}, 'expected features, found "contry"; use some of a, country, online'),
        ({"metrics": {"segments": ["a"]}}, 'expected nominal or boolean features, found "a", which is numeric; have'),
        ({"metrics": {"segments": list("abcde")}}, "expected at most 4 features, found 5; name those that matter most"),
        ({"metrics": {"segments": ["online", "online"]}}, "expected every feature of metrics.segments once"),
        ({"task": "anomaly", "champion": "half-space-trees"}, "expected labels and decision with task anomaly"),
        (
            {"task": "multi-instance", "champion": "last-label", "classes": [0, 1]},
            "expected none of bags, which have several values each, found country; remove it",
        ),
    ],
)
def test_what_cannot_be_kept_is_said_at_the_start(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as raised:
        stream(**fields)
    assert sentence in str(raised.value)


def test_a_state_of_before_goes_on_and_other_losses_begin_anew() -> None:
    given = rows(600)
    before = fold(stream(metrics={"window": 500}), given)[0].snapshot()
    assert not [name for name in before.arrays if name.startswith("segments/")]
    learner = PartitionLearner(stream())
    said = learner.restore(before)
    assert [one for one in said if "metrics.segments was none, is country, online: those that are new" in one]
    assert learner.figures().segments == []
    learner, _ = fold(stream(), rows(300, seed=2), learner)
    cut = learner.snapshot()
    one = PartitionLearner(stream(metrics={"segments": ["country"], "window": 500}))
    one.restore(cut)
    assert one.figures().segments == [f for f in learner.figures().segments if f.feature == "country"]
    other = PartitionLearner(stream(decision={"class": "up", "alert_rate": 0.2}))
    other.restore(cut)
    assert other.figures().segments == []


def test_of_a_shared_model_each_partition_counts_its_own_labels() -> None:
    world = lived(shared())
    found = [learner.reported().segments for learner in world.learners]
    for learner, segments in zip(world.learners, found, strict=True):
        n = sum(one.n for one in segments if one.feature == "d")
        assert 0.8 * learner.learning.joined < n <= learner.learning.joined
    assert {one.shown for segments in found for one in segments} >= {"u", "v", "c0", "(missing)"}


def page_of(*segments: tuple[SegmentFigures, ...]) -> StreamView:
    view = StreamView(stream(), clock=lambda: 10_000)
    for partition, known in enumerate(segments):
        record = MetricsRecord("s", partition, 9000, "champion", "hoeffding-tree", 1, 1, 9, {}, segments=list(known))
        view.take_report(reports.write(record))
    return view


def test_the_page_says_what_each_value_adds_and_names_the_one_that_broke() -> None:
    whole: dict[str, Any] = {"n": 50.0, "n_before": 500.0, "loss_before": 25.0}
    view = page_of(
        (
            SegmentFigures("country", loss=20.0, **whole, value="PT", since=7000, usual=0.05, rise=0.35),
            SegmentFigures("country", loss=2.5, **whole, value="ES"),
        )
    )
    (table,) = by_feature(view)
    pt, es = table["values"]
    assert (pt["value"], pt["share"], pt["now"], pt["before"], pt["since"]) == ("PT", 0.5, 0.6, 0.95, 7000)
    assert pt["adds"] == pytest.approx(0.3 - 0.475)
    assert (es["adds"], es["since"]) == (pytest.approx(0.0), 0)
    assert broken(view) == ("Accuracy fell for country PT, from 95 to 60 %.", 7000)
    assert broken(page_of(())) is None
    assert by_feature(page_of(())) == []
