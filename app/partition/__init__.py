"""One partition is one learner, pure: no Kafka, no asyncio. Begin with `learner`, from a released batch to its outcome.

- `records/`: features and labels in one order; `keys/`: features over a key's past; `join/`: what waits for a label.
- `lineup/`: the models, which learn and are compared, promoted and commanded; `drift/`: how drift is found.
- `predictions/`: what is made of a model's predictions; `shared/`: models that all partitions learn.
- `learning`: whose models they are, chosen once: the partition's own, or those that all partitions learn.
- `state`, `changes`, `arrays`: all of it as arrays, and what a changed stream file does to them.
- `outcome`: what a step gives.
"""
