"""What a backtest takes from the predictions, and from the stream file."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.state.backtest import _recorded, of_models
from app.stream_file.spec import Spec, build

N = 100


def stream(**fields: Any) -> Spec:
    features = {"a": "numeric", "b": "numeric"}
    return build({"name": "s", "task": "classification", "features": features, "champion": "hoeffding-tree"} | fields)


def prediction(offset: int, label_offset: int) -> SimpleNamespace:
    fields = {"id": f"{offset}", "y": None, "p": None, "model": "m", "offset": offset, "label_offset": label_offset}
    return SimpleNamespace(value=json.dumps(fields).encode())


class Sent:
    """A reader of a topic that is read at once."""

    def __init__(self, records: list[Any]) -> None:
        self.records, self.end = records, len(records)

    async def read(self, _: int) -> list[Any]:
        found, self.records = self.records, []
        return found


@pytest.mark.parametrize("at", [0, 40, N])
@pytest.mark.parametrize("odd", [prediction(10**6, 0), prediction(N - 1, 0), SimpleNamespace(value=b"{oops")])
def test_one_odd_record_costs_no_other_its_place(at: int, odd: SimpleNamespace) -> None:
    good = [prediction(i, max(0, i - 5)) for i in range(N - 1)]
    records: Any = Sent([*good[:at], odd, *good[at:]])
    script = asyncio.run(_recorded(stream(), records, ["features", "labels"], N))
    assert set(range(N - 1)) <= set(script.offsets.tolist()) <= set(range(N))
    labels = script.next_offsets["labels"][: N - 1]
    np.testing.assert_array_equal(labels, np.maximum(0, np.arange(N - 1) - 5))


def test_models_that_give_no_reasons_are_tested_too() -> None:
    spec = of_models(stream(predictions={"reasons": 2, "coverage": 0.8}, control=True), [("naive-bayes", {})])
    assert list(spec.models()) == ["champion"]
    assert spec.predictions.coverage == 0.8
    assert not spec.control
