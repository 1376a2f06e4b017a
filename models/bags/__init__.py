"""Learners of bags: many instances that have one label together.

Learners: `miti` (miti.py) and `quick-diverse-density` (quick_diverse_density.py), both fitted to a window of bags. Read
window.py first. `stochastic-gradient-tree` learns bags as well (riparian.models.gradient).
"""
