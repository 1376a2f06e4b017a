"""Shrub ensembles: small trees fitted to windows of the newest labels, weighted by gradient steps.

Learner: `shrub-ensemble` (ensemble.py). Read ensemble.py first, then shrubs.py, trees and their weights on one window;
cart.py and random_splits.py fit a tree.
"""
