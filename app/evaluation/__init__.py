"""Evaluation in memory: prequential runs, sweeps, folds, summaries, curves."""
