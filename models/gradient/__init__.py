"""Stochastic gradient trees: trees that learn by gradient and Hessian of a loss.

Learner: `stochastic-gradient-tree`, of instances (learner.py) and of bags (bag_learner.py). Read tree.py first: nodes,
what a leaf learns, when it splits; then committee.py, a tree for each class.
"""
