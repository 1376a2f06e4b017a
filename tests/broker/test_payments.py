"""The example of payments on Kafka: from raw payments to the predictions of an evaluation in memory."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from riparian.app.dataset.files.synthetic import Recipe
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole

pytestmark = pytest.mark.broker

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "payments" / "payments.yaml"
N = 4000  # half a day


def test_a_worker_predicts_raw_payments_as_an_evaluation_does(stream: Any) -> None:
    fields = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    del fields["name"]
    s = stream(**fields | {"champion": "mondrian-forest", "challengers": {}})
    made = ("--generate", "payments", "-n", N, "--seed", 5, "--time", "time", "--label-delay", "1h")
    s.riparian("replay", *made)
    s.run(N)
    found, recipe = list[Any](), Recipe("payments", N, 5)
    whole = Whole(Setup(recipe=recipe, stream=s.spec, clock="time", label_delay=3600))
    whole.run(lambda _: None, lambda line: found.append(msgspec.json.decode(line)))
    assert [one["p"] for one in s.predictions()] == [one["p"] for one in found]
    assert len({str(one["p"]) for one in found}) > N / 4
    s.holds()
