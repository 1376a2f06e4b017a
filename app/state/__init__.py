"""The state of a partition: divided into chunks, kept in the changelog, read back, checked and transferred."""
