"""The kernel's checksums are those of the client's table, however long the data are and wherever they stand."""

import random

import pytest
from aiokafka.record.util import calc_crc32c

from app.kafka import checksum

PART = checksum._PART


@pytest.mark.skipif(not checksum.BY_INSTRUCTION, reason="a processor without the instruction has the client's table")
@pytest.mark.parametrize(
    "n", [*range(20), 4095, PART, 3 * PART - 1, 3 * PART, 3 * PART + 1, 6 * PART + 13, 100_003, 900_000]
)
def test_checksums_are_the_clients(n: int) -> None:
    data = random.Random(n).randbytes(n + 3)
    for start in (0, 1, 3):
        part = memoryview(data)[start : start + n]
        assert checksum.by_instruction(part) == checksum.crc32c(part) == calc_crc32c(part)
        assert checksum.crc32c(bytearray(part)) == calc_crc32c(part)


def test_without_the_instruction_the_client_has_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "BY_INSTRUCTION", False)
    checksum.warm_up()
    data = bytes(range(256)) * 100
    assert checksum.crc32c(data) == calc_crc32c(data)
