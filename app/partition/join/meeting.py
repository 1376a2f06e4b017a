"""Whether features and labels meet, and what keeps them apart: of counts, and of samples. Pure."""

from collections.abc import Callable, Collection
from difflib import get_close_matches

from riparian.topics.formats.common.json_text import plain

LEAST = 1000  # instances, and labels, to judge by
SHARE = 0.75  # share of ids that meet; with two partitions, half meet by chance
NONE = 0.01

Counts = tuple[int, int, int]  # instances, labels, joined


def joined_share(counts: Counts) -> float | None:
    """The share that was joined of the rarer kind; None before enough has come to say."""
    instances, labels, joined = counts
    rarer = min(instances, labels)
    return None if rarer < LEAST else joined / rarer


def few(counts: Counts) -> bool | None:
    """Whether few of what came were joined."""
    share = joined_share(counts)
    return None if share is None else share < SHARE


def none(counts: Counts) -> bool | None:
    """Whether nothing of what came was joined, or next to nothing: the first labels of another time may be."""
    share = joined_share(counts)
    return None if share is None else share < NONE


def shown(text: str) -> str:
    """An id in a sentence: strangers wrote it."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:60])


def _number(text: str) -> str:
    try:
        return str(int(float(text))) if len(text) < 16 and float(text).is_integer() else text
    except (ValueError, OverflowError):
        return text


WAYS: dict[str, Callable[[str], str]] = {
    "for spaces around them": str.strip,
    "for quotes or other JSON around them": plain,
    "for upper and lower case": str.casefold,
    "for how the number is written": _number,
    "for hyphens": lambda text: text.replace("-", "").replace("_", ""),
    "for several ways of writing": lambda text: _number(plain(text.strip()).strip()).casefold().replace("-", ""),
}


def _behind_prefix(ids: Collection[str]) -> dict[str, str]:
    """Id without what all begin with -> id; no part of a number is cut off."""
    first, last = min(ids), max(ids)
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    prefix = first[:n].rstrip("0123456789")
    return {one[len(prefix) :]: one for one in ids}


def written_otherwise(features: Collection[str], labels: Collection[str]) -> tuple[str, str, str] | None:
    """In what ids differ that would be equal else, and one of each side."""
    for what, way in WAYS.items():
        ours, theirs = ({way(one): one for one in ids} for ids in (features, labels))
        if both := ours.keys() & theirs.keys():
            return what, ours[min(both)], theirs[min(both)]
    ours, theirs = _behind_prefix(features), _behind_prefix(labels)
    if both := ours.keys() & theirs.keys():
        return "for what they begin with", ours[min(both)], theirs[min(both)]
    return None


def absent(name: str, n: int, there: Collection[str], so: str) -> str:
    """A sentence about a field that no record has. there : names of those that stand where it would. so : what comes
    of it."""
    last = name.rpartition(".")[2]
    same = [one for one in there if one.casefold() == last.casefold()]
    near = same or get_close_matches(last, sorted(there)[:1000], 1)
    meant = f" (did you mean {shown(near[0])}?)" if near else ""
    return f"{name} is in none of the {n:,} records looked at{meant}: {so}"
