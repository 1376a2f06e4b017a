"""`riparian check`, the JSON Schema and the reference are of one piece with what validates."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from click.testing import CliRunner

from riparian.app.cli.setup.check import command, in_memory, instance_bytes, waiting_bytes
from riparian.app.errors import BrokerError, SpecError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics import keys
from riparian.app.stream_file.json_schema import json_schema
from riparian.app.stream_file.spec import Spec, build, load
from riparian.app.stream_file.strict_yaml import read_yaml
from riparian.models.registry import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
ELEC = ROOT / "examples" / "elec.yaml"
ORDERS = ROOT / "examples" / "orders.yaml"


def run(*arguments: str, **options: Any) -> str:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False, **options)
    assert result.exit_code == 0, result.output
    return result.output


def test_it_shows_what_a_file_declares() -> None:
    shown = run(str(ELEC))
    for word in ("elec: classification, 1 partition", "elec.deadletters", "x.nswprice", "1, 2, 3, 4, 5, 6, 7",
                 "hoeffding-tree", "grace_period=200", "last-label", "learned, up to 100", "up to 7d"):  # fmt: skip
        assert word in shown
    assert "learning:" not in shown
    shown = run(str(ORDERS))
    for word in ("4 partitions", "in the feature records", "customer.age", "learned, up to 1,000", "false, true",
                 "learning: shared: all partitions learn one model"):  # fmt: skip
        assert word in shown
    # of what it has not, such as commands, it says nothing
    assert shown.count("in the feature records") == 1


def test_it_says_what_a_shared_model_may_lack(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(ORDERS.read_text() + "learning: {max_behind: 2000}\n")
    said = "all partitions learn one model; a prediction waits where it could lack more than 2,000 joined by its worker"
    said += "; each worker learns all of it: more of them learn no more a second than one"
    assert said in run(str(file))
    found = json.loads(run(str(file), "--json"))
    assert (found["learning"], found["max_behind"]) == ("shared", 2000)


def test_it_says_what_keys_take(tmp_path: Path) -> None:
    file, page = tmp_path / "s.yaml", (ROOT / "docs" / "build" / "keys.md").read_text()
    file.write_text(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    shown = run(str(file))
    said = "1,000,000 of card x 4 aggregates: 192 MB a partition"
    assert f"keys: {said}" in shown
    assert said in page
    for word in ("mean amount, by card, half_life 7d", "ratio amount, to card_mean", "card.id"):
        assert word in shown
    assert "leave it out" not in shown
    assert json.loads(run(str(file), "--json"))["keys"]["terminal"] == {
        "max": 50_000,
        "max_bytes": 9_900_000,
        "features": ["risk"],
    }
    file.write_text(file.read_text().replace("  amount:", "  terminal: {type: nominal, from: terminal}\n  amount:"))
    assert "features.terminal is the key terminal, too: a tree makes a branch" in run(str(file))


def test_it_prints_one_object() -> None:
    found = json.loads(run(str(ORDERS), "--json"))
    assert found["name"] == "orders"
    assert found["topics"]["labels"] is None
    assert found["features"][2] == {"name": "age", "type": "numeric", "path": ["customer", "age"], "values": None}
    assert found["models"]["majority"] == {"model": "majority-class", "parameters": {}}
    assert found["waiting_bytes"] == waiting_bytes(load(ORDERS)) == 1_000_000 * (128 + 8 * (4 + 2 * 2))
    assert "missing" not in found


def test_it_checks_several_files_and_names_the_one_that_it_speaks_of(tmp_path: Path) -> None:
    bad, same = tmp_path / "bad.yaml", tmp_path / "same.yaml"
    bad.write_text("name: bad\ntask: clustering\nfeatures: {a: numeric}\n")
    same.write_text(ELEC.read_text())
    shown = run(str(ELEC), str(ORDERS))
    assert shown.index(f"{ELEC}:") < shown.index("elec: classification") < shown.index(f"{ORDERS}:")
    found = [json.loads(line) for line in run(str(ELEC), str(ORDERS), "--json").splitlines()]
    assert found == [{"file": str(file), **json.loads(run(str(file), "--json"))} for file in (ELEC, ORDERS)]

    # one that is refused keeps nobody from hearing of the others
    files = [str(bad), str(ELEC), str(same), str(ORDERS)]
    refused = CliRunner().invoke(command, files)
    assert isinstance(refused.exception, SpecError)
    assert "elec: classification" in refused.output
    assert "4 partitions" in refused.output
    assert re.search(rf"^riparian: {re.escape(str(bad))}: .*clustering", refused.stderr, re.MULTILINE)
    last = f'{same}: name is "elec", as in {ELEC}, and a worker runs a stream once: leave one of them out, or '
    assert str(refused.exception).startswith(last)
    found = [json.loads(line) for line in CliRunner().invoke(command, [*files, "--json"]).stdout.splitlines()]
    assert [one["file"] for one in found] == files
    assert ["error" in one for one in found] == [True, False, True, False]
    assert str(refused.exception) == f"{found[2]['error']}"
    assert [one.get("name") for one in found] == [None, "elec", None, "orders"]


def test_it_refuses_with_a_sentence() -> None:
    with pytest.raises(SpecError, match="nothing here"):
        CliRunner().invoke(command, ["nothing here.yaml"], catch_exceptions=False)
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 2
    assert "expected a stream file, found none; give STREAM.yaml or --schema" in result.output


def test_it_asks_the_broker_only_when_told_to() -> None:
    run(str(ELEC), env={"RIPARIAN_BROKER": "127.0.0.1:1"})
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        CliRunner().invoke(command, [str(ELEC), "--broker", "127.0.0.1:1"], catch_exceptions=False)


def test_the_broker_s_topics_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from riparian.app.kafka import admin
    from riparian.app.kafka.access import rights
    from riparian.app.kafka.topics import delays, keys, topic_warnings
    from riparian.app.state import loading

    async def there(*arguments: Any, **options: Any) -> None: ...

    async def checked(spec: Spec, connection: Connection) -> admin.TopicsReport:
        return admin.TopicsReport({"elec.features": 1, "elec.labels": 1}, (), ("elec.predictions", "elec.drift"))

    monkeypatch.setattr(admin, "wait_for_broker", there)
    monkeypatch.setattr(admin, "check_topics", checked)

    async def nothing(*arguments: Any) -> dict[int, Any]:
        return {}

    monkeypatch.setattr(loading, "prospects", nothing)

    async def no_warnings(*arguments: Any) -> list[str]:
        return []

    monkeypatch.setattr(topic_warnings, "warnings", no_warnings)

    async def sampled(*arguments: Any) -> keys.IdSample:
        return keys.IdSample(None, ["amount is in none of the 400 records looked at: it is learned as missing"], 5.0)

    async def away(*arguments: Any) -> str | None:
        raise KafkaConnectionError("Unable to bootstrap")

    monkeypatch.setattr(keys, "sample", sampled)
    monkeypatch.setattr(delays, "early_labels", away)
    monkeypatch.setattr(rights, "missing", no_warnings)
    shown = run(str(ELEC), "--broker", "b:1")
    assert "warning: ids and delays of labels were not compared, since records could not be read" in shown
    assert "Unable to bootstrap" in shown
    assert "1 partition" in shown
    assert "warning: amount is in none of the 400 records looked at" in shown
    n_bytes = 3_000_000 * instance_bytes(load(ELEC))
    expected = (
        "at the 5 instances a second of the busiest partition up to 3,000,000 wait for 7d: 145 MB of memory, and up to "
        f"{2 * n_bytes / 1e6:,.0f} MB of disk in --data-dir; raise join.max_pending to 3,000,000"
    )
    assert expected in " ".join(shown.split())
    assert "missing topics are created by riparian worker: elec.predictions, elec.drift" in " ".join(shown.split())
    found = json.loads(run(str(ELEC), "--broker", "b:1", "--json"))
    assert found["missing"] == ["elec.predictions", "elec.drift"]
    assert found["partitions_present"] == {"elec.features": 1, "elec.labels": 1}
    never = tmp_path / "never.yaml"
    never.write_text(f"{ELEC.read_text()}\ncreate_topics: never\n")
    refused = CliRunner().invoke(command, [str(never), "--broker", "b:1"])
    assert "missing topics are created" not in refused.output
    assert "says create_topics: never: create what is missing by these commands" in str(refused.exception)


def test_memory_of_what_waits_has_the_slots_of_keys_where_the_label_is_a_later_record() -> None:
    label, join = {"of": "x", "ahead": "1h", "by": "card"}, {"horizon": "30d", "max_pending": 10_000_000}
    spec = {"name": "s", "task": "regression", "champion": "mean", "features": {"x": "numeric"}, "join": join}
    plain, ahead = build(spec), build({**spec, "label": label, "keys": {"card": {"max": 1000}}})
    for n, n_bytes in ((1000, 1000 * instance_bytes(ahead)), (10_000_000, 10_000_000 * instance_bytes(ahead))):
        assert in_memory(ahead, n, n_bytes) == in_memory(plain, n, n_bytes) + 40 * n


def test_the_rate_of_a_partition_is_that_from_its_first_to_its_last_record():
    def seen(*times: int, each: int = 1) -> dict[keys.Place, keys._Seen]:
        return {(1000 + 10 * i, k): keys._Seen("a", None, t) for i, t in enumerate(times) for k in range(each)}

    assert keys._rate(seen(0, -1, 100_000)) == 0.2  # 20 records in 100 s
    assert keys._rate(seen(0, 100_000, each=3)) == 0.3
    assert keys._rate(seen(0, 59_000)) is keys._rate({}) is None


# The schema -----------------------------------------------------------------------------------------------------------


def faults(value: Any, schema: Any, root: Any) -> list[str]:
    """Where `value` breaks `schema`, whose parts are defined in `root`."""
    jsonschema = pytest.importorskip("jsonschema")  # here, and not in each process that collects this file
    found: list[str] = []
    for error in jsonschema.Draft202012Validator({**schema, "$defs": root["$defs"]}).iter_errors(value):
        where = "".join(f".{part}" for part in error.absolute_path)
        if error.validator == "additionalProperties":
            found += [f"{where}.{name}" for name in error.instance.keys() - error.schema["properties"].keys()]
        else:
            found.append(where)
    return found


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_schema_takes_the_examples(file: Path) -> None:
    schema = json_schema()
    assert faults(read_yaml(file), schema, schema) == []


@pytest.mark.parametrize(
    "short",
    [
        {"control": True, "promotion": "automatic"},
        {"control": True, "promotion": {"mode": "propose", "at_least": 500}},
        {"trust": "code"},
        {"trust": ["code", "pickles"]},
        {"drift": "none"},
        {"drift": {"detectors": "adwin", "distributions": True}},
        {"codec": "json"},
        {"champion": "naive-bayes"},
        {"predictions": {"coverage": 0.9, "reasons": 3}},
    ],
    ids=str,
)
def test_the_schema_takes_what_the_file_may_say_in_short(short: dict[str, Any]) -> None:
    content, schema = {**read_yaml(ELEC), **short}, json_schema()
    build(content, "test")
    assert faults(content, schema, schema) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"promotion": "auto"}, ".promotion"),
        ({"trust": "cod"}, ".trust"),
        ({"featurs": {}}, ".featurs"),
        ({"task": "bags"}, ".task"),
        ({"partitions": 0}, ".partitions"),
        ({"features": {"a": "numerik"}}, ".features.a"),
        ({"join": {"horizon": 5}}, ".join.horizon"),
        ({"join": {"horizon": "soon"}}, ".join.horizon"),
        ({"metrics": {"fading": 2}}, ".metrics.fading"),
        ({"champion": "hoefding-tree"}, ".champion"),
        ({"champion": {"model": "hoeffding-tree", "grace_period": "x"}}, ".champion"),
        ({"champion": {"model": "naive-bayes", "grace_period": 5}}, ".champion"),
        ({"champion": {}}, ".champion"),
        ({"classes": ["a"]}, ".classes"),
    ],
)
def test_the_schema_refuses_what_the_file_must_not_say(change: dict[str, Any], where: str) -> None:
    schema = json_schema()
    assert where in faults({**read_yaml(ELEC), **change}, schema, schema)


def test_the_schema_has_every_default_valid_and_every_field_described() -> None:
    schema = json_schema()
    parts = [schema, *(d for d in schema["$defs"].values() if "properties" in d)]
    assert len(parts) > 5
    for part in parts:
        for name, field in part["properties"].items():
            kind = schema["$defs"].get(field.get("$ref", "").removeprefix("#/$defs/"), {})
            assert field.get("description") or kind.get("description"), name
            if "default" in field:
                assert faults(field["default"], field, schema) == [], name


def test_the_schema_has_every_parameter_of_every_learner() -> None:
    """A learner with its defaults written out is valid."""
    schema = json_schema()
    for entry in REGISTRY.values():
        written = {"model": entry.name, **entry.defaults()}
        assert faults(written, schema["$defs"]["ModelSpec"], schema) == []
        assert faults({**written, "no_such_parameter": 1}, schema["$defs"]["ModelSpec"], schema) != []


def test_the_schema_is_printed() -> None:
    assert json.loads(run("--schema")) == json.loads(json.dumps(json_schema()))


def test_names_are_no_commands_to_the_terminal(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text('name: s\ntask: classification\nfeatures: {"a\\u0085\\u2028": numeric}\nchampion: last-label\n')
    said = CliRunner().invoke(command, [str(path)]).stdout
    assert "\x85" not in said
    assert "\u2028" not in said
