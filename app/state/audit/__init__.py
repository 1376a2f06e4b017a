"""Retained records folded again: begin with `audit`.

`proof`, `drift_proof`: what is compared with what was sent; `backtest`: other models in the recorded order.
`finding`, `moment`: a prediction by its id, and the learner as it was then.
"""
