"""Access to Kafka: connections, reading and writing, requests about topics and groups, and a local broker."""
