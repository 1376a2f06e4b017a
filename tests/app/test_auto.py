"""`model: auto`: what it stands for follows from the stream file, fits its budget, and stays what a state has."""

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli.run.worker import remarks
from riparian.app.cli.setup.check import _of_foreign, command
from riparian.app.errors import SpecError, StateError
from riparian.app.partition.changes import reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file import spec as spec_module
from riparian.app.stream_file.json_schema import json_schema
from riparian.app.stream_file.lineup import values_of
from riparian.app.stream_file.spec import Spec, build
from riparian.checks import learn, rows
from riparian.models.auto import auto, costs
from riparian.models.auto.auto import Resolved, resolve
from riparian.models.auto.costs import StreamShape
from riparian.models.auto.values import Values
from riparian.models.contract import Schema
from riparian.models.memory import live_bytes
from riparian.models.registry import REGISTRY, create, validate

STREAM: dict[str, Any] = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "b": {"type": "nominal", "values": ["x", "y", "z"]}, "c": "boolean"},
    "classes": ["n", "y"],
}
REFIT = {"refit": {"model": "cart", "window": 100, "refit_every": 40, "ccp_alpha": 0.01}}
WIDE = [0] * 60 + [4] * 60
LIGHT = "soft shrubs boosted near recent sums patches tree bayes"


def auto_of(**parameters: Any) -> Spec:
    return build({**STREAM, "champion": {"model": "auto", **parameters}, "challengers": {}})


def test_a_stream_without_a_champion_has_a_pool_and_what_to_hold_it_against() -> None:
    spec = build(STREAM)
    assert {role: name for role, (name, _) in spec.models().items()} == {
        "champion": "opinion-pool",
        "tree": "hoeffding-adaptive-tree",
        "naive-bayes": "naive-bayes",
        "last-label": "last-label",
    }
    assert spec.models() == build({**STREAM, "champion": "auto"}).models()
    assert spec.on_drift() == dict.fromkeys(spec.models(), "alert")
    found = resolve("classification", [0, 3, 2], 2, {})
    assert spec.resolved() == found
    expected = validate(found.model, "classification", found.parameters)
    assert spec.models()["champion"] == (found.model, expected)
    PartitionLearner(spec)


def test_challengers_that_are_named_are_the_only_ones() -> None:
    assert list(build({**STREAM, "challengers": {}}).models()) == ["champion"]
    assert list(build({**STREAM, "challengers": {"nb": "naive-bayes"}}).models()) == ["champion", "nb"]
    named = build({**STREAM, "champion": "naive-bayes"})
    assert list(named.models()) == ["champion"]
    assert named.resolved() is None


@pytest.mark.parametrize(
    ("n_values", "n_classes", "budget", "members", "trees"),
    [
        ([0] * 8, 2, {}, "bayes recent sums soft boosted mondrian forest patches shrubs near", 10),
        ([0] * 8, 2, {"max_microseconds": 25}, f"{LIGHT} mondrian forest", 5),
        ([0] * 8, 2, {"max_microseconds": "20"}, f"{LIGHT} mondrian", None),
        ([0] * 8, 2, {"max_microseconds": 10}, "soft shrubs boosted", None),
        ([0] * 8, 2, {"max_microseconds": 3}, "soft recent sums tree bayes last", None),
        ([0] * 8, 2, {"max_microseconds": 1}, "recent tree bayes last", None),
        ([0] * 8, 2, {"max_microseconds": 0.6}, "", None),
        ([0] * 16, 10, {}, "bayes recent sums soft mondrian forest repeats near patches", 10),
        ([0] * 16, 10, {"max_microseconds": 25}, "soft near shrubs recent sums patches tree bayes mondrian", None),
        ([0] * 16, 10, {"max_microseconds": 10}, "soft near shrubs recent", None),
        ([2] * 24, 10, {"max_microseconds": 7}, "last recent bayes tree sums soft patches", None),
        ([0] * 16, 26, {}, "sums bayes recent soft mondrian forest near repeats", 10),  # boosted: time for each class
        ([0] * 16, 10, {"max_bytes": 20_000_000}, "bayes recent sums soft mondrian forest repeats near patches", 10),
        (WIDE, 20, {"max_microseconds": 25}, "soft recent sums tree bayes last", None),
        (WIDE, 20, {"max_bytes": 10_000_000, "max_microseconds": 5}, "", None),
    ],
)
def test_a_budget_decides_who_is_a_member(
    n_values: Any, n_classes: int, budget: Any, members: str, trees: int | None
) -> None:
    found = resolve("classification", n_values, n_classes, budget)
    assert " ".join(found.parameters.get("members", {})) == members
    assert found.model == ("opinion-pool" if members else "hoeffding-adaptive-tree")
    if trees is not None:
        assert found.parameters["members"]["forest"]["n_models"] == trees
    assert found.n_bytes <= int(budget.get("max_bytes", 64_000_000))
    if members:
        assert found.microseconds <= float(budget.get("max_microseconds", 100))
    smaller = resolve("classification", n_values, n_classes, {**budget, "max_bytes": found.n_bytes - 1})
    assert smaller.n_bytes < found.n_bytes


