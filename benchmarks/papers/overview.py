"""Iborra and Pons 2021, an overview without figures of its own: its methods, and its claims, measured."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.data import absent, load, shuffled
from benchmarks.papers.frame import ABSENT, Options, Paper, Section, spread
from benchmarks.tables import Table
from riparian.models.batch.learner import NEXT
from riparian.models.contract import Floats
from riparian.models.registry import create

WHOLE = {"refit_every": 1_000_000_000}  # batch learners are fitted once, on all training rows
STREAMING = (
    "hoeffding-tree",
    "fimt-dd",
    "online-bagging",
    "adaptive-random-forest",
    "online-boosting",
    "stochastic-gradient-tree",
)
SETS = ("splice", "abalone")
# Section, method, our learner that is fitted on a whole window, and the one that learns as labels come.
METHODS = (
    ("2", "decision tree (CART, pruned)", "cart", ("hoeffding-tree", "fimt-dd")),
    ("3.1", "bagging", "bagging", ("online-bagging",)),
    ("3.2", "boosting (AdaBoost)", "adaboost", ("online-boosting",)),
    ("4", "random forest", "random-forest", ("adaptive-random-forest",)),
    ("5", "gradient boosting", "gradient-boosting", ("stochastic-gradient-tree",)),
    ("6", "XGBoost", "xgboost", ()),
)
ALPHAS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
TREES = (1, 5, 20, 50)


class Half(NamedTuple):
    """A data set in another order: three quarters to learn, a quarter to test."""

    learned: Table
    test: Table


def parts(table: Table, seed: int) -> Half:
    mixed, n = shuffled(table, seed), 3 * len(table.y) // 4
    return Half(Table(table.schema, mixed.x[:n], mixed.y[:n]), Table(table.schema, mixed.x[n:], mixed.y[n:]))


def fitted(model: str, table: Table, seed: int, **parameters: Any) -> Any:
    """A learner that knows a table; a batch learner by one fit."""
    if model not in STREAMING:
        parameters = {**WHOLE, "window": len(table.y), **parameters}
    learner = create(model, table.schema, seed=seed, **parameters)
    if model not in STREAMING:
        learner.state().labels_at[NEXT] = 1 << 62  # no fit on the way: one is made at the end
    learner.fit(table.x, table.y)
    return learner


def score(learner: Any, table: Table) -> float:
    """Accuracy in %, or mean absolute error."""
    said: Floats = learner.predict_many(table.x)
    if table.schema.task == "regression":
        return float(np.abs(said[:, 0] - table.y).mean())
    return float(100.0 * (said.argmax(axis=1) == table.y).mean())


def methods(options: Options) -> Section:
    tables = {name: load(name, options.data) for name in SETS}
    rows = []
    for section, method, batch, streams in METHODS:
        for kind, model in (("whole", batch), *(("stream", model) for model in streams)):
            cells = []
            for name, table in tables.items():
                if table is None:
                    cells.append(absent(name))
                    continue
                try:
                    cells.append(
                        spread(
                            [
                                score(fitted(model, half.learned, seed), half.test)
                                for seed in range(1, options.seeds + 1)
                                for half in (parts(table, seed),)
                            ]
                        )
                    )
                except ValueError:  # it does not do the task
                    cells.append(ABSENT)
            rows.append((section, method, f"`{model}`", kind, *cells))
    text = """The paper has no measurements. Each of its methods, at our defaults, learns three quarters of a data set
