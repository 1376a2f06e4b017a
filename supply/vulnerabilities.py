"""Ask whether what is locked has known vulnerabilities: `python -m supply.vulnerabilities`, a part of `make check`.

pip-audit asks PyPI, and OSV where PyPI does not answer, about each locked version that this Python would install. Where
neither answers in time, one line says that nothing was asked, and the exit code is 0: work without a network goes on.
Found vulnerabilities are named, and the exit code is 1, unless `accepted.toml` has the vulnerability with a reason.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from supply.locks import FOLDER

SECONDS = 120.0
SERVICES = (("--vulnerability-service", "pypi"), ("--vulnerability-service", "osv"))


def ask(service: tuple[str, ...], lock: Path, seconds: float) -> list[dict[str, Any]]:
    """Each package that the service knows, with its vulnerabilities (`vulns`); nothing where it does not answer."""
    command = [
        sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--require-hashes", "--disable-pip",
        "--progress-spinner", "off", "--timeout", "10", "--format", "json", *service,
    ]  # fmt: skip
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            answer, _ = process.communicate(timeout=seconds)
            return [found for found in json.loads(answer)["dependencies"] if "vulns" in found]
        except (subprocess.TimeoutExpired, ValueError):
            return []
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # pip-audit has children of its own


def accepted(file: Path) -> dict[str, str]:
    """The reason of each vulnerability that is accepted, by `package id`."""
    rows = tomllib.loads(file.read_text(encoding="utf-8")).get("accepted", [])
    for row in rows:
        if set(row) != {"id", "package", "reason"} or not all(isinstance(v, str) and v.strip() for v in row.values()):
            raise SystemExit(f"Expected id, package and reason as texts in each row of {file}, found {row}: mend it.")
    return {f"{row['package']} {row['id']}": row["reason"] for row in rows}


def verdict(known: list[dict[str, Any]], reasons: dict[str, str]) -> tuple[list[str], int]:
    """Lines to be printed, and the exit code."""
    lines, used, code = [], set(), 0
    for package in known:
        for vulnerability in package["vulns"]:
            names = [f"{package['name']} {name}" for name in (vulnerability["id"], *vulnerability.get("aliases", ()))]
            name = next(filter(reasons.__contains__, names), names[0])
            used.add(name)
            if name in reasons:
                lines.append(f"accepted: {name}: {reasons[name]}")
                continue
            code = 1
            mended = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            lines.append(
                f"{package['name']} {package['version']} has a known vulnerability, {vulnerability['id']}, mended in "
                f"{mended}: run make lock, or give a reason in supply/accepted.toml."
            )
    lines += [f"supply/accepted.toml: {name} is not found any more: delete its row." for name in reasons.keys() - used]
    lines.append(f"Asked about known vulnerabilities of {len(known)} locked packages.")
    return lines, code


def main(
    services: tuple[tuple[str, ...], ...] = SERVICES, lock: Path = FOLDER / "dev.txt", seconds: float = SECONDS
) -> int:
    """Ask one service after the other, print what came of it, return the exit code."""
    reasons = accepted(FOLDER / "accepted.toml")
    deadline = time.monotonic() + seconds
    for service in services:
        known = ask(service, lock, max(deadline - time.monotonic(), 1.0))
        if known:
            lines, code = verdict(known, reasons)
            print("\n".join(lines))
            return code
    print("Known vulnerabilities: not asked about, as no service answers here (PyPI, OSV).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
