"""How the Hoeffding adaptive tree follows drift.

Read alternates.py first: the alternate trees. error_window.py: ADWIN over the errors of a node.
"""
