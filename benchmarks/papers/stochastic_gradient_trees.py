"""Gouk, Pfahringer and Frank 2019: tables 1 to 4, and figures 1 and 2 as tables.

None of the paper's eight streams is available here: streams that are available stand beside its numbers, in tables of
the same form.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.data import absent, generate, load, path_of, shuffled
from benchmarks.papers.frame import ABSENT, Options, Paper, Run, Section, run, spread
from benchmarks.tables import Table
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.table import read_table
from riparian.app.evaluation.folds import cross_validate
from riparian.models.contract import Schema
from riparian.models.streams.generators import friedman

SGT = "stochastic-gradient-tree"
Learners = dict[str, tuple[str, dict[str, Any]]]
OURS: Learners = {
    "SGT (`preset: paper`)": (SGT, {"preset": "paper"}),
    "SGT (paper, lambda on the mean)": (SGT, {"preset": "paper", "penalty_on": "mean"}),
    "SGT (default)": (SGT, {}),
}
CLASSIFIERS: Learners = {
    **OURS,
    "VFDT": ("hoeffding-tree", {}),
    "EFDT": ("extremely-fast-decision-tree", {}),
}
REGRESSORS: Learners = {**OURS, "FIMT-DD": ("fimt-dd", {}), "ORTO": ("orto", {})}
BAGS: Learners = {
    "SGT (`preset: paper`)": (SGT, {"preset": "paper"}),
    "SGT (default)": (SGT, {}),
    "QDDI": ("quick-diverse-density", {}),
    "MITI (published rule)": ("miti", {"split_criterion": "max-bepp", "size_exponent": 1.0}),
    "MITI (default)": ("miti", {}),
}

# Features, instances, classes.
ATTRIBUTES = {
    "higgs": (27, 11_000_000, 2),
    "hepmass": (27, 10_500_000, 2),
    "kdd99": (41, 4_898_430, 40),
    "covertype": (55, 581_012, 7),
    "aws-prices": (7, 27_410_309, None),
    "airline": (13, 5_810_462, None),
    "zurich": (13, 5_465_575, None),
    "msd-year": (90, 515_345, None),
}


class Published(NamedTuple):
    """Of a learner, on the data sets of a table: error in % or MAE, nodes, seconds."""

    error: tuple[float, ...]
    nodes: tuple[float, ...]
    seconds: tuple[float, ...]


CLASSIFICATION = ("higgs", "hepmass", "kdd99", "covertype")
TABLE_2 = {
    "SGT": Published((30.10, 14.66, 0.27, 26.94), (1933.2, 1289.0, 446.3, 620.8), (384.13, 290.46, 466.26, 32.56)),
    "VFDT": Published((30.25, 14.81, 0.73, 32.54), (8081.4, 7256.0, 160.0, 91.8), (115.68, 108.11, 33.15, 3.04)),
    "EFDT": Published((31.46, 15.22, 0.07, 22.05), (38535.1, 24760.2, 913.8, 3261.4), (512.32, 425.49, 97.61, 47.23)),
}
REGRESSION = ("airline", "aws-prices", "zurich", "msd-year")
TABLE_3 = {
    "SGT": Published((20.86, 0.27, 61.59, 7.20), (39287.0, 3316.3, 763.1, 235.8), (22.76, 79.96, 33.18, 58.23)),
    "FIMT-DD": Published(
        (21.14, 0.58, 65.80, 13.52), (30060.4, 165660.6, 21756.2, 2264.4), (22.43, 80.89, 29.71, 70.75)
    ),
    "ORTO": Published((20.41, 0.58, 65.78, 21.76), (33584.8, 177929.0, 23769.0, 2466.8), (50.16, 42.66, 22.16, 37.17)),
}
# SGT, QDDI, MITI.
TABLE_4 = {
    "atoms": (73.36, 69.18, 84.06),
    "bonds": (75.58, 72.43, 81.93),
    "chains": (81.99, 78.22, 88.42),
    "component": (91.92, 88.08, 89.49),
    "elephant": (77.00, 81.00, 76.50),
    "fox": (55.00, 58.50, 60.00),
    "function": (95.75, 92.35, 94.85),
    "musk1": (82.22, 77.00, 82.56),
    "musk2": (71.64, 75.64, 74.64),
    "process": (96.42, 94.19, 96.17),
    "tiger": (77.00, 69.00, 76.00),
    "thioredoxin": (87.08, 88.58, 80.87),
}
BAGS_PUBLISHED = "WEKA's collection of multi-instance data"
ONCE = "musk2"  # its cross-validations take minutes: one, as in the paper
SHARES = (0.02, 0.1, 0.25, 0.5, 1.0)  # of a stream, where a figure's curves are read


def attributes(options: Options) -> Section:
    rows = []
    for name, (d, n, k) in ATTRIBUTES.items():
        here = "at hand" if path_of(name, options.data) else absent(name)
        rows.append((name, str(d), f"{n:,}", str(k or ABSENT), here))
    return Section("Table 1: the data sets", "", ("", "features", "instances", "classes", "here"), rows)


def published(title: str, names: tuple[str, ...], table: Mapping[str, Published], options: Options) -> Section:
    rows = [
        (f"{learner}: {what}", *(f"{value:,}" for value in values))
        for learner, found in table.items()
        for what, values in zip(("error", "nodes", "seconds"), found, strict=True)
    ]
    missing = [name for name in names if path_of(name, options.data) is None]
    rows.append(("ours", *(absent(name) if name in missing else "in the next table" for name in names)))
    return Section(title, "The paper's: means of ten shuffles.", ("", *names), rows)


Source = Callable[[int], Table]  # of a seed


def files(names: tuple[str, ...], options: Options) -> dict[str, Source]:
    """Those that are in the folder, in an order of the seed, `longest` rows at most."""

    def source(table: Table) -> Source:
        def at(seed: int) -> Table:
            mixed = shuffled(table, seed)
            return mixed._replace(x=mixed.x[: options.longest], y=mixed.y[: options.longest])

        return at

    loaded = {name: load(name, options.data) for name in names}
    return {name: source(table) for name, table in loaded.items() if table is not None}


def friedman_of(seed: int, longest: int) -> Table:
    made = friedman.source(seed).take(longest)
    return Table(Schema((0,) * made.x.shape[1], 1, "regression"), made.x, made.y)


def streams(learners: Learners, sources: Mapping[str, Source], options: Options) -> dict[str, dict[str, list[Run]]]:
    """Learner -> stream -> runs."""
    found: dict[str, dict[str, list[Run]]] = {label: {name: [] for name in sources} for label in learners}
    for name, source in sources.items():
        for seed in range(1, options.seeds + 1):
            table = source(seed)
            for label, (model, parameters) in learners.items():
                found[label][name].append(run(model, table, seed, **parameters))
    return found


def error(one: Run) -> float:
    """In %, or the mean absolute error."""
    return one.mae if np.isnan(one.accuracy) else 100.0 - one.accuracy


def measured(title: str, text: str, found: Mapping[str, Mapping[str, list[Run]]]) -> Section:
    names = list(next(iter(found.values())))
    kinds: dict[str, tuple[Callable[[Run], float], int]] = {
        "error": (error, 2),
        "nodes": (lambda one: one.n_nodes, 0),
        "seconds": (lambda one: one.seconds, 2),
    }
    rows = [
        (f"{label}: {kind}", *(spread([of(one) for one in found[label][name]], digits) for name in names))
        for label in found
        for kind, (of, digits) in kinds.items()
    ]
    return Section(title, text, ("", *names), rows)


def curves(title: str, found: Mapping[str, Mapping[str, list[Run]]]) -> Section:
    rows = []
    for name in next(iter(found.values())):
        for label, by_name in found.items():
            runs = by_name[name]
            at = [max(round(share * len(runs[0].n)), 1) - 1 for share in SHARES]
            values = [[one.score[i] if np.isnan(one.accuracy) else 100.0 - one.score[i] for one in runs] for i in at]
            rows.append((name, label, *(spread(value) for value in values)))
    text = (
        "Error so far (%, or mean absolute error) after shares of the stream. The paper has pictures without numbers."
    )
    return Section(title, text, ("", "", *(f"{share:.0%}" for share in SHARES)), rows)


def bags(options: Options) -> Section:
    rows = []
    for name, theirs in TABLE_4.items():
        path = path_of(f"mil_{name}", options.data)
        cells = [f"not at hand ({BAGS_PUBLISHED})"] + [ABSENT] * (len(BAGS) - 1)
        if path is not None:
            table = read_table(DataFile(path), bag="bag", target="label")
            n = 1 if name == ONCE else options.seeds
            cells = [
                spread([100.0 * cross_validate(table, m, p, 10, seed=s)["accuracy"] for s in range(n)], 1)
                for m, p in BAGS.values()
            ]
        rows.append((name, *(f"{value:.2f}" for value in theirs), *cells))
    text = f"""Accuracy in %, ten folds: first the paper's, one cross-validation each, then ours over repeats ({ONCE}:
