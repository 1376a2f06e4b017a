"""Commands about a stream that runs: begin with `control`, which sends a command to its models.

`lag`, `inspect`, `compare`, `explain`: how it is; `deadletters`: its rejected records.
"""
