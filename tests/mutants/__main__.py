"""Whether the tests find small faults: each patch in `patches/` is one, drawn over the code.

    python -m tests.mutants [--only NAME ...] [--named] [--tree FOLDER] [--jobs 2]

Each mutant is a copy of the checkout with one patch. The tests that the patch names run first, then those of its
folder, up to the first that fails. A mutant that no test fails for survives: a test is missing, or the fault is none.
The named tests first run on a copy without a patch, where all must pass.
"""

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record import write

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).parent / "patches"
COPIED = ("app", "benchmarks", "deploy", "docs", "examples", "models", "riparian", "supply", "tests", "topics")
UNSHRUNK = "tests.mutants.unshrunk"
# A mutant that hangs is found: by the CPU of the tests that it names, and by the time of those of its folder.
CPU_SECONDS, TIMEOUT_SECONDS = 120, 900.0


class Mutant(NamedTuple):
    """A patch.

    name : of its file. file : what it changes. tests : those that it names, which find it, as arguments of pytest.
    """

    name: str
    file: str
    tests: list[str]

    @property
    def path(self) -> Path:
        return PATCHES / f"{self.name}.patch"

    @property
    def folder(self) -> str:
        """The folder of tests for the changed file."""
        return f"tests/{self.file.split('/')[0]}"


def mutants() -> list[Mutant]:
    """All patches, by name."""
    found = []
    for path in sorted(PATCHES.glob("*.patch")):
        lines = path.read_text().splitlines()
        tests = lines[0].removeprefix("Tests: ").split()
        file = next(line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/"))
        found.append(Mutant(path.stem, file, tests))
    return found


def apply(mutant: Mutant, tree: Path, *, check: bool = False) -> None:
    """Change the file in a tree; RuntimeError where the patch does not fit. check : change nothing."""
    command = ["git", "apply", "-C1", *(["--check"] if check else []), str(mutant.path)]
    done = subprocess.run(
        command, cwd=tree, capture_output=True, text=True, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree)}
    )
    if done.returncode:
        raise RuntimeError(f"{mutant.path.name} does not fit {mutant.file}: {done.stderr.strip()}")


def copy(tree: Path, folder: Path) -> Path:
    """A copy of what tests need of a checkout."""
    target = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in COPIED:
        if (tree / name).exists():
            shutil.copytree(tree / name, target / name, symlinks=True, ignore=ignored)
    for file in tree.glob("*.*"):
        if file.is_file():
            shutil.copy2(file, target / file.name)
    return target


def run(tests: Sequence[str], tree: Path, cpu_seconds: int = resource.RLIM_INFINITY) -> str:
    """Run tests in a tree up to the first failure: what it was, "hangs", or empty where all pass. RuntimeError where
    somebody kills them. cpu_seconds : that their process may take."""
    there = [test for test in tests if (tree / test.split("::")[0]).exists()]
    if not there:
        return ""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", UNSHRUNK]
    environment = {**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(tree.parent / "kernels")}
    process = subprocess.Popen(
        [*command, *there], cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, resource.RLIM_INFINITY)),
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return "hangs"
    if process.returncode == -signal.SIGXCPU:
        return "hangs"
    if process.returncode == -signal.SIGKILL:
        raise RuntimeError(f"{' '.join(there)}: killed from outside, as where memory is short; use fewer --jobs")
    if process.returncode in (0, 5):  # 5: no tests were collected
        return ""
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (failed or output.splitlines()[-1:] or ["failed"])[0][:200]


def link_kernels(folder: Path) -> None:
    """Begin with the kernels that are compiled already, and leave this user's cache without those of mutants."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riparian"
    if kept.is_dir():
        shutil.copytree(kept, folder / "kernels", copy_function=os.link, dirs_exist_ok=True)


def killed(mutant: Mutant, tree: Path, *, named: bool) -> dict[str, Any]:
    """Whether a test fails for a mutant, which one, and in how many seconds."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="riparian-mutant-", dir=tree.parent) as name:
        target = copy(tree, Path(name))
        apply(mutant, target)
        link_kernels(Path(name))
        failed = run(mutant.tests, target, CPU_SECONDS)
        if failed == "hangs" and run(mutant.tests, copy(tree, Path(name) / "unchanged"), CPU_SECONDS):
            raise RuntimeError(f"{' '.join(mutant.tests)}: too slow without a mutant, where kernels are compiled anew")
        if not failed and not named:
            failed = run([mutant.folder], target)
    return {"file": mutant.file, "killed": bool(failed), "by": failed, "seconds": round(time.monotonic() - begun, 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="mutants whose names begin like this")
    parser.add_argument("--named", action="store_true", help="run the tests that patches name, and no others")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to change copies of")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once")
    options = parser.parse_args(arguments)
    tree = options.tree.resolve()
    chosen = [one for one in mutants() if not options.only or one.name.startswith(tuple(options.only))]
    with tempfile.TemporaryDirectory(prefix="riparian-mutant-", dir=tree.parent) as name:
        target = copy(tree, Path(name))
        link_kernels(Path(name))
        failed = run(sorted({test for one in chosen for test in one.tests}), target)
    if failed:
        print(f"The tests fail without a mutant, so they find none: {failed}", file=sys.stderr)
        return 1
    found: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda one: killed(one, tree, named=options.named), chosen)
        for i, (one, result) in enumerate(zip(chosen, results, strict=True), 1):
            found[one.name] = result
            what = "killed" if result["killed"] else "SURVIVED"
            print(f"{i}/{len(chosen)} {one.name}: {what} in {result['seconds']:.0f} s {result['by']}", flush=True)
    n = sum(result["killed"] for result in found.values())
    print(f"{n} of {len(found)} killed")
    path = write("mutants", {"n": len(found), "killed": n, "mutants": found})
    print(f"Written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
