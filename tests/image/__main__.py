"""Builds deploy/Dockerfile and runs a worker in the image, on a real Kafka. Needs root, debootstrap and buildah, and no
registry: the base is a Debian that debootstrap makes, imported under the name of the Dockerfile's base.

    python -m tests.image [--suite bookworm] [--records 20000] [--keep]

The worker runs as the chart runs it: as the image's user, on a root file system that is read-only, with the image's
kernels copied to a folder of its own. What is checked: the build; the user; that nothing is compiled at the start; that
all records are predicted and learned; the health check; a stop. What was seen goes to standard output.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from riparian.app.compiling import SENTENCE
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.local_broker.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
WORK = ROOT / "build" / "image"
PACKAGES = "python3,python3-venv,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PATH = "/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STREAM = "/etc/riparian/streams/sine.yaml"
PATIENCE_SECONDS = 300.0
STEPS = """
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount --bind "$1" "$0/var/cache/riparian"
mount -t tmpfs tmpfs "$0/var/lib/riparian" -o mode=777
mount -t tmpfs tmpfs "$0/tmp" -o mode=1777
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -o remount,ro,bind "$0"
root=$0; user=$2; folder=$3; shift 3
exec chroot --userspec="$user" "$root" env -i -C "$folder" "$@"
"""


class ImageError(RuntimeError):
    """What was promised of the image is not so."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise ImageError(what)
    print(f"  {what}: yes")


def run(*command: object, **more: Any) -> str:
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(map(str, command))[:200]} ended with {done.returncode}")
    return done.stdout


def buildah(*command: object, **more: Any) -> str:
    own = ("--storage-driver", "vfs", "--root", WORK / "storage", "--runroot", WORK / "run")
    return run("buildah", *own, *command, **more).strip()


def base(suite: str) -> str:
    """Import a Debian as the Dockerfile's base; its Python."""
    name = re.findall(r"^FROM (\S+)$", DOCKERFILE.read_text(), re.MULTILINE)[0]
    folder = WORK / suite
    if not (folder / "opt" / "python").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, folder)
        shutil.copy(CERTIFICATES, folder / CERTIFICATES.relative_to("/"))  # whom this machine trusts
        run("chroot", folder, "python3", "-m", "venv", "/opt/python")
    container = buildah("from", "scratch")
    excluded = ("proc/*", "sys/*", "dev/*", "var/cache/apt/*", "var/lib/apt/lists/*")
    packed = WORK / "base.tar"
    run("tar", "-C", folder, "-cf", packed, *(f"--exclude=./{path}" for path in excluded), ".")
    buildah("add", "-q", container, packed, "/")
    packed.unlink()
    buildah("config", "--env", f"PATH={PATH}", container)
    buildah("commit", "-q", container, f"docker.io/library/{name}")
    buildah("rm", container)
    return run("chroot", folder, "/opt/python/bin/python", "--version").strip()


