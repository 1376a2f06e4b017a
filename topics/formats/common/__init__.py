"""What all formats lean on, and none of them: begin with `slots`, what a stream maps of a record.

- `blocks`: records as columns, read one by one or many at once; `cells`: columns of what a kernel has found in bytes.
- `tuples`: records of a registry's formats as tuples; `registered`, `framing`, `schema_text`: schemas and their ids.
- `predictions`, `binary_predictions`: what records say of the outputs of models, and how it is written as bytes.
- `json_text`, `json_rows`: JSON without a mapping, and rows as JSON texts, which every format writes from.
- `varints`: whole numbers of seven bits a byte.
"""
