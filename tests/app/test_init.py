"""`riparian init` writes a stream file that is valid, says why, and can be evaluated at once."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.guessing.fitting import of_topics
from riparian.app.dataset.guessing.from_file import likely_label, of_file
from riparian.app.dataset.guessing.from_topic import Message, TopicSample, of_records
from riparian.app.errors import DataError
from riparian.app.evaluation import shares
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.draft import most_values, quoted, write
from riparian.app.stream_file.spec import Spec, load, loads
from riparian.topics.records import RawBatch

NOW, DAY = 1_700_000_000_000, 86_400.0  # ms, and seconds
USUAL = [
    *("is_fraud", "isFraud", "fraud", "churn", "Churned", "default", "clicked", "converted", "is_churn", "hasFailed"),
]
SHOP = "visit_id,at,plan,seats,paid,site,note,region,bought\n" + "".join(
    f"{1000 + i},2026-03-{1 + i % 28:02}T1{i % 10}:00:00,{('free', 'team', 'pro')[i % 3]},{i % 4},{i % 50 * 0.5},eu,"
    f"text {i},,{('no', 'yes')[i % 3 == 2]}\n"
    for i in range(120)
)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.csv"
    path.write_text(SHOP)
    return path


def drafted(path: Path, content: str, **known: Any) -> tuple[str, Spec]:
    """The stream file of a data file of that content."""
    path.write_text(content)
    return write(of_file(DataFile(path), **known))


def run(*arguments: object, **options: Any) -> Any:
    return CliRunner().invoke(cli, list(map(str, arguments)), **options)


def test_a_small_file_becomes_a_valid_stream_that_can_be_evaluated(shop: Path) -> None:
    found = run("init", shop, "--label", "bought")
    assert found.exit_code == 0, found.output
    assert "shop.yaml: classification of 'bought', 3 features, 5 left out" in found.output
    spec = load("shop.yaml")
    assert {name: feature.type for name, feature in spec.features.items()} == {
        "plan": "nominal", "seats": "numeric", "paid": "numeric",
    }  # fmt: skip
    # What follows is what the command says, word for word.
    check, evaluate, *_ = (line.strip() for line in found.output.partition("next:\n")[2].splitlines())
    assert run(*check.split()[1:]).exit_code == 0
    result = json.loads(run(*evaluate.split()[1:], "--json").stdout)
    assert result["rows"] == 120
    assert result["models"]["champion"]["overall"]["accuracy"] > 0.6
    told = json.loads(run("init", shop, "--label", "bought", "--out", "again.yaml", "--json").stdout)
    assert (told["file"], told["label"], told["features"]) == ("again.yaml", "bought", ["plan", "seats", "paid"])
    assert told["next"] == [
        line.strip().replace("shop.yaml", "again.yaml") for line in found.output.partition("next:\n")[2].splitlines()
    ]


def test_what_is_left_out_stands_there_as_a_comment_with_the_reason(shop: Path) -> None:
    run("init", shop, "--label", "bought")
    text = Path("shop.yaml").read_text()
    for name, reason in {
        "visit_id": "it looks like an id",
        "at": "which no later row repeats; --date-parts at makes at_hour and at_weekday of it",
        "site": 'it is "eu" everywhere',
        "note": 'it has 120 texts such as "text 0"',
        "region": "it is empty everywhere",
    }.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"  # {name}: ")]
        assert reason in line
        # Without its # the line is a feature.
        Path("more.yaml").write_text(text.replace(f"  # {name}: ", f"  {name}: "))
        assert name in load("more.yaml").features
    assert '3 values: "free", "team", "pro"' in text
    assert "of every topic; one partition has one model" in text
    assert "4 whole numbers; nominal, if they are codes" in text


def test_what_grows_from_row_to_row_is_no_feature(tmp_path: Path) -> None:
    """An id or a clock that is not called one: a tree splits on it, and every later row is on one side."""
    rows = [
        f"{7000 + 3 * i},{1_700_000_000 + 2 * i // 3},{1_700_000_000_000 + i},{i},{i % 9 * 0.5},{i % 2}"
        for i in range(200)
    ]
    path = tmp_path / "d.csv"
    path.write_text("\n".join(["customer no,sent at,ts,n,x,label", *rows, ",,,,,1"]))
    found = {one.name: (one.dropped, one.remark) for one in of_file(DataFile(path)).features}
    assert not found["x"][0]
    for name, reason in {
        "customer no": "grows from row to row, as ids and clocks do",
        "n": "grows from row to row",
        "sent at": "--date-parts 'sent at' makes sent at_hour and sent at_weekday of it",
        "ts": "it holds times, which no later row repeats",
    }.items():
        assert found[name][0]
        assert reason in found[name][1]
    assert "date-parts" not in found["ts"][1]  # milliseconds, which it does not take
    types = DataFile(path).types()
    assert types.growing == ("customer no", "sent at", "ts", "n")
    assert "--ignore 'customer no' leaves it out" in " ".join(types.remarks())
    path.write_text("\n".join(["n,x,label", *(f"{i % 199},{i // 9},{i % 2}" for i in range(200))]))
    assert not DataFile(path).types().growing  # one falls at its end, the other rises in every ninth row


def test_numbers_with_a_stray_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(
        "x,colour,label\n" + "".join(f"{i % 7 / 4},{'rb'[i % 2]},{i % 2}\n" for i in range(200)) + "ERR,r,1\n"
    )
    found = {one.name: one for one in of_file(DataFile(path)).features}
    assert found["x"].type == "nominal"
    assert found["x"].remark.endswith('most of them numbers: numeric, if nothing is written in place of "ERR"')
    assert found["colour"].remark == '2 values: "r", "b"'


def test_bounds_are_named_where_values_are_many(tmp_path: Path) -> None:
    """No lower than the default, so that nothing is rejected that would not be. Of a column that is left out, too."""
    assert [most_values(n) for n in (1, 10, 11, 250, 251, 500, 501, 5000)] == [
        None, None, 1000, 1000, 2000, 2000, 5000, 20_000,
    ]  # fmt: skip
    rows = (f"c{i % 9},k{i % 12},m{i * 7 % 300},s{i * 7 % 1100},{i % 2}\n" for i in range(12_000))
    text, spec = drafted(tmp_path / "d.csv", "few,some,many,most,label\n" + "".join(rows))
    assert {name: feature.max_values for name, feature in spec.features.items()} == {
        "few": 1000, "some": 1000, "many": 2000,
    }  # fmt: skip
    named = [name for name, feature in spec.features.items() if "max_values" in feature.model_fields_set]
    assert named == ["some", "many"]
    assert "  # most: {type: nominal, max_values: 5000}" in text


def test_a_file_that_is_there_is_not_replaced(shop: Path) -> None:
    Path("shop.yaml").write_text("mine")
    found = run("init", shop, "--label", "bought")
    assert isinstance(found.exception, DataError)
    assert "shop.yaml is there already and is not replaced" in str(found.exception)
    assert Path("shop.yaml").read_text() == "mine"
    assert run("init", shop, "--label", "bought", "--out", "other.yaml", "--name", "visits").exit_code == 0
    assert load("other.yaml").name == "visits"


def test_a_label_that_is_not_clear_is_asked_for(shop: Path) -> None:
    shop.write_text(SHOP.replace("bought", "came back"))
    found = run("init", shop)
    assert isinstance(found.exception, DataError)
    assert str(found.exception).startswith(f"it is not clear which of the columns of {shop} is the label: name it by")
    assert not Path("shop.yaml").exists()


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["a", "class", "b"], "class"),
        (["Target", "a"], "Target"),
        (["a", "class_rings"], "class_rings"),
        (["a", "failed_next_day"], "failed_next_day"),
        (["a", "classRings"], "classRings"),
        (["class_rings", "a"], None),
        (["class", "label"], None),
        (["a", "b"], None),
        *(([name, "u", "v"], name) for name in USUAL),
        *(([name, "class", "v"], None) for name in USUAL),
    ],
)
def test_which_column_is_the_label(names: list[str], label: str | None) -> None:
    assert likely_label(names) == label


def test_names_and_values_that_yaml_would_take_otherwise_come_back(tmp_path: Path) -> None:
    refused = ['quo"te', "bell\x07"]
    odd = ["on", "1e5", "a: b", "#x", "ünï", 'quo"te', "{c}", "null", "a.b", "bell\x07", "y"]
    rows = "".join(",".join(f'"{(i * 7 + j) % 9}.5"' for j in range(len(odd))) + f",{i % 2}\n" for i in range(30))
    header = ",".join('"' + name.replace('"', '""') + '"' for name in odd)
    text, spec = drafted(tmp_path / "odd.csv", f"{header},label\n{rows}", label="label")
    assert list(spec.features) == [name for name in odd if name not in refused]
    assert all(f"  # {quoted(name)}: numeric " in text for name in refused)
    rows = "".join(f'{i % 3},"{("no", "12: 30", "it, is")[i % 3]}"\n' for i in range(30))
    text, _ = drafted(tmp_path / "texts.csv", "v,label\n" + rows)
    assert "# classes" in text
    (tmp_path / "closed.yaml").write_text(text.replace("# classes", "classes"))
    assert load(tmp_path / "closed.yaml").classes == ["no", "12: 30", "it, is"]


def test_a_decision_is_proposed_where_a_class_is_rare(tmp_path: Path) -> None:
    def proposed(n_rare: int) -> str:
        labels = ["no: 1"] * n_rare + ["ok"] * (1000 - n_rare) + ["", "?"]
        rows = "".join(f"{i % 99},{label}\n" for i, label in enumerate(labels))
        return drafted(tmp_path / "d.csv", "a,label\n" + rows)[0]

    text = proposed(3)
    assert '"no: 1" is 0.3 % of the labels' in text
    assert '# decision: {class: "no: 1", alert_rate: 0.006}' in text
    spec = loads(text.replace("# decision", "decision"))
    assert spec.decision is not None
    assert spec.decision.target == ("alert_rate", 0.006)
    assert loads(text.replace("# metrics", "metrics")).metrics.window == 40_000  # some hundred in three of a thousand
    assert "decision" not in proposed(60)
    for n_classes, is_proposed in ((2, True), (6, True), (13, False), (60, False)):  # not for one of many classes
        rows = "".join(f"{i % 7 / 4},k{i % (n_classes - 1)}\n" for i in range(999))
        assert ("# decision" in drafted(tmp_path / "d.csv", f"x,label\n{rows}1,rare\n")[0]) == is_proposed


def test_what_cannot_be_is_one_sentence(shop: Path) -> None:
    for arguments, sentence in {
        ("--label", "gone"): "has no column 'gone' for the label",
        ("--label", "site"): "column 'site' of",
        ("--label", "note", "--task", "regression"): "is not numeric",
        ("--label", "bought", "--name", "a b"): 'found "a b"; rename the stream',
        ("--label", "bought", "--ignore", "plan", "--ignore", "seats", "--ignore", "paid"): "has no feature left",
    }.items():
        assert sentence in str(run("init", shop, *arguments).exception)
    assert "give either FILE.csv or --from-topic" in run("init").output
    assert "--labels is for --from-topic" in run("init", shop, "--labels", "t").output
    assert "--bag is for FILE.csv" in run("init", "--from-topic", "t", "--bag", "b").output


@pytest.mark.data
def test_bags(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", data_dir / "mil_fox.csv.gz", "--bag", "bag", "--label", "label").exit_code == 0
    spec = load("mil_fox.yaml")
    assert (spec.task, spec.classes) == ("multi-instance", ["0", "1"])
    assert "bag" not in spec.features
    assert len(spec.features) < 230  # many columns are constant
    assert run("check", "mil_fox.yaml").exit_code == 0


# records -------------------------------------------------------------------------------------------------------------


def order(i: int, **more: Any) -> dict[str, Any]:
    return {
        "created_at": f"2026-05-01T12:{i % 60:02}:00Z",
        "customer": {"age": 20 + i, "new": i % 2 == 0},
        "payload": {"total": i / 4, "country": ("de", "fr")[i % 2], "tags": ["a"], "coupon": None},
        **more,
    }


def messages(records: list[dict[str, Any]], keys: bool = True) -> list[Message]:
    return [Message(str(4711 + i) if keys else None, record) for i, record in enumerate(records)]


def spec_of(topic: TopicSample, labels: TopicSample | None = None, **known: Any) -> Spec:
    return write(of_records(topic, labels, name="shop", **known))[1]


def test_times_are_found_under_names_of_several_words() -> None:
    """So that of a label's record nothing but the label is left."""

    def at(i: int) -> str:
        return f"2026-05-01T{i // 60:02d}:{i % 60:02d}:00Z"

    parcels = [{"parcelId": f"P-{i}", "scannedAt": at(i), "weightKg": i % 7} for i in range(60)]
    arrived = [{"parcelId": f"P-{i}", "arrived_at": at(2 * i), "late": ("no", "yes")[i % 2]} for i in range(60)]
    spec = spec_of(TopicSample("parcels", messages(parcels), 1, 1), TopicSample("arrived", messages(arrived), 1, 1))
    assert (spec.record.time, spec.label.y, [*spec.features]) == (("scannedAt",), ("late",), ["weightKg"])


