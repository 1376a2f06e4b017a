"""How partitions are given out to the workers of a stream."""

from collections.abc import Mapping, Sequence
from typing import Any

from faust.assignor import PartitionAssignor


class Copartitioned(PartitionAssignor):  # type: ignore[misc]
    """Gives out partition k of all topics of a stream together, up to the number that each of them has.

    Faust would give out a topic that has more partitions than the others apart from these: its partition k might go to
    another worker.
    """

    @classmethod
    def _get_copartitioned_groups(
        cls, topics: set[str], cluster: Any, subscriptions: Mapping[str, Sequence[str]]
    ) -> dict[int, list[set[str]]]:
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        there = {topic for topic, n in counts.items() if n}
        return {min(counts[topic] for topic in there): [there]} if there else {}

    def _get_changelog_distribution(self, assignments: Mapping[str, Any]) -> dict[str, dict[str, list[int]]]:
        """Partitions of the changelog by workers' addresses. Workers of one machine have one address in common, of
        which Faust would keep those of the last."""
        given: dict[str, dict[str, list[int]]] = {}
        for client, assignment in assignments.items():
            known = given.setdefault(self._member_urls[client], {})
            for topic in self._table_manager.changelog_topics & assignment.actives.keys():
                known[topic] = sorted({*known.get(topic, ()), *assignment.actives[topic]})
        return given
