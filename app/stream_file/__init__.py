"""The stream file: begin with `fields`, what it may say, and `spec`, what it then is.

- `sections/`: one module for each section, such as `join`, `drift` or `record`.
- `strict_yaml`, `durations`, `spec_errors`, `topic_checks`: how it is read, and a sentence for each mistake.
- `lineup`, `columns`, `mapping`: its models, changed features, and where fields stand in records.
- `reference`, `draft`: descriptions of it, and a first one.
"""
