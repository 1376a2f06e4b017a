"""One model of all partitions: begin with `training_log`, which partitions append to and read.

`replica`: the worker's copy of the models; `model_lag`: how far it is behind a partition.
"""
