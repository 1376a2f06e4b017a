"""The worker: Faust around the learners of its partitions. Begin with `agent`, the way of a record.

- `agent`: what a fetch brought goes to its partitions, which then take their turns.
- `states`: the table of learners, and its changelog; `context`: what all partitions have in common.
- `assignment`: partitions assigned, fenced and given up.
- `task/`: one partition, from its records to predictions, reports and checkpoints.
- `shared/`: the training log, where all partitions learn one model; `repartition/`: topics copied by their ids.
- `exposition/`: metrics, health and the web server; `faust_client/`: the consumer under Faust.
- `host`, `application`: the process, and the Faust application of each stream.
"""
