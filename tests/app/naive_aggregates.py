"""The naive twin of features over a key's past: dicts and Python floats, one record at a time, by the definitions.

Sums are forward-decayed: an event of time t adds g(t) = 2^(t / half-life), and what is read is divided by g of now.
g(t) is a product of square roots of 2 and of a power of two, relative to an epoch of 256 half-lives, so each operation
is one that IEEE 754 defines to the last bit.
"""

import math
from collections import OrderedDict
from typing import Any, NamedTuple

MISSING = math.nan
LARGEST = 1e100  # a value beyond it is missing
SMALLEST = 2.0**-600  # a sum below it is 0 once it is scaled


def _roots():
    """2^(1/2), 2^(1/4), … 2^(1/1024)."""
    roots, root = [], 2.0
    for _ in range(10):
        root = math.sqrt(root)
        roots.append(root)
    return roots


ROOTS = _roots()


def tick(i):
    """2^(i/1024) of i in 0 .. 1023: the product of the roots whose bits are set in i, the largest first."""
    power = 1.0
    for j in range(10):
        if i >> (9 - j) & 1:
            power *= ROOTS[j]
    return power


def place(time_ms, half_life_ms):
    """Epoch q of a time, and its g relative to that epoch, at least 1 and below 2^256. Without a half-life: 0 and 1."""
    if half_life_ms is None:
        return 0, 1.0
    ticks = 1024 * time_ms // half_life_ms
    exponent = ticks >> 10
    epoch = exponent // 256
    return epoch, math.ldexp(tick(ticks & 1023), exponent - 256 * epoch)


def scaled(value, epochs):
    """What was relative to an epoch, relative to one that is `epochs` later: 0 from three on."""
    if epochs >= 3:
        return 0.0
    for _ in range(epochs):
        value *= 2.0**-256
    return 0.0 if epochs and abs(value) < SMALLEST else value


class Sums:
    """Of one aggregate of one key: the decayed number of its events, and the decayed sum of their values.

    Sums stay relative to the epoch of the latest event that was added, until another one is added: reading writes
    nothing.
    """

    def __init__(self, half_life_ms):
        self.half_life, self.epoch, self.n, self.v = half_life_ms, None, 0.0, 0.0

    def add(self, time_ms, value):
        epoch, g = place(time_ms, self.half_life)
        if self.epoch is None:
            self.epoch = epoch
        if epoch > self.epoch:
            self.n, self.v = scaled(self.n, epoch - self.epoch), scaled(self.v, epoch - self.epoch)
            self.epoch = epoch
        g = scaled(g, self.epoch - epoch)
        product = g * value
        self.n += g
        self.v += product

    def count(self, now_ms):
        """Events, each worth half after a half-life. now_ms : at least the time of each event."""
        if self.epoch is None:
            return 0.0
        epoch, g = place(now_ms, self.half_life)
        return scaled(self.n, epoch - self.epoch) / g

    def mean(self):
        """Of their values, which needs no decay; missing of none."""
        return self.v / self.n if self.n else MISSING

    def total(self, now_ms):
        if self.epoch is None:
            return 0.0
        epoch, g = place(now_ms, self.half_life)
        return scaled(self.v, epoch - self.epoch) / g


class Row:
    """What is known of one key.

    last : the latest time of its records, None where only labels have come
    touched : the latest time of its records, and of the records whose labels have come
    sums : by name of the aggregate
    values : of `last`, by name of the aggregate
    """

    def __init__(self):
        self.last, self.touched, self.sums, self.values = None, None, {}, {}

    def touch(self, time_ms):
        self.touched = time_ms if self.touched is None else max(self.touched, time_ms)


class Key(NamedTuple):
    """max : keys that are kept; the one touched longest ago goes. idle_ms : how long one may be idle, None for ever."""

    max: int
    idle_ms: int | None = None