def test_of_many_classes_neighbours_take_the_place_of_boosted_trees_that_take_longer() -> None:
    def near(n_values: list[int], n_classes: int, budget: float = 100.0) -> Any:
        found = resolve("classification", n_values, n_classes, {"max_microseconds": budget}).parameters["members"]
        return found.get("near", {}).get("k"), "boosted" in found

    assert near([0] * 16, 10) == (3, False)
    assert near([0] * 16, 10, 200.0) == (3, True)
    assert near([0] * 16, 10, 10.0) == (3, False)
    assert near([0] * 8, 2, 25.0) == (None, True)
    assert near([0] * 8, 2) == (None, True)


@pytest.mark.parametrize(("n_values", "n_classes"), [([2] * 24, 10), ([8] * 16, 10), ([0] * 15 + [2], 10)])
def test_where_features_have_values_neighbours_come_last(n_values: list[int], n_classes: int) -> None:
    for budget in (100.0, 200.0, 400.0):
        found = resolve("classification", n_values, n_classes, {"max_microseconds": budget})
        assert "k" not in found.parameters["members"].get("near", {})
        assert "boosted" in found.parameters["members"]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_more_time_and_more_bytes_never_mean_less(task: str) -> None:
    n_classes = 3 if task == "classification" else 1
    for what, budgets in (("max_microseconds", (5, 10, 25, 50, 100, 200, 1000)), ("max_bytes", (10**6, 10**7, 10**9))):
        found = [resolve(task, [0, 0, 4, 0, 2], n_classes, {what: budget}) for budget in budgets]
        takes = [(one.microseconds, one.n_bytes)[what == "max_bytes"] for one in found]
        assert takes == sorted(takes)
        assert len({one.parts for one in found}) > 1


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_costs_are_known_of_every_member_and_never_below_nothing(task: str) -> None:
    """For their shape only: what they say is measured by benchmarks/auto.py."""
    n_columns = {"classification": 6, "regression": 3}[task]
    kinds = {step.kind for step in auto.steps(task) if not step.idle} | {"tree"}
    idle = {step.kind for step in auto.steps(task) if step.idle}
    assert set(costs.MICROSECONDS[task]) == kinds
    assert idle == (set(costs.IDLE) if task == "classification" else set())
    for each in (*costs.MICROSECONDS[task].values(), *(costs.IDLE[kind] for kind in idle)):
        assert len(each) == n_columns
        assert min(each) >= 0.0
    small, large = StreamShape(task, [0, 2], 1), StreamShape(task, [0] * 20 + [9] * 5, 1 if task == "regression" else 9)
    for step in auto.steps(task):
        took = [costs.microseconds(shape, step.kind, step.n_trees, step.idle) for shape in (small, large)]
        assert 0.0 < took[0] <= took[1]
        sizes = [costs.fixed_bytes(shape, step.kind) for shape in (small, large)]
        assert sizes == [0, 0] if step.share else 0 < sizes[0] <= sizes[1]
        validate(step.model, task, step.parameters)


def of_codes(n: int, n_values: list[int], n_classes: int) -> tuple[Any, Any]:
    """Rows of nominal features and numbers, whose class or value follows the first feature and the first number."""
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.integers(k, size=n) if k else rng.random(n) for k in n_values]).astype(float)
    y = x[:, 0] + np.floor(2.0 * x[:, n_values.index(0)])
    return x, y % n_classes if n_classes > 1 else y


