"""Which stream a line of the log is about: a worker may run several, whose partitions have the same numbers."""

import copy
import logging
from contextvars import ContextVar

# Tasks have the context of what has started them, so this is set once for each application and each of its threads.
STREAM: ContextVar[str | None] = ContextVar("stream", default=None)


class Named(logging.Formatter):
    """Puts the stream's name before a message, and leaves all else to another formatter."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        name = STREAM.get()
        if name is not None:
            record = copy.copy(record)
            record.msg = f"{name}: {record.msg}"
        return self._inner.format(record)
