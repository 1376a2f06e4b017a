"""Evaluation in memory: begin with `evaluate`, a prequential run by the code of the worker.

- `experiment`, `setup`: one call of `riparian evaluate`; `course`: one model over the rows.
- `sweep`, `pool`, `folds`, `whole`: grids on all cores, cross-validation, a whole stream file.
- `measures/`: what is measured; `figures/`: summaries, curves and pictures of it.
"""
