"""Which fault comes when: a function of the seed alone.

Kinds are dealt from a shuffled deck, so that each comes about equally often, and a short schedule has no kind twice.
A fault that lasts (a worker that is stopped, a broker that is away) may still last when the next begins.
"""

import heapq
import random
from collections.abc import Sequence
from typing import NamedTuple

KILL = "kill -9, restart"
TERM = "stop, restart"
FREEZE = "freeze, shorter than the session"
FREEZE_LONG = "freeze, until the partitions have moved"
ADD = "add a worker"
REMOVE = "remove a worker"
BROKER_KILL = "broker kill -9, restart"
BROKER_STOP = "broker stop, restart"
DROP = "connections cut"
REFUSE = "connections cut and refused"
STALL = "network stalled, shorter than the session"
STALL_LONG = "network stalled, until the partitions have moved"
KINDS = (KILL, TERM, FREEZE, FREEZE_LONG, ADD, REMOVE, BROKER_KILL, BROKER_STOP, DROP, REFUSE, STALL, STALL_LONG)

BROKER = -1  # stands for the broker where a slot is asked for


class Step(NamedTuple):
    """One thing to do. pause : seconds to wait before it. slot : of the worker, or BROKER. fault : the kind, where one
    begins; None where one ends."""

    pause: float
    action: str
    slot: int
    fault: str | None


def schedule(
    seed: int,
    n_faults: int,
    *,
    session: float = 6.0,
    n_slots: int = 4,
    n_workers: int = 2,
    kinds: Sequence[str] = KINDS,
) -> list[Step]:
    """The steps of a campaign with `n_faults` faults, at the end of which every fault is over.

    Workers live in slots 0 to `n_slots` - 1, the first `n_workers` of which have one when it begins. `session` is their
    session timeout in seconds: faults are clearly shorter or longer than that.
    """
    short, long = (0.3, 0.7 * session), (session + 3, session + 6)
    rng = random.Random(seed)
    up = set(range(n_workers))
    busy = dict.fromkeys([BROKER, *range(n_slots)], 0.0)  # until when a fault lasts there
    todo: list[tuple[float, int, str, int, str | None]] = []
    deck: list[str] = []
    now = 0.0

    def at(time: float, action: str, slot: int, fault: str | None = None) -> None:
        heapq.heappush(todo, (time, len(todo), action, slot, fault))

    def begin(kind: str) -> bool:
        """Enter a fault of this kind into `todo`; False where no worker is fit for it now."""
        free = sorted(slot for slot in up if busy[slot] <= now)
        empty = sorted(slot for slot in range(n_slots) if slot not in up and busy[slot] <= now)
        if kind in (BROKER_KILL, BROKER_STOP):
            if busy[BROKER] > now:
                return False
            length = rng.choice([rng.uniform(0, 1), rng.uniform(1, 5)])
            at(now, "broker kill" if kind == BROKER_KILL else "broker stop", BROKER, kind)
            at(now + length, "broker start", BROKER)
            busy[BROKER] = now + length + 0.1
            return True
        if kind == ADD:
            if not empty:
                return False
            slot = rng.choice(empty)
            up.add(slot)
            at(now, "start", slot, kind)
            return True
        needed = 2 if kind in (REMOVE, FREEZE_LONG, STALL_LONG) else 1
        if len(free) < needed:
            return False
        slot = rng.choice(free)
        if kind == REMOVE:
            up.remove(slot)
            at(now, "stop", slot, kind)
            busy[slot] = now + 1.0
            return True
        first, last, lengths = {
            KILL: ("kill", "start", [(0, 0.5), (1, 4), long]),
            TERM: ("stop", "start", [(0, 0.5), (1, 4)]),
            FREEZE: ("freeze", "thaw", [short]),
            FREEZE_LONG: ("freeze", "thaw", [long]),
            DROP: ("drop", "", [(0, 0)]),
            REFUSE: ("refuse", "heal", [short, long]),
            STALL: ("stall", "heal", [short]),
            STALL_LONG: ("stall", "heal", [long]),
        }[kind]
        length = rng.uniform(*rng.choice(lengths))
        at(now, first, slot, kind)
        if last:
            at(now + length, last, slot)
        busy[slot] = now + length
        return True

    for _ in range(n_faults):
        now += rng.uniform(*rng.choice([(0, 0.6), (1, 3), (1, 4), (4, 8)]))
        if len(deck) < len(kinds):
            deck += rng.sample(list(kinds), len(kinds))
        while (dealt := next((i for i, kind in enumerate(deck) if begin(kind)), None)) is None:
            lasting = [until for until in busy.values() if until > now]
            if not lasting:
                raise ValueError("no fault is possible: more slots or workers are needed")
            now = min(lasting)
        del deck[dealt]
    steps, last = [], 0.0
    for time, _, action, slot, fault in sorted(todo):
        steps.append(Step(round(time - last, 3), action, slot, fault))
        last = time
    return steps
