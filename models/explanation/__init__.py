"""Why a model predicts what it does.

shapley.py: what each feature adds to one prediction, of any learner; importance.py: what trees go by in all;
description.py: nodes for people (`Learner.describe`), put together. Read shapley.py first.
"""
