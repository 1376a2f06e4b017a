"""Pools of opinions: learners of several kinds run beside each other, and weights learn whom to believe.

Learner: `opinion-pool` (learner.py); `auto` is one that fits a budget (riparian.models.auto). Read learner.py first,
then pooling.py, its kernels.
"""