class NaiveAggregates:
    """Features over the past of a record's keys.

    Parameters
    ----------
    keys : mapping of key name -> Key
    features : mapping of feature name -> what it is, as in the stream file, with half_life in milliseconds:
        {"count": KEY, "half_life": MS}
        {"mean": VALUE, "by": KEY, "half_life": MS}, {"last": VALUE, "by": KEY}
        {"mean": "label", "by": KEY, "half_life": MS}, {"last": "label", "by": KEY}: of labels that have come
        {"share": CLASS, "by": KEY, "half_life": MS, "smooth": A}
        {"since": KEY}
        {"ratio": NAME, "to": NAME}: NAME of a value of the record or of another feature here
        Without half_life each event weighs 1; `smooth` may be left out.

    How to drive it: `observe` for each record that is predicted, before its prediction; `label` for each label that is
    taken for a record that still waits, with that record's time and keys. Both in the order of the fold. A rejected
    record, a repeated id and a rejected label are not given to it. A key is anything hashable, None (or absent) where
    the record has none; a value is a float, None, NaN or absent where it is missing. Times are int milliseconds, of the
    record itself, as the fold bounds them.

    Where the definitions leave a choice:

    - A record touches the row of each key that it has (and makes it), also of a key that only shares are asked of. A
      label touches, or makes anew, the rows of those keys that an aggregate of labels is asked of, and no other. Only
      touches, in their order, decide who goes; reading is none.
    - `idle`: a row whose `touched` is more than idle_ms before the time of the record (or the record of the label) is
      taken for new when it is touched. Nothing is looked for in between.
    - A late record is counted at the latest time of its key, not at its own: later events never weigh more than 1.
    - Each aggregate has its own epoch, which an event that it does not count (a missing value) leaves as it is. Weights
      of events that are late by three epochs or more are 0, as are sums that are older.
    - `ratio`: the numerator with this record, the denominator without it, where it is a count, mean or last; any other
      one is as it is. Missing where the denominator is missing or 0, or the ratio beyond 1e100.
    - `since` is a difference of int milliseconds divided by 1000.
    - `smooth: A`: (positives + A r) / (labels + A), where r is the plain share of the class among all labels so far of
      records that had this key; missing before the first of them.
    """

    def __init__(self, keys, features):
        self.keys, self.features = keys, features
        self.rows: dict[str, OrderedDict[Any, Row]] = {key: OrderedDict() for key in keys}
        self.labels = {name: [0, 0] for name in features}  # of each share: labels, and those of its class

    # -- what happens

    def change(self, keys, features):
        """Other keys and features from here on. Those that are new begin empty; what goes is forgotten."""
        self.rows = {key: self.rows.get(key, OrderedDict()) for key in keys}
        for row in (row for rows in self.rows.values() for row in rows.values()):
            row.sums = {name: sums for name, sums in row.sums.items() if name in features}
            row.values = {name: value for name, value in row.values.items() if name in features}
        self.labels = {name: self.labels.get(name, [0, 0]) for name in features}
        self.keys, self.features = keys, features

    def observe(self, time_ms, keys, values):
        """Take in a record; the values of all features for its prediction, NaN where one is missing."""
        values = {name: _number(value) for name, value in values.items()}
        found = {}
        for key in self.keys:
            if keys.get(key) is not None:
                found[key] = self._touch(key, keys[key], time_ms)
        before = self._read_all(time_ms, found)
        for row in found.values():
            row.last = time_ms if row.last is None else max(row.last, time_ms)
        for name, what in self.features.items():
            row = found.get(_key(what))
            if row is None:
                continue
            if "count" in what:
                self._sums(row, name).add(time_ms, 0.0)
            elif _value(what) not in (None, "label"):
                self._take(row, name, time_ms, values.get(_value(what), MISSING))
        after = self._read_all(time_ms, found)
        for name, what in self.features.items():
            if "since" in what:
                after[name] = before[name]
        return {
            name: self._ratio(what, before, after, values) if "ratio" in what else after[name]
            for name, what in self.features.items()
        }

    def label(self, time_ms, keys, label):
        """Take in a label: a class, or a number. time_ms, keys : of its record."""
        found = {}
        for name, what in self.features.items():
            key = _key(what)
            if ("share" not in what and _value(what) != "label") or keys.get(key) is None:
                continue
            if key not in found:
                found[key] = self._touch(key, keys[key], time_ms)
            row = found[key]
            if "share" in what:
                of_class = label == what["share"]
                self._sums(row, name).add(time_ms, 1.0 if of_class else 0.0)
                self.labels[name][0] += 1
                self.labels[name][1] += of_class
            else:
                self._take(row, name, time_ms, _number(label))

    def told(self, time_ms, keys):
        """What labels have told of the keys of a record, which touches nothing: a key that is not known, or was idle,
        is one of which none has come."""
        found = {}
        for key, rows in self.rows.items():
            if keys.get(key) is None:
                continue
            row, idle = rows.get(keys[key]), self.keys[key].idle_ms
            found[key] = Row() if row is None or (idle is not None and time_ms - row.touched > idle) else row
        return self._read_all(time_ms, found)

    # -- rows

    def _touch(self, key, value, time_ms):
        """The row of a key, which is now the one touched last; a new one where there is none, or only an idle one."""
        rows, idle = self.rows[key], self.keys[key].idle_ms
        row = rows.pop(value, None)
        if row is not None and idle is not None and time_ms - row.touched > idle:
            row = None
        if row is None:
            row = Row()
            if len(rows) == self.keys[key].max:
                rows.popitem(last=False)
        rows[value] = row
        row.touch(time_ms)
        return row

    def _sums(self, row, name):
        return row.sums.setdefault(name, Sums(self.features[name].get("half_life")))

    def _take(self, row, name, time_ms, value):
        """Add a value to a mean, or keep it as the last one. Nothing where it is missing."""
        if math.isnan(value):
            return
        if "mean" in self.features[name]:
            self._sums(row, name).add(time_ms, value)
        else:
            row.values[name] = value

    # -- features

    def _read_all(self, time_ms, found):
        """Every feature but ratios, as the rows are now."""
        read = {}
        for name, what in self.features.items():
            if "ratio" not in what:
                row = found.get(_key(what))
                read[name] = MISSING if row is None else self._read(name, what, row, time_ms)
        return read

    def _read(self, name, what, row, time_ms):
        if "since" in what:
            return MISSING if row.last is None else max(0, time_ms - row.last) / 1000
        if "last" in what:
            return row.values.get(name, MISSING)
        sums = self._sums(row, name)
        if "count" in what:
            return sums.count(time_ms if row.last is None else max(row.last, time_ms))
        if what.get("smooth"):
            now = time_ms if row.touched is None else max(row.touched, time_ms)
            labels, of_class = self.labels[name]
            a = what["smooth"]
            r = of_class / labels if labels else MISSING
            return (sums.total(now) + a * r) / (sums.count(now) + a)
        return sums.mean()

    def _ratio(self, what, before, after, values):
        numerator = self._named(what["ratio"], before, after, values, after)
        denominator = self._named(what["to"], before, after, values, before)
        if math.isnan(numerator) or math.isnan(denominator) or denominator == 0:
            return MISSING
        return _number(numerator / denominator)

    def _named(self, name, before, after, values, read):
        """A value of the record or a feature, as `read` has it."""
        what = self.features.get(name)
        if what is None:
            return values.get(name, MISSING)
        if "ratio" in what:
            return self._ratio(what, before, after, values)
        return before[name] if "since" in what else read[name]


