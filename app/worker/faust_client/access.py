"""Says why, where a running worker cannot connect to Kafka any more: a password that was changed, a certificate that
has expired. The client says only that it cannot connect, and tries again; so does the worker, as access may be mended.
"""

import logging
from typing import Any

from aiokafka.errors import InvalidSessionTimeoutError

from riparian.app.errors import BrokerError
from riparian.app.kafka.access.refusal import refusal
from riparian.app.kafka.connection import Connection

log = logging.getLogger(__name__)


def out_of_group(error: BaseException, session_timeout: float) -> BrokerError | None:
    """What a person can mend of an error that keeps a client out of its group: the client waits until somebody reads
    records, and Faust does not before it has partitions. session_timeout : seconds that it asks for."""
    if not isinstance(error, InvalidSessionTimeoutError):
        return None
    return BrokerError(
        f"--session-timeout: Kafka refuses {session_timeout:g} seconds: give what its settings "
        "group.min.session.timeout.ms and group.max.session.timeout.ms allow, by default 6 or more"
    )


class Access:
    """Watches the connections of a client."""

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
