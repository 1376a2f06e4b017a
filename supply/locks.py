"""What supply/*.txt lock, read."""

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent


class Pin(NamedTuple):
    """One version of one package, where its marker holds (empty: everywhere)."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]  # SHA-256, hex digits, of each of the version's files


def pins(lock: str) -> list[Pin]:
    """The pins of one lock: `worker`, `dev`, `build` or `jdk`.

    Raises
    ------
    ValueError
        There is more in it than pins with hashes: an option, an address, a package without a version or a hash.
    """
    found = []
    text = (FOLDER / f"{lock}.txt").read_text(encoding="utf-8")
    pattern = re.compile(r"([a-z0-9-]+)==([\w.!+]+)(?: ; ([^#]+?))?((?: +--hash=sha256:[0-9a-f]{64})+)")
    for line in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines():
        pin = pattern.fullmatch(line.rstrip())
        if pin is None:
            raise ValueError(f"Expected NAME==VERSION and hashes in supply/{lock}.txt, found {line[:80]!r}: make lock.")
        hashes = tuple(re.findall("[0-9a-f]{64}", pin[4]))
        found.append(Pin(pin[1], pin[2], pin[3] or "", hashes))
    return found
