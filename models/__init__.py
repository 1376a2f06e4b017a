"""Learners and their kernels: numpy and numba only, nothing that knows Kafka.

Read contract.py first: what every learner is. registry.py has them by name; a family of learners is a folder
(hoeffding, ensemble, gradient, ...), each learner a file of its name. drift/ has detectors, observers/ what leaves
count, kernels/ the decorator and the compiled code's cache, streams/ synthetic streams; evaluation/, predictions/ and
explanation/ are what is computed from any learner's predictions, restoring.py checks a state that is read.
"""
