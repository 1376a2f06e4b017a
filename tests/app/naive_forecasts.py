"""Labels from the stream itself by docs/build/forecasts.md alone: one partition, in plain Python, record by record."""

from dataclasses import dataclass, field
from math import isnan

from tests.app.naive_late import NaiveJoin, Record


@dataclass
class NaiveForecasts(NaiveJoin):
    """ahead : ms. most : records that wait."""

    ahead: int = 1
    most: int = 10**9
    series: dict[str, tuple[int, str]] = field(default_factory=dict)  # id that waits -> its own time, and its key

    def remember(self, id_: str, y: float) -> None:
        while len(self.gone) >= self.most:  # as many as may wait
            first = next(iter(self.gone))
            del self.stamps[first], self.gone[first]
        super().remember(id_, y)

    def record(self, id_: str, x: float, time: int, own: int, key: str | None, value: float) -> None:
        """time : stream time, ms. own : the record's."""
        self.tick(time)
        if id_ in self.gone or any(one.id == id_ for one in self.waiting):
            self.count("repeated_ids")
            return
        if key is not None and not isnan(value):
            for one in [one for one in self.waiting if self.series[one.id][1] == key]:
                if own - self.series[one.id][0] < self.ahead:
                    break
                self.told.append((one.x, value, False))
                self.learn(one, value)
                self.leave(one, value)
        self.series[id_] = own, key or f"none of {id_}"
        self.waiting.append(Record(id_, x, self.now))
        if len(self.waiting) > self.most:
            self.waiting.pop(0)
            self.count("evicted")
