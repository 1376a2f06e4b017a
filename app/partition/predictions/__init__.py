"""What a partition makes of a model's predictions: begin with `serving`.

`decision_policy`: which class is named; `intervals`, `reasons`: what is written beside; `prediction_columns`: all of
it for a codec.
"""
