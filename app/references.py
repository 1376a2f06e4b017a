"""Values that stand elsewhere: what a settings file may write in place of a secret.

`${NAME}`, as a whole, stands for the environment variable NAME; `file:PATH` for the content of that file, without the
newline at its end. What a reference gives is taken as it is. Files are named from the working directory.
"""

import os
import re
import stat
from collections.abc import Mapping

VARIABLE = re.compile(r"\$\{(\w+)\}")
_FILE = "file:"
MOST_BYTES = 1 << 20  # largest secret in a file, bytes


def is_reference(value: str) -> bool:
    return VARIABLE.fullmatch(value) is not None or value.startswith(_FILE)


def resolved(value: str, environment: Mapping[str, str]) -> str:
    """What a value refers to; the value itself where it is no reference.

    Raises
    ------
    ValueError
        The reference leads nowhere. The sentence reads on after the name of the setting.
    """
    if found := VARIABLE.fullmatch(value):
        if not environment.get(found[1]):
            raise ValueError(f"refers to the environment variable {found[1]}, which is not set.")
        return environment[found[1]]
    if value.startswith(_FILE):
        path = value.removeprefix(_FILE)
        try:
            return _content(path).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(
                f"refers to the file {path}, which cannot be read ({reason}): create it, or correct the path."
            ) from None
    return value


def _content(path: str) -> bytes:
    """Of a small file; OSError of anything else, a pipe without a writer and a device without an end among it."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is no regular file")
        found = file.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise OSError(0, f"it has more than {MOST_BYTES:,} bytes")
    return found
