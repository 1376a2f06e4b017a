"""Soft trees: an instance goes both ways at a node, by weights that are learned by gradients.

Learners, each in the file of its name: `soft-hoeffding-tree`, `soft-tree`, and `model-pool`, which runs several sizes
of them. Read base.py first, then forest.py, the arrays of all, and passes/, forward and backward.
"""
