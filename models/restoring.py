"""A state that is read is looked at before a kernel follows it: one that was torn is a sentence, and no crash.

A state is trusted as far as the topic is that it comes from, or signed. What is looked at is what a fresh state and the
`layout` of its class give: types, shapes, lengths that belong together, and that what leads into an array ends there.
A forged state may pass. `Learner.restore` itself trusts what it is given.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from riparian.models.layout import Column, Paths, StateLayout

State = Mapping[str, NDArray[Any]]
Lengths = dict[str, int]


class DamagedError(ValueError):
    """A state that no learner of this program writes: one sentence."""


def restore(fresh: Any, state: State, name: str | None = None) -> None:
    """Let what knows nothing take over a state of its own kind: a learner, a detector, an evaluation.

    DamagedError, a ValueError of one sentence that begins with `name`, where it is none of theirs.
    """
    with named(str(name or getattr(fresh, "name", "a state"))):
        check(fresh, state)
        fresh.restore(state)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Whatever is wrong with a state is a DamagedError that begins with `name`."""
    try:
        yield
    except KeyError as error:
        raise DamagedError(f"{name}: the state is none that this program writes, {error.args[0]} is missing") from error
    except ValueError as error:  # what a learner itself objects to in its state is one
        raise DamagedError(f"{name}: {error}") from error
    except (TypeError, IndexError, RuntimeError) as error:
        raise DamagedError(f"{name}: the state is none that this program writes ({error})") from error


def check(fresh: Any, state: State) -> None:
    """DamagedError where `fresh` must not be given `state`. A missing array is left to whoever asks for it."""
    layout: StateLayout = getattr(fresh, "layout", StateLayout())
    schema = getattr(fresh, "schema", None)
    known = {"features": schema.n_features, "outputs": schema.n_outputs} if schema else {}
    own = {name: array for name, array in fresh.state()._asdict().items() if not name.startswith(layout.parts)}
    lengths = check_shapes(state, own, layout.rows, known)
    for place, length in layout.counts.items():
        found = _numbers(state, place)
        if found.sum() != lengths[length]:
            _refuse(place, f"counts {found.sum()} {length}, and there are {lengths[length]}")
    for place, below in layout.places.items():
        _within(place, _numbers(state, place), -2, lengths[below] - 1)
    for place, most in layout.bounded.items():
        _within(place, _numbers(state, place), 0, lengths[most])
    for paths in layout.paths:
        _follow(state, paths, lengths)


def check_shapes(
    state: State, like: State, rows: Mapping[str, str] | None = None, known: Mapping[str, int] | None = None
) -> Lengths:
    """Of those arrays that are there: types and shapes are as in `like`, or as `rows` (see StateLayout) has it.

    known : lengths by name. Returns these and those that were found.
    """
    lengths = dict(known or {})
    axes = {name: names.split() for arrays, names in (rows or {}).items() for name in arrays.split()}
    for name, fresh in like.items():
        array = state.get(name)
        if array is None:
            continue
        if array.dtype != fresh.dtype:
            _refuse(name, f"has numbers of type {array.dtype}, not {fresh.dtype}")
        names = [*axes.get(name, []), *["="] * fresh.ndim][: fresh.ndim]
        wanted = [n if axis[0] == "=" else lengths.get(axis, -1) for axis, n in zip(names, fresh.shape, strict=True)]
        if array.ndim != fresh.ndim or any(n not in (-1, m) for n, m in zip(wanted, array.shape, strict=True)):
            expected = ", ".join("any" if n < 0 else str(n) for n in wanted)
            _refuse(name, f"has shape {array.shape}, not ({expected})")
        lengths |= {axis.lstrip("="): n for axis, n in zip(names, array.shape, strict=True) if axis not in "=*"}
    return lengths


def _follow(state: State, paths: Paths, lengths: Lengths) -> None:
    """Whoever goes down a tree stays in its rows, and comes to an end. O(nodes)."""
    tested = _numbers(state, paths.test)
    at = np.nonzero(tested >= 0)
    depth = np.broadcast_to(np.arange(tested.shape[-1]), tested.shape)
    if paths.depth is not None:
        depth = _numbers(state, paths.depth)
    for place in paths.children:
        child = _numbers(state, place)
        _go_down(place, depth, at, child[at].astype(np.int64), paths.pairs)
    if paths.leaves:
        _within(paths.children[0], _numbers(state, paths.children[0])[tested < 0], -2, lengths[paths.leaves] - 1)
    if paths.mapped:
        first, number, name = paths.mapped
        start, size, children = (_numbers(state, place).astype(np.int64) for place in (first, number, name))
        here = np.flatnonzero((tested >= 0) & (size != 0))
        _within(number, np.append(size[here], size[here].sum()), 0, len(children))
        _within(first, np.append(start[here], start[here] + size[here]), 0, len(children))
        owners = np.repeat(here, size[here])
        ends = np.cumsum(size[here])
        places = np.arange(len(owners)) + np.repeat(start[here] - ends + size[here], size[here])
        _go_down(name, depth, (owners,), children[places].astype(np.int64), False)


def _go_down(
    place: Column, depth: NDArray[Any], at: tuple[NDArray[Any], ...], to: NDArray[np.int64], pairs: bool
) -> None:
    _within(place, to, -1, depth.shape[-1] - 1 - pairs)
    there = to >= 0
    owners = tuple(axis[there] for axis in at)
    for child in (to[there], to[there] + 1)[: 1 + pairs]:
        if not (depth[(*owners[:-1], child)] > depth[owners]).all():
            _refuse(place, "leads to a node that is not below")


def _numbers(state: State, place: Column) -> NDArray[Any]:
    if callable(place):
        return place(state)
    return state[place] if isinstance(place, str) else state[place[0]][..., place[1]]


def _within(place: Column, values: NDArray[Any], low: int, high: int) -> None:
    wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        _refuse(place, f"has numbers outside {low} .. {high}, {values[wrong].flat[0]}")


def _refuse(place: Column, what: str) -> NoReturn:
    name = place if isinstance(place, str) else place[0] if isinstance(place, tuple) else "what follows from it"
    raise DamagedError(f"the state is none that this program writes, {name} {what}")
