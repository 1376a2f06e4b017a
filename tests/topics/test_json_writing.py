"""Predictions and floats that kernels write are, to the byte, those of the encoder."""

import random
import struct
from typing import Any

import msgspec
import numpy as np
import pytest

from riparian.topics.formats.common.cells import view
from riparian.topics.formats.json.predictions import JsonPredictionWriter
from riparian.topics.formats.json.shortest import LONGEST, real
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.slices import Slices, Texts
from riparian.topics.vocabulary import Vocabulary

SPECIAL = [
    *(0.0, -0.0, 1.0, -1.5, 5e-324, 2.5e-310, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0),
    *(0.30000000000000004, 1e22, 1e23, 1.5e16, float("nan"), float("inf"), float("-inf")),
]


def text(number: float) -> bytes:
    out = np.full(LONGEST + 8, 7, np.uint8)
    n = int(real(out, view(out, "<u8"), np.uint64(0), np.float64(number).view(np.uint64)))
    assert (out[LONGEST:] == 7).all()
    return out[:n].tobytes()


def test_floats_have_the_shortest_text_that_reads_back() -> None:
    random_ = random.Random(1)
    numbers = [*SPECIAL, *(2.0**k for k in range(-1074, 1024)), *(float(f"1e{k}") for k in range(-323, 309))]
    for _ in range(5000):
        numbers += [
            random_.random(),
            random_.random() * 10 ** random_.randrange(-20, 20),
            struct.unpack("d", random_.randbytes(8))[0],
            round(random_.random(), random_.randrange(18)),
            random_.randrange(1000) / random_.randrange(1, 1000),
        ]
    encode = msgspec.json.Encoder().encode
    for number in numbers:
        assert text(number) == encode(number), number


def both(n: int, k: int, ids: list[str] | None = None, p: Any = None, **options: Any) -> Any:
    """What the kernel writes, and that the encoder writes the same."""
    random_ = np.random.default_rng(k)
    ids = [f"id-{i}" for i in range(n)] if ids is None else ids
    classes = options.pop("classes", Vocabulary(9, [f"class {i}" for i in range(k)]) if k else None)
    p = random_.random((n, max(k, 1))).round(3) if p is None else np.array(p)
    offsets, label_offsets = np.arange(n) * 10**9, random_.integers(0, 2**62, n)
    found = []
    for few in (0, 1 << 60):
        writer = JsonPredictionWriter()
        writer.few = few
        found.append(writer.write(PredictionColumns(ids, p, classes, 'a "model"', offsets, label_offsets, **options)))
    assert list(found[0]) == found[1]
    return found[0]


@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize("k", [0, 1, 2, 7])
def test_usual_predictions_are_written_at_once(k: int, probabilities: bool) -> None:
    found = both(50, k, probabilities=probabilities)
    assert isinstance(found, Slices)
    further = {"control_offset": list(range(50)), "index": [3] * 50}
    assert isinstance(both(50, k, probabilities=probabilities, further=further), Slices)
    decided = {"champion": np.where(np.arange(50) % 3 > 0, np.arange(50) % 9.0, np.nan)}
    assert isinstance(both(50, k, probabilities=probabilities, decided=decided if k else None), Slices)
    alerts = {"champion": np.array([0.0, 1.0, np.nan])[np.arange(50) % 3]}
    p = np.where(np.arange(50) % 7 > 0, 0.25, np.nan)[:, None]
    found = both(50, 0, p=p, decided=alerts, further=further)
    assert isinstance(found, Slices)
    told = [msgspec.json.decode(one)["alert"] for one in found]
    assert told == [None if i % 3 == 2 or i % 7 == 0 else i % 3 == 1 for i in range(50)]
    assert isinstance(both(3, k, ["über", "日本", "\x7f/"], probabilities=probabilities), Slices)


def test_models_that_know_nothing_or_have_room_for_classes_to_come() -> None:
    two = Vocabulary(9, ["no", "yes"])
    p = [[0.0, 0.0, 0.0], [0.0, 0.5, 0.9], [0.5, 0.5, 0.0], [-1.0, 0.0, 1.0], [float("inf"), 1.0, 0.0]]
    for probabilities in (True, False):
        assert isinstance(both(5, 0, p=p, classes=two, probabilities=probabilities), Slices)
        both(1, 0, p=[[0.5, float("nan"), 0.0]], classes=two, probabilities=probabilities)
        both(2, 0, p=np.zeros((2, 2)), classes=Vocabulary(9), probabilities=probabilities)
    assert isinstance(both(len(SPECIAL), 0, p=np.array(SPECIAL)[:, None]), Slices)
    seen = Vocabulary(9)
    for value in ("a", 2, True, 1.5, 'q"', "é"):
        seen.code(value)
    assert isinstance(both(30, 6, classes=seen), Slices)
    assert both(0, 2) == []


@pytest.mark.parametrize("odd", ['a"b', "a\\b", "a\nb", "\x00", "\ud7ff"])
def test_ids_that_are_unusual_are_the_encoders(odd: str) -> None:
    assert isinstance(both(3, 2, ["a", odd, "b"]), list)


def test_ids_are_looked_at_to_their_last_byte_and_no_further() -> None:
    """Eight bytes are read at a time: of another id, too, or of what stands behind the last."""
    plain = "~0 !#[]a^_zAZ{}|\x7f"
    for n in range(1, 20):
        ids = Slices.of([b"\0", plain[:n].encode(), b'"'])[1:2]
        texts = Texts(ids.data, ids.starts, ids.stops)
        cut = Texts(ids.data[: ids.stops[0]], ids.starts, ids.stops)
        assert isinstance(both(1, 2, texts), Slices)
        assert both(1, 2, cut) == both(1, 2, texts)
        for at in range(n):
            for odd in '\x1f"\\\0':
                assert isinstance(both(1, 2, [plain[:at] + odd + plain[at + 1 : n]]), list)


def test_wholes_of_any_length() -> None:
    numbers = [value for k in range(19) for value in (10**k - 1, 10**k, 10**k + 1, 7 * 10**k)] + [2**63 - 1]
    numbers = [value for value in numbers if value < 2**63]
    assert isinstance(both(len(numbers), 2, further={"index": numbers}), Slices)


def test_what_challengers_and_intervals_say_is_the_encoders() -> None:
    p = np.random.default_rng(1).random((4, 2))
    assert isinstance(both(4, 2, challengers={"other": p}), list)
    assert isinstance(both(4, 2, regions=np.ones((4, 2))), list)
