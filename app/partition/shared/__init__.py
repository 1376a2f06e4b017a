"""Models that all partitions of a stream learn (`learning: shared`): begin with `shared_lineup`, fed by the one log.

`sharing`: a partition's side of them; `replica`: one for several partitions of a worker.
"""
