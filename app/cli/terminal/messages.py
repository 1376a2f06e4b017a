"""What long-lived commands write to standard error: lines for people, or, with --log-format json, one object a line for
what collects logs. Then also the sentence or the traceback that a command ends with is such a line.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import click

from riparian.app.errors import RiparianError
from riparian.app.worker.naming import STREAM

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How lines on standard error look; json: one object a line.",
)
_as_json = False


class JsonFormatter(logging.Formatter):
    """time (UTC, ISO 8601), level, logger, message and, where there is one, the stream, and the exception with its
    traceback."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.created % 1 * 1000):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (stream := STREAM.get()) is not None:
            line["stream"] = stream
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(log_format: str, level: str) -> None:
    """Set the root logger's lines up. log_format : text or json. level : debug, info, warning or error."""
    global _as_json
    if log_format == "text":
        logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        return
    _as_json = True
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    sys.excepthook = _end


def show(message: str, level: int = logging.INFO) -> None:
    """A line from the command itself, whatever the log's level is."""
    if not _as_json:
        click.echo(f"riparian: {message}", err=True)
        return
    record = logging.LogRecord("riparian", level, __file__, 0, message, None, None)
    click.echo(JsonFormatter().format(record), err=True)


def _end(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    text = "".join(traceback.format_exception_only(kind, error)).strip()
    record = logging.LogRecord("riparian", logging.CRITICAL, __file__, 0, "%s", (text,), (kind, error, where))
    click.echo(JsonFormatter().format(record), err=True)


@contextmanager
def about(file: Path | None) -> Iterator[Callable[[str], None]]:
    """What says lines, and sentences of errors, of one of several streams by the name of its file."""
    try:
        yield show if file is None else lambda line: show(f"{file}: {line}")
    except RiparianError as error:
        if file is not None:
            error.within(str(file))
        raise


def for_each(files: Sequence[Path], act: Callable[[int], None]) -> None:
    """`act` with the place of each of the files. One that fails stops none of the others: each sentence is said, by the
    name of its file where there are several, and the last is raised."""
    failed: list[RiparianError] = []
    for place, file in enumerate(files):
        try:
            with about(file if len(files) > 1 else None):
                act(place)
        except RiparianError as error:
            failed.append(error)
    for earlier in failed[:-1]:
        show(str(earlier), logging.ERROR)
    if failed:
        raise failed[-1]
