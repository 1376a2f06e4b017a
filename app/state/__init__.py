"""The state of a partition: begin with `checkpoint`, chunks and the manifest that names them.

- `log`: what one partition of the changelog holds.
- `changelog`, `loading`, `integrity`: read and checked by plain clients.
- `portable`, `transfer`: exported, imported, rolled back.
- `audit/`: records folded again, and compared with what was sent and stored.
"""
