"""When and how a leaf of a Hoeffding tree splits.

Read split.py first: a leaf's attempt to split. candidates.py: one test a feature and its merit; bounds.py: whether an
attempt could succeed at all, quickly.
"""
