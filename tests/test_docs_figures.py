"""Figures that documentation names are those that runs have left: in README, in guides, and in the tables of evidence.

A phrase of a page is made here of the run's figures and has to stand in the page; what no phrase has, and has a unit of
what is measured, has to be among SETTINGS.
"""

import functools
import json
import re
from typing import Any

from docs.__main__ import MARKED, RESULTS
from tests.test_docs import BLOCK, FACED, FRONT, ROOT, front

FIGURE = r"\d[\d,.]*\d|\d"
SPEED = "`auto` (a pool for 100 µs, that is 10,000 instances/s)"  # of the page on speed


@functools.cache
def run(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["figures"]


def rows(name: str, table: int = 0) -> dict[str, dict[str, str]]:
    """A table of a run: the first cell of a row -> the row by its heads."""
    found = run(name)["tables"][table]
    return {row[0]: dict(zip(found["heads"], row, strict=True)) for row in found["rows"]}


def cells(page: str, row: str) -> list[str]:
    """A row of a table in a page of evidence, by its first cell: where runs leave no file, but the page itself."""
    text = (ROOT / "docs" / "evidence" / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", text, re.MULTILINE)
    assert found is not None, f"{page} has no row {row}"
    return [cell.strip() for cell in found[1].split("|")]


def number(cell: str) -> float:
    """What a cell begins with."""
    found = re.search(FIGURE, cell)
    assert found is not None, cell
    return float(found[0].replace(",", ""))


def test_figures_of_the_readme_are_those_of_the_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    # Beside other programs on Kafka.
    peers = run("kafka_peers")["tables"]
    measured = {
        figure for table in peers for row in table["rows"] for cell in row for figure in re.findall(FIGURE, cell)
    }
    shown = re.findall(r"^\| [^|]+ \|( [\d*][^\n]*)\|$", text, re.MULTILINE)
    assert len(shown) == 5
    for row in shown:
        assert {*re.findall(FIGURE, row)} <= measured, row
    # The default model, over the streams on which MOA's best ensemble ran.
    accuracies = {name: cells for name, *cells in run("frontier-0")["tables"][0]["rows"]}
    heads = run("frontier-0")["tables"][0]["heads"][1:-2]  # without mean and rank
    both = [i for i in range(len(heads)) if accuracies["MOA member selection"][i] not in ("", "–")]
    ours, moas = (
        sum(float(accuracies[name][i]) for i in both) / len(both) for name in ("auto", "MOA member selection")
    )
    assert f"{ours:.1f} % accuracy over {len(both)} streams, where MOA's best ensemble has {moas:.1f} %" in text
    # What the demo shows, over its two changes.
    means = run("demo")["means"]

    def mean(model: str, when: str) -> float:
        return sum(means[f"{model}, change {i}"][f"{when}, %"] for i in (1, 2)) / 2

    pool = [mean("opinion-pool", when) for when in ("before", "at", "later")]
    frozen = mean("hoeffding-tree", "later")
    assert "falls from {:.0f} to {:.0f} %, returns to {:.0f} %".format(*pool) in text
    assert f"a frozen tree stays at {frozen:.0f} %" in text
    # Of the quickstart, whose blocks are run as they stand there (tests/broker/test_first_pages.py).
    start = (ROOT / "docs" / "start" / "quickstart.md").read_text(encoding="utf-8")
    pool, last = (
        float(percent) for percent in re.findall(r"^(?:champion|last-label) .*? ([\d.]+)%", start, re.MULTILINE)
    )
    assert f"is right in {pool:.1f} %, the last label in {last:.1f} %" in text
    assert f"about {number(cells('speed', SPEED)[0]):,.0f} records/s on one core" in text


# guides --------------------------------------------------------------------------------------------------------------

# A number with a unit of what is measured.
MEASURED = re.compile(r"(?<![\w.-])\d[\d,.]*(?: to \d[\d,.]*)? ?(?:%|µs|ms|MB|GB|points?|times|cores?\b|records/s|/s)")
# What has such a unit and is a setting, its meaning, or follows from one.
SETTINGS = {
    "build/anomalies": ["alerts of 1 %", "alerts at 1 %", "scores: 100 at 1 %"],
    "build/confidence": [
        "holds the label in 90 % of the cases",
        "A model that is right in 98 % of the cases holds 98 %",
        "a model gives 90 %",
        "2 + 10 (d − 1) times more: [some 70 times the CPU]",
    ],
    "build/drift": ["at most 1 %"],
    "build/keys": ["among 1 % of"],
    "build/late-labels": ["Beyond 64 MB a partition", "22,000 records where 1 % is fraud"],
    "build/promotion": ["a confidence of 95 %"],
    "build/rare-classes": [
        "right 99.8 % of the time",
        "for the 1 % of",
        "counts 20 times",
        "a probability of 2 %",
        "is below 5 %",
        "a payment of 98 is fraud from 2 % on",
        "changes below 2 and above 100 times",
    ],
    "concepts/auto": ["Below 90 µs", "less than 0.5 % of the weight"],
    "concepts/how-it-works": ["beyond 64 MB a partition"],
    "concepts/models": ["within 64 MB and 100 µs a record", "up to 10,000 records/s a core", "about 100 µs a record"],
    "reference/state": ["about 2.75 times what is live", "at most 1 MB"],
    "reference/stream-file": ["`250ms`"],
    "run/runbook": [
        "5 points of the target",
        "over 5 points",
        "5 points below",
        "1.5 times its median",
        "10 points below",
    ],
    "start/fraud": ["names 1 % of", "names the 1 % of", "The 1 % of alerts"],
}
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def held() -> dict[str, list[str]]:
    """Page -> phrases with figures of runs, as the runs have these."""
    light = [float(mean) for mean in re.findall(r"\d\d\.\d\d", run("light")["lines"][0])]
    few = f"{light[0] - light[2]:.1f} points"
    at_once, late = (
        [number(cell) for k in (0, 1) for row in run("intervals")["tables"][k]["rows"] if (cell := row[at]) != "none"]
        for at in (2, 3)
    )
    calibrated = max(
        number(row[5]) for row in run("intervals-calibration")["tables"][0]["rows"] if row[1:3] == ["auto", "0"]
    )
    auto, adaptive = rows("frontier-0")["auto"], cells("accuracy", "hoeffding-adaptive-tree")
    files = ("elec", "weather", "pendigits", "nursery", "splice")
    lost = [float(auto[name]) - number(cell) for name, cell in zip(files, adaptive, strict=False)]
    last, tree = (number(cells("accuracy", name)[0]) for name in ("last-label", "hoeffding-tree"))
    refit = number(cells("accuracy-batch", "random-forest refit_every=2000 lag=500")[0])
    found = {name: float(row["recall at 1 % of alerts"]) for name, row in rows("payments").items()}
    times = round(found["with keys"] / found["the amount alone"])
    live = {(one["partitions"], one[""]): float(one["CPU µs each"]) / 1000.0 for one in run("live")["rows"]}
    each = {name.strip("`"): row for name, row in rows("replica").items()}
    resident = rows("resident")
    tree_mb, pool_mb = (int(resident[name]["MB at most, in a backlog"]) for name in ("Hoeffding tree", "`auto`"))
    more_mb = int(resident["Hoeffding tree, whose kernels it compiles"]["MB when it is ready"]) - int(
        resident["Hoeffding tree"]["MB when it is ready"]
    )

    series = rows("forecasts").values()
    less = [100.0 * (1.0 - number(row["`auto`"]) / number(row["last value"])) for row in series]

    def cores(title: str, learner: str) -> str:
        """Of 10,000 records a second."""
        both = (float(each[learner][name]) / 100.0 for name in ("predicts and learns", "learns the log"))
        return f"| {title} | {' | '.join(f'{one:.2f}' if one < 1 else f'{one:.1f}' for one in both)} |"

    return {
        "build/confidence": [
            f"no 5,000 labels in a row held less than {min(at_once)} % of the 90 asked for",
            f"it was {min(late):.0f} to 89 % where errors come in runs",
            f"calibrated within {calibrated} points on",
        ],
        "build/forecasts": [f"had [{min(less):.0f} to {max(less):.0f} % less error]"],
        "build/keys": [f"found {NUMBERS[times]} times as much fraud"],
        "build/own-models": [f"`random-forest` had [{refit:.0f} %, `auto` {float(auto['elec']):.0f} %]"],
        "build/topics": [f"some {round(number(cells('wire', 'a prediction, p50 and p99')[0]), -1):.0f} ms later"],
        "concepts/auto": [f"lost [{few}]"],
        "concepts/models": [
            f"{few} of accuracy",
            f"{min(lost):.0f} to {max(lost):.0f} points of accuracy on {NUMBERS[len(lost)]} measured files",
            f"right in {last:.0f} % of the cases, a plain Hoeffding tree in {tree:.0f} %",
        ],
        "run/scale": [
            cores("Hoeffding tree", "hoeffding-tree"),
            cores("online bagging, 10 trees", "online-bagging"),
            cores("adaptive random forest, 10 trees", "adaptive-random-forest"),
            cores("opinion pool of its default members", "opinion-pool"),
            f"Add {round(tree_mb, -1)} MB a worker ({round(pool_mb, -1)} MB with `auto` at first)",
            f"keeps {round(more_mb, -1)} MB more",
            "{:.1f} cores over 8 partitions, {:.1f} over 64".format(*(live[n, "worker, one model"] for n in (8, 64))),
        ],
        **tutorial(),
    }


def tutorial() -> dict[str, list[str]]:
    """What the page on fraud shows of its own commands."""
    pool, tree = ("\n".join(lines) for line, lines in run("tutorial")["printed"].items() if " evaluate " in line)
    alone = "\n".join(run("tutorial")["without keys"])
    recalls = [
        [float(cell) for cell in line.split()[2:4]]
        for text in (pool, tree, alone)
        for line in text.splitlines()
        if line.startswith("fraud ")
    ]
    (recall, precision), _, (without, _) = recalls
    accuracy = number(re.findall(r"^accuracy .*", pool, re.MULTILINE)[0].partition(" ")[2])
    page = (ROOT / "docs" / "start" / "fraud.md").read_text(encoding="utf-8")
    for text in (match[3] for match in BLOCK.finditer(page) if re.match(r"fraud  |\d[\d,]* rows", match[3])):
        assert text in f"{pool}\n" or text in f"{tree}\n", text
    return {
        "start/fraud": [
            f"held {100 * recall:.0f} % of the fraud, and {100 * precision:.0f} of 100 alerts were fraud",
            f"the tree finds {100 * without:.0f} %",
            f"of which {run('tutorial')['fraud, %']:.1f} % are fraud",
            f"Accuracy, {accuracy:.1f} %, says nothing",
        ]
    }


def test_figures_of_guides_are_those_of_the_runs() -> None:
    phrases = held()
    for page in FACED:
        if front(page)["kind"] in ("evidence", "contribute"):
            continue
        name = str(page.relative_to(ROOT / "docs").with_suffix(""))
        text = " ".join(MARKED.sub("", BLOCK.sub("", FRONT.sub("", page.read_text(encoding="utf-8")))).split())
        for phrase in phrases.pop(name, []):
            assert phrase in text, f"{name} has no {phrase!r}"
            text = text.replace(phrase, "")
        for phrase in SETTINGS.get(name, []):
            text = text.replace(phrase, "")
        assert [text[max(0, m.start() - 60) : m.end() + 20] for m in MEASURED.finditer(text)] == [], name
    assert not phrases


# evidence ------------------------------------------------------------------------------------------------------------

# Tables with figures that no file in benchmarks/results/ has: how many of a page, and why.
WHOLE = "written whole by its command"
TERMS = "what a setting or a method is, no measurement"
EVALUATE = "`riparian evaluate`, a run for each cell"
KEPT = "runs of several days, kept beside each other by hand"
BY_HAND = {
    "accuracy-batch": (2, WHOLE),
    "papers/shrub-ensembles": (6, WHOLE),
    "papers/soft-hoeffding-trees": (8, WHOLE),
    "papers/stochastic-gradient-trees": (8, WHOLE),
    "frontier": (1, TERMS),
    "index": (1, "answers in short, which lead to the pages"),
    "late-labels": (1, TERMS),
    "threats": (1, "connections that a test makes"),
    "learners/forests": (1, TERMS),
    "learners/gradient-trees": (1, TERMS),
    "learners/shrubs": (1, TERMS),
    "bags": (1, EVALUATE),
    "anomalies": (2, TERMS),
    "recovery": (2, "a row for each campaign; the newest of each kind have files of their own"),
    "scale": (2, KEPT),
    "speed": (2, KEPT),
    "wire": (1, KEPT),
    "learners/ensembles": (1, KEPT),
}


def test_figures_of_evidence_are_filled_from_files() -> None:
    """All tables that have a head and a figure at the beginning of a cell, but those BY_HAND."""
    found = {}
    for page in sorted((ROOT / "docs" / "evidence").rglob("*.md")):
        text = MARKED.sub("", BLOCK.sub("", page.read_text(encoding="utf-8")))
        tables = [match[0].splitlines() for match in re.finditer(r"(?:^\|.*\n)+", text, re.MULTILINE)]
        n = sum(
            bool(re.search(r"\w", head) and re.search(r"\| [*−+<>~-]*\d", "\n".join(rows))) for head, _, *rows in tables
        )
        if n:
            found[str(page.relative_to(ROOT / "docs" / "evidence").with_suffix(""))] = n
    assert found == {page: n for page, (n, _) in BY_HAND.items()}