@pytest.mark.parametrize("n_values", [[0, 0, 4, 0, 2], [12, 30, 0, 3]], ids=["numeric", "nominal"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_members_take_no_more_than_was_reckoned(task: str, n_values: list[int]) -> None:
    n_classes = 3 if task == "classification" else 1
    x, y = of_codes(6000, n_values, n_classes) if n_values[0] else rows(6000, task)
    shape, schema = StreamShape(task, n_values, n_classes), Schema(tuple(n_values), n_classes, task)
    early = {"grace_period": 50, "tie_threshold": 0.5}
    for kind, name, parameters, n_bytes, filled in (
        ("forest", "adaptive-random-forest", {"n_models": 3, **early}, 800_000, 6),
        ("patches", "streaming-random-patches", {"n_models": 3, **early}, 800_000, 6),
        ("mondrian", "mondrian-forest", {"n_trees": 3}, 1_000_000, 2),
        ("boosted", "stochastic-gradient-tree", auto.BOOSTED, 1_000_000, 30),
        ("bagging", "online-bagging", {"n_models": 3, **early}, 600_000, 6),
        ("plain-tree", "hoeffding-tree", early, 200_000, 6),
        ("linear", "fimt-dd", {"grace_period": 50, "tie_threshold": 0.5}, 400_000, 6),
    ):
        if kind not in costs.MICROSECONDS[task] and (task == "regression" or kind not in costs.IDLE):
            continue
        bound, takes = costs.bounded(shape, kind, parameters.get("n_models", 1), n_bytes) or ({}, 0)
        assert takes <= n_bytes, kind
        learner = create(name, schema, **{**parameters, **bound})
        learn(learner, x, y)
        assert takes / filled < learner.n_bytes <= takes, kind
    for step in auto.steps(task):
        if not step.share:  # of fixed size
            learner = create(step.model, schema, **step.parameters)
            learn(learner, x, y)
            assert live_bytes(learner) <= costs.fixed_bytes(shape, step.kind), step.name


def test_values_are_as_many_as_the_file_says() -> None:
    features = {
        "a": "numeric",
        "b": "boolean",
        "c": {"type": "nominal", "values": list(range(40))},
        "d": "nominal",
        "e": {"type": "nominal", "max_values": 5000},
        "f": {"type": "nominal", "max_values": 7},
    }
    found = values_of(build({**STREAM, "features": features}))
    assert found == Values([0, 2, 40, 10, 5000, 7], [4, 5], {3: 1000}, True)
    assert found.many == [4]
    assert not values_of(build({**STREAM, "classes": ["a", "b", "c"], "features": features})).binary
    fields = {key: value for key, value in STREAM.items() if key != "classes"}
    assert values_of(build({**fields, "features": features})).binary
    assert values_of(build({**fields, "task": "regression", "features": features})).binary


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_trees_see_few_of_many_values_and_all_members_their_mean_targets(task: str) -> None:
    n_classes = 2 if task == "classification" else 1
    members = resolve(task, Values([0, 20_000, 3], [1, 2]), n_classes, {}).parameters["members"]
    for name in ("forest", "boosted", "mondrian"):
        assert members[name]["max_values"] == [0, 16, 0]
    assert [
        said for said in members.values() if said["model"] != "last-label" and said.get("target_means") != [1]
    ] == []
    assert members["sums"]["max_values"] == [0, 4096, 0]
    every = resolve(task, Values([0, 20_000, 3], [1, 2]), n_classes, {"max_bytes": 10**10, "max_microseconds": 10**4})
    assert "max_values" not in every.parameters["members"]["sums"]
    assert "max_values" not in every.parameters["members"]["soft"]
    many = resolve(task, Values([0, 20_000, 3], [1, 2], binary=False), n_classes, {}).parameters["members"]
    assert [said for said in many.values() if "target_means" in said] == []
    huge = resolve(task, Values([0, 10**6, 30], [1, 2]), n_classes, {}).parameters["members"]
    assert huge["forest"]["target_means"] == [2]  # the table of a million values would take too much


def test_where_no_pool_fits_the_tree_sees_few_values_too() -> None:
    budget = {"max_bytes": 2_000_000, "max_microseconds": 0.5}
    found = resolve("classification", Values([0, 5000], [1]), 2, budget)
    (tree,) = found.parameters["members"].values()
    assert (tree["model"], tree["max_values"], tree["target_means"]) == ("hoeffding-adaptive-tree", [0, 16], [1])
    assert found.n_bytes <= 2_000_000
    assert resolve("classification", Values([0, 10], [1]), 2, budget).model == "hoeffding-adaptive-tree"


def test_beside_a_feature_of_many_values_no_tree_sees_them_all() -> None:
    many = {**STREAM, "features": {"a": "numeric", "b": {"type": "nominal", "max_values": 5000}}}
    assert list(build(many).models()) == ["champion", "naive-bayes", "last-label"]


def of_many(task: str, n: int, n_values: int) -> tuple[Any, Any]:
    """Rows of a feature of many values, most of which come late, and of two numbers."""
    rng = np.random.default_rng(6)
    codes = np.minimum(rng.integers(n_values, size=n), np.arange(n) * 2 // 3)
    x = np.column_stack([codes, rng.random(n), rng.random(n)])
    y = np.floor(x[:, 0] * 0.37) % 2 + 2.0 * (x[:, 1] > 0.5) + (x[:, 2] > 0.7)
    return x, y if task == "regression" else (y > 1.5).astype(float)


@pytest.mark.parametrize(("task", "named"), [("classification", True), ("regression", False)])
def test_bytes_are_kept_whatever_values_come(task: str, named: bool) -> None:
    """Of 3,000 values, or of as many as are learned where nobody named a bound; ten of them were reckoned, and several
    times the bytes taken."""
    n_classes, n_values, most = 2 if task == "classification" else 1, 3000 if named else 1000, 6_000_000
    x, y = of_many(task, 6000, n_values)
    budget = {"max_bytes": most, "max_microseconds": 40}
    values = Values([n_values, 0, 0], [0]) if named else Values([10, 0, 0], (), {0: n_values})
    taken = []
    for one in (values, Values([10, 0, 0])):
        found = resolve(task, one, n_classes, budget)
        assert found.n_bytes <= most
        schema = Schema((2, 0, 0), n_classes, task)
        pool = create(found.model, schema, **found.parameters)
        taken.append(0)
        for start in range(0, 6000, 500):
            part = slice(start, start + 500)
            capacity = min(n_values, 1 << int(x[: part.stop, 0].max()).bit_length())
            pool.resize(schema._replace(n_values=(max(2, capacity), 0, 0)))
            pool.learn_many(x[part], y[part])
            taken[-1] = max(taken[-1], live_bytes(pool))
    assert taken[0] <= 1.2 * most
    assert taken[1] > 2 * taken[0]


TIGHT = {"max_bytes": 100_000, "max_microseconds": 1}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_byte": 5}, "champion: model 'auto' has no parameter 'max_byte': did you m"),
        (TIGHT, "champion: max_bytes is 100,000, and a tree of 31 nodes takes 576,000: raise it"),
        (
            {"max_microseconds": 0.5, "members": REFIT},
            "champion: model 'auto': members are of a pool, and within these bounds auto is a single tree: raise",
        ),
        (
            {"members": {"more": "xgbost"}},
            "champion: member 'more' of model 'opinion-pool': unknown model 'xgbost': did you mean 'xgboost'?",
        ),
        ({"members": ["xgboost"]}, "champion: parameter 'members' of model 'auto' is ['xgboost']: give a mapping"),
    ],
)
def test_mistakes_are_one_sentence(parameters: Any, message: str) -> None:
    fields = {"features": {f"f{i}": "numeric" for i in range(200)}} if parameters is TIGHT else {}
    with pytest.raises(SpecError) as caught:
        build({**STREAM, **fields, "champion": {"model": "auto", **parameters}})
    assert message in str(caught.value)


def fold(spec: Spec) -> PartitionLearner:
    learner = PartitionLearner(spec)
    learner.roles["champion"].model.learn_many([[0.0, 1.0, 0.0], [1.0, 2.0, 1.0]], [0, 1])
    return learner


def test_a_state_keeps_what_was_chosen_by_the_same_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = auto_of(max_microseconds=10)
    before = fold(spec)
    cut = before.snapshot()
    later = Resolved("opinion-pool", {"members": {"bayes": {"model": "naive-bayes"}}}, 1, 1.0)
    monkeypatch.setattr(auto, "resolve", lambda *_: later)
    newer = auto_of(max_microseconds=10)
    assert newer.models() != spec.models()
    assert list(PartitionLearner(newer).roles["champion"].model.members) == ["bayes"]  # type: ignore[attr-defined]
    known = [None if v is None else v.state() for v in before.vocabularies]
    changes = reconcile(newer, cut.meta, known)
    assert not changes.found
    learner = PartitionLearner(newer)
    assert learner.restore(cut) == [changes.kept]
    assert PartitionLearner(spec).restore(cut) == []
    assert learner.digest() == before.digest()
    assert learner.spec.models() == spec.models()
    assert learner.snapshot().meta["auto"] == {"max_microseconds": 10}
    with pytest.raises(StateError, match=r"champion was opinion-pool .*, is opinion-pool"):
        PartitionLearner(auto_of(max_microseconds=11)).restore(cut)


def test_members_that_a_file_names_come_besides_those_chosen() -> None:
    plain, more = auto_of(), auto_of(members=REFIT)
    before, after = (one.models()["champion"][1]["members"] for one in (plain, more))
    resolved = more.resolved()
    assert [*after] == [*before, "refit"]
    assert {name: after[name] for name in before} == before
    assert resolved is not None
    assert resolved._replace(parameters={}) == plain.resolved()._replace(parameters={})  # type: ignore[union-attr]
    other = {"members": {"boosted": "hoeffding-tree"}}  # in the place of one that was chosen
    members = resolve("classification", [0, 3, 2], 2, other).parameters["members"]
    assert ([*members], members["boosted"]) == ([*before], "hoeffding-tree")
    with pytest.raises(ValueError, match="members are of a pool, and of anomaly auto is one model: leave them out"):
        resolve("anomaly", [0], 1, other)


def test_a_member_that_is_refitted_goes_on_after_a_restart_and_one_comes_and_goes() -> None:
    """A fit that was not done is repeated; the other members keep what they know."""
    plain, more = auto_of(max_microseconds=10), auto_of(max_microseconds=10, members=REFIT)
    x, _ = of_codes(400, [0, 3, 2], 2)
    y = np.floor(2.0 * x[:, 0])
    whole = PartitionLearner(more)
    model = whole.roles["champion"].model
    model.learn_many(x[:170], y[:170])
    again = PartitionLearner(more)
    assert again.restore(whole.snapshot()) == []
    for learner in (whole, again):
        learner.roles["champion"].model.learn_many(x[170:300], y[170:300])
    said = [one.roles["champion"].model.predict_many(x[300:]).tobytes() for one in (whole, again)]
    assert said[0] == said[1]
    assert again.digest() == whole.digest()
    assert model.weights["refit"] != 1 / len(model.weights)  # type: ignore[attr-defined]

    before = PartitionLearner(plain)
    before.roles["champion"].model.learn_many(x, y)
    learner, weights = PartitionLearner(more), before.roles["champion"].model.weights  # type: ignore[attr-defined]
    assert any("refit" in change for change in learner.restore(before.snapshot()))
    found = learner.roles["champion"].model.weights  # type: ignore[attr-defined]
    assert found == {**weights, "refit": 1 / len(found)}
    back = PartitionLearner(plain)
    back.restore(learner.snapshot())
    assert back.roles["champion"].model.weights == weights  # type: ignore[attr-defined]


@pytest.mark.parametrize("budget", [{}, {"max_microseconds": 10}])
def test_a_state_of_the_forest_that_auto_was_goes_on(budget: dict[str, Any]) -> None:
    was = {"model": "adaptive-random-forest", "n_models": 10, "max_nodes": 4095}
    before = fold(build({**STREAM, "champion": was}))
    cut = before.snapshot()
    cut = cut._replace(meta={**cut.meta, "auto": budget})  # as versions wrote it to which auto was a forest
    spec = build({**STREAM, "champion": {"model": "auto", **budget}})
    learner = PartitionLearner(spec)
    (note, *more) = learner.restore(cut)
    assert note.startswith("champion: the state goes on with the adaptive-random-forest that auto was when it began; ")
    assert [one.split(" ", 1)[0] for one in more] == [
        f"challengers.{role}" for role in spec.models() if role != "champion"
    ]
    assert learner.roles["champion"].learner_name == "adaptive-random-forest"
    x = [[0.0, 1.0, 0.0]]
    predicted = [one.roles["champion"].model.predict_many(x).tolist() for one in (before, learner)]
    assert predicted[0] == predicted[1]


def test_check_says_what_it_is(tmp_path: Any) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: s\ntask: regression\nfeatures: {a: numeric}\n")
    said = CliRunner().invoke(command, [str(file)]).output
    found = resolve("regression", [0], 1, {})
    assert f"auto is opinion-pool of {', '.join(found.parameters['members'])}, estimated to take" in said
    assert f"{found.n_bytes / 1e6:.1f} MB and {found.microseconds:.1f} µs per instance" in said
    faster = resolve("regression", [0], 1, {"max_microseconds": round(found.microseconds / 4)})
    assert f"faster: max_microseconds: {round(found.microseconds / 4)} is {faster.parts}, " in said
    told = json.loads(CliRunner().invoke(command, ["--json", str(file)]).output)
    assert told["auto"] == found._asdict()
    assert told["models"]["champion"]["parameters"]["members"] == found.parameters["members"]
    assert "come on top" not in said
    file.write_text(
        "name: s\ntask: regression\nfeatures: {a: numeric}\nchampion: {model: auto, members: {a: mean, b: cart}}\n"
    )
    said = " ".join(CliRunner().invoke(command, [str(file)]).output.split())
    assert "members that the stream file names come on top: a, b" in said
    assert f"{found.microseconds:.1f} µs per instance" in said


def test_check_says_how_many_values_are_seen_and_what_is_not_reckoned(tmp_path: Any) -> None:
    file = tmp_path / "s.yaml"

    def said(feature: str, more: str = "") -> str:
        file.write_text(f"name: s\ntask: regression\nfeatures: {{a: numeric, shop: {feature}}}\n{more}\n")
        return CliRunner().invoke(command, [str(file)]).output

    plain = said("nominal", "predictions: {coverage: 0.9}")
    assert "shop: few values are expected, and some members see the first 16 alone; where there are more, name" in plain
    assert "reasons: " not in plain
    assert "shop: " not in said("{type: nominal, max_values: 10}")
    assert "shop: " not in said("{type: nominal, values: [a, b, c]}")
    many = said("{type: nominal, max_values: 9000}")
    assert "shop: trees see the first 16 of up to 9,000 values, and the mean target of each" in many
    few = said("{type: nominal, max_values: 12}")
    assert "shop: trees see the first 12 of up to 12 values, and the mean target of each" in few
    assert "µs of CPU for each prediction (estimated), of 4 predictions" in said("nominal", "predictions: {reasons: 3}")
    single = "champion: fimt-dd\npredictions: {reasons: {top: 1}}"
    measured = said("{type: nominal, max_values: 9000}", single)
    assert "µs of CPU for each prediction (measured on 1,000 made-up instances), of 4 predictions more" in measured
    assert "shop: " not in said("{type: nominal, max_values: 9000}", single)


def test_the_schema_knows_auto() -> None:
    champion = json_schema()["properties"]["champion"]
    assert champion["default"] == "auto"
    assert set(champion["anyOf"][1]["properties"]) == {"model", "on_drift", *(one.name for one in auto.PARAMETERS)}
    assert "champion" not in json_schema()["required"]
    assert set(auto.SINGLE) == {"classification", "regression", "multi-instance", "anomaly"}
    assert "auto" not in REGISTRY
    assert spec_module.AUTO == auto.AUTO
    assert np.all(np.diff(costs.NODES) < 0)


def test_a_worker_says_what_auto_is_and_what_is_slow() -> None:
    spec = build({**STREAM, "trust": ["code", "pickles"], "challengers": {"theirs": "external", "nb": "naive-bayes"}})
    assert remarks(spec) == [
        "champion: auto is opinion-pool of bayes, recent, sums, soft, boosted, forest, mondrian, patches, shrubs, "
        "near; riparian check tells its size",
        "theirs (external) is slow: it learns in Python, an instance at a time, and the champion waits for it",
    ]
    signed = "all workers need the same secret of at least 16 characters in RIPARIAN_STATE_KEY"
    assert _of_foreign(spec) == [remarks(spec)[-1], f"{signed}: it signs the pickles of theirs"]
    assert _of_foreign(build({**STREAM, "champion": "naive-bayes"})) == []
    assert remarks(build({**STREAM, "champion": "naive-bayes"})) == []
