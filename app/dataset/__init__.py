"""Files and generated streams as rows, instances and records: begin with `files/data`, a CSV file.

- `files/`: sources of rows, of CSV, Parquet or a generator, which all read as a `DataFile`.
- `column`, `spelling`, `dated`: what the texts of a column mean.
- `instances`, `verification_latency`: rows as learners take them; `rows`: as records of a stream.
- `guessing/`: the first stream file for a file or a topic.
"""
