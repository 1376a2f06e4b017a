"""Results of runs for people: `summary` of repeats, `pareto_front`, `curves`, and the `files` they are written to."""
