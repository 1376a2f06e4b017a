"""Learners that score how unusual an instance is, without labels.

Learners, each in the file of its name: `half-space-trees` and `online-isolation-forest`. Read half_space_trees.py
first.
"""
