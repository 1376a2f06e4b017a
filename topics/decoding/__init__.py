"""Values of feature and label records to columns of numbers and codes: begin with `columns`.

What values mean, and which records are rejected, is the same here for every format in `topics/formats/`.

- `columns`: `ColumnDecoder`, with ids, event times, labels and the reasons of rejection.
- `paths`, `envelopes`, `headers`: where a field stands in a record.
- `times`, `text_kernel`: event times, and texts that kernels have found.
"""
