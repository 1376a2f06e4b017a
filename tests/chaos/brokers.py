"""The brokers of a campaign: one or several, of the version that tests use or of another one.

Those of Kafka 2 come with ZooKeeper. Jars are fetched at the first start, and compared with `kafka/VERSION.sha256`.
"""

import asyncio
import base64
import os
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from riparian.app.kafka.local_broker.broker import LocalBroker, Runtime
from riparian.app.kafka.local_broker.java import find_java, kafka_jars
from riparian.app.kafka.local_broker.ports import free_port
from riparian.app.kafka.local_broker.supervisor import Supervised

HASHES = Path(__file__).parent / "kafka"
VERSIONS = sorted(path.stem for path in HASHES.glob("*.sha256"))
HEAP = "-Xms64m -Xmx256m"  # of one of several
SETTLE_SECONDS = 120.0
ZOOKEEPER_SESSION = 3.0  # seconds for which a broker of Kafka 2 that was killed keeps its name
REPLICATED = (
    "default.replication.factor={0}\nmin.insync.replicas={1}\noffsets.topic.replication.factor={0}\n"
    "transaction.state.log.replication.factor={0}\ntransaction.state.log.min.isr={1}\n"
    "share.coordinator.state.topic.replication.factor={0}\nshare.coordinator.state.topic.min.isr={1}\n"
)


