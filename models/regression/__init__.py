"""Regression trees on a stream.

Learners, each in the file of its name: `fimt-dd`, `hoeffding-regression-tree` and `orto`. Read fimt_dd.py first;
base.py has what all have in common, leaf.py what a leaf keeps and predicts. subspace_tree.py is the member of forests.
"""
