"""The examples of payments: what is predicted from raw payments is what would be predicted from the twin's columns, and
from chargebacks at their own times what a worker predicts of the topics that a replay writes."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
import yaml

from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile, write_csv
from riparian.app.dataset.instances import NEVER, label_times_of, times_of
from riparian.app.errors import DataError
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.app.replay import Schedule
from riparian.app.stream_file.durations import parse_duration
from riparian.app.stream_file.spec import build
from riparian.models.streams.registry import open_source
from tests.app.naive_aggregates import Key, NaiveAggregates
from tests.app.test_replay import fold, publish_in_memory

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "payments"
EXAMPLE = EXAMPLES / "payments.yaml"
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


def test_chargebacks_at_their_own_times_are_predicted_as_from_topics(tmp_path):
    fields = yaml.safe_load((EXAMPLES / "chargebacks.yaml").read_text(encoding="utf-8"))
    spec = build(fields | {"champion": "naive-bayes", "challengers": {}}, "it")
    few = {"customers": 60, "terminals": 60, "radius": 20}
    made = Recipe("payments", 9000, 5, few | {"labels": "fraud", "blocked": 0.1})
    path = tmp_path / "payments.csv"
    write_csv(SyntheticFile(made), path)
    predicted = []
    for given in ({"recipe": made}, {"data": path}):
        whole, lines = Whole(Setup(stream=spec, clock="time", label_clock="labelled", **given)), []
        found = whole.run(
            lambda _: None, lambda line, to=lines: to.append(msgspec.json.decode(line)["p"] or {"fraud": 0})
        )
        predicted.append(lines)
    times = times_of(DataFile(path), "time")
    due = label_times_of(DataFile(path), "labelled", times)
    due = [at if at < times[-1] else NEVER for at in due]  # an evaluation ends at the last row
    features, labels = publish_in_memory(spec, DataFile(path), Schedule(times[0], 1.0, 0, times, due))
    from_topics, learner = fold(spec, features, labels)
    assert [[p["fraud"] for p in lines] for lines in predicted] == [np.nan_to_num(from_topics[:, 1]).tolist()] * 2
    assert learner.pending.counts == whole.learner.pending.counts
    assert found["models"]["champion"]["overall"]["n"] == learner.figures().overall["champion"]["n"]
    assert min(learner.pending.counts[name] for name in ("assumed", "corrections", "null_labels")) > 50
    stream = made.open().take(made.n)
    blocked = stream.x[:, 4] == stream.x[:, 0]
    young = np.array(times) >= times[-1] - milliseconds("14d")
    assert found["waiting"] == learner.pending.n_unlearned == pytest.approx((young & ~blocked).sum(), abs=5)
    assert [msgspec.json.decode(value)["id"] for value in labels.values if b"null" in value] == [
        str(i) for i in np.flatnonzero(blocked).tolist()
    ]
    assert labels.stamps == sorted(at for at in due if at != NEVER)


def test_times_of_labels(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("at,come\n2018-04-01T00:00:01Z,2018-04-01T00:00:00Z\n1522540802.5,\n1522540803,1522540809\n")
    base, file = 1_522_540_800_000, DataFile(path)
    times = times_of(file, "at")
    assert label_times_of(file, "come", times) == [base + 1000, NEVER, base + 9000]  # none is before its row
    assert label_times_of(file, "come", times[:2]) == [base + 1000, NEVER]
    path.write_text("at,come\n1522540802.5,soon\n")
    with pytest.raises(DataError, match="'soon' in column 'come': expected a time"):
        label_times_of(DataFile(path), "come", [0])
