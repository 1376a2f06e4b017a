"""How often intervals and sets hold the label, over every 5,000 labels, with labels at once and late.

    python -m benchmarks.intervals DATA [--coverage 0.9]

DATA is a folder with elec, weather, pendigits and fried (.csv.gz). Beside them are streams that are generated, two with
drifts. A row: the least and the greatest share of the labels that were held in any 5,000 of them in a row (looked at
every 250 labels), the share over all, and the mean width of the intervals, or number of classes of the sets.
"""

import argparse
from pathlib import Path
from typing import Any

from app.cli.parsing import parse_recipe
from app.evaluation.experiment import Protocol, Rows, prepare
from app.evaluation.sweep import Search, candidates

SPAN, LOOK = 5000, 250
DELAYS = (0, 200, 2000)
FILES = {"elec": "classification", "weather": "classification", "pendigits": "classification", "fried": "regression"}
GENERATED = {
    "agrawal": ("agrawal:function=1", 40_000, ("20000",), ("function=4",)),
    "hyperplane": ("hyperplane", 40_000, (), ()),
    "friedman": ("friedman", 40_000, (), ()),
}
MODELS = {"classification": ["hoeffding-tree", "adaptive-random-forest"], "regression": ["fimt-dd"]}


def rows_of(name: str, folder: Path) -> Rows:
    if name in FILES:
        return Rows(folder / f"{name}.csv.gz", task=FILES[name])
    recipe, n, drifts, concepts = GENERATED[name]
    return Rows(None, parse_recipe(recipe, n, drifts, concepts))


def measure(name: str, folder: Path, delay: int, coverage: float) -> list[dict[str, Any]]:
    rows = rows_of(name, folder)
    task = FILES.get(name, "regression" if name == "friedman" else "classification")
    chosen = candidates([(model, {}) for model in MODELS[task]], {}, {}, Search())
    first = prepare(rows, Protocol(label_delay=delay, jobs=1), chosen)
    points = max(1, first.about["rows"] // LOOK)
    protocol = Protocol(label_delay=delay, window=SPAN, coverage=coverage, points=points, jobs=1)
    return prepare(rows, protocol, chosen).run(lambda n: None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--coverage", type=float, default=0.9)
    given = parser.parse_args()
    print("| data | model | labels late | least % | greatest % | all % | width or size | accuracy %, or MAE |")
    print("|---|---|---|---|---|---|---|---|")
    for name in (*FILES, *GENERATED):
        for delay in DELAYS:
            for result in measure(name, given.data, delay, given.coverage):
                curves = result["curves"]
                told = [
                    c
                    for n, c in zip(curves["n"], curves["coverage"], strict=True)
                    if n >= SPAN + delay and c is not None
                ]
                size = result.get("interval_width", result.get("set_size"))
                quality = f"{result['mae']:.4g}" if "mae" in result else f"{100 * result['accuracy']:.1f}"
                shares = " | ".join(f"{100 * share:.1f}" for share in (min(told), max(told), result["coverage"]))
                print(f"| {name} | {result['model']} | {delay:,} | {shares} | {size:.3g} | {quality} |", flush=True)


if __name__ == "__main__":
    main()
