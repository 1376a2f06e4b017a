"""Shrub ensembles: small trees fitted to windows of the newest labels, weighted by gradient steps.

Learner: `shrub-ensemble` (shrub_ensemble.py). Read shrub_ensemble.py first, then shrubs.py, trees and their weights on
one window; cart.py and random_splits.py fit a tree.
"""
