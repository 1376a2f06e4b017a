"""What a command that lives long does before it imports its libraries, so that a worker that was killed is back soon.

Libraries look for things at their import that nothing here asks for: half a second of a start, if all are together.
"""

import gc
import importlib
import os
import ssl
from typing import Any


def quickly() -> None:
    """Before the first of these libraries is imported."""
    # A start makes 200,000 objects that stay; looking through them again and again is an eighth of its time. The
    # worker turns it on again (app/worker/host.py), and so does a kernel that is compiled.
    gc.disable()
    # Pydantic asks every installed package whether it is a plugin.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _without_certificates()


class _Context(ssl.SSLContext):
    """Reads the system's certificates when it is first used."""

    _read = False

    def _once(self) -> None:
        if not self._read:
            self._read = True
            self.set_default_verify_paths()

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:
        self._once()
        return super().wrap_bio(*args, **named)

    def wrap_socket(self, *args: Any, **named: Any) -> ssl.SSLSocket:
        self._once()
        return super().wrap_socket(*args, **named)


def _without_certificates() -> None:
    """Import aiohttp, which Faust does: at that it makes two contexts for clients that name none, and reads the
    system's certificates for each, 0.04 s in all. Here nobody uses them."""
    made: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        made.append(context)

    context_class: Any = ssl.SSLContext
    context_class.set_default_verify_paths = note
    try:
        importlib.import_module("aiohttp.connector")
    finally:
        del context_class.set_default_verify_paths  # that of its base is seen again
    for context in made:
        context.__class__ = _Context
