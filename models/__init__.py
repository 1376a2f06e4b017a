"""Learners and their kernels: numpy and numba only, nothing that knows Kafka."""
