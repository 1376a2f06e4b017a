"""One partition is one learner: merge, join, predict, learn, watch for drift. Pure: no Kafka, no asyncio."""
