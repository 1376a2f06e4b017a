"""A first stream file, guessed: `from_file` and `from_topic` (whose `envelopes` may stand around rows).

`fitting` decodes the records by the draft, and changes what would be rejected.
"""
