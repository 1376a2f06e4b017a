"""How members of ensembles follow drift: a background tree grows after a warning, and votes after a drift.

Read watched_trees.py first. windows.py: the two ADWIN windows of a member; watching.py: whose votes count.
"""
