"""Payments by card, of which a few are fraud, as the Fraud Detection Handbook simulates them.

Le Borgne, Siblini, Lebichot, Bontempi: Reproducible Machine Learning for Credit Card Fraud Detection, Practical
Handbook, chapter 3. ULB 2022. Customers and terminals lie in a square of side 100, and a customer pays at the terminals
within `radius`. Each has a mean amount (5 to 100; the standard deviation is half of it) and a mean number of payments a
day (0 to 4). A payment is fraud

- where its amount is above 220,
- at a compromised terminal: two more (`bad_terminals`) are each day, for 28 days,
- one in three of a compromised customer, with five times the amount: three more (`bad_customers`) are each day, for 14.

So the record alone shows the first kind only; the past of its card shows the third, and the labels of its terminal the
second. Where this differs from the Handbook: a third of a compromised customer's payments is drawn payment by payment,
and the stream has no last day (the Handbook's 183 have about 1,750,000 payments).

`labelled` is when the label comes. With `labels: both`, a week after each payment; with `labels: fraud`, for fraud
alone, a day and an exponential delay of mean 15 days after it, 60 days at most. A share of the payments, `blocked`,
never gets a label, whatever its class: `labelled` is then its own time. Payments and delays are the same for all these.

With `campaign`, fraud is of one pattern at a time, and changes it every so many days, at once: compromised customers
pay five times their amount; then it is at compromised terminals; then compromised customers pay a twentieth; and again.
Whoever is compromised has been so for 0 to 27 (0 to 13) days when a campaign begins, and no other amount is fraud.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, normal, seeded, uniform
from riparian.models.streams import EndlessStream, Floats

SIDE = 100.0
DAY = 86_400.0
BEGIN = 1_522_540_800.0  # 2018-04-01, UTC
LIMIT = 220.0  # amounts above it are fraud
TERMINAL_DAYS = 28  # for so long it is compromised
CUSTOMER_DAYS, FACTOR = 14, 5.0
SMALL = 0.05  # factor of the third campaign
MOST_RATE = 4.0  # payments a day, on average
NONE_A_DAY = 0.018315638888734179  # exp(-MOST_RATE)
MOST_A_DAY = 24
COLUMNS = ("time", "card", "terminal", "amount", "labelled")


class World(NamedTuple):
    """Who pays, and where.

    customers, terminals : (n, 2) places
    means : (customers,) of amounts; rates : of payments a day
    start, near : the terminals within reach of customer c are near[start[c]:start[c + 1]]
    customer_until, terminal_until : the first day on which each is not compromised
    """

    customers: Floats
    terminals: Floats
    means: Floats
    rates: Floats
    start: NDArray[np.int64]
    near: NDArray[np.int32]
    customer_until: NDArray[np.int64]
    terminal_until: NDArray[np.int64]


def source(
    seed: int = 0,
    *,
    customers: int = 5000,
    terminals: int = 10_000,
    radius: float = 5.0,
    bad_customers: int = 3,
    bad_terminals: int = 2,
    labels: str = "both",
    blocked: float = 0.0,
    campaign: int = 0,
) -> EndlessStream:
    """Payments in the order of their time, to the second, from 2018-04-01 on. ValueError where no customer has a
    terminal within reach."""
    state = seeded(seed)
    world = make_world(state, customers, terminals, radius)
    if not len(world.near):
        raise ValueError(f"no customer of {customers} has one of {terminals} terminals within {radius}: give more")
    days = _Days(seed, state, world, (bad_terminals, bad_customers), labels == "fraud", blocked, campaign)
    return EndlessStream(
        days.fill,
        (0, customers, terminals, 0, 0),
        COLUMNS,
        2,
        classes=("ok", "fraud"),
        ids=("time", "card", "terminal", "labelled"),
    )


def make_world(state: NDArray[np.uint64], customers: int, terminals: int, radius: float) -> World:
    """Draw all places and habits. Mutates `state`."""
    places = np.empty((customers, 2)), np.empty((terminals, 2))
    means, rates, start = np.empty(customers), np.empty(customers), np.empty(customers + 1, np.int64)
    _settle(state, *places, means, rates)
    near = np.empty(_count(*places, radius, start), np.int32)
    _find(*places, radius, near)
    return World(*places, means, rates, start, near, np.zeros(customers, np.int64), np.zeros(terminals, np.int64))


class _Days:
    """Payments day by day, from which any number is taken."""

    def __init__(
        self,
        seed: int,
        state: NDArray[np.uint64],
        world: World,
        bad: tuple[int, int],
        one_class: bool,
        blocked: float,
        campaign: int,
    ) -> None:
        self.state, self.world, self.bad, self.one_class, self.blocked = state, world, bad, one_class, blocked
        self.campaign = campaign
        self.delays, self.blocks = seeded(seed + (1 << 40)), seeded(seed + (2 << 40))
        self.day = 0
        self.rest = np.empty((0, len(COLUMNS) + 1))
        self.drawn = np.empty((len(world.means) * MOST_A_DAY, len(COLUMNS) + 1))

    def fill(self, x: Floats, y: Floats) -> None:
        """Write the next payments into `x` and `y`."""
        done = 0
        while done < len(x):
            while not len(self.rest):
                self._next()
            part, self.rest = np.split(self.rest, [min(len(self.rest), len(x) - done)])
            x[done : done + len(part)], y[done : done + len(part)] = part[:, :-1], part[:, -1]
            done += len(part)

    def _begin(self, bad: tuple[int, int]) -> None:
        """Whoever is compromised when a campaign begins."""
        of = (self.world.terminal_until, TERMINAL_DAYS), (self.world.customer_until, CUSTOMER_DAYS)
        for n, (until, days) in zip(bad, of, strict=True):
            until[:] = 0
            for last in range(self.day + 1, self.day + days):
                _compromise(self.state, n, until, last)

    def _next(self) -> None:
        world, bad, limit, factor = self.world, self.bad, LIMIT, FACTOR
        if self.campaign:
            kind, limit = self.day // self.campaign % 3, np.inf
            bad = ((0, bad[1]), (bad[0], 0), (0, bad[1]))[kind]
            factor = SMALL if kind == 2 else FACTOR
            if self.day % self.campaign == 0:
                self._begin(bad)
        n = _pay(
            self.state, self.day, *bad, limit, factor, world.means, world.rates, world.start, world.near,
            world.customer_until, world.terminal_until, self.drawn,
        )  # fmt: skip
        self.rest = self.drawn[:n][np.argsort(self.drawn[:n, 0], kind="stable")]
        _label(self.delays, self.one_class, self.rest)
        _block(self.blocks, self.blocked, self.rest)
        self.day += 1


@kernel
def _settle(state, customers, terminals, means, rates):
    """Write places, mean amounts and rates; mutates the random state too."""
    for places in (customers, terminals):
        for i in range(len(places)):
            places[i, 0] = SIDE * uniform(state)
            places[i, 1] = SIDE * uniform(state)
    for i in range(len(means)):
        means[i] = 5.0 + 95.0 * uniform(state)
        rates[i] = MOST_RATE * uniform(state)


@kernel
def _is_near(customers, i, terminals, j, radius):
    """Whether terminal j is within reach of customer i."""
    a, b = customers[i, 0] - terminals[j, 0], customers[i, 1] - terminals[j, 1]
    return a * a + b * b < radius * radius


@kernel
def _count(customers, terminals, radius, start):
    """Write where the terminals of each customer begin; how many there are of all."""
    n = 0
    for i in range(len(customers)):
        start[i] = n
        for j in range(len(terminals)):
            n += _is_near(customers, i, terminals, j, radius)
    start[len(customers)] = n
    return n


@kernel
def _find(customers, terminals, radius, near):
    """Write the terminals of each customer."""
    n = 0
    for i in range(len(customers)):
        for j in range(len(terminals)):
            if _is_near(customers, i, terminals, j, radius):
                near[n] = j
                n += 1


@kernel
def _compromise(state, n, until, last):
    """Draw n that are compromised until the day `last`, each once; mutates the random state and `until`."""
    drawn = 0
    while drawn < min(n, len(until)):
        i = below(state, len(until))
        if until[i] != last:
            until[i] = last
            drawn += 1


@kernel
def _pay(
    state, day, bad_terminals, bad_customers, limit, factor,
    means, rates, start, near, customer_until, terminal_until, out,
):  # fmt: skip
    """Write the payments of a day, customer by customer; how many. Mutates the random state and who is compromised."""
    _compromise(state, bad_terminals, terminal_until, day + TERMINAL_DAYS)
    _compromise(state, bad_customers, customer_until, day + CUSTOMER_DAYS)
    n = 0
    for i in range(len(means)):
        # A Poisson number for the highest rate, of which each is kept by the customer's own.
        product, possible = uniform(state), 0
        while product > NONE_A_DAY and possible < MOST_A_DAY:
            product *= uniform(state)
            possible += 1
        for _ in range(possible):
            if MOST_RATE * uniform(state) >= rates[i]:
                continue
            second = np.floor(DAY / 2.0 + 20_000.0 * normal(state))
            amount = means[i] + means[i] / 2.0 * normal(state)
            if amount < 0.0:
                amount = 2.0 * means[i] * uniform(state)
            pick = below(state, max(1, start[i + 1] - start[i]))
            taken = uniform(state) < 1.0 / 3.0
            if not 0.0 < second < DAY or start[i] == start[i + 1]:
                continue
            terminal = near[start[i] + pick]
            amount = np.round(amount * 100.0) / 100.0
            fraud = amount > limit or day < terminal_until[terminal]
            if day < customer_until[i] and taken:
                fraud = True
                amount = np.round(amount * factor * 100.0) / 100.0
            out[n, 0] = BEGIN + DAY * day + second
            out[n, 1] = i
            out[n, 2] = terminal
            out[n, 3] = amount
            out[n, 5] = 1.0 if fraud else 0.0
            n += 1
    return n


@kernel
def _label(state, one_class, rows):
    """Write when each label comes, and take away those that never do; mutates the random state too."""
    for i in range(len(rows)):
        days = 7.0
        if one_class:
            if rows[i, 5] == 0.0:
                rows[i, 4] = np.nan
                rows[i, 5] = np.nan
                continue
            days = 60.0
            while days >= 60.0:
                days = 1.0 - 15.0 * np.log(1.0 - uniform(state))
        rows[i, 4] = rows[i, 0] + np.floor(days * DAY)


@kernel
def _block(state, share, rows):
    """Take away the labels of a share of the rows, and write their own time; mutates the random state too."""
    for i in range(len(rows)):
        if uniform(state) < share:
            rows[i, 4] = rows[i, 0]
            rows[i, 5] = np.nan
