"""Ensembles of Hoeffding trees and of regression trees.

Learners: `adaptive-random-forest` (random_forest.py), `streaming-random-patches` (random_patches.py), `online-bagging`
(bagging.py), `leveraging-bagging` (leveraging.py), `smooth-boost` and `online-boosting` (boosting.py). Read members.py
first: members run a whole program each, and vote. adaptation.py watches members for drift.
"""
