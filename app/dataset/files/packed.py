"""Files as text, whatever they are packed by, which is told by content and not by name."""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from riparian.app.errors import DataError

_ZIP, _OLE, _ZSTD = b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x28\xb5\x2f\xfd"
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
# What reading raises where a file is damaged.
DAMAGES = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def open_text(path: Path) -> IO[str]:
    """A file as text in UTF-8. DataError where it is packed in a way that cannot be read, or holds no text."""
    with path.open("rb") as raw:
        begin = raw.read(6)
    if begin.startswith(_OLE) or (begin.startswith(_ZIP) and _is_spreadsheet(path)):
        raise DataError(f"{path} is a spreadsheet: save its sheet as CSV")
    if begin.startswith(_ZSTD):
        raise DataError(f"{path} is packed by zstd: unpack it, or pack it by gzip, bzip2, xz or zip")
    unpack = next((one for mark, one in _OPEN.items() if begin.startswith(mark)), _plain)
    binary = unpack(path)
    return io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")


def _is_spreadsheet(path: Path) -> bool:
    if path.suffix.lower() in _SPREADSHEETS:
        return True
    with zipfile.ZipFile(path) as archive:
        return bool({"[Content_Types].xml", "mimetype"} & set(archive.namelist()))


def _member(path: Path) -> IO[bytes]:
    """The only file of a ZIP archive."""
    with zipfile.ZipFile(path) as archive:
        files = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
        if len(files) != 1:
            names = ", ".join(one.filename for one in files[:5]) + (", …" if len(files) > 5 else "")
            raise DataError(f"{path} holds {len(files)} files ({names}): expected one, so unpack it")
        if files[0].flag_bits & 1:
            raise DataError(f"{path} is encrypted: unpack it")
        return archive.open(files[0])


def _plain(path: Path) -> IO[bytes]:
    return path.open("rb")


_OPEN: Mapping[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    _ZIP: _member,
}
