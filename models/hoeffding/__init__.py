"""Hoeffding trees for classification: a leaf splits once a bound says that the best test is best.

Learners: `hoeffding-tree` (tree.py), `hoeffding-adaptive-tree` (adaptive.py) and `extremely-fast-decision-tree`
(efdt.py). Read tree.py first, then loop.py, its kernel over a program, and growth.py, how a leaf grows. The last two
stand on mutable_tree.py, whose nodes come and go. subspace_tree.py is the member of forests.
"""
