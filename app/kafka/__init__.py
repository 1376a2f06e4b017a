"""Kafka from outside: what is asked of a broker besides records, and a broker of our own on this machine."""
