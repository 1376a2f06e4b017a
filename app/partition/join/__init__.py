"""Features wait for labels, and labels for features: begin with `pending`, whose `join` finds the row of each label.

- `joining`: its kernel, and what that is made of: `waiting`, `gaps`, `maturity`, `remembering`, `series`, `counts`.
- `waiting_index`, `ids`: what waits, by id and in order of arrival; `ragged`: rows of bags.
- `segments`: how checkpoints store what waits; `joined_ids`: ids that were learned; `room`: bytes that each takes.
- `meeting`: whether features and labels meet at all.
"""
