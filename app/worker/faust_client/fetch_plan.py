"""Which partitions the client looks at before it asks brokers again.

Of itself it looks at all that are assigned two times a fetch, and waits for each that is paused to be resumed. Here it
looks at none as long as every broker is being asked, or what it sent was not taken yet; and never at changelogs, which
`States` reads. The client would fetch them too, nobody would take the records, and the first time that would hold up
the fetches of all other partitions for 100 ms.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple


class SourceAssignment(NamedTuple):
    """Stands for an assignment, of which these partitions are fetched."""

    tps: Collection[Any]
    state_value: Callable[[Any], Any]


def look_less(fetcher: Any, topics: Collection[str]) -> None:
    """Have a client's Fetcher fetch of these topics only, and look at their partitions when a broker may be asked."""
    look, cluster = fetcher._get_actions_per_node, fetcher._client.cluster
    of = sources = None  # an assignment, and what stands for it

    def looked(assignment: Any) -> Any:
        nonlocal of, sources
        busy = set(fetcher._in_flight)
        brokers = {broker.nodeId for broker in cluster.brokers()}
        for tp, records in fetcher._records.items():  # a broker is not asked again before what it sent is taken
            if busy >= brokers:
                break
            if records.calculate_backoff():
                busy.add(fetcher._select_read_replica(tp))
        if busy and busy >= brokers:
            return [], {}, fetcher._prefetch_backoff, False, []
        if assignment is not of:
            of, tps = assignment, [tp for tp in assignment.tps if tp.topic in topics]
            sources = SourceAssignment(tps, assignment.state_value)
        return look(sources)

    fetcher._get_actions_per_node = looked
