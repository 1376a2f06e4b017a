"""Avro with a schema registry: begin with `codec`.

- `types`: a schema as types, which pass over bytes within bounds.
- `reader`: the truth about values and reasons, a record at a time.
- `block`, `program`, `kernel`: many records of a schema, read by a kernel.
- `predictions`: records of predictions, written and read.
"""
