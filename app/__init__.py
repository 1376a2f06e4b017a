"""The application: everything that knows Kafka, Faust, asyncio or Prometheus."""

__version__ = "0.1.0"
