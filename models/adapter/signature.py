"""Pickles of models of other libraries are signed: whoever can write one can run code where it is loaded.

The signature is an HMAC (RFC 2104) with SHA-256, by a key that every worker of a stream has in its environment and that
is in no topic. A pickle without it, or signed by another key, is refused before any byte of it is interpreted.
"""

import hashlib
import hmac
import os

KEY = "RIPARIAN_STATE_KEY"
LEAST = 16  # characters of a key


def key() -> bytes | None:
    """The key of this process; None where its environment has none. ValueError where it is too short to be a secret."""
    text = os.environ.get(KEY)
    if not text:
        return None
    if len(text) < LEAST:
        raise ValueError(
            f"{KEY} has {len(text)} characters: give a secret of at least {LEAST}, such as 32 random digits"
        )
    return text.encode()


def required() -> bytes:
    """The key. ValueError where there is none."""
    found = key()
    if found is None:
        raise ValueError(
            f"models of other libraries are kept as pickles, which are loaded only where they are signed: set {KEY} to "
            f"the same secret of at least {LEAST} characters for every worker of the stream"
        )
    return found


def sign(secret: bytes, about: bytes, pickled: bytes) -> bytes:
    """about : what the pickle is of, which a pickle of something else cannot take the place of."""
    return hmac.digest(secret, hashlib.sha256(about).digest() + pickled, "sha256")


def verify(about: bytes, pickled: bytes, signature: bytes) -> None:
    """ValueError where the key of this process did not sign this."""
    expected = sign(required(), about, pickled)
    if not signature:
        raise ValueError(f"its pickle is not signed, so it is not loaded: it was written without {KEY}")
    if not hmac.compare_digest(expected, signature):
        raise ValueError(f"its pickle was not signed by this {KEY}, so it is not loaded: set the key that wrote it")
