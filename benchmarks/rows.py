"""The library row by row, beside River: `predict_proba_one`, then `learn_one`, over the same dicts.

    python -m benchmarks.rows [--n 20000] [--rounds 5]

Both run in this process, in turns. Printed are µs of CPU time a row, the median of the rounds with the least and the
greatest; how many times as fast ours is, of each round; and the accuracy over all rows, which does not vary.

`pip install '.[batch,river]'` installs what it needs.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from river import naive_bayes, tree

from benchmarks.record import printed
from riparian import StreamClassifier, open_stream

STREAMS = ("agrawal", "led", "sea", "waveform")
Row = tuple[dict[str, Any], str]


def rows(name: str, n: int) -> list[Row]:
    """As River's users have them: numbers, and nominal values as texts."""
    source = open_stream(name, seed=1)
    taken = source.take(n)
    texts = [values > 0 for values in taken.n_values]
    return [
        ({f: f"v{v:.0f}" if text else v for f, v, text in zip(source.names, x, texts, strict=True)}, f"c{y:.0f}")
        for x, y in zip(taken.x.tolist(), taken.y.tolist(), strict=True)
    ]


def run(model: Any, given: Sequence[Row]) -> tuple[float, float]:
    """µs of CPU time a row, and accuracy."""
    right, began = 0, time.process_time()
    for x, y in given:
        p = model.predict_proba_one(x)
        right += bool(p) and max(p, key=p.__getitem__) == y
        model.learn_one(x, y)
    return 1e6 * (time.process_time() - began) / len(given), right / len(given)


def spread(found: Sequence[float], digits: int) -> str:
    low, middle, high = min(found), statistics.median(found), max(found)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="The library row by row, beside River.")
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "Hoeffding tree": (lambda: StreamClassifier("hoeffding-tree"), tree.HoeffdingTreeClassifier),
        "naive Bayes": (lambda: StreamClassifier("naive-bayes"), naive_bayes.GaussianNB),
    }
    found = []
    for learner, (ours, theirs) in pairs.items():
        for stream in STREAMS:
            if learner == "naive Bayes" and stream != "waveform":
                continue  # River's takes numbers alone, or nominal values alone
            given = rows(stream, options.n)
            run(ours(), given[:100])  # compiles
            both = [(run(ours(), given), run(theirs(), given)) for _ in range(options.rounds)]
            times = [[one[k][0] for one in both] for k in (0, 1)]
            ratios = [b / a for a, b in zip(*times, strict=True)]
            right = [f"{100 * both[0][k][1]:.1f}" for k in (0, 1)]
            found.append([learner, stream, *(spread(one, 1) for one in times), spread(ratios, 1), ", ".join(right)])
    heads = ["learner", "stream", "ours, µs", "River, µs", "times as fast", "accuracy %: ours, River"]
    for cells in (heads, ["---"] * len(heads), *found):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    with printed("rows"):
        main()