def test_an_id_that_labels_repeat_is_not_their_label() -> None:
    readings = [Message(f"r{i}", {"reading": f"r{i}", "heat": i / 4, "at": 1_780_000_000 + i}) for i in range(60)]
    outcomes = [
        Message(f"r{i}", {"reading": f"r{i}", "worn": "yes" if i % 3 else "no", "at": 1_780_000_100 + i})
        for i in range(60)
    ]
    spec = spec_of(TopicSample("plant.readings", readings, 1, 1), TopicSample("plant.outcomes", outcomes, 1, 1))
    assert spec.label.y == ("worn",)
    assert list(spec.features) == ["heat"]


def test_records_with_the_label_inside_and_the_id_as_the_key() -> None:
    records = messages([order(i, outcome={"fraud": i % 3 == 0}) for i in range(60)])
    spec = spec_of(TopicSample("shop.orders", records, 4, 3))
    assert (spec.partitions, spec.replication, spec.learning.kind) == (4, 3, "shared")
    assert spec.topics.labels is None
    assert spec.record.id == ("@key",)
    assert spec.record.time == ("created_at",)
    assert spec.record.y == ("outcome", "fraud")
    assert {name: (feature.type, feature.from_) for name, feature in spec.features.items()} == {
        "customer_age": ("numeric", ("customer", "age")),
        "customer_new": ("boolean", ("customer", "new")),
        "payload_total": ("numeric", ("payload", "total")),
        "payload_country": ("nominal", ("payload", "country")),
    }


