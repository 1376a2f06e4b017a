"""Topics of a stream in Kafka: begin with `creating`, what Riparian creates.

`topic_warnings`, `keys`: what a worker would suffer from, asked before it runs; `lag`: how far workers are behind.
`partitioner`: where a key goes; `sample`: first and last records.
"""
