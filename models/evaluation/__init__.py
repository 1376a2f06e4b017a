"""How good predictions are.

Read prequential.py first: each label scores the prediction that was made before it was learned. auroc.py: AUROC of a
window; comparison.py: which of two models errs less; estimation.py: accuracy before the labels come.
"""