@contextmanager
def mounted(image: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A container's root folder and the image's settings."""
    container = buildah("from", "--pull-never", image)
    try:
        yield Path(buildah("mount", container)), json.loads(buildah("inspect", image))["Docker"]["config"]
    finally:
        buildah("rm", container)


def get(url: str) -> tuple[int, str]:
    """Status and text; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def wait(done: Any, process: "subprocess.Popen[bytes]", what: str) -> float:
    """Seconds until `done`."""
    began = time.monotonic()
    while not done():
        if process.poll() is not None:
            raise ImageError(f"the worker ended with {process.returncode} before it was {what}")
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise ImageError(f"the worker was not {what} within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - began


def work(root: Path, config: dict[str, Any], folder: Path, records: int) -> None:
    """A worker in the image, on a Kafka outside of it."""
    uid = next(line.split(":")[2] for line in (root / "etc/passwd").read_text().splitlines() if "riparian:" in line)
    kernels = folder / "kernels"
    shutil.copytree(root / "var/cache/riparian", kernels)
    for path in (kernels, *kernels.rglob("*")):
        os.chown(path, int(uid), int(uid))
    port, log = free_port(), folder / "worker.log"

    def inside(*command: str) -> list[str]:
        environment = [*config["Env"], f"RIPARIAN_BROKER={broker.bootstrap}"]
        steps = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", STEPS]
        return [*steps, str(root), str(kernels), f"{uid}:{uid}", config["WorkingDir"], *environment, *command]

    with LocalBroker(folder / "broker") as broker:
        touched = "for f in /x /opt/x /etc/riparian/x /home/riparian/x; do touch $f 2>/dev/null && exit 1; done; exit 0"
        check(subprocess.run(inside("sh", "-c", touched)).returncode == 0, "the root file system is read-only")
        check(run(*inside("id", "-u")).strip() == uid != "0", "the user is not root")
        arguments = [*config["Entrypoint"], "worker", STREAM, "--port", str(port), "--log-format", "json"]
        with log.open("wb") as lines:
            process = subprocess.Popen(inside(*arguments, "--log-level", "info"), stdout=lines, stderr=lines)
        try:
            ready = wait(lambda: get(f"http://127.0.0.1:{port}/ready")[0] == 200, process, "ready")
            print(f"  from its start to /ready: {ready:.1f} s")
            replay = [sys.executable, "-m", "riparian.app.cli", "replay", str(ROOT / "deploy/streams/sine.yaml")]
            began = time.monotonic()
            run(*replay, "--broker", broker.bootstrap, "--generate", "sine", "-n", str(records), cwd=ROOT)

            def parts() -> list[dict[str, int]]:
                return list(
                    json.loads(get(f"http://127.0.0.1:{port}/health")[1] or "{}").get("partitions", {}).values()
                )

            wait(lambda: sum(part["labels"] for part in parts()) >= records, process, f"through {records:,} labels")
            print(f"  {records:,} records published and learned: {time.monotonic() - began:.1f} s")
            check(sum(part["instances"] for part in parts()) == records, "each record was predicted")
            found: list[str] = []

            def told() -> bool:
                line = r'^riparian_accuracy_ratio\{(?=[^}]*model="champion")(?=[^}]*scope="overall")[^}]*\} (\S+)'
                found[:] = re.findall(line, get(f"http://127.0.0.1:{port}/metrics")[1], re.MULTILINE)
                return bool(found)

            wait(told, process, "telling its accuracy")
            (accuracy,) = found
            print(f"  accuracy of the champion: {float(accuracy):.4f}")
            check(float(accuracy) > 0.9, "it has learned")
            probe = [word.replace(":6066/", f":{port}/") for word in config["Healthcheck"]["Test"][1:]]
            check(subprocess.run(inside(*probe)).returncode == 0, "the health check says that it is well")
            print(f"  resident memory: {resident(process.pid) / 1e6:.0f} MB")
            stop(process)
            check(subprocess.run(inside(*probe), stderr=subprocess.DEVNULL).returncode != 0, "and that it has stopped")
        except BaseException:
            print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
            raise
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    said = log.read_text()
    check(SENTENCE not in said, "no kernel was compiled")
    check(all(isinstance(json.loads(line), dict) for line in said.splitlines()), "each line of its log is an object")


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def last(pid: int) -> int:
    """The worker itself, below the processes that hold its namespaces."""
    while below := children(pid):
        pid = below[0]
    return pid


def resident(pid: int) -> int:
    return int(Path(f"/proc/{last(pid)}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def stop(process: "subprocess.Popen[bytes]") -> None:
    began = time.monotonic()
    os.kill(last(process.pid), 15)
    code = process.wait(60)
    print(f"  a stop: {time.monotonic() - began:.1f} s")
    check(code == 0, "it ends with 0 after SIGTERM")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--suite", default="bookworm", help="of Debian: bookworm has Python 3.11, trixie 3.13")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--keep", action="store_true", help=f"leave {WORK.relative_to(ROOT)} as it is")
    given = parser.parse_args(arguments)
    missing = [tool for tool in ("debootstrap", "buildah", "unshare") if shutil.which(tool) is None]
    if missing or os.getuid() != 0:
        sys.exit(f"this needs root, and {' and '.join(missing) or 'nothing else'}: apt-get install debootstrap buildah")
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        python = base(given.suite)
        began = time.monotonic()
        built = (
            "bud",
            "--isolation",
            "chroot",
            "--pull-never",
            "--format",
            "docker",
            "-f",
            DOCKERFILE,
            "-t",
            "riparian",
        )
        buildah(*built, ROOT, stderr=subprocess.STDOUT)
        size = {
            one["names"][0].split("/")[-1]: one["size"]
            for one in json.loads(buildah("images", "--json"))
            if one.get("names")
        }
        print(f"{given.suite}, {python}: built in {time.monotonic() - began:.0f} s; {size}")
        with mounted("riparian") as (root, config), tempfile.TemporaryDirectory(prefix="riparian-image-") as folder:
            kernels = sum(path.stat().st_size for path in (root / "var/cache/riparian").rglob("*") if path.is_file())
            print(f"  compiled kernels: {kernels / 1e6:.1f} MB")
            check(config["User"] == "riparian", "the image names its user")
            work(root, config, Path(folder), given.records)
    except ImageError as error:
        sys.exit(f"image-test: {error}")
    finally:
        if not given.keep:
            shutil.rmtree(WORK / "storage", ignore_errors=True)


if __name__ == "__main__":
    main()
