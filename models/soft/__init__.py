"""Soft trees: an instance goes both ways at a node, by weights that are learned by gradients.

Learners: `soft-hoeffding-tree` (tree.py), `soft-tree` (soft_tree.py), and `model-pool` (pool.py), which runs several
sizes of them. Read base.py first, then forest.py, the arrays of all.
"""
