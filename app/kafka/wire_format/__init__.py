"""Record batches of version 2, as Kafka sends and stores them: begin with `record_batches`.

- `record_batches`: keys and values of many records at once, by a kernel, with no object each; `batches`: records one by
one.
- `unpacking`: aiokafka's fetched batches as records; `decompression`: into bounded memory.
- `written_batches`: batches of outputs.
"""
