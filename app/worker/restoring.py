"""Partitions restored from the changelogs that a worker follows, off the event loop."""

from collections.abc import Callable, Collection, Mapping

from riparian.app.errors import StateError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.shared.replica import LED, LedLearner, gathered
from riparian.app.partition.shared.shared_lineup import STATE
from riparian.app.state import checkpoint
from riparian.app.state.loading import Loaded
from riparian.app.state.log import StateLog
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.shared.replica import ReplicaOfWorker
from riparian.topics.names import LEARNED, state_field


def restore_all(
    spec: Spec, logs: Mapping[int, StateLog], partitions: Collection[int], new_replica: Callable[[], ReplicaOfWorker]
) -> tuple[list[Loaded], dict[int, ReplicaOfWorker]]:
    """In one go: between two of them the steps of all partitions that run would have their turn. And the replica that
    each recovers behind, if they learn one model, the one that has come furthest first: each gives up its models for it
    before the next is restored."""
    replicas = dict[int, ReplicaOfWorker]()
    if not spec.shares:
        return [_restore(spec, logs[p]) for p in partitions], replicas
    loaded = dict[int, Loaded]()
    for group in gathered({p: _reached(logs[p].manifest) for p in partitions}):
        leads = new_replica()
        for p in group:
            loaded[p], replicas[p] = _restore(spec, logs[p], leads), leads
    return [loaded[p] for p in partitions], replicas


def _reached(manifest: checkpoint.Manifest | None) -> tuple[int, int]:
    """How far in the shared log a partition has come, by offset and by instances."""
    meta = {} if manifest is None else manifest.meta
    return int(meta.get(state_field(LEARNED, "offset"), 0)), int(meta.get(STATE, {}).get("n", 0))


def _restore(spec: Spec, state: StateLog, leads: ReplicaOfWorker | None = None) -> Loaded:
    """A learner and what writes its checkpoints, as the last manifest has them."""
    partition, manifest = state.partition, state.manifest
    learner = PartitionLearner(spec, partition) if leads is None else LedLearner(spec, partition)
    topics = spec.input_topics
    features = [(name, feature.type) for name, feature in spec.features.items()]
    if manifest is None:
        if leads is not None and isinstance(learner, LedLearner):
            leads.lead(learner)
        return Loaded(learner, checkpoint.Encoder(spec.name, partition, features, topics.values()), None, [])
    if manifest.stream != spec.name or manifest.partition != partition:
        raise StateError(
            f"the changelog holds the state of partition {manifest.partition} of stream "
            f"{manifest.stream!r}, not of {spec.name!r}: give the stream another name"
        )
    snapshot = checkpoint.decode(manifest, state.chunks)
    notes, arrays = learner.restore(snapshot, topics), snapshot.arrays
    if leads is not None and isinstance(learner, LedLearner):
        leads.lead(learner)
        arrays = {name: array for name, array in arrays.items() if not name.startswith(LED)}
    encoder = checkpoint.Encoder(spec.name, partition, features, topics.values(), manifest, arrays)
    return Loaded(learner, encoder, manifest, notes)
