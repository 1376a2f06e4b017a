"""Faust's consumer as a worker needs it: begin with `transport`, which hands whole batches to the agent.

- `backpressure`: which partitions are not fetched; `end_offsets`: where topics ended.
- `membership`: static membership.
- `access`, `topic_watch`: why a worker cannot connect any more, and topics that are deleted or grow.
"""
