"""JSON with a schema registry: begin with `codec`, which reads the JSON of `topics.formats.json` behind ids of schemas.

- `types`: which types a JSON Schema allows at a path, for the check at the start.
"""
