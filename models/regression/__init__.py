"""Regression trees on a stream.

Learners: `fimt-dd` (fimt.py), `hoeffding-regression-tree` (hoeffding.py) and `orto` (orto.py). Read fimt.py first;
base.py has what all have in common, leaf.py what a leaf keeps and predicts. subspace_tree.py is the member of forests.
"""
