"""JSON: begin with `codec`, which reads records and finds reasons.

- `layout`: the typed decoder of what is mapped. `envelopes`: rows in the JSON of Debezium, Connect and CloudEvents.
- `block`, `program`, `kernel`, `number`: many records that are alike, read by a kernel.
- `predictions`: records of predictions; `writing`, `shortest`: many of them, written by a kernel.
"""