in random order and is tested on the last quarter. It is fitted once ("whole"), or learns row by row
("stream"). Accuracy in %; of abalone the mean absolute error. Dashes: the learner does not do the task."""
    return Section("Sections 2 to 6: the methods", text, ("section", "method", "learner", "", *SETS), rows)


def alphas(options: Options) -> Section:
    table = load("splice", options.data)
    head = ("alpha", "leaves", "training, %", "test, %")
    if table is None:
        return Section("Equation 5: the price of a leaf", absent("splice"), head, ())
    rows = []
    for alpha in (*ALPHAS, None):
        found = []
        for seed in range(1, options.seeds + 1):
            half = parts(table, seed)
            tree = fitted("cart", half.learned, seed, ccp_alpha=alpha)
            found.append((tree.size()["n_leaves"], score(tree, half.learned), score(tree, half.test)))
        name = "chosen by cross-validation" if alpha is None else f"{alpha:g}"
        rows.append(
            (
                name,
                *(spread(column, digits) for column, digits in zip(zip(*found, strict=True), (0, 2, 2), strict=True)),
            )
        )
    text = """The paper: the more leaves, the better a tree fits what it learned, and the less it says of other data;
alpha is found by cross-validation. `cart` on splice, pruned by R(T) + alpha |T|."""
    return Section("Equation 5: the price of a leaf", text, head, rows)


def forests(options: Options) -> Section:
    table = load("splice", options.data)
    head = ("trees", "bagging", "forest, m = p", "forest, m = √p")
    if table is None:
        return Section("Equations 6 to 9: trees of a forest", absent("splice"), head, ())
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("bagging", {}),
        ("random-forest", {"max_features": "all"}),
        ("random-forest", {"max_features": "sqrt"}),
    )
    rows = []
    for n_trees in TREES:
        cells = []
        for model, parameters in kinds:
            found = []
            for seed in range(1, options.seeds + 1):
                half = parts(table, seed)
                found.append(score(fitted(model, half.learned, seed, n_trees=n_trees, **parameters), half.test))
            cells.append(spread(found))
        rows.append((f"{n_trees}", *cells))
    text = """The paper: averaging takes variance away; trees that are less alike leave less of it (m of p features
tried a node); with m = p a forest is bagging. Accuracy on splice, %."""
    return Section("Equations 6 to 9: trees of a forest", text, head, rows)


def halves(options: Options) -> Section:
    table = load("splice", options.data)
    head = ("", "share of test rows, %")
    if table is None:
        return Section("Section 3.1: trees of two halves", absent("splice"), head, ())
    rows = []
    for name, model, parameters in (
        ("one tree", "cart", {"ccp_alpha": 0.0}),
        ("bagging, 50 trees", "bagging", {}),
        ("forest, 50 trees", "random-forest", {}),
    ):
        found = []
        for seed in range(1, options.seeds + 1):
            learned, test = parts(table, seed)
            said = [
                fitted(model, Table(table.schema, learned.x[k::2].copy(), learned.y[k::2].copy()), seed, **parameters)
                .predict_many(test.x)
                .argmax(axis=1)
                for k in range(2)
            ]
            found.append(float(100.0 * (said[0] != said[1]).mean()))
        rows.append((name, spread(found)))
    text = """The paper: trees of two halves of the training data may be quite different. Test rows of splice of
which models of two halves say different classes."""
    return Section("Section 3.1: models of two halves", text, head, rows)


def stumps(options: Options) -> Section:
    table = load("weather", options.data)
    head = ("stumps", "accuracy, %")
    if table is None:
        return Section("Equation 8: boosted stumps", absent("weather"), head, ())
    rows = []
    for n_trees in (1, 10, 50, 200):
        found = [
            score(fitted("adaboost", half.learned, seed, n_trees=n_trees, max_depth=1), half.test)
            for seed in range(1, options.seeds + 1)
            for half in (parts(table, seed),)
        ]
        rows.append((f"{n_trees}", spread(found)))
    text = """The paper: trees of a single split, barely better than guessing, are strong together. `adaboost` on
weather in random order, of which 68.6 % are of one class."""
    return Section("Equation 8: boosted stumps", text, head, rows)


def make(options: Options) -> Iterator[Section]:
    yield methods(options)
    yield alphas(options)
    yield halves(options)
    yield forests(options)
    yield stumps(options)


PAPER = Paper("overview", "P. Iborra and M. Pons: Tree-based methods for data mining. 2021", make)
