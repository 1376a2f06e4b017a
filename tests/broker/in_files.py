"""A worker that puts all that waits, and all chunks of its states, into files, however little it is."""

from riparian.app.cli import main
from riparian.app.partition import mapped
from riparian.app.state import log

if __name__ == "__main__":
    mapped.FILE_BYTES, mapped.RESIDENT_BYTES, log.HELD_BYTES = 1, 0, 0
    main()
