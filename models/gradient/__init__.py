"""Stochastic gradient trees: trees that learn by gradient and Hessian of a loss.

Learner: `stochastic-gradient-tree` (stochastic_gradient_tree.py; of bags: bag_gradient_tree.py). Read tree.py first:
nodes, what a leaf learns, when it splits; then committee.py, a tree for each class.
"""
