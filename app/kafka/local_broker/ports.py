"""Ports: which are free on 127.0.0.1, whether Kafka answers on one, and listening on one."""

import errno
import fcntl
import os
import random
import socket
import struct
import tempfile
from pathlib import Path

from riparian.app.errors import BrokerError, RiparianError

# Free ports are drawn from below 32768, where Linux begins to hand out ports for outgoing connections: between our look
# and Kafka's bind two seconds pass, and a port from that range could be taken by any client meanwhile.
FREE_PORTS = range(20_000, 32_000)
PORTS = 100  # ports that are tried, where the first is taken
_held: list[int] = []  # descriptors of the files whose locks say that a port is this process's


def port_is_free(port: int) -> bool:
    """Whether 127.0.0.1:port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _hold(port: int) -> bool:
    """Lock a port's file until this process ends; False where another process has it."""
    folder = Path(tempfile.gettempdir()) / f"riparian-ports-{os.getuid()}"
    try:
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return True  # nowhere to write: as good as it gets
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    _held.append(descriptor)
    return True


def free_port(*taken: int) -> int:
    """A port of 127.0.0.1 that nothing listens on, none of `taken`; no later call in any process gives it before this
    process has ended, so that a broker may stop and start again on it."""
    draw = random.SystemRandom()
    for _ in range(1_000):
        port = draw.choice(FREE_PORTS)
        if port not in taken and port_is_free(port) and _hold(port):
            return port
    raise BrokerError(f"Expected a free port in {FREE_PORTS.start}-{FREE_PORTS.stop}, found none: name one by --port.")


def answers(port: int, timeout_seconds: float = 5.0) -> bool:
    """Whether a Kafka broker on this port answers a metadata request and names at least one live broker.

    A bare socket and 20 bytes, so that `riparian broker status` waits for neither an event loop nor a client.
    """
    metadata, version, correlation = 3, 1, 1
    header = struct.pack(">hhih", metadata, version, correlation, 8) + b"riparian"
    request = header + struct.pack(">i", 0)  # an empty list of topics
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_seconds) as link, link.makefile("rb") as reader:
            link.sendall(struct.pack(">i", len(request)) + request)
            head = reader.read(12)
    except OSError:
        return False
    if len(head) < 12:
        return False
    _, answered, n_brokers = struct.unpack(">iii", head)
    return bool(answered == correlation and n_brokers > 0)


def listen(host: str, port: int, or_next: bool = False) -> socket.socket:
    """A socket that listens for the web server; it holds the port from here on, whatever other workers start.

    Parameters
    ----------
    or_next : bool
        Whether the next port that is free will do where this one is taken.

    Raises
    ------
    RiparianError
        There is no such address, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for each in range(port, min(port + PORTS, 65536) if or_next else port + 1):
        try:
            return socket.create_server((host, each), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise RiparianError(
                    f"the web server cannot listen on {host}:{each} ({os.strerror(error.errno or 0)}): choose another "
                    "--host or --port"
                ) from None
    raise RiparianError(
        f"port {port} of {host} is in use, perhaps by another worker or page: choose another by --port, or leave it "
        "out for the next free one"
    )
