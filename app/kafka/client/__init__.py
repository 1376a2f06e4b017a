"""What every client of `app/kafka/connection.py` is made with: begin with `sources`, where settings come from.

- `settings`, `sources`, `tokens`: settings under librdkafka's names, and tokens for OAUTHBEARER.
- `wire`, `rebootstrap`, `error_codes`: what is mended in aiokafka's connections.
"""
