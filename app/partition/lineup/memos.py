"""What a model keeps beside instances for their labels, and of which instances that is its own. Pure.

It is of use to that model alone. Where another one takes over, or a member of it, labels of instances before find
nothing kept. The arrival number of an instance tells which these are (app/partition/join/pending.py).
"""

from collections.abc import Iterable, Mapping

from riparian.app.partition.arrays import kept_names
from riparian.app.partition.lineup.learned_rows import InstanceRows
from riparian.models.contract import LEARN, Program


class Memos:
    """Of one model.

    Parameters
    ----------
    names : iterable
        Of what the model keeps beside each instance.
    rows : InstanceRows
        What the model learns from.

    Attributes
    ----------
    since : int, optional
        Arrival number of the first instance that the model predicted, where it took over from another one; None: it
        predicted all that wait.
    begun : dict
        Name -> the first arrival that those predicted which came while the model ran, where partitions share what is
        learned: the log may have what others of their name kept before.
    """

    def __init__(self, names: Iterable[str], rows: InstanceRows) -> None:
        self.names = list(names)
        self.since: int | None = None
        self.begun: dict[str, int] = {}
        self._rows = rows

    def of(self, role: str) -> list[str]:
        """The names of the arrays that hold them."""
        return kept_names(role, self.names)

    def forget(self, role: str, piece: Program, start: int) -> None:
        """Where a label comes to what another model predicted, or a member of before, what was kept then says nothing
        to this one. piece : operations of the last program from `start` on."""
        if not self.names or (self.since is None and not self.begun):
            return
        arrivals, learns = self._rows.arrivals()[start : start + len(piece.op)], piece.op == LEARN
        for name, place in zip(self.names, self.of(role), strict=True):
            since = max(self.since or 0, self.begun.get(name, 0))
            self._rows.erase(place, piece.row[learns & (arrivals < since)])

    def exchange(self, places: Mapping[str, int | None]) -> list[str]:
        """These are kept from here on; returns those that are new. places : None where it is new."""
        self.names, fresh = list(places), [one for one, at in places.items() if at is None]
        self.begin(fresh)
        return fresh

    def begin(self, fresh: Iterable[str]) -> None:
        """These come with the next instance: whatever is older is another member's."""
        stay = {one: number for one, number in self.begun.items() if one in self.names}
        self.begun = stay | self._rows.begun(fresh)
