"""The passes of an instance through soft trees.

Read forward.py first: gates, nodes, their sum. backward.py: gradients, and a step of Adam; inputs.py: the gradient by
the input.
"""
