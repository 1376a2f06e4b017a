"""Streaming decision trees and forests: CART that goes on growing with each mini-batch of labels.

Learners: `streaming-decision-tree` and `streaming-decision-forest` (forest.py). Read forest.py first, then
false_roots.py, its kernels.
"""
