"""Stream files: defaults, every part as it is read, and the sentence for every mistake."""

import gc
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from riparian.app.errors import SpecError
from riparian.app.stream_file.durations import format_duration, parse_duration, rounded_up
from riparian.app.stream_file.spec import Spec, build, load, loads
from riparian.models.registry import validate
from riparian.topics.codecs import JsonCodec
from riparian.topics.records import Feature, Mapping, RawBatch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BASE = {
    "name": "name: s",
    "task": "task: classification",
    "features": "features: {a: numeric}",
    "champion": "champion: naive-bayes",
}


def text(extra: str = "", **parts: str) -> str:
    """A stream file: the smallest one, parts of it replaced, lines added."""
    return "\n".join([part for part in {**BASE, **parts}.values() if part] + ([extra] if extra else []))


def spec(extra: str = "", **parts: str) -> Spec:
    return loads(text(extra, **parts), "s.yaml")


def test_the_smallest_file_has_all_defaults() -> None:
    s = spec()
    assert (s.name, s.task, s.partitions, s.replication, s.retention) == ("s", "classification", 1, None, None)
    assert s.topics.model_dump() == {
        "features": "s.features",
        "labels": "s.labels",
        "predictions": "s.predictions",
        "metrics": "s.metrics",
        "drift": "s.drift",
        "deadletters": "s.deadletters",
        "control": None,
        "events": None,
        "learned": None,
    }
    assert s.mapping() == Mapping(
        task="classification",
        features=(Feature("a", "numeric", ("x", "a")),),
        x=("x",),
        id=("id",),
        time=None,
        y=("y",),
        label_id=("id",),
        label_y=("y",),
        label_time=None,
        max_bytes=262_144,
    )
    assert (s.join.horizon, s.join.max_pending, s.join.max_labels, s.join.max_wait) == (604_800.0, 10**6, 10**5, 2.0)
    assert s.join.max_pending_bytes == 10**9
    assert s.checkpoint.every == 5.0
    assert (s.metrics.every, s.metrics.window, s.metrics.fading) == (5.0, 1000, None)
    assert (s.predictions.challengers, s.predictions.probabilities) == (False, True)
    assert (s.codec.plain(), s.seed, s.classes, s.max_classes) == ("json", 0, None, 100)
    assert s.models() == {"champion": ("naive-bayes", {"window": None})}


def test_labels_may_come_inside_the_feature_records() -> None:
    assert spec("topics: {labels: null}").topics.labels is None
    assert spec("topics: {labels: null}\nrecord: {y: outcome.fraud}").mapping().y == ("outcome", "fraud")


def test_paths() -> None:
    s = spec(
        'record: {id: "@key", time: created_at, x: "", y: null, max_bytes: 1_000}\n'
        "label: {id: order.number, y: outcome.fraud, time: at}",
        features="features: {a: numeric, age: {type: numeric, from: customer.age}, b.c: numeric, "
        'd: {type: numeric, from: [e, "f.g"]}}',
    )
    mapping = s.mapping()
    assert [f.path for f in mapping.features] == [("a",), ("customer", "age"), ("b.c",), ("e", "f.g")]
    assert (mapping.x, mapping.id, mapping.time, mapping.y, mapping.max_bytes) == (
        (),
        None,
        ("created_at",),
        None,
        1000,
    )
    assert (mapping.label_id, mapping.label_y, mapping.label_time) == (
        ("order", "number"),
        ("outcome", "fraud"),
        ("at",),
    )
    assert spec('label: {id: "@key"}').mapping().label_id is None


def test_features_have_vocabularies_by_type() -> None:
    s = spec(
        features="features: {a: numeric, b: boolean, c: nominal, d: {type: nominal, values: [x, 1, true]}, "
        "e: {type: nominal, max_values: 7}}"
    )
    a, b, c, d, e = s.vocabularies()
    assert a is None
    assert (b.values, b.closed, b.capacity) == ([False, True], True, 2)
    assert (c.values, c.closed, c.limit) == ([], False, 1000)
    assert (d.values, d.closed, d.limit) == (["x", 1, True], True, 3)
    assert e.limit == 7
    c.code("new")
    assert len(s.vocabularies()[2]) == 0


def test_models_are_complete_with_the_champion_first() -> None:
    s = spec(
        "challengers: {nb: naive-bayes, 2: {model: last-label}, t: {model: hoeffding-tree}}",
        champion="champion: {model: hoeffding-tree, grace_period: 1_00, delta: 1e-3}",
    )
    models = s.models()
    assert list(models) == ["champion", "nb", "2", "t"]
    assert models["champion"][1] == validate("hoeffding-tree", s.task, {"grace_period": 100, "delta": 0.001})
    assert models["t"] == ("hoeffding-tree", validate("hoeffding-tree", s.task, {}))


