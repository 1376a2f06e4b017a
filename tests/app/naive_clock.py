"""Stream time as clock.py defines it, from all records at once: O(n) for each of n records."""

BOUND = 60_000


def reached(base: int, window: list[int]) -> int:
    """Where steps of at most a minute lead from `base`, up the timestamps of `window`."""
    while nearer := [stamp for stamp in window if base < stamp <= base + BOUND]:
        base = max(nearer)
    return base


def naive_times(stamps: list[int]) -> list[int]:
    """A topic's time after each of its records."""
    stamps, times = [0, 0, 0, *(max(0, stamp) for stamp in stamps)], [0]
    for i in range(3, len(stamps)):
        window = stamps[i - 3 : i + 1]
        times.append(reached(max(times[-1], min(window)), window))
    return times[1:]


def naive_effective(stamps: list[int]) -> list[int]:
    """Where each record stands in the order of two topics."""
    stamps, effective = [max(0, stamp) for stamp in stamps], [0]
    for i, stamp in enumerate(stamps):
        window = stamps[i : i + 4]
        base = max(effective[-1], min(window))
        effective.append(max(base, stamp) if stamp <= reached(base, window) else base)
    return effective[1:]
