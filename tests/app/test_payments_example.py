"""The example of payments: what it predicts from raw payments is what it would predict from the twin's columns."""

from pathlib import Path

import msgspec
import yaml

from riparian.app.dataset.files.synthetic import Recipe
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.app.stream_file.durations import parse_duration
from riparian.app.stream_file.spec import build
from riparian.models.streams.registry import open_source
from tests.app.naive_aggregates import Key, NaiveAggregates

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "payments" / "payments.yaml"
WEEK = 7 * 86_400
N = 2500  # a month of 40 cards
FEW = {"customers": 40, "terminals": 60, "radius": 20}


def milliseconds(text):
    return round(parse_duration(text) * 1000)


def twin_of(fields):
    keys = {
        name: Key(what["max"], milliseconds(what["idle"]) if "idle" in what else None)
        for name, what in fields["keys"].items()
    }
    features = {
        name: what | {"half_life": milliseconds(what["half_life"])}
        for name, what in fields["features"].items()
        if isinstance(what, dict)
    }
    return NaiveAggregates(keys, features)


def predictions(fields, **given):
    """What each row is predicted to be."""
    found = []
    whole = Whole(Setup(stream=build(fields, "it"), clock="time", label_delay=WEEK, **given))
    whole.run(lambda _: None, lambda line: found.append(msgspec.json.decode(line)["p"]))
    return found


def test_the_example_predicts_as_from_the_columns_of_the_twin(tmp_path):
    fields = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")) | {"champion": "naive-bayes", "challengers": {}}
    twin, stream = twin_of(fields), open_source("payments", 5, FEW).take(N)
    rows = [
        (round(time * 1000), {"card": f"v{card:.0f}", "terminal": f"v{terminal:.0f}"}, amount, time)
        for time, card, terminal, amount, _ in stream.x.tolist()
    ]
    classes, learned, lines = ["fraud" if y else "ok" for y in stream.y], 0, []
    for moment, keys, amount, time in rows:
        while rows[learned][0] + WEEK * 1000 < moment:
            twin.label(*rows[learned][:2], classes[learned])
            learned += 1
        columns = twin.observe(moment, keys, {"amount": amount})
        lines.append([time, amount, *("" if value != value else value for value in columns.values())])
    assert learned > N / 2
    path = tmp_path / "columns.csv"
    head = ",".join(["time", "amount", *twin.features, "class"])
    texts = [",".join(map(str, [*line, name])) for line, name in zip(lines, classes, strict=True)]
    path.write_text("\n".join([head, *texts]) + "\n")
    plain = {name: value for name, value in fields.items() if name not in ("keys", "record")}
    plain["features"] = dict.fromkeys(fields["features"], "numeric")
    from_columns = predictions(plain, data=path)
    assert predictions(fields, recipe=Recipe("payments", N, 5, FEW)) == from_columns
    assert len({str(p) for p in from_columns}) > N / 2
