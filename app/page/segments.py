"""What the page says of quality by the value of a feature (`metrics.segments`): what each value adds to a fall, and
which one surely broke. Pure."""

from collections.abc import Iterator
from typing import Any

from riparian.app.evaluation.measures.by_value import TITLES, by_value, tables
from riparian.app.page.view import StreamView
from riparian.app.partition.predictions.by_segment import loss_of
from riparian.topics.names import CHAMPION
from riparian.topics.records import SegmentFigures

MOST_NAMED = 3


def _known(view: StreamView, partition: int | None) -> Iterator[SegmentFigures]:
    return (one for record in view.of_role(CHAMPION, partition) for one in record.segments)


def by_feature(view: StreamView, partition: int | None = None) -> list[dict[str, Any]]:
    """As `tables`, of the champion."""
    return tables(view.spec, _known(view, partition))


def broken(view: StreamView) -> tuple[str, int] | None:
    """A sentence that names the values which are surely worse, and since when, ms; None where there are none."""
    worse = [
        max((one for one in known if one.since), key=lambda one: one.rise)
        for values in by_value(_known(view, None)).values()
        for known in values.values()
        if any(one.since for one in known)
    ]
    if not worse:
        return None
    worse.sort(key=lambda one: -one.rise)
    title, names = TITLES.get(loss_of(view.spec)), []
    for one in worse[:MOST_NAMED]:
        name = f"{one.feature} {one.shown}"
        if title is not None:
            name += f", from {100 * (1 - one.usual):.0f} to {100 * (1 - one.usual - one.rise):.0f} %"
        names.append(name)
    more = f"; and {len(worse) - MOST_NAMED} more" if len(worse) > MOST_NAMED else ""
    what = "The loss rose" if title is None else f"{title} fell"
    return f"{what} for {'; '.join(names)}{more}.", min(one.since for one in worse)
