"""Commands before a stream runs: begin with `check`.

`init`, `check`, `models`: a stream file; `deploy`, `dashboard`: what a cluster and its monitoring are given.
`reasons_price`: what `predictions.reasons` cost, for `check`.
"""
