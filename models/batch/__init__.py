"""Batch learners on a stream: a model of the newest labels is fitted now and again, in another process.

Learners: `cart`, `bagging`, `random-forest`, `adaboost`, `gradient-boosting` and `xgboost` (learners.py). Read
learner.py first: the window, and when a model is exchanged; then fit.py, what is fitted, and process.py, where.
"""