one). The text does not say how many passes its trees make over a training set; ours make 300."""
    return Section("Table 4: bags of instances", text, ("", "SGT", "QDDI", "MITI", *(f"our {n}" for n in BAGS)), rows)


def make(options: Options) -> Iterator[Section]:
    longest = options.longest
    yield attributes(options)
    yield published("Table 2: classification error in %, size and time", CLASSIFICATION, TABLE_2, options)
    at_hand = ("elec", "weather", "pendigits", "nursery", "splice")
    sources = files((*CLASSIFICATION, *at_hand), options)
    sources["agrawal"] = lambda seed: generate("AGR_p", seed, longest)
    sources["hyperplane"] = lambda seed: generate("HYP .0001", seed, longest)
    found = streams(CLASSIFIERS, sources, options)
    note = f"""Of the data at hand, in random order, and of generated streams of {longest:,} instances.
Learners other than SGT are at our defaults. Seconds are those of kernels that predict and learn."""
    yield measured("Table 2, on the data at hand", note, found)
    yield curves("Figure 1: learning curves of classification", found)
    yield published("Table 3: mean absolute error, size and time", REGRESSION, TABLE_3, options)
    sources = files((*REGRESSION, "fried", "abalone"), options)
    sources["friedman, generated"] = lambda seed: friedman_of(seed, longest)
    found = streams(REGRESSORS, sources, options)
    yield measured("Table 3, on the data at hand", note, found)
    yield curves("Figure 2: learning curves of regression", found)
    yield bags(options)


PAPER = Paper(
    "stochastic_gradient_trees",
    "H. Gouk, B. Pfahringer and E. Frank: Stochastic gradient trees. ACML 2019",
    make,
)
