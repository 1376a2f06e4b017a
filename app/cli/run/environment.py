"""Environment variables that are called like ours and are none: a key of a name that nothing reads signs nothing."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from riparian.app.kafka.client.sources import BROKER, PREFIX
from riparian.app.references import VARIABLE
from riparian.models.adapter.signature import KEY

OURS = "RIPARIAN_"
KNOWN = (BROKER, KEY)  # besides PREFIX, whose names are checked where a connection is read
# As Kubernetes and Docker name variables after a service that is called like us.
_OF_A_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT|PORT)(_\w+)?$")


def unknown(environment: Mapping[str, str], files: Iterable[Path]) -> str | None:
    """A sentence on variables that nothing reads; None without any. files : stream files and properties, which may name
    variables of their own."""
    named = {*KNOWN}
    for file in files:
        with suppress(OSError, UnicodeDecodeError):  # whoever reads it says so
            named.update(VARIABLE.findall(file.read_text()))
    found = [
        name
        for name in sorted(environment)
        if name.startswith(OURS)
        and not name.startswith(PREFIX)
        and name not in named
        and not _OF_A_SERVICE.search(name)
    ]
    if not found:
        return None
    them = "them" if len(found) > 1 else "it"
    return (
        f"nothing reads {', '.join(found)} of the environment: Riparian knows {', '.join(KNOWN)} and {PREFIX}…; "
        f"correct {them}, or remove {them}"
    )
