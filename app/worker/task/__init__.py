"""One partition, for as long as it is this worker's: begin with `partition_task`.

- `turns`: its turns, its life, drawn, and what of them runs on the event loop.
- `release_gate`, `continuity`: which records may go, and whether none are missing.
- `dead_letters`, `reporter`, `checkpoints`: what a step leaves; `uncommitted_outputs`: what earlier owners sent.
- `join_watchdog`: features and labels that never meet.
"""
