"""What every format makes of the outputs of a model: the likeliest class of each row, which scores are alerts, and
where nothing is known."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.topics.names import CHAMPION
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Floats

# Of a record: below what Kafka takes by default, 1 MB, with the key and beside others in a batch.
MAX_BYTES = 800_000


def opinions(
    out: Floats,
    values: Sequence[Any],
    shares: Callable[[Floats], Iterable[Any]] | None,
    nothing: Any,
    unasked: Any,
    decided: Floats | None = None,
) -> tuple[Iterable[Any], Iterable[Any]]:
    """The y and the p of each row, in the form of a format.

    Parameters
    ----------
    out : (n, m) ndarray of float64
        Of a model of classes. There is room for classes to come.
    values : sequence
        The k classes that are known, in their form.
    shares : callable, optional
        (n, k) probabilities -> the p of each row. None where they are not asked for: then each p is `unasked`.
    nothing : y and p of a row about which the model knows nothing.
    decided : (n,) codes of the classes that y names; NaN for the likeliest.
    """
    out = out[:, : len(values)]
    if out.shape[1] == 0:
        return repeat(nothing), repeat(unasked if shares is None else nothing)
    y = list(map(values.__getitem__, named(out, decided).tolist()))
    p = repeat(unasked) if shares is None else shares(out)
    unknown = (np.maximum.reduce(out, axis=1) <= 0.0).nonzero()[0].tolist()
    if unknown:
        for i in unknown:
            y[i] = nothing
        if shares is not None:
            p = list(p)
            for i in unknown:
                p[i] = nothing
    return y, p


def named(out: Floats, decided: Floats | None) -> NDArray[np.int64]:
    """The codes of what y names: of the likeliest class of each row, the first one of equals, where `decided` does not
    say another."""
    best: NDArray[np.int64] = out.argmax(axis=1)
    if decided is None:
        return best
    return np.where((decided >= 0.0) & (decided < out.shape[1]), decided, best).astype(np.int64)


def alerts(out: Floats, decided: Floats | None) -> list[bool | None]:
    """Whether each score is an alert; None where nothing is known or decided. decided : (n,) 1, 0 or NaN."""
    if decided is None:
        return [None] * len(out)
    known = ~(np.isnan(out[:, 0]) | np.isnan(decided))
    return [bool(one) if there else None for one, there in zip(decided == 1.0, known, strict=True)]


def besides(given: PredictionColumns, values: Sequence[Any]) -> dict[str, Any]:
    """What predictions say besides y and p, as far as it is asked for: field -> a value of each; None for none, NaN of
    the ends of an interval. values : as in `members`."""
    found: dict[str, Any] = {}
    if given.regions is not None and given.classes is None:
        found = dict(zip(("lower", "upper"), given.regions.T, strict=True))
    elif given.regions is not None:
        found["set"] = [held or None for held in members(given.regions, values)]
    if given.reasons is not None:
        found["reasons"] = given.reasons
    if given.has_alerts:
        found["alert"] = alerts(given.p, (given.decided or {})[CHAMPION])
    if given.features is not None:
        found["features"] = given.features
    return found


def plain(values: Any) -> Any:
    """A NumPy array as Python's numbers, which encoders want; a sequence as it is."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def members(regions: Floats, values: Sequence[Any]) -> list[list[Any]]:
    """The classes in the set of each row, in their form; none where there is no set. regions : (n, m), 1 for a class
    that is in it. values : of the k classes that are known."""
    return [list(compress(values, row)) for row in regions[:, : len(values)].tolist()]
