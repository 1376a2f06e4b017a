"""Xu, Dey, Panda and Vogelstein 2021: table 1, and figure 1 as tables, but for its curves of wall time. Runs are those
of `benchmarks.forests`."""

from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks.forests import TRAINING, measure, numbers_of
from benchmarks.papers.data import FILES, absent, load, path_of
from benchmarks.papers.frame import ABSENT, Options, Paper, Section, spread
from riparian.app.evaluation.figures.curves import Line

POINTS = 5
SETS = {"splice, ordinal": "splice", "splice, nominal": "splice", "pendigits": "pendigits", "cifar-10": "cifar-10"}
# Features, classes, training and test samples.
ATTRIBUTES = {"splice": (60, 3, 2392, 798), "pendigits": (16, 10, 7494, 3498), "cifar-10": (3072, 10, 50_000, 10_000)}
# What the text says of figure 1, which has no numbers: data set, the claim, the learner that is ahead, the other.
CLAIMS = (
    ("splice, ordinal", "RF achieves the highest accuracy", "random forest", "SDF"),
    ("splice, ordinal", "SDF performs as good as or better than DT", "SDF", "decision tree"),
    ("splice, ordinal", "HT has the lowest accuracy: below MF", "Mondrian forest, as in its paper", "Hoeffding tree"),
    ("splice, ordinal", "MF only surpasses HT: below SDT", "SDT", "Mondrian forest, as in its paper"),
    ("pendigits", "RF achieves the highest accuracy", "random forest", "SDF"),
    ("pendigits", "SDF performs as good as or better than DT", "SDF", "decision tree"),
    ("pendigits", "MF performs as good as RF", "Mondrian forest, as in its paper", "random forest"),
    ("pendigits", "SDF is above HT, which fluctuates", "SDF", "Hoeffding tree"),
    ("cifar-10", "SDF is above HT", "SDF", "Hoeffding tree"),
    ("cifar-10", "RF achieves the highest accuracy", "random forest", "SDF"),
)


def attributes(options: Options) -> Section:
    rows = []
    for name, theirs in ATTRIBUTES.items():
        table = load(name, options.data)
        ours = [absent(name)] + [ABSENT] * 3
        if table is not None:
            n = len(table.y)
            training = TRAINING.get(name, 3 * n // 4)
            ours = [f"{v:,}" for v in (table.x.shape[1], len(np.unique(table.y)), training, n - training)]
        cells = (f"{a:,} / {b}" for a, b in zip(theirs, ours, strict=True))
        rows.append((name, *cells))
    head = ("paper's / ours", "features", "classes", "training samples", "test samples")
    return Section("Table 1: the data sets", "", head, rows)


def at(line: Line, point: int) -> str:
    return spread([100.0 * run["curves"]["accuracy"][point] for run in line.runs])


def accuracy(name: str, lines: Mapping[str, Line]) -> Section:
    learned = [f"{n:,} samples" for n in next(iter(lines.values())).runs[0]["curves"]["n"]]
    rows = [(label, *(at(line, point) for point in range(POINTS))) for label, line in lines.items()]
    text = """Accuracy on the test set, %, by training samples, learned in batches of 100. The paper has curves and no
numbers. "SDF" and "SDT" are its own form (100 trees, no window), "as the reference" what its code does,
"window 1,000" is ours. Mondrian forests and Hoeffding trees are ours, where the paper has scikit-garden's
and River's; random forest and decision tree are scikit-learn's at its defaults."""
    return Section(f"Figure 1, upper row: {name}", text, ("", *learned), rows)


def claims(found: Mapping[str, Mapping[str, Line]]) -> Section:
    rows = []
    for name, said, ahead, behind in CLAIMS:
        if name not in found:
            rows.append((name, said, ABSENT, absent(SETS[name])))
            continue
        values = [
            np.array([100.0 * run["curves"]["accuracy"][-1] for run in found[name][label].runs])
            for label in (ahead, behind)
        ]
        rows.append((name, said, f"{ahead} less {behind}", spread(list(values[0] - values[1]))))
    text = "What the text says of the figure, and our difference after all samples, in points, over the same shuffles."
    return Section("Figure 1: what the paper reads off it", text, ("", "paper", "difference", "ours"), rows)


def make(options: Options) -> Iterator[Section]:
    yield attributes(options)
    found: dict[str, dict[str, Line]] = {}
    for name, file in SETS.items():
        table, path = load(file, options.data), path_of(file, options.data)
        if table is None or path is None:
            continue
        numbers = numbers_of(name, table, path)
        found[name] = measure(name, table, numbers, options.seeds, POINTS)
        yield accuracy(name, found[name])
    missing = [f"- {name}: {FILES[file].published}" for name, file in SETS.items() if name not in found]
    if missing:
        text = "Not at hand, measured as pendigits once the file is there (training rows first):\n\n" + "\n".join(
            missing
        )
        yield Section("Figure 1, upper row: what is left out", text, (), ())
    yield claims(found)


PAPER = Paper(
    "streaming_forests",
    "H. Xu, J. Dey, S. Panda and J. T. Vogelstein: Streaming decision trees and forests. arXiv:2110.08483, 2021",
    make,
)
