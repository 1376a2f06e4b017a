"""The Faust application of a stream: its subscription, the state's table, the web server, the life cycle.

Faust does membership, assigns partitions (with standbys), and has the web server and the life cycle; `Assignment` does
the rest. What a process of several applications shares is in host.py.
"""

import socket
from pathlib import Path
from typing import Any

import faust
from faust.utils import venusian

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.wire_format.unpacking import Unpacking
from riparian.app.stream_file.spec import Spec
from riparian.app.worker import agent
from riparian.app.worker.assignment import Assignment
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.exposition import connection_limits
from riparian.app.worker.faust_client import transport
from riparian.app.worker.faust_client.access import Access
from riparian.app.worker.faust_client.backpressure import POLL_PIECES
from riparian.app.worker.faust_client.copartitioned import Copartitioned
from riparian.app.worker.repartition.copying import Copier
from riparian.app.worker.states import Tables
from riparian.app.worker.task.join_watchdog import LOOK_SECONDS
from riparian.app.worker.task.partition_task import Observer
from riparian.topics.names import AS_IT_COMES

HEARTBEAT_SECONDS = 1.0


def _not_noted(_fun: Any, category: str, **_: Any) -> None:
    """For its autodiscovery, which is off here, Faust notes in which module each page and task stands: it looks through
    all modules for the file, 0.05 s."""


venusian.attach = _not_noted


def create_app(
    spec: Spec,
    connection: Connection,
    *,
    web: socket.socket | None,
    port: int | None = None,
    data_dir: Path,
    observer: Observer,
    session_timeout: float = 10.0,
) -> tuple[Any, Assignment]:
    """The Faust app of one stream in a worker process, and its assignment. The stream's topics must exist.

    Parameters
    ----------
    web : socket, optional
        Where the web server listens; None for no web server of this app's.
    port : int, optional
        Of the web server that another app of the process has.
    data_dir : Path
        A directory of this worker's own.
    observer : Observer
        Told about steps, dead letters and checkpoints.
    session_timeout : float
        Seconds that a killed worker blocks its partitions.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    # Faust knows members by their addresses, and refuses the assignment of another one: the successor of a worker that
    # has an instance id may run on another machine, or have another port.
    name = connection.instance_id
    address = {} if name is None else {"canonical_url": f"http://riparian/{name}"}
    app = faust.App(
        spec.group,
        **connection.faust(),
        **address,
        datadir=str(data_dir),
        topic_partitions=spec.partitions,
        topic_disable_leader=True,
        table_standby_replicas=spec.standbys,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=2 * 1024 * 1024,
        broker_max_poll_records=POLL_PIECES,
        broker_session_timeout=session_timeout,
        broker_heartbeat_interval=HEARTBEAT_SECONDS,
        broker_check_crcs=True,
        web_enabled=web is not None,
        web_port=port or 6066 if web is None else web.getsockname()[1],
        web_host="127.0.0.1",
        # Pages of Faust's that hand requests on to whatever address a member of the group has given as its own.
        web_router_enabled=False,
        web_tables_enabled=False,
        autodiscover=False,
        TableManager=Tables,
        PartitionAssignor=Copartitioned,
    )
    if web is not None:
        connection_limits.serve(app, web)
    worker = WorkerContext(app, spec, connection)
    assignment = Assignment(worker, observer)
    access = Access(connection)
    agent.install(worker, assignment.runners)
    source_topics = [log.topic for log in spec.inputs]
    way = transport.Way(
        spec.name,
        Unpacking([*source_topics, *spec.sources], [*spec.header_topics(), *spec.sources]),
        assignment.assign,
        worker.fetches,
        worker.fail,
        worker.inputs.backpressure,
        connection.rack,
        # Of what is copied, it is the copied topics whose ends count.
        () if spec.copied else tuple(log.topic for log in spec.inputs if log.rule != AS_IT_COMES),
    )
    app.transport = transport.Transport(app, way)

    for name in source_topics:
        app.topics.add(app.topic(name, partitions=spec.partitions))  # subscribe

    @app.on_partitions_revoked.connect  # type: ignore[untyped-decorator]
    async def revoked(_app: Any, _tps: Any, **_: Any) -> None:
        await assignment.revoke()

    @app.on_before_shutdown.connect  # type: ignore[untyped-decorator]
    async def stopping(_app: Any, **_: Any) -> None:
        if assignment.copier is not None:
            await assignment.copier.stop()
        await assignment.stop()

    if spec.copied:
        assignment.copier = copier = Copier(worker, session_timeout)

        @app.task  # type: ignore[untyped-decorator]
        async def copy() -> None:
            copier.start()

    @app.timer(LOOK_SECONDS)  # type: ignore[untyped-decorator]
    async def look() -> None:
        await assignment.look()
        await access.look(worker.inputs.thread._consumer)

    return app, assignment
