"""The way to Kafka: the one place where clients are made, for every command.

A command turns its options --broker and --kafka-config into a `Connection` when it starts; everything below is given
that object, and no other module names a broker or makes a client of its own (tests/test_layers.py). What every client
has to know to be let in, a certificate or a password, comes from app/kafka/client/settings.py by `Connection._settings`
and `Connection.faust`, and from nowhere else.

The client library is imported when the first client is made: a command that asks nothing of Kafka does not wait for it.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riparian.app.errors import BrokerError
from riparian.app.kafka.client import error_codes, rebootstrap

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer as Consumer
    from aiokafka import AIOKafkaProducer as Producer
    from aiokafka.admin import AIOKafkaAdminClient as Admin

    from riparian.app.kafka.client.settings import Settings

    __all__ = ["Admin", "Connection", "Consumer", "Producer"]

MAX_BATCH_BYTES = 900_000  # largest batch, bytes, below the broker's default limit of 1 MB
MAX_REQUEST_BYTES = 4_000_000
DEFAULT = "127.0.0.1:9092"


def _no_secret(record: logging.LogRecord) -> bool:
    """Keeps the client's debug lines of what it sends to be let in, which hold the password, out of the log."""
    return "SaslAuthenticate" not in record.getMessage()


@cache
def _read_passwords_anew() -> None:
    """A client keeps the password that it was made with for as long as it runs: give each of its connections the one
    that holds now. All that the client library opens goes through this one function."""
    import aiokafka.client
    from aiokafka.conn import create_conn

    from riparian.app.kafka.client.settings import FreshPassword

    async def create(*addresses: Any, sasl_plain_password: str | None = None, **settings: Any) -> Any:
        if isinstance(sasl_plain_password, FreshPassword):
            sasl_plain_password = await asyncio.to_thread(sasl_plain_password.now)
        return await create_conn(*addresses, sasl_plain_password=sasl_plain_password, **settings)

    aiokafka.client.create_conn = create


def _create_nothing() -> None:
    """A broker makes a topic that a client asks for where its auto.create.topics.enable is true, as by default: one
    that was deleted would be there again, with the broker's settings. The client library never says not to."""
    from aiokafka.protocol.metadata import MetadataRequest

    build = MetadataRequest.build

    def without(self: Any, request_struct_class: Any) -> Any:
        self._allow_auto_topic_creation = False
        return build(self, request_struct_class)

    MetadataRequest.build = without


@cache
def _change_clients() -> None:
    """All clients of this process, once: they ask for brokers again, create no topics by asking for them, copy records
    less often, and read any batch."""
    from aiokafka.client import AIOKafkaClient

    from riparian.app.kafka.client import wire
    from riparian.app.kafka.wire_format import unpacking

    rebootstrap.install(AIOKafkaClient)
    error_codes.learn()
    _create_nothing()
    wire.install()
    unpacking.install()