class NaiveSharedAggregates:
    """The same where all partitions learn one log: each partition knows its own records, and all know what the labels
    in the log have told. Drive it by `observe` for each record of a partition, and `label` for each in the log."""

    def __init__(self, keys, features, n_partitions):
        of_own, of_all = self._apart(keys, features)
        self.own = [NaiveAggregates(*of_own) for _ in range(n_partitions)]
        self.labels = NaiveAggregates(*of_all)
        self.label = self.labels.label

    def change_own(self, partition, keys, features):
        """Other keys and features of records, in a partition."""
        self.own[partition].change(*self._apart(keys, features)[0])

    def change_labels(self, keys, features):
        """Other keys and features of labels, at a place of the log."""
        self.labels.change(*self._apart(keys, features)[1])

    @staticmethod
    def _apart(keys, features):
        """Keys and features of records, and those of labels."""
        of_labels = {name: what for name, what in features.items() if "share" in what or _value(what) == "label"}
        of_records = {name: what for name, what in features.items() if name not in of_labels}
        of_own, of_all = (
            {_key(one): keys[_key(one)] for one in of.values() if _key(one)} for of in (of_records, of_labels)
        )
        return (of_own, of_records), (of_all, of_labels)

    def observe(self, partition, time_ms, keys, values):
        told = self.labels.told(time_ms, keys)
        return self.own[partition].observe(time_ms, keys, values | told) | told


def _key(what):
    """The key whose past a feature is of; None of a ratio."""
    return what.get("by") or what.get("count") or what.get("since")


def _value(what):
    """What a feature keeps: a name of a value, or "label"."""
    return what.get("mean") or what.get("last")


def _number(value):
    return MISSING if value is None or not abs(value) <= LARGEST else float(value)
