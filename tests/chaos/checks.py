"""What must be true when a campaign is over: nothing lost, nothing trained twice, nothing sent twice, equal bits."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.join.waiting import MATURE, PLACE
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import PartitionGroup
from riparian.app.state.audit.audit import audit
from riparian.app.stream_file.spec import Spec
from riparian.topics import training_log
from riparian.topics.names import HEADER_OFFSET, HEADER_TOPIC, LEARNED
from riparian.topics.records import RawBatch
from tests.broker.clients import read
from tests.broker.harness import check_against_oracle, predictions, stored
from tests.chaos import steered
from tests.chaos.load import FEATURES, LABELS, Generator
from tests.chaos.rekeyed import Copies


class Verdict(NamedTuple):
    """A partition of a stream. failures : sentences, none where all is well. answers : how many commands were applied,
    and how many refused."""

    stream: str
    partition: int
    n_joined: int
    n_predictions: int
    n_dead_letters: int
    digest: str
    failures: list[str]
    answers: Mapping[str, int]


def check_partition(
    broker: str,
    spec: Spec,
    partition: int,
    made: Generator | Copies,
    asked: steered.Commands | None = None,
    one_file: bool = True,
) -> Verdict:
    """Compare what the workers left behind with what was sent, and with a fold in memory in the recorded order.

    asked : the commands that were sent, where the stream takes any. one_file : whether the workers had one stream file
    all the time; no fold of all records comes to the same otherwise.
    """
    seen = (made.records[FEATURES], made.records[LABELS]) if isinstance(made, Copies) else ()
    failures: list[str] = []
    try:
        learner = stored(broker, spec, partition) or PartitionLearner(spec, partition)
    except StateError as error:
        failures.append(f"state: {error}")
        learner = PartitionLearner(spec, partition)
    expected = made.good(FEATURES)
    offsets = [prediction["offset"] for prediction in predictions(broker, spec, partition)]
    failures += _differences("predictions", offsets, expected)
    joined = learner.pending.counts["joined"]
    known = learner.pending.counts
    met = known["joined"] - known["assumed"] + known["null_labels"] + _n_held(learner.pending)
    met += known["corrected_labels"]  # null ones may come after their instance was learned
    if met != made.n_labelled:
        failures.append(f"labels: {made.n_labelled} sent for an instance that was sent, {met} met it: {known}")
    letters = _dead_letters(broker, spec, partition)
    poison = {spec.topics.features: made.poison[FEATURES], spec.topics.labels: made.poison[LABELS]}
    if asked is not None and partition in spec.commanded:
        poison[spec.topics.control] = asked.poison
    for topic, wanted in poison.items():
        failures += _differences(f"dead letters of {topic}", letters.get(topic or "", []), sorted(wanted))
    failures += _metrics(broker, spec, partition)
    answers = Counter[str]()
    if asked is not None:
        answers, wrong = steered.check(broker, spec, partition, asked, learner)
        failures += wrong
    if not failures and one_file:  # the fold needs a recorded order that is one
        try:
            oracle = check_against_oracle(broker, spec, learner, *seen)
        except AssertionError as error:
            failures.append(f"not what a fold in memory comes to: {str(error).splitlines()[0] if str(error) else ''}")
        else:
            assert oracle.pending.counts == learner.pending.counts
    if not failures and one_file:
        report = asyncio.run(audit(spec, Connection(broker), partition))
        if report is None or not report.holds:
            failures.append(f"the audit: {None if report is None else json.dumps(report.plain())[:2000]}")
    n_letters = sum(map(len, letters.values()))
    return Verdict(spec.name, partition, joined, len(offsets), n_letters, learner.digest(), failures, answers)


def _n_held(pending: PendingStore) -> int:
    """Labels that wait for their time beside their instance."""
    if pending.scored_until is None:
        return 0
    store = pending._instances
    rows = store.rows()
    return int((~np.isnan(pending._known[rows]) & (store.entries[rows, PLACE] >= store.at[MATURE])).sum())


def check_replicas(broker: str, spec: Spec) -> list[str]:
    """Of partitions that learn one model: sentences where an instance is not once in their log, or replicas differ. A
    command may stand in it twice, and is obeyed once."""
    assert spec.topics.learned is not None
    log, numbers, said = read(broker, spec.topics.learned), Counter[int](), list[str]()
    for record in log:
        one = training_log.read(record.value)
        if isinstance(one, training_log.LearnedCommand):
            continue
        if one.first != numbers[one.partition]:
            said.append(
                f"learned: {one.first} of partition {one.partition} at {record.offset}, not {numbers[one.partition]}"
            )
        numbers[one.partition] = one.first + one.n
    digests = set()
    for partition in range(spec.partitions):
        learner = stored(broker, spec, partition) or PartitionLearner(spec, partition)
        if learner.pending.counts["joined"] != numbers[partition]:
            said.append(f"learned: {numbers[partition]} of {learner.pending.counts['joined']} of partition {partition}")
        merge = PartitionGroup(learner.buffers())
        merge.buffers[LEARNED].add(RawBatch.of(log))
        while merge.n_waiting:
            learner.step(merge.release())
        learner.learning.obey_all()  # what waits for an instance
        digests.add(learner.lineup.digest())
    return said + ([f"replicas: {len(digests)} that differ"] if len(digests) > 1 else [])


def _differences(what: str, found: Sequence[int], expected: Sequence[int]) -> list[str]:
    """Sentences about source offsets that are missing, too many, repeated or out of order."""
    said = []
    counts = Counter(found)
    if missing := [offset for offset in expected if offset not in counts]:
        said.append(f"{what}: {len(missing)} lost, first of source offset {missing[0]}")
    if strange := sorted(counts.keys() - set(expected)):
        said.append(f"{what}: {len(strange)} of source offsets that have none, first {strange[0]}")
    if repeated := [offset for offset, n in counts.items() if n > 1]:
        said.append(f"{what}: {len(repeated)} repeated, first of source offset {repeated[0]}")
    elif list(found) != sorted(found):
        said.append(f"{what}: out of order")
    return said


def _dead_letters(broker: str, spec: Spec, partition: int) -> dict[str, list[int]]:
    """Source topic -> source offsets, as they stand in the dead-letter topic."""
    found: dict[str, list[int]] = {}
    for record in read(broker, spec.topics.deadletters, partition):
        headers = dict(record.headers)
        found.setdefault(headers[HEADER_TOPIC].decode(), []).append(int(headers[HEADER_OFFSET]))
    return found


def _metrics(broker: str, spec: Spec, partition: int) -> list[str]:
    """Metrics of one model must go forward, by the offsets up to which they count."""
    said = []
    stands: dict[str, list[tuple[int, ...]]] = {}
    for record in read(broker, spec.topics.metrics, partition):
        fields = json.loads(record.value)
        if "model" not in fields:  # of the partition: again and again, also where nothing moves
            continue
        place = fields["offset"], fields["label_offset"], fields.get("learned_offset", 0)
        stands.setdefault(fields["model"], []).append(place)
    wanted = set(spec.models())
    if stands.keys() != wanted and not spec.control:
        said.append(f"metrics of {sorted(stands)}, not of {sorted(wanted)}")
    for model, at in stands.items():
        backward = sum(b <= a for a, b in pairwise(at))
        if backward:
            said.append(f"metrics of {model}: {backward} that do not go forward")
    return said
