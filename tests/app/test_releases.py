"""Records that the broker stamps go in the order of their stamps, however they were appended and fetched."""

import asyncio
import random
import types
from collections.abc import Mapping

import pytest
from faust.types import TP

from riparian.app.partition.records.partition_group import PartitionGroup, RecordQueue, Release
from riparian.app.worker.faust_client.input_logs import Found
from riparian.app.worker.task.release_gate import PATIENT_SECONDS, Releases
from riparian.topics.names import FEATURES, INPUTS, LABELS
from riparian.topics.records import RawBatch

TPS = {FEATURES: TP("s.features", 0), LABELS: TP("s.labels", 0)}
N_TURNS, MOST_TURNS = 300, 3000  # with records to come, and until all must have gone
MAX_WAIT = 1e6  # never: what is drawn is always read in the end


class Log:
    """A partition of a topic as the broker holds it, and how far a client has come in it."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.stamps: list[int] = []
        self.end = 0
        self.position = 0  # of the client, which also goes over markers of transactions
        self.drained = 0  # after the last record that was handed on

    def append(self, stamp: int, n: int, marker: bool) -> None:
        self.offsets += range(self.end, self.end + n)
        self.stamps += [stamp] * n
        self.end += n + marker

    def fetch(self, most: int) -> RawBatch:
        found = [i for i, offset in enumerate(self.offsets) if offset >= self.position][:most]
        left = [offset for offset in self.offsets if offset >= self.position][most:]
        self.position = left[0] if left else self.end
        offsets = [self.offsets[i] for i in found]
        self.drained = offsets[-1] + 1 if offsets else self.drained
        n = len(found)
        return RawBatch(offsets, [self.stamps[i] for i in found], [None] * n, [b"{}"] * n)


class World:
    """Two logs, a client that fetches them, and a broker that answers questions late, all drawn."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.now = draw, 1000.0
        self.logs = {role: Log() for role in INPUTS}
        self.spec = types.SimpleNamespace(join=types.SimpleNamespace(max_wait=MAX_WAIT))
        self.copying = 0.0
        self.tells = draw.choice([0.0, 0.7])  # how often an answer says where the other log ends
        self.n_answers, self.told = 0, dict[str, tuple[int, int]]()  # role -> answer that told its end last, and that
        self.asked_first = draw.sample(INPUTS, 2)
        self.asked: asyncio.Future[Found | None] | None = None
        self.ends_seen = list[int]()  # of the logs, by one broker after the other, once to go by and once to read to
        self.said: list[Exception] = []
        self.merge = PartitionGroup({role: RecordQueue() for role in INPUTS}, limit=draw.choice([3, 20, 8192]))
        self.releases = Releases(self.merge, TPS, self, self, lambda: self.now)

    def wake(self) -> None:
        pass

    def cannot(self, error: Exception) -> None:
        self.said.append(error)

    async def ends(self, partition: int) -> Found | None:
        self.asked, self.ends_seen = asyncio.get_running_loop().create_future(), []
        return await self.asked

    def reached(self, tp: TP, end: int, next_offset: int) -> bool:
        log = self.logs[tp.topic.removeprefix("s.")]
        return next_offset >= end or (next_offset >= log.drained and log.position >= end)

    def append(self) -> None:
        for role in self.draw.sample(INPUTS, self.draw.choice([1, 1, 2])):
            self.logs[role].append(int(self.now * 1000), self.draw.choice([1, 1, 2, 9]), self.draw.random() < 0.2)

    def fetch(self) -> None:
        """One answer: of one topic or of both, which tells the ends of all, or of none."""
        self.n_answers += 1
        if self.draw.random() < self.tells:
            self.told |= {role: (self.n_answers, log.end) for role, log in self.logs.items()}
        for role in self.draw.sample(INPUTS, self.draw.choice([1, 1, 2])):
            raw = self.logs[role].fetch(self.draw.choice([1, 3, 100]))
            if len(raw.offsets):
                self.merge.buffers[role].add(raw)
                self.releases.fetched(role, self.n_answers)  # type: ignore[arg-type]

    def ends_beside(self, tps: Mapping[str, TP], seen: int) -> Mapping[str, int] | None:
        """Of this answer, or a later one."""
        known = all(one in self.told and self.told[one][0] >= seen for one in tps)
        return {one: self.told[one][1] for one in tps} if known else None

    async def broker(self) -> None:
        """Brokers look at their logs at moments of their own, and the answer comes at another."""
        if self.asked is None or self.asked.done() or self.draw.random() < 0.5:
            return
        n = len(INPUTS)
        if len(self.ends_seen) < 2 * n:
            self.ends_seen.append(self.logs[self.asked_first[len(self.ends_seen) % n]].end)
        else:
            below, until = (dict(zip(self.asked_first, self.ends_seen[i : i + n], strict=True)) for i in (0, n))
            self.asked.set_result(Found(below, until) if self.draw.random() < 0.9 else None)
            await asyncio.sleep(0)
            await asyncio.sleep(0)


