"""Says why, where a running worker cannot connect to Kafka any more: a password that was changed, a certificate that
has expired. The client says only that it cannot connect, and tries again; so does the worker, as access may be mended.
"""

import logging
from typing import Any

from app.kafka.connection import Connection
from app.kafka.refusal import refusal

log = logging.getLogger(__name__)


class Access:
    """Watches the connections of a client.

    Parameters
    ----------
    connection : Connection
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._said: str | None = None

    async def look(self, consumer: Any) -> None:
        """Now and then. consumer : AIOKafkaConsumer, or None before there is one."""
        if consumer is None or any(link.connected() for link in list(consumer._client._conns.values())):
            if self._said is not None:
                log.warning("connected to Kafka again")
                self._said = None
            return
        said = await refusal(self.connection)
        if said is not None and said != self._said:
            log.error("no access any more: %s The worker tries again until it is let in, and goes on then", said)
            self._said = said
