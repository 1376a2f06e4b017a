"""Nearest neighbours: what the labels of the most similar remembered instances say.

Learner: `nearest-neighbours` (nearest_neighbours.py). memory.py holds the rows and finds neighbours among them, and
adaptation.py decides which rows stay.
"""