def listed(release: Release) -> list[tuple[str, int, int]]:
    """Role, offset and stamp of each record, in the order of the release."""
    if not release.n:
        return []
    features, labels = release.pieces[FEATURES], release.pieces[LABELS]
    rows = {role: list(zip(p.offsets.tolist(), p.stamps.tolist(), strict=True)) for role, p in release.pieces.items()}
    found, at = list[tuple[str, int, int]](), 0
    for i, n in enumerate(release.before[LABELS][: len(features.offsets)].tolist()):
        found += [(LABELS, *one) for one in rows[LABELS][at:n]] + [(FEATURES, *rows[FEATURES][i])]
        at = n
    return found + [(LABELS, *one) for one in rows[LABELS][at : len(labels.offsets)]]


async def life(seed: int) -> tuple[World, list[tuple[str, int, int]]]:
    world, came = World(random.Random(seed)), list[tuple[str, int, int]]()
    pace = world.draw.choice([0.05, 0.3, 0.8])  # of appends to turns: a backlog, or as it comes
    rate = world.draw.choice([0.1, 0.4])  # of fetches to turns
    rests = world.draw.choice([(), (), (100.0,)])  # for longer than clocks may be apart: the next stamps are leaps
    for turn in range(MOST_TURNS):
        world.now += world.draw.choice([0.0, 0.001, 0.004, 0.03, *rests])
        if turn < N_TURNS and world.draw.random() < pace:
            world.append()
        if world.draw.random() < rate:
            world.fetch()
        await world.broker()
        came += listed(world.releases.next())
        await asyncio.sleep(0)
        if turn >= N_TURNS and len(came) == sum(len(log.offsets) for log in world.logs.values()):
            break
    world.releases.stop()
    return world, came


@pytest.mark.parametrize("first", [0, 60])
def test_everything_goes_in_the_order_of_its_stamps(first: int) -> None:
    for seed in range(first, first + 25):
        world, came = asyncio.run(life(seed))
        assert world.said == [], seed
        assert world.releases.n_forced == 0, seed
        stamps = [stamp for _, _, stamp in came]
        assert stamps == sorted(stamps), seed
        for role, log in world.logs.items():
            assert [offset for one, offset, _ in came if one == role] == log.offsets, seed


def test_labels_alone_wait_each_time_for_the_next_fetch_before_the_broker_is_asked() -> None:
    async def run() -> None:
        world = World(random.Random(0))
        world.tells = 0.0
        for _ in range(4):
            world.now += 10.0
            world.logs[LABELS].append(int(world.now * 1000), 1, False)
            world.merge.buffers[LABELS].add(world.logs[LABELS].fetch(1))
            assert not world.releases.fetched(LABELS, None)
            assert world.releases.due == world.now + PATIENT_SECONDS
            assert not world.releases.next().n
            assert world.asked is None
            world.now += PATIENT_SECONDS
            assert not world.releases.next().n
            await asyncio.sleep(0)
            assert world.asked is not None
            ends = {role: log.end for role, log in world.logs.items()}
            world.asked.set_result(Found(ends, ends))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            world.asked = None
            assert len(listed(world.releases.next())) == 1

    asyncio.run(run())


def test_a_release_that_holds_as_much_as_one_may_is_followed_at_once() -> None:
    async def run() -> None:
        world = World(random.Random(0))
        world.merge.limit = 3
        world.logs[FEATURES].append(1, 4, False)
        world.merge.buffers[FEATURES].add(world.logs[FEATURES].fetch(4))
        world.releases.fetched(FEATURES, None)
        world.releases.next()
        await asyncio.sleep(0)
        assert world.asked is not None
        ends = {role: log.end for role, log in world.logs.items()}
        world.asked.set_result(Found(ends, ends))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [(len(listed(world.releases.next())), world.releases.more) for _ in range(2)] == [(3, True), (1, False)]

    asyncio.run(run())
