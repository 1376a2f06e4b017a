"""The table of a stream: the learners of a worker's partitions, and the changelog that holds their checkpoints.

`states[partition]` is a learner. Its changelog is read here and nowhere else: a partition that is new to this worker is
restored from it, and one for which the worker is a standby is tailed all the time, so that little is left to be read
when the worker takes it over. What is appended to it are checkpoints (task/checkpoints.py), not each change.

Faust assigns the changelog and its standbys with the partitions, and knows when an assignment is complete. Its own
recovery waits for a changelog's last *record*, so a transaction marker at its end (app/kafka/sending.py) would keep it
waiting for ever; it applies 8,000 records/s, in the event loop; it polls for an event that can be missed for 5 s; and
its memory store forgets standbys when they are promoted.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from operator import methodcaller
from typing import Any

import faust
from aiokafka.admin import RecordsToDelete
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from faust.tables import TableManager, recovery
from faust.types import TP
from mode import Service

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, FETCH_BYTES, SideClient, read_to_end, started
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.shared.replica import FollowedLearning, Replica, gathered
from riparian.app.partition.shared.shared_lineup import STATE
from riparian.app.state import checkpoint
from riparian.app.state.loading import Loaded
from riparian.app.state.log import RECREATED, StateLog
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import LEARNED, changelog_topic, state_field

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0  # until standbys are read again after an error


class States(faust.Table):  # type: ignore[misc]
    """Partition -> its learner, of those that run here.

    Parameters
    ----------
    app : faust.App
        Made with `TableManager=Tables`.

    Attributes
    ----------
    logs : dict of int to StateLog
        Partition -> what its changelog holds, of those that run here and of standbys.
    standbys : frozenset of int
    """

    def __init__(self, app: Any, spec: Spec, connection: Connection) -> None:
        self.topic = changelog_topic(spec.name)
        topic = app.topic(self.topic, partitions=spec.partitions, internal=True, allow_empty=True)
        super().__init__(app, name="state", partitions=spec.partitions, changelog_topic=topic, beacon=app.tables.beacon)
        self._data: dict[int, PartitionLearner] = {}
        self.spec, self.connection = spec, connection
        self.logs: dict[int, StateLog] = {}
        self.standbys: frozenset[int] = frozenset()
        self._changed = asyncio.Event()  # which partitions are standbys
        self._tailing: asyncio.Task[None] | None = None
        self._admin = SideClient(connection.admin, methodcaller("close"))
        app.tables.add(self)

    def on_key_set(self, key: int, value: PartitionLearner) -> None:
        """Nothing is appended: a checkpoint will be."""

    def on_key_del(self, key: int) -> None:
        """What the changelog holds stays there."""

    async def on_start(self) -> None:
        """There is no store to open."""

    async def on_rebalance(self, *assignment: Any) -> None:
        """`Consumer.perform_seek` has `Assignment` restore what is assigned."""

    def persisted_offset(self, tp: TP) -> None:
        """Nothing of it is on disk."""

    async def on_stop(self) -> None:
        if self._tailing is not None:
            self._tailing.cancel()
            await asyncio.gather(self._tailing, return_exceptions=True)
        await self._admin.stop()

    # -- the changelog -----------------------------------------------------------------------------------------

    async def catch_up(self, partitions: Iterable[int]) -> None:
        """Read partitions to where they end now.

        Raises
        ------
        KafkaError
            The broker does not answer.
        StateError
            The changelog is not the one that was read before.
        """
        logs = {TopicPartition(self.topic, p): self._log(p) for p in partitions}
        starts = {tp: state.position for tp, state in logs.items()}
        bounds = await read_to_end(self.connection, starts, self._take, isolation=EVERYTHING)
        for tp, found in logs.items():
            if bounds[tp].end < found.position:
                raise StateError(
                    f"the changelog of partition {tp.partition} ends at {bounds[tp].end:,} and was read up to "
                    f"{found.position:,}: {RECREATED}"
                )
            # After reading: live records before the first record that is kept have been appended again since.
            found.truncate(bounds[tp].first)
            found.settle()

    def _log(self, partition: int) -> StateLog:
        return self.logs.setdefault(partition, StateLog(partition, self.logs))

    def _take(self, tp: TopicPartition, records: list) -> None:  # type: ignore[type-arg]
        found = self.logs.get(tp.partition)
        if found is not None:
            for record in records:
                if record.offset >= found.position:
                    found.append(record.offset, record.key, record.value)

    async def delete_before(self, partition: int, offset: int) -> bool:
        """Delete the records of a partition before `offset`; whether that was done: if not, a later call will."""
        try:
            admin = await self._admin.connected()
            await admin.delete_records({TopicPartition(self.topic, partition): RecordsToDelete(offset)})
        except KafkaError as error:
            log.warning("partition %d: the changelog was not cut off at %d (%r)", partition, offset, error)
            return False
        return True

    # -- standbys ----------------------------------------------------------------------------------------------

    def stand_by(self, owned: Collection[int]) -> None:
        """Tail what Faust wants us to keep warm from now on; forget every partition that is neither of these nor
        `owned`."""
        standbys = {tp.partition for tp in self.app.assignor.assigned_standbys() if tp.topic == self.topic}
        self.standbys = frozenset(standbys - set(owned))
        for partition in set(self.logs) - self.standbys - set(owned):
            del self.logs[partition]
        for partition in self.standbys:
            self._log(partition)
        self._changed.set()
        if self.standbys and self._tailing is None:
            self._tailing = asyncio.create_task(self._tail(), name="standbys")

    def _tidy(self, state: StateLog) -> None:
        """Forget what is not live; its owner deletes that too."""
        try:
            state.settle()
        except StateError as error:
            log.warning(
                "standby of partition %d: %s", state.partition, error
            )  # a worker that takes the partition over will refuse it
        else:
            state.truncate(state.front()[0])

    async def _tail(self) -> None:
        while True:
            try:
                await self._tail_until_lost()
            except (KafkaError, OSError) as error:
                log.debug("standbys: %r", error)
            except Exception:
                log.exception("standbys are not kept warm; trying again")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _tail_until_lost(self) -> None:
        asked = self.connection.consumer(auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES)
        async with started(asked) as consumer:
            self._changed.set()
            while True:
                if self._changed.is_set():
                    self._changed.clear()
                    tps = [TopicPartition(self.topic, partition) for partition in sorted(self.standbys)]
                    consumer.unsubscribe()
                    consumer.assign(tps)
                    for tp in tps:
                        consumer.seek(tp, self.logs[tp.partition].position)
                if not self.standbys:
                    await self._changed.wait()
                    continue
                for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                    if tp.partition in self.standbys:
                        self._take(tp, records)
                        self._tidy(self.logs[tp.partition])

    # -- restoring ---------------------------------------------------------------------------------------------

    def restore(self, partitions: Collection[int]) -> tuple[list[Loaded], dict[int, Replica]]:
        """Off the event loop, learners from the changelog as it was read, all in one go: between two of them the steps
        of all partitions that run would have their turn. And the replica that each recovers behind, if they learn one
        model, the one that has come furthest first: each gives up its models for it before the next is restored."""
        loaded, replicas = dict[int, Loaded](), dict[int, Replica]()
        for group in gathered({p: _reached(self.logs[p].manifest) for p in partitions}):
            leads = Replica(self.spec)
            for p in group:
                loaded[p], replicas[p] = self._restore(p, leads), leads
        return [loaded[p] for p in partitions], replicas

    def _restore(self, partition: int, leads: Replica) -> Loaded:
        """A learner and what writes its checkpoints, as the last manifest has them."""
        spec, state = self.spec, self.logs[partition]
        manifest = state.manifest
        learner = PartitionLearner(spec, partition, FollowedLearning)
        topics = spec.input_topics
        features = [(name, feature.type) for name, feature in spec.features.items()]
        if manifest is None:
            learner.learning.wait_for(leads)
            return Loaded(learner, checkpoint.Encoder(spec.name, partition, features, topics.values()), None, [])
        if manifest.stream != spec.name or manifest.partition != partition:
            raise StateError(
                f"the changelog holds the state of partition {manifest.partition} of stream "
                f"{manifest.stream!r}, not of {spec.name!r}: give the stream another name"
            )
        snapshot = checkpoint.decode(manifest, state.chunks)
        notes = learner.restore(snapshot, topics)
        learner.learning.wait_for(leads)
        arrays = {name: one for name, one in snapshot.arrays.items() if not name.startswith(learner.learning.held)}
        encoder = checkpoint.Encoder(spec.name, partition, features, topics.values(), manifest, arrays)
        return Loaded(learner, encoder, manifest, notes)


def _reached(manifest: checkpoint.Manifest | None) -> tuple[int, int]:
    """How far in the shared log a partition has come, by offset and by instances."""
    meta = {} if manifest is None else manifest.meta
    return int(meta.get(state_field(LEARNED, "offset"), 0)), int(meta.get(STATE, {}).get("n", 0))


class Tables(TableManager):  # type: ignore[misc]
    """Faust's tables, with a recovery that reads no changelog, and without the second that Faust gives an application
    to add some at its start: ours are there."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self._recovery = Recovery(app, self, beacon=self.beacon)

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


class Recovery(recovery.Recovery):  # type: ignore[misc]
    """Resumes the streams after every rebalance; `Consumer.perform_seek` has `Assignment` restore the states."""

    @Service.task  # type: ignore[untyped-decorator]
    async def _restart_recovery(self) -> None:
        while not self.should_stop:
            if await self.wait_for_stopped(self.signal_recovery_start):
                return
            self.signal_recovery_start.clear()
            await self._resume(self._generation_id)

    async def _resume(self, generation: int) -> None:
        app: Any = self.app
        await app.on_rebalance_complete.send()
        if app.consumer_generation_id != generation:
            return
        app.flow_control.resume()
        app.consumer.resume_flow()
        await app._fetcher.maybe_start()
        await app.consumer.perform_seek()
        if app.consumer_generation_id != generation:
            return
        self.completed.set()
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        app.on_rebalance_end()
        self.log.info("Worker ready")

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """No buffers to flush."""
