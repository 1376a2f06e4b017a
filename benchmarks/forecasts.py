"""How far forecasts of a stream's own later values are off: `auto` beside the last value and the mean of all labels.

    python -m benchmarks.forecasts [--data ../shared/data]

Three series as files with a column of times: elec's demand three hours later, of rows each half-hour; the first column
of weather a day later, of rows each day, both without their class; and the temperature of two drawn sensors an hour
later, of rows each 5 minutes with the hour of the day. Mean absolute error over the whole stream, one seed.
"""

import argparse
import gzip
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import printed
from riparian.app.dataset.files.data import DataFile
from riparian.app.evaluation.evaluate import evaluate_all, problem_for
from riparian.app.stream_file.spec import build

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("auto", "last-label", "mean")
START, SENSORS = 1_700_000_000, 40_000  # seconds since 1970; records of both sensors


def of_file(path: Path, minutes: int) -> tuple[list[str], list[list[str]]]:
    """The columns of a public data set but the class, and the time of each row."""
    with gzip.open(path, "rt") as file:
        names, *rows = (line.rstrip("\n").split(",")[:-1] for line in file)
    return ["at", *names], [[str(START + i * minutes * 60), *row] for i, row in enumerate(rows)]


def of_sensors(n: int) -> tuple[list[str], list[list[str]]]:
    """Two sensors with a daily cycle, and a level that wanders."""
    rng, step = np.random.default_rng(0), 5
    rows, level = [], np.zeros(2)
    for i in range(n // 2):
        hour = (i * step / 60.0) % 24.0
        level = 0.995 * level + rng.normal(0.0, 0.15, 2)
        for k, name in enumerate("ab"):
            value = 15.0 + 3.0 * k + 8.0 * np.sin(2.0 * np.pi * (hour - 9.0) / 24.0) + level[k] + rng.normal(0.0, 0.5)
            rows.append([str(START + i * step * 60), name, f"{value:.2f}", f"{hour:.2f}"])
    return ["at", "sensor", "temperature", "hour"], rows


def errors(names: list[str], rows: Iterable[list[str]], of: str, ahead: str, by: str | None) -> list[float]:
    """Of each model."""
    features = {name: "numeric" for name in names if name not in ("at", by)}
    label: dict[str, Any] = {"of": of, "ahead": ahead} | ({} if by is None else {"by": by})
    content = {"name": "series", "task": "regression", "record": {"x": ""}, "label": label, "features": features}
    spec = build(content | {"champion": MODELS[0], "join": {"horizon": "7d"}})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "series.csv"
        path.write_text("\n".join(",".join(row) for row in (names, *rows)) + "\n", encoding="utf-8")
        problem = problem_for(DataFile(path), stream=spec, clock="at")
        specs = [problem.spec(model, {}, 0) for model in MODELS]
        found = evaluate_all(DataFile(path), specs, problem.goal, problem.n, clock="at")
    return [one["mae"] for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    data = parser.parse_args().data
    series = {
        "elec, demand": (*of_file(data / "elec.csv.gz", 30), "nswdemand", "3h", None),
        "weather, first column": (*of_file(data / "weather.csv.gz", 24 * 60), "feat_1", "1d", None),
        "two drawn sensors, temperature": (*of_sensors(SENSORS), "temperature", "1h", "sensor"),
    }
    print("| stream | rows | ahead | `auto` | last value | mean of all labels | `auto`, of the last value's |")
    print("|---|---|---|---|---|---|---|")
    for name, (names, rows, of, ahead, by) in series.items():
        told = errors(names, rows, of, ahead, by)
        cells = [f"{len(rows):,}", ahead, *(f"{value:.3g}" for value in told), f"{told[0] / told[1]:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    with printed("forecasts"):
        main()
