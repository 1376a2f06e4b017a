"""Costs, weights and thresholds in the fold: in records, metrics and states, and in the sentences of a stream file.
That they are the same for every cut, restart and promotion is asked in test_promotion.py."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.errors import SpecError
from riparian.app.partition.changes import reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import build, loads
from riparian.topics.records import RawBatch
from tests.app.test_promotion import FILE, TREE, fold, records
from tests.models.naive_decision import counted

COSTS = {"costs": {"up": {"down": 5}}}
AMOUNTS = {"costs": {"up": {"down": "b"}, "down": {"up": 0.3}}}
ODD = [0, 1e9, None, -5, 3e11, 0.2, 40, 0.6]  # amounts; None: missing
DECISIONS = {
    "costs": COSTS,
    "recall": {"class": "up", "recall": 0.9},
    "precision": {"class": "up", "precision": 0.97},
    "alert-rate": {"class": "up", "alert_rate": 0.2},
}


def stream(decision=None, **changes):
    given = {**FILE, "champion": "naive-bayes", **({} if decision is None else {"decision": decision})}
    return build({**given, **changes}, "s")


def joined(sent, data):
    """The predictions that met a label, which all but the last do: y, p, and the label."""
    labels = {json.loads(raw)["id"]: json.loads(raw)["y"] for raw in data[1].values}
    return [(one["y"], one["p"], labels[one["id"]]) for one in sent if one["id"] in labels]


def test_the_cheapest_class_is_named_by_every_model_and_its_cost_is_told():
    spec, data = stream(COSTS), records(1500)
    learner, sent, *_ = fold(spec, data, 333)
    others = [{**one["challengers"]["tree"]} for one in sent]
    for one in (*sent, *others):
        if one["p"] is not None:
            assert one["y"] == ("up" if 5 * one["p"].get("up", 0) > one["p"].get("down", 0) else "down")
    assert any(one["y"] != max(one["p"], key=one["p"].get) for one in sent if one["p"])
    found, met = learner.figures(), joined(sent, data)
    n = int(found.overall["champion"]["n"])
    costs = [0 if y == label else 5 if label == "up" else 1 for y, _, label in met][:n]
    assert found.overall["champion"]["cost"] == pytest.approx(np.mean(costs))
    assert found.recent["champion"]["cost"] == pytest.approx(np.mean(costs[-100:]))
    assert found.overall["champion"]["accuracy"] == pytest.approx(np.mean([y == label for y, _, label in met[:n]]))
    assert found.overall["tree"]["cost"] != found.overall["champion"]["cost"]


def with_amounts(data, amounts):
    """Records whose b is one of these, and the amounts by id."""
    features, labels = data
    values, of = [], {}
    for i, value in enumerate(features.values):
        if value == b"{":
            values.append(value)
            continue
        record = json.loads(value)
        of[record["id"]] = record["x"]["b"] = amounts[i % len(amounts)]
        if record["x"]["b"] is None:
            del record["x"]["b"]
        values.append(json.dumps(record).encode())
    return (RawBatch(*features[:3], values), labels), of


@pytest.mark.parametrize("champion", ["hoeffding-tree", "majority-class"])
def test_an_amount_is_what_a_missed_one_costs(champion):
    """From each record alone: what is named, and what that cost when its label came."""
    spec = stream(AMOUNTS, champion=champion, challengers={"nb": "naive-bayes"})
    data, of = with_amounts(records(1500), ODD)
    learner, sent, *_ = fold(spec, data, 333)

    def price(id_, y, label):
        up = counted(np.nan if of[id_] is None else of[id_])
        if y is None:
            return max(1.0, up) if label == "up" else 1.0
        return 0.0 if y == label else up if label == "up" else 0.3

    named = set()
    for one in sent:
        for said in (one, one["challengers"]["nb"]):
            if said["p"]:
                up, down = said["p"].get("up", 0.0), said["p"].get("down", 0.0)
                expected = up * price(one["id"], "down", "up"), down * 0.3
                if expected[0] != pytest.approx(expected[1]):
                    assert said["y"] == ("up" if expected[0] > expected[1] and up > 0 else "down" if down > 0 else "up")
                named.add(said["y"] != max(said["p"], key=said["p"].get))
    assert named == {True, False}
    labels = {json.loads(raw)["id"]: json.loads(raw)["y"] for raw in data[1].values}
    found = learner.figures()
    met = [one for one in sent if one["id"] in labels][: int(found.overall["champion"]["n"])]
    for model in ("champion", "nb"):
        said = [one if model == "champion" else one["challengers"]["nb"] for one in met]
        costs = [price(one["id"], two["y"], labels[one["id"]]) for one, two in zip(met, said, strict=True)]
        assert found.overall[model]["cost"] == pytest.approx(np.mean(costs), rel=1e-12)
        assert found.recent[model]["cost"] == pytest.approx(np.mean(costs[-100:]), rel=1e-12)


def test_an_amount_over_a_keys_past_is_one():
    """What a card has paid on average, as the prediction says it; with labels that are assumed."""
    file = {
        "name": "s", "task": "classification", "classes": ["ok", "fraud"],
        "features": {"a": "numeric", "usual": {"mean": "a", "by": "card", "half_life": "1h"}},
        "keys": {"card": {"max": 20}}, "champion": "naive-bayes", "predictions": {"features": True},
        "decision": {"costs": {"fraud": {"ok": "usual"}}}, "join": {"unlabelled": {"is": "ok", "after": "100ms"}},
    }  # fmt: skip
    rng, rows, labels = np.random.default_rng(2), [], []
    for i in range(600):
        fraud = rng.random() < 0.1
        x = {"a": round(float(rng.lognormal(1, 1) * (2 if fraud else 1)), 3), "card": f"c{rng.integers(9)}"}
        rows.append(json.dumps({"id": str(i), "x": x}).encode())
        if fraud:
            labels.append((i, json.dumps({"id": str(i), "y": "fraud"}).encode()))
    times = [1000 + 10 * i for i in range(600)]
    given = RawBatch([*range(600)], times, [None] * 600, rows)
    late = RawBatch(
        [*range(len(labels))], [times[i] + 35 for i, _ in labels], [None] * len(labels), [v for _, v in labels]
    )
    learner, sent, *_ = fold(build(file), (given, late), 50)
    usual = [one["features"]["usual"] for one in sent]
    assert len({*usual}) > 500
    for one, u in zip(sent, usual, strict=True):
        if one["p"] and one["p"].get("fraud"):
            assert one["y"] == ("fraud" if one["p"]["fraud"] * counted(u) > one["p"].get("ok", 0.0) else "ok")
    frauds, costs = {i for i, _ in labels}, []
    n = int(learner.figures().overall["champion"]["n"])
    for i in [*frauds, *[i for i in range(600) if i not in frauds][: n - len(frauds)]]:
        y, u = sent[i]["y"], counted(usual[i])
        missed = max(1.0, u) if y is None else u
        costs.append(float(y != "fraud") * missed if i in frauds else float(y != "ok"))
    assert n > 500
    assert learner.figures().overall["champion"]["cost"] == pytest.approx(np.mean(costs), rel=1e-12)


def test_models_are_compared_by_their_costs():
    """The rule promotes by what mistakes cost: here each difference from its definition."""
    spec, data = stream(COSTS, champion="majority-class", challengers={"tree": TREE}), records(1500)
    learner, sent, *_ = fold(spec, data, 333)
    labels = {json.loads(raw)["id"]: json.loads(raw)["y"] for raw in data[1].values}

    def cost(y, label):
        return 0 if y == label else 5 if label == "up" else 1

    pairs = [
        (cost(one["y"], labels[one["id"]]), cost(one["challengers"]["tree"]["y"], labels[one["id"]]))
        for one in sent
        if one["id"] in labels and (one["p"] or one["challengers"]["tree"]["p"])
    ]
    found = learner.figures().compared["tree"]
    differences = np.array([a - b for a, b in pairs[: int(found["total_labels"])]])
    assert found["total_labels"] > 1000
    assert found["total_difference"] == pytest.approx(differences.mean())
    assert found["total_variance"] > 0.999 * differences.var()  # in the long run
    assert found["reach"] == 5.0
    assert found["low"] < found["difference"] < found["high"]


def test_a_target_compares_mistakes_about_its_class_alone():
    """Each difference from its definition, of three classes: the tree knows best which of the others it is."""
    features, labels = records(1500)
    rare = [i % 7 == 0 for i in range(len(labels.values))]
    values = [v.replace(b'"down"', b'"rare"') if r else v for v, r in zip(labels.values, rare, strict=True)]
    decision = {"class": "rare", "alert_rate": 0.1}
    spec = stream(decision, champion="majority-class", challengers={"tree": TREE}, classes=["down", "rare", "up"])
    learner, sent, *_ = fold(spec, (features, RawBatch(*labels[:3], values)), 333)
    of = {json.loads(raw)["id"]: json.loads(raw)["y"] for raw in values}
    known = [one for one in sent if one["id"] in of and (one["p"] or one["challengers"]["tree"]["p"])]
    met = [(one["y"], one["challengers"]["tree"]["y"], of[one["id"]]) for one in known]
    found = learner.figures().compared["tree"]
    met = met[: int(found["total_labels"])]

    def about(y, label):
        return 1 if y is None else int((y == "rare") != (label == "rare"))

    assert found["total_champion"] == pytest.approx(np.mean([about(y, label) for y, _, label in met]))
    assert found["total_difference"] == pytest.approx(np.mean([about(a, c) - about(b, c) for a, b, c in met]))
    assert found["total_difference"] != pytest.approx(np.mean([(a != c) - (b != c) for a, b, c in met]))


def test_a_comparison_goes_on_where_losses_are_what_they_were():
    data = records(1500)

    def compared(was, now):
        learner = PartitionLearner(stream(now))
        learner.restore(fold(stream(was), data, 500)[0].snapshot())
        return "tree" in learner.figures().compared

    assert compared(None, None)
    assert compared(DECISIONS["recall"], {"class": "up", "recall": 0.5})
    assert not compared(None, DECISIONS["alert-rate"])
    assert not compared(DECISIONS["recall"], DECISIONS["precision"])
    assert not compared(DECISIONS["recall"], {"class": "down", "recall": 0.9})
    assert not compared(DECISIONS["recall"], None)
    assert not compared(DECISIONS["recall"], COSTS)
    assert compared(AMOUNTS, AMOUNTS)
    assert not compared(COSTS, AMOUNTS)


def test_what_was_paid_goes_on_where_costs_are_what_they_were():
    data = records(600)
    before = fold(stream(AMOUNTS), data, 500)[0]

    def costs(decision, arrays=None, **changes):
        learner, cut = PartitionLearner(stream(decision, **changes)), before.snapshot()
        learner.restore(cut if arrays is None else cut._replace(arrays=arrays))
        found = learner.figures()
        return {name: one["champion"].get("cost") for name, one in (("all", found.overall), ("last", found.recent))}

    known = costs(AMOUNTS)
    assert None not in known.values()
    assert costs({"costs": {"up": {"down": "b"}}}) == costs(None) == {"all": None, "last": None}
    assert costs(AMOUNTS, metrics={"window": 50})["all"] == known["all"]
    assert costs(AMOUNTS, metrics={"fading": 0.9}) == {"all": known["all"], "last": None}
    changed = reconcile(stream({"costs": {"up": {"down": 7}}}), before.snapshot().meta, [None, None])
    ((what, fate, said),) = changed.found
    assert (what, fate, said.partition("}}: ")[2]) == (
        "decision",
        "restarted",
        "from the next prediction on, and what mistakes cost begins anew",
    )
    older = {name: array for name, array in before.snapshot().arrays.items() if "/paid/" not in name}
    assert costs(AMOUNTS, older) == {"all": None, "last": None}  # of a version that counted none


def test_what_naming_no_class_costs_does_not_depend_on_the_classes_that_came_with_the_same_step():
    """Of the first predictions, which know no class. It costs 5 where "up" is true, whether "down" is known or not."""
    spec = stream(COSTS, champion="majority-class", challengers={"tree": TREE})
    for seed in range(6):
        one_by_one, *others = (fold(spec, records(60, seed), limit)[0] for limit in (1, 2, 7, 1000))
        assert [other.digest() for other in others] == [one_by_one.digest()] * 3
        assert one_by_one.figures().compared["tree"]["total_labels"] > 50


def test_a_promotion_says_by_how_much_the_mean_cost_is_lower():
    spec = stream(COSTS, champion="last-label", promotion={"mode": "automatic", "margin": 0.1})
    _, _, events, _ = fold(spec, records(), 333)
    assert "less mean cost than the champion" in events[0].sentence


@pytest.mark.parametrize("name", ["recall", "precision", "alert-rate"])
def test_a_target_is_kept_and_told(name):
    decision, data = DECISIONS[name], records()
    learner, sent, *_ = fold(stream(decision), data, 500)
    found, met = learner.figures(), joined(sent, data)
    n = int(found.overall["champion"]["n"])
    named, own = (np.array([one[i] == "up" for one in met[:n]]) for i in (0, 2))
    assert found.overall["champion"]["alert_rate"] == pytest.approx(named.mean())
    assert found.overall["champion"]["accuracy"] == pytest.approx(np.mean([y == label for y, _, label in met[:n]]))
    reached = {"recall": (named & own).sum() / own.sum(), "precision": (named & own).sum() / named.sum()}
    share = decision[name.replace("-", "_")]
    assert {**reached, "alert-rate": named.mean()}[name] == pytest.approx(share, abs=0.03)
    assert 0.0 < found.recent["champion"]["threshold"] < 1.0
    assert "threshold" not in found.overall["champion"]
    of_up = found.by_class["champion"]["up"]
    assert of_up["recall"] == pytest.approx((named & own)[-100:].sum() / own[-100:].sum())


def test_probabilities_and_what_is_learned_stay_what_they_are():
    data = records(1500, turns=(700,))
    plain, sent, _, drifts = fold(stream(), data, 100)
    other, decided, _, same_drifts = fold(stream(DECISIONS["alert-rate"]), data, 100)
    assert [one["p"] for one in decided] == [one["p"] for one in sent]
    assert [one["y"] for one in decided] != [one["y"] for one in sent]
    assert same_drifts == drifts  # detectors watch the likeliest class
    arrays, others = plain.snapshot().arrays, other.snapshot().arrays
    for name in arrays:
        if name.startswith(("models/", "drift/", "calibration/", "estimated/")):
            assert arrays[name].tobytes() == others[name].tobytes(), name
    assert set(others) - set(arrays) == {
        name for name in others if name.startswith("decision/") or name.endswith("/decided")
    }


def test_a_weight_is_that_of_the_labels_of_a_class():
    """A stump of counts: labels of up count three times in its probabilities, and once in its scores."""
    data, decision = records(400), {"champion": "majority-class"}
    learner, sent, *_ = fold(stream(class_weights={"up": 3}, **decision), data, 50)
    plain, told, *_ = fold(stream(**decision), data, 50)
    for one, other in zip(sent, told, strict=True):
        if other["p"]:
            odds = other["p"].get("up", 0.0) / other["p"]["down"] if other["p"].get("down") else np.inf
            weighted = one["p"]["up"] / one["p"]["down"] if one["p"].get("down") else np.inf
            assert weighted == pytest.approx(3 * odds)
    assert learner.figures().overall["champion"]["n"] == plain.figures().overall["champion"]["n"]
    assert learner.roles["champion"].metrics.counts().sum() == plain.roles["champion"].metrics.counts().sum()


def test_a_class_that_no_label_has_had_yet_changes_nothing():
    data = records(300)
    for decision in ({"class": "never", "recall": 0.9}, {"costs": {"never": {"up": 9}}}):
        other, decided, *_ = fold(stream(decision), data, 37)
        sent = fold(stream(), data, 37)[1]
        assert [one["y"] for one in decided] == [one["y"] for one in sent]
        assert other.digest() == fold(stream(decision), data, 300)[0].digest()


def test_another_target_begins_anew_and_another_share_goes_on():
    data = records(1500)
    cut = fold(stream(DECISIONS["recall"]), data, 100)[0].snapshot()

    def taken(decision):
        learner = PartitionLearner(stream(decision))
        said = learner.restore(cut)
        return [s for s in said if "decision" in s], learner.figures().recent["champion"].get("threshold"), learner

    said, threshold, _ = taken(DECISIONS["recall"])
    assert (said, threshold is not None) == ([], True)
    (said,), threshold, learner = taken({"class": "up", "recall": 0.5})
    assert said.endswith("is {class: up, recall: 0.5}: from the next prediction on")
    assert threshold is not None
    assert learner.origin is not None
    (said,), threshold, _ = taken({"class": "down", "recall": 0.9})
    assert said.endswith("from the next prediction on, begun anew")
    assert threshold is None
    (said,), threshold, learner = taken(None)
    assert said.startswith("decision was")
    assert "decision" not in " ".join(learner.snapshot().arrays)


def test_a_state_of_before_goes_on_and_what_waits_then_is_scored_by_its_likeliest_class():
    data = records(600)
    cut = fold(stream(), data, 100)[0].snapshot()
    learner = PartitionLearner(stream(COSTS))
    (said,) = [one for one in learner.restore(cut) if "decision" in one]
    assert said.startswith("decision was none, is ")
    waiting = learner.pending.out["champion/decided"][: learner.pending.n_waiting, 0]
    assert np.isnan(waiting).all()
    assert "cost" not in learner.figures().overall["champion"]
    later = fold(stream(COSTS), records(600), 100)[0]
    assert "cost" in later.figures().overall["champion"]


YAML = """
name: s
task: classification
features: {a: numeric, c: nominal, d: numeric}
classes: [0, 1, yes, true]
champion: {model: hoeffding-tree}
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("decision: {class: 1}", "decision: expected one of costs, precision, recall, alert_rate, found none"),
        ("decision: {recall: 0.9}", "decision: expected the class that recall is about, found none; name it at class"),
        ("decision: {class: 7, recall: 0.9}", 'decision.class: expected one of the classes, found "7"; use 0, 1,'),
        ("decision: {class: 1, recall: 0.9, precision: 0.5}", "found precision and recall; write one"),
        ("decision: {class: 1, recall: 1}", "decision.recall: expected a number below 1, found 1; lower it"),
        ("decision: {class: 1, costs: {1: {0: 2}}}", "expected costs alone, since they name their classes"),
        ("decision: {costs: {1: {0: -2}}}", "decision.costs.1.0: expected a number of at least 0, found -2; raise it"),
        ("decision: {costs: {1: {no: 2}}}", 'decision.costs.1.no: expected one of the classes, found "no"'),
        (
            "decision: {costs: {1: {0: b}}}",
            'decision.costs.1.0: expected a number of at least 0, or a numeric feature, found "b"; use a, d',
        ),
        *(
            (f"decision: {{costs: {{1: {{0: {one}}}}}}}", f"feature, found {said}; write digits, without quotes")
            for one, said in (("'20'", '"20"'), ('"-1"', '"-1"'), (".inf", '".inf"'), ("'.5'", '".5"'))
        ),
        (
            "decision: {costs: {1: {0: c}}}",
            'or a numeric feature, found "c", which is nominal; use a, d',
        ),
        (
            "decision: {costs: {1: {0: a}, 0: {1: d}}}",
            'decision.costs.0.1: expected one feature in all costs, "a", found "d"; name one',
        ),
        ("class_weights: {1: 0}", "class_weights.1: expected a number above 0, found 0; raise it"),
        ("class_weights: {no: 2}", 'class_weights.no: expected one of the classes, found "no"'),
        ("class_weights: {1: 2}\ndecision: {costs: {1: {0: 2}}}", "would count twice, found both; remove one"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_sentence(more, said):
    with pytest.raises(SpecError) as caught:
        loads(YAML + more)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "more"),
    [
        *((task, {"class_weights": {"a": 2}}) for task in ("regression", "anomaly", "multi-instance")),
        *((task, {"decision": one}) for task in ("regression", "multi-instance") for one in (COSTS, {"recall": 0.9})),
        ("anomaly", {"class_weights": {"a": 2}, "decision": {"alert_rate": 0.1}}),
    ],
)
def test_they_are_of_a_classification(task, more):
    file = {key: value for key, value in FILE.items() if key not in ("champion", "challengers")}
    if task == "multi-instance":
        file["classes"] = ["a", "b"]
    with pytest.raises(
        SpecError, match=f'{next(iter(more))}: expected only with task classification, found task "{task}"'
    ):
        build({**file, "task": task, **more}, "s")


