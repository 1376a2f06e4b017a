"""The live page: a process of its own that reads a stream's outputs from Kafka and shows them in a browser."""
