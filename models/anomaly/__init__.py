"""Learners that score how unusual an instance is, without labels.

Learners: `half-space-trees` (half_space.py) and `online-isolation-forest` (online_isolation.py). Read half_space.py
first.
"""
