"""What a leaf observes of the features, from which a tree takes its tests and naive Bayes its scores.

Read gaussians.py first: a block of class-conditional statistics. histogram_blocks.py is the other kind of block, on
histogram.py. likelihood.py: naive Bayes as products. Leaves of regression trees have their own (models.regression).
"""