def test_classes_are_known_by_their_texts():
    spec = loads(YAML + "class_weights: {1: 2, yes: 3}\ndecision: {class: true, alert_rate: 0.1}")
    assert spec.class_weights == {"1": 2.0, "yes": 3.0}
    assert spec.decision is not None
    assert (spec.decision.class_, spec.decision.target) == ("true", ("alert_rate", 0.1))


@pytest.mark.parametrize("decision", [COSTS, AMOUNTS, DECISIONS["alert-rate"]])
def test_an_evaluation_by_a_stream_file_decides_as_its_worker_would(tmp_path, decision):
    rng = np.random.default_rng(1)
    rows = [(a, "up" if a + 0.3 * rng.normal() > 0.7 else "down") for a in rng.random(2000).round(4)]
    text = "a,b,y\n" + "".join(f"{a},{i % 7},{y}\n" for i, (a, y) in enumerate(rows))
    (tmp_path / "rows.csv").write_text(text)
    file = {**FILE, "champion": "naive-bayes", "challengers": {}, "control": False, "decision": decision}
    (tmp_path / "s.yaml").write_text(json.dumps(file))
    arguments = ["--stream", tmp_path / "s.yaml", "--model", "naive-bayes", "--label-delay", "10", "--json"]
    done = CliRunner().invoke(cli, ["evaluate", *map(str, [tmp_path / "rows.csv", *arguments])])
    (found,) = json.loads(done.stdout)["runs"]
    named = found["classes"]["up"]["recall"] * found["classes"]["up"]["n"] / found["classes"]["up"]["precision"]
    if "costs" in decision:
        assert 0.0 < found["cost"] < 0.5
        assert found["curves"]["cost"][-1] > 0.0
        assert "threshold" not in found["curves"]
    else:
        assert found["alert_rate"] == pytest.approx(named / found["n"]) == pytest.approx(0.2, abs=0.03)
        assert 0.0 < found["curves"]["threshold"][-1] < 1.0
