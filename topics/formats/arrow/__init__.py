"""Arrow record batches, a row an instance: begin with `codec`.

- `messages`: what a stream claims, held against its bytes, and its batch.
- `columns`: columns by their paths and types, as values.
- `predictions`: batches of predictions; `rows`: batches of features and labels, for replays.
"""
