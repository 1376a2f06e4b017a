"""The state of a partition: cut into chunks, kept in the changelog, read back, checked and moved."""
