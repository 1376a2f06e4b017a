"""Measure the papers, and write their figures and their pages of docs/evidence/papers/; see the package."""

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.papers import frame

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "shrub_ensembles",
    "soft_hoeffding_trees",
    "stochastic_gradient_trees",
    "streaming_forests",
    "overview",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__.splitlines()[0])
    parser.add_argument("papers", nargs="*", default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)} (all)")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the folder of data sets")
    parser.add_argument("--seeds", type=int, default=3, help="repetitions")
    parser.add_argument("--longest", type=int, default=1_000_000, help="instances of a generated stream, at most")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/evidence/papers", help="folder")
    options = parser.parse_args()
    unknown = sorted(set(options.papers) - set(NAMES))
    if unknown:
        parser.error(f"unknown paper {unknown[0]!r}: use {', '.join(NAMES)}")
    for name in options.papers:
        paper: frame.Paper = importlib.import_module(f"benchmarks.papers.{name}").PAPER
        print(f"\n# {paper.reference}\n", flush=True)
        given = frame.Options(options.data, options.seeds, options.longest)
        text = frame.page(paper, given, lambda table: print(table, flush=True))
        (options.out / f"{name.replace('_', '-')}.md").write_text(text)
    print(f"written to {options.out}: `python -m docs` fills the tables", file=sys.stderr)


if __name__ == "__main__":
    main()
