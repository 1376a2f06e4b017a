"""A join by docs/evidence/late-labels.md and docs/concepts/guarantees.md alone: one partition, in plain Python.

Without bounds on what waits. Ids are never used for another instance.
"""

from dataclasses import dataclass, field
from math import isnan, nan

MINUTE = 60_000
MOST_PAUSES = 8  # that are known at a time: the shortest is forgotten


@dataclass
class Record:
    id: str
    x: float
    arrived: int
    label: float = nan  # NaN: none has come
    matured: bool = False
    learned: bool = False


@dataclass
class NaiveJoin:
    """after, horizon : ms; after None: labels are learned when they come. assumed : NaN for nothing. repeats : whether
    another label of what was learned is learned, too."""

    horizon: int
    after: int | None = None
    assumed: float = nan
    repeats: bool = False
    now: int = 0
    waiting: list[Record] = field(default_factory=list)
    pauses: dict[int, int] = field(default_factory=dict)  # when time stood still -> when it went on
    early: list[tuple[str, float, int]] = field(default_factory=list)  # id, label, when it came
    gone: dict[str, float] = field(default_factory=dict)  # id -> the label with which it left
    stamps: dict[str, int] = field(default_factory=dict)  # id -> since when it is remembered, to a 64th of the horizon
    stamp: int | None = None  # the last one
    learned: list[tuple[float, float]] = field(default_factory=list)
    told: list[tuple[float, float, bool]] = field(default_factory=list)  # that shares count; whether it is a correction
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def tick(self, time: int) -> None:
        if time - self.now > MINUTE:
            self.pauses = {start: end for start, end in self.pauses.items() if time - end <= self.horizon}
            if len(self.pauses) == MOST_PAUSES:
                del self.pauses[min(self.pauses, key=lambda start: self.pauses[start] - start)]
            self.pauses[self.now] = time
        self.now = max(self.now, time)
        for one in list(self.waiting):
            if self.after is not None and not one.matured and self.waited(one.arrived) > self.after:
                self.mature(one)
        self.forget()
        for one in list(self.waiting):
            if self.waited(one.arrived) > self.horizon:
                self.waiting.remove(one)
                if not one.learned:
                    self.count("expired")
        for one in list(self.early):
            if self.waited(one[2]) > self.horizon:
                self.early.remove(one)
                self.count("unmatched")

    def waited(self, arrived: int) -> int:
        return self.now - self.pauses.get(arrived, arrived)

    @property
    def grain(self) -> int:
        return max(1, self.horizon // 64)

    def forget(self) -> None:
        for id_ in [i for i, at in self.stamps.items() if self.now - at > self.horizon + self.grain]:
            del self.stamps[id_], self.gone[id_]

    def remember(self, id_: str, y: float) -> None:
        if self.stamp is None or self.stamp not in self.stamps.values() or self.now - self.stamp > self.grain:
            self.stamp = self.now
        self.gone[id_], self.stamps[id_] = y, self.stamp

    def learn(self, one: Record, y: float) -> None:
        one.learned = True
        self.learned.append((one.x, y))
        self.count("joined")

    def leave(self, one: Record, y: float) -> None:
        self.waiting.remove(one)
        self.remember(one.id, y)

    def mature(self, one: Record) -> None:
        one.matured = True
        if not isnan(one.label):
            self.learn(one, one.label)
            if not self.repeats:
                self.leave(one, one.label)
        elif not isnan(self.assumed):
            self.learn(one, self.assumed)
            self.told.append((one.x, self.assumed, False))
            self.count("assumed")

    def features(self, id_: str, x: float, time: int, inside: float = nan) -> None:
        self.tick(time)
        found = next((one for one in self.early if one[0] == id_), None)
        if found is not None:
            self.early.remove(found)
            if not isnan(inside):
                self.count("repeated_labels" if found[1] == inside else "corrected_labels")
        waits = any(one.id == id_ for one in self.waiting)
        if waits and not isnan(inside):
            self.count("repeated_ids")
            self.meets(id_, inside)
            return
        known = waits or id_ in self.gone
        if known and (self.holds or isnan(inside)):  # else, with its label inside, it is learned each time
            self.count("repeated_ids")
            return
        one = Record(id_, x, self.now)
        if isnan(inside) and found is None:
            self.waiting.append(one)
        elif isnan(inside) and isnan(found[1]):
            self.count("null_labels")
            self.remember(id_, nan)
        else:
            y = found[1] if isnan(inside) else inside
            if not self.holds:
                self.told.append((x, y, False))
                self.learn(one, y)
                self.remember(id_, y)
                return
            self.waiting.append(one)
            self.first(one, y)

    @property
    def holds(self) -> bool:
        return self.after is not None or self.repeats

    def first(self, one: Record, y: float) -> None:
        """The first label of a record."""
        one.label = y
        self.told.append((one.x, y, False))
        if self.after is None or one.matured:
            self.learn(one, y)
            if not self.repeats:
                self.leave(one, y)

    def label(self, id_: str, y: float, time: int) -> None:
        self.tick(time)
        self.meets(id_, y)

    def meets(self, id_: str, y: float) -> None:
        one = next((one for one in self.waiting if one.id == id_), None)
        if one is None:
            self.unmet(id_, y)
            return
        taken = one.learned and isnan(one.label)  # for what is assumed
        if isnan(y) and isnan(one.label) and not taken:
            self.count("null_labels")
            self.leave(one, nan)
        elif isnan(one.label) and not taken:
            self.first(one, y)
        elif y == (self.assumed if taken else one.label):
            self.count("repeated_labels")
        elif isnan(y) or not (taken or self.repeats):
            self.count("corrected_labels")
        else:
            one.label = y
            self.told.append((one.x, y, True))
            self.count("corrections")
            if one.learned:
                self.learn(one, y)
                if not self.repeats:
                    self.leave(one, y)

    def unmet(self, id_: str, y: float) -> None:
        known = self.gone.get(id_) if id_ in self.gone else next((one[1] for one in self.early if one[0] == id_), None)
        if known is None:
            self.early.append((id_, y, self.now))
        else:
            self.count("repeated_labels" if known == y or (isnan(known) and isnan(y)) else "corrected_labels")
