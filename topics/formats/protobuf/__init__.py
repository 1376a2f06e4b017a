"""Protobuf with a schema registry: begin with `codec`.

- `proto_text`: the text of a .proto file as a descriptor; `types`: the messages of a schema.
- `reader`: what takes the mapped fields from a message.
- `predictions`: records of predictions, written and read.
"""
