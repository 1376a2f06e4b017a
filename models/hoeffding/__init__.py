"""Hoeffding trees for classification: a leaf splits once a bound shows that the best test is best.

Learners, each in the file of its name: `hoeffding-tree`, `hoeffding-adaptive-tree`, `extremely-fast-decision-tree`.
Read hoeffding_tree.py first, then loop.py, its kernel over a program, and splitting/split.py. The last two stand on
mutable_tree.py, whose nodes come and go; adaptation/ is of the adaptive one. subspace_tree.py is the member of forests.
"""
