"""Baselines: what any other learner has to beat.

Learners: `naive-bayes` (naive_bayes.py), `majority-class` (majority_class.py), `last-label` (last_label.py) and `mean`
(mean.py), the shortest example of a learner.
"""
