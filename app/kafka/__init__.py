"""Access to Kafka: begin with `connection`, where every client is made.

- `connection`, `client/`: clients, and their settings, tokens and sockets.
- `reading`: partitions read to their present end; `wire_format/`: fetched batches read and written by kernels.
- `command_client`: sends a command to a running stream.
- `sending`, `bundles`: predictions and all else that the owner of a partition sends, by a producer that can be fenced.
- `admin`, `topics/`: requests about topics and groups, and what they have to be.
- `access/`: the rights that a command needs, and why a broker refuses.
- `local_broker/`: Kafka on this machine.
"""
