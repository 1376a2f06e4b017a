"""Measures of a run: begin with `measures`, their names.

`measured` adds to the worker's metrics what would make a state too large; `auroc`, `alerts`: two of these.
"""
