"""Records: their types, their formats and their names in Kafka; nothing that knows Kafka clients or learners.

Begin with `codecs`, the protocol of a format. `records` has the types that stand between topics and learners.

- `formats/`: one folder a format, which reads the bytes of records as values and writes predictions.
- `decoding/`: values of any format to columns, with the reason where a record is rejected.
- `prediction_columns`: what a codec is given to write.
- `commands`, `reports`, `training_log`: records of Riparian's own, of one form in every stream.
- `names`: topics, headers and roles; `places`: offsets of instances; `schemas`: those of a registry.
- `slices`, `vocabulary`: many texts as one buffer, and as codes.
"""
