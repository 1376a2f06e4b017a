"""The sections of a stream file, a module each: begin with `base`, what sections are made of.

`outputs` has `predictions`, `metrics` and `checkpoint`; `record` also `topics`, `label` and `features`; `keys` features
over a key's past; `models` the `champion` and `challengers`.
"""
