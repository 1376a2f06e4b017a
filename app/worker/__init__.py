"""The worker: Faust around the learners of its partitions, from assignment to revocation, and its metrics."""
