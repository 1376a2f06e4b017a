"""Streaming decision trees and forests: CART that goes on growing with each mini-batch of labels.

Learners, each in the file of its name: `streaming-decision-tree` and `streaming-decision-forest`. Read
streaming_decision_forest.py first, then false_roots.py, its kernels.
"""
