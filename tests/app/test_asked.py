"""Waiting for checkpoints that hold a command."""

import asyncio
from types import SimpleNamespace

import pytest

from riparian.app.kafka.reading import Bounds
from riparian.app.state import asked, checkpoint
from tests.app.test_steering import spec


@pytest.mark.parametrize("late", [False, True])
def test_what_is_there_at_the_end_is_found_and_a_deleted_manifest_is_none(monkeypatch, late):
    """Partition 0's state was deleted; 1 writes at a command that came before, and behind it; 2 has its own."""
    keys = [checkpoint.manifest_key(partition) for partition in range(3)]
    logs = {0: [(keys[0], None)], 1: [(keys[1], 4), (b"chunk", 9), (keys[1], 6)], 2: [(keys[2], 5)]}
    shown, begun = [], []

    async def read(_, places, take, isolation):
        begun.append({tp.partition: start for tp, start in places.items()})
        for tp, start in places.items():
            take(tp, [SimpleNamespace(key=key, value=value) for key, value in logs[tp.partition][start:]])
        return {tp: Bounds(0, len(logs[tp.partition])) for tp in places}

    monkeypatch.setattr(asked, "read_to_end", read)
    monkeypatch.setattr(checkpoint, "decode_manifest", lambda n: SimpleNamespace(meta={"control_offset": n}))
    until = 0.0 if late else float("inf")

    async def wait():
        waiting = asked._written(
            spec(), None, dict.fromkeys(range(3), 5), dict.fromkeys(range(3), 0), until, shown.append
        )
        if late:
            return await waiting
        task = asyncio.create_task(waiting)
        while not begun:
            await asyncio.sleep(0)
        for partition in (0, 2):
            logs[partition].append((keys[partition], 7))
        return await task

    found = {partition: one.meta["control_offset"] for partition, one in asyncio.run(wait()).items()}
    assert found == ({1: 6} if late else {0: 7, 1: 6, 2: 7})
    assert begun == [{0: 0, 1: 0, 2: 0}] + ([] if late else [{0: 1, 2: 1}])
    assert len(shown) == len(found)
