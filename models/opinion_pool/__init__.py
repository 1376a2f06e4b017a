"""Pools of opinions: learners of several kinds run beside each other, and weights learn whom to believe.

Learner: `opinion-pool` (opinion_pool.py); `auto` is one that fits a budget (riparian.models.auto). Read opinion_pool.py
first, then pooling.py, its kernels.
"""
