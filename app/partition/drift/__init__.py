"""Drift in a partition: begin with `detection`, detectors over errors and values.

`distributions`: features and predictions beside a reference; `events`: numbered records of what was found.
"""
