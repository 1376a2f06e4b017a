"""What all processes of a run share: a broker, started by the first that asks.

`python -m tests.shared FOLDER` holds it, as a child of the fork server, until that ends. Without a
folder it asks for it.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from tests.forkserver import FOLDER, Process
from tests.processes import until

ADDRESS = "broker.address"  # file that has it, once it answers
# A worker that was killed blocks its partition for a session: a shorter one than brokers allow by themselves.
PROPERTIES = "\ngroup.min.session.timeout.ms=1000\n"


def broker() -> str:
    """HOST:PORT of the run's broker."""
    from riparian.app.kafka.local_broker.java import locked

    folder = Path(os.environ[FOLDER])
    address, log = folder / ADDRESS, folder / "broker.log"
    with locked(folder / "broker.lock"):
        if not address.exists():
            with log.open("wb") as file:
                holder = Process(["tests.shared", str(folder)], stdout=file.fileno(), stderr=file.fileno())
            until(lambda: address.exists() or holder.poll() is not None)
            assert holder.poll() is None, log.read_text(errors="replace")
        return address.read_text()


def address() -> str | None:
    """The same, where it has been asked for."""
    file = Path(os.environ.get(FOLDER, os.devnull)) / ADDRESS
    return file.read_text() if file.exists() else None


def hold(folder: Path) -> None:
    """Run the broker until SIGTERM."""
    from riparian.app.kafka.local_broker.broker import LocalBroker

    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    local = LocalBroker(folder / "broker", report=print, properties=PROPERTIES)
    local.start()
    fresh = folder / f"{ADDRESS}.new"
    fresh.write_text(local.bootstrap)
    fresh.rename(folder / ADDRESS)
    told.wait()
    local.kill()  # to close thousands of logs in good order would be for nobody


if __name__ == "__main__":
    if sys.argv[1:]:
        hold(Path(sys.argv[1]))
    else:
        broker()