def test_records_of_two_topics_are_joined_by_the_field_that_both_have() -> None:
    features = messages([order(i, order_id=i, request_id=f"r{i}") for i in range(60)], keys=False)
    labels = messages([{"order_id": i, "fraud": "no", "at": 1.8e9 + i} for i in range(20, 58)], keys=False)
    labels += messages([{"order_id": 59, "fraud": "yes", "at": 1.8e9}], keys=False)
    spec = spec_of(TopicSample("orders", features, 1, 1), TopicSample("outcomes", labels, 1, 1))
    assert spec.topics.labels == "outcomes"
    assert (spec.record.id, spec.label.id, spec.label.y) == (("order_id",), ("order_id",), ("fraud",))
    assert "request_id" not in spec.features
    apart = messages([{"order_id": i, "fraud": i % 2} for i in range(900, 940)], keys=False)
    with pytest.raises(DataError, match="no id was found both in orders and outcomes"):
        spec_of(TopicSample("orders", features, 1, 1), TopicSample("outcomes", apart, 1, 1))


def clicks(
    n: int = 600, id_: str = "impression_id", late: int = 40_000, each: int = 7
) -> tuple[TopicSample, TopicSample]:
    """Impressions, one each 10 s, and a click for one of `each`, which says no more than whose it is. late : ms"""
    shown = [{"impression": {"id": f"i-{i}"}, "slot": ["top", "foot"][i % 2], "bid": i % 13 / 4} for i in range(n)]
    made = [one._replace(time=NOW + 10_000 * i) for i, one in enumerate(messages(shown, keys=False))]
    of = [{id_: f"i-{i}", "clicked_at": NOW + 10_000 * i, "n": i % 3} for i in range(0, n, each)]
    late_ = [
        one._replace(time=one.fields["clicked_at"] + late * (i % 2)) for i, one in enumerate(messages(of, keys=False))
    ]
    return TopicSample("impressions", made, 1, 1), TopicSample("clicks", late_, 1, 1)


@pytest.mark.parametrize("id_", ["impression_id", "shown"])
def test_labels_whose_records_say_that_something_happened_have_a_class_and_no_field(id_: str) -> None:
    text, spec = write(of_topics(*clicks(id_=id_), name="ads", is_="clicked"))
    assert (spec.record.id, spec.label.id, spec.label.is_) == (("impression", "id"), (id_,), "clicked")
    assert (spec.classes, list(spec.features)) == (["no", "clicked"], ["slot", "bid"])
    assert f'label: {{id: {id_}, is: "clicked"}}' in text
    unlabelled = spec.join.unlabelled
    assert unlabelled is not None
    assert (unlabelled.is_, unlabelled.after, spec.join.horizon) == ("no", 300.0, 3600.0)
    assert "those seen came up to 40s later" in text
    assert "needs a null" not in text


@pytest.mark.parametrize(
    ("is_", "other"),
    [("yes", "no"), ("1", "0"), ("true", "false"), ("no", "yes"), ("No", "yes"), ("NO", "yes"), ("sent", "no")],
)
def test_the_class_of_silence_is_another_one(is_: str, other: str) -> None:
    spec = write(of_topics(*clicks(), name="ads", is_=is_))[1]
    assert spec.classes == [other, is_]
    assert spec.label.is_ == is_


def test_after_how_long_silence_counts_is_what_a_topic_can_tell() -> None:
    for n, late, after in (
        (600, 40_000, 300.0),
        (600, 900_000, 1800.0),
        (50, 400_000, 14 * DAY),
        (600, 5_000_000, 14 * DAY),
    ):
        spec = write(of_topics(*clicks(n, late=late), name="ads", is_="clicked"))[1]
        assert spec.join.unlabelled is not None
        assert spec.join.unlabelled.after == after


def test_a_decision_is_proposed_where_few_records_have_a_label(tmp_path: Path) -> None:
    features, labels = clicks(each=30)
    newest = features.messages[-1].time or 0  # of the last records no label has come yet
    labels = labels._replace(messages=[one for one in labels.messages if (one.time or 0) < newest - 2_000_000])
    text = write(of_topics(features, labels, name="ads", is_="clicked"))[0]
    assert '# "clicked" is 3.3 % of the records, so it may never be the likeliest class.' in text
    decision = loads(text.replace("# decision", "decision")).decision
    assert decision is not None
    assert decision.target == ("alert_rate", 0.07)
    assert "decision" not in write(of_topics(*clicks(), name="ads", is_="clicked"))[0]
    rows = "".join(f"{i % 99},{'fraud' if i % 50 == 0 else ''}\n" for i in range(1000))
    assert '"fraud" is 2 % of the records' in drafted(tmp_path / "d.csv", "a,class\n" + rows)[0]


def joined(shown: list[dict[str, Any]], of: list[dict[str, Any]], late: int = 4000, step: int = 7) -> Any:
    """Topics with a record each 10 s, and labels of each `step`th, `late` ms later."""
    features = [one._replace(time=NOW + 10_000 * i) for i, one in enumerate(messages(shown, keys=False))]
    labels = [one._replace(time=NOW + 10_000 * step * k + late) for k, one in enumerate(messages(of, keys=False))]
    return TopicSample("impressions", features, 1, 1), TopicSample("clicks", labels, 1, 1)


@pytest.mark.parametrize("id_", ["impression_id", "impression"])
def test_a_number_of_the_labels_own_is_not_whose_they_are(id_: str) -> None:
    shown = [{"id": i + 1, "slot": ["top", "foot"][i % 2], "bid": i % 13 / 4} for i in range(600)]
    of = [{"id": k + 1, id_: 7 * k + 1, "n": k % 3} for k in range(85)]
    text, spec = write(of_topics(*joined(shown, of), name="ads", is_="clicked"))
    assert (spec.record.id, spec.label.id) == (("id",), (id_,))
    assert f"# 85 of 85 labels met a record, by {id_}" in text
    # Of one that comes after so long that either may be, both are named, and the sentence can be followed.
    topics = joined(shown, of, late=5_000_000)
    with pytest.raises(DataError, match=f"say --id id=id or --id id={id_}$"):
        of_topics(*topics, name="ads", is_="clicked")
    assert write(of_topics(*topics, name="ads", is_="clicked", id_=f"id={id_}"))[1].label.id == (id_,)


