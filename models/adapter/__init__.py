"""Models of other libraries as learners.

Learner: `external` (external.py): models of River, and of scikit-learn with `partial_fit`. Read external.py first;
imported.py finds the class, signature.py guards its pickles.
"""