@dataclass(frozen=True)
class Connection:
    """How a Kafka cluster is reached. `str()` of it is for sentences and logs, and holds no secret.

    Parameters
    ----------
    bootstrap_servers : str
        HOST:PORT, or several separated by commas.
    settings : Settings, optional
        How the cluster lets its clients in. None for plaintext.
    config : Path, optional
        The properties file that they came from, for another process.

    Raises
    ------
    BrokerError
        `bootstrap_servers` is not HOST:PORT.
    """

    bootstrap_servers: str
    settings: "Settings | None" = None
    config: Path | None = None

    @classmethod
    def of(
        cls,
        broker: str | None,
        config: Path | None,
        environment: Mapping[str, str],
        section: Mapping[str, str] | None = None,
        *,
        file_first: bool = False,
    ) -> "Connection":
        """The connection of a command's options, environment and stream file.

        broker : HOST:PORT of --broker, which is stronger than all else. The rest as in `app.kafka.client.sources.read`,
        which says what is raised.
        """
        settings = None
        if section or config is not None or any(name.startswith("RIPARIAN_KAFKA_") for name in environment):
            from riparian.app.kafka.client.sources import (
                read,  # a command that asks for nothing of it does not wait for pydantic
            )

            settings = read(config, environment, section, file_first=file_first)
        servers = settings.servers if settings is not None else environment.get("RIPARIAN_BROKER")
        return cls(broker or servers or DEFAULT, settings, config)

    def __post_init__(self) -> None:
        for part in self.bootstrap_servers.split(","):
            host, _, port = part.strip().rpartition(":")
            if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) < 65536:
                raise BrokerError(
                    f"Expected --broker as HOST:PORT (or bootstrap.servers; several: separated by commas), found "
                    f'"{part.strip()}": write, for example, 127.0.0.1:9092.'
                )

    def __str__(self) -> str:
        return self.bootstrap_servers

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each bootstrap server."""
        split = [host.rpartition(":") for host in self._hosts]
        return [(host.strip("[]"), int(port)) for host, _, port in split]

    @property
    def _hosts(self) -> list[str]:
        return [part.strip() for part in self.bootstrap_servers.split(",")]

    @property
    def rack(self) -> str | None:
        """Where this client is, so that consumers read from replicas that are near."""
        return None if self.settings is None else self.settings.rack

    @property
    def instance_id(self) -> str | None:
        """Of a worker: the name of its place in the consumer group; None where it has none for good."""
        return None if self.settings is None else self.settings.instance_id

    def with_instance(self, instance_id: str | None) -> "Connection":
        """A copy of this connection for a worker of another instance id."""
        if instance_id == self.instance_id:
            return self
        from riparian.app.kafka.client.settings import Settings

        settings = self.settings or Settings.model_validate({})
        return replace(self, settings=settings.model_copy(update={"instance_id": instance_id}))

    @property
    def principal(self) -> str:
        """Whom Kafka takes us for, as its access lists have it; NAME where only the broker knows."""
        name = None if self.settings is None else self.settings.username
        return f"User:{name or 'NAME'}"

    def _settings(self) -> dict[str, Any]:
        """What every client of this connection is made with. Certificates are read anew for each."""
        _change_clients()
        if self.settings is None:
            return {"bootstrap_servers": self._hosts}
        logging.getLogger("aiokafka.conn").addFilter(_no_secret)
        _read_passwords_anew()
        return {"bootstrap_servers": self._hosts, **self.settings.client()}

    def consumer(self, **settings: Any) -> "Consumer":
        """A consumer that is not started, and commits no offsets. settings : AIOKafkaConsumer's own."""
        from aiokafka import AIOKafkaConsumer

        rack = {"client_rack": self.rack} if self.rack else {}
        return AIOKafkaConsumer(enable_auto_commit=False, **(settings | rack | self._settings()))

    def producer(self, **settings: Any) -> "Producer":
        """A producer that is not started, and waits for all replicas in sync. settings : AIOKafkaProducer's own."""
        from aiokafka import AIOKafkaProducer

        limits = {"max_batch_size": MAX_BATCH_BYTES, "max_request_size": MAX_REQUEST_BYTES}
        return AIOKafkaProducer(acks="all", **(limits | settings | self._settings()))

    def admin(self, **settings: Any) -> "Admin":
        """An admin client that is not started. settings : AIOKafkaAdminClient's own."""
        from aiokafka.admin import AIOKafkaAdminClient

        return AIOKafkaAdminClient(**(settings | self._settings()))

    async def open(self, host: str, port: int, *, secured: bool = True, sasl: bool = True, seconds: float = 5.0) -> Any:
        """One bare connection to one broker, to see what happens; as plaintext where not `secured`, without a password
        or token where not `sasl`. To be closed.

        Raises what the clients keep to themselves: ssl.SSLError, SaslAuthenticationFailed and so on.
        """
        import aiokafka.client

        settings = self._settings() if secured else {}
        settings.pop("bootstrap_servers", None)
        if not sasl:
            settings["security_protocol"] = settings["security_protocol"].removeprefix("SASL_")
        return await aiokafka.client.create_conn(host, port, request_timeout_ms=int(1000 * seconds), **settings)

    def faust(self) -> dict[str, Any]:
        """The settings by which a Faust app makes its own clients of this connection."""
        _change_clients()
        found: dict[str, Any] = {"broker": ";".join(f"kafka://{host}" for host in self._hosts)}
        if self.settings is not None:
            _read_passwords_anew()
            found["broker_credentials"] = self.settings.credentials()
            if self.settings.client_id is not None:
                found["broker_client_id"] = self.settings.client_id
            if self.settings.instance_id is not None:
                found["consumer_group_instance_id"] = self.settings.instance_id
        return found

    def arguments(self) -> list[str]:
        """The options by which another process, a `riparian` command in the same environment, gets the same connection.

        No secret is among them: what did not come from the properties file comes from the environment.
        """
        config = [] if self.config is None else ["--kafka-config", str(self.config)]
        return ["--broker", self.bootstrap_servers, *config]
