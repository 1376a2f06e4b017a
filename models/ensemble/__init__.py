"""Ensembles of Hoeffding trees and of regression trees.

Learners, each in the file of its name: `adaptive-random-forest`, `streaming-random-patches`, `online-bagging`,
`leveraging-bagging`, `smooth-boost`, `online-boosting`. Read members.py first: members run a whole program each, and
vote. adaptation/ replaces members after drifts; boosting.py is what the last two share.
"""
