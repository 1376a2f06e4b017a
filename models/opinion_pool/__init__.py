"""Pools of opinions: learners of several kinds, and weights that say whom to believe."""
