"""Ports of 127.0.0.1: which are free, and whether Kafka answers on one."""

import random
import socket
import struct

from app.errors import BrokerError

# Free ports are drawn from below 32768, where Linux begins to hand out ports for outgoing connections: between our look
# and Kafka's bind two seconds pass, and a port from that range could be taken by any client meanwhile.
FREE_PORTS = range(20_000, 32_000)


def port_is_free(port: int) -> bool:
    """Whether 127.0.0.1:port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(*taken: int) -> int:
    """A port of 127.0.0.1 that nothing listens on, none of `taken`."""
    draw = random.SystemRandom()
    for _ in range(1_000):
        port = draw.choice(FREE_PORTS)
        if port not in taken and port_is_free(port):
            return port
    raise BrokerError(f"Expected a free port in {FREE_PORTS.start}-{FREE_PORTS.stop}, found none: name one by --port.")


def answers(port: int, timeout_seconds: float = 2.0) -> bool:
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