def test_yaml_without_its_traps() -> None:
    s = spec(
        "classes: [yes, no, on, y, 12:30, 2024-01-01, 007, 0x1f, 1_0, 1e3, .5, -0.25, .nan, true, False]\n"
        "join: {max_pending: 1_000_000}"
    )
    texts = ["yes", "no", "on", "y", "12:30", "2024-01-01", "007", "0x1f"]
    expected = [*texts, 10, 1000.0, 0.5, -0.25, ".nan", True, False]
    assert s.classes == expected
    assert [type(v) for v in s.classes or []] == [type(v) for v in expected]
    assert s.join.max_pending == 1_000_000
    # Feature names may look like numbers; anchors work.
    assert list(spec(features="features: {1: numeric, 02: numeric}").features) == ["1", "02"]
    repeated = "features: {a: &n {type: nominal, max_values: 5}, b: *n}"
    assert [f.max_values for f in spec(features=repeated).features.values()] == [5, 5]


def test_a_kilobyte_of_yaml_stays_a_kilobyte() -> None:
    """Aliases that repeat aliases, or merge keys, made 6 GB of 1 kB."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
    )
    with pytest.raises(SpecError, match="expected at most 200,000 values, found more; write fewer, or fewer al"):
        loads(bomb, "s.yaml")
    for itself in ("a: &a [*a]", "a: &a {b: *a}"):
        with pytest.raises(SpecError, match=r"s\.yaml: "):
            loads(itself, "s.yaml")
    with pytest.raises(SpecError, match=r"line 2, column 9: .*there are no merge keys here"):
        loads("base: &b {x: 1}\nother: {<<: *b}", "s.yaml")
    for odd in (
        "a: !!bool abc",
        "a: !!timestamp abc",
        "a: !!int abc",
        "a: !!python/object:os.system x",
        "a: !!binary 0",
    ):
        with pytest.raises(SpecError, match=r"s\.yaml: .*expected YAML, found"):
            loads(odd, "s.yaml")


# The sentences --------------------------------------------------------------------------------------------------------


def mistakes() -> list[tuple[str, str]]:
    """The cases of mistakes.txt: a stream file, and the sentence about it."""
    cases = []
    for block in (Path(__file__).parent / "mistakes.txt").read_text().split("\n\n")[1:]:
        *changes, said = block.strip("\n").splitlines()
        parts = dict(BASE)
        added = []
        for kind, line in ((change[0], change[2:]) for change in changes):
            match kind:
                case "+":
                    added.append(line)
                case "=":
                    parts[line.partition(":")[0]] = line
                case "-":
                    parts[line] = ""
                case _:
                    raise ValueError(f"mistakes.txt: {block}")
        cases.append((text("\n".join(added), **parts), said))
    return cases


@pytest.mark.parametrize(("file", "said"), mistakes(), ids=[said[8:60] for _, said in mistakes()])
def test_one_sentence_names_the_field_and_the_cure(file: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        loads(file, "s.yaml")
    sentence = str(error.value)
    assert "\n" not in sentence
    if said.endswith("…"):
        assert sentence.startswith(said[:-1])
    else:
        assert sentence == said


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml: expected a stream file, found no such file; check the path"):
        load(tmp_path / "none.yaml")
    (tmp_path / "fraud.yaml").write_text("")
    with pytest.raises(SpecError, match=r"fruad\.yaml: .* found no such file; did you mean .*/fraud\.yaml\?"):
        load(tmp_path / "fruad.yaml")
    with pytest.raises(SpecError, match="expected a stream file, found Is a directory; check the path"):
        load(tmp_path)
    (tmp_path / "s.yaml").write_bytes(b"\xff")
    with pytest.raises(SpecError, match="found bytes that are not UTF-8; save it as UTF-8"):
        load(str(tmp_path / "s.yaml"))
    deep = "[" * 5000 + "]" * 5000
    with pytest.raises(SpecError, match="found what cannot be read"):
        loads(f"name: {deep}")
    with pytest.raises(SpecError, match="found what cannot be read"):
        loads(f"seed: {'9' * 5000}")


def test_a_spec_from_fields() -> None:
    """As the offline evaluation makes one."""
    fields: dict[str, Any] = {"name": "s", "task": "regression", "features": {"a": "numeric"}, "champion": "last-label"}
    assert build(fields).mapping().task == "regression"
    with pytest.raises(SpecError, match=r"^data\.csv: champion: unknown model 'x'"):
        build({**fields, "champion": "x"}, "data.csv")
    assert fields == {"name": "s", "task": "regression", "features": {"a": "numeric"}, "champion": "last-label"}


# Durations ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("250ms", 0.25), ("5s", 5.0), ("3m", 180.0), ("2h", 7200.0), ("7d", 604_800.0), ("1.5 h", 5400.0), (" 1s ", 1.0),
     ("0s", 0.0), ("0.1ms", 0.0001)],
)  # fmt: skip
def test_durations(written: str, seconds: float) -> None:
    assert parse_duration(written) == seconds
    assert parse_duration(format_duration(seconds)) == seconds
    assert seconds <= parse_duration(rounded_up(seconds)) <= max(0.001, 2 * seconds)


def test_a_duration_is_rounded_up_to_its_largest_unit() -> None:
    assert [rounded_up(one) for one in (0.2501, 39.2, 3599.0, 2_157_976.0)] == ["251ms", "40s", "1h", "25d"]


@pytest.mark.parametrize(
    "value", ["", "5", "s", "-1s", "5S", "1e3s", "5 weeks", "1h30m", None, True, 5, [], "٣s", ".5s"]
)
def test_what_is_no_duration(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(value)


# The examples ---------------------------------------------------------------------------------------------------------


def test_every_example_is_valid_and_makes_a_codec() -> None:
    files = sorted(EXAMPLES.glob("*.yaml"))
    assert {file.stem for file in files} >= {"elec", "orders"}
    for file in files:
        s = load(file)
        assert s.name == file.stem
        assert s.make_codec() is not None


def test_the_example_of_mapped_paths_reads_the_record_in_its_comment() -> None:
    s = load(EXAMPLES / "orders.yaml")
    comment = re.sub(r"\n# *", " ", (EXAMPLES / "orders.yaml").read_text())
    whole = re.search(r'\{"created_at.*?"outcome": \{[^}]*\}\}', comment)
    assert whole is not None
    classes = s.class_vocabulary()
    found = JsonCodec(s.mapping()).decode_features(
        RawBatch([0], [0], [b"4711"], [whole[0].encode()]), s.vocabularies(), classes
    )
    assert found.rejected == []
    assert found.ids == ["4711"]
    assert found.x.tolist() == [[99.5, 0.0, 41.0, 1.0]]
    assert found.y == [0.0]
    assert found.times == [1_714_564_800_000.0]


def test_detectors_may_be_named_listed_or_given_parameters() -> None:
    usual = spec("").drift
    assert list(usual.detectors) == ["adwin"]
    assert usual.detectors["adwin"]["delta"] == 0.002
    assert spec("drift: {detectors: adwin}").drift == spec("drift: {detectors: [adwin]}").drift == usual
    given = spec("drift: {detectors: {kswin: , adwin: {delta: 1e-3}}}").drift.detectors
    assert list(given) == ["adwin", "kswin"]  # whatever the order in the file
    assert (given["adwin"]["delta"], given["kswin"]["window_size"]) == (0.001, 100)
    assert spec("drift: none").drift.detectors == {}
    assert spec("drift: {features: all}").watched() == spec("drift: {features: [a]}").watched() == {"a": 0}
    assert spec("drift: none").watched() == {}


def test_a_sentence_shows_what_a_terminal_would_obey() -> None:
    with pytest.raises(SpecError) as caught:
        loads('name: "a\\e[31m\\n\\u202e"\ntask: regression\nfeatures: {a: numeric}')
    assert str(caught.value).isprintable()
    assert r"a\x1b[31m\n\u202e" in str(caught.value)


def test_a_refused_file_leaves_nothing_in_memory():
    """A sentence that knows pydantic's error keeps the whole file where a caller holds it: 60 MB after 8,400 files."""
    refused = "{name: leaves-nothing, task: regression, features: {a: numeric}, champion: {model: mean, fading: 2}}"

    def refuse():
        try:
            loads(refused)
        except SpecError as error:
            held = error
        return str(held)

    assert "fading" in refuse()
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is Spec and one.name == "leaves-nothing"]


@pytest.mark.parametrize(
    ("codec", "package", "parent"), [("avro", "fastavro", None), ("protobuf", "protobuf", "google")]
)
def test_a_package_that_a_codec_needs_is_named(
    codec: str, package: str, parent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where google itself is not there, Python raises."""

    def find(name: str) -> None:
        if parent is not None and name.startswith(f"{parent}."):
            raise ModuleNotFoundError(f"No module named '{parent}'")

    monkeypatch.setattr(importlib.util, "find_spec", find)
    text = f"name: s\ntask: classification\nfeatures: {{a: numeric}}\nchampion: naive-bayes\ncodec: {codec}\n"
    said = f"the Python package {package} for {codec}, found none; install it with pip install '{package}<"
    with pytest.raises(SpecError, match=said):
        loads(text + "registry: {url: 'http://r:8081'}", "s.yaml")
