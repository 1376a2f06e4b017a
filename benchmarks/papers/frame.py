"""What the papers' modules share: one run of a learner over a data set, and tables for their pages."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import write
from benchmarks.tables import Table, test_then_train
from riparian.models.contract import Floats
from riparian.models.evaluation.auroc import areas, mean
from riparian.models.memory import live_bytes
from riparian.models.registry import create

POINTS = 50  # of a run: where its size is looked at, and where a curve has its points
ABSENT = "-"


class Options(NamedTuple):
    """What the command line says.

    data : the folder of data sets. seeds : repetitions, seeds 1, 2, …. longest : instances, at most, of a stream.
    """

    data: Path
    seeds: int
    longest: int


class Run(NamedTuple):
    """Test-then-train of one learner with immediate labels.

    Classification: accuracy and running_accuracy (the mean over the stream of the accuracy so far) in %, cross_entropy
    in nats (a prediction that is all zero counts as the uniform one, and as wrong), auroc (two classes, or the mean
    over the classes of one against the rest; NaN with one class). Regression: mae, over the targets that were
    predicted. What the task lacks is NaN.
    n_nodes : at the end. mean_bytes, most_bytes : of the learner's arrays in memory (models.memory), at the `POINTS`.
    seconds : CPU time of the thread that predicts and learns. n : (POINTS,) instances seen; score, nodes, sizes :
    (POINTS,) accuracy so far in %, or MAE so far, nodes, and bytes in memory.
    """

    accuracy: float
    running_accuracy: float
    cross_entropy: float
    auroc: float
    mae: float
    n_nodes: int
    mean_bytes: float
    most_bytes: int
    seconds: float
    n: Floats
    score: Floats
    nodes: Floats
    sizes: Floats


def run(model: str, table: Table, seed: int = 0, **parameters: Any) -> Run:
    """Predict each row, then learn it. model : a name of the registry."""
    learner = create(model, table.schema, seed=seed, **parameters)
    learner.warm_up()
    n, k = len(table.y), table.schema.n_outputs
    out = np.zeros((n, k))
    program = test_then_train(table.y)
    ends = np.unique(np.linspace(0, n, min(POINTS, n) + 1).astype(int)[1:])
    seconds, start, nodes, sizes = 0.0, 0, [], []
    for end in ends:
        began = time.thread_time()
        learner.run(program.part(2 * start, 2 * end), table.x, out)
        seconds += time.thread_time() - began
        nodes.append(learner.size()["n_nodes"])
        sizes.append(live_bytes(learner))
        start = int(end)
    about = (int(nodes[-1]), float(np.mean(sizes)), int(max(sizes)), seconds, ends.astype(float))
    curves = (np.array(nodes, float), np.array(sizes, float))
    if table.schema.task == "regression":
        off = np.abs(out[:, 0] - table.y)
        known = ~np.isnan(off)
        so_far = np.cumsum(np.where(known, off, 0.0)) / np.maximum(np.cumsum(known), 1)
        return Run(np.nan, np.nan, np.nan, np.nan, float(so_far[-1]), *about, so_far[ends - 1], *curves)
    known = out.max(axis=1) > 0.0
    codes = table.y.astype(int)
    p = np.where(known, out[np.arange(n), codes], 1.0 / k)
    so_far = 100.0 * np.cumsum((out.argmax(axis=1) == codes) & known) / np.arange(1, n + 1)
    loss = float(-np.log(np.clip(p, 1e-15, 1.0)).mean())
    return Run(
        float(so_far[-1]), float(so_far.mean()), loss, auroc(out, codes), np.nan, *about, so_far[ends - 1], *curves
    )


def auroc(out: Floats, codes: NDArray[np.int64]) -> float:
    """out : (n, k) probabilities. codes : (n,) classes. Of two classes, or the mean of one against the rest."""
    found = mean(areas(codes, out, np.ones(len(codes))))
    return float("nan") if found is None else found


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard error of the seeds, as `86.54 ± 0.12`; one value has no error."""
    found = np.array([v for v in values if not np.isnan(v)])
    if not len(found):
        return ABSENT
    mean = f"{found.mean():.{digits}f}"
    return mean if len(found) < 2 else f"{mean} ± {found.std(ddof=1) / np.sqrt(len(found)):.{digits}f}"


class Section(NamedTuple):
    """A table or figure of a paper, beside ours.

    title : as "Table 2: classification error, %". text : what was done differently, in sentences. head, rows : cells
    as Markdown; a picture goes into `text` as a link. Every row of the paper's table is there, with a reason where
    it has no number of ours.
    """

    title: str
    text: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self, table: str = "") -> str:
        """table : the mark of a page that is filled with the table, in its place."""
        lines = [f"## {self.title}", "", self.text.strip(), ""]
        if self.head and table:
            lines += [f"<!-- figures: {table} -->", "<!-- end -->", ""]
        elif self.head:
            lines += [_line(self.head), "|---" * len(self.head) + "|", *map(_line, self.rows), ""]
        return "\n".join(lines)


class Paper(NamedTuple):
    """A paper. name : of its module. reference : authors, title, place, year. make : its tables, as they are ready."""

    name: str
    reference: str
    make: Callable[[Options], Iterable[Section]]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def page(paper: Paper, options: Options, say: Callable[[str], None]) -> str:
    """The paper's page in Markdown, to be filled by `python -m docs` from what this writes to benchmarks/results/.
    say : hears of each table when it is there."""
    name, tables = f"papers-{paper.name.replace('_', '-')}", []
    parts = ["---\nkind: evidence\n---", "", f"# {paper.reference}", ""]
    for found in paper.make(options):
        say(found.markdown())
        tables += [{"heads": found.head, "rows": found.rows}] if found.head else []
        parts.append(found.markdown(f"{name}#{len(tables)}"))
    write(name, {"tables": tables})
    return "\n".join([*parts, f"<!-- figures: {name}#run -->", "<!-- end -->", ""])