def test_texts_that_stand_in_both_topics_are_ids_whatever_they_are_called() -> None:
    """Numbers and times may be in both by chance."""
    shown = [
        {"ts": f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z", "reading": f"pump {i}", "v": i, "t": i % 13 / 4}
        for i in range(600)
    ]
    of = [{"ts": shown[7 * k]["ts"], "measured": f"pump {7 * k}", "kW": k / 4} for k in range(85)]
    text, spec = write(of_topics(*joined(shown, of), name="pumps", label="kW"))
    assert (spec.record.id, spec.label.id, spec.record.time) == (("reading",), ("measured",), ("ts",))
    assert "# 85 of 85 labels met a record, by measured" in text
    for name in ("ts", "v"):
        without = [{key: value for key, value in one.items() if key != "reading"} for one in shown]
        others = [{name: shown[7 * k][name], "kW": k / 4} for k in range(85)]
        with pytest.raises(DataError, match="which field of impressions is the id: name it by --id"):
            of_topics(*joined(without, others), name="pumps", label="kW")


def test_several_labels_of_a_record_and_those_of_others_are_joined() -> None:
    shown = [{"impression_id": f"i{i}", "slot": ["top", "foot"][i % 2], "bid": i % 13 / 4} for i in range(600)]
    of = [{"impression": f"i{7 * (k // 3)}", "position": k % 3} for k in range(255)]
    spec = write(of_topics(*joined(shown, of), name="ads", is_="clicked"))[1]
    assert spec.label.id == ("impression",)
    apart = [{"shown": f"i{k}" if k == 7 else f"x{k}", "position": k % 3} for k in range(255)]  # one is by chance
    said = r"say by --id FIELD=FIELD where it stands in both \(those of clicks are shown, position\)"
    with pytest.raises(DataError, match=said):
        of_topics(*joined(shown, apart), name="ads", is_="clicked")
    text, spec = write(of_topics(*joined(shown, apart), name="ads", is_="clicked", id_="impression_id=shown"))
    assert spec.label.id == ("shown",)
    assert "# 1 of 255 labels met a record, by shown" in text
    events = [
        {
            "specversion": "1.0",
            "id": f"e{k}",
            "source": "/",
            "type": "click",
            "subject": f"i{7 * k}",
            "data": {"n": k % 3},
        }
        for k in range(85)
    ]
    spec = write(of_topics(*joined(shown, events), name="ads", is_="clicked"))[1]
    assert (spec.label.envelope, spec.label.id) == ("cloudevents", ("@envelope:subject",))
    assert spec.make_codec().decode_labels(
        RawBatch([0], [0], [None], [json.dumps(events[1]).encode()], [[]]), spec.class_vocabulary()
    ).ids == ["i7"]


def test_a_field_that_some_records_lack_is_no_id_of_theirs() -> None:
    records = [
        ({"promo_id": f"o{i}"} if i % 25 else {}) | {"a": i % 7, "b": "xyz"[i % 3], "label": i % 2} for i in range(1000)
    ]
    assert spec_of(TopicSample("orders", messages(records), 1, 1)).record.id == ("@key",)
    assert spec_of(TopicSample("orders", messages(records, keys=False), 1, 1)).record.id == ("@offset",)


def test_labels_that_come_after_what_was_seen_say_nothing_of_how_late_they_are() -> None:
    shown = [{"payment_id": f"p{i}", "amount": i % 97 / 7, "kind": "ab"[i % 2]} for i in range(1000)]
    features, labels = joined(shown, [{"payment_id": f"q{k}"} for k in range(90)], step=11)
    soon = [Message(None, {"payment_id": f"p{i}"}, NOW + 10_000 * i + 200_000) for i in range(0, 900, 90)]
    labels = labels._replace(messages=sorted([*labels.messages, *soon], key=lambda one: one.time or 0))
    text, spec = write(of_topics(features, labels, name="cb", is_="fraud"))
    assert spec.join.unlabelled is not None
    assert (spec.join.unlabelled.after, spec.join.horizon) == (14 * DAY, 60 * DAY)
    assert "# 10 of 100 labels met a record, by payment_id; the others may be of older ones, and come later" in text
    # Labels of before the records that were seen are none that come late.
    older = [one._replace(time=(one.time or 0) - 20_000_000) for one in labels.messages if "q" in str(one.fields)]
    text, spec = write(of_topics(features, labels._replace(messages=[*older, *soon]), name="cb", is_="fraud"))
    assert spec.join.unlabelled is not None
    assert spec.join.unlabelled.after == 600.0


def test_labels_without_a_field_are_asked_for_their_class() -> None:
    features, labels = clicks()
    found = r"which field of clicks is the label: .* by --is CLASS \(its fields are impression_id, clicked_at, n\)"
    with pytest.raises(DataError, match=found):
        of_topics(features, labels, name="ads", label="gone")
    labels = labels._replace(
        messages=[one._replace(fields={"impression_id": one.fields["impression_id"]}) for one in labels.messages]
    )
    with pytest.raises(DataError, match=r"by --is CLASS \(its fields are impression_id\)"):
        of_topics(features, labels, name="ads")
    shown = [
        one._replace(fields=one.fields | {"user": i % 99, "device": "ab"[i % 2], "bid": i / 7})
        for i, one in enumerate(features.messages)
    ]
    with pytest.raises(DataError, match="or the topic of the labels by --labels TOPIC"):  # and no forecast of the bid
        of_topics(features._replace(messages=shown), None, name="ads")
    for arguments, said in (
        (("--is", "clicked", "--label", "y"), "--is and --label y exclude each other"),
        (("--is", "clicked", "--task", "anomaly"), "--is and --task anomaly exclude each other"),
    ):
        assert said in run("init", "--from-topic", "t", "--labels", "l", *arguments).stderr
    assert "--is is for --from-topic TOPIC" in run("init", "data.csv", "--is", "clicked").stderr


@pytest.mark.parametrize(
    ("name", "values", "step", "taken"),
    [
        ("position", (0, 1, 2), 7, False),  # of a click
        ("position", (0, 1, 2), 1, True),
        ("bought", (0, 1, 2), 7, True),
        ("answer", ("no", "yes"), 7, True),
    ],
)
def test_a_field_that_is_alone_beside_the_id_is_no_label_where_few_records_have_one(
    name: str, values: tuple[Any, ...], step: int, taken: bool
) -> None:
    shown = [{"impression_id": f"i{i}", "slot": ["top", "foot"][i % 2], "bid": i % 13 / 4} for i in range(600)]
    of = [{"impression_id": f"i{step * k}", name: values[k % len(values)]} for k in range(600 // step)]
    topics = joined(shown, of, step=step)
    if taken:
        assert write(of_topics(*topics, name="ads"))[1].label.y == (name,)
        return
    found = rf"which field of clicks is the label: .* by --is CLASS \(its fields are impression_id, {name}\)"
    with pytest.raises(DataError, match=found):
        of_topics(*topics, name="ads")
    assert write(of_topics(*topics, name="ads", label=name))[1].label.y == (name,)


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize(("days", "horizon"), [(3.4, 7), (3.6, 8), (41, 82)])
def test_the_horizon_is_twice_the_lateness_that_was_seen(days: float, horizon: int, by_key: bool) -> None:
    at = [1_700_000_000_000 + i * 60_000 for i in range(60)]
    features = messages([order(i, order_id=i) for i in range(60)], by_key)
    labels = messages([{"order_id": i, "fraud": i % 2} for i in range(60)], by_key)
    features = [one._replace(time=t) for one, t in zip(features, at, strict=True)]
    late = [
        one._replace(time=t + int(i / 59 * days * 86_400_000))
        for i, (one, t) in enumerate(zip(labels, at, strict=True))
    ]
    known = {"id_": "@key", "label": "fraud"} if by_key else {}
    spec = spec_of(TopicSample("orders", features, 1, 1), TopicSample("outcomes", late, 1, 1), **known)
    assert spec.join.horizon == horizon * 86_400
    spec = spec_of(TopicSample("orders", features, 1, 1), TopicSample("outcomes", labels, 1, 1), **known)
    assert spec.join.horizon == 7 * 86_400  # nobody says when they came


@pytest.mark.parametrize(
    ("y", "classes"), [("fraud", ["other", "fraud"]), (1, ["0", "1"]), (True, ["false", "true"]), ("other", None)]
)
def test_labels_of_one_class_alone_are_held_against_silence(y: Any, classes: list[str] | None) -> None:
    features = messages([order(i, order_id=i) for i in range(60)], False)
    labels = messages([{"order_id": i, "result": y} for i in range(0, 60, 9)], False)
    topics = TopicSample("orders", features, 1, 1), TopicSample("outcomes", labels, 1, 1)
    text, spec = write(of_records(*topics, name="shop", label="result"))
    assert spec.classes == (classes or ["none", "other"])
    assert spec.class_vocabulary().find(y) == 1
    unlabelled = spec.join.unlabelled
    assert (unlabelled.is_, unlabelled.after, spec.join.horizon) == (spec.classes[0], 14 * 86_400.0, 60 * 86_400.0)
    assert (
        f"learned as {quoted(spec.classes[0]) if not isinstance(y, str) else spec.classes[0]} after 14d; a later"
        in text
    )
    late = [one._replace(time=40 * 86_400_000) for one in labels]
    early = [one._replace(time=0) for one in features]
    topics = TopicSample("orders", early, 1, 1), TopicSample("outcomes", late, 1, 1)
    assert spec_of(*topics, label="result").join.horizon == 80 * 86_400.0


@pytest.mark.parametrize("per_customer", [1, 4])
def test_rows_that_come_again_with_their_label_have_an_id(per_customer: int) -> None:
    """Also where each of them does, and more than once; a customer of several orders is none."""
    name = "id" if per_customer == 1 else "customer_id"
    made = [Message("", {name: i // per_customer, "amount": i % 7 / 4, "late": None}, 1000 * i) for i in range(200)]
    known = [one._replace(fields={**one.fields, "late": i % 3 == 0}) for i, one in enumerate(made)]
    if per_customer == 1:
        messages = [*made, *(one._replace(time=one.time + 86_400_000) for _ in range(2) for one in known)]
    else:
        messages = [one for pair in zip(made[::2], known[1::2], strict=True) for one in pair]
    spec = spec_of(TopicSample("orders", messages, 1, 1), label="late")
    assert spec.record.id == (("id",) if per_customer == 1 else ("@offset",))


@pytest.mark.parametrize("known", [[True, False], [True]])
def test_labels_that_come_by_updates_of_their_records(known: list[bool]) -> None:
    """How late they come is seen, and that those without one may be of another class."""
    day, rows = 86_400_000, [{"id": i, "amount": i % 7 / 4, "returned": None} for i in range(200)]
    made = [Message(str(i), row, 1000 * i) for i, row in enumerate(rows)]
    updates = [one._replace(fields={**one.fields, "returned": known[i % len(known)]}) for i, one in enumerate(made)]
    updates = [one._replace(time=5 * day + one.time) for one in updates if int(one.key) % 3]
    spec = spec_of(TopicSample("orders", [*made, *updates], 1, 1), label="returned")
    assert (spec.topics.labels, spec.record.y, list(spec.features)) == (None, ("returned",), ["amount"])
    if known[1:]:
        assert (spec.join.horizon, spec.join.unlabelled) == (10 * 86_400.0, None)
    else:
        assert (spec.classes, spec.join.unlabelled.is_) == (["false", "true"], "false")
    one_class = [one._replace(fields=one.fields | {"returned": True}) for one in made]
    with pytest.raises(DataError, match="has 1 value"):  # without updates, no record is known to be of another one
        spec_of(TopicSample("orders", one_class, 1, 1), label="returned")


def test_labels_of_one_class_alone_in_a_file_are_held_against_silence_too(tmp_path: Path) -> None:
    cards = [f"c{i % 40},{i % 97 / 4}" for i in range(2000)]
    rows = [f"{one},{'fraud' if i % 50 == 0 else ''}\n" for i, one in enumerate(cards)]
    text, spec = drafted(tmp_path / "payments.csv", "card,amount,class\n" + "".join(rows))
    assert spec.classes == ["other", "fraud"]
    assert (spec.join.unlabelled.is_, spec.join.unlabelled.after) == ("other", 14 * 86_400.0)
    assert "# card_share: {share: fraud, by: card" in text
    everywhere = "card,amount,class\n" + "".join(f"{one},fraud\n" for one in cards)
    with pytest.raises(DataError, match=r"has 1 value.*leave that of such rows empty"):
        drafted(tmp_path / "all.csv", everywhere)


def test_records_as_replay_writes_them_need_no_section() -> None:
    features = messages([{"id": str(i), "x": {"a": i / 2, "b": f"v{i % 3}"}} for i in range(60)])
    labels = messages([{"id": str(i), "y": i % 2} for i in range(60)])
    draft = of_records(TopicSample("s.features", features, 1, 1), TopicSample("s.labels", labels, 1, 1), name="s")
    assert (draft.record, draft.label_record) == ({}, {})
    assert [(feature.name, feature.type) for feature in draft.features] == [("a", "numeric"), ("b", "nominal")]


def test_fields_of_mixed_kinds_are_left_out_with_the_reason() -> None:
    records = [
        {"id": i, "label": i % 2, "v": i / 3, "price": str(i / 7), "odd": i if i % 2 else {"deep": i}, "a.b": i % 5 / 2}
        for i in range(60)
    ]
    draft = of_records(TopicSample("t", messages(records), 1, 1), name="t")
    remarks = {feature.name: feature.remark for feature in draft.features if feature.dropped}
    assert remarks == {
        "odd": "left out: it holds a value in some records and an object in others",
    }
    text, spec = write(draft)
    assert set(spec.features) == {"v", "price", "odd_deep", "a.b"}
    assert "price: {type: numeric, text: true" in text
    assert [name for name, one in spec.features.items() if one.text] == ["price"]


def test_codes_that_are_texts_are_proposed_as_no_numbers() -> None:
    records = [
        {
            "id": i, "label": i % 2, "v": i / 3, "mcc": str(4000 + i * 7 % 60), "price": f"{i / 7:.2f}",
            "pan": str(4_556_000_000_000_000 + i * 7919 % 997),
        }
        for i in range(90)
    ]  # fmt: skip
    text, spec = write(of_records(TopicSample("t", messages(records), 1, 1), name="t"))
    assert [(name, one.text) for name, one in spec.features.items() if one.type == "numeric"] == [
        ("v", False), ("price", True),
    ]  # fmt: skip
    said = {words[0]: words[2] for line in text.splitlines() if len(words := line.strip("# ").partition(":")) == 3}
    assert said["price"].endswith("# numbers as texts")
    for name in ("mcc", "pan"):
        assert "{type: numeric, text: true" in said[name]
        assert said[name].endswith("whole numbers as texts: numeric with text: true, or nominal")


def test_records_that_say_too_little_are_one_sentence() -> None:
    with pytest.raises(DataError, match="topic t holds no JSON object: it is empty"):
        spec_of(TopicSample("t", [], 1, 1))
    with pytest.raises(DataError, match="topic t holds no JSON object: no record of it is one"):
        spec_of(TopicSample("t", [], 1, 1, 7))
    nameless = TopicSample("t", messages([{"a": i / 2, "label": i % 2} for i in range(60)], keys=False), 1, 1)
    with pytest.raises(DataError, match=r"which field of t is the id: name it by --id FIELD=FIELD, or say --id @key"):
        spec_of(nameless, TopicSample("l", messages([{"y": i} for i in range(9)], keys=False), 1, 1))
    assert spec_of(nameless).record.id == ("@offset",)
    plain = TopicSample("t", messages([{"id": i, "a": i / 2, "b": i % 2} for i in range(60)]), 1, 1)
    with pytest.raises(DataError, match=r"which field of t is the label: name it by --label FIELD, or the topic"):
        spec_of(plain)
    with pytest.raises(DataError, match="no record of t has a field 'gone'"):
        spec_of(plain, label="b", id_="gone")
    assert spec_of(plain, label="b", id_="@key").record.id == ("@key",)
    assert spec_of(plain, label="b", id_="@offset").record.id == ("@offset",)


def test_fields_that_may_be_the_id_are_named_in_both_topics() -> None:
    paid = [{"payment_id": f"p{i % 200}", "amount": i % 97 / 7, "hour": i % 24} for i in range(400)]
    for at, said in (("p", "payment_id=payment"), ("q", "FIELD=FIELD")):
        labels = TopicSample("l", messages([{"payment": f"{at}{i}", "fraud": i % 2} for i in range(90)], False), 1, 1)
        with pytest.raises(DataError, match=f"which field of t is the id: name it by --id {said}, or say --id @key"):
            spec_of(TopicSample("t", messages(paid, keys=False), 1, 1), labels)
        once = TopicSample("t", messages([{"id": 1000 + i, **one} for i, one in enumerate(paid)], False), 1, 1)
        with pytest.raises(DataError, match=f"no id was found both in t and l: say by --id {said} where it stands"):
            spec_of(once, labels)


READINGS = [
    {
        "sensor": "abc"[i % 3],
        "at": 1_700_000_000_000 + i // 3 * 300_000,
        "t": round(15 + i % 97 / 8, 3),
        "h": i * 7 % 90,
    }
    for i in range(600)
]


@pytest.mark.parametrize(("partitions", "keyed", "inside"), [(1, 0, 0), (2, 1, 0), (2, 0, 0), (1, 0, 1), (2, 0, 1)])
def test_a_topic_of_sensors_without_labels_begins_as_a_forecast(partitions: int, keyed: int, inside: int) -> None:
    records = [{**one, "sensor": {"name": 1, "sensor": one["sensor"]}} if inside else one for one in READINGS]
    given = [
        one._replace(key=READINGS[i]["sensor"] if keyed else None, partition=i % partitions)
        for i, one in enumerate(messages(records, keys=False))
    ]
    spec = spec_of(TopicSample("plant", given, partitions, 1))
    by = "sensor_sensor" if inside else "sensor"
    assert (spec.label.of, spec.label.ahead, spec.label.by) == ("t", 3600.0, by)
    assert spec.record.id == ("@offset",)
    at = ("@key",) if keyed else ("sensor", "sensor") if inside else None
    assert (spec.keys[by].from_, spec.partitions) == (at, partitions)
    assert (spec.rekey is not None) == (partitions > 1 and not keyed)
    learner = PartitionLearner(spec)
    batch = RawBatch(
        [*range(600)],
        [one["at"] for one in READINGS],
        [one.key and one.key.encode() for one in given],
        [one.raw() for one in given],
    )
    decoded = learner.decoder.features(batch)
    assert not decoded.rejected
    assert decoded.ids[:2] == ["0@0", "0@1"]
    assert decoded.keys[0][:3] == ["a", "b", "c"]


def test_several_partitions_of_which_nobody_knows_whose_a_record_is_are_no_forecast() -> None:
    records = [{"at": one["at"], "t": one["t"], "h": one["h"] / 8} for one in READINGS]
    assert spec_of(TopicSample("plant", messages(records, keys=False), 1, 1)).label.by is None
    with pytest.raises(DataError, match="plant has 2 partitions, and no field says whose record one is"):
        spec_of(TopicSample("plant", messages(records, keys=False), 2, 1))


def test_what_auto_is_for_anomalies_stands_beside_it(tmp_path: Path) -> None:
    content = "x,label\n" + "".join(f"{i % 7 / 4},{int(i % 50 == 0)}\n" for i in range(200))
    assert "# half-space trees; `riparian models`" in drafted(tmp_path / "d.csv", content, task="anomaly")[0]
    assert "# a pool of learners" in drafted(tmp_path / "d.csv", content)[0]


def test_anomalies_need_no_label_and_have_alerts(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("x,z\n" + "".join(f"{i % 7 / 4},{i % 11 / 4}\n" for i in range(200)))
    with pytest.raises(DataError, match=r"is the label: name it by --label \(x, z\), or say --task anomaly"):
        of_file(DataFile(path))
    text, spec = write(of_file(DataFile(path), task="anomaly"))
    assert (list(spec.features), spec.topics.labels, spec.record.y) == (["x", "z"], None, None)
    assert spec.decision is not None
    assert spec.decision.target == ("alert_rate", 0.01)
    assert "horizon" not in text
    records = TopicSample("t", messages([{"id": i, "a": i / 2, "b": i % 3 / 2} for i in range(60)]), 1, 1)
    spec = spec_of(records, task="anomaly")
    assert (list(spec.features), spec.topics.labels, spec.decision is None) == (["a", "b"], None, False)
    done = CliRunner().invoke(cli, ["init", str(path), "--task", "anomaly", "--out", str(tmp_path / "s.yaml")])
    assert "anomaly, 2 features" in done.output
    assert "# Records as `riparian replay` makes them of the file" in text
    after = [line.strip() for line in done.output.partition("next:\n")[2].splitlines()]
    at = str(tmp_path / "s.yaml")
    assert after == [
        f"riparian check {at}", f"riparian evaluate {path} --stream {at}",
        f"riparian replay {at} {path}", f"riparian worker {at}",
    ]  # fmt: skip
    told = CliRunner().invoke(cli, after[1].split()[1:])
    assert told.exit_code == 0
    assert "200 rows of d.csv, no labels" in told.output
    shown = CliRunner().invoke(cli, ["check", str(tmp_path / "s.yaml")], terminal_width=200).output
    assert "waiting for labels: nothing does" in shown
    assert "a threshold on the scores, so that the alert rate is 0.01" in shown
    assert "in the feature records" not in shown


def refused(draft: Any, topic: TopicSample, kind: str = "features") -> list[Any]:
    """What a worker with the drafted file rejects of the records."""
    spec = write(draft)[1]
    codec, n = spec.make_codec(), len(topic.messages)
    headers = [one.headers for one in topic.messages]
    keys = [None if one.key is None else one.key.encode() for one in topic.messages]
    raw = RawBatch(list(range(n)), [0] * n, keys, [one.raw() for one in topic.messages], headers)
    if kind == "labels":
        return codec.decode_labels(raw, spec.class_vocabulary()).rejected
    return codec.decode_features(raw, spec.vocabularies(), spec.class_vocabulary()).rejected


MIXED = {
    "booleans as texts": (lambda i: ("true", "false")[i % 2], "nominal"),
    "booleans and texts": (lambda i: (True, "true", "false")[i % 3], "nominal"),
    "few numbers as texts": (lambda i: str(i % 4), "nominal"),
    "numbers as texts": (lambda i: str(i / 7), "numeric"),
    "numbers and a few texts": (lambda i: "n/a" if i % 30 == 7 else i * 37 % 50 / 2, None),
    "microseconds": (lambda i: 1_795_700_000_000_000 + i * 7919 % 50, "numeric"),
    "a number beyond float64": (lambda i: 10**400 if i == 3 else i * 37 % 50, "nominal"),
    "a long text": (lambda i: "t" * 2000 if i == 3 else "ab"[i % 2], None),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_draft_takes_the_records_that_it_was_made_of(case: str) -> None:
    value, kind = MIXED[case]
    records = [{"id": i, "v": value(i), "w": i % 7 / 2, "label": "ab"[i % 2]} for i in range(60)]
    topic = TopicSample("t", messages(records), 1, 1)
    draft = of_topics(topic, None, name="t")
    found = {one.name: one for one in draft.features}
    assert (None if found["v"].dropped else found["v"].type) == kind, found["v"].remark
    assert refused(draft, topic) == []
    assert not draft.hints


@pytest.mark.parametrize(("n", "kept"), [(50, True), (49, False)])
@pytest.mark.parametrize(
    ("amount", "at"),
    [("72.19 EUR", "2026-11-21T12:00:00Z"), (12.5, "yesterday"), ("n/a", "2026-11-21T12:00:00Z"), (7.5, "")],
)
def test_one_odd_value_in_fifty_leaves_no_feature_and_no_time_out(amount: float | str, at: str, n: int, kept: bool):
    odd = {"id": 0, "at": at, "amount": amount, "w": 0.5, "label": 1}
    usual = [
        {"id": i, "at": f"2026-11-21T12:00:{i:02}Z", "amount": i * 37 % 50 / 2, "w": i % 7 / 2, "label": i % 2}
        for i in range(1, n)
    ]
    topic = TopicSample("t", messages([odd, *usual]), 1, 1)
    draft = of_topics(topic, None, name="t")
    feature = next(one for one in draft.features if one.name == "amount")
    is_number, is_time = not isinstance(amount, str), at.startswith("2026")
    assert (feature.type == "numeric" and not feature.dropped) == (is_number or kept)
    assert not (kept and feature.in_text)
    assert ("time" in draft.record) == (is_time or kept)
    rejected = {one.reason for one in refused(draft, topic)}
    assert rejected == ({"wrong-time" if is_number else "wrong-type"} if kept else set())
    assert len(draft.hints) == len(rejected)
    if kept and not is_number:
        assert f'# 1 of 50 is no number, such as "{amount}"\n' in write(draft)[0]


def test_codes_of_which_few_are_texts_are_nominal() -> None:
    records = [{"id": i, "code": "x" if i == 9 else i * 7 % 11, "label": "ab"[i % 2]} for i in range(200)]
    draft = of_topics(TopicSample("t", messages(records), 1, 1), None, name="t")
    assert [(one.name, one.type) for one in draft.features if not one.dropped] == [("code", "nominal")]


def test_a_draft_whose_records_are_large_or_whose_times_are_none_takes_them() -> None:
    records = [
        {"id": i, "at": 1.8e9 + i if i else 9e15, "v": i % 7 / 2, "t": "z" * 300_000, "y": i % 2} for i in range(20)
    ]
    topic = TopicSample("t", messages(records), 1, 1)
    draft = of_topics(topic, None, name="t")
    assert draft.record["max_bytes"] == 1_048_576
    assert "time" not in draft.record
    assert refused(draft, topic) == []
    topic = TopicSample(
        "t", messages([{"v": i % 7 / 2, "y": i % 2, **({"id": i} if i else {})} for i in range(40)]), 1, 1
    )
    assert "# 1 of 40 records of t are rejected: missing-id" in write(of_topics(topic, None, name="t", id_="id"))[0]


def test_labels_that_are_none_of_the_task_are_one_sentence() -> None:
    features = TopicSample("f", messages([{"id": str(i), "v": i % 7 / 2} for i in range(60)]), 1, 1)
    labels = TopicSample("l", messages([{"id": str(i), "y": str(i / 7)} for i in range(60)]), 1, 1)
    with pytest.raises(
        DataError, match=r"60 of 60 records of l have a label that is none of a regression \(y: .*\): say"
    ):
        of_topics(features, labels, name="s")
    assert write(of_topics(features, labels, name="s", task="classification"))[1].task == "classification"


SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "int64", "field": "order_id"},
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
            "field": "total",
        },
    ],
}


def decimal(i: int) -> str:
    return base64.b64encode((i * 37 % 91).to_bytes(2)).decode()


def change(op: str, i: int, **row: Any) -> dict[str, Any]:
    after = {"order_id": i, "total": i * 37 % 91 / 4, "country": "de" if i % 2 else "fr", **row}
    source = {"ts_ms": 1_795_700_000_000 + i}
    return {"before": None if op == "c" else after, "after": None if op == "d" else after, "op": op, "source": source}


ROW = {"total": "numeric", "country": "nominal"}
WRAPPED = {
    "debezium": [change(op, i, label="ab"[i % 2]) for i in range(60) for op in "cud"],
    "debezium beside a schema": [
        {
            "schema": {"fields": [{"field": "after", **SCHEMA}]},
            "payload": change("c", i, label="ab"[i % 2], total=decimal(i)),
        }
        for i in range(60)
    ],
    "connect": [
        {
            "schema": SCHEMA,
            "payload": {"order_id": i, "total": decimal(i), "country": "xy"[i % 2], "label": "ab"[i % 3 == 0]},
        }
        for i in range(60)
    ],
    "cloudevents": [
        {
            "specversion": "1.0", "id": f"e{i}", "source": "/s", "type": "t", "time": "2026-11-20T10:00:00Z",
            "data": {"total": i * 37 % 91 / 4, "country": "xy"[i % 2], "label": "ab"[i % 3 == 0]},
        }
        for i in range(60)
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", [*WRAPPED, "cloudevents in headers"])
def test_rows_are_found_in_their_envelopes(case: str) -> None:
    if case in WRAPPED:
        found = messages(WRAPPED[case])
    else:
        found = [
            Message(None, {"total": i * 37 % 91 / 4, "country": "xy"[i % 2], "label": "ab"[i % 3 == 0]}, headers=(
                ("content-type", b"application/json"), ("ce_specversion", b"1.0"), ("ce_id", b"e%d" % i),
                ("ce_time", b"2026-11-20T10:00:00Z"), ("ce_type", b"t"), ("ce_source", b"/s"),
            ))
            for i in range(60)
        ]  # fmt: skip
    topic = TopicSample("t", found, 1, 1)
    draft = of_topics(topic, None, name="t")
    spec = write(draft)[1]
    assert spec.record.envelope == case.split()[0]
    assert {name: one.type for name, one in spec.features.items()} == ROW
    assert spec.record.id == (("@envelope:id",) if spec.record.envelope == "cloudevents" else ("order_id",))
    assert [one for one in refused(draft, topic) if not one.ignored] == []
    assert len(refused(draft, topic)) == (60 if case == "debezium" else 0)  # the deletes


def test_labels_have_an_envelope_of_their_own_and_fields_may_be_named_from_the_top() -> None:
    features = TopicSample("f", messages([change(op, i) for i in range(60) for op in "cu"]), 1, 1)
    labels = TopicSample("l", messages([{"order_id": i, "isFraud": i % 9 == 0} for i in range(60)]), 1, 1)
    spec = write(of_topics(features, labels, name="s"))[1]
    assert (spec.record.envelope, spec.label.envelope) == ("debezium", None)
    assert (spec.label.id, spec.label.y, spec.record.time) == (
        ("order_id",),
        ("isFraud",),
        ("@envelope:source", "ts_ms"),
    )
    wrapped = [change("c", i, fraud=i % 3 == 0) for i in range(60)]
    spec = write(of_topics(features, TopicSample("l", messages(wrapped), 1, 1), name="s", label="after.fraud"))[1]
    assert (spec.label.envelope, spec.label.y, list(spec.features)) == ("debezium", ("fraud",), ["total", "country"])


@pytest.mark.parametrize("shift", [0, 1])
def test_topics_whose_ids_are_in_other_partitions_are_copied(shift: int) -> None:
    def at(records: list[dict[str, Any]], shift: int) -> list[Message]:
        return [one._replace(partition=(i + shift) % 2) for i, one in enumerate(messages(records, keys=False))]

    features = TopicSample("s.features", at([{"id": str(i), "v": i * 37 % 91 / 4} for i in range(60)], 0), 2, 1)
    labels = TopicSample("s.labels", at([{"id": str(i), "y": i % 2} for i in range(60)], shift), 2, 1)
    text, spec = write(of_topics(features, labels, name="s"))
    if not shift:
        assert spec.rekey is None
        assert "all partitions learn one model" in text
        return
    assert "# 60 of 60 ids have their label in another partition than their features" in text
    assert (spec.rekey.features, spec.rekey.labels) == (["s.features"], ["s.labels"])
    assert (spec.topics.features, spec.topics.labels) == ("s.features.copied", "s.labels.copied")
    other = labels._replace(partitions=3)
    assert (
        "# s.features has 2 partitions, s.labels 3, so workers copy" in write(of_topics(features, other, name="s"))[0]
    )


def test_a_file_of_many_columns_has_a_draft_that_takes_its_rows(tmp_path: Path) -> None:
    names, n = [f"x{i}" for i in range(2600)], 12
    path = tmp_path / "d.csv"
    rows = [",".join(f"{(i * 7 + j) % 97 / 7!r}" for j in range(len(names))) + f",{i % 7}.5" for i in range(n)]
    path.write_text("\n".join([",".join([*names, "y"]), *rows]))
    out = tmp_path / "s.yaml"
    assert run("init", path, "--out", out, "--task", "regression").exit_code == 0
    spec = load(out)
    assert spec.champion.model == "auto"
    assert len(spec.features) > 2500
    found = run("evaluate", path, "--stream", out, "--model", "mean", "--json")
    assert "rejections" not in json.loads(found.stdout)["runs"][0]


def uncommented(text: str) -> str:
    """With the keys that are proposed, the features over their past, and the classes."""
    lines = text.splitlines()
    return "\n".join(
        line.replace("# ", "", 1) if re.match(r"  # \w+: \{(count|mean|share)|# (keys|classes): ", line) else line
        for line in lines
    )


def test_keys_are_proposed_where_a_column_says_whose_record_it_is(tmp_path: Path) -> None:
    rows = [
        f"{i % 97 / 7!r},{i * 7919 % 5003},T{i * 31 % 61},{i * 13 % 1000003},{('no', 'yes')[i % 61 == 0]}"
        for i in range(12_000)
    ]
    content = "\n".join(["amount,customer_id,terminal,order_id,fraud", *rows])
    text, spec = drafted(tmp_path / "payments.csv", content)
    assert list(spec.features) == ["amount"]
    (customer,) = [line for line in text.splitlines() if line.startswith("  # customer_id: ")]
    assert "it says whose record a row is, which is a key and no feature" in customer
    assert "looks like an id, which teaches a model nothing" in next(
        line for line in text.splitlines() if line.startswith("  # order_id: ")
    )
    assert "# keys: {customer_id: {max: 1000000}, terminal: {max: 500}}" in text
    assert "is not known before it is tried" in text
    more = loads(uncommented(text), "s")
    assert {name: one.written() for name, one in more.features.items() if one.past is not None} == {
        "customer_id_count": {"count": "customer_id", "half_life": "7d"},
        "customer_id_mean": {"mean": "amount", "by": "customer_id", "half_life": "7d"},
        "customer_id_share": {"share": "yes", "by": "customer_id", "half_life": "30d"},
        "terminal_count": {"count": "terminal", "half_life": "7d"},
        "terminal_mean": {"mean": "amount", "by": "terminal", "half_life": "7d"},
        "terminal_share": {"share": "yes", "by": "terminal", "half_life": "30d"},
    }
    text, spec = drafted(tmp_path / "payments.csv", content, nominal=["terminal"], ignore=["customer_id"])
    assert "terminal" in spec.features
    assert "keys:" not in text
    numbers = content.replace(",no", ",0.25").replace(",yes", ",3.5")
    assert "  # terminal_label: {mean: label, by: terminal, half_life: 30d}" in drafted(tmp_path / "p.csv", numbers)[0]


def fraud_at_terminals(n: int, labels: tuple[str, str] = ("no", "yes")) -> str:
    """Payments of a minute each, of which those at every seventh terminal are of the second label."""
    rows = [f"{1_700_000_000 + 60 * i},{i % 97 / 7!r},T{i * i % 61},{labels[i * i % 61 % 7 == 0]}" for i in range(n)]
    return "\n".join(["time,amount,terminal,fraud", *rows]) + "\n"


@pytest.mark.parametrize("labels", [("no", "yes"), ("0.25", "3.5")])
def test_it_says_what_a_share_of_labels_brings(tmp_path: Path, labels: tuple[str, str]) -> None:
    path, out = tmp_path / "payments.csv", tmp_path / "s.yaml"
    path.write_text(fraud_at_terminals(6000, labels))
    found = run("init", path, "--out", out)
    assert found.exit_code == 0, found.output
    name, what = ("share", "hoeffding-tree has an AUROC of 'yes'")
    if labels[0] != "no":
        name, what = "label", "fimt-dd has a mean absolute error"
    sentence = (
        rf"terminal_{name}: over the last 3,000 of the first 6,000 rows, labelled at once, {what} "
        r"of (\d\.\d+) with it, and of (\d\.\d+) without\."
    )
    (printed,) = [line for line in found.stdout.splitlines() if line.startswith("terminal_")]
    with_it, without = map(float, re.fullmatch(sentence, printed).groups())  # type: ignore[union-attr]
    assert f"# {printed}" in out.read_text().splitlines()
    assert (with_it > 0.95 and without < 0.6) if name == "share" else (with_it < 0.1 and without > 0.5)


def test_what_a_share_brings_is_tried_for_some_time_and_not_without_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = fraud_at_terminals(6000)
    path = tmp_path / "payments.csv"
    path.write_text(content)
    monkeypatch.setattr(shares, "SECONDS", 0.0)
    assert "the first 4,096 rows" in run("init", path, "--out", tmp_path / "some.yaml").stdout
    path.write_text(content.replace("time,", "number,", 1))
    assert "labelled at once" not in run("init", path, "--out", tmp_path / "timeless.yaml").stdout
    path.write_text(content.replace("1700006000,", ",", 1))
    found = run("init", path, "--out", tmp_path / "without_a_time.yaml")
    assert found.exit_code == 0
    assert "What a share of labels brings could not be tried: " in found.stdout


def test_numbers_are_features_unless_their_name_ends_in_whose_record_it_is(tmp_path: Path) -> None:
    features = ["user_age", "account_balance", "session_seconds", "sensor_1", "store_size", "card_limit", "amount"]
    keys = ["card", "home_terminal", "CustomerId", "account_id"]
    rows = [
        ",".join([*(str(i * (7 + j) % (50 + j)) for j in range(len(features) + len(keys))), ("no", "yes")[i % 9 == 0]])
        for i in range(3000)
    ]
    text, spec = drafted(tmp_path / "payments.csv", "\n".join([",".join([*features, *keys, "fraud"]), *rows]))
    assert list(spec.features) == features
    assert list(loads(uncommented(text), "s").keys) == keys


@pytest.mark.parametrize("partitions", [1, 4])
def test_keys_of_a_topic_of_several_partitions_are_those_that_labels_change(partitions: int) -> None:
    rows = [
        {"id": i, "x": {"amount": i % 90 / 7}, "card": {"id": f"c{i % 40}"}, "fraud": ("no", "yes")[i % 40 == 0]}
        for i in range(400)
    ]
    text, spec = write(of_records(TopicSample("payments", messages(rows, keys=False), partitions, 1), name="s"))
    assert list(spec.features) == ["amount"]
    more = loads(uncommented(text), "s")
    made = [name for name, one in more.features.items() if one.past is not None]
    assert made == (["card_id_count", "card_id_mean", "card_id_share"] if partitions == 1 else ["card_id_share"])
    assert more.keys["card_id"].from_ == ("card", "id")
    assert more.shares == (partitions > 1)
    assert ("counts and means need its records in one partition" in text) == (partitions > 1)
