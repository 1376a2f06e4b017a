"""What is made of a model's prediction before it is sent, each learned from labels.

conformal.py: intervals and sets of classes; calibration.py: calibrated probabilities; decision.py: the class that is
named, by costs or by a threshold. Read conformal.py first.
"""
