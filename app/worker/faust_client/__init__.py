"""Faust's consumer as a worker needs it: begin with `transport`, which hands whole batches to the agent.

- `input_logs`: what partitions ask about the logs that they read; `backpressure`: which are not fetched.
- `end_offsets`: where topics ended, by the answers to fetches; `fetch_plan`: which partitions a fetch looks at.
- `membership`: static membership.
- `access`, `topic_watch`: why a worker cannot connect any more, and topics that are deleted or grow.
"""