class Brokers:
    """Brokers that share topics, all alive or one of several away.

    Parameters
    ----------
    folder : Path
        For their data.
    n : int
        How many. Topics have as many replicas, up to three, of which one may be missing.
    version : str, optional
        One of `VERSIONS`.
    n_slots : int
        Listeners besides the usual one, each of which advertises a port of its own.
    racks : bool
        Whether each broker is in a rack of its own, from which clients of this rack read.

    Attributes
    ----------
    ports : of each slot, and each broker: that which is advertised, and that which it listens on
    failures : of a rolling restart
    """

    def __init__(
        self, folder: Path, n: int = 1, version: str | None = None, n_slots: int = 0, racks: bool = False
    ) -> None:
        self.ports = [[(free_port(), free_port()) for _ in range(n)] for _ in range(n_slots)]
        self.failures: list[str] = []
        self._rolling: threading.Thread | None = None
        self._killed = 0.0
        self._zookeeper: Supervised | None = None
        self._folder, self._racks = folder, racks
        self._runtime: Runtime | None = None
        self._needs_zookeeper = version is not None and int(version.partition(".")[0]) < 3
        if version is not None:
            jars = kafka_jars(folder, print, version, HASHES / f"{version}.sha256")
            self._runtime = Runtime(find_java(), jars, [])
        if n > 1:
            os.environ.setdefault("KAFKA_HEAP_OPTS", HEAP)
        self._own, self._of_quorum = ([free_port() for _ in range(n)] for _ in range(2))
        cluster = "R" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        self.all = [
            LocalBroker(
                folder / f"kafka-{i + 1}",
                self._own[i],
                properties=self._properties(i),
                format_options=["-t", cluster],  # the later one counts
                runtime=self._runtime,
            )
            for i in range(n)
        ]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._own)

    def _properties(self, i: int) -> str:
        listeners = [f"PLAINTEXT://127.0.0.1:{self._own[i]}"]
        advertised, protocols = [*listeners], ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
        for slot, ports in enumerate(self.ports):
            advertised.append(f"SLOT{slot}://127.0.0.1:{ports[i][0]}")
            listeners.append(f"SLOT{slot}://127.0.0.1:{ports[i][1]}")
            protocols.append(f"SLOT{slot}:PLAINTEXT")
        if self._needs_zookeeper:
            more = (
                f"process.roles=\ncontroller.quorum.voters=\ncontroller.listener.names=\nbroker.id={i + 1}\n"
                f"zookeeper.connect=127.0.0.1:{self._of_quorum[0]}\n"
                f"zookeeper.session.timeout.ms={int(1000 * ZOOKEEPER_SESSION)}\nzookeeper.connection.timeout.ms=60000\n"
            )
        else:
            listeners.append(f"CONTROLLER://127.0.0.1:{self._of_quorum[i]}")
            voters = (f"{k + 1}@127.0.0.1:{port}" for k, port in enumerate(self._of_quorum))
            more = f"controller.quorum.voters={','.join(voters)}\n"
        n = len(self._own)
        more += REPLICATED.format(min(n, 3), 2) if n > 1 else ""
        if self._racks:
            selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
            more += f"broker.rack=rack-{i + 1}\nreplica.selector.class={selector}\n"
        return (
            f"\nnode.id={i + 1}\nlisteners={','.join(listeners)}\nadvertised.listeners={','.join(advertised)}\n"
            f"listener.security.protocol.map={','.join(protocols)}\ngroup.min.session.timeout.ms=1000\n{more}"
        )

    # -- what befalls them ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Those that are away, at once."""
        if self._needs_zookeeper:
            self._with_zookeeper()
        with ThreadPoolExecutor(len(self.all)) as pool:
            list(pool.map(LocalBroker.start, self.all))

    def stop(self) -> None:
        """One stops. Several stop and start again in turn, each when all replicas are in sync, in a thread."""
        if len(self.all) == 1:
            self.all[0].stop()
        elif self._rolling is None or not self._rolling.is_alive():
            self._rolling = threading.Thread(target=self._roll, name="rolling", daemon=True)
            self._rolling.start()

    def kill(self) -> None:
        """One is killed: of several that which leads most partitions."""
        leaders = Counter(part["leader"] for part in self._partitions()) if len(self.all) > 1 else {1: 1}
        self.all[max(leaders, key=lambda one: leaders[one]) - 1].kill()
        self._killed = time.monotonic()

    def settled(self) -> bool:
        """Whether the next one may go: no rolling restart is under way, and of several brokers all replicas are in
        sync."""
        if self._rolling is not None and self._rolling.is_alive():
            return False
        return len(self.all) == 1 or (all(one.alive for one in self.all) and self._in_sync())

    def end(self) -> None:
        """All stop for good."""
        if self._rolling is not None:
            self._rolling.join()
        with ThreadPoolExecutor(len(self.all)) as pool:
            list(pool.map(LocalBroker.stop, self.all))
        if self._zookeeper is not None:
            self._zookeeper.end()

    def _roll(self) -> None:
        for i, one in enumerate(self.all):
            until = time.monotonic() + SETTLE_SECONDS
            while not self._in_sync():
                time.sleep(0.5)
                if time.monotonic() > until:
                    self.failures.append(f"replicas were not in sync in {SETTLE_SECONDS:.0f} s before broker {i + 1}")
                    return
            one.stop()
            one.start()

    def _in_sync(self) -> bool:
        try:
            return all(len(part["isr"]) == len(part["replicas"]) for part in self._partitions())
        except (KafkaError, OSError):
            return False

    def _partitions(self) -> list[dict[str, Any]]:
        async def described() -> list[dict[str, Any]]:
            client = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await client.start()
            try:
                return await client.describe_topics()  # type: ignore[no-any-return]
            finally:
                await client.close()

        return [part for topic in asyncio.run(described()) for part in topic["partitions"]]

    def _with_zookeeper(self) -> None:
        """Start it once. A broker that was killed may start when ZooKeeper has given its name up."""
        assert self._runtime is not None
        time.sleep(max(0.0, self._killed + ZOOKEEPER_SESSION + 1.0 - time.monotonic()))
        if self._zookeeper is not None:
            return
        folder = self._folder / "zookeeper"
        folder.mkdir()
        settings = folder / "zoo.cfg"
        settings.write_text(
            f"tickTime=500\ndataDir={folder}\nclientPort={self._of_quorum[0]}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
        )
        java, jars, _ = self._runtime
        command = [java, "-Xmx128m", "-XX:+UseSerialGC", "-cp", os.pathsep.join(map(str, jars))]
        command += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)]
        self._zookeeper = Supervised(str(folder / "zookeeper.log"), command)
        for i, one in enumerate(self.all):  # such storage is not formatted beforehand
            (one.data_dir / "kafka").mkdir(parents=True)
            (one.data_dir / "kafka" / "meta.properties").write_text(f"version=0\nbroker.id={i + 1}\n")


class Lent(Brokers):
    """A broker that others use, too, at HOST:PORT: nothing befalls it, and no listener advertises a proxy."""

    def __init__(self, address: str, n_slots: int) -> None:
        port = int(address.rpartition(":")[2])
        self.bootstrap, self.failures, self.ports = address, [], [[(port, port)]] * n_slots

    def start(self) -> None:
        """It runs."""

    def settled(self) -> bool:
        return True

    def end(self) -> None:
        """It goes on."""
