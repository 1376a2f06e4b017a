"""The data of the papers' tables: streams that are generated here, and files, with the place where each is published.

A file takes part when it is in the folder of `--data` as NAME.csv.gz or NAME.csv: a header, the target in the last
column, an empty cell or `?` where a value is missing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tables import Table, read
from riparian.models.contract import Schema
from riparian.models.streams.registry import ConceptDrift, open_source

UCI = "UCI Machine Learning Repository"
OPENML = "OpenML"
LIBSVM = "LIBSVM data sets"


class File(NamedTuple):
    """A data set in a file. nominal : features that are categories though they look like numbers; published : where."""

    published: str
    task: str = "classification"
    nominal: tuple[str, ...] = ()


FILES: dict[str, File] = {
    # Buschjäger, Hess and Morik 2022
    "gas-sensor": File(f"{UCI}, Gas sensor array drift"),
    "weather": File("NOAA, by Elwell and Polikar 2011"),
    "nomao": File(f"{UCI}, Nomao"),
    "elec": File(f"{OPENML}, electricity", nominal=("day",)),
    "airlines": File(f"{OPENML}, airlines"),
    "covertype": File(f"{UCI}, Covertype"),
    # Gouk, Pfahringer and Frank 2019
    "higgs": File(f"{UCI}, HIGGS"),
    "hepmass": File(f"{UCI}, HEPMASS"),
    "kdd99": File(f"{UCI}, KDD Cup 1999"),
    "aws-prices": File("Kaggle, AWS spot pricing market", "regression"),
    "airline": File("American Statistical Association, Data Expo 2009", "regression"),
    "zurich": File("Kaggle, Zurich public transport delays", "regression"),
    "msd-year": File(f"{UCI}, YearPredictionMSD", "regression"),
    # Köbschall, Hartung and Kramer 2024
    "poker": File(f"{UCI}, Poker hand"),
    "epsilon": File(f"{LIBSVM}, epsilon"),
    # Xu et al. 2021
    "splice": File(f"{OPENML}, splice"),
    "pendigits": File(f"{OPENML}, pendigits"),
    "cifar-10": File("University of Toronto, CIFAR-10"),
    # used beside them
    "nursery": File(f"{UCI}, Nursery", nominal=("children",)),
    "fried": File(f"{OPENML}, fried", "regression"),
    "abalone": File(f"{UCI}, Abalone", "regression"),
}


def path_of(name: str, folder: Path) -> Path | None:
    """The file of a data set in the folder, None where it is not there."""
    paths = (folder / f"{name}{ending}" for ending in (".csv.gz", ".csv"))
    return next((path for path in paths if path.exists()), None)


def load(name: str, folder: Path) -> Table | None:
    """A data set of `FILES`, in file order; None where its file is not in the folder."""
    path = path_of(name, folder)
    return None if path is None else read(path, FILES[name].nominal, FILES[name].task)


def absent(name: str) -> str:
    """What stands in a table in the place of our number."""
    return f"not at hand ({FILES[name].published})"


def shuffled(table: Table, seed: int) -> Table:
    """The rows in another order."""
    order = np.random.default_rng(seed).permutation(len(table.y))
    return Table(table.schema, np.ascontiguousarray(table.x[order]), np.ascontiguousarray(table.y[order]))


class Stream(NamedTuple):
    """A generated stream. n : the paper's length, to which the drifts belong: a shorter one has them at the same
    shares of its length. drifts(n) : of a stream of n instances."""

    source: str
    n: int
    parameters: dict[str, Any]
    drifts: Callable[[int], list[ConceptDrift]] = lambda n: []


def changes(key: str, values: tuple[int, ...], width_share: float = 0.0) -> Callable[[int], list[ConceptDrift]]:
    """Drifts at equal distances to the values after the first, over a share of the stream's length each."""

    def at(n: int) -> list[ConceptDrift]:
        width = int(width_share * n)
        return [ConceptDrift(i * n // len(values), width, {key: value}) for i, value in enumerate(values) if i]

    return at


# Agrawal's functions count from 0 here, from 1 in the papers.
STREAMS: dict[str, Stream] = {
    # Shrub ensembles, appendix, table 1: the streams of Gomes et al. 2017, with three drifts, abrupt or over 50,000
    # instances; LED swaps more segments with coins at each; the clouds of rbf_f move by .001, of rbf_m by .0001.
    "agrawal_a": Stream("agrawal", 10**6, {"function": 0}, changes("function", (0, 2, 3, 6))),
    "agrawal_g": Stream("agrawal", 10**6, {"function": 0}, changes("function", (0, 2, 3, 6), 0.05)),
    "led_a": Stream("led", 10**6, {"n_swapped": 1}, changes("n_swapped", (1, 3, 5, 7))),
    "led_g": Stream("led", 10**6, {"n_swapped": 1}, changes("n_swapped", (1, 3, 5, 7), 0.05)),
    "rbf_f": Stream("random-rbf", 10**6, {"n_classes": 5, "speed": 1e-3}),
    "rbf_m": Stream("random-rbf", 10**6, {"n_classes": 5, "speed": 1e-4}),
    # Soft Hoeffding trees, table 1, whose text does not say where the drifts are; its code has none in SEA(50), and ten
    # contexts in AGR_a.
    "SEA(50)": Stream("sea", 10**6, {"noise": 0.0}),
    "SEA(5e5)": Stream("sea", 10**6, {"noise": 0.0}, changes("function", (0, 1))),
    "HYP .0001": Stream("hyperplane", 10**7, {"n_drift": 10, "speed": 1e-4}),
    "HYP .001": Stream("hyperplane", 10**7, {"n_drift": 10, "speed": 1e-3}),
    "RBF .0001": Stream("random-rbf", 10**7, {"n_classes": 5, "speed": 1e-4}),
    "RBF .001": Stream("random-rbf", 10**7, {"n_classes": 5, "speed": 1e-3}),
    "AGR_a": Stream("agrawal", 10**7, {"perturbation": 0.0}, changes("function", tuple(range(10)))),
    "AGR_p": Stream("agrawal", 10**7, {"perturbation": 0.2}),
}


def generate(name: str, seed: int, longest: int) -> Table:
    """A stream of `STREAMS`, of the paper's length or `longest`."""
    stream = STREAMS[name]
    n = min(stream.n, longest)
    made = open_source(stream.source, seed, stream.parameters, stream.drifts(n)).take(n)
    return Table(Schema(made.n_values, made.n_classes, "classification"), made.x, made.y)
