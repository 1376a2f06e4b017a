"""Mondrian forests: trees that split at random, whatever the labels are; labels count in their nodes' predictions.

Learner: `mondrian-forest` (mondrian_forest.py). Read tree.py first: how a tree grows with an instance; then weights.py
and smoothing.py, how nodes become a prediction.
"""
